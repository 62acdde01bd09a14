// Softmax and normalizations at random shapes and schedules on one machine: bit for bit equal to the unoptimized program, close
// to float64, never faster than the bound; special values and errors as PyTorch has them, those of reductions and pooling among
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "isa/vectors.h"
#include "tests/generators/rows.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_F(Rows, Softmax) {
    for (int i = 0; i < rounds; i++)
        for (const char *name : {"softmax", "log_softmax"})
            check(name, {{"shape", fmt::format("{}x{}x{}", 1 + below(3), size(20), size(machine.timed() ? 300 : 200))}},
                  static_cast<uint64_t>(i));
}

TEST_F(Rows, Normalizations) {
    for (int i = 0; i < rounds; i++) {
        const int64_t rows = size(40), length = size(machine.timed() ? 300 : 200);
        const bool weight = below(2) == 0, bias = below(2) == 0;
        const auto affine = [&](bool with_bias) {
            std::string text = fmt::format("{}x{}", rows, length);
            if (weight || (with_bias && bias)) text += weight ? fmt::format(",{}", length) : ",-";
            return with_bias && bias ? text + fmt::format(",{}", length) : text;
        };
        check("layer_norm", {{"shape", affine(true)}}, static_cast<uint64_t>(i));
        check("rms_norm", {{"shape", affine(false)}, {"eps", "0.001"}}, static_cast<uint64_t>(i));
        // With a residual, and with two.
        const std::string one = fmt::format("{}x{}", rows, length);
        check("layer_norm", {{"shape", fmt::format("{0},{1},{1},{0}", one, length)}}, static_cast<uint64_t>(i));
        check("rms_norm", {{"shape", fmt::format("{0},-,{0},{0}", one)}}, static_cast<uint64_t>(i));
    }
}

// Whole vectors in a group, but not in a channel: equal tiles of 25 and 28 vectors, with two channels and with eight in a row
// of vectors.
TEST_F(Rows, GroupsWhoseChannelsEndInsideVectors) {
    for (int i = 0; i < rounds; i++) {
        const auto seed = static_cast<uint64_t>(i);
        check("group_norm", {{"shape", "2x16x20x20,16,16"}, {"num-groups", "2"}}, seed);
        check("group_norm", {{"shape", "1x32x14x14,-,32"}, {"num-groups", "1"}}, seed);
        check("group_norm", {{"shape", "1x8x28x28"}, {"num-groups", "1"}}, seed);
    }
}

// Groups that the pads do not hold, here small ones: channels of one vector and of many, with a last part that is filled up,
// and as many as a part has.
TEST_F(Rows, GroupsThatThePadsDoNotHoldComeInParts) {
    Machine small = machine;
    constexpr int64_t pad_rows = 32;
    small.pad.bytes = pad_rows * small.pad.row_bytes;
    for (const auto &[shape, groups] : {std::pair{"1x24x40x40,24,24", 4},
                                        {"2x160x4x8,160", 2},
                                        {"1x6x31x37,-,6", 2},
                                        {"1x4x64x64", 2},
                                        {"1x320x5,320,320", 2}}) {
        SCOPED_TRACE(fmt::format("{} in {} groups", shape, groups));
        const std::shared_ptr<const Workload> workload =
            find_operator("group_norm").workload({{"shape", shape}, {"num-groups", std::to_string(groups)}});
        const Space space = workload->space(small);
        ASSERT_EQ(space.parameters.front().name, "part_channels");
        for (int i = 0; i < rounds; i++)
            check_sampled_point(*workload, small, Evaluator(workload, small, static_cast<uint64_t>(i)), random);
    }
}

// What fits the pads by the space's count has a place in them: large blocks beside small ones, each point of the space.
TEST_F(Rows, EveryPointOfColumnsHasAPlace) {
    const Evaluator evaluator(find_operator("log_softmax").workload({{"shape", "3x29x13"}, {"dim", "0"}}), machine);
    int points = 0;
    for_each(evaluator.workload().space(machine), [&](const Point &point) {
        EXPECT_EQ(evaluator.evaluate(point).reason, "") << point.assignments();
        return ++points < 40;
    });
    EXPECT_GE(points, 5);
}

// Rows whose vectors are the weights of the array: 12 to 32 of them at a time, all of a row or an equal part.
TEST_F(Rows, LongRows) {
    const std::vector<int64_t> lengths =
        machine.timed() ? std::vector<int64_t>{384, 1000, 1088} : std::vector<int64_t>{384, 401};
    const std::vector<std::string> names = {"softmax", "layer_norm", "rms_norm"};
    for (size_t i = 0; i < names.size(); i++)
        check(names[i], {{"shape", fmt::format("{}x{}", 1 + below(5), lengths[i % lengths.size()])}}, i);
    const std::vector<std::string> sums = {"sum", "mean", "var"};
    for (size_t i = 0; i < sums.size(); i++)
        check(sums[i], {{"shape", fmt::format("{}x{}", 2 + below(5), lengths[i % lengths.size()])}, {"dim", "1"}}, i);
}

