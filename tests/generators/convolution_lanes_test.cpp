// Convolutions of few channels, whose lanes hold rows and columns of the kernel, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/vectors.h"
#include "schedules/random.h"
#include "tests/generators/sampled_point.h"

namespace atalla {
namespace {

// Draws so many points of each call with these weights on both machines; `check` sees each workload first.
void check_sampled_points(const std::vector<WorkloadArguments> &calls, const char *weight_layout, int points,
                          const std::function<void(const Workload &, const Machine &)> &check) {
    for (WorkloadArguments call : calls)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            call["weight_layout"] = weight_layout;
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(call);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            check(*workload, machine);
            const Evaluator evaluator(workload, machine, 3);
            Random random(11);
            for (int i = 0; i < points; i++) check_sampled_point(*workload, machine, evaluator, random);
        }
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
    check_sampled_points(calls, "packed", 3, [](const Workload &workload, const Machine &machine) {
        EXPECT_GT(workload.naive_point(machine)["channels"], 0);
    });
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
    check_sampled_points(calls, "packed", 4, [](const Workload &workload, const Machine &) {
        EXPECT_EQ(workload.inputs().at(1).extents.front(), lanes);
    });
}

// Columns of the kernel that have no k tile of their own, in lanes of one class of columns or of two; with and without places
// in front of a row that have lanes inside, in several blocks, groups and images, with channels of whole blocks and of a part
// of one, beginning with a bias.
TEST(Convolution, ColumnsShareTiles) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x3x32x64,32x3x7x7"}, {"stride", "2"}, {"padding", "3"}},
        {{"shape", "2x3x12x16,6x3x3x5,6"}, {"padding", "1,2"}},
        {{"shape", "1x4x16x32,12x2x5x4"}, {"groups", "2"}, {"stride", "2"}, {"padding", "2,1"}},
        {{"shape", "1x5x8x32,4x5x3x3,4"}, {"padding", "1"}},
    };
    check_sampled_points(calls, "shared", 3, [](const Workload &, const Machine &) {});
}

// Patches of the image come as lanes: whole vectors of two, three or four rows of the kernel, those of several channels in one,
// vectors that rows do not fill and a last one with fewer; kernels of a row of 32 and of steps wider than they are, images that
// are wider or higher than their patches, in several blocks, groups and images, beginning with a bias.
TEST(Convolution, RowsOfPatchesAreLanes) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x3x64x96,40x3x16x16,40"}, {"stride", "16"}},
        {{"shape", "2x2x30x31,6x2x9x10"}, {"stride", "10,11"}},
        {{"shape", "1x6x32x42,8x3x8x8"}, {"groups", "2"}, {"stride", "8"}},
        {{"shape", "1x3x20x40,6x3x3x9"}, {"stride", "5,9"}},
        {{"shape", "1x2x66x130,32x2x32x32"}, {"stride", "32"}},
        {{"shape", "1x1x17x66,4x1x2x14,4"}, {"stride", "2,14"}},
    };
    check_sampled_points(calls, "packed", 4, [](const Workload &workload, const Machine &) {
        EXPECT_EQ(workload.inputs().at(1).extents.front(), lanes);
    });
}

// All columns of the kernel share one k tile: with and without a window in front of each row, of kernels as wide as a step, in
// several blocks, groups and images, beginning with a bias.
TEST(Convolution, LanesAreWholeWindows) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x3x16x32,32x3x3x3"}, {"padding", "1"}},
        {{"shape", "1x3x16x64,64x3x3x3,64"}, {"stride", "2"}, {"padding", "1"}},
        {{"shape", "2x4x14x64,12x2x3x4,12"}, {"groups", "2"}, {"stride", "2"}, {"padding", "1"}},
        {{"shape", "1x3x16x64,8x3x4x2"}, {"stride", "2"}},
        {{"shape", "1x1x8x32,4x1x3x2,4"}, {"padding", "1,0,1,1"}},
    };
    check_sampled_points(calls, "shared", 3, [](const Workload &workload, const Machine &) {
        const std::vector<int64_t> extents = workload.inputs().at(1).extents;
        EXPECT_EQ(std::vector<int64_t>(extents.begin(), extents.begin() + 2), (std::vector<int64_t>{lanes, 1}));
    });
}

// Some columns of the kernel share each k tile: windows that have columns of the image of their own, whose last k tile has
// fewer columns or as many, and others, for which the image comes once more, with a window in front of each row; in several
// blocks, groups and images, beginning with a bias.
TEST(Convolution, LanesAreWindowsOfSomeColumns) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x3x16x64,32x3x4x4"}, {"stride", "4"}},
        {{"shape", "2x2x60x32,12x2x4x6,12"}, {"stride", "8"}},
        {{"shape", "1x6x32x32,8x3x4x4,8"}, {"groups", "2"}, {"stride", "4"}},
        {{"shape", "1x4x32x32,8x4x3x3"}, {"stride", "4"}},
        {{"shape", "1x4x16x64,8x4x3x3"}, {"stride", "2"}, {"padding", "1"}},
    };
    check_sampled_points(calls, "shared", 3, [](const Workload &workload, const Machine &) {
        const std::vector<int64_t> extents = workload.inputs().at(1).extents;
        EXPECT_EQ(std::vector<int64_t>(extents.begin(), extents.begin() + 2), (std::vector<int64_t>{lanes, 2}));
    });
}

