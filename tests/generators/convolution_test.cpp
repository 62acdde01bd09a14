// Convolutions at random shapes and schedules: bit for bit equal to the unoptimized program, close to float64, never faster
// than the bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <sstream>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/vectors.h"
#include "schedules/bounds.h"
#include "schedules/random.h"
#include "tests/generators/sampled_point.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

// Which columns begin a window changes from block to block of 32: over two blocks, and over more than differ at the ends; of
// columns that no window has, too.
TEST(Convolution, StepsNeedNotDivideABlockOfColumns) {
    Random random(17);
    const Machine machine = find_machine("ax01");
    for (const WorkloadArguments &arguments :
         std::vector<WorkloadArguments>{{{"shape", "1x5x1x45,6x5x1x1"}, {"stride", "1,3"}, {"padding", "0,1"}},
                                        {{"shape", "1x3x2x330,4x3x1x2"}, {"stride", "1,5"}}}) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        const Evaluator evaluator(workload, machine);
        for (const Point &point : sample_distinct(workload->space(machine), 3, random))
            EXPECT_EQ(evaluator.verify(point), "") << workload->title() << " at " << point.assignments();
    }
}

// The arranged weight gives the results that the weight gives from which it is made.
void expect_same_meaning(const Workload &workload, const Arrangement &arrangement) {
    const std::vector<TensorData> inputs = random_inputs(workload.inputs(), DataSet::Normal, 5);
    const Reference expected = workload.reference(inputs)[0];
    SCOPED_TRACE(arrangement.workload->title());
    ASSERT_EQ(arrangement.elements.size(), static_cast<size_t>(arrangement.workload->inputs().at(1).elements()));
    std::vector<TensorData> arranged = inputs;
    arranged[1].clear();
    for (const int64_t element : arrangement.elements)
        arranged[1].push_back(element < 0 ? uint16_t{0} : inputs[1].at(static_cast<size_t>(element)));
    const Reference given = arrangement.workload->reference(arranged)[0];
    ASSERT_EQ(given.values.size(), expected.values.size());
    for (size_t i = 0; i < given.values.size(); i++) EXPECT_NEAR(given.values[i], expected.values[i], 1e-9) << i;
}

// Matrices of depthwise kernels, of parts with and without padding, mean the kernels that they are made of.
TEST(Convolution, ArrangedMatricesMeanTheSame) {
    for (const WorkloadArguments &arguments : std::vector<WorkloadArguments>{
             {{"shape", "1x3x9x12,3x1x3x3,3"}, {"groups", "3"}, {"padding", "1"}},
             {{"shape", "2x2x7x70,2x1x3x5"}, {"groups", "2"}, {"padding", "1,2"}, {"stride", "2"}},
             {{"shape", "1x2x8x60,2x1x2x3"}, {"groups", "2"}, {"dilation", "1,4"}, {"padding", "0,3"}},
             {{"shape", "1x4x6x90,4x1x3x3"}, {"groups", "4"}, {"stride", "1,2"}}}) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        const std::vector<Arrangement> arrangements = workload->arrangements(find_machine("ax01"));
        ASSERT_EQ(arrangements.size(), 1u) << workload->title();
        EXPECT_TRUE(arrangements[0].workload->naive_point(find_machine("ax01")).contains("taps_unrolled"));
        expect_same_meaning(*workload, arrangements[0]);
    }
}

// Weights that are arranged beforehand, for kernels of several rows on the lanes, of several bands, of groups.
TEST(Convolution, ArrangedWeightsMeanTheSame) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x3x12x9,5x3x7x7,5"}, {"padding", "3"}, {"stride", "2"}},
        {{"shape", "1x40x5x6,8x20x3x3"}, {"groups", "2"}, {"padding", "1"}},
        {{"shape", "2x4x11x7,3x4x3x2,3"}, {"dilation", "2"}},
        {{"shape", "1x8x6x6,2x8x1x1"}, {"stride", "2"}},
        {{"shape", "1x3x32x36,8x3x7x7"}, {"padding", "3"}, {"stride", "2"}},
        {{"shape", "1x4x14x9,6x2x3x2"}, {"groups", "2"}, {"dilation", "2"}},
        {{"shape", "1x3x32x64,64x3x7x7"}, {"padding", "3"}, {"stride", "2"}},
        {{"shape", "1x3x24x25,32x3x11x11"}, {"padding", "2"}, {"stride", "4"}},
        {{"shape", "1x8x24x20,6x4x9x5"}, {"groups", "2"}, {"stride", "3"}, {"dilation", "2,1"}},
        {{"shape", "1x64x5x4,64x16x3x3"}, {"groups", "4"}, {"padding", "1"}},
        {{"shape", "1x12x5x4,24x4x1x1"}, {"groups", "3"}},
    };
    for (const WorkloadArguments &arguments : calls) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        for (const char *machine : {"ax01", "fsim"}) {
            const std::vector<Arrangement> arrangements = workload->arrangements(find_machine(machine));
            ASSERT_EQ(arrangements.size(), 1u) << workload->title();
            expect_same_meaning(*workload, arrangements[0]);
            EXPECT_TRUE(arrangements[0].workload->arrangements(find_machine(machine)).empty());
        }
    }
}

