#include "tools/tune_list.h"

#include <algorithm>

#include <fmt/format.h>

#include "autotune/operator_task.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "tools/arranged.h"
#include "tools/shapes.h"

namespace atalla {

void WorkloadList::add(ListedWorkload listed) {
    const std::string text = listed.workload->text();
    const auto known = std::find_if(workloads.begin(), workloads.end(), [&](const ListedWorkload &one) {
        return one.op == listed.op && one.workload->text() == text;
    });
    if (known == workloads.end())
        workloads.push_back(std::move(listed));
    else
        known->count += listed.count;
}

WorkloadList workloads_of_shapes(const std::filesystem::path &file) {
    const Operator &op = find_operator("gemm");
    WorkloadList list;
    for (const ModelGemm &gemm : read_shapes(file)) {
        const WorkloadArguments sizes = {{"m", std::to_string(gemm.m)},
                                         {"n", std::to_string(gemm.n)},
                                         {"k", std::to_string(gemm.k)},
                                         {"bias", gemm.bias ? "true" : "false"},
                                         {"b-layout", gemm.b == ModelGemm::Layout::NK ? "nk" : "kn"}};
        try {
            list.add({&op, op.workload(sizes), gemm.name, gemm.count});
        } catch (const Error &error) {
            list.problems.push_back(fmt::format("{}: {}", gemm.name, error.what()));
        }
    }
    return list;
}

WorkloadList workloads_of_all_operators(const Machine &machine, const std::filesystem::path &database) {
    WorkloadList list;
    for (const Operator *op : operators()) {
        try {
            const ArrangedWorkload one = arranged(*op, op->workload({}), {}, machine, database);
            list.add({op, one.workload, op->name() + " " + one.workload->shape(), 1, one.note});
        } catch (const Error &error) {
            list.problems.push_back(fmt::format("{}: {}", op->name(), error.what()));
        }
    }
    return list;
}

ScheduleResult tune_list(WorkloadList &list, const Machine &machine, Database &database, ScheduleOptions options, bool again,
                         const std::function<void(const ListedWorkload &, const Tuned &)> &done) {
    std::vector<Tuned> tuned(list.workloads.size());
    std::vector<ScheduledTask> tasks;
    options.each.max_trials =
        options.max_trials > 0
            ? std::max<int64_t>(8 * options.max_trials / static_cast<int64_t>(std::max<size_t>(list.workloads.size(), 1)),
                                options.each.batch)
            : 0;
    for (size_t i = 0; i < list.workloads.size(); i++) {
        const ListedWorkload &listed = list.workloads[i];
        if (again)
            database.prune({listed.op->name(), listed.workload->text(), machine.fingerprint(), compiler_fingerprint(), {}});
        tasks.push_back({listed.name, listed.count, listed.workload->bound(machine).cycles, [&, i] {
                             tuned[i] = prepare(*list.workloads[i].op, list.workloads[i].workload, machine);
                             return std::make_unique<TuningTask>(tuning_task(*tuned[i].op, tuned[i].evaluator));
                         }});
    }
    const auto winner = [&](size_t i, const ScheduledResult &outcome) {
        const ListedWorkload &listed = list.workloads[i];
        if (!outcome.problem.empty()) {
            list.problems.push_back(fmt::format("{}: {}", listed.name, outcome.problem));
        } else if (outcome.batches == 0) {
            list.problems.push_back(
                fmt::format("{}: the budget did not reach it; the same command with a larger --budget goes on", listed.name));
        } else {
            try {
                complete(tuned[i], outcome.result, database);
                done(listed, tuned[i]);
            } catch (const Error &error) {
                list.problems.push_back(error.what());
            }
        }
        tuned[i] = {};  // its tensors are large
    };
    return tune_all(tasks, &database, options, winner);
}

std::string gain_text(const WorkloadList &list, const ScheduleResult &result) {
    const auto found =
        std::count_if(result.tasks.begin(), result.tasks.end(), [](const ScheduledResult &one) { return one.result.found; });
    std::string text = fmt::format("tuned {} of {} workloads with {} trials in {:.1f} s: ", found, list.workloads.size(),
                                   result.trials, result.seconds);
    text += fmt::format("{} cycles in all, counted as often as they occur", result.cycles);
    if (result.cycles > 0)
        text += fmt::format("; {:.2f} times as fast as the draft's first choices",
                            static_cast<double>(result.first_cycles) / static_cast<double>(result.cycles));
    return text;
}

}  // namespace atalla
