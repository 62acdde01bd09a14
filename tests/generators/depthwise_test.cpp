// Convolutions with a kernel for each channel: bit for bit equal to the unoptimized program, close to float64, never faster
// than the bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/generators/sampled_point.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

TEST(Convolution, DepthwiseRunsOnLanes) {
    Random random(11);
    for (int i = 0; i < 14; i++) {
        const Machine machine = find_machine(i % 2 == 0 ? "ax01" : "ax01-psum");
        const int64_t images = i % 4 == 3 ? 2 : 1, channels = images > 1 ? 32 * between(random, 1, 2) : between(random, 2, 70),
                      kernel_y = between(random, 1, 7), kernel_x = between(random, 1, 7);
        const int64_t height = kernel_y + between(random, 0, 8), width = kernel_x + between(random, 0, 8);
        const WorkloadArguments arguments = {
            {"groups", fmt::format("{}", channels)},
            {"stride", fmt::format("{},{}", between(random, 1, 3), between(random, 1, 3))},
            {"padding", fmt::format("{},{},{},{}", between(random, 0, kernel_y / 2), between(random, 0, kernel_x / 2),
                                    i % (kernel_y / 2 + 1), i % (kernel_x / 2 + 1))},
            {"shape", fmt::format("{}x{}x{}x{},{}x1x{}x{}{}", images, channels, height, width, channels, kernel_y, kernel_x,
                                  i % 3 == 0 ? "" : fmt::format(",{}", channels))}};
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
        EXPECT_EQ(workload->words(machine, workload->naive_point(machine)).rfind("lanes are planes", 0), 0u);
        const Evaluator evaluator(workload, machine, 1 + static_cast<uint64_t>(i));
        check_sampled_point(*workload, machine, evaluator, random);
    }
}

// A kernel for each channel along the diagonals of matrices: parts of a row with and without a matrix of their own, and a last
// part with fewer places.
TEST(Convolution, DepthwiseRowsPassMatrices) {
    Random random(12);
    for (int i = 0; i < 16; i++) {
        const Machine machine = find_machine(i % 2 == 0 ? "ax01" : "ax01-psum");
        const int64_t channels = between(random, 2, 9), kernel_y = between(random, 1, 4), kernel_x = between(random, 1, 7),
                      dilation = i % 5 == 4 ? 2 : 1;
        const int64_t height = dilation * kernel_y + between(random, 0, 24),
                      width = dilation * kernel_x + between(random, 0, i % 3 == 0 ? 80 : 24);
        const WorkloadArguments arguments = {
            {"groups", fmt::format("{}", channels)},
            {"weight_layout", "packed"},
            {"dilation", fmt::format("{}", dilation)},
            {"stride", fmt::format("{},{}", between(random, 1, 2), between(random, 1, 3))},
            {"padding", fmt::format("{},{},{},{}", between(random, 0, kernel_y / 2), between(random, 0, kernel_x / 2),
                                    i % (kernel_y / 2 + 1), i % (kernel_x / 2 + 1))},
            {"shape", fmt::format("{}x{}x{}x{},{}x1x{}x{}{}", i % 4 == 3 ? 2 : 1, channels, height, width, channels, kernel_y,
                                  kernel_x, i % 3 == 0 ? "" : fmt::format(",{}", channels))}};
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
        EXPECT_TRUE(workload->naive_point(machine).contains("taps_unrolled"));
        const Evaluator evaluator(workload, machine, 1 + static_cast<uint64_t>(i));
        check_sampled_point(*workload, machine, evaluator, random);
    }
}

// All planes pass with their first parts, then with their others, where all parts read as many columns; not where some read
// fewer.
TEST(Convolution, PartsOfDepthwiseRowsMayBeApart) {
    const WorkloadArguments two = {{"shape", "2x5x9x56,5x1x3x3,5"},
                                   {"groups", "5"},
                                   {"padding", "1"},
                                   {"weight_layout", "packed"}},
                            three = {{"shape", "1x3x12x90,3x1x3x3"}, {"groups", "3"}, {"weight_layout", "packed"}};
    for (const WorkloadArguments &arguments : {two, three})
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            const Evaluator evaluator(workload, machine, 5);
            Point point = workload->naive_point(machine);
            point.set("taps_unrolled", 1);
            for (const int64_t apart : {0, 1}) {
                point.set("parts_apart", apart);
                const bool possible = violation(workload->space(machine), point).empty();
                EXPECT_EQ(possible, apart == 0 || arguments == two);
                if (possible) {
                    EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
                }
            }
        }
}