// Groups of few channels are one where their kernels, zero elsewhere, fill the lanes: with channels innermost always, of planes
// not where their lanes have rows of the kernel or their output channels fill tiles anyway.
TEST(Convolution, GroupsShareLanes) {
    const auto kernels = [](const WorkloadArguments &arguments, bool runs) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        SCOPED_TRACE(workload->title());
        for (const char *name : {"ax01", "ax01-psum"}) {
            if (!runs) continue;
            Random random(4);
            const Machine machine = find_machine(name);
            check_sampled_point(*workload, machine, Evaluator(workload, machine, 3), random);
        }
        WorkloadArguments given = arguments;
        given["weight_layout"] = "oihw";
        const std::shared_ptr<const Workload> otherwise = find_operator("conv2d").workload(given);
        EXPECT_EQ(workload->flops(), otherwise->flops());
        const std::vector<Arrangement> arrangements = otherwise->arrangements(find_machine("ax01-psum"));
        if (arrangements.size() == 1) expect_same_meaning(*otherwise, arrangements[0]);
        EXPECT_EQ(arrangements.size(), 1u);
        return workload->inputs()[1].extents;
    };
    const auto packed = [](const std::string &shape, const std::string &groups, const std::string &layout) {
        return WorkloadArguments{
            {"shape", shape}, {"groups", groups}, {"padding", "1"}, {"weight_layout", "packed"}, {"layout", layout}};
    };
    EXPECT_EQ(kernels(packed("1x6x7x64,64x8x3x3,64", "8", "nhwc"), true), (std::vector<int64_t>{32, 3, 3, 64}));
    EXPECT_EQ(kernels(packed("1x5x6x12,24x4x3x3", "3", "nhwc"), true), (std::vector<int64_t>{12, 3, 3, 24}));
    EXPECT_EQ(kernels(packed("1x64x6x8,64x16x3x3,64", "4", "nchw"), true), (std::vector<int64_t>{32, 3, 3, 64}));
    EXPECT_EQ(kernels(packed("1x32x6x8,32x4x3x3", "8", "nchw"), false), (std::vector<int64_t>{8, 4, 1, 3, 192}));
    EXPECT_EQ(kernels(packed("1x32x6x8,128x16x3x3", "2", "nchw"), false), (std::vector<int64_t>{2, 16, 2, 3, 128}));
}

// A convolution of one element is a product of matrices, whose bound is made of equal visits: the one for any visits is a
// little lower.
TEST(Convolution, VisitsOfTheBoundAreThoseOfAProduct) {
    const Machine machine = find_machine("ax01-psum");
    const auto visits = [](const Bound &bound) {
        for (const auto &[name, value] : bound.terms)
            if (name == "visits") return value;
        return int64_t{0};
    };
    const Bound convolution = find_operator("conv2d")
                                  .workload({{"shape", "1x512x16x32,512x512x1x1"}, {"weight_layout", "packed"}})
                                  ->bound(machine),
                product = gemm_bound(machine, 512, 512, 512);
    EXPECT_LE(visits(convolution), visits(product));
    EXPECT_GE(visits(convolution), visits(product) * 97 / 100);
    EXPECT_EQ(convolution.binding, "visits");
    EXPECT_EQ(visits(find_operator("conv2d")
                         .workload({{"shape", "1x512x16x32,512x512x1x1"}, {"weight_layout", "packed"}})
                         ->bound(find_machine("ax01"))),
              0);
}

// Two rows of an image whose padding is as high as a block: the part of a block that is copied moves from block to block.
TEST(Convolution, PartsOfBlocksMove) {
    const Machine machine = find_machine("ax01-psum");
    const std::shared_ptr<const Workload> workload =
        find_operator("conv2d").workload({{"shape", "1x64x2x2,32x64x3x3"}, {"padding", "1"}, {"weight_layout", "packed"}});
    Random random(3);
    check_sampled_point(*workload, machine, Evaluator(workload, machine, 1), random);
}

// Rows of the result share the lanes of a place: with and without a distance between the rows of the kernel, in several blocks
// and groups, with all channels at once or several times, beginning with a bias.
TEST(Convolution, RowsOfTheResultShareLanes) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x3x32x36,8x3x7x7"}, {"stride", "2"}, {"padding", "3"}},
        {{"shape", "2x2x12x40,40x2x3x3,40"}, {"padding", "1,2,1,0"}},
        {{"shape", "1x4x14x9,6x2x3x2,6"}, {"groups", "2"}, {"dilation", "2"}, {"padding", "1"}},
        {{"shape", "1x1x28x75,6x1x5x3"}, {"stride", "1,3"}, {"dilation", "1,2"}},
    };
    for (const WorkloadArguments &call : calls)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            WorkloadArguments arguments = call;
            arguments["weight_layout"] = "packed";
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            EXPECT_GT(workload->naive_point(machine)["channels"], 0);
            const Evaluator evaluator(workload, machine, 3);
            Random random(11);
            for (int i = 0; i < 3; i++) check_sampled_point(*workload, machine, evaluator, random);
        }
}

// Rows of the kernel that would begin another k tile have their columns on lanes: one or several of them, with windows beyond
// both ends of a row and rows outside of the image, in several blocks, groups and images, with all lanes or several tiles of
// them before.
TEST(Convolution, ColumnsOfRowsThatAreLeftAreLanes) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x3x40x41,32x3x11x11"}, {"stride", "4"}, {"padding", "2"}},
        {{"shape", "2x8x24x20,10x4x9x5,10"}, {"groups", "2"}, {"stride", "3"}, {"dilation", "2,1"}, {"padding", "5,3"}},
        {{"shape", "1x3x33x30,6x3x22x6"}, {"stride", "2"}, {"padding", "1,2,3,4"}},
    };
    for (const WorkloadArguments &call : calls)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            WorkloadArguments arguments = call;
            arguments["weight_layout"] = "packed";
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            EXPECT_EQ(workload->inputs().at(1).extents.front(), lanes);
            const Evaluator evaluator(workload, machine, 3);
            Random random(11);
            for (int i = 0; i < 4; i++) check_sampled_point(*workload, machine, evaluator, random);
        }
}

