#include "tools/library_build.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "tools/independent_items.h"

namespace atalla {

namespace {

std::vector<LibraryTensor> tensors_of(const std::vector<TensorSpec> &specs) {
    std::vector<LibraryTensor> tensors;
    for (const TensorSpec &spec : specs) tensors.push_back({spec.name, spec.extents});
    return tensors;
}

LibraryKernel compiled(const ListedWorkload &listed, const Machine &machine, const StoredTrial &winner) {
    const Evaluator evaluator(listed.workload, machine);
    LibraryKernel kernel;
    kernel.op = listed.op->name();
    kernel.workload = listed.workload->text();
    kernel.point = winner.trial.point.text();
    kernel.cycles = winner.trial.cycles;
    kernel.bound_cycles = listed.workload->bound(machine).cycles;
    kernel.inputs = tensors_of(listed.workload->inputs());
    kernel.outputs = tensors_of(listed.workload->outputs());
    if (const nlohmann::json workload = nlohmann::json::parse(kernel.workload); workload.contains("tensors")) {
        std::vector<std::vector<int64_t>> shapes;
        for (const nlohmann::json &tensor : workload["tensors"]) shapes.push_back(tensor.at(1).get<std::vector<int64_t>>());
        IndependentItems found = independent_items(*listed.workload, machine, shapes);
        kernel.items = found.items;
        kernel.sliced = std::move(found.sliced);
    }
    const codegen::CompileOptions options;
    kernel.parameters = options.parameter_block;
    const Program program = evaluator.compile(winner.trial.point, options).program;
    kernel.program.packets = program.packets;
    kernel.program.data = program.data;
    kernel.run = winner.run;
    kernel.recorded = winner.when;
    return kernel;
}

// Why there is no winner for just this machine and compiler.
std::string why_missing(const ListedWorkload &listed, const TrialKey &key, const Machine &machine, const Database &database) {
    const std::string what = fmt::format("{} {}", listed.op->name(), listed.workload->title());
    for (const StoredTrial &other : database.related_winners(key)) {
        if (other.key.machine == key.machine)
            return fmt::format("{}: the winner is stale, made by compiler {} and this is {}: tune it again", what,
                               other.key.compiler, key.compiler);
    }
    return fmt::format("{}: not tuned on {}", what, machine.name);
}

}  // namespace

BuiltLibrary build_library(const WorkloadList &list, const Machine &machine, const Database &database,
                           const std::function<void(int64_t)> &progress) {
    BuiltLibrary built;
    built.library.machine = machine;
    built.library.compiler = compiler_fingerprint();
    std::vector<std::optional<StoredTrial>> winners;
    for (const ListedWorkload &listed : list.workloads) {
        const TrialKey key{listed.op->name(), listed.workload->text(), machine.fingerprint(), built.library.compiler};
        winners.push_back(database.winner(key));
        if (!winners.back()) built.missing.push_back(why_missing(listed, key, machine, database));
    }
    const auto size = static_cast<int64_t>(winners.size());
    std::vector<std::optional<LibraryKernel>> kernels(winners.size());
    std::vector<std::string> failures(winners.size());
    std::atomic<int64_t> done = 0;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < size; i++) {
        const auto at = static_cast<size_t>(i);
        if (!winners[at]) continue;
        try {
            kernels[at] = compiled(list.workloads[at], machine, *winners[at]);
        } catch (const std::exception &error) {
            failures[at] =
                fmt::format("{} {}: {}", list.workloads[at].op->name(), list.workloads[at].workload->title(), error.what());
        }
        if (progress) progress(++done);
    }
    for (size_t i = 0; i < kernels.size(); i++) {
        if (kernels[i]) built.library.kernels.push_back(std::move(*kernels[i]));
        if (!failures[i].empty()) built.missing.push_back(failures[i]);
    }
    return built;
}

WorkloadList workloads_of_database(const Database &database, const Machine &machine) {
    WorkloadList list;
    // Those of other compilers too: build_library() names what is stale.
    for (const KeySummary &key : database.list({{}, {}, machine.fingerprint(), {}, {}})) {
        if (!key.winner) continue;
        try {
            const Operator &op = find_operator(key.key.op);
            std::shared_ptr<const Workload> workload = op.parse(key.key.workload);
            list.add({&op, workload, op.name() + " " + workload->shape(), 1});
        } catch (const Error &error) {
            list.problems.push_back(fmt::format("{} {}: {}", key.key.op, key.key.workload, error.what()));
        }
    }
    return list;
}

std::string check_kernel(const KernelLibrary &library, const LibraryKernel &kernel) {
    try {
        const std::shared_ptr<const Workload> workload = find_operator(kernel.op).parse(kernel.workload);
        // A functional machine aborts where a scalar sum of large values overflows, and only the unoptimized program tells
        // whether that is right.
        const DataSet special = library.machine.timed() ? DataSet::Special : Evaluator(workload, library.machine).special_set();
        for (const DataSet set : {DataSet::Normal, special}) {
            const std::vector<TensorData> inputs = random_inputs(workload->inputs(), set, 1);
            const LibraryRun run = run_kernel(library, kernel, inputs);
            if (set == DataSet::Normal && run.cycles != kernel.cycles)
                return fmt::format("takes {} cycles, not {}", run.cycles, kernel.cycles);
            const std::vector<TensorData> wanted = workload->host_result(library.machine, inputs);
            const std::vector<TensorSpec> outputs = workload->outputs();
            for (size_t i = 0; i < outputs.size(); i++)
                if (std::string differs = difference(outputs[i], run.outputs[i], wanted[i]); !differs.empty()) return differs;
        }
        return "";
    } catch (const std::exception &error) {
        return error.what();
    }
}

}  // namespace atalla