// Rows that end inside a vector overlap as rows of whole vectors do, short ones in straight-line code and long ones whose steps
// wait in the pads: they take little longer.
TEST_F(Rows, RowsThatEndInsideAVectorOverlap) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    const auto cycles = [&](int64_t rows, int64_t length, const Point &point) {
        const Evaluator evaluator(
            find_operator("layer_norm").workload({{"shape", fmt::format("{0}x{1},{1},{1}", rows, length)}}), machine);
        EXPECT_EQ(evaluator.verify(point), "") << length;
        return evaluator.evaluate(point).cycles;
    };
    const Point straight = {{"rows", 32},  {"row_unroll", 8}, {"vector_unroll", 4}, {"reduced", 0},
                            {"stored", 0}, {"grouped", 0},    {"skewed", 0}},
                through_pads = {{"rows", 64},  {"row_unroll", 1}, {"vector_unroll", 32}, {"reduced", 0},
                                {"stored", 1}, {"grouped", 0},    {"skewed", 0}};
    EXPECT_LT(cycles(400, 100, straight), 1.2 * static_cast<double>(cycles(400, 128, straight)));
    EXPECT_LT(cycles(64, 1000, through_pads), 1.4 * static_cast<double>(cycles(64, 1024, through_pads)));
}

// Points of a space that are asked for, each of which compiles, gives the bits of the unoptimized program, and is no faster
// than the bound.
int verified_points(const Evaluator &evaluator, const Machine &machine, const std::function<bool(const Point &)> &wanted) {
    int points = 0;
    for_each(evaluator.workload().space(machine), [&](const Point &point) {
        if (!wanted(point)) return true;
        SCOPED_TRACE(point.assignments());
        const Evaluation evaluation = evaluator.evaluate(point);
        EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        EXPECT_GE(evaluation.cycles, evaluator.workload().bound(machine).cycles);
        EXPECT_EQ(evaluator.verify(point), "");
        points++;
        return true;
    });
    return points;
}

// Passes of long rows as one loop whose iterations are the weights of the array: of whole vectors, rows that end inside one,
// and those whose last part ends in vectors of no elements.
TEST_F(Rows, SkewedPassesOfWeights) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    uint64_t seed = 0;
    for (const char *name : {"softmax", "log_softmax"})
        for (const int64_t length : {1960, 4096, 4100, 4576}) {
            SCOPED_TRACE(fmt::format("{} of {}", name, length));
            const Evaluator evaluator(find_operator(name).workload({{"shape", fmt::format("8x{}", length)}}), machine, ++seed);
            const auto of_weights = [](const Point &point) { return point["skewed"] != 0 && point["grouped"] != 0; };
            EXPECT_EQ(verified_points(evaluator, machine, of_weights), 1);
        }
}

// Rows too long for straight-line code whose vectors no two equal parts have are as long as those that are a little longer:
// vectors of no elements are behind them, whether the row ends inside a vector or not.
TEST_F(Rows, RowsOfAnyLengthHaveEqualParts) {
    if (!machine.timed()) GTEST_SKIP() << "such rows do not fit the pads";
    const auto cycles = [&](const std::string &name, int64_t length) {
        const std::string weights = name == "layer_norm" ? fmt::format(",{0},{0}", length) : "";
        const Evaluator evaluator(find_operator(name).workload({{"shape", fmt::format("24x{}{}", length, weights)}}), machine);
        const Point point = {{"rows", 8},   {"row_unroll", 1}, {"vector_unroll", 8}, {"reduced", 0},
                             {"stored", 0}, {"grouped", 1},    {"skewed", 0}};
        EXPECT_EQ(evaluator.verify(point), "") << name << " " << length;
        return evaluator.evaluate(point).cycles;
    };
    for (const char *name : {"softmax", "layer_norm", "rms_norm"}) {
        const auto whole = static_cast<double>(cycles(name, 1536));
        EXPECT_LT(cycles(name, 1500), 1.3 * whole) << name;
        EXPECT_LT(cycles(name, 1504), 1.3 * whole) << name;
    }
}

// Rows that the pads do not hold come in parts, once for each pass over them: whole parts and others, several rows, what is
// added before.
TEST_F(Rows, RowsThatThePadsDoNotHoldComeInParts) {
    const int64_t whole = machine.timed() ? 532480 : 2048, others = machine.timed() ? 530000 : 1203, several = whole / 2;
    check("softmax", {{"shape", fmt::format("1x{}", others)}}, 1);
    check("layer_norm", {{"shape", fmt::format("1x{0},{0},{0}", whole)}}, 2);
    if (machine.timed()) return;
    check("log_softmax", {{"shape", fmt::format("2x{}", others)}}, 3);
    check("rms_norm", {{"shape", fmt::format("3x{0},{0}", several)}}, 4);
    check("layer_norm", {{"shape", fmt::format("2x{0},-,-,2x{0},2x{0}", several)}}, 5);
}

