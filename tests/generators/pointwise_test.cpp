// Pointwise functions over all inputs, expressions, and what pointwise and data movement operators refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/expression.h"
#include "generators/numerics.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string &op, const WorkloadArguments &arguments) {
    return error_of([&] { find_operator(op).workload(arguments); });
}

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

TEST(Expression, CanonicalText) {
    const auto canonical = [](const std::string &text) { return parse_expression(text).text(); };
    EXPECT_EQ(canonical(" gelu( add(x,y) ,approximate = tanh )"), "gelu(add(x, y), approximate=tanh)");
    EXPECT_EQ(canonical("add(x, -2.50)"), "add(x, -2.5)");
    EXPECT_EQ(canonical("mul(x, 1e3)"), "mul(x, 1000)");
    EXPECT_EQ(canonical("conv2d(x, w, stride=[ 1, 2 ])"), "conv2d(x, w, stride=[1,2])");
    EXPECT_EQ(parse_expression("add(b, mul(a, b))").inputs(), (std::vector<std::string>{"b", "a"}));
    EXPECT_EQ(find_operator("relu( x )").name(), "relu(x)");
    EXPECT_EQ(&find_operator("relu( x )"), &find_operator("relu(x)"));
}

TEST(Expression, SaysWhereItIsWrong) {
    EXPECT_EQ(error_of([] { parse_expression("add(x, y"); }),
              "the expression 'add(x, y' is wrong after 'add(x, y': ',' or ')' is missing; an example: gelu(add(x, y))");
    EXPECT_THAT(error_of([] { parse_expression("add(x,)"); }), HasSubstr("a name or a number is missing"));
    EXPECT_THAT(error_of([] { parse_expression("conv2d(x, w, stride=[1,])"); }), HasSubstr("a number is missing"));
    EXPECT_THAT(error_of([] { parse_expression("conv2d(x, w, stride=[1 2])"); }), HasSubstr("',' or ']' is missing"));
    EXPECT_THAT(error_of([] { parse_expression("relu(x) y"); }), HasSubstr("nothing may follow"));
    EXPECT_EQ(error_of([] { find_operator("gellu(x)"); }), "'gellu' is no pointwise operator; did you mean 'gelu'?");
    EXPECT_EQ(error_of([] { find_operator("add(x)"); }), "add takes 2 operands, not 1");
    EXPECT_EQ(error_of([] { find_operator("gelu(x, approximate=erf)"); }), "gelu: approximate must be none or tanh, not 'erf'");
    EXPECT_THAT(error_of([] { find_operator("pow(x, 1.7)"); }), HasSubstr("pow: the exponent must be one of"));
    EXPECT_THAT(error_of([] { find_operator("softplus(x, beta=2)"); }), HasSubstr("softplus: beta must be 1"));
}

TEST(Expression, IsOneKernelWhoseTextIsReadBack) {
    const Operator &op = find_operator("gelu(add(x, mul(y, 0.5)))");
    const auto workload = op.workload({{"shape", "8x40,40"}});
    EXPECT_EQ(workload->inputs().size(), 2u);
    EXPECT_EQ(find_operator(op.name()).parse(workload->text())->text(), workload->text());
}

// Two of so many points run, take no fewer cycles than the bound, and give what the unoptimized program gives.
void verify_at_two_points(const char *text, const char *shape, const char *name, uint64_t points) {
    const Machine machine = find_machine(name);
    const Operator &op = find_operator(text);
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", shape}});
    EXPECT_EQ(op.parse(workload->text())->text(), workload->text());
    const Evaluator evaluator(workload, machine);
    Random random(3);
    int verified = 0;
    for (const Point &point : sample_distinct(workload->space(machine), points, random)) {
        const Evaluation evaluation = evaluator.evaluate(point);
        if (evaluation.status != Evaluation::Ok) continue;
        EXPECT_EQ(evaluator.verify(point), "") << text << " " << point.assignments();
        EXPECT_GE(evaluation.cycles, workload->bound(machine).cycles) << text;
        if (++verified == 2) break;
    }
    EXPECT_GT(verified, 0) << text << " on " << name;
}

TEST(ProductExpression, IsVerifiedAtSomePoints) {
    struct Case {
        const char *op, *shape;
    };
    for (const Case &c :
         {Case{"relu(add(linear(x, w, b), r))", "33x40,50x40,50,33x50"}, Case{"tanh(add(bmm(x, y), z))", "3x20x40,3x40x70,70"},
          Case{"mul(silu(linear(x, w)), z)", "1x64,96x64,96"}, Case{"hardtanh(mm(x, y), max_val=6, min_val=0)", "40x33,33x20"},
          Case{"relu(conv1x1(w, x, b))", "40x24x1x1,2x24x5x9,40"}, Case{"add(conv1x1(w, x), r)", "34x40x1,40x37,34x37"},
          Case{"mul(mm(x, y), c)", "40x33,33x70,40x1"}})
        for (const char *name : {"ax01", "fsim"}) verify_at_two_points(c.op, c.shape, name, 6);
}

// A product whose first operand is made by another, on sizes that end inside tiles. What it makes must fit the pads.
TEST(ProductExpression, OfAProductIsVerifiedAtSomePoints) {
    struct Case {
        const char *op, *shape;
    };
    for (const Case &c : {Case{"linear(gelu(linear(x, w1, b1)), w2, b2)", "33x40,50x40,50,70x50,70"},
                          Case{"mm(relu(mm(x, y)), z)", "5x33,33x40,40x20"},
                          Case{"addmm(c, silu(addmm(d, x, y, beta=0.5)), z, alpha=2)", "20,40,5x33,33x40,40x20"},
                          Case{"add(linear(linear(rms_norm(x, g), w1), w2), r)", "1x64,64,96x64,32x96,32"}})
        for (const char *name : {"ax01", "ax01-psum"}) verify_at_two_points(c.op, c.shape, name, 4);
    // Two pads of 32 rows have room for the weights of both products alone.
    const Space none =
        find_operator("linear(linear(x, w1), w2)").workload({{"shape", "2x32,32x32,32x32"}})->space(find_machine("fsim"));
    EXPECT_EQ(count(none), 0u);
    EXPECT_THAT(why_empty(none), HasSubstr("with all columns of the inner product's rows"));
}