// Columns of the kernel that have no k tile of their own, in lanes of one class of columns or of two; with and without places
// in front of a row that have lanes inside, in several blocks, groups and images, with channels of whole blocks and of a part
// of one, beginning with a bias.
TEST(Convolution, ColumnsShareTiles) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x3x32x64,32x3x7x7"}, {"stride", "2"}, {"padding", "3"}},
        {{"shape", "2x3x12x16,6x3x3x5,6"}, {"padding", "1,2"}},
        {{"shape", "1x4x16x32,12x2x5x4"}, {"groups", "2"}, {"stride", "2"}, {"padding", "2,1"}},
        {{"shape", "1x1x8x32,4x1x3x2,4"}, {"padding", "1,0,1,1"}},
    };
    for (const WorkloadArguments &call : calls)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            WorkloadArguments arguments = call;
            arguments["weight_layout"] = "shared";
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            const Evaluator evaluator(workload, machine, 3);
            Random random(12);
            for (int i = 0; i < 3; i++) check_sampled_point(*workload, machine, evaluator, random);
        }
}

// The host adds in the order of the array, which decides where sums overflow and which of two infinities meet.
TEST(Convolution, SumsOverflowOnTheHostAsOnTheAccelerator) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
        {{"shape", "1x3x32x64,32x3x7x7,32"}, {"stride", "2"}, {"padding", "3"}, {"weight_layout", "shared"}});
    const Point point = workload->naive_point(machine);
    const codegen::CompiledKernel compiled = Evaluator(workload, machine).compile(point);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        const std::vector<TensorData> inputs = random_inputs(workload->inputs(), DataSet::Special, seed);
        const KernelRun run = run_kernel(workload->build(machine, point), compiled, machine, inputs);
        ASSERT_EQ(run.result.error, "");
        EXPECT_EQ(difference(workload->outputs()[0], run.outputs[0], workload->host_result(machine, inputs)[0]), "")
            << "seed " << seed;
    }
}

// Weights are stored so where the adder sums and the additions that are saved are more than what turning the image takes.
TEST(Convolution, ColumnsShareTilesWhereThatPays) {
    const auto layout = [](const std::string &shape, const char *padding, const char *machine) {
        const std::vector<Arrangement> arrangements = find_operator("conv2d")
                                                          .workload({{"shape", shape}, {"stride", "2"}, {"padding", padding}})
                                                          ->arrangements(find_machine(machine));
        return arrangements.at(0).workload->title();
    };
    EXPECT_THAT(layout("1x3x224x224,64x3x7x7", "3", "ax01"), testing::HasSubstr("shared"));
    EXPECT_THAT(layout("1x3x224x224,64x3x7x7", "3", "ax01-psum"), testing::HasSubstr("packed"));
    EXPECT_THAT(layout("1x3x224x224,32x3x3x3", "1", "ax01"), testing::HasSubstr("packed"));
}

// Blocks whose rows do not divide those of the result overlap; channels whose planes are no whole tiles leave by channel, with
// a rest.
TEST(Convolution, BlocksOverlap) {
    const std::vector<std::pair<WorkloadArguments, int64_t>> calls = {
        {{{"shape", "1x5x13x9,7x5x3x2,7"}, {"padding", "0,1"}, {"weight_layout", "packed"}}, 6},
        {{{"shape", "2x5x17x8,35x5x3x3"}, {"padding", "1,1"}, {"stride", "2,1"}}, 5},
        {{{"shape", "1x32x45x46,33x32x1x1"}, {"weight_layout", "packed"}}, 45},
    };
    for (const auto &[arguments, rows] : calls)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            const Evaluator evaluator(workload, machine, 3);
            Random random(7);
            for (const Point &point : sample_distinct(restrict_to(workload->space(machine), {{"rows", rows}}), 3, random))
                EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
        }
}

// Rows that strips do not divide, in strips of two sizes: with a bias, with several blocks of rows, with steps of the kernel,
// with output channels that end inside a block of 32.
TEST(Convolution, StripsOfTwoSizesHaveTheRowsOfABlock) {
    struct Case {
        WorkloadArguments arguments;
        int64_t rows, strip_rows;
    };
    const std::vector<Case> cases = {{{{"shape", "1x64x7x7,64x64x3x3,64"}, {"padding", "1"}}, 7, 3},
                                     {{{"shape", "2x32x10x6,40x32x3x3"}, {"padding", "1"}}, 5, 2},
                                     {{{"shape", "1x40x13x9,32x40x3x3"}, {"stride", "2"}, {"padding", "1"}}, 7, 3}};
    for (const Case &one : cases)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            WorkloadArguments arguments = one.arguments;
            arguments["weight_layout"] = "packed";
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            Point point = workload->naive_point(machine);
            for (const auto &[parameter, value] : std::vector<std::pair<std::string, int64_t>>{{"rows", one.rows},
                                                                                               {"strip_rows", one.strip_rows},
                                                                                               {"strips_alike", 0},
                                                                                               {"sums_in_registers", 1},
                                                                                               {"back_at_end", 1},
                                                                                               {"row_unroll", 1}})
                point.set(parameter, value);
            EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
        }
}

