// Softmax, normalizations, reductions and pooling at random shapes and schedules on one machine: bit for bit equal to the
// unoptimized program, close to float64, never faster than the bound; special values as PyTorch has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/evaluate.h"
#include "generators/long_sums.h"
#include "generators/pool.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "simulator/numerics.h"
#include "tests/generators/sampled_point.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

constexpr int rounds = ATALLA_TEST_ROUNDS;
constexpr double infinity = std::numeric_limits<double>::infinity();

class Rows : public testing::Test {
protected:
    const Machine machine = find_machine(ATALLA_TEST_MACHINE);
    Random random{20261121};

    int64_t size(int64_t largest) {
        constexpr std::array<int64_t, 9> edges = {1, 2, 31, 32, 33, 64, 65, 96, 97};
        return std::min(largest, random.below(2) == 0 ? edges[random.below(edges.size())]
                                                      : 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(largest))));
    }
    int64_t below(int64_t end) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(end))); }

    void check(const std::string &name, const WorkloadArguments &arguments, uint64_t seed) {
        std::string text;
        for (const auto &[key, value] : arguments) text += fmt::format(" --{} {}", key, value);
        SCOPED_TRACE(fmt::format("{}{}", name, text));
        const Operator &op = find_operator(name);
        const std::shared_ptr<const Workload> workload = op.workload(arguments);
        EXPECT_EQ(op.parse(workload->text())->text(), workload->text());
        const Evaluator evaluator(workload, machine, seed);
        const std::optional<Point> point = check_sampled_point(*workload, machine, evaluator, random);
        if (!point) return;
        EXPECT_GT(workload->draft(machine, *point), 0);
        EXPECT_FALSE(workload->words(machine, *point).empty());
    }

    // The results for these values, at the first schedule of the space.
    std::vector<double> results(const std::string &name, const WorkloadArguments &arguments,
                                const std::vector<double> &values) {
        const auto workload = find_operator(name).workload(arguments);
        const Point point = *sample(workload->space(machine), random);
        const KernelDefinition kernel = workload->build(machine, point);
        TensorData data;
        for (double value : values) data.push_back(bf16_truncate(static_cast<float>(value)));
        const KernelRun run = run_kernel(kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine), machine,
                                         std::vector<TensorData>(workload->inputs().size(), data));
        EXPECT_TRUE(run.result.ok) << run.result.error;
        std::vector<double> out;
        for (uint16_t one : run.outputs.at(0)) out.push_back(static_cast<double>(bf16_float(one)));
        return out;
    }
};

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
    if (!machine.timed()) GTEST_SKIP() << "no such group fits the pads";
    for (int i = 0; i < rounds; i++) {
        const auto seed = static_cast<uint64_t>(i);
        check("group_norm", {{"shape", "2x16x20x20,16,16"}, {"num-groups", "2"}}, seed);
        check("group_norm", {{"shape", "1x32x14x14,-,32"}, {"num-groups", "1"}}, seed);
        check("group_norm", {{"shape", "1x8x28x28"}, {"num-groups", "1"}}, seed);
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

// The same of columns, which come from one tensor or from several, one vector of each or some.
TEST_F(Rows, SkewedPassesOfColumns) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    for (const char *op : {"softmax", "log_softmax"})
        for (const auto &[shape, unroll] : {std::pair{"3x32x96", 2}, {"1x40x96", 1}, {"5x16x32", 1}, {"2x24x64", 3}}) {
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
// than are under way.
TEST_F(Rows, SkewedPassesOfGroups) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    uint64_t seed = 0;
    for (const auto &[shape, groups] :
         {std::pair{"2x16x20x20,16,16", 4}, {"1x32x14x14,-,32", 1}, {"3x8x16x16,8", 2}, {"1x8x28x28", 1}}) {
        SCOPED_TRACE(fmt::format("{} in {} groups", shape, groups));
        const Evaluator evaluator(
            find_operator("group_norm").workload({{"shape", shape}, {"num-groups", std::to_string(groups)}}), machine, ++seed);
        int points = 0;
        for_each(evaluator.workload().space(machine), [&](const Point &point) {
            if (point["skewed"] == 0) return true;
            SCOPED_TRACE(point.assignments());
            const Evaluation evaluation = evaluator.evaluate(point);
            EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
            EXPECT_GE(evaluation.cycles, evaluator.workload().bound(machine).cycles);
            EXPECT_EQ(evaluator.verify(point), "");
            points++;
            return true;
        });
        EXPECT_GT(points, 0);
    }
}

// Biases of vectors are stored beside their weights: both take hardly longer to make than one of them.
TEST_F(Rows, WeightsAndBiasesOfGroupsAreMadeTogether) {
    if (!machine.timed()) GTEST_SKIP() << "nothing waits for a pad";
    const auto cycles = [&](const char *shape) {
        const Evaluator evaluator(find_operator("group_norm").workload({{"shape", shape}, {"num-groups", "8"}}), machine);
        return evaluator.evaluate({{"skewed", 7}, {"vector_unroll", 1}, {"sum_unroll", 4}, {"square_unroll", 4}}).cycles;
    };
    const int64_t none = cycles("1x64x28x28"), weight = cycles("1x64x28x28,64"), both = cycles("1x64x28x28,64,64");
    EXPECT_LT(3 * (both - weight), 2 * (weight - none));
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

TEST_F(Rows, AdaptivePooling) {
    for (int i = 0; i < rounds; i++)
        for (const char *name : {"adaptive_avg_pool2d", "adaptive_avg_pool1d"}) {
            const bool flat = std::string_view(name).ends_with("1d");
            const auto side = [&] { return 1 + below(machine.timed() ? 20 : 8); };
            const int64_t rows = side(), columns = side();
            WorkloadArguments arguments;
            // 32 planes do not fit small pads.
            if (machine.timed() && below(4) != 0) {
                arguments["shape"] =
                    fmt::format("{}x{}x{}{}", 1 + below(2), size(70), flat ? "" : fmt::format("{}x", rows), columns);
                const auto few = [&] { return 1 + below(5); };
                arguments["output-size"] =
                    flat || below(4) == 0 ? fmt::format("{}", few()) : fmt::format("{},{}", few(), few());
            } else if (below(2) == 0) {
                arguments["shape"] =
                    fmt::format("{}x{}x{}{}", 1 + below(2), size(70), flat ? "" : fmt::format("{}x", rows), columns);
            } else {
                const int64_t factor = 1 + below(3);
                arguments["shape"] = fmt::format("{}x{}{}x{}", 1 + below(2), flat ? "" : fmt::format("{}x", 2 * rows),
                                                 factor * columns, size(70));
                arguments["output-size"] = flat ? fmt::format("{}", columns) : fmt::format("{},{}", rows, columns);
                arguments["layout"] = "nhwc";
            }
            check(name, arguments, static_cast<uint64_t>(i));
        }
}

TEST_F(Rows, Reductions) {
    for (int i = 0; i < rounds; i++)
        for (const char *name : {"sum", "mean", "amax", "amin", "var"}) {
            Shape shape;
            const int64_t rank = 1 + below(4), largest = rank == 1 ? 3000 : rank == 2 ? 150 : rank == 3 ? 40 : 12;
            for (int64_t d = 0; d < rank; d++) shape.push_back(size(largest));
            std::vector<int64_t> dims;
            for (int64_t d = 0; d < rank; d++)
                if (below(2) == 0) dims.push_back(below(2) == 0 ? d : d - rank);
            WorkloadArguments arguments = {{"shape", fmt::format("{}", fmt::join(shape, "x"))}};
            if (!dims.empty()) arguments["dim"] = fmt::format("{}", fmt::join(dims, ","));
            if (below(2) == 0) arguments.insert_or_assign("keepdim", std::string("true"));
            // With a single element there is nothing to divide by.
            if (name == std::string("var")) arguments.insert_or_assign("correction", std::string("0"));
            check(name, arguments, static_cast<uint64_t>(i));
        }
}

TEST(LongSums, AreMadeInGroupsWhereARowLosesMore) {
    for (const int64_t steps : {1, 64, 75, 80}) EXPECT_FALSE(long_sum(steps).in_groups()) << steps;
    for (const int64_t steps : {88, 128, 512}) EXPECT_LT(long_sum(steps).additions_in_a_row(), 50) << steps;
    EXPECT_LT(long_sum(40, 4).additions_in_a_row(), 50);
}

// A bf16 of 256 takes no ones any more.
TEST_F(Rows, LongSumsAcrossLanesAreWhole) {
    const auto sums = [&](const char *name, const char *shape, const char *dim, int64_t count) {
        return results(name, {{"shape", shape}, {"dim", dim}}, std::vector<double>(static_cast<size_t>(count), 1));
    };
    const auto within = [](double middle, double share) {
        return testing::Each(testing::AllOf(testing::Ge(middle * (1 - share)), testing::Le(middle * (1 + share))));
    };
    EXPECT_THAT(sums("sum", "4096x3", "0", int64_t{4096} * 3), testing::Each(4096));
    EXPECT_THAT(sums("mean", "2x2100x40", "1", int64_t{2} * 2100 * 40), within(1, 0.01));
    EXPECT_THAT(sums("sum", "600x96", "0", int64_t{600} * 96), within(600, 0.01));
    for (int i = 0; i < 4; i++)
        EXPECT_THAT(sums("sum", "700x96", "0", int64_t{700} * 96),
                    within(700, 0.01));  // in any parts, with rows that are not there
    // 13 at a time, 512 takes no more than 12 of them.
    EXPECT_THAT(sums("sum", "80x3x13x4", "0,2", int64_t{80} * 3 * 13 * 4), within(1040, 0.01));
    // In steps of eight elements: 1,018 steps, which no small number divides, and 79 planes of 67.
    EXPECT_THAT(sums("mean", "8144x3", "0", int64_t{8144} * 3), within(1, 0.01));
    EXPECT_THAT(sums("mean", "79x2x67x3", "0,2", int64_t{79} * 2 * 67 * 3), within(1, 0.01));
    EXPECT_THAT(sums("mean", "65152x3", "0", int64_t{65152} * 3), within(1, 0.02));
    EXPECT_THAT(sums("var", "529x2x4", "0,1", int64_t{529} * 2 * 4), testing::Each(testing::Lt(0.001)));
    EXPECT_THAT(sums("var", "3000x3", "0", int64_t{3000} * 3), testing::Each(testing::Lt(0.001)));
    if (!machine.timed()) return;  // such columns do not fit small pads
    EXPECT_THAT(sums("softmax", "4096x3", "0", int64_t{4096} * 3), within(1.0 / 4096, 0.01));
    EXPECT_THAT(sums("softmax", "8144x3", "0", int64_t{8144} * 3), within(1.0 / 8144, 0.01));
}

// Windows of many elements, with lanes that are planes or channels, of one size or of several, and along a line.
TEST_F(Rows, MeansOfLargeWindowsAreWhole) {
    if (!machine.timed()) GTEST_SKIP() << "such images do not fit small pads";
    const auto means = [&](const char *name, int64_t count, WorkloadArguments arguments) {
        return results(name, arguments, std::vector<double>(static_cast<size_t>(count), 1));
    };
    const auto whole = testing::Each(testing::AllOf(testing::Ge(0.96), testing::Le(1.04)));
    EXPECT_THAT(means("avg_pool2d", 8 * 60 * 60, {{"shape", "1x8x60x60"}, {"kernel-size", "30"}, {"stride", "15"}}), whole);
    EXPECT_THAT(
        means("avg_pool2d", 40 * 36 * 8, {{"shape", "1x40x36x8"}, {"kernel-size", "31"}, {"stride", "3"}, {"layout", "nhwc"}}),
        whole);
    EXPECT_THAT(means("adaptive_avg_pool2d", 3 * 65 * 67, {{"shape", "1x3x65x67"}, {"output-size", "2,3"}}), whole);
    EXPECT_THAT(means("avg_pool1d", 2 * 3000, {{"shape", "1x2x3000"}, {"kernel-size", "600"}, {"stride", "100"}}), whole);
}

// Neither the planes nor the steps of each are made of equal groups: few runs, whose rows small pads hold.
TEST_F(Rows, SumsOfAwkwardNumbersHaveASchedule) {
    const auto workload = find_operator("var").workload({{"shape", "79x2x530x3"}, {"dim", "0,2"}});
    EXPECT_EQ(violation(workload->space(machine), workload->naive_point(machine)), "");
}

// Rows that end inside a vector lie by columns of vectors where many are in the pads: in blocks that are not whole, with a
// second axis that is reduced, and others kept.
TEST_F(Rows, ReductionsByColumnsOfVectors) {
    for (const char *name : {"sum", "mean", "amax", "var"})
        for (const auto &[shape, dims] : {std::pair{"100x49", "1"}, {"3x17x70", "2"}, {"2x33x3x45", "1,3"}}) {
            const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", shape}, {"dim", dims}});
            for (const auto &[rows, unroll] : {std::pair{16, 1}, {16, 4}, {8, 8}}) {
                const Point point = {
                    {"rows", rows}, {"chunk", 0}, {"row_unroll", unroll}, {"vector_unroll", 1}, {"grouped", 0}};
                if (!violation(workload->space(machine), point).empty()) continue;
                SCOPED_TRACE(fmt::format("{} of {} over {}, {}", name, shape, dims, point.assignments()));
                EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
            }
        }
}

// Global average pooling: transfers bring vectors of many rows.
TEST_F(Rows, MeansOfImagesWaitForFewTransfers) {
    if (!machine.timed()) return;
    const Evaluator evaluator(find_operator("mean").workload({{"shape", "64x14x14"}, {"dim", "1,2"}}), machine);
    const Evaluation few =
        evaluator.evaluate({{"rows", 4}, {"chunk", 0}, {"row_unroll", 2}, {"vector_unroll", 7}, {"grouped", 0}});
    const Evaluation many =
        evaluator.evaluate({{"rows", 32}, {"chunk", 0}, {"row_unroll", 2}, {"vector_unroll", 7}, {"grouped", 0}});
    ASSERT_EQ(few.status, Evaluation::Ok) << few.reason;
    ASSERT_EQ(many.status, Evaluation::Ok) << many.reason;
    EXPECT_LT(many.cycles, few.cycles * 2 / 3);
}

TEST_F(Rows, Pooling) {
    for (int i = 0; i < rounds; i++)
        for (const char *name : {"max_pool2d", "avg_pool2d", "max_pool1d", "avg_pool1d"}) {
            const bool flat = std::string_view(name).ends_with("1d"), average = std::string_view(name).starts_with("avg");
            const int64_t kernel = 1 + below(4), largest = machine.timed() ? 20 : 8;
            const auto side = [&] { return kernel + below(largest); };
            // 32 planes do not fit small pads.
            const bool planes = machine.timed() && below(2) == 0;
            const std::string pixels =
                flat ? fmt::format("{}", side()) : fmt::format("{}x{}", side(), planes ? kernel + size(70) : side());
            const std::string shape = planes ? fmt::format("{}x{}x{}", 1 + below(2), size(70), pixels)
                                             : fmt::format("{}x{}x{}", 1 + below(2), pixels, size(70));
            WorkloadArguments arguments = {{"shape", shape},
                                           {"kernel-size", fmt::format("{}", kernel)},
                                           {"stride", fmt::format("{}", 1 + below(3))},
                                           {"padding", fmt::format("{}", below(kernel / 2 + 1))}};
            if (below(2) == 0) arguments["ceil-mode"] = "true";
            if (!planes) arguments["layout"] = "nhwc";
            if (average && below(2) == 0) arguments["count-include-pad"] = "false";
            check(name, arguments, static_cast<uint64_t>(i));
        }
    // Small pads hold few results of overlapping windows beside the shares of all.
    check("avg_pool2d", {{"shape", "1x11x9x1"}, {"kernel-size", "4"}, {"stride", "1"}, {"padding", "2"}, {"layout", "nhwc"}},
          0);
}

// PyTorch clips such windows to the image and its padding, elements and divisor.
TEST_F(Rows, WindowsWiderThanTheImage) {
    const std::vector<double> image = {1, 2, 3, 6};
    for (const char *layout : {"nhwc", "nchw"}) {
        if (layout == std::string("nchw") && !machine.timed()) continue;  // 32 planes do not fit small pads
        const WorkloadArguments whole = {{"shape", layout == std::string("nchw") ? "1x1x2x2" : "1x2x2x1"},
                                         {"kernel-size", "320"},
                                         {"ceil-mode", "true"},
                                         {"layout", layout}};
        WorkloadArguments padded = whole;
        padded["kernel-size"] = "8";
        padded["padding"] = "1";
        EXPECT_EQ(results("avg_pool2d", whole, image), (std::vector<double>{3})) << layout;
        EXPECT_EQ(results("max_pool2d", whole, image), (std::vector<double>{6})) << layout;
        EXPECT_EQ(results("avg_pool2d", padded, image), (std::vector<double>{0.75})) << layout;
        padded["count-include-pad"] = "false";
        EXPECT_EQ(results("avg_pool2d", padded, image), (std::vector<double>{3})) << layout;
    }
    EXPECT_EQ(
        results("avg_pool1d", {{"shape", "1x1x4"}, {"kernel-size", "9"}, {"ceil-mode", "true"}, {"layout", "nhwc"}}, image),
        image);
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

// A NaN anywhere reaches the windows that share it, whichever row or column of theirs it is in, and no other.
TEST_F(Rows, OverlappingWindowsShareNaN) {
    const WorkloadArguments windows = {{"shape", "1x3x5x1"}, {"kernel-size", "3"}, {"stride", "2"}, {"layout", "nhwc"}};
    for (size_t at = 0; at < 15; at++) {
        std::vector<double> image(15, -infinity);
        image[at] = std::nan("");
        const std::vector<double> pooled = results("max_pool2d", windows, image);
        ASSERT_EQ(pooled.size(), 2u);
        EXPECT_EQ(std::isnan(pooled[0]), at % 5 <= 2) << at;
        EXPECT_EQ(std::isnan(pooled[1]), at % 5 >= 2) << at;
    }
}

// Means of planes without padding: rows in one piece, in equal ones and in those that are cut where beats begin, windows that
// overlap or leave elements out, below each other or not.
TEST_F(Rows, MeansOfPlanes) {
    if (!machine.timed()) GTEST_SKIP() << "32 planes do not fit small pads";
    for (int i = 0; i < 2 * rounds; i++) {
        const int64_t kernel_y = 1 + below(4), kernel_x = 1 + below(4), stride_y = 1 + below(4), stride_x = 1 + below(4);
        const int64_t height = below(2) == 0 ? std::max(kernel_y, stride_y) * (1 + below(8)) : kernel_y + below(20);
        const int64_t width = below(2) == 0 ? kernel_x + size(130) : std::max(kernel_x, stride_x * (1 + below(2)) * 14);
        check("avg_pool2d",
              {{"shape", fmt::format("{}x{}x{}x{}", 1 + below(2), size(40), height, width)},
               {"kernel-size", fmt::format("{},{}", kernel_y, kernel_x)},
               {"stride", fmt::format("{},{}", stride_y, stride_x)}},
              static_cast<uint64_t>(i));
    }
    check("avg_pool2d", {{"shape", "1x48x32x56"}, {"kernel-size", "2"}}, 0);
    check("avg_pool2d", {{"shape", "1x12x16x112"}, {"kernel-size", "2"}}, 0);
    check("avg_pool2d", {{"shape", "1x32x57x57"}, {"kernel-size", "3"}}, 0);
}

// Means of short rows, which come as runs of several rows where that spares the bus much: windows that leave elements out, runs
// of parts of vectors and of several, rows that are in two vectors, and those of several results in one.
TEST_F(Rows, MeansOfShortRows) {
    if (!machine.timed()) GTEST_SKIP() << "where transfers take no time rows come alone";
    const auto first_parameter = [&](const std::string &shape, const std::string &kernel) {
        return find_operator("avg_pool2d")
            .workload({{"shape", shape}, {"kernel-size", kernel}})
            ->space(machine)
            .parameters.front()
            .name;
    };
    for (const char *shape : {"1x512x8x8", "1x512x14x14", "1x256x6x6"})
        EXPECT_EQ(first_parameter(shape, "2"), "together") << shape;
    for (const char *shape : {"1x64x56x56", "1x128x28x28", "1x64x112x112"})
        EXPECT_EQ(first_parameter(shape, "2"), "rows") << shape;
    for (int i = 0; i < 2 * rounds; i++) {
        const int64_t kernel_y = 1 + below(3), kernel_x = 1 + below(3), stride_y = kernel_y + below(2), stride_x = 1 + below(3);
        check("avg_pool2d",
              {{"shape", fmt::format("{}x{}x{}x{}", 1 + below(2), size(40), stride_y * (1 + below(7)), kernel_x + below(18))},
               {"kernel-size", fmt::format("{},{}", kernel_y, kernel_x)},
               {"stride", fmt::format("{},{}", stride_y, stride_x)}},
              static_cast<uint64_t>(i));
    }
    check("avg_pool2d", {{"shape", "1x512x14x14"}, {"kernel-size", "2"}}, 0);
    check("avg_pool2d", {{"shape", "2x32x8x8"}, {"kernel-size", "2"}}, 0);
    check("avg_pool2d", {{"shape", "1x33x6x6"}, {"kernel-size", "3"}, {"stride", "3"}}, 0);
}

// Maxima of planes of any sizes: short rows that come several at a time, parts of long ones, windows that reach out of the
// image on any side.
TEST_F(Rows, MaximaOfPlanes) {
    if (!machine.timed()) GTEST_SKIP() << "32 planes do not fit small pads";
    for (int i = 0; i < 3 * rounds; i++) {
        const int64_t kernel_y = 1 + below(i % 3 == 0 ? 9 : 4), kernel_x = 1 + below(i % 3 == 0 ? 9 : 4),
                      padding_y = below(kernel_y / 2 + 1), padding_x = below(kernel_x / 2 + 1);
        const int64_t height = kernel_y + below(20), width = kernel_x + (below(2) == 0 ? below(32) : size(130));
        WorkloadArguments arguments = {{"shape", fmt::format("{}x{}x{}x{}", 1 + below(2), size(70), height, width)},
                                       {"kernel-size", fmt::format("{},{}", kernel_y, kernel_x)},
                                       {"stride", fmt::format("{},{}", 1 + below(4), 1 + below(4))},
                                       {"padding", fmt::format("{},{}", padding_y, padding_x)}};
        if (below(2) == 0) arguments["ceil-mode"] = "true";
        check("max_pool2d", arguments, static_cast<uint64_t>(i));
    }
    // One column, one result of each row, and one of the image.
    check("max_pool2d", {{"shape", "1x5x37x1"}, {"kernel-size", "3,1"}}, 1);
    check("max_pool2d", {{"shape", "1x41x9x8"}, {"kernel-size", "4,6"}, {"stride", "2,3"}}, 2);
    check("max_pool2d", {{"shape", "1x41x4x8"}, {"kernel-size", "4,6"}, {"stride", "2,3"}}, 3);
}

// Every way to move blocks of this image, whose parts differ and whose last bands come twice.
TEST_F(Rows, EveryPointOfMaximaOfRows) {
    if (!machine.timed()) GTEST_SKIP() << "32 planes do not fit small pads";
    const Evaluator evaluator(
        find_operator("max_pool2d").workload({{"shape", "1x64x7x40"}, {"kernel-size", "3"}, {"stride", "2"}, {"padding", "1"}}),
        machine);
    int points = 0;
    for_each(evaluator.workload().space(machine), [&](const Point &point) {
        EXPECT_EQ(evaluator.evaluate(point).reason, "") << point.assignments();
        EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
        return ++points < 100;
    });
    EXPECT_GE(points, 12);
}

// Rows in parts where there are some, and windows that blocks of 32 elements have room for; other planes are turned whole.
TEST_F(Rows, PlanesWithMaximaOfRows) {
    if (!machine.timed()) GTEST_SKIP() << "32 planes do not fit small pads";
    const auto form = [&](int64_t height, int64_t width, int64_t kernel, int64_t stride, int64_t padding = 0) {
        PoolShape shape;
        shape.channels = 64;
        shape.planes_outermost = true;
        shape.x = pool_axis("max_pool2d", width, kernel, stride, padding, false);
        shape.y = pool_axis("max_pool2d", height, std::min(kernel, height), stride, 0, false);
        return &pool_form(shape, machine);
    };
    EXPECT_EQ(form(56, 56, 3, 2), &row_maxima);
    EXPECT_EQ(form(13, 13, 3, 2), &row_maxima);
    EXPECT_EQ(form(4, 100, 2, 2), &row_maxima);
    EXPECT_EQ(form(3, 100, 2, 2), &plane_pool) << "too few blocks follow each other";
    EXPECT_EQ(form(40, 40, 33, 1), &plane_pool) << "a window is wider than a block";
    EXPECT_EQ(form(32, 32, 2, 1, 1), &plane_pool) << "33 results of a row";
    EXPECT_EQ(form(4, 8, 8, 1), &plane_pool) << "one result fills no tile of weights";
}

// Of planes, it reaches all windows that share its block of a row (or of several) and no other: of 40 columns, the first ten
// windows come from columns 0 to 20 and the others from columns 19 to 39. What turns the results back takes it to the same
// results of the 31 planes around. Where there is none, numbers as small as can be are larger than the padding.
TEST_F(Rows, WindowsOfABlockShareNaN) {
    if (!machine.timed()) GTEST_SKIP() << "32 planes do not fit small pads";
    constexpr size_t width = 40, height = 7, columns = 20, rows = 4, planes = 33;
    const WorkloadArguments windows = {{"shape", "1x33x7x40"}, {"kernel-size", "3"}, {"stride", "2"}, {"padding", "1"}};
    const double lowest = static_cast<double>(bf16_float(0xFF7F));
    for (const double special : {std::nan(""), infinity, -infinity})
        for (const size_t at :
             {size_t{0}, size_t{39}, 2 * width + 18, 2 * width + 19, 3 * width + 20, 3 * width + 21, 6 * width + 31}) {
            std::vector<double> images(planes * width * height, lowest);
            images[3 * width * height + at] = special;
            const std::vector<double> pooled = results("max_pool2d", windows, images);
            ASSERT_EQ(pooled.size(), planes * rows * columns);
            for (size_t i = 0; i < pooled.size(); i++) {
                const size_t plane = i / (rows * columns), row = at / width + 1, column = at % width,
                             first = 2 * (i / columns % rows);
                const bool of_block = i % columns < 10 ? column <= 20 : column >= 19;
                if (plane < 32 && row >= first && row < first + 3 && of_block)
                    EXPECT_TRUE(std::isnan(pooled[i])) << at << " " << i;
                else
                    EXPECT_EQ(pooled[i], lowest) << at << " " << i;
            }
        }
}

// Rows of 13 elements come two at a time where the height is even, and share it.
TEST_F(Rows, RowsOfABlockShareNaN) {
    if (!machine.timed()) GTEST_SKIP() << "32 planes do not fit small pads";
    constexpr size_t width = 13, height = 8, columns = 11;
    for (const size_t at : {size_t{0}, 2 * width + 12, 5 * width + 6}) {
        std::vector<double> image(width * height, 1);
        image[at] = std::nan("");
        const std::vector<double> pooled =
            results("max_pool2d", {{"shape", "1x1x8x13"}, {"kernel-size", "3"}, {"stride", "1"}}, image);
        ASSERT_EQ(pooled.size(), 6 * columns);
        const size_t block = at / width / 2 * 2;
        for (size_t i = 0; i < pooled.size(); i++) {
            const size_t row = i / columns;
            if (row <= block + 1 && row + 2 >= block)
                EXPECT_TRUE(std::isnan(pooled[i])) << at << " " << i;
            else
                EXPECT_EQ(pooled[i], 1) << at << " " << i;
        }
    }
}

// Elements in windows, less the results, are steps that no program goes without: 3 x 3 windows two apart see 9 x 9 of 10 x 10
// elements.
TEST_F(Rows, StepsOfOverlappingWindows) {
    const PoolAxis axis = pool_axis("max_pool2d", 10, 3, 2, 0, false);
    EXPECT_EQ(axis.results, 4);
    EXPECT_EQ(covered_elements(axis), 9);
    EXPECT_EQ(covered_elements(pool_axis("max_pool2d", 10, 2, 3, 1, false)), 7) << "0, 2, 3, 5, 6, 8, 9";
    EXPECT_EQ(covered_elements(adaptive_axis(10, 3)), 10);
    // Two compares a step on the adder, two copies on the multiplier.
    const auto workload = find_operator("max_pool2d")
                              .workload({{"shape", "1x10x10x3200"}, {"kernel-size", "3"}, {"stride", "2"}, {"layout", "nhwc"}});
    const int64_t steps = 100 * (9 * 9 - 4 * 4);
    EXPECT_GE(workload->bound(machine).cycles, 2 * steps * (machine.timed() ? static_cast<int64_t>(machine.vec.ii) : 1));
}

// What overlapping windows of maxima share, by hand, and never more than the largest of every column and then of a window's
// columns.
TEST_F(Rows, StepsOfMaxima) {
    const auto axis = [](int64_t size, int64_t kernel, int64_t stride, int64_t padding = 0) {
        return pool_axis("max_pool2d", size, kernel, stride, padding, false);
    };
    const PoolAxis one{1, 1, 1, 1, 0};
    EXPECT_EQ(least_maximum_steps(axis(11, 3, 2), one), 5 * 2) << "windows of three that share one element share no step";
    EXPECT_EQ(least_maximum_steps(axis(8, 2, 2), axis(8, 2, 2)), 16 * 3);
    EXPECT_EQ(least_maximum_steps(axis(9, 3, 3), axis(9, 3, 3)), 9 * 8);
    EXPECT_EQ(least_maximum_steps(axis(5, 3, 2), axis(5, 3, 2)), 4 * 13 / 2) << "six elements of each window are apart";
    EXPECT_EQ(least_maximum_steps(axis(10, 1, 1), one), 0);
    // Six steps a window of 3 x 3 elements: four of its own, and four that it shares with one other. Those at the corners have
    // a half more.
    EXPECT_EQ(least_maximum_steps(axis(203, 3, 2), axis(203, 3, 2)), 6 * 101 * 101 + 2);
    for (int64_t size = 3; size < 16; size++)
        for (int64_t kernel = 1; kernel <= 3; kernel++)
            for (int64_t stride = 1; stride <= kernel; stride++)
                for (int64_t padding = 0; padding <= kernel / 2; padding++) {
                    const PoolAxis x = axis(size, kernel, stride, padding), y = axis(12, 3, stride, padding);
                    int64_t by_columns = 0;
                    for (int64_t row = 0; row < y.results; row++) {
                        by_columns +=
                            covered_elements(x) * (std::min(y.end(row), y.size) - std::max<int64_t>(y.first(row), 0) - 1);
                        for (int64_t column = 0; column < x.results; column++)
                            by_columns += std::min(x.end(column), x.size) - std::max<int64_t>(x.first(column), 0) - 1;
                    }
                    EXPECT_LE(least_maximum_steps(x, y), by_columns)
                        << size << " " << kernel << " " << stride << " " << padding;
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

TEST(PoolAxis, CountsAsPyTorch) {
    EXPECT_EQ(pool_axis("p", 112, 3, 2, 1, false).results, 56);
    EXPECT_EQ(pool_axis("p", 5, 2, 2, 0, false).results, 2);
    EXPECT_EQ(pool_axis("p", 5, 2, 2, 0, true).results, 3);
    // The last window would begin in the padding behind the image.
    EXPECT_EQ(pool_axis("p", 4, 2, 3, 1, true).results, 2);
}

}  // namespace
}  // namespace atalla
