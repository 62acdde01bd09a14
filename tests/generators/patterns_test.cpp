// Pointwise operators whose result is one run that meets patterns of operands without outer dimensions.
#include <gtest/gtest.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/generators/kernel_check.h"

namespace atalla {
namespace {

Space runs_of(const Workload &workload, const Machine &machine) {
    return restrict_to(workload.space(machine), {{"joined", 1}});
}
bool may_be_a_run(const Workload &workload, const Machine &machine) {
    for (const Parameter &parameter : workload.space(machine).parameters)
        if (parameter.name == "joined") return true;
    return false;
}

// Rows that begin in any lane, shorter than a vector, of whole vectors, longer than a block; several operands, planes, what is
// computed of a row once, single numbers; a rest of some vectors, and one inside a vector.
TEST(Patterns, RunsGiveTheSameBits) {
    Random random(1);
    const auto check = [&](const std::string &op, const std::string &shape, const char *machine_name = "ax01") {
        const Machine machine = find_machine(machine_name);
        const std::shared_ptr<const Workload> workload = find_operator(op).workload({{"shape", shape}});
        const Evaluator evaluator(workload, machine);
        ASSERT_TRUE(may_be_a_run(*workload, machine)) << op << " " << shape;
        constexpr size_t points = 2;
        for (const Point &point : sample_distinct(runs_of(*workload, machine), points, random)) {
            EXPECT_EQ(evaluator.verify(point), "") << op << " " << shape << " at " << point.assignments();
            EXPECT_GE(evaluator.evaluate(point).cycles, workload->bound(machine).cycles)
                << op << " " << shape << " at " << point.assignments();
        }
    };
    check("add", "41x1000,1000");
    check("sub", "197x197,197");
    check("mul", "3001x3,3");
    check("add", "900x10,10", "ax01-psum");
    check("div", "300x50,50");
    check("add", "67x192,192");
    check("mul", "5x48x136,48x136");
    check("masked_fill", "150x9x21,1x9x21,1");
    check("where", "2x80x100,100,2x80x100");
    check("relu(add(mul(x, y), z))", "200x100,100,100", "ax01-psum");
    check("rsub", "3x40x1004,1004");
    // Images that begin in any lane, whose last block begins earlier, which are one block, and of whole rounds of the pads; two
    // operands of each.
    check("add", "3x93x100,93x100");
    check("masked_fill", "4x65x65,1x65x65,1");
    check("sub", "2x40x128,40x128");
    check("relu(add(mul(x, y), z))", "3x77x77,1x77x77,77x77", "ax01-psum");
}

// Infinities, NaN, zeros of both signs and denormals: the bits of rows apart, and of the unoptimized program, with nothing
// touched outside the tensors.
TEST(Patterns, AnyValues) {
    const Machine machine = find_machine("ax01");
    std::mt19937 values(1);
    Random random(2);
    for (const auto &[op, shape] : std::vector<std::pair<const char *, const char *>>{
             {"mul", "200x77,77"}, {"add", "1500x3,3"}, {"sub", "2x65x65,65x65"}}) {
        const auto workload = find_operator(op).workload({{"shape", shape}});
        const auto kernel_of = [&](int64_t joined) {
            const auto point = sample(restrict_to(workload->space(machine), {{"joined", joined}}), random);
            return workload->build(machine, point.value());
        };
        const KernelDefinition run = kernel_of(1), apart = kernel_of(0);
        std::vector<TensorData> inputs;
        for (const TensorSpec &tensor : run.inputs) inputs.push_back(random_patterns(tensor, values));
        const std::vector<TensorData> expected = run_checked(apart, machine, true, inputs);
        for (const bool optimize : {true, false}) expect_equal(run, run_checked(run, machine, optimize, inputs), expected, op);
    }
}

// Rows of two lengths of which one is an image, short images, operands without a dimension in the middle, few elements,
// machines without room.
TEST(Patterns, OthersAreNoRuns) {
    const auto refused = [](const char *op, const char *shape, const char *machine = "ax01") {
        EXPECT_FALSE(may_be_a_run(*find_operator(op).workload({{"shape", shape}}), find_machine(machine)))
            << op << " " << shape;
    };
    refused("add", "4096x32,4096x32");
    refused("where", "3x77x77,77x77,77");
    refused("add", "64x49x49,1x49x49");
    refused("add", "64x8x50,64x1x50");
    refused("where", "64x64x64,64,64x64x1");
    refused("add", "16x10,10");
    refused("add", "2x70x70,70x70", "fsim");
    refused("add", "197x197,197", "fsim");
}

// Long rows that begin in any lane, rows of a few elements, images.
TEST(Patterns, RunsTakeLessTime) {
    const Machine machine = find_machine("ax01");
    for (const auto &[op, shape] : std::vector<std::pair<const char *, const char *>>{
             {"add", "200x1000,1000"}, {"mul", "20000x3,3"}, {"add", "12x77x77,1x77x77"}}) {
        const std::shared_ptr<const Workload> workload = find_operator(op).workload({{"shape", shape}});
        const Evaluator evaluator(workload, machine);
        const auto best = [&](int64_t joined) {
            Point found;
            for_each(restrict_to(workload->space(machine), {{"joined", joined}}), [&](const Point &point) {
                if (found.empty() || workload->draft(machine, point) < workload->draft(machine, found)) found = point;
                return true;
            });
            return found;
        };
        const Point run = best(1), apart = best(0);
        EXPECT_LT(workload->draft(machine, run), workload->draft(machine, apart)) << op << " " << shape;
        EXPECT_LT(evaluator.evaluate(run).cycles, evaluator.evaluate(apart).cycles) << op << " " << shape;
    }
}

}  // namespace
}  // namespace atalla