// Each pad has half of every other page: of two pages and more, with several tensors, single numbers, and as few vectors as the
// code takes.
TEST(Pointwise, AllElementsAreInHalvesOfPages) {
    for (const char *name : {"ax01", "ax01-psum"}) {
        const Machine machine = find_machine(name);
        const auto check = [&](const char *op, const std::string &shape, int64_t elements,
                               std::initializer_list<int64_t> unrolls) {
            const Evaluator evaluator(find_operator(op).workload({{"shape", shape}}), machine);
            for (const int64_t unroll : unrolls) {
                const Point point = {{"block", elements}, {"unroll", unroll}, {"pads", 4}, {"parts", 3}};
                EXPECT_EQ(violation(evaluator.workload().space(machine), point), "") << op << " " << shape;
                EXPECT_EQ(evaluator.verify(point), "") << op << " " << shape << " on " << name << ", " << unroll << " unrolled";
            }
        };
        check("relu", "8192", 8192, {4, 16});
        check("relu", "24576", 24576, {2, 8, 32});
        check("exp", "32768", 32768, {16});
        check("add", "16384,16384", 16384, {8, 16});
        check("mul", "40960,1", 40960, {16});
        check("where", "16384,16384,1", 16384, {8});
        // Two transfers of 28 rows and of 24 instead of 32 for each pad.
        check("relu", "50176", 50176, {16});
        check("add", "12288,12288", 12288, {8});
        // Elements that would leave a rest, and blocks that are not all.
        EXPECT_NE(violation(find_operator("relu").workload({{"shape", "10240"}})->space(machine),
                            Point::parse("block=10240,pads=4,parts=3,unroll=8")),
                  "");
        EXPECT_NE(violation(find_operator("relu").workload({{"shape", "16384"}})->space(machine),
                            Point::parse("block=8192,pads=4,parts=3,unroll=8")),
                  "");
    }
}

// Operands without outer dimensions in pieces of two pages: they begin anew in each page, in parts of one, after two of them or
// more, or are a single number.
TEST(Pointwise, RowsBeginAnewInPages) {
    const Machine machine = find_machine("ax01");
    const auto point = [](int64_t block, int64_t pads) {
        return Point{{"block", block}, {"unroll", 16}, {"pads", pads}, {"parts", 2}};
    };
    const auto check = [&](const char *op, const char *shape, std::initializer_list<Point> points) {
        const Evaluator evaluator(find_operator(op).workload({{"shape", shape}}), machine);
        for (const Point &at : points) {
            EXPECT_EQ(violation(evaluator.workload().space(machine), at), "")
                << op << " " << shape << " at " << at.assignments();
            EXPECT_EQ(evaluator.verify(at), "") << op << " " << shape << " at " << at.assignments();
        }
    };
    check("mul", "8x4096,4096", {point(4, 4), point(8, 4), point(4, 2)});
    check("add", "16x2048,2048", {point(2, 4), point(1, 2)});
    check("mul", "16x1024,1024", {point(2, 4)});
    check("mul", "4x16384,16384", {point(4, 4)});
    check("where", "16x2048,2048,1", {point(2, 4)});
    check("mul", "3x16x512,16x512", {point(4, 4)});
    // Longer pieces than a row, rows that pages do not hold as wholes, and operands that begin anew at two distances.
    const auto refused = [&](const char *op, const char *shape, const Point &at) {
        EXPECT_NE(violation(find_operator(op).workload({{"shape", shape}})->space(machine), at), "") << op << " " << shape;
    };
    refused("mul", "16x2048,2048", point(4, 4));
    refused("mul", "16x1536,1536", point(4, 4));
    refused("where", "4x2x4096,4096,2x4096", point(4, 4));
    // A single element is no piece of two pages.
    refused("relu", "1", Point::parse("block=1,pads=4,parts=2,unroll=4"));
    // Few rows are blocks of pages alone.
    refused("mul", "16x2048,2048", Point::parse("block=2,pads=4,parts=0,unroll=16"));
    // Both bank groups are busy, which they are not where rows go round the pads.
    const Evaluator evaluator(find_operator("mul").workload({{"shape", "64x4096,4096"}}), machine);
    EXPECT_LT(evaluator.evaluate(point(4, 4)).cycles,
              evaluator.evaluate(Point::parse("block=16,pads=4,parts=0,unroll=32")).cycles);
}

// Side by side, the iterations of a long loop take so much code that the loop around it would come from memory each time.
TEST(Pointwise, LongLoopsStayInTheInstructionCache) {
    const Machine machine = find_machine("ax01");
    const auto workload = find_operator("gelu").workload({{"shape", "24x768"}});
    const KernelDefinition kernel = workload->build(machine, Point::parse("block=2048,pads=2,parts=1,unroll=8"));
    codegen::CompileOptions options;
    options.layouts = kernel.layouts;
    const codegen::CompiledKernel compiled = codegen::compile(kernel.pipeline, kernel.arguments, machine, options);
    const KernelRun run = run_kernel(kernel, compiled, machine, {TensorData(24 * 768)});
    ASSERT_TRUE(run.result.ok) << run.result.error;
    const size_t lines =
        compiled.program.packets.size() * static_cast<size_t>(packet_bytes) / static_cast<size_t>(machine.icache.line) + 1;
    EXPECT_LT(run.result.counters.icache_misses, 2 * lines);
}