// Results of several strips leave together, in one transfer of an output channel and in two, in one group of strips and in
// several.
TEST(Convolution, StripsLeaveTogether) {
    for (const char *name : {"ax01", "ax01-psum"}) {
        const Machine machine = find_machine(name);
        for (const char *shape : {"1x3x32x64,8x3x3x3", "1x3x32x64,32x3x3x3,32"}) {
            const std::shared_ptr<const Workload> workload =
                find_operator("conv2d").workload({{"shape", shape}, {"padding", "1"}, {"weight_layout", "shared"}});
            const Evaluator evaluator(workload, machine, 3);
            for (const auto &[rows, strips] : {std::pair{32, 16}, {16, 32}, {32, 64}}) {
                Point point = workload->naive_point(machine);
                point.set("rows", rows);
                point.set("strips_leave", strips);
                ASSERT_EQ(violation(workload->space(machine), point), "") << point.assignments();
                EXPECT_EQ(evaluator.verify(point), "") << shape << ", " << point.assignments() << " on " << name;
            }
        }
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

// Weights are stored so where the additions, or rows of the array, that are saved are more than what turning the image takes.
TEST(Convolution, ColumnsShareTilesWhereThatPays) {
    const auto layout = [](const std::string &shape, const char *padding, const char *machine, const char *stride = "2") {
        const std::vector<Arrangement> arrangements =
            find_operator("conv2d")
                .workload({{"shape", shape}, {"stride", stride}, {"padding", padding}})
                ->arrangements(find_machine(machine));
        return arrangements.at(0).workload->title();
    };
    EXPECT_THAT(layout("1x3x224x224,64x3x7x7", "3", "ax01"), testing::HasSubstr("shared"));
    EXPECT_THAT(layout("1x3x224x224,64x3x7x7", "3", "ax01-psum"), testing::HasSubstr("packed"));
    EXPECT_THAT(layout("1x3x224x224,32x3x3x3", "1", "ax01"), testing::HasSubstr("packed"));
    EXPECT_THAT(layout("1x3x224x224,64x3x3x3", "1", "ax01"), testing::HasSubstr("shared"));
    EXPECT_THAT(layout("1x3x224x224,64x3x3x3", "1", "ax01-psum", "1"), testing::HasSubstr("shared"));
    EXPECT_THAT(layout("1x3x224x224,32x3x3x3", "1", "ax01-psum", "1"), testing::HasSubstr("packed"));
    EXPECT_THAT(layout("1x3x224x224,96x3x4x4", "0", "ax01", "4"), testing::HasSubstr("shared"));
    EXPECT_THAT(layout("1x3x224x224,96x3x4x4", "0", "ax01-psum", "4"), testing::HasSubstr("shared"));
    EXPECT_THAT(layout("1x3x256x256,96x3x4x4", "0", "ax01-psum", "4"), testing::HasSubstr("packed"));
    EXPECT_THAT(layout("1x3x384x384,128x3x4x4", "0", "ax01-psum", "4"), testing::HasSubstr("packed"));
    // Much behind the results would be in the code of each strip.
    for (const auto &[expression, words] :
         {std::pair{"gelu(conv2d(x, w, stride=4))", "packed"}, {"relu(conv2d(x, w, stride=4))", "shared"}})
        EXPECT_THAT(find_operator(expression)
                        .workload({{"shape", "1x3x224x224,96x3x4x4"}})
                        ->arrangements(find_machine("ax01"))
                        .at(0)
                        .workload->text(),
                    testing::HasSubstr(words));
    // A turn of the last columns would reach into the next row.
    EXPECT_THAT(layout("1x3x112x112,64x3x7x7", "3", "ax01"), testing::HasSubstr("packed"));
}

// The draft knows where the first visit of a strip and its results fit the instruction cache beside the others: all channels
// stream at once and the first k tile is apart where a pad has results of one row of a band, which one transfer takes, but not
// where it has those of several.
TEST(Convolution, DraftKnowsWhatFitsBesideStreamingChannels) {
    const auto draft = [](const char *machine_name, const char *shape, const char *stride, int64_t channels,
                          int64_t first_apart) {
        const Machine machine = find_machine(machine_name);
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
            {{"shape", shape}, {"padding", "1"}, {"stride", stride}, {"weight_layout", "packed"}});
        Point point = workload->naive_point(machine);
        point.set("rows", *std::ranges::max_element(workload->space(machine).find("rows").values));
        point.set("weight_unroll", lanes);
        point.set("channels", channels);
        point.set("first_apart", first_apart);
        EXPECT_EQ(violation(workload->space(machine), point), "");
        return workload->draft(machine, point);
    };
    EXPECT_LT(draft("ax01", "1x3x96x96,32x3x3x3", "2", 32, 1), draft("ax01", "1x3x96x96,32x3x3x3", "2", 16, 1));
    EXPECT_LT(draft("ax01-psum", "1x3x96x96,32x3x3x3", "2", 32, 1), draft("ax01-psum", "1x3x96x96,32x3x3x3", "2", 32, 0));
    EXPECT_LT(draft("ax01-psum", "1x3x128x128,64x3x3x3", "1", 16, 0), draft("ax01-psum", "1x3x128x128,64x3x3x3", "1", 16, 1));
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

}  // namespace
}  // namespace atalla