// So do columns, among them some of fewer elements than a vector has, and some whose sums are in groups that leave a rest.
TEST_F(Rows, ColumnsThatThePadsDoNotHoldComeInParts) {
    if (machine.timed()) return check("log_softmax", {{"shape", "12000x33"}, {"dim", "0"}}, 1);
    check("softmax", {{"shape", "37x3"}, {"dim", "0"}}, 1);
    check("log_softmax", {{"shape", "2x71x33"}, {"dim", "1"}}, 2);
    check("softmax", {{"shape", "2x1000x40"}, {"dim", "1"}}, 3);
    check("softmax", {{"shape", "3x1003x7"}, {"dim", "1"}}, 4);
}

// Passes that become one loop of columns, which come from one tensor or from several, one vector of each or some.
TEST_F(Rows, SkewedPassesOfColumns) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    for (const char *op : {"softmax", "log_softmax"})
        // Of 100 and 33 columns the last vector begins earlier and makes some again.
        for (const auto &[shape, unroll] :
             {std::pair{"3x32x96", 2}, {"1x40x96", 1}, {"5x16x32", 1}, {"2x24x64", 3}, {"3x32x100", 2}, {"1x16x33", 1}}) {
            const Evaluator evaluator(find_operator(op).workload({{"shape", shape}, {"dim", "1"}}), machine);
            EXPECT_EQ(evaluator.verify({{"columns", 1}, {"unroll", unroll}, {"skewed", 1}}), "") << op << " " << shape;
        }
}

// Passes over rows that are one loop, each on other rows, one or several at a time: also of an odd number of rows, and of fewer
// rows than are under way at a time.
TEST_F(Rows, SkewedPassesOfLongRows) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    uint64_t seed = 0;
    for (const char *name : {"softmax", "log_softmax", "layer_norm", "rms_norm"})
        for (const auto &[rows, length] : {std::pair{7, 2048}, {6, 1536}, {1, 1536}, {8, 1024}}) {
            const std::string weights = std::string(name) == "layer_norm" ? fmt::format(",{},{}", length, length)
                                        : std::string(name) == "rms_norm" ? fmt::format(",{}", length)
                                                                          : "",
                              shape = fmt::format("{}x{}{}", rows, length, weights);
            SCOPED_TRACE(fmt::format("{} {}", name, shape));
            const Evaluator evaluator(find_operator(name).workload({{"shape", shape}}), machine, ++seed);
            std::vector<Point> points;
            for_each(evaluator.workload().space(machine), [&](const Point &point) {
                if (point["skewed"] != 0) points.push_back(point);
                return true;
            });
            ASSERT_FALSE(points.empty());
            for (int i = 0; i < rounds; i++) {
                const Point &point = points[random.below(points.size())];
                SCOPED_TRACE(point.assignments());
                const Evaluation evaluation = evaluator.evaluate(point);
                ASSERT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
                EXPECT_GE(evaluation.cycles, evaluator.workload().bound(machine).cycles);
                EXPECT_EQ(evaluator.verify(point), "");
            }
        }
}

// Groups of channels as rows whose passes are one loop: vectors that are of one channel or of two, of few groups and of more
// than are under way; channels that parts of a group hold some of, or a piece of one,
// and a last part that ends in vectors of none.
TEST_F(Rows, SkewedPassesOfGroups) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    uint64_t seed = 0;
    for (const auto &[shape, groups] : {std::pair{"2x16x20x20,16,16", 4},
                                        {"1x32x14x14,-,32", 1},
                                        {"3x8x16x16,8", 2},
                                        {"1x8x28x28", 1},
                                        {"1x8x32x32,8,8", 2},
                                        {"2x2x48x64,-,2", 2},
                                        {"1x64x1x32,64", 2},
                                        {"1x47x1x64,47,47", 1}}) {
        SCOPED_TRACE(fmt::format("{} in {} groups", shape, groups));
        const Evaluator evaluator(
            find_operator("group_norm").workload({{"shape", shape}, {"num-groups", std::to_string(groups)}}), machine, ++seed);
        EXPECT_GT(verified_points(evaluator, machine, [](const Point &point) { return point["skewed"] != 0; }), 0);
    }
}

// Vectors of one channel each read its weight and bias, of which there may be too many for a row of each vector.
TEST_F(Rows, GroupsOfLargeChannelsAreOneLoop) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    const Evaluator evaluator(find_operator("group_norm").workload({{"shape", "1x320x32x32,320,320"}, {"num-groups", "32"}}),
                              machine);
    const Point loops = {{"channel_unroll", 1}, {"vector_unroll", 8}, {"sum_unroll", 32}, {"skewed", 0}},
                one = {{"channel_unroll", 1}, {"vector_unroll", 1}, {"sum_unroll", 1}, {"skewed", 8}};
    EXPECT_LT(3 * evaluator.evaluate(one).cycles, 2 * evaluator.evaluate(loops).cycles);
    EXPECT_LT(evaluator.workload().draft(machine, one), evaluator.workload().draft(machine, loops));
}