// Numbers of rows: an input's own, what is computed of them, with blocks of some rows and of all, in parts and not, and where
// rows end inside a vector.
TEST(Pointwise, NumbersOfRowsGoIntoALoop) {
    const Machine machine = find_machine("ax01");
    const auto check = [&](const std::string &op, const std::string &shape, std::initializer_list<Point> points) {
        const std::shared_ptr<const Workload> workload = find_operator(op).workload({{"shape", shape}});
        const Evaluator evaluator(workload, machine);
        for (Point point : points)
            for (int64_t single : {0, 1}) {
                point.set("numbers", single);
                EXPECT_EQ(evaluator.verify(point), "") << op << " " << shape << " at " << point.assignments();
            }
    };
    check(
        "mul", "64x96,64x1",
        {{{"block", 32}, {"unroll", 4}, {"pads", 4}, {"parts", 0}}, {{"block", 64}, {"unroll", 8}, {"pads", 4}, {"parts", 1}}});
    check("batch_norm", "2x32x10x10,32,32,32,32",
          {{{"block", 32}, {"unroll", 4}, {"pads", 4}, {"parts", 0}},
           {{"block", 32}, {"unroll", 16}, {"pads", 2}, {"parts", 1}}});
    // Rows of five vectors that end inside the last one, each in one pad.
    check("batch_norm", "2x32x12x12,32,32,32,32",
          {{{"block", 32}, {"unroll", 16}, {"pads", 4}, {"parts", 1}},
           {{"block", 32}, {"unroll", 4}, {"pads", 2}, {"parts", 1}}});
    // Blocks that begin inside a vector of their row.
    check("rsub", "3x37x65,3x1x1", {{{"block", 3}, {"unroll", 32}, {"pads", 2}, {"parts", 0}}});
    // One number for all rows of a block.
    check("where", "2x31x1x37,2x1x1x1,2x31x1x1", {{{"block", 31}, {"unroll", 16}, {"pads", 2}, {"parts", 0}}});
    check("where", "5x2x3x64,5x2x1x1,5x2x1x64", {{{"block", 3}, {"unroll", 4}, {"pads", 1}, {"parts", 0}}});
    check("masked_fill", "7x54x3x2,7x1x1x2,7x54x1x1", {{{"block", 3}, {"unroll", 4}, {"pads", 1}, {"parts", 0}}});
}

// Rows that end inside vectors, or are long, as one run: vectors with numbers of one row and of two, in chunks that share them
// and that do not; blocks of several rows, of a part of one and of all; several images, of which some operands have one;
// numbers that are computed, missing, or different in each image.
TEST(Pointwise, RowsThatEndInsideVectorsAreARun) {
    const Machine machine = find_machine("ax01");
    Random random(1);
    const auto check = [&](const std::string &op, const std::string &shape) {
        const std::shared_ptr<const Workload> workload = find_operator(op).workload({{"shape", shape}});
        const Evaluator evaluator(workload, machine);
        const Space space = restrict_to(workload->space(machine), {{"joined", 1}});
        constexpr size_t points = 3;
        const std::vector<Point> sampled = sample_distinct(space, points, random);
        EXPECT_FALSE(sampled.empty()) << op << " " << shape;
        for (const Point &point : sampled) {
            EXPECT_EQ(evaluator.verify(point), "") << op << " " << shape << " at " << point.assignments();
            EXPECT_GE(evaluator.evaluate(point).cycles, workload->bound(machine).cycles)
                << op << " " << shape << " at " << point.assignments();
        }
    };
    check("batch_norm", "2x8x28x28,8,8,8,8");
    check("batch_norm", "2x16x14x14,16,16,-,16");
    check("mul", "1x32x7x7,1x32x1x1");
    check("mul", "2x6x20x20,1x6x1x1");
    check("add", "4x8x1x1,4x8x10x20");
    check("where", "4x20x20,4x1x1,2x4x20x20");
    check("relu(mul(sub(x, y), rsqrt(z)))", "1x8x20x20,8x1x1,8x1x1");
    // Long rows of whole vectors, which would come in parts.
    check("mul", "2x3x36x32,1x3x1x1");
    check("batch_norm", "1x4x56x56,4,4,4,4");
}

// Rows are a run only where whole vectors hold them, a vector has elements of two at most, and little code makes the vectors of
// numbers.
TEST(Pointwise, RowsThatAreNoRunStayApart) {
    const Machine machine = find_machine("ax01");
    for (const char *shape :
         {"2x1x28x28,1,1,1,1", "2x3x7x7,3,3,3,3", "1x63x7x7,63,63,63,63", "1x32x31x33,32,32,32,32", "1x64x7x7,64,64,64,64",
          "2x64x1x1,64,64,64,64", "2x64x3x5,64,64,64,64", "2x64x8x8,64,64,64,64", "2x64x32x32,64,64,64,64"}) {
        const auto workload = find_operator("batch_norm").workload({{"shape", shape}});
        for (const Parameter &parameter : workload->space(machine).parameters) EXPECT_NE(parameter.name, "joined") << shape;
    }
    const auto on_fsim = find_operator("batch_norm").workload({{"shape", "1x8x6x6,8,8,8,8"}});
    for (const Parameter &parameter : on_fsim->space(find_machine("fsim")).parameters) EXPECT_NE(parameter.name, "joined");
}

