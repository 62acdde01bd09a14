#include "tools/kernel_notes.h"

#include <algorithm>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/disassembler.h"
#include "isa/error.h"
#include "tools/shapes.h"

namespace atalla {

namespace {

WorkloadArguments arguments_of(const ModelGemm &gemm) {
    return {{"m", std::to_string(gemm.m)},
            {"n", std::to_string(gemm.n)},
            {"k", std::to_string(gemm.k)},
            {"bias", gemm.bias ? "true" : "false"},
            {"b-layout", gemm.b == ModelGemm::Layout::NK ? "nk" : "kn"}};
}

}  // namespace

std::vector<Machine> known_machines() {
    std::vector<Machine> machines;
    for (const std::string &name : shipped_machines()) machines.push_back(find_machine(name));
    return machines;
}

DescribeKernel kernel_describer(std::vector<Machine> machines) {
    return [machines = std::move(machines), compiler = compiler_fingerprint()](const TrialKey &key, const StoredTrial *winner,
                                                                               bool with_program) {
        KernelNotes notes;
        const std::shared_ptr<const Workload> workload = find_operator(key.op).parse(key.workload);
        notes.title = workload->title();
        notes.flops = workload->flops();
        const auto machine = std::ranges::find(machines, key.machine, &Machine::fingerprint);
        if (machine == machines.end()) return notes;
        const Bound bound = workload->bound(*machine);
        notes.bound_by = bound.binding;
        notes.bound_terms = bound.terms;
        if (winner == nullptr || key.compiler != compiler) return notes;
        notes.words = schedule_words(*workload, *machine, winner->trial.point);
        if (with_program) notes.program = disassemble(Evaluator(workload, *machine).compile(winner->trial.point).program);
        return notes;
    };
}

SiteModel site_model(const std::filesystem::path &shapes_file) {
    const ModelShapes shapes = read_model_shapes(shapes_file);
    SiteModel model = {shapes.model, shapes.source, {}};
    const Operator &op = find_operator("gemm");
    for (const ModelGemm &gemm : shapes.gemms) {
        SiteLayer layer;
        layer.name = gemm.name;
        layer.count = gemm.count;
        layer.op = op.name();
        try {
            layer.workload = op.workload(arguments_of(gemm))->text();
        } catch (const Error &error) {
            layer.problem = error.what();
        }
        model.layers.push_back(std::move(layer));
    }
    return model;
}

}  // namespace atalla
