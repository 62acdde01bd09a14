// Every operator of the registry, at its example's shapes: both timing models count the same cycles and give the same results.
#include <gtest/gtest.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"

namespace atalla {
namespace {

class TimingModels : public testing::TestWithParam<std::string> {};

TEST_P(TimingModels, AgreeOnEveryOperator) {
    const Machine machine = find_machine(GetParam());
    for (const Operator *op : operators()) {
        const std::shared_ptr<const Workload> workload = op->workload({});
        const Evaluator evaluator(workload, machine);
        KernelDefinition tensors;
        tensors.inputs = workload->inputs();
        tensors.outputs = workload->outputs();
        Random random(7);
        for (const Point &point : sample_distinct(workload->space(machine), 2, random)) {
            SCOPED_TRACE(op->name() + " " + workload->title() + " at " + point.assignments());
            codegen::CompiledKernel compiled;
            try {
                compiled = evaluator.compile(point);
            } catch (const std::exception &) {
                continue;   // a point that cannot be compiled is no kernel; the operators' own tests say which may not
            }
            const auto run = [&](TimingModel model) {
                return run_kernel(tensors, compiled, machine, evaluator.inputs(DataSet::Normal), {.model = model, .per_packet = true});
            };
            const KernelRun fast = run(TimingModel::Fast), reference = run(TimingModel::Reference);
            EXPECT_EQ(fast.result.rule, reference.result.rule) << fast.result.error << reference.result.error;
            EXPECT_EQ(fast.result.counters, reference.result.counters);
            EXPECT_EQ(fast.result.packet_issues, reference.result.packet_issues);
            EXPECT_EQ(fast.result.packet_stalls, reference.result.packet_stalls);
            EXPECT_EQ(fast.outputs, reference.outputs);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Machines, TimingModels, testing::Values("ax01", "ax01-psum", "ax01-measured"),
                         [](const auto &one) { return std::string(one.param == "ax01" ? "ax01" : one.param == "ax01-psum" ? "psum" : "measured"); });

}  // namespace
}  // namespace atalla