// The run that is best by the draft takes less time than rows apart do in the blocks that serve best there.
TEST(Pointwise, ARunTakesLessTime) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload =
        find_operator("batch_norm").workload({{"shape", "1x64x28x28,64,64,64,64"}});
    const Evaluator evaluator(workload, machine);
    Point best;
    for_each(workload->space(machine), [&](const Point &point) {
        if (best.empty() || workload->draft(machine, point) < workload->draft(machine, best)) best = point;
        return true;
    });
    EXPECT_EQ(best["joined"], 1) << best.assignments();
    EXPECT_LT(
        evaluator.evaluate(best).cycles,
        evaluator.evaluate({{"block", 64}, {"unroll", 16}, {"pads", 4}, {"parts", 1}, {"numbers", 0}, {"joined", 0}}).cycles);
}

// Operands without the middle dimension: blocks of whole planes, in parts and not, of which the last one begins earlier, and
// where rows end inside a vector.
TEST(Pointwise, BlocksOfSeveralPlanes) {
    const auto check = [&](const char *name, const std::string &shape, std::initializer_list<Point> points) {
        const std::shared_ptr<const Workload> workload = find_operator("mul").workload({{"shape", shape}});
        const Evaluator evaluator(workload, find_machine(name));
        for (const Point &point : points)
            EXPECT_EQ(evaluator.verify(point), "") << shape << " at " << point.assignments() << " on " << name;
        return evaluator.evaluate(*points.begin()).cycles;
    };
    const auto point = [](int64_t block, int64_t unroll, int64_t pads, int64_t parts) {
        return Point{{"block", block}, {"unroll", unroll}, {"pads", pads}, {"parts", parts}};
    };
    const int64_t together = check("ax01", "32x8x32,32x1x32",
                                   {point(256, 16, 2, 1), point(128, 32, 4, 1), point(256, 16, 4, 0), point(64, 4, 2, 0)});
    EXPECT_LT(3 * together, 2 * check("ax01", "32x8x32,32x1x32", {point(8, 16, 4, 0)}));
    check("ax01", "9x3x50,9x1x50", {point(12, 8, 2, 1), point(12, 16, 4, 0), point(27, 2, 1, 0)});
    check("ax01", "3x7x4x64,3x7x1x64", {point(84, 32, 4, 0), point(16, 8, 2, 1)});
    check("ax01", "2x9x4x64,9x1x64", {point(16, 32, 4, 0), point(16, 8, 2, 1)});
    check("fsim", "9x3x50,9x1x50", {point(6, 8, 2, 0), point(3, 4, 2, 0)});
}

// A long row that others share is cut into rows of a plane, which is whole where it fits.
TEST(Pointwise, LongRowsArePlanes) {
    const std::shared_ptr<const Workload> workload = find_operator("mul").workload({{"shape", "12x32x128,1x32x128"}});
    const Evaluator evaluator(workload, find_machine("ax01"));
    const Point point = {{"block", 8}, {"unroll", 32}, {"pads", 4}, {"parts", 0}};
    EXPECT_EQ(workload->words(find_machine("ax01"), point).substr(0, 35), "6 blocks of 2 times 4 rows of 1024,");
    EXPECT_EQ(evaluator.verify(point), "");
}

// The reciprocals of divisors of rows, of columns and of one for all are made once.
TEST(Pointwise, WhatOneDimensionHasIsComputedOnce) {
    for (const char *name : {"ax01", "fsim"}) {
        const Machine machine = find_machine(name);
        const auto cycles = [&](const std::string &shape, int64_t block) {
            const Point point = {{"block", block}, {"unroll", 4}, {"pads", 4}, {"parts", 0}};
            const Evaluator evaluator(find_operator("div").workload({{"shape", shape}}), machine);
            EXPECT_EQ(evaluator.verify(point), "") << shape << " on " << name;
            return evaluator.evaluate(point).cycles;
        };
        const int64_t all = cycles("32x96,32x96", 8);
        EXPECT_LT(cycles("32x96,32x1", 8), all) << name;
        EXPECT_LT(cycles("32x96,1x96", 8), all / 2) << name;
        EXPECT_LT(cycles("32x96,1x1", 512), all / 2) << name;
    }
}

// Also where straight-line code goes round two pads of four, or none.
TEST(Pointwise, EveryPointFitsSmallPads) {
    const Machine machine = find_machine("fsim");
    Random random(1);
    for (const auto &[op, shape] : std::vector<std::pair<const char *, const char *>>{
             {"ge", "22x33,22x33"}, {"mul", "41x31,41x31"}, {"mul", "41x70,41x1"}, {"relu", "1000"}}) {
        const std::shared_ptr<const Workload> workload = find_operator(op).workload({{"shape", shape}});
        const Evaluator evaluator(workload, machine);
        for (const Point &point : sample_distinct(workload->space(machine), 100, random))
            EXPECT_EQ(evaluator.evaluate(point).reason, "") << op << " " << shape << " at " << point.assignments();
    }
}

// What depends on one operand alone is computed once for all elements that share it: no bound may count it for each of them.
TEST(Pointwise, BoundOfWhatNumbersOfRowsShare) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload = find_operator("div").workload({{"shape", "3x48x33,3x1x1"}});
    const Evaluation run = Evaluator(workload, machine).evaluate({{"block", 3}, {"pads", 4}, {"parts", 0}, {"unroll", 8}});
    ASSERT_EQ(run.reason, "");
    EXPECT_GE(run.cycles, workload->bound(machine).cycles);
    EXPECT_LT(workload->bound(machine).cycles,
              find_operator("div").workload({{"shape", "3x48x33,3x48x33"}})->bound(machine).cycles);
}

