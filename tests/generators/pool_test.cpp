// Pooling at random shapes and schedules on one machine: bit for bit equal to the unoptimized program, close to float64, never
// faster than the bound; which NaN windows share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "generators/pool.h"
#include "generators/window_maxima.h"
#include "tests/generators/rows.h"

namespace atalla {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_F(Rows, AdaptivePooling) {
    for (int i = 0; i < rounds; i++)
        for (const char *name : {"adaptive_avg_pool2d", "adaptive_avg_pool1d"}) {
            const bool flat = std::string_view(name).ends_with("1d");
            const auto side = [&] { return 1 + below(machine.timed() ? 20 : 8); };
            const int64_t rows = side(), columns = side();
            WorkloadArguments arguments;
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

TEST_F(Rows, Pooling) {
    for (int i = 0; i < rounds; i++)
        for (const char *name : {"max_pool2d", "avg_pool2d", "max_pool1d", "avg_pool1d"}) {
            const bool flat = std::string_view(name).ends_with("1d"), average = std::string_view(name).starts_with("avg");
            const int64_t kernel = 1 + below(4), largest = machine.timed() ? 20 : 8;
            const auto side = [&] { return kernel + below(largest); };
            // Where 32 planes do not fit the pads they come alone, an element at a time.
            const bool planes = below(2) == 0, alone = planes && !machine.timed();
            const std::string pixels =
                flat ? fmt::format("{}", side()) : fmt::format("{}x{}", side(), planes && !alone ? kernel + size(70) : side());
            const std::string shape = planes ? fmt::format("{}x{}x{}", 1 + below(2), size(alone ? 5 : 70), pixels)
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

// How many elements of a window are inside depends on the row and on the column: one of its conditions is the negation of
// another's.
TEST_F(Rows, WindowsAtTwoEdgesCountWhatIsInside) {
    if (!machine.timed()) GTEST_SKIP() << "small pads hold no such block";
    const WorkloadArguments arguments = {{"shape", "2x70x21x11"}, {"kernel-size", "2"},  {"stride", "3"},
                                         {"padding", "0"},        {"ceil-mode", "true"}, {"count-include-pad", "false"}};
    const std::shared_ptr<const Workload> workload = find_operator("avg_pool2d").workload(arguments);
    const Point point = {{"block", 35}, {"together", 490}, {"unroll", 1}};
    ASSERT_EQ(violation(workload->space(machine), point), "");
    const Evaluator evaluator(workload, machine);
    ASSERT_EQ(evaluator.evaluate(point).reason, "");
    EXPECT_EQ(evaluator.verify(point), "");
}

// A window that is alone along an axis shares nothing there, whatever its neighbours would see.
TEST_F(Rows, WindowsAloneInARow) {
    for (const char *shape : {"2x7x4x2", "2x4x7x2"})
        for (const char *name : {"max_pool2d", "avg_pool2d"}) {
            const Evaluator evaluator(
                find_operator(name).workload({{"shape", shape}, {"kernel-size", "4"}, {"stride", "1"}, {"layout", "nhwc"}}),
                machine);
            int points = 0;
            for_each(evaluator.workload().space(machine), [&](const Point &point) {
                EXPECT_EQ(evaluator.evaluate(point).reason, "") << name << " " << shape << " " << point.assignments();
                EXPECT_EQ(evaluator.verify(point), "") << name << " " << shape << " " << point.assignments();
                return ++points < 8;
            });
            EXPECT_GE(points, 2) << name << " " << shape;
        }
}

// Each vector of each pixel is a transfer of its own, hundreds of a tile: more than registers are there to keep them apart.
TEST_F(Rows, TilesOfManyTransfers) {
    if (!machine.timed()) GTEST_SKIP() << "small pads hold no such tile";
    const WorkloadArguments arguments = {{"shape", "2x19x11x61"}, {"kernel-size", "4"},  {"stride", "3"},
                                         {"layout", "nhwc"},      {"ceil-mode", "true"}, {"count-include-pad", "false"}};
    const Evaluator evaluator(find_operator("avg_pool2d").workload(arguments), machine);
    const Point point = {{"tile_x", 4}, {"tile_y", 6}, {"unroll", 4}, {"vectors", 2}};
    ASSERT_EQ(evaluator.evaluate(point).reason, "");
    EXPECT_EQ(evaluator.verify(point), "");
}

// Windows that small pads do not hold, or tiles of which would be too many: an element at a time, or a few of a row.
TEST_F(Rows, PoolingOfElements) {
    if (machine.timed()) GTEST_SKIP() << "its pads hold tiles";
    const auto nhwc = [&](const char *name, const char *shape, const char *kernel, WorkloadArguments others) {
        others.insert({{"shape", shape}, {"kernel-size", kernel}, {"layout", "nhwc"}});
        check(name, others, 0);
    };
    nhwc("avg_pool2d", "1x9x10x64", "4", {{"stride", "1"}, {"padding", "2"}, {"count-include-pad", "false"}});
    nhwc("avg_pool2d", "1x11x13x33", "9,11", {{"stride", "4"}, {"padding", "1,2"}, {"ceil-mode", "true"}});
    nhwc("max_pool2d", "2x9x10x40", "9", {{"stride", "3"}, {"padding", "4"}});
    nhwc("avg_pool1d", "1x200x3", "90", {{"stride", "60"}, {"padding", "1"}, {"ceil-mode", "true"}});
    check("avg_pool2d", {{"shape", "2x3x9x10"}, {"kernel-size", "4"}, {"padding", "2"}, {"divisor-override", "3"}}, 0);
    check("adaptive_avg_pool2d", {{"shape", "1x3x13x11"}, {"output-size", "5,3"}}, 0);
    check("conv_depthwise_nhwc", {{"shape", "1x9x8x40,7x7x40,40"}, {"padding", "1"}}, 0);
    check("conv_depthwise_nhwc", {{"shape", "1x3x4x33,3x3x33"}, {"padding", "4,0"}, {"stride", "2"}}, 0);
}

// PyTorch clips such windows to the image and its padding, elements and divisor.
TEST_F(Rows, WindowsWiderThanTheImage) {
    const std::vector<double> image = {1, 2, 3, 6};
    for (const char *layout : {"nhwc", "nchw"}) {
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

// Means of windows that overlap, reach out of the image or have no even distances, as bands of rows that products with constant
// weights take to their results: several rows in a band, single rows of few and of many, parts of rows.
TEST_F(Rows, MeansOfBands) {
    if (!machine.timed()) GTEST_SKIP() << "where transfers take no time rows come alone";
    const auto parameters = [&](const char *name, const WorkloadArguments &arguments) {
        std::vector<std::string> names;
        for (const auto &parameter : find_operator(name).workload(arguments)->space(machine).parameters)
            names.push_back(parameter.name);
        return names;
    };
    const auto of_bands = testing::ElementsAre("planes", "unroll");
    for (const char *shape : {"1x192x35x35", "1x768x17x17", "1x2048x8x8", "1x1024x7x7", "1x512x14x14"}) {
        const WorkloadArguments arguments = {{"shape", shape}, {"kernel-size", "3"}, {"stride", "1"}, {"padding", "1"}};
        EXPECT_THAT(parameters("avg_pool2d", arguments), of_bands) << shape;
        check("avg_pool2d", arguments, 0);
    }
    EXPECT_THAT(parameters("adaptive_avg_pool2d", {{"shape", "1x256x20x20"}, {"output-size", "6"}}), of_bands);
    EXPECT_THAT(parameters("adaptive_avg_pool2d", {{"shape", "1x256x13x13"}, {"output-size", "6"}}),
                testing::ElementsAre("rows", "bands", "unroll"))
        << "windows of 3 at a distance of 2";
    for (int i = 0; i < 2 * rounds; i++) {
        const int64_t kernel_y = 1 + below(5), kernel_x = 1 + below(5), stride_y = 1 + below(3), stride_x = 1 + below(3),
                      height = kernel_y + below(below(4) == 0 ? 70 : 20), width = kernel_x + below(below(4) == 0 ? 90 : 20);
        check("avg_pool2d",
              {{"shape", fmt::format("{}x{}x{}x{}", 1 + below(2), size(70), height, width)},
               {"kernel-size", fmt::format("{},{}", kernel_y, kernel_x)},
               {"stride", fmt::format("{},{}", stride_y, stride_x)},
               {"padding", fmt::format("{},{}", below(kernel_y / 2 + 1), below(kernel_x / 2 + 1))},
               {"count-include-pad", below(3) == 0 ? "false" : "true"}},
              static_cast<uint64_t>(i));
    }
    check("avg_pool2d", {{"shape", "2x9x7x18"}, {"kernel-size", "4"}, {"stride", "2,3"}, {"padding", "2"}}, 0);
    check("adaptive_avg_pool2d", {{"shape", "1x40x20x20"}, {"output-size", "6"}}, 0);
    check("adaptive_avg_pool2d", {{"shape", "2x33x11x40"}, {"output-size", "3,6"}}, 0);
    check("adaptive_avg_pool2d", {{"shape", "1x13x13x40"}, {"output-size", "6"}, {"layout", "nhwc"}}, 0);
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

// Where windows overlap by more than a row or column, those beside each other share a maximum; blocks of seven rows of seven
// share a row; and many small planes are in the pads at a time.
TEST_F(Rows, MaximaOfSmallPlanes) {
    if (!machine.timed()) GTEST_SKIP() << "32 planes do not fit small pads";
    for (const char *stride : {"1", "2"}) {
        const WorkloadArguments arguments = {
            {"shape", "1x832x7x7"}, {"kernel-size", "3"}, {"stride", stride}, {"padding", "1"}};
        const Space space = find_operator("max_pool2d").workload(arguments)->space(machine);
        for (const auto &parameter : space.parameters) {
            if (parameter.name == "bands" || parameter.name == "planes") {
                EXPECT_EQ(parameter.values.back(), parameter.name == "bands" ? 2 : 832);
            }
        }
        for (uint64_t seed = 0; seed < 2; seed++) check("max_pool2d", arguments, seed);
    }
    check("max_pool2d", {{"shape", "1x40x7x7"}, {"kernel-size", "3"}, {"stride", "1"}, {"padding", "1"}}, 0);
    check("max_pool2d", {{"shape", "1x33x14x14"}, {"kernel-size", "5"}, {"stride", "2"}, {"padding", "2"}}, 1);
    check("max_pool2d", {{"shape", "1x32x20x45"}, {"kernel-size", "4"}, {"stride", "1"}, {"padding", "2"}}, 2);
    // A step is two operations. Pairs of windows take three steps along rows and three along columns, instead of four each.
    const std::shared_ptr<const Workload> workload =
        find_operator("max_pool2d")
            .workload({{"shape", "1x32x14x14"}, {"kernel-size", "3"}, {"stride", "1"}, {"padding", "1"}});
    const Evaluation evaluation =
        Evaluator(workload, machine).evaluate({{"bands", 7}, {"unroll", 1}, {"results", 7}, {"planes", 32}});
    ASSERT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
    const int64_t results = 14 * 14;
    EXPECT_LT(evaluation.counters["unit_operations"]["ALU"].get<int64_t>() +
                  evaluation.counters["unit_operations"]["MUL"].get<int64_t>(),
              (2 * 3 + 3) * results);
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
    EXPECT_EQ(form(28, 28, 2, 2), &row_maxima) << "a row fits a block";
    EXPECT_EQ(form(57, 57, 2, 2), &row_maxima) << "bands are planes";
    EXPECT_EQ(form(100, 100, 2, 2), &row_maxima) << "pieces of 13 results leave lanes without work";
    EXPECT_EQ(form(112, 112, 2, 2, 1), &row_maxima) << "windows reach out of the image";
    for (const int64_t side : {56, 80, 96, 112, 224}) EXPECT_EQ(form(side, side, 2, 2), &row_pool) << side;
}

// Maxima whose lanes lie along rows: pieces of one length and of two, windows of one row and of two, columns that no window
// sees.
TEST_F(Rows, MaximaAlongRows) {
    if (!machine.timed()) GTEST_SKIP() << "where transfers take no time rows do not fit the pads";
    const auto along_rows = [&](const WorkloadArguments &arguments) {
        return find_operator("max_pool2d").workload(arguments)->space(machine).parameters.back().name == "moved";
    };
    int taken = 0;
    for (int i = 0; i < 3 * rounds; i++) {
        const int64_t kernel_y = 1 + below(2), stride_y = kernel_y + below(2), stride_x = 2 + below(3);
        const WorkloadArguments arguments = {
            {"shape", fmt::format("{}x{}x{}x{}", 1 + below(2), size(10), stride_y * (1 + below(9)), 33 + below(150))},
            {"kernel-size", fmt::format("{},2", kernel_y)},
            {"stride", fmt::format("{},{}", stride_y, stride_x)}};
        taken += along_rows(arguments) ? 1 : 0;
        check("max_pool2d", arguments, static_cast<uint64_t>(i));
    }
    EXPECT_GT(taken, rounds);
    for (const char *shape : {"1x64x8x112", "2x12x16x56", "1x7x4x75"}) {
        const WorkloadArguments arguments = {{"shape", shape}, {"kernel-size", "2"}};
        EXPECT_TRUE(along_rows(arguments)) << shape;
        check("max_pool2d", arguments, 0);
    }
    const Evaluator evaluator(find_operator("max_pool2d").workload({{"shape", "1x4x16x64"}, {"kernel-size", "2"}}), machine);
    int points = 0;
    for_each(evaluator.workload().space(machine), [&](const Point &point) {
        EXPECT_EQ(evaluator.evaluate(point).reason, "") << point.assignments();
        EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
        return ++points < 100;
    });
    EXPECT_GE(points, 30);
}

// A NaN or infinity that is the largest of its column reaches the windows of its piece of a row, 16 of these 32, and no other.
TEST_F(Rows, PiecesOfARowShareNaN) {
    if (!machine.timed()) GTEST_SKIP() << "where transfers take no time rows do not fit the pads";
    constexpr size_t width = 64, height = 4, columns = 32, planes = 3;
    for (const double special : {std::nan(""), infinity, -infinity})
        for (const bool column : {false, true})
            for (const size_t at : {size_t{0}, size_t{31}, size_t{32}, size_t{63}, 2 * width + 17, 2 * width + 40}) {
                std::vector<double> images(planes * width * height, -1);
                images[width * height + at] = special;
                if (column) images[width * height + at + width] = special;
                const std::vector<double> pooled = results("max_pool2d", {{"shape", "1x3x4x64"}, {"kernel-size", "2"}}, images);
                ASSERT_EQ(pooled.size(), planes * columns * height / 2);
                const size_t piece = height / 2 * columns + at / width / 2 * columns + at % width / 32 * 16;
                for (size_t i = 0; i < pooled.size(); i++)
                    if (i >= piece && i < piece + 16 && (column || special != -infinity))
                        EXPECT_TRUE(std::isnan(pooled[i])) << special << " " << at << " " << i;
                    else
                        EXPECT_EQ(pooled[i], -1) << special << " " << at << " " << i;
            }
    // In the second row of a window alone.
    std::vector<double> images(planes * width * height, -1);
    images[width + 5] = std::nan("");
    const std::vector<double> pooled = results("max_pool2d", {{"shape", "1x3x4x64"}, {"kernel-size", "2"}}, images);
    for (size_t i = 0; i < pooled.size(); i++) EXPECT_EQ(std::isnan(pooled[i]), i < 16) << i;
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
    EXPECT_GE(workload->bound(machine).cycles, steps * (machine.timed() ? static_cast<int64_t>(machine.vec.ii) : 1));
}

// Sums share what maxima do: 3 x 3 windows one apart take 8/3 steps or more, and three in pairs.
TEST_F(Rows, StepsOfMeans) {
    const auto bound = [&] {
        return find_operator("avg_pool2d")
            .workload({{"shape", "1x16x16x3200"}, {"kernel-size", "3"}, {"stride", "1"}, {"layout", "nhwc"}})
            ->bound(machine)
            .cycles;
    };
    const PoolAxis axis = pool_axis("avg_pool2d", 16, 3, 1, 0, false);
    const int64_t steps = least_maximum_steps(axis, axis), columns = axis.results + 2,
                  in_pairs = (columns + axis.results) * steps_of_pairs(axis, true, axis.results),
                  of_step = machine.timed() ? static_cast<int64_t>(machine.vec.ii) : 1;
    EXPECT_GE(bound(), 100 * steps * of_step);
    if (machine.timed()) {
        EXPECT_LE(bound(), 100 * in_pairs * of_step);
    }
}

// Windows over channels that pass NaN over until the array has found one.
TEST_F(Rows, MaximaLookAgainForNan) {
    if (!machine.timed()) GTEST_SKIP() << "elsewhere each step looks for NaN";
    for (const auto &[shape, kernel, stride, padding] : {std::tuple{"1x13x13x64", 3, 2, 0},
                                                         {"2x9x12x40", 3, 1, 1},
                                                         {"1x16x10x32", 2, 2, 0},
                                                         {"1x14x14x96", 5, 3, 2},
                                                         {"1x7x6x96", 3, 1, 0},
                                                         {"1x9x7x64", 3, 1, 1},
                                                         {"1x15x11x64", 3, 2, 0},
                                                         {"1x8x8x64", 3, 1, 1}}) {
        const std::shared_ptr<const Workload> workload = find_operator("max_pool2d")
                                                             .workload({{"shape", shape},
                                                                        {"kernel-size", std::to_string(kernel)},
                                                                        {"stride", std::to_string(stride)},
                                                                        {"padding", std::to_string(padding)},
                                                                        {"layout", "nhwc"}});
        const Evaluator evaluator(workload, machine);
        int points = 0;
        for_each(workload->space(machine), [&](const Point &point) {
            if (point["second_look"] == 0 || (points > 0 && random.below(8) != 0)) return true;
            points++;
            SCOPED_TRACE(fmt::format("{}, {}", shape, point.assignments()));
            EXPECT_EQ(evaluator.verify(point), "");
            return true;
        });
        EXPECT_GT(points, 0) << shape;
    }
}

// Of an odd number of windows beside or above each other some more may be made, where they are pairs or fill whole rounds of
// the pads, and in tiles that are all of a row or column.
TEST_F(Rows, MoreMaximaThanResults) {
    if (!machine.timed()) GTEST_SKIP() << "elsewhere tiles have code of their own";
    const auto most_beyond = [&](const char *shape, int stride, int padding) {
        const std::shared_ptr<const Workload> workload = find_operator("max_pool2d")
                                                             .workload({{"shape", shape},
                                                                        {"kernel-size", "3"},
                                                                        {"stride", std::to_string(stride)},
                                                                        {"padding", std::to_string(padding)},
                                                                        {"layout", "nhwc"}});
        const Evaluator evaluator(workload, machine);
        std::optional<Point> most;
        int64_t beyond = 0;
        for_each(workload->space(machine), [&](const Point &point) {
            const int64_t more = (point["unroll"] - point["tile_x"] % point["unroll"]) % point["unroll"];
            if (more > beyond) most = point;
            beyond = std::max(beyond, more);
            return true;
        });
        if (most) {
            EXPECT_EQ(evaluator.verify(*most), "") << shape << ", " << most->assignments();
        }
        return beyond;
    };
    EXPECT_GT(most_beyond("1x15x15x64", 2, 0), 0) << "seven windows, four at a time";
    EXPECT_GT(most_beyond("1x11x11x64", 1, 1), 0) << "eleven windows in pairs";
    EXPECT_EQ(most_beyond("1x8x8x64", 2, 1), 0) << "four windows, of which three would not step over whole rounds of the pads";
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

// Fewest steps of any program that finds these windows, all different, by trying all: each makes the union of two sets of
// elements that lies in a window.
int64_t fewest_steps(const std::vector<uint32_t> &windows, std::vector<uint32_t> sets, int64_t most) {
    const auto has = [&](uint32_t set) { return std::find(sets.begin(), sets.end(), set) != sets.end(); };
    const int64_t missing = std::count_if(windows.begin(), windows.end(), [&](uint32_t window) { return !has(window); });
    if (missing == 0) return 0;
    int64_t best = most + 1;
    const size_t count = sets.size();
    for (size_t a = 0; a < count && missing <= most; a++)
        for (size_t b = 0; b < a; b++) {
            const uint32_t both = sets[a] | sets[b];
            if (has(both) || std::none_of(windows.begin(), windows.end(), [&](uint32_t w) { return (both & ~w) == 0; }))
                continue;
            sets.push_back(both);
            best = std::min(best, 1 + fewest_steps(windows, sets, std::min(most, best - 1) - 1));
            sets.pop_back();
        }
    return best;
}

TEST(MaximumSteps, AreNotMoreThanAProgramNeeds) {
    struct Case {
        PoolAxis x, y;
        int64_t most;  // that a search need not exceed
    };
    const auto axis = [](int64_t size, int64_t kernel, int64_t padding = 0) {
        return pool_axis("max_pool2d", size, kernel, 1, padding, false);
    };
    const PoolAxis one{1, 1, 1, 1, 0};
    for (const Case &c : {Case{axis(4, 3), one, 3},
                          {axis(5, 3), one, 5},
                          {axis(4, 3, 1), one, 5},
                          {axis(6, 4), one, 6},
                          {axis(3, 2), axis(2, 2), 5},
                          {axis(3, 3, 1), one, 3},
                          {axis(2, 3, 1), axis(2, 3, 1), 3}}) {
        std::vector<uint32_t> windows, elements;
        for (int64_t oy = 0; oy < c.y.results; oy++)
            for (int64_t ox = 0; ox < c.x.results; ox++) {
                uint32_t window = 0;
                for (int64_t y = std::max<int64_t>(c.y.first(oy), 0); y < std::min(c.y.end(oy), c.y.size); y++)
                    for (int64_t x = std::max<int64_t>(c.x.first(ox), 0); x < std::min(c.x.end(ox), c.x.size); x++)
                        window |= uint32_t{1} << (y * c.x.size + x);
                if (std::find(windows.begin(), windows.end(), window) == windows.end()) windows.push_back(window);
            }
        for (int64_t e = 0; e < c.x.size * c.y.size; e++) elements.push_back(uint32_t{1} << e);
        const int64_t fewest = fewest_steps(windows, elements, c.most);
        ASSERT_LE(fewest, c.most);
        EXPECT_LE(least_maximum_steps(c.x, c.y), fewest) << c.x.size << " " << c.y.size << " " << c.x.kernel;
    }
}

// Windows of three elements one apart: two share a step of three. Of 3 x 3, columns and then windows in pairs take three steps.
TEST(MaximumSteps, OfWindowsOneApart) {
    const auto axis = [](int64_t results) { return pool_axis("max_pool2d", results + 2, 3, 1, 0, false); };
    EXPECT_EQ(least_maximum_steps(axis(10), PoolAxis{1, 1, 1, 1, 0}), 15);
    for (const int64_t n : {2, 4, 10}) {
        const int64_t columns = n + 2,
                      in_pairs = columns * steps_of_pairs(axis(n), true, n) + n * steps_of_pairs(axis(n), true, n);
        EXPECT_LE(least_maximum_steps(axis(n), axis(n)), in_pairs) << n;
        EXPECT_GE(3 * least_maximum_steps(axis(n), axis(n)), 8 * n * n) << n;
    }
}

TEST(PoolAxis, CountsAsPyTorch) {
    EXPECT_EQ(pool_axis("p", 112, 3, 2, 1, false).results, 56);
    EXPECT_EQ(pool_axis("p", 5, 2, 2, 0, false).results, 2);
    EXPECT_EQ(pool_axis("p", 5, 2, 2, 0, true).results, 3);
    // The last window would begin in the padding behind the image.
    EXPECT_EQ(pool_axis("p", 4, 2, 3, 1, true).results, 2);
}

TEST(PoolAxis, AdaptiveWindowsAtEvenDistancesAreLikeOthers) {
    const PoolAxis even = adaptive_axis(13, 6), uneven = adaptive_axis(20, 6);
    EXPECT_FALSE(even.adaptive);
    EXPECT_EQ(even.kernel, 3);
    EXPECT_EQ(even.stride, 2);
    EXPECT_TRUE(uneven.adaptive);
}

}  // namespace
}  // namespace atalla