// There are too many vectors for rows of each: which channel's a vector is comes from the loop's count.
TEST_F(Rows, GroupsOfManyVectorsFindTheRowsOfTheirChannels) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    const Evaluator evaluator(find_operator("group_norm").workload({{"shape", "1x128x32x64,128,128"}, {"num-groups", "64"}}),
                              machine);
    const Point point = {{"channel_unroll", 1}, {"vector_unroll", 1}, {"sum_unroll", 1}, {"skewed", 1}};
    ASSERT_EQ(violation(evaluator.workload().space(machine), point), "");
    EXPECT_EQ(evaluator.verify(point), "");
}

// Biases of vectors are stored beside their weights: both take hardly longer to make than one of them.
TEST_F(Rows, WeightsAndBiasesOfGroupsAreMadeTogether) {
    if (!machine.timed()) GTEST_SKIP() << "nothing waits for a pad";
    const auto cycles = [&](const char *shape) {
        const Evaluator evaluator(find_operator("group_norm").workload({{"shape", shape}, {"num-groups", "8"}}), machine);
        return evaluator.evaluate({{"skewed", 7}, {"vector_unroll", 1}, {"sum_unroll", 4}, {"square_unroll", 4}}).cycles;
    };
    const int64_t none = cycles("1x64x28x28"), weight = cycles("1x64x28x28,64"), both = cycles("1x64x28x28,64,64");
    EXPECT_LT(4 * (both - weight), 3 * (weight - none));
}

// Squares of 1e-40, whose share in a sum the scalar unit would take for another number.
TEST_F(Rows, NormsOfTinyRowsAreNumbers) {
    std::vector<double> tiny;
    for (int i = 0; i < 16 * 32; i++) tiny.push_back(1e-20 * (static_cast<double>(below(2001)) / 1000 - 1));
    for (const char *name : {"layer_norm", "rms_norm"})
        for (double value : results(name, {{"shape", "16x32"}}, tiny)) EXPECT_LT(std::abs(value), 1e-16) << name;
    for (double value : results("group_norm", {{"shape", "1x16x32"}, {"num-groups", "16"}}, tiny))
        EXPECT_LT(std::abs(value), 1e-16);
}

// Differences and squares of rows whose vectors are loops and weights of the array take no rows of the pads: each reader makes
// them.
TEST_F(Rows, LightStepsOfLoopsAreMadeByTheirReaders) {
    if (!machine.timed()) GTEST_SKIP() << "such rows do not fit small pads";
    const auto workload = find_operator("layer_norm").workload({{"shape", "3x1024"}});
    const auto rows_stored = [&](int64_t grouped) {
        const KernelDefinition kernel = workload->build(
            machine,
            {{"rows", 1}, {"row_unroll", 1}, {"vector_unroll", 4}, {"reduced", 0}, {"stored", 0}, {"grouped", grouped}});
        const KernelRun run = run_kernel(kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine), machine,
                                         {TensorData(3 * 1024, bf16_truncate(0.5f))});
        EXPECT_TRUE(run.result.ok) << run.result.error;
        const auto &bytes = run.result.counters.pad_store_bytes;
        return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}) / 64;
    };
    constexpr uint64_t vectors = 3 * 32;
    EXPECT_LT(rows_stored(1), 2 * vectors);  // results, and a few rows of sums
    EXPECT_GE(rows_stored(0), 3 * vectors);
}

TEST_F(Rows, BatchNorm) {
    for (int i = 0; i < rounds; i++) {
        const int64_t channels = size(40);
        const std::string of_channels = fmt::format(",{}", channels),
                          image = below(4) == 0 ? "" : fmt::format("x{}x{}", 1 + below(8), size(40));
        std::string shape = fmt::format("{}x{}{}{}{}", 1 + below(3), channels, image, of_channels, of_channels);
        if (below(2) == 0) shape += below(2) == 0 ? of_channels + of_channels : ",-" + of_channels;
        // Variances are not negative: NaN of negative ones are compared as well, but leave nothing to compare with float64.
        check("batch_norm", {{"shape", shape}, {"eps", "6"}}, static_cast<uint64_t>(i));
    }
}