// Strips of places in line, which begin and end inside rows, and planes that are turned as they lie in memory: groups, images,
// a bias, wide, high and dilated kernels, and parts of a plane with fewer elements than lanes.
TEST(Convolution, StripsArePlacesInLine) {
    struct Case {
        WorkloadArguments arguments;
        int64_t rows, strip;
    };
    const std::vector<Case> cases = {{{{"shape", "1x32x8x8,32x32x3x3"}, {"padding", "1"}}, 8, 24},
                                     {{{"shape", "2x64x7x12,40x64x3x3,40"}, {"padding", "1"}}, 7, 28},
                                     {{{"shape", "1x64x6x20,64x32x3x3"}, {"padding", "1"}, {"groups", "2"}}, 6, 120},
                                     {{{"shape", "1x32x9x8,32x32x5x5"}, {"padding", "2"}}, 9, 36},
                                     {{{"shape", "1x64x8x8,32x64x3x3"}, {"padding", "2"}, {"dilation", "2"}}, 8, 64},
                                     {{{"shape", "1x32x5x12,32x32x1x3"}, {"padding", "0,1"}}, 5, 16},
                                     {{{"shape", "1x32x9x8,32x32x4x3"}, {"padding", "0,1"}}, 6, 20}};
    const Machine machine = find_machine("ax01-psum");
    for (const Case &one : cases) {
        WorkloadArguments arguments = one.arguments;
        arguments["weight_layout"] = "packed";
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        SCOPED_TRACE(workload->title());
        for (const int64_t back_at_end : {0, 1}) {
            Point point = workload->naive_point(machine);
            for (const auto &[parameter, value] : std::vector<std::pair<std::string, int64_t>>{{"rows", one.rows},
                                                                                               {"strip_rows", 1},
                                                                                               {"strip_columns", one.strip},
                                                                                               {"sums_in_registers", 1},
                                                                                               {"first_apart", 0},
                                                                                               {"back_at_end", back_at_end},
                                                                                               {"row_unroll", 1},
                                                                                               {"weight_unroll", 32},
                                                                                               {"in_line", 1}})
                point.set(parameter, value);
            EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
        }
    }
}

// Several rows of a narrow image are turned at once: as many as divide its rows or not, with rows above and below that padding
// adds, or steps leave out.
TEST(Convolution, NarrowRowsAreTurnedTogether) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x32x14x14,32x32x3x3"}, {"padding", "1"}, {"weight_layout", "packed"}},
        {{"shape", "2x64x7x7,40x64x3x3,40"}, {"padding", "1"}, {"weight_layout", "packed"}},
        {{"shape", "1x64x5x13,40x32x3x2"}, {"padding", "2,0,0,1"}, {"groups", "2"}},
        {{"shape", "1x32x9x6,8x32x2x3"}, {"stride", "2"}, {"dilation", "2,1"}, {"weight_layout", "packed"}},
        {{"shape", "2x32x3x1,4x32x3x1"}, {"padding", "3,1"}, {"weight_layout", "packed"}},
    };
    for (const WorkloadArguments &arguments : calls)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            const Evaluator evaluator(workload, machine, 4);
            Random random(8);
            for (const Point &point : sample_distinct(restrict_to(workload->space(machine), {{"rows_together", 1}}), 3, random))
                EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
        }
}

// Each pad has rows of the image: parts of equal size, the last one cut short by the image, or short of rows where strips fill
// it up.
TEST(Convolution, PadsHavePartsOfAnImage) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x14x14x32,32x32x3x3"}, {"padding", "1"}},
        {{"shape", "2x13x9x64,40x64x3x3,40"}, {"padding", "1"}},
        {{"shape", "1x27x27x32,64x32x5x5"}, {"padding", "2"}},
        {{"shape", "1x5x13x64,40x32x3x2"}, {"padding", "2,0,0,1"}, {"groups", "2"}},
        {{"shape", "1x19x16x64,8x64x2x3"}, {"stride", "2"}, {"dilation", "2,1"}},
        {{"shape", "1x3x11x32,32x32x1x3"}, {"dilation", "1,2"}},
    };
    const Machine machine = find_machine("ax01-psum");
    for (WorkloadArguments arguments : calls) {
        arguments["weight_layout"] = "packed";
        arguments["layout"] = "nhwc";
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        SCOPED_TRACE(workload->title());
        const Evaluator evaluator(workload, machine, 4);
        Random random(8);
        for (const Point &point : sample_distinct(restrict_to(workload->space(machine), {{"in_parts", 1}}), 4, random))
            EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
    }
}

// The image's rows and its padding come to the pads once, with the two rows that neighbouring parts share.
TEST(Convolution, PartsOfAnImageAreStoredOnce) {
    const Machine machine = find_machine("ax01-psum");
    const auto run = [&](int64_t in_parts) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
            {{"shape", "1x14x14x64,32x64x3x3"}, {"padding", "1"}, {"weight_layout", "packed"}, {"layout", "nhwc"}});
        Point point = workload->naive_point(machine);
        for (const auto &[name, value] : std::vector<std::pair<std::string, int64_t>>{{"rows", 14},
                                                                                      {"strip_rows", in_parts ? 4 : 14},
                                                                                      {"strip_columns", 14},
                                                                                      {"sums_in_registers", 1},
                                                                                      {"row_unroll", 1},
                                                                                      {"weight_unroll", 32},
                                                                                      {"in_parts", in_parts}})
            point.set(name, value);
        const Evaluation evaluation = Evaluator(workload, machine).evaluate(point);
        EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        const auto writes = evaluation.counters.at("pad_writes").get<std::vector<int64_t>>();
        return std::pair(std::accumulate(writes.begin(), writes.end(), int64_t{0}),
                         evaluation.counters.at("unit_operations").at("SDMA").get<int64_t>());
    };
    const int64_t results = 14 * 14, weights = 32 * 3 * 3 * 2, parts = 4 * (6 * 16) * 2, missing = 2 * 16 * 2, columns = 3;
    const auto [rows, transfers] = run(1);
    EXPECT_EQ(rows, results + weights + parts - missing);
    EXPECT_GT(run(0).first, results + weights + columns * 14 * 14 * 2);
    // A row of the image each, k tiles of an output channel, and 28 rows of a part's results, the last of which has two rows of
    // places.
    EXPECT_EQ(transfers, (5 + 6 + 6 + 3) + 32 + (2 + 2 + 2 + 1));
}

