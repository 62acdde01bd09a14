// Weights of convolutions: what arranged ones mean, groups that share lanes, kernels that come by blocks of channels and in
// parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/vectors.h"
#include "schedules/random.h"
#include "tests/generators/dump_of.h"
#include "tests/generators/sampled_point.h"

namespace atalla {
namespace {

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
        {{"shape", "1x3x64x64,64x3x3x3"}, {"padding", "1"}},
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

// Small pads hold a depthwise kernel only in bands.
TEST(Convolution, DepthwiseKernelsAreArrangedForSmallPads) {
    const Machine machine = find_machine("fsim");
    const std::shared_ptr<const Workload> workload =
        find_operator("conv2d").workload({{"shape", "1x3x2x64,3x1x1x1"}, {"groups", "3"}});
    const std::vector<Arrangement> arrangements = workload->arrangements(machine);
    ASSERT_EQ(arrangements.size(), 1u);
    expect_same_meaning(*workload, arrangements[0]);
    Random random(4);
    check_sampled_point(*arrangements[0].workload, machine, Evaluator(arrangements[0].workload, machine, 3), random);
}

// The weights of an expression are arranged for the expression, also where its inputs have the names of the convolution's.
TEST(Convolution, ArrangedWeightsOfExpressionsMeanTheSame) {
    const Machine machine = find_machine("fsim");
    for (const char *expression :
         {"relu(conv2d(x, w, padding=1))", "relu(conv2d(input, weight, padding=1))", "neg(conv2d(x, w, groups=3))"}) {
        const Operator &op = find_operator(expression);
        const bool depthwise = op.name().starts_with("neg");
        const std::shared_ptr<const Workload> workload =
            op.workload({{"shape", depthwise ? "1x3x5x40,3x1x3x3" : "1x3x5x40,7x3x3x3"}});
        SCOPED_TRACE(expression);
        const std::vector<Arrangement> arrangements = workload->arrangements(machine);
        ASSERT_EQ(arrangements.size(), 1u);
        EXPECT_EQ(op.parse(arrangements[0].workload->text())->text(), arrangements[0].workload->text());
        expect_same_meaning(*workload, arrangements[0]);
        Random random(4);
        check_sampled_point(*arrangements[0].workload, machine, Evaluator(arrangements[0].workload, machine, 3), random);
    }
    EXPECT_TRUE(find_operator("relu(conv2d(input, weight, weight_layout=oihw))")
                    .workload({{"shape", "1x3x5x40,7x3x3x3"}})
                    ->arrangements(machine)
                    .empty());
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
    std::istringstream lines(dump_of("place", Evaluator(workload, machine), point));
    std::map<std::string, std::string> pads;
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("pads ")) pads[line.substr(5, line.find(':') - 5)] = line.substr(line.find(':') + 2);
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

}  // namespace
}  // namespace atalla