// Where the rows of the kernel are a loop, rows of the result that divide are four blocks, or two, whose rows of the image are
// in a pad each.
TEST(Convolution, BlocksOfDepthwiseRowsHaveAPadEach) {
    for (const auto &[shape, padding, stride] : std::vector<std::array<std::string, 3>>{
             {"1x4x20x34,4x1x7x7,4", "3", "1"}, {"1x3x36x20,3x1x5x3", "1,0,3,2", "2,1"}, {"2x2x19x30,2x1x3x3", "1", "1"}})
        for (const char *layout : {"packed", "oihw"})
            for (const char *name : {"ax01", "ax01-psum"}) {
                const Machine machine = find_machine(name);
                const std::shared_ptr<const Workload> workload =
                    find_operator("conv2d").workload({{"shape", shape},
                                                      {"groups", shape.substr(2, 1)},
                                                      {"padding", padding},
                                                      {"stride", stride},
                                                      {"weight_layout", layout}});
                SCOPED_TRACE(fmt::format("{} {} on {}", workload->title(), layout, machine.name));
                Point point = workload->naive_point(machine);
                if (!point.contains("taps_unrolled")) continue;  // lanes are planes
                point.set("taps_unrolled", 0);
                for_each(workload->space(machine), [&](const Point &any) {
                    point.set("strip_rows", std::max(point["strip_rows"], any["strip_rows"]));
                    return true;
                });
                EXPECT_EQ(Evaluator(workload, machine, 5).verify(point), "") << point.assignments();
                const KernelDefinition kernel = workload->build(machine, point);
                EXPECT_EQ(kernel.layouts.contains("rows"), point["strip_rows"] % 2 == 0);
            }
}

// All channels at once, whose parts are turns of one loop: one part, two with a matrix each and a last one with fewer places,
// and steps of two. Where there are more parts than matrices, or several images, they come some at a time.
TEST(Convolution, DepthwiseRowsOfAllChannelsAreOneLoop) {
    const auto largest = [](const Workload &workload, const Machine &machine) {
        Point most = workload.naive_point(machine);
        for_each(workload.space(machine), [&](const Point &point) {
            if (point["channels"] > most["channels"]) most = point;
            return true;
        });
        return most;
    };
    for (const auto &[shape, padding, stride, layout] :
         std::vector<std::array<std::string, 4>>{{"1x24x9x20,24x1x3x3,24", "1", "1", "packed"},
                                                 {"1x16x10x45,16x1x3x3", "1", "1", "packed"},
                                                 {"1x16x13x41,16x1x5x3", "2,1", "2", "packed"},
                                                 {"1x12x31x31,12x1x3x3", "1", "1", "oihw"},
                                                 {"1x12x20x56,12x1x3x3,12", "1", "1", "oihw"}})
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            const int64_t channels = std::stoll(shape.substr(2));
            const std::shared_ptr<const Workload> workload =
                find_operator("conv2d").workload({{"shape", shape},
                                                  {"groups", fmt::format("{}", channels)},
                                                  {"padding", padding},
                                                  {"stride", stride},
                                                  {"weight_layout", layout}});
            SCOPED_TRACE(fmt::format("{} {} on {}", workload->title(), layout, machine.name));
            ASSERT_TRUE(workload->naive_point(machine).contains("taps_unrolled"));
            const Point point = largest(*workload, machine);
            EXPECT_EQ(point["channels"], channels);
            EXPECT_EQ(Evaluator(workload, machine, 5).verify(point), "") << point.assignments();
        }
    const Machine machine = find_machine("ax01");
    for (const char *shape : {"2x8x9x20,8x1x3x3", "1x8x9x70,8x1x3x3"}) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
            {{"shape", shape}, {"groups", "8"}, {"padding", "1"}, {"weight_layout", "packed"}});
        EXPECT_EQ(largest(*workload, machine)["channels"], 4) << shape;
    }
}

// Padding takes no lanes: a row of 32 columns is one part, and one of 56 with a kernel of 7 two, whose windows have 31 of them.
TEST(Convolution, PaddingOfDepthwiseRowsTakesNoLanes) {
    const auto matrices = [](const std::string &shape, const std::string &padding) {
        return find_operator("conv2d")
            .workload({{"shape", shape}, {"groups", "2"}, {"padding", padding}, {"weight_layout", "packed"}})
            ->inputs()[1]
            .extents;
    };
    EXPECT_EQ(matrices("1x2x8x32,2x1x3x3", "1"), (std::vector<int64_t>{32, 32, 3, 1, 2}));
    EXPECT_EQ(matrices("1x2x8x56,2x1x7x7", "3"), (std::vector<int64_t>{32, 28, 7, 2, 2}));
    EXPECT_EQ(matrices("1x2x8x56,2x1x7x7", "0"), (std::vector<int64_t>{32, 25, 7, 1, 2}));
}