// Long rows that end inside vectors take transfers of their own for their ends in every pad that they go round.
TEST(Pointwise, DraftOfRowsThatEndInsideVectors) {
    for (const auto &[op, shape, block] : std::vector<std::tuple<const char *, const char *, int64_t>>{
             {"batch_norm", "4x64x28x28,64,64,64,64", 64}, {"add", "512x300,300", 24}}) {
        const Point in_parts = {{"block", block}, {"unroll", 16}, {"pads", 4}, {"parts", 1}},
                    around = {{"block", block}, {"unroll", 16}, {"pads", 4}, {"parts", 0}};
        const auto workload = find_operator(op).workload({{"shape", shape}});
        EXPECT_LT(workload->draft(find_machine("ax01"), in_parts), workload->draft(find_machine("ax01"), around))
            << op << " " << shape;
    }
}

// Long rows whose vectors go round the pads are straight-line code; blocks that lie in parts start a loop in each row, or leave
// the cache.
TEST(Pointwise, DraftOfLongRows) {
    const auto workload = find_operator("add").workload({{"shape", "512x768,1x768"}});
    const auto draft = [&](int64_t parts, int64_t unroll) {
        return workload->draft(find_machine("ax01"), {{"block", 20}, {"unroll", unroll}, {"pads", 4}, {"parts", parts}});
    };
    EXPECT_LT(draft(0, 32), draft(1, 32));
    EXPECT_LT(draft(0, 32), draft(1, 4));
    EXPECT_LT(draft(0, 32), draft(0, 8));
}

// Of two schedules the one that takes less time, by the simulator, takes less by the draft.
void expect_drafted_faster(const char *op, const WorkloadArguments &arguments, const Point &fast, const Point &slow) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload = find_operator(op).workload(arguments);
    const Evaluation one = Evaluator(workload, machine).evaluate(fast), other = Evaluator(workload, machine).evaluate(slow);
    ASSERT_EQ(one.reason + other.reason, "") << op;
    EXPECT_LT(one.cycles, other.cycles) << op;
    EXPECT_LT(workload->draft(machine, fast), workload->draft(machine, slow)) << op;
}

// Transfers by what they are made of: a pad's rows that end inside vectors are several, rows of different pages open these, and
// pads whose rows lie in one bank group share half of the bus.
TEST(Pointwise, DraftOfTransfers) {
    const auto point = [](int64_t block, int64_t unroll, int64_t parts, int64_t numbers) {
        return Point{{"block", block}, {"unroll", unroll}, {"pads", 4}, {"parts", parts}, {"numbers", numbers}};
    };
    expect_drafted_faster("mul", {{"shape", "1x100x100,1x100x1"}}, point(100, 16, 0, 0), point(64, 32, 1, 1));
    expect_drafted_faster("batch_norm", {{"shape", "256x100,100,100,100,100"}},
                          {{"block", 256}, {"unroll", 16}, {"pads", 4}, {"parts", 0}},
                          {{"block", 64}, {"unroll", 16}, {"pads", 4}, {"parts", 1}});
    Point joined = point(128, 32, 1, 0), apart = point(16, 32, 1, 1);
    joined.set("joined", 1);
    apart.set("joined", 0);
    expect_drafted_faster("mul", {{"shape", "16x1x1,16x64x64"}}, joined, apart);
    // Planes of all pads are one loop over their rows.
    expect_drafted_faster("mul", {{"shape", "1x128x50x64,1x1x50x64"}},
                          {{"block", 80}, {"unroll", 4}, {"pads", 4}, {"parts", 1}},
                          {{"block", 40}, {"unroll", 16}, {"pads", 4}, {"parts", 1}});
}

// Copies of a row come once. Rows far from each other leave each from a pad, not a vector of each after the other.
TEST(Movement, DraftOfTransfers) {
    const auto point = [](int64_t rows, int64_t pads, int64_t turn) {
        return Point{{"rows", rows}, {"pads", pads}, {"turn", turn}};
    };
    expect_drafted_faster("expand", {{"shape", "1x12x1x197"}, {"size", "1,12,197,197"}}, point(32, 4, 1), point(128, 4, 0));
    expect_drafted_faster("expand", {{"shape", "1x197"}, {"size", "100,197"}}, point(32, 4, 1), point(1024, 4, 0));
    expect_drafted_faster("expand", {{"shape", "1x512"}, {"size", "256,512"}}, point(128, 4, 32), point(4096, 4, 0));
    expect_drafted_faster("select", {{"shape", "64x197x50"}, {"dim", "1"}, {"index", "0"}}, point(64, 2, 32), point(64, 4, 0));
}

// A nest of the last blocks alone has a start of its own, which few blocks are not worth.
TEST(Movement, DraftOfBlocksThatAreTurned) {
    const auto point = [](int64_t along, int64_t apart) {
        return Point{{"across", 1}, {"along", along}, {"apart", apart}, {"unroll", 32}, {"whole", 0}};
    };
    expect_drafted_faster("transpose", {{"shape", "50x400"}, {"dim0", "0"}, {"dim1", "1"}}, point(1, 0), point(4, 1));
}

// Points that make the kernel of another one are none of the space.
TEST(Movement, EveryPointIsAKernelOfItsOwn) {
    const Machine machine = find_machine("ax01");
    const auto workload = find_operator("select").workload({{"shape", "64x197x50"}, {"dim", "1"}, {"index", "0"}});
    const Space space = workload->space(machine);
    const auto holds = [&](int64_t rows, int64_t pads, int64_t turn) {
        return violation(space, {{"rows", rows}, {"pads", pads}, {"turn", turn}}).empty();
    };
    // All 64 rows are one tile of each piece, whether 64 are asked for or more.
    EXPECT_TRUE(holds(64, 4, 0));
    EXPECT_FALSE(holds(1024, 4, 0));
}