// Blocks of rows that padding surrounds differently: what comes for one block of channels takes no turns with the next then.
TEST(Convolution, BlocksThatPaddingSurroundsDifferentlyRun) {
    const Machine machine = find_machine("ax01");
    for (const char *padding : {"1", "0"}) {
        const std::shared_ptr<const Workload> workload =
            find_operator("conv2d").workload({{"shape", "1x64x14x14,32x64x3x3"}, {"padding", padding}, {"stride", "2"}});
        const int64_t rows = padding[0] == '1' ? 7 : 6;
        Random random(7);
        int in_blocks = 0;
        for (const Point &point : sample_distinct(workload->space(machine), 60, random)) {
            if (point["image_at_once"] != 0 || point["rows"] >= rows || point["sums_in_registers"] == 0) continue;
            const Evaluation evaluation = Evaluator(workload, machine).evaluate(point);
            EXPECT_EQ(evaluation.reason, "") << point.assignments();
            if (in_blocks++ == 0) EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
            if (in_blocks == 4) break;
        }
        EXPECT_GT(in_blocks, 0) << padding;
    }
}

// A kernel as PyTorch has it comes a block of channels after the other, so that pads hold it however many there are; and behind
// the last strip, where what is turned back reads on, is no image.
TEST(Convolution, KernelsOfManyChannelsComeByBlocks) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload =
        find_operator("conv2d").workload({{"shape", "1x512x7x7,32x512x3x3"}, {"padding", "1"}});
    Point point = workload->naive_point(machine);
    for (const auto &[name, value] : std::vector<std::pair<std::string, int64_t>>{{"rows", 7},
                                                                                  {"strip_rows", 7},
                                                                                  {"strip_columns", 7},
                                                                                  {"sums_in_registers", 1},
                                                                                  {"row_unroll", 1},
                                                                                  {"weight_unroll", 32}})
        point.set(name, value);
    ASSERT_EQ(violation(workload->space(machine), point), "") << point.assignments();
    const KernelDefinition kernel = workload->build(machine, point);
    codegen::CompileOptions options;
    options.layouts = kernel.layouts;
    options.dump_after = "place";
    std::map<std::string, std::string> pads;
    options.dump = [&](const std::string &, const std::string &text) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);)
            if (line.starts_with("pads ")) pads[line.substr(5, line.find(':') - 5)] = line.substr(line.find(':') + 2);
    };
    codegen::compile(kernel.pipeline, kernel.arguments, machine, options);
    // Two blocks of 32 channels of 32 kernels, and places of seven rows with their padding for each tap and block.
    EXPECT_THAT(pads["raw_kernel"], testing::StartsWith("2048 rows"));
    EXPECT_THAT(pads["image"], testing::StartsWith(std::to_string(9 * 12 * 3 * 16) + " rows"));
}

// A packed kernel of many channels comes in parts while another part is used: several blocks of rows and of output channels, a
// bias, both layouts.
TEST(Convolution, PackedKernelsComeInParts) {
    for (const char *name : {"ax01", "ax01-psum"})
        for (const auto &[layout, shape] : std::vector<std::pair<std::string, std::string>>{{"nchw", "1x512x4x4,64x512x3x3,64"},
                                                                                            {"nhwc", "2x4x2x640,32x640x3x3"}}) {
            const Machine machine = find_machine(name);
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
                {{"shape", shape}, {"padding", "1"}, {"layout", layout}, {"weight_layout", "packed"}});
            const Space space = workload->space(machine);
            const std::vector<int64_t> &parts = space.find("kernel_parts").values;
            ASSERT_GT(parts.size(), 1u) << name << " " << layout;
            const Evaluator evaluator(workload, machine);
            Random random(5);
            for (const Point &point : sample_distinct(restrict_to(space, {{"kernel_parts", parts.back()}}), 3, random))
                EXPECT_EQ(evaluator.verify(point), "") << name << " " << layout << " " << point.assignments();
        }
    // Two kernels of 32 output channels do not fit beside the image.
    const Machine machine = find_machine("ax01");
    const auto workload = find_operator("conv2d").workload(
        {{"shape", "1x8x8x1280,1280x1280x3x3"}, {"padding", "1"}, {"layout", "nhwc"}, {"weight_layout", "packed"}});
    Random random(5);
    const auto whole = restrict_to(workload->space(machine), {{"kernel_parts", 1}});
    EXPECT_EQ(sample(whole, random), std::nullopt);
    EXPECT_NE(sample(workload->space(machine), random), std::nullopt);
}

// Nests of strips, rows of the kernel and k tiles: the results of 32 channels leave beside the products of the next ones.
TEST(Convolution, ResultsOfPartsLeaveFromInsideTheNest) {
    const Machine machine = find_machine("ax01-psum");
    const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
        {{"shape", "1x28x28x32,96x32x3x3"}, {"padding", "1"}, {"weight_layout", "packed"}, {"layout", "nhwc"}});
    Point point = workload->naive_point(machine);
    for (const auto &[name, value] : std::vector<std::pair<std::string, int64_t>>{{"rows", 28},
                                                                                  {"strip_rows", 7},
                                                                                  {"strip_columns", 7},
                                                                                  {"sums_in_registers", 1},
                                                                                  {"first_apart", 0},
                                                                                  {"row_unroll", 1},
                                                                                  {"weight_unroll", 32},
                                                                                  {"in_parts", 1}})
        point.set(name, value);
    const KernelDefinition kernel = workload->build(machine, point);
    codegen::CompileOptions options;
    options.layouts = kernel.layouts;
    options.dump_after = "overlap";
    bool out_of_line = false;
    options.dump = [&](const std::string &, const std::string &text) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);)
            out_of_line = out_of_line || (line.find("| ") != std::string::npos && line.find("scpad.st") != std::string::npos);
    };
    codegen::compile(kernel.pipeline, kernel.arguments, machine, options);
    EXPECT_TRUE(out_of_line);
    EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
}

