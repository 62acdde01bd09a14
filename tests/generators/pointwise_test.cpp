// Schedules of pointwise operators: rows, runs, planes and what is computed once; what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generators/evaluate.h"
#include "generators/pointwise_functions.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/generators/refusal.h"

namespace atalla {
namespace {

using testing::HasSubstr;

// A choice between operations is made by their masks, and one of its other values is where the result will be.
TEST(Pointwise, ChoicesCountTheCopiesThatNoProgramGoesWithout) {
    const auto copies = [](const std::string &text) {
        std::map<std::string, Halide::Expr> inputs;
        for (const char *name : {"x", "y", "z"}) inputs[name] = Halide::Internal::Variable::make(Halide::BFloat(16), name);
        const LaneCount count = count_lane_operations(machine_expression(parse_expression(text), inputs));
        return std::pair(count.copies, count.least_copies);
    };
    EXPECT_THAT(copies("relu(x)"), testing::Pair(1, 1));
    EXPECT_THAT(copies("where(x, y, z)"), testing::Pair(1, 1));
    EXPECT_THAT(copies("maximum(x, y)"), testing::Pair(2, 1)) << "one mask for both reasons to take x";
    EXPECT_THAT(copies("abs(x)"), testing::Pair(1, 0)) << "0 - x under a mask";
    EXPECT_THAT(copies("tanh(x)"), testing::Pair(4, 1)) << "the polynomials and the minus sign are made under masks";
}

// As fast as it was found: with 23 operations a vector the bound was above it.
TEST(Pointwise, TanhIsNotBelowItsBound) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload = find_operator("tanh").workload({{"shape", "65536"}});
    const Evaluator evaluator(workload, machine);
    const Point point = {{"block", 65536}, {"unroll", 4}, {"pads", 4}, {"parts", 3}};
    ASSERT_EQ(violation(workload->space(machine), point), "");
    EXPECT_GE(evaluator.evaluate(point).cycles, workload->bound(machine).cycles);
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
    const auto rows_apart = [&](const Workload &workload, Point at) {
        for (const Parameter &parameter : workload.space(machine).parameters)
            if (parameter.name == "joined") at.set("joined", 0);
        return at;
    };
    const auto check = [&](const char *op, const char *shape, std::initializer_list<Point> points) {
        const Evaluator evaluator(find_operator(op).workload({{"shape", shape}}), machine);
        for (const Point &point : points) {
            const Point at = rows_apart(evaluator.workload(), point);
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
        const auto workload = find_operator(op).workload({{"shape", shape}});
        EXPECT_NE(violation(workload->space(machine), rows_apart(*workload, at)), "") << op << " " << shape;
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
    EXPECT_LT(evaluator.evaluate(rows_apart(evaluator.workload(), point(4, 4))).cycles,
              evaluator.evaluate(Point::parse("block=16,joined=0,pads=4,parts=0,unroll=32")).cycles);
}

// Side by side, the iterations of a long loop take so much code that the loop around it would come from memory each time.
TEST(Pointwise, LongLoopsStayInTheInstructionCache) {
    const Machine machine = find_machine("ax01");
    const auto workload = find_operator("gelu").workload({{"shape", "24x768"}});
    const KernelDefinition kernel = workload->build(machine, Point::parse("block=2048,pads=2,parts=1,unroll=8"));
    const codegen::CompiledKernel compiled =
        codegen::compile(kernel.pipeline, kernel.arguments, machine, kernel.compile_options());
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

// Rows that end inside vectors, or are long, as one run: turns of several rows, of one and of parts of one; blocks of some
// rows, of which the last one begins earlier, with rows behind them that are no whole vectors, of an image and of all; several
// images, whose numbers are the same; numbers that are computed or missing.
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
    check("mul", "1x64x7x7,1x64x1x1");
    check("mul", "2x32x20x20,1x32x1x1");
    check("add", "4x8x1x1,4x8x10x20");
    check("where", "2x4x20x20,4x1x1,2x4x20x20");
    check("relu(mul(sub(x, y), rsqrt(z)))", "1x8x20x20,8x1x1,8x1x1");
    check("sub", "200x77,200x1");
    check("sub", "72x1000,72x1");
    check("rsub", "64x1000,64x1");
    // Long rows of whole vectors, which would come in parts.
    check("mul", "2x4x36x32,1x4x1x1");
    check("batch_norm", "1x4x56x56,4,4,4,4");
}

// All rows in the pads, whose transfers run beside the loop, also where the rows of a pad do not follow each other in memory.
TEST(Pointwise, ARunThatThePadsHoldStreams) {
    const Machine machine = find_machine("ax01");
    const auto cycles = [&](const char *shape, const char *point) {
        const Evaluator evaluator(find_operator("mul").workload({{"shape", shape}}), machine);
        EXPECT_EQ(evaluator.verify(Point::parse(point)), "") << shape << " at " << point;
        return evaluator.evaluate(Point::parse(point)).cycles;
    };
    for (const char *shape : {"1x64x28x28,1x64x1x1", "4x64x28x28,1x64x1x1"}) {
        const bool images = shape[0] == '4';
        EXPECT_LT(cycles(shape, images ? "block=256,joined=1,numbers=0,pads=4,parts=1,unroll=20"
                                       : "block=64,joined=1,numbers=0,pads=4,parts=1,unroll=20"),
                  cycles(shape, "block=32,joined=1,numbers=0,pads=4,parts=1,unroll=20"))
            << shape;
    }
}

// Rows are a run only where enough of them begin with a vector, and none has elements of three.
TEST(Pointwise, RowsThatAreNoRunStayApart) {
    const Machine machine = find_machine("ax01");
    for (const char *shape :
         {"2x1x28x28,1,1,1,1", "2x3x7x7,3,3,3,3", "1x31x7x7,31,31,31,31", "1x32x31x33,32,32,32,32", "2x64x1x1,64,64,64,64",
          "2x64x3x5,64,64,64,64", "2x64x8x8,64,64,64,64", "2x64x32x32,64,64,64,64"}) {
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

TEST(Pointwise, OrderOfOperandsDoesNotMatter) {
    const auto cycles = [](const char *shape) {
        return Evaluator(find_operator("add").workload({{"shape", shape}}), find_machine("ax01"))
            .evaluate({{"block", 32}, {"unroll", 32}, {"pads", 4}, {"parts", 0}, {"numbers", 0}})
            .cycles;
    };
    EXPECT_NEAR(static_cast<double>(cycles("256x768,256x1")), static_cast<double>(cycles("256x1,256x768")), 1000);
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

}  // namespace
}  // namespace atalla