// The elements of a block come once; those that others share, only with what shares them: one block is faster than many.
TEST(Pointwise, DraftOfOneBlock) {
    const auto expect_faster = [&](const char *op, const char *shape, const Point &whole, const Point &part) {
        expect_drafted_faster(op, {{"shape", shape}}, whole, part);
    };
    const auto point = [](int64_t block) { return Point{{"block", block}, {"unroll", 32}, {"pads", 4}, {"parts", 0}}; };
    const auto of_numbers = [](int64_t block) {
        return Point{{"block", block}, {"unroll", 32}, {"pads", 4}, {"parts", 0}, {"numbers", 0}};
    };
    expect_faster("mul", "1x128x12x64,1x128x1x64", point(1536), point(96));
    expect_faster("add", "64x1024,1024", point(64), point(8));
    expect_faster("mul", "64x768,64x1", of_numbers(64), of_numbers(8));
}

TEST(Pointwise, OrderOfOperandsDoesNotMatter) {
    const auto cycles = [](const char *shape) {
        return Evaluator(find_operator("add").workload({{"shape", shape}}), find_machine("ax01"))
            .evaluate({{"block", 32}, {"unroll", 32}, {"pads", 4}, {"parts", 0}, {"numbers", 0}})
            .cycles;
    };
    EXPECT_NEAR(static_cast<double>(cycles("256x768,256x1")), static_cast<double>(cycles("256x1,256x768")), 1000);
}

TEST(ProductExpression, RefusesByName) {
    EXPECT_EQ(error_of([] { find_operator("add(mm(x, y), mm(x, z))"); }),
              "add(mm(x, y), mm(x, z)) has two products; one kernel computes one");
    EXPECT_THAT(error_of([] { find_operator("relu(mm(relu(x), y))"); }), HasSubstr("the product's tensors must be inputs"));
    EXPECT_EQ(error_of([] { find_operator("relu(mm(x))"); }), "mm takes 2 tensors, not 1");
    EXPECT_THAT(error_of([] { find_operator("mm(x, layer_norm(y))"); }),
                HasSubstr("the first operand may be a norm or a softmax"));
    EXPECT_EQ(error_of([] { find_operator("mm(relu(mm(mm(x, y), z)), w)"); }),
              "mm(relu(mm(mm(x, y), z)), w) has three products one behind the other; one kernel computes two");
    EXPECT_THAT(error_of([] { find_operator("mm(add(mm(x, y), r), z)"); }),
                HasSubstr("pointwise operators of the first one alone, but r is another operand"));
    EXPECT_EQ(error_of([] { find_operator("mm(relu(mm(x, y)), y)"); }), "mm(relu(mm(x, y)), y): an input is given twice");
    EXPECT_THAT(refusal("linear(matmul(x, v), w)", {{"shape", "8x4,4,3x8"}}),
                HasSubstr("matmul in front of a product makes 8 rows of 1 elements, but the product takes 1 of 8"));
    EXPECT_THAT(refusal("linear(bmm(x, y), w)", {{"shape", "2x4x8,2x8x6,5x6"}}),
                HasSubstr("bmm in front of a product makes the rows of one, not of a batch"));
    EXPECT_EQ(error_of([] { find_operator("mm(layer_norm(x, g, h, r), y)"); }), "layer_norm takes 1 to 3 tensors, not 4");
    EXPECT_EQ(error_of([] { find_operator("mm(layer_norm(relu(x)), y)"); }),
              "layer_norm(relu(x)): tensors of an operator in front of a product must be inputs");
    EXPECT_EQ(error_of([] { find_operator("mm(layer_norm(x), x)"); }), "mm(layer_norm(x), x): an input is given twice");
    EXPECT_THAT(refusal("bmm(layer_norm(x), y)", {{"shape", "2x4x8,2x8x6"}}),
                HasSubstr("makes the rows of one, not of a batch; it is a kernel of its own"));
    EXPECT_THAT(refusal("mm(softmax(x, dim=0), y)", {{"shape", "4x8,8x6"}}),
                HasSubstr("softmax in front of a product is along the last axis"));
    EXPECT_THAT(refusal("mm(layer_norm(x, g), y)", {{"shape", "4x8,7,8x6"}}),
                HasSubstr("expected weight of the same shape as normalized_shape"));
    EXPECT_THAT(error_of([] { find_operator("add(mm(x, y), x)"); }), HasSubstr("give it a second name"));
    EXPECT_THAT(refusal("add(mm(x, y), z)", {{"shape", "4x8,8x6,1x1"}}),
                HasSubstr("z of 1x1 is neither of the product's shape nor one row or column of it"));
}

TEST(Pointwise, RefusesWithPyTorchsRule) {
    EXPECT_EQ(refusal("add", {{"shape", "3x4,5"}}),
              "add: shapes 3x4 and 5 do not broadcast: the size 5 must match the size 4 at dimension 1 from the end, or be 1");
    EXPECT_EQ(refusal("add", {{"shape", "4x-1,4"}}), "shape '4x-1' has the negative size -1");
    EXPECT_THAT(refusal("add", {{"shape", "4x,4"}}), HasSubstr("'4x' is not a shape"));
    EXPECT_EQ(refusal("add", {{"shape", "4"}}), "add needs y: a shape, or a number with --y");
    EXPECT_THAT(refusal("relu", {{"shape", "4,4"}}), HasSubstr("relu takes at most 1 tensors"));
    EXPECT_EQ(refusal("relu", {{"alpha", "1"}}), "relu has no argument 'alpha'");
    EXPECT_EQ(refusal("hardtanh", {{"min-val", "low"}}), "hardtanh: min_val must be a number, not 'low'");
}

