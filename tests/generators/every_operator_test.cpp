// Every operator of the registry at random shapes and schedules on one machine: bit for bit equal to the unoptimized program,
// within the stated error of float64, never faster than the bound, with guard values around every tensor. What each operator
// really had is printed. Tensors are dense: no operator takes others.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "tests/generators/random_workloads.h"
#include "tests/generators/sampled_point.h"
#include "tests/support/settings.h"

namespace atalla {
namespace {

const int rounds = test_rounds(1);
// What moves data and what broadcasts has more ways to be wrong in its sizes than in its arithmetic, and is quick.
const int rounds_of_movement = std::max(rounds, 5), rounds_of_expressions = std::max(rounds, 6);

struct Tally {
    int shapes = 0;
    std::string refused;  // why there are not more
};

class EveryOperator : public testing::Test {
protected:
    const Machine machine = find_machine(test_machine());

    // So many different workloads, or as many as a few times that many draws give.
    Tally check(const Operator &op, const ArgumentsOf &arguments_of, int wanted) {
        constexpr int draws_each = 5;
        uint64_t seed = test_seed();
        for (const char c : op.name() + machine.name) seed = 31 * seed + static_cast<unsigned char>(c);
        Random random(seed);
        RandomSizes sizes(random, !machine.timed());
        Tally tally;
        std::set<std::string> seen;
        for (int draw = 0; draw < draws_each * wanted && tally.shapes < wanted; draw++) {
            std::shared_ptr<const Workload> workload;
            try {
                workload = op.workload(arguments_of(sizes));
            } catch (const Error &error) {
                tally.refused = error.what();
                continue;
            }
            if (!seen.insert(workload->text()).second) continue;
            SCOPED_TRACE(fmt::format("{} {}", op.name(), workload->title()));
            if (!sample(workload->space(machine), random)) {
                tally.refused = fmt::format("{}: no schedule fits the machine", workload->title());
                continue;
            }
            EXPECT_EQ(op.parse(workload->text())->text(), workload->text());
            const Evaluator evaluator(workload, machine, seed % 1000 + static_cast<uint64_t>(draw));
            if (check_sampled_point(*workload, machine, evaluator, random))
                tally.shapes++;
            else
                tally.refused = fmt::format("{} failed", workload->title());
        }
        return tally;
    }
};

// A test for each: --gtest_filter=*/conv2d runs one.
class OfTheRegistry : public EveryOperator, public testing::WithParamInterface<const Operator *> {};

TEST_P(OfTheRegistry, AtRandomShapes) {
    const Operator &op = *GetParam();
    const auto found = random_arguments().find(op.name());
    ASSERT_TRUE(found != random_arguments().end() || op.card().family == "pointwise")
        << op.name() << " has no random shapes: random_workloads.cpp";
    const ArgumentsOf arguments = found != random_arguments().end() ? found->second : [&op](RandomSizes &sizes) {
        return pointwise_arguments(op, sizes);
    };
    const int wanted = op.card().family == "data movement" ? rounds_of_movement : rounds;
    const Tally tally = check(op, arguments, wanted);
    EXPECT_EQ(tally.shapes, wanted) << op.name() << ": " << tally.refused;
    fmt::print("{} shapes verified on {}{}\n", tally.shapes, machine.name, tally.shapes < wanted ? ": " + tally.refused : "");
}

INSTANTIATE_TEST_SUITE_P(EveryOperator, OfTheRegistry, testing::ValuesIn(operators()),
                         [](const auto &info) { return info.param->name(); });

// Chains of pointwise operators are one kernel; operands of two lack dimensions.
TEST_F(EveryOperator, InExpressions) {
    for (const char *expression :
         {"add", "mul", "sub", "maximum", "minimum", "add(x, mul(y, 0.5))", "relu(sub(x, y))", "gelu(add(x, mul(y, 0.5)))"}) {
        const Operator &op = find_operator(expression);
        const Tally tally = check(
            op, [&](RandomSizes &sizes) { return pointwise_arguments(find_operator("add"), sizes); }, rounds_of_expressions);
        EXPECT_EQ(tally.shapes, rounds_of_expressions) << expression << ": " << tally.refused;
    }
}

// Products with what is in front of them and behind them.
TEST_F(EveryOperator, InProductExpressions) {
    for (const auto &[expression, arguments] : random_product_expressions()) {
        const Tally tally = check(find_operator(expression), arguments, rounds_of_expressions);
        EXPECT_EQ(tally.shapes, rounds_of_expressions) << expression << ": " << tally.refused;
    }
}

}  // namespace
}  // namespace atalla