// The nest around these visits leaves the instruction cache however densely its ends are packed; what has no room is fetched in
// every turn, and what it pushes out.
TEST(Convolution, EndsOfStripsAreDenseWhereTheyLeaveTheCache) {
    const Machine machine = find_machine("ax01-psum");
    const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
        {{"shape", "1x56x56x64,64x64x3x3"}, {"padding", "1"}, {"weight_layout", "packed"}, {"layout", "nhwc"}});
    Point point = workload->naive_point(machine);
    for (const auto &[name, value] : std::vector<std::pair<std::string, int64_t>>{{"rows", 56},
                                                                                  {"strip_rows", 7},
                                                                                  {"strip_columns", 7},
                                                                                  {"sums_in_registers", 1},
                                                                                  {"first_apart", 0},
                                                                                  {"row_unroll", 1},
                                                                                  {"weight_unroll", 32},
                                                                                  {"in_parts", 1}})
        point.set(name, value);
    const Evaluation evaluation = Evaluator(workload, machine).evaluate(point);
    ASSERT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
    constexpr int64_t strips = 32, lines_of_a_strip = 60;
    EXPECT_LT(evaluation.counters.at("icache_misses").get<int64_t>(), strips * lines_of_a_strip);
}

// Sums that are cleared where they are stored, in loops inside loops whose results leave an iteration later.
TEST(Convolution, SumsAreClearedOnceStored) {
    const Machine machine = find_machine("ax01-psum");
    const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
        {{"shape", "1x3x32x112,8x3x7x7"}, {"stride", "2"}, {"padding", "3"}, {"weight_layout", "packed"}});
    Point point = workload->naive_point(machine);
    for (const auto &[name, value] : std::vector<std::pair<std::string, int64_t>>{
             {"rows", 8}, {"image_at_once", 1}, {"first_apart", 0}, {"weight_unroll", 32}, {"channels", 8}})
        point.set(name, value);
    ASSERT_EQ(point["strip_columns"], 28);
    EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
}

TEST(Convolution, RandomShapesAndSchedules) {
    constexpr int shapes = 26;
    Random random(9);
    const std::array<Machine, 3> machines = {find_machine("ax01"), find_machine("ax01-psum"), find_machine("fsim")};
    for (int i = 0; i < shapes; i++) {
        // The functional machine takes banded weights alone, which the others take, too.
        const bool banded = i >= 16;
        const Machine &machine = machines[banded ? (i % 4 == 1 ? 0 : 2) : static_cast<size_t>(i) % 2];
        const bool depthwise = i % 5 == 4, line = i % 4 == 3;
        const int64_t groups = depthwise ? between(random, 2, 4) : between(random, 1, 2),
                      in = depthwise ? 1 : between(random, 1, 40), out = depthwise ? 1 : between(random, 1, 36);
        const int64_t kernel_y = line ? 1 : between(random, 1, 4), kernel_x = between(random, 1, 4),
                      dilation = between(random, 1, 2), stride = between(random, 1, 3), padding = between(random, 0, 2);
        const int64_t height = line ? 1 : dilation * (kernel_y - 1) + 1 + between(random, 0, 6),
                      width = dilation * (kernel_x - 1) + 1 + between(random, 0, line ? 40 : 8);
        WorkloadArguments arguments = {{"groups", fmt::format("{}", groups)},
                                       {"stride", fmt::format("{}", stride)},
                                       {"padding", fmt::format("{}", padding)},
                                       {"dilation", fmt::format("{}", dilation)}};
        // Other zeros behind the image than in front of it.
        if (i % 3 == 1 && (!banded || !machine.timed()))
            arguments["padding"] =
                line ? fmt::format("{},{}", padding, (padding + i) % 4)
                     : fmt::format("{},{},{},{}", padding, (padding + 1) % 3, (padding + i) % 4, (padding + 2) % 3);
        if (banded)
            arguments["weight_layout"] = "banded";
        else if (i % 3 != 0)
            arguments["weight_layout"] = "packed";
        const int64_t images = between(random, 1, 2);
        const std::string bias = i % 2 == 0 ? fmt::format(",{}", groups * out) : "";
        if (line)
            arguments["shape"] =
                fmt::format("{}x{}x{},{}x{}x{}{}", images, groups * in, width, groups * out, in, kernel_x, bias);
        else
            arguments["shape"] = fmt::format("{}x{}x{}x{},{}x{}x{}x{}{}", images, groups * in, height, width, groups * out, in,
                                             kernel_y, kernel_x, bias);
        const std::shared_ptr<const Workload> workload = find_operator("convolution").workload(arguments);
        SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
        const Evaluator evaluator(workload, machine, 1 + static_cast<uint64_t>(i));
        Random points(static_cast<uint64_t>(i));
        check_sampled_point(*workload, machine, evaluator, points);
    }
}

// Pointwise operators behind a convolution run in its kernel: products of channels, in bands, windows over planes and over
// places. Channels innermost: the image is not turned. Blocks of rows with padding above and below, steps, distances, groups,
// several images, channels that end inside a vector on either side, kernels beyond the image, lines.
TEST(Convolution, OfImagesWithChannelsInnermost) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x12x12x64,64x64x3x3,64"}, {"padding", "1"}},
        {{"shape", "2x9x7x40,36x40x3x3"}, {"padding", "1"}, {"stride", "2"}},
        {{"shape", "1x8x13x64,64x32x3x3"}, {"groups", "2"}, {"padding", "2,1"}, {"dilation", "2,1"}},
        {{"shape", "1x14x14x96,32x96x1x1,32"}, {"stride", "2"}},
        {{"shape", "1x6x31x3,5x3x5x4,5"}, {"padding", "0,3,2,1"}, {"stride", "1,2"}},
        {{"shape", "1x2x1x33,33x33x3x3"}, {"padding", "1"}},
    };
    for (const WorkloadArguments &call : calls)
        for (const char *name : {"ax01", "ax01-psum"})
            for (const char *weights : {"packed", "oihw"}) {
                const Machine machine = find_machine(name);
                WorkloadArguments arguments = call;
                arguments["layout"] = "nhwc";
                arguments["weight_layout"] = weights;
                const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
                SCOPED_TRACE(fmt::format("{} on {}, {}", workload->title(), machine.name, weights));
                const Evaluator evaluator(workload, machine, 3);
                Random random(23);
                for (int i = 0; i < 2; i++) check_sampled_point(*workload, machine, evaluator, random);
            }
}