TEST(Movement, RefusesWithPyTorchsRule) {
    EXPECT_EQ(refusal("slice", {{"shape", "4x4"}, {"dim", "2"}}),
              "slice: dimension out of range (expected to be in range of [-2, 1], but got 2)");
    EXPECT_EQ(refusal("slice", {{"shape", "4x4"}, {"step", "0"}}), "slice: step must be greater than zero, not 0");
    EXPECT_EQ(refusal("select", {{"shape", "4x4"}, {"index", "4"}}),
              "select: index 4 is out of range for dimension 0 with size 4");
    EXPECT_EQ(refusal("cat", {{"shape", "4x4,3x5"}}), "cat: sizes must match except in dimension 0, but there are 4x4 and 3x5");
    EXPECT_EQ(refusal("permute", {{"shape", "4x4"}, {"dims", "0,0"}}), "permute: dimension 0 is repeated");
    EXPECT_THAT(refusal("permute", {{"shape", "4x8"}, {"dims", "0"}}), HasSubstr("1 dimensions are given for a tensor of 2"));
    EXPECT_THAT(refusal("expand", {{"shape", "4x8"}, {"size", "4,9"}}),
                HasSubstr("the size 9 must match the tensor's size 8 at dimension 1 from the end"));
    EXPECT_THAT(refusal("pad", {{"shape", "4x8"}, {"pad", "1,2,3"}}), HasSubstr("the pads must be pairs"));
    EXPECT_EQ(refusal("pad", {{"shape", "4x8"}, {"value", "one"}}), "pad: value must be a number, not \"one\"");
    EXPECT_EQ(refusal("slice", {{"shape", "4x8"}, {"start", "1.5"}}), "slice: start must be a whole number, not 1.5");
    EXPECT_THAT(refusal("roll", {{"shape", "4x8"}, {"shifts", "1,2"}}), HasSubstr("without dims there must be one shift"));
}

// Rows of a tensor whose neighbours are a few elements apart on the other side are products, tiles that end inside the tensor
// included.
TEST(Movement, TakesSingleElementsThroughTheArray) {
    const Machine machine = find_machine("ax01");
    const auto workload = [](const std::string &op, WorkloadArguments arguments) {
        return find_operator(op).workload(arguments);
    };
    const std::vector<std::shared_ptr<const Workload>> moved = {
        workload("slice", {{"shape", "40x96"}, {"dim", "1"}, {"start", "1"}, {"step", "2"}, {"exact", "false"}}),
        workload("select", {{"shape", "40x7x4"}, {"dim", "2"}, {"index", "3"}, {"exact", "false"}}),
        workload("stack", {{"shape", "24x16,24x16,24x16"}, {"dim", "2"}, {"exact", "false"}}),
        workload("permute", {{"shape", "2x3x12x10"}, {"dims", "0,2,3,1"}}),
        workload("permute", {{"shape", "2x12x10x3"}, {"dims", "0,3,1,2"}}),
        workload("cat", {{"shape", "100x1,100x1"}, {"dim", "1"}, {"exact", "false"}}),
        // 11 elements of 3 tensors, and 7 of 5, are more than a row of lanes.
        workload("permute", {{"shape", "3x66"}, {"dims", "1,0"}}), workload("permute", {{"shape", "5x35"}, {"dims", "1,0"}})};
    for (const auto &w : moved) {
        EXPECT_THAT(w->words(machine, w->naive_point(machine)), HasSubstr("rows of")) << w->title();
        const Evaluator evaluator(w, machine);
        for (const char *point : {"rows=4,unroll=1", "rows=16,unroll=8", "rows=32,unroll=16"}) {
            const Point at = Point::parse(point);
            if (!violation(w->space(machine), at).empty()) continue;
            EXPECT_EQ(evaluator.verify(at), "") << w->title() << " at " << point;
        }
    }
    const std::shared_ptr<const Workload> exact = workload("slice", {{"shape", "40x96"}, {"dim", "1"}, {"step", "2"}});
    EXPECT_THAT(exact->words(machine, exact->naive_point(machine)), HasSubstr("loop nests"));
}

// Blocks that begin at multiples of 32 may come several at a time, and the last one of a dimension that is no multiple by
// itself, in one dimension or both.
TEST(Movement, TurnsTheLastBlocksOfADimensionApart) {
    const Machine machine = find_machine("ax01");
    for (const char *shape : {"70x97", "64x97", "97x64", "2x100x71"}) {
        const std::shared_ptr<const Workload> turned =
            find_operator("transpose").workload({{"shape", shape}, {"dim0", "-1"}, {"dim1", "-2"}});
        const Evaluator evaluator(turned, machine);
        for (const char *point : {"across=1,along=1,apart=1,unroll=32,whole=0", "across=2,along=3,apart=1,unroll=8,whole=0",
                                  "across=3,along=2,apart=1,unroll=32,whole=1", "across=2,along=1,apart=1,unroll=1,whole=0",
                                  "across=2,along=3,apart=1,unroll=32,whole=1"}) {
            const Point at = Point::parse(point);
            if (!violation(turned->space(machine), at).empty()) continue;
            EXPECT_THAT(turned->words(machine, at), HasSubstr("the last ones apart"));
            EXPECT_EQ(evaluator.verify(at), "") << turned->title() << " at " << point;
        }
    }
    const Space space = find_operator("transpose").workload({{"shape", "70x97"}, {"dim0", "0"}, {"dim1", "1"}})->space(machine);
    EXPECT_THAT(violation(space, Point::parse("across=2,along=1,apart=0,unroll=8,whole=0")), HasSubstr("is that block alone"));
}

