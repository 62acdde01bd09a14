// Pointwise functions over all inputs.
#include <gtest/gtest.h>

#include "generators/numerics.h"

namespace atalla {
namespace {

TEST(Numerics, EveryFunctionIsWithinThreeUlpsOfFloat64) {
    const Machine machine = find_machine("ax01");
    for (const std::string &expression : numerics_expressions()) {
        const NumericsRow row = measure_numerics(expression, machine);
        EXPECT_LE(row.worst_ulps, 3.0) << expression << " at " << testing::PrintToString(row.worst_at);
        // No lane operation tells -0 from +0: dividing by it gives +inf.
        const bool divides = expression.starts_with("div(x, y") || expression.starts_with("reciprocal") ||
                             expression.starts_with("rsqrt") || expression == "pow(x, -1)" || expression == "pow(x, -0.5)";
        if (divides) {
            if (row.wrong_special > 0) {
                EXPECT_EQ(row.wrong_at.back(), 0) << expression;
            }
        } else {
            EXPECT_EQ(row.wrong_special, 0) << expression << " at " << testing::PrintToString(row.wrong_at);
        }
    }
}

TEST(Numerics, BoundsThatAreNaNGiveNaN) {
    const Machine machine = find_machine("ax01");
    for (const char *expression : {"clamp(x, min=nan)", "clamp(x, max=nan, min=0)", "hardtanh(x, min_val=nan)"})
        EXPECT_EQ(measure_numerics(expression, machine).wrong_special, 0) << expression;
}

// To Halide both zeros are one constant.
TEST(Numerics, AChosenMinusZeroKeepsItsSign) {
    const Machine machine = find_machine("ax01");
    for (const char *expression : {"where(gt(x, 0), x, -0)", "where(gt(x, 0), -0, x)", "masked_fill(x, gt(x, 0), -0)"})
        EXPECT_EQ(measure_numerics(expression, machine).wrong_special, 0) << expression;
}

// A zero has an infinite inverse, whose sign is known here, and numbers at both ends of the range have one that is no normal
// number.
TEST(Numerics, NumbersDivideAtBothEndsOfTheRange) {
    const Machine machine = find_machine("ax01");
    for (const char *expression :
         {"div(x, 0)", "div(x, -0)", "div(x, inf)", "div(x, 3e38)", "div(x, -1.2e38)", "div(x, 1e-39)", "div(x, -2e-40)"}) {
        const NumericsRow row = measure_numerics(expression, machine);
        EXPECT_EQ(row.wrong_special, 0) << expression << " at " << testing::PrintToString(row.wrong_at);
        EXPECT_LE(row.worst_ulps, 1.01) << expression << " at " << testing::PrintToString(row.worst_at);
    }
}

// The adder would bound these functions if they were made of halves.
TEST(Numerics, FunctionsOfExponentialsTakeFewAdditions) {
    const Machine machine = find_machine("ax01");
    for (const auto &[expression, adds] : std::initializer_list<std::pair<const char *, int>>{
             {"sigmoid(x)", 8}, {"silu(x)", 9}, {"mish(x)", 9}, {"tanh(x)", 10}, {"gelu(x, approximate=tanh)", 22}})
        EXPECT_LE(measure_numerics(expression, machine).work.work.adds, adds) << expression;
}

}  // namespace
}  // namespace atalla