TEST(Convolution, ChannelsInnermostMeanTheSame) {
    const std::shared_ptr<const Workload> inside =
        find_operator("conv2d").workload({{"shape", "2x5x6x3,4x3x3x2,4"}, {"padding", "1"}, {"layout", "nhwc"}});
    const std::shared_ptr<const Workload> planes =
        find_operator("conv2d").workload({{"shape", "2x3x5x6,4x3x3x2,4"}, {"padding", "1"}});
    const std::vector<TensorData> inputs = random_inputs(inside->inputs(), DataSet::Normal, 5);
    std::vector<TensorData> turned = inputs;
    for (size_t image = 0, at = 0; image < 2; image++)
        for (size_t place = 0; place < 30; place++)
            for (size_t channel = 0; channel < 3; channel++) turned[0][(image * 3 + channel) * 30 + place] = inputs[0][at++];
    const Reference expected = planes->reference(turned)[0], given = inside->reference(inputs)[0];
    ASSERT_EQ(expected.values.size(), 2u * 4 * 35);
    ASSERT_EQ(given.values.size(), expected.values.size());
    const size_t places = expected.values.size() / 8;
    for (size_t image = 0, at = 0; image < 2; image++)
        for (size_t place = 0; place < places; place++)
            for (size_t channel = 0; channel < 4; channel++)
                EXPECT_NEAR(given.values[at++], expected.values[(image * 4 + channel) * places + place], 1e-9);
}

TEST(Convolution, WithPointwiseOperatorsBehind) {
    struct Case {
        const char *expression, *shape, *machine;
    };
    uint64_t seed = 0;
    for (const auto &[expression, shape, machine] :
         {Case{"relu(conv2d(x, w, b, padding=1))", "1x20x9x11,40x20x3x3,40", "ax01"},
          Case{"relu(conv2d(x, w, padding=[1,0,2,1], stride=2))", "2x5x12x10,7x5x4x2", "ax01-psum"},
          Case{"relu(conv2d(x, w, b, padding=1, weight_layout=packed))", "1x3x16x16,8x3x3x3,8", "ax01-psum"},
          Case{"silu(conv2d(x, w, b, weight_layout=banded))", "1x3x8x8,4x3x3x3,4", "fsim"},
          Case{"leaky_relu(mul(conv2d(x, w, groups=32), 0.5))", "1x32x8x8,32x1x3x3", "ax01"},
          Case{"relu(conv2d(x, w, b, layout=nhwc, padding=1, weight_layout=packed))", "1x9x7x64,64x64x3x3,64", "ax01"},
          Case{"hardtanh(conv2d(x, w, layout=nhwc, padding=[1,0,2,1], stride=2), min_val=0, max_val=6)", "2x9x7x40,36x40x3x3",
               "ax01-psum"},
          Case{"relu(conv1d(x, w, b, dilation=2))", "2x33x40,6x33x3,6", "ax01"},
          Case{"hardtanh(conv_depthwise_nhwc(x, w, b, padding=1, stride=[1,2]), min_val=0, max_val=6)", "1x7x9x40,3x3x40,40",
               "ax01"},
          Case{"gelu(conv_depthwise_nhwc(x, w))", "2x5x6x32,2x3x32", "fsim"}}) {
        const std::shared_ptr<const Workload> workload = find_operator(expression).workload({{"shape", shape}});
        SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine));
        Random points(++seed);
        check_sampled_point(*workload, find_machine(machine), Evaluator(workload, find_machine(machine), seed), points);
    }
    EXPECT_THAT(error_of([] { find_operator("add(conv2d(x, w), conv2d(x, v))"); }),
                testing::HasSubstr("has two operators in front of pointwise ones; one kernel computes one"));
    EXPECT_EQ(error_of([] { find_operator("add(conv2d(x, w), r)"); }),
              "add(conv2d(x, w), r): behind conv2d are pointwise operators of its result alone, but r is another operand");
    EXPECT_EQ(error_of([] { find_operator("relu(conv2d(relu(x), w))"); }),
              "conv2d(relu(x), w): input must be an input: what is in front of it is a kernel of its own");
    EXPECT_EQ(error_of([] { find_operator("relu(conv2d(x, x))"); }), "conv2d(x, x): x is given twice");
    EXPECT_EQ(error_of([] {
                  find_operator("relu(conv2d(x, w, pading=1))").workload({{"shape", "1x3x8x8,4x3x3x3"}});
              }),
              "conv2d has no argument 'pading'");
    EXPECT_EQ(error_of([] {
                  find_operator("relu(conv2d(x, w))").workload({{"shape", "1x3x8x8,4x2x3x3"}});
              }),
              "conv2d: given groups=1 and a weight of 4x2x3x3, expected an input of 2 channels, but it has 3");
}