// What lies between two rows leaves with the first of them where its last vector has room for it, and is no loop nest of its
// own: not behind rows of whole vectors, nor where more lies there, nor where the result ends with a row.
TEST(Movement, ConstantsLeaveWithTheRowsInFrontOfThem) {
    struct Case {
        const char *shape, *pad;
        int nests;
    };
    for (const char *name : {"ax01", "fsim"})
        for (const Case &c : {Case{"3x9x20", "1,1,1,1", 4},
                              {"3x9x20", "1,1", 5},
                              {"3x9x20", "0,1", 1},
                              {"3x9x20", "1,0", 4},
                              {"3x9x32", "1,1,1,1", 5},
                              {"3x9x31", "1,1,1,1", 5},
                              {"3x9x30", "1,1,-1,2", 4},
                              {"5x70", "2,5,0,3", 4},
                              {"70", "1,2", 3}}) {
            const Machine machine = find_machine(name);
            const std::shared_ptr<const Workload> padded =
                find_operator("pad").workload({{"shape", c.shape}, {"pad", c.pad}, {"value", "-1.5"}});
            const Evaluator evaluator(padded, machine);
            Random random(5);
            for (const Point &point : sample_distinct(padded->space(machine), 4, random))
                EXPECT_EQ(evaluator.verify(point), "") << padded->title() << " at " << point.assignments();
            if (machine.timed()) {
                EXPECT_THAT(padded->words(machine, padded->naive_point(machine)),
                            HasSubstr(fmt::format(" {} loop nests", c.nests)))
                    << padded->title();
            }
        }
}

// Constants between planes that end inside a vector leave as vectors of many planes: their transfers are fewer than planes.
TEST(Movement, ConstantsBetweenPlanesShareTransfers) {
    const Machine machine = find_machine("ax01");
    const auto transfers = [&](int64_t pads) {
        const std::shared_ptr<const Workload> padded = find_operator("pad").workload(
            {{"shape", "128x14x14"}, {"pad", fmt::format("{0},{0},{0},{0}", pads)}, {"value", "-1.5"}});
        const Point point = Point::parse("rows=128,pads=4,turn=0");
        const Evaluator evaluator(padded, machine);
        EXPECT_EQ(evaluator.verify(point), "") << padded->title();
        return evaluator.evaluate(point).counters.at("unit_operations").at("SDMA").get<int64_t>();
    };
    const int64_t planes = 128, of_images = transfers(1);  // whose constants are a vector at most
    EXPECT_LT(transfers(2) - of_images, planes / 2);
}

TEST(Resolve, FindsTheWorkloadOfACall) {
    AtenCall call{"aten::add.Tensor", {{"self", {{{4, 8}}}, {}}, {"other", {{{8}}}, {}}}};
    Resolution found = resolve(call);
    ASSERT_EQ(found.place, Resolution::Accelerator) << found.reason;
    EXPECT_EQ(found.op->name(), "add");
    EXPECT_EQ(found.inputs, (std::vector<size_t>{0, 1}));
    // A number may stand for a tensor.
    call = {"aten::mul.Tensor", {{"self", {{{4, 8}}}, {}}, {"other", {}, 2.5}}};
    found = resolve(call);
    ASSERT_EQ(found.place, Resolution::Accelerator) << found.reason;
    // A list of tensors.
    call = {"aten::cat", {{"tensors", {{{4, 8}}, {{2, 8}}}, {}}, {"dim", {}, 0}}};
    found = resolve(call);
    ASSERT_EQ(found.place, Resolution::Accelerator) << found.reason;
    EXPECT_EQ(found.workload->outputs()[0].extents, (std::vector<int64_t>{8, 6}));
}

TEST(Resolve, SaysWhyThereIsNone) {
    AtenCall call{"aten::add.Tensor", {{"self", {{{4}, ElementType::Int64}}, {}}, {"other", {}, 1}}};
    Resolution found = resolve(call);
    EXPECT_EQ(found.place, Resolution::Unsupported);
    EXPECT_THAT(found.reason, HasSubstr("add: 'self' is int64, but the accelerator computes in bf16"));
    EXPECT_EQ(resolve({"aten::view", {}}).place, Resolution::View);
    EXPECT_EQ(resolve({"aten::arange", {}}).place, Resolution::Folded);
    EXPECT_EQ(resolve({"aten::cumsum", {}}).place, Resolution::Host);
    EXPECT_EQ(resolve({"aten::no_such_thing", {}}).reason, "no operator has the schema 'no_such_thing'");
}

// Rows that straight code makes and a loop of two k tiles reads: no transfer changes their slot.
TEST(Expression, RowsThatWereMadeAreReadByTheirTile) {
    const Point point = {{"b_block", 1},
                         {"b_resident", 0},
                         {"b_row_major", 0},
                         {"blocks_unrolled", 0},
                         {"k_block", 2},
                         {"k_ends_apart", 0},
                         {"m_outer", 1},
                         {"pads_split", 0},
                         {"prologue_grouped", 0},
                         {"prologue_reduced", 0},
                         {"prologue_row_unroll", 2},
                         {"prologue_rows", 2},
                         {"prologue_stored", 0},
                         {"prologue_vector_unroll", 2},
                         {"row_pass", 0},
                         {"row_unroll", 1},
                         {"rows", 2},
                         {"slots", 2},
                         {"sums_in_registers", 0},
                         {"weight_unroll", 16}};
    EXPECT_EQ(Evaluator(find_operator("mm(rms_norm(x, g, eps=0.001), y)").workload({{"shape", "2x64,64,64x64"}}),
                        find_machine("ax01"))
                  .verify(point),
              "");
}

}  // namespace
}  // namespace atalla