TEST_F(Rows, SpecialValues) {
    const double nan = std::nan("");
    const auto is_nan = [](double x) { return std::isnan(x); };
    for (const std::vector<double> &row : {std::vector<double>{1, nan, 2}, {1, infinity, 2}, {-infinity, -infinity, -infinity}})
        EXPECT_TRUE(std::ranges::all_of(results("softmax", {{"shape", "3"}}, row), is_nan));
    EXPECT_EQ(results("softmax", {{"shape", "3"}}, {5, -infinity, 5}), (std::vector<double>{0.5, 0, 0.5}));
    const std::vector<double> columns =
        results("softmax", {{"shape", "2x4"}, {"dim", "0"}}, {5, nan, infinity, -infinity, 5, 2, 1, -infinity});
    for (size_t at = 0; at < columns.size(); at++) EXPECT_TRUE(at % 4 == 0 ? columns[at] == 0.5 : is_nan(columns[at])) << at;
    EXPECT_EQ(results("log_softmax", {{"shape", "2x2"}, {"dim", "0"}}, {5, -infinity, -infinity, 1}),
              (std::vector<double>{0, -infinity, -infinity, 0}));
    EXPECT_TRUE(std::ranges::all_of(results("layer_norm", {{"shape", "3"}}, {1, infinity, 2}), is_nan));
    EXPECT_EQ(results("layer_norm", {{"shape", "2x2"}}, {3, 3, -1, 1}), (std::vector<double>{0, 0, -1, 1}));
    EXPECT_EQ(results("group_norm", {{"shape", "1x4"}, {"num-groups", "2"}}, {3, 3, -1, 1}),
              (std::vector<double>{0, 0, -1, 1}));
    // Both ways of reducing: along lanes and across them.
    for (const char *dim : {"0", "1"}) {
        EXPECT_TRUE(is_nan(results("amax", {{"shape", "3x3"}, {"dim", dim}}, {1, 2, 3, 4, nan, 6, 7, 8, 9})[1]));
        EXPECT_TRUE(
            is_nan(results("amin", {{"shape", "3x3"}, {"dim", dim}}, {1, 2, 3, 4, nan, -infinity, 7, -infinity, 9})[1]));
        EXPECT_EQ(results("amax", {{"shape", "2x2"}, {"dim", dim}}, {infinity, -infinity, -infinity, -infinity}),
                  (std::vector<double>{infinity, -infinity}));
        EXPECT_EQ(results("sum", {{"shape", "2x2"}, {"dim", dim}}, {infinity, 1, 1, 2}), (std::vector<double>{infinity, 3}));
        EXPECT_TRUE(is_nan(results("sum", {{"shape", "2x2"}, {"dim", dim}}, {infinity, -infinity, -infinity, 2})[0]));
    }
    EXPECT_EQ(results("log_softmax", {{"shape", "3"}}, {5, -infinity, -infinity}),
              (std::vector<double>{0, -infinity, -infinity}));
    EXPECT_TRUE(is_nan(results("log_softmax", {{"shape", "2"}}, {-infinity, -infinity})[0]));
    const WorkloadArguments pairs = {{"shape", "1x1x4x1"}, {"kernel-size", "1,2"}, {"layout", "nhwc"}};
    const std::vector<double> pooled = results("max_pool2d", pairs, {nan, 1, -infinity, -infinity});
    EXPECT_TRUE(is_nan(pooled[0]));
    EXPECT_EQ(pooled[1], -infinity);
    EXPECT_EQ(results("avg_pool2d", pairs, {infinity, 1, 2, 4}), (std::vector<double>{infinity, 3}));
}

// Extrema across lanes: NaN in any of their elements, beside infinities of both signs and zeros, which alone make none.
TEST_F(Rows, ExtremaAcrossLanesSpreadNaN) {
    constexpr size_t length = 19, width = 40;
    const std::vector<double> others = {infinity, -infinity, 0, -0.0, 100, -100, 3e38, -3e38};
    std::vector<double> values(length * width);
    for (size_t y = 0; y < length; y++)
        for (size_t x = 0; x < width; x++)
            values[y * width + x] = y == x ? std::nan("") : x == length ? -infinity : others[(x * 5 + y * (1 + x % 3)) % 8];
    for (const char *name : {"amax", "amin"}) {
        const std::vector<double> found = results(name, {{"shape", "19x40"}, {"dim", "0"}}, values);
        for (size_t x = 0; x < width; x++) {
            SCOPED_TRACE(fmt::format("{}, column {}", name, x));
            if (x < length) {
                EXPECT_TRUE(std::isnan(found[x]));
                continue;
            }
            double best = values[x];
            for (size_t y = 0; y < length; y++)
                best =
                    name == std::string("amax") ? std::max(best, values[y * width + x]) : std::min(best, values[y * width + x]);
            EXPECT_EQ(found[x], static_cast<double>(bf16_float(bf16_truncate(static_cast<float>(best)))));
        }
    }
}

// An element takes a comparison, a copy, and what tells whether it is a number, of the adder or of the multiplier.
TEST_F(Rows, ExtremaAcrossLanesTakeThreeOperationsAnElement) {
    if (!machine.timed()) return;
    const auto workload = find_operator("amax").workload({{"shape", "128x64"}, {"dim", "0"}});
    const KernelDefinition kernel = workload->build(machine, workload->naive_point(machine));
    const KernelRun run = run_kernel(kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine), machine,
                                     {TensorData(128 * 64, bf16_truncate(0.5f))});
    ASSERT_TRUE(run.result.ok) << run.result.error;
    const auto operations = [&](Unit unit) { return run.result.counters.unit_operations[static_cast<size_t>(unit)]; };
    constexpr uint64_t vectors = 128 * 2;
    EXPECT_LT(operations(Unit::Alu) + operations(Unit::Mul), vectors * 7 / 2);
}