// With channels innermost what is behind the sums is a loop of its own for all strips of 32 channels, of one size or of two, or
// of a single strip is beside its sums.
TEST(Convolution, PointwiseOperatorsBehindPlacesOfAllStrips) {
    const std::shared_ptr<const Workload> workload =
        find_operator("relu(conv2d(x, w, b, layout=nhwc, padding=1, weight_layout=packed))")
            .workload({{"shape", "1x7x9x32,64x32x3x3,64"}});
    const Machine machine = find_machine("ax01");
    const Evaluator evaluator(workload, machine, 5);
    for (const auto &[strip_rows, alike] : {std::pair{3, 0}, {3, 1}, {7, 1}}) {
        Point point = workload->naive_point(machine);
        for (const auto &[name, value] : {std::pair{"rows", 7},
                                          {"strip_rows", strip_rows},
                                          {"strip_columns", 9},
                                          {"sums_in_registers", 1},
                                          {"row_unroll", 1},
                                          {"strips_alike", alike},
                                          {"back_at_end", 1 - alike}})
            point.set(name, value);
        ASSERT_EQ(violation(workload->space(machine), point), "") << point.assignments();
        EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
    }
}

// An infinity in a bias spreads over a block of 32 channels, however many stream past the places at once.
TEST(Convolution, InfiniteBiasesOfBandsSpreadAlike) {
    const std::shared_ptr<const Workload> workload =
        find_operator("conv2d").workload({{"shape", "1x3x16x16,8x3x3x3,8"}, {"padding", "1"}, {"weight_layout", "packed"}});
    const Machine machine = find_machine("ax01");
    for (const int64_t channels : {4, 8})
        for (uint64_t seed = 1; seed <= 4; seed++) {
            Point point = workload->naive_point(machine);
            point.set("channels", channels);
            EXPECT_EQ(Evaluator(workload, machine, seed).verify(point), "") << channels << " channels, seed " << seed;
        }
}

// The array turns each result back once, and the loop that does overlaps its iterations although their masks wait for the
// multiplier.
TEST(Convolution, ResultsAreTurnedBackBesideWhatIsBehindThem) {
    const Point point = {{"rows", 28},        {"image_at_once", 1},     {"strip_rows", 1},  {"strip_columns", 56},
                         {"strips_alike", 1}, {"sums_in_registers", 1}, {"first_apart", 1}, {"back_at_end", 1},
                         {"row_unroll", 1},   {"weight_unroll", 32},    {"in_line", 0},     {"rows_together", 0},
                         {"in_parts", 0},     {"kernel_parts", 1}};
    const auto run = [&](const char *expression) {
        const Evaluation evaluation =
            Evaluator(find_operator(expression).workload({{"shape", "1x32x56x56,64x32x1x3"}}), find_machine("ax01"))
                .evaluate(point);
        EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        return std::pair(evaluation.counters.at("array_rows").get<int64_t>(), evaluation.counters.at("packets").get<int64_t>());
    };
    const auto [rows, packets] = run("mul(conv2d(x, w, padding=[0,1]), 2)");
    const auto [rows_of_relu, packets_of_relu] = run("relu(conv2d(x, w, padding=[0,1]))");
    EXPECT_EQ(rows_of_relu, rows);
    EXPECT_LT(packets_of_relu, packets * 21 / 20);
}

// A row of results that the pads do not divide is straight-line code in the unoptimized program.
TEST(Convolution, LongRowsOfOddSizeRun) {
    const std::shared_ptr<const Workload> workload = find_operator("conv1d").workload({{"shape", "1x40x300,32x40x3"}});
    const Evaluator evaluator(workload, find_machine("ax01"));
    const std::optional<Evaluation> run = evaluator.unoptimized();
    ASSERT_TRUE(run);
    EXPECT_EQ(run->status, Evaluation::Ok) << run->reason;
}

std::string refusal(const std::string &op, const std::string &shape, WorkloadArguments arguments = {}) {
    arguments["shape"] = shape;
    return error_of([&] { find_operator(op).workload(arguments); });
}

TEST(Convolution, RefusesWhatDoesNotFit) {
    EXPECT_EQ(refusal("conv2d", "1x3x8x8,4x2x3x3"),
              "conv2d: given groups=1 and a weight of 4x2x3x3, expected an input of 2 channels, but it has 3");
    EXPECT_EQ(refusal("conv2d", "1x4x8x8,3x2x3x3", {{"groups", "2"}}),
              "conv2d: 3 output channels cannot be divided into 2 groups");
    EXPECT_EQ(refusal("conv2d", "1x3x4x4,4x3x5x5"), "conv2d: the kernel of 5x5 is larger than the padded input of 4x4");
    EXPECT_EQ(refusal("conv2d", "1x3x8x8,4x3x3x3,5"), "conv2d: the bias must have 4 elements, not the shape 5");
    EXPECT_EQ(refusal("conv2d", "1x3x8x8,4x3x3x3", {{"stride", "0"}}), "conv2d: stride is 0, but must be at least 1");
    EXPECT_EQ(refusal("conv2d", "1x3x8x8,4x3x3x3", {{"padding", "1,1,1"}}),
              "conv2d: padding must have 1, 2 or 4 values, not 3");
    EXPECT_EQ(refusal("conv1d", "1x3x8,4x3x3x3"), "conv1d: the weight must have 3 dimensions, not 4");
    EXPECT_EQ(refusal("convolution", "1x3x8x8,4x3x3x3", {{"transposed", "true"}}),
              "convolution: transposed convolutions are not supported");
    EXPECT_EQ(refusal("conv2d_padding", "1x3x8x8,4x3x3x3", {{"padding", "some"}}),
              "conv2d_padding: padding must be a number of elements, same or valid, not 'some'");
    EXPECT_EQ(refusal("conv2d", "1x64x8x8,4x64x3x3", {{"weight_layout", "shared"}}),
              "conv2d: columns of this kernel cannot share k tiles, as the weight layout shared has it");
    EXPECT_EQ(refusal("conv2d", "1x3x8x8,4x3x3x3", {{"weight_layout", "some"}}),
              "conv2d: weight_layout must be oihw, packed, shared or banded, not 'some'");
}

}  // namespace
}  // namespace atalla