// The array makes the matrices of weights as PyTorch has them: parts whose matrices begin in the same pad (56 columns under
// kernels of 3 and 7), or in any (70 columns), one part, several images, and more channels than have their matrices in the
// pads.
TEST(Convolution, DepthwiseRowsMakeMatricesOfWeights) {
    for (const auto &[shape, padding, stride] : std::vector<std::array<std::string, 3>>{{"1x5x9x56,5x1x3x3,5", "1", "1"},
                                                                                        {"1x2x12x56,2x1x7x7", "3", "1"},
                                                                                        {"1x3x9x70,3x1x3x5", "1,2", "1,2"},
                                                                                        {"2x32x40x56,32x1x7x3", "3,1", "1"},
                                                                                        {"1x2x6x90,2x1x3x3,2", "0", "1"},
                                                                                        {"1x3x12x44,3x1x4x5", "2,1,0,2", "1,3"},
                                                                                        {"1x112x20x56,112x1x7x7", "3", "1"}})
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            const int64_t channels = std::stoll(shape.substr(2));
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
                {{"shape", shape}, {"groups", fmt::format("{}", channels)}, {"padding", padding}, {"stride", stride}});
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            ASSERT_TRUE(workload->naive_point(machine).contains("taps_unrolled"));
            Random random(3);
            check_sampled_point(*workload, machine, Evaluator(workload, machine, 5), random);
        }
}

// Where a plane is small and channels are many, lanes that are planes take less.
TEST(Convolution, SmallDepthwisePlanesRunOnLanes) {
    const auto by_rows = [](const std::string &shape, const std::string &groups) {
        const Machine machine = find_machine("ax01");
        return find_operator("conv2d")
            .workload({{"shape", shape}, {"groups", groups}, {"padding", "1"}})
            ->naive_point(machine)
            .contains("taps_unrolled");
    };
    EXPECT_FALSE(by_rows("1x192x12x12,192x1x3x3", "192"));
    EXPECT_TRUE(by_rows("1x96x56x56,96x1x3x3", "96"));
}

// A kernel that is wider than the lanes is no such matrix.
TEST(Convolution, WideDepthwiseKernelsPassNoMatrices) {
    const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
        {{"shape", "1x2x4x70,2x1x1x17"}, {"dilation", "1,2"}, {"groups", "2"}, {"weight_layout", "packed"}});
    EXPECT_FALSE(workload->naive_point(find_machine("ax01")).contains("taps_unrolled"));
    const std::shared_ptr<const Workload> unpacked =
        find_operator("conv2d").workload({{"shape", "1x2x4x90,2x1x1x40"}, {"groups", "2"}});
    EXPECT_FALSE(unpacked->naive_point(find_machine("ax01")).contains("taps_unrolled"));
}

TEST(Convolution, DepthwiseWithChannelsInnermost) {
    Random random(13);
    for (int i = 0; i < 10; i++) {
        const Machine machine = find_machine(i % 5 == 4 ? "fsim" : "ax01");
        const int64_t channels = i % 2 == 0 ? 32 * between(random, 1, 3) : between(random, 1, 70),
                      kernel_y = between(random, 1, 4), kernel_x = between(random, 1, 4);
        const int64_t height = kernel_y + between(random, 0, 6), width = kernel_x + between(random, 0, 6);
        const std::shared_ptr<const Workload> workload =
            find_operator("conv_depthwise_nhwc")
                .workload({{"stride", fmt::format("{},{}", between(random, 1, 2), between(random, 1, 3))},
                           {"padding", fmt::format("{},{},{},{}", between(random, 0, 2), between(random, 0, 2),
                                                   between(random, 0, 2), between(random, 0, 2))},
                           {"shape", fmt::format("{}x{}x{}x{},{}x{}x{}{}", 1 + i % 3 / 2, height, width, channels, kernel_y,
                                                 kernel_x, channels, i % 3 == 0 ? "" : fmt::format(",{}", channels))}});
        SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
        Random points(static_cast<uint64_t>(i));
        check_sampled_point(*workload, machine, Evaluator(workload, machine, 1 + static_cast<uint64_t>(i)), points);
    }
    EXPECT_EQ(error_of([] {
                  find_operator("conv_depthwise_nhwc").workload({{"shape", "1x8x8x32,3x3x16"}});
              }),
              "conv_depthwise_nhwc: the image has 32 channels and the weight 16");
    EXPECT_EQ(error_of([] {
                  find_operator("conv_depthwise_nhwc").workload({{"shape", "1x2x8x32,3x3x32"}});
              }),
              "conv_depthwise_nhwc: a kernel of 3 is larger than the padded image of 2");
}