// A logarithm in lanes for many rows: the same results, NaN of a row in none beside it, and far fewer operations. Of longer
// rows as many fewer, but each vector has operations of its own; they lie in columns where they end inside a vector.
TEST_F(Rows, LogarithmsAreMadeBesideEachOther) {
    constexpr int64_t rows = 48, of_logarithm = 35;
    for (const int64_t length : {20, 50, 70, 100, 160, 250, 1000}) {
        const bool is_short = tiles_of(length) <= 4;
        const std::shared_ptr<const Workload> workload =
            find_operator("log_softmax").workload({{"shape", fmt::format("{}x{}", rows, length)}});
        const Evaluator evaluator(workload, machine);
        const auto point = [&](int64_t beside, int64_t row_unroll, int64_t reduced) {
            return Point{{"rows", 16},
                         {"row_unroll", row_unroll},
                         {"vector_unroll", tiles_of(length)},
                         {"reduced", reduced},
                         {"stored", 0},
                         {"grouped", 0},
                         {"skewed", 0},
                         {"beside", beside}};
        };
        const Space space = workload->space(machine);
        const int64_t most_unrolled = tiles_of(length) <= 8 ? 4 : 1;
        if (!violation(space, point(1, most_unrolled, 0)).empty()) continue;  // small pads
        SCOPED_TRACE(length);
        for (const int64_t row_unroll : {int64_t{1}, most_unrolled})
            for (int64_t reduced = 0; reduced <= is_short; reduced++)
                EXPECT_EQ(evaluator.verify(point(1, row_unroll, reduced)), "") << row_unroll << reduced;
        TensorData data;
        for (int64_t at = 0; at < rows * length; at++)
            data.push_back(bf16_truncate(at == 5 * length ? std::nanf("") : static_cast<float>(at * 7 % 16)));
        const auto run = [&](const Point &at) {
            const KernelDefinition kernel = workload->build(machine, at);
            KernelRun made = run_kernel(kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine), machine, {data});
            EXPECT_TRUE(made.result.ok) << made.result.error;
            return made;
        };
        const KernelRun beside = run(point(1, most_unrolled, 0)), alone = run(point(0, most_unrolled, 0));
        EXPECT_EQ(beside.outputs, alone.outputs);
        for (int64_t at = 0; at < rows * length; at++)
            EXPECT_EQ(std::isnan(bf16_float(beside.outputs.at(0)[static_cast<size_t>(at)])), at / length == 5) << at;
        const auto operations = [](const KernelRun &made) {
            const auto &counts = made.result.counters.unit_operations;
            return counts[static_cast<size_t>(Unit::Alu)] + counts[static_cast<size_t>(Unit::Mul)];
        };
        EXPECT_LT(operations(beside) + rows * of_logarithm, operations(alone));
        if (is_short) {
            EXPECT_LT(operations(beside), operations(alone) / 2);
        }
    }
}

// Rows that nothing waits for overlap: the draft then puts the lanes' time first, not the latency of a row's sums.
TEST_F(Rows, DraftOfRowsThatOverlap) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    const auto workload = find_operator("rms_norm").workload({{"shape", "1024x768,768"}});
    Point point = {{"rows", 64}, {"row_unroll", 1}, {"vector_unroll", 24}, {"reduced", 0}, {"stored", 0}, {"grouped", 0}};
    const double overlapping = workload->draft(machine, point);
    point.set("grouped", 1);
    for (const int64_t unroll : {1, 2, 4}) {
        point.set("row_unroll", unroll);
        EXPECT_LT(overlapping, workload->draft(machine, point)) << unroll;
    }
}

// Rows that wait for their own sums overlap too, where that leaves registers and few iterations take as long as one row.
TEST_F(Rows, DraftOfNormalizationsThatOverlap) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    const auto workload = find_operator("layer_norm").workload({{"shape", "1024x128,128,128"}});
    const auto draft = [&](int64_t unroll) {
        return workload->draft(
            machine,
            {{"rows", 128}, {"row_unroll", unroll}, {"vector_unroll", 4}, {"reduced", 0}, {"stored", 0}, {"grouped", 0}});
    };
    for (const int64_t unroll : {1, 2, 8}) EXPECT_LT(draft(4), draft(unroll)) << unroll;
}

// Rows of an odd number of vectors overlap as others do, although roots take almost as long as the lanes.
TEST_F(Rows, DraftOfRowsOfThreeVectors) {
    if (!machine.timed()) GTEST_SKIP() << "nothing waits";
    const auto workload = find_operator("layer_norm").workload({{"shape", "3136x96,96,96"}});
    const auto draft = [&](int64_t unroll) {
        return workload->draft(
            machine,
            {{"rows", 3136}, {"row_unroll", unroll}, {"vector_unroll", 3}, {"reduced", 0}, {"stored", 0}, {"grouped", 0}});
    };
    for (const int64_t unroll : {1, 2, 8, 16}) EXPECT_LT(draft(4), draft(unroll)) << unroll;
}

