// Every operator of the registry, at a small version of its example: both timing models count the same cycles and give
// the same results.
#include <gtest/gtest.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/support/settings.h"

namespace atalla {
namespace {

// Large sizes become small ones, equal ones equal ones, and what tells a kernel, an axis or a stride stays.
std::string small_sizes(const std::string &text) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
        size_t end = at;
        while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) end++;
        if (end == at) {
            result += text[at++];
            continue;
        }
        const int64_t size = std::stoll(text.substr(at, end - at));
        result += std::to_string(size <= 16 ? size : 32 + size % 16);
        at = end;
    }
    return result;
}

WorkloadArguments small_example(const Operator &op) {
    WorkloadArguments arguments = op.example();
    for (auto &[name, value] : arguments)
        if (name == "shape" || name == "size") value = small_sizes(value);
    return arguments;
}

void expect_agreement(const Operator &op, const Machine &machine, uint64_t points) {
    const std::shared_ptr<const Workload> workload = op.workload(small_example(op));
    const Evaluator evaluator(workload, machine);
    KernelDefinition tensors;
    tensors.inputs = workload->inputs();
    tensors.outputs = workload->outputs();
    Random random(7);
    constexpr uint64_t spare = 8;  // points that cannot be compiled are no kernels; the operators' own tests say which may not
    uint64_t compared = 0;
    for (const Point &point : sample_distinct(workload->space(machine), spare * points, random)) {
        if (compared == points) break;
        SCOPED_TRACE(op.name() + " " + workload->title() + " on " + machine.name + " at " + point.assignments());
        codegen::CompiledKernel compiled;
        try {
            compiled = evaluator.compile(point);
        } catch (const std::exception &) {
            continue;
        }
        compared++;
        const auto run = [&](TimingModel model) {
            return run_kernel(tensors, compiled, machine, evaluator.inputs(DataSet::Normal),
                              {.model = model, .per_packet = true});
        };
        const KernelRun fast = run(TimingModel::Fast), reference = run(TimingModel::Reference);
        EXPECT_EQ(fast.result.rule, reference.result.rule) << fast.result.error << reference.result.error;
        EXPECT_EQ(fast.result.counters, reference.result.counters);
        EXPECT_EQ(fast.result.packet_issues, reference.result.packet_issues);
        EXPECT_EQ(fast.result.packet_stalls, reference.result.packet_stalls);
        EXPECT_EQ(fast.outputs, reference.outputs);
    }
    EXPECT_GT(compared, 0u) << op.name() << " on " << machine.name << ": no kernel to compare";
}

TEST(TimingModels, AgreeOnEveryOperator) {
    const Machine machine = find_machine(test_machine());
    for (const Operator *op : operators()) expect_agreement(*op, machine, static_cast<uint64_t>(test_rounds(1)));
}

}  // namespace
}  // namespace atalla