// What windows share is loaded once, and from all pads.
TEST(Convolution, DepthwiseWindowsSideBySideShareLoads) {
    const auto reads = [](const WorkloadArguments &arguments, const Point &point) {
        const Evaluation run =
            Evaluator(find_operator("conv_depthwise_nhwc").workload(arguments), find_machine("ax01")).evaluate(point);
        EXPECT_EQ(run.status, Evaluation::Ok) << run.reason;
        return run.counters.at("pad_reads").get<std::vector<int64_t>>();
    };
    const auto sum = [](const std::vector<int64_t> &rows) { return std::accumulate(rows.begin(), rows.end(), int64_t{0}); };
    constexpr int64_t windows = 8 * 8 * 3, taps = 9;
    EXPECT_LT(sum(reads({{"shape", "1x8x8x96,3x3x96"}, {"padding", "1"}}, {{"tile_x", 8}, {"tile_y", 8}, {"unroll", 4}})),
              windows * taps);
    // Rows of 17 pixels go round the pads as those of 20 do.
    const std::vector<int64_t> odd =
        reads({{"shape", "1x17x17x32,3x3x32"}, {"stride", "2"}}, {{"tile_x", 8}, {"tile_y", 8}, {"unroll", 2}});
    EXPECT_LT(*std::max_element(odd.begin(), odd.end()), sum(odd) / 2);
}

// The last vector of channels overlaps the one before, so that all have the same code: the windows of 80 channels take hardly
// more than those of 96.
TEST(Convolution, DepthwiseChannelsThatFillNoVectorShareCode) {
    const auto cycles = [](const std::string &channels) {
        const Evaluator evaluator(
            find_operator("conv_depthwise_nhwc")
                .workload({{"shape", fmt::format("1x12x12x{0},3x3x{0},{0}", channels)}, {"padding", "1"}}),
            find_machine("ax01"), 3);
        const Point point = {{"tile_x", 12}, {"tile_y", 12}, {"unroll", 4}};
        EXPECT_EQ(evaluator.verify(point), "");
        return evaluator.evaluate(point).cycles;
    };
    EXPECT_LT(cycles("80"), cycles("96") * 105 / 100);
}

// Rows of 11 results are three times four, of which one is made twice, or eleven times one.
TEST(Convolution, DepthwiseWindowsInStraightLineCodeMayOverlap) {
    const std::shared_ptr<const Workload> workload =
        find_operator("conv_depthwise_nhwc").workload({{"shape", "1x9x11x70,3x3x70,70"}, {"padding", "1"}});
    const Machine machine = find_machine("ax01");
    const Evaluator evaluator(workload, machine, 4);
    const Point four = {{"tile_x", 11}, {"tile_y", 9}, {"unroll", 4}}, one = {{"tile_x", 11}, {"tile_y", 9}, {"unroll", 1}},
                five = {{"tile_x", 11}, {"tile_y", 9}, {"unroll", 5}};
    EXPECT_EQ(violation(workload->space(machine), four), "");
    EXPECT_NE(violation(workload->space(machine), five), "");
    EXPECT_EQ(evaluator.verify(four), "");
    EXPECT_LT(evaluator.evaluate(four).cycles, evaluator.evaluate(one).cycles * 3 / 4);
}

// The bound counts the additions of products inside the image, which the array makes where it takes partial sums: 3, 5 and 8 of
// windows at corners, edges and inside, and one for the bias.
TEST(Convolution, DepthwiseBoundCountsAdditions) {
    const std::shared_ptr<const Workload> workload =
        find_operator("conv_depthwise_nhwc").workload({{"shape", "1x4x4x64,3x3x64,64"}, {"padding", "1"}});
    constexpr int64_t additions = 2 * (4 * 3 + 8 * 5 + 4 * 8 + 16), vec_ii = 3;
    EXPECT_EQ(workload->bound(find_machine("ax01")).steady, additions * vec_ii);
    EXPECT_LT(workload->bound(find_machine("ax01-psum")).steady, additions * vec_ii);
}

// 32 planes of a large image do not fit the pads.
TEST(Convolution, LargeDepthwiseRunsOnTheArray) {
    const std::shared_ptr<const Workload> workload =
        find_operator("conv2d").workload({{"shape", "1x32x224x224,32x1x3x3"}, {"groups", "32"}});
    const Machine machine = find_machine("ax01");
    EXPECT_NE(workload->words(machine, workload->naive_point(machine)).rfind("lanes are planes", 0), 0u);
}

}  // namespace
}  // namespace atalla