// The logarithm of a row is lane operations, whose code leaves the instruction cache where many rows are in straight-line code.
TEST_F(Rows, DraftOfLogarithms) {
    if (!machine.timed()) GTEST_SKIP() << "nothing is fetched";
    const auto workload = find_operator("log_softmax").workload({{"shape", "400x50"}});
    const auto draft = [&](int64_t unroll) {
        return workload->draft(
            machine,
            {{"rows", 400}, {"row_unroll", unroll}, {"vector_unroll", 2}, {"reduced", 0}, {"stored", 0}, {"grouped", 0}});
    };
    for (const int64_t unroll : {1, 2, 8, 16}) EXPECT_LT(draft(4), draft(unroll)) << unroll;
}

// Vectors of rows that end inside one lie in columns: a transfer has one of each of 32 rows.
TEST_F(Rows, RowsThatEndInsideVectorsComeInColumns) {
    if (!machine.timed()) GTEST_SKIP() << "transfers take no time";
    const auto transfers = [&](const char *op, const char *shape, int64_t vectors) {
        const Evaluation evaluation = Evaluator(find_operator(op).workload({{"shape", shape}}), machine)
                                          .evaluate({{"rows", 32},
                                                     {"row_unroll", 2},
                                                     {"vector_unroll", vectors},
                                                     {"reduced", 0},
                                                     {"stored", 0},
                                                     {"grouped", 0},
                                                     {"skewed", 0}});
        EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        return evaluation.counters.at("unit_operations").at("SDMA").get<int64_t>();
    };
    constexpr int64_t blocks = 2, both_ways = 2;
    EXPECT_EQ(transfers("softmax", "64x77", 3), blocks * both_ways * 3);
    EXPECT_EQ(transfers("rms_norm", "64x197", 7), blocks * both_ways * 7);
}

// Tensors without elements are legal: the results have none either, or are what sums and means of nothing are.
TEST_F(Rows, WithoutElements) {
    struct Case {
        const char *op;
        WorkloadArguments arguments;
        std::vector<int64_t> extents;  // of the result, innermost first
    };
    const std::vector<Case> cases = {
        {"add", {{"shape", "0x4,4"}}, {4, 0}},
        {"relu", {{"shape", "3x0"}}, {0, 3}},
        {"softmax", {{"shape", "0x5"}}, {5, 0}},
        {"log_softmax", {{"shape", "2x0"}}, {0, 2}},
        {"softmax", {{"shape", "0x5"}, {"dim", "0"}}, {5, 0}},
        {"group_norm", {{"shape", "2x4x0,4"}, {"num-groups", "2"}}, {0, 4, 2}},
        {"layer_norm", {{"shape", "0x8,8,8"}}, {8, 0}},
        {"batch_norm", {{"shape", "0x3x4,3,3"}}, {4, 3, 0}},
        {"sum", {{"shape", "0x5"}, {"dim", "1"}}, {0}},
        {"amax", {{"shape", "0x5"}, {"dim", "1"}}, {0}},
        {"max_pool2d", {{"shape", "0x3x4x4"}, {"kernel-size", "2"}}, {2, 2, 3, 0}},
        {"adaptive_avg_pool2d", {{"shape", "0x3x4x4"}}, {1, 1, 3, 0}},
        {"permute", {{"shape", "4x0x3"}, {"dims", "2,0,1"}}, {0, 4, 3}},
        {"slice", {{"shape", "4x8"}, {"start", "2"}, {"end", "2"}}, {8, 0}},
        {"cat", {{"shape", "0x4,0x4"}}, {4, 0}},
        {"mm", {{"shape", "0x4,4x5"}}, {5, 0}},
        {"linear", {{"shape", "2x0x4,6x4,6"}}, {6, 0, 2}},
        {"matmul", {{"shape", "0x2x3,3x4"}}, {4, 2, 0}},
        {"conv2d", {{"shape", "0x3x5x5,4x3x3x3"}}, {3, 3, 4, 0}},
        {"scaled_dot_product_attention", {{"shape", "2x0x8,2x4x8,2x4x6"}}, {6, 0, 2}},
    };
    for (const Case &one : cases) {
        SCOPED_TRACE(one.op);
        const std::shared_ptr<const Workload> workload = find_operator(one.op).workload(one.arguments);
        EXPECT_EQ(workload->outputs()[0].extents, one.extents);
        const Evaluator evaluator(workload, machine);
        EXPECT_EQ(evaluator.verify(workload->naive_point(machine)), "");
    }
    EXPECT_EQ(results("sum", {{"shape", "2x0"}, {"dim", "1"}}, {}), (std::vector<double>{0, 0}));
    EXPECT_TRUE(std::isnan(results("mean", {{"shape", "2x0"}, {"dim", "1"}}, {})[1]));
    EXPECT_EQ(results("mm", {{"shape", "1x0,0x2"}}, {}), (std::vector<double>{0, 0}));
    EXPECT_EQ(results("pad", {{"shape", "0"}, {"pad", "1,1"}, {"value", "2"}}, {}), (std::vector<double>{2, 2}));
}

std::string workload_error(const std::string &name, const WorkloadArguments &arguments) {
    return error_of([&] { find_operator(name).workload(arguments); });
}

TEST(RowErrors, AreThoseOfPyTorch) {
    EXPECT_EQ(workload_error("softmax", {{"shape", "3x4"}, {"dim", "2"}}),
              "softmax: dimension out of range (expected to be in range of [-2, 1], but got 2)");
    EXPECT_EQ(workload_error("layer_norm", {{"shape", "3x4"}, {"normalized-shape", "3"}}),
              "layer_norm: given normalized_shape=3, expected input with shape [*, 3], but got input of size 3x4");
    EXPECT_EQ(workload_error("layer_norm", {{"shape", "3x4,5"}}),
              "layer_norm: expected weight of the same shape as normalized_shape, but got weight of shape 5 and "
              "normalized_shape = 4");
    EXPECT_EQ(workload_error("sum", {{"shape", "3x4"}, {"dim", "1,-1"}}),
              "sum: dim 1 appears multiple times in the list of dims");
    EXPECT_EQ(workload_error("amax", {{"shape", "3x0"}, {"dim", "1"}}),
              "amax: expected reduction dims to have non-zero size, but 3x0 is reduced to 3");
    EXPECT_EQ(workload_error("max_pool2d", {{"shape", "1x4x4x8"}, {"kernel-size", "5"}}),
              "max_pool2d: kernel size 5 is larger than the padded input of 4 + 2 * 0");
    EXPECT_EQ(
        workload_error("max_pool2d", {{"shape", "1x4x4x8"}, {"kernel-size", "2"}, {"padding", "2"}}),
        "max_pool2d: padding should be at least 0 and at most half of the kernel size, but got padding 2 and kernel size 2");
    EXPECT_EQ(workload_error("adaptive_avg_pool2d", {{"shape", "1x2x4x4"}, {"output-size", "0,2"}}),
              "adaptive_avg_pool2d: output_size must be greater than zero, but got 0, 2");
    EXPECT_EQ(workload_error("adaptive_avg_pool2d", {{"shape", "1x2x0x4"}, {"output-size", "2"}}),
              "adaptive_avg_pool2d: expected input to have non-zero size for non-batch dimensions, but got 1x2x0x4");
    EXPECT_EQ(
        workload_error("adaptive_avg_pool2d", {{"shape", "1x20x20x8"}, {"output-size", "6"}, {"layout", "nhwc"}}),
        "adaptive_avg_pool2d: in layout nhwc windows must be of one size at even distances, and from 1x20x20x8 to 6x6 they "
        "are not; permute to nchw, which takes any");
    EXPECT_EQ(workload_error("adaptive_avg_pool1d", {{"shape", "4x4"}, {"output-size", "2,2"}}),
              "adaptive_avg_pool1d: output_size must either be a single int, or a tuple of 1 ints");
    EXPECT_EQ(workload_error("layer_norm", {{"shape", "3x4,4,4,4"}}),
              "layer_norm: an addend of 4 is not of the shape of the tensor, 3x4");
    EXPECT_EQ(workload_error("group_norm", {{"shape", "2x6x4"}, {"num-groups", "4"}}),
              "group_norm: expected the number of channels to be divisible by num_groups, but got an input of 2x6x4 and "
              "num_groups=4");
    EXPECT_EQ(workload_error("group_norm", {{"shape", "2x6x4"}, {"num-groups", "0"}}),
              "group_norm: expected num_groups to be at least 1, but got 0");
    EXPECT_EQ(workload_error("group_norm", {{"shape", "2x6x4,5"}, {"num-groups", "2"}}),
              "group_norm: expected weight to be a vector with an element for each of the 6 channels, but got 5");
    EXPECT_EQ(workload_error("group_norm", {{"shape", "6"}}),
              "group_norm: expected at least 2 dimensions, of which the second is the channel, but got 6");
    EXPECT_EQ(workload_error("batch_norm", {{"shape", "2x3x4,3,3,4"}}), "batch_norm: weight should contain 3 elements, not 4");
    EXPECT_EQ(workload_error("batch_norm", {{"shape", "4,4,4"}}),
              "batch_norm: expected at least 2 dimensions, of which the second is the channel, but got 4");
    EXPECT_THAT(workload_error("batch_norm", {{"shape", "2x3,3,3"}, {"training", "true"}}),
                testing::HasSubstr("in training mode it changes its statistics"));
    EXPECT_EQ(workload_error("avg_pool2d", {{"shape", "4x4"}, {"kernel-size", "2"}}),
              "avg_pool2d: expected 3D or 4D input, but got 4x4");
}

}  // namespace
}  // namespace atalla
