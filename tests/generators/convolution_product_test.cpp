// Convolutions that are matrix products, and kernels as PyTorch has them whose lanes are filled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "generators/registry.h"
#include "tests/generators/sampled_point.h"

namespace atalla {
namespace {

Evaluation at_first_point(const std::string &op, const WorkloadArguments &arguments, const Machine &machine,
                          const std::map<std::string, int64_t> &values) {
    const std::shared_ptr<const Workload> workload = find_operator(op).workload(arguments);
    Point point = workload->naive_point(machine);
    for (const auto &[name, value] : values) point.set(name, value);
    const Evaluation evaluation = Evaluator(workload, machine).evaluate(point);
    EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
    return evaluation;
}

// A kernel of one element: with channels innermost, in either order of weights, of several images, of a line, with operators
// behind it; of planes as PyTorch's weights have it. One that does not meet every element, and one of groups, are none.
TEST(ConvolutionProduct, KernelsOfOneElementHaveTheSpaceOfProducts) {
    struct Case {
        const char *expression;
        WorkloadArguments arguments;
    };
    const std::vector<Case> cases = {
        {"conv2d", {{"shape", "2x5x7x40,36x40x1x1,36"}, {"layout", "nhwc"}}},
        {"conv2d", {{"shape", "1x6x6x64,64x64x1x1"}, {"layout", "nhwc"}, {"weight_layout", "packed"}}},
        {"conv2d", {{"shape", "2x40x5x7,36x40x1x1,36"}}},
        {"conv2d", {{"shape", "33x9x11,20x33x1x1"}}},
        {"conv1d", {{"shape", "2x33x40,6x33x1,6"}}},
        {"relu(conv2d(x, w, b))", {{"shape", "1x40x5x7,36x40x1x1,36"}}},
        {"hardtanh(conv2d(x, w, layout=nhwc), min_val=0, max_val=6)", {{"shape", "1x5x7x40,36x40x1x1"}}},
    };
    uint64_t seed = 0;
    for (const auto &[expression, arguments] : cases)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            const std::shared_ptr<const Workload> workload = find_operator(expression).workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), name));
            EXPECT_TRUE(workload->naive_point(machine).contains("m_outer"));
            Random random(++seed);
            check_sampled_point(*workload, machine, Evaluator(workload, machine, seed), random);
        }
    for (const WorkloadArguments &arguments :
         std::vector<WorkloadArguments>{{{"shape", "1x6x6x64,64x64x1x1"}, {"layout", "nhwc"}, {"stride", "2"}},
                                        {{"shape", "1x64x6x6,64x64x1x1"}, {"padding", "1"}},
                                        {{"shape", "1x64x6x6,64x64x1x1"}, {"weight_layout", "packed"}},
                                        {{"shape", "1x64x6x6,64x32x1x1"}, {"groups", "2"}},
                                        {{"shape", "1x5x4x12,24x4x1x1"}, {"groups", "3"}, {"layout", "nhwc"}}})
        EXPECT_FALSE(find_operator("conv2d").workload(arguments)->naive_point(find_machine("ax01")).contains("m_outer"));
}

// Tensors keep the order of the call, and planes are offered their packed weights.
TEST(ConvolutionProduct, MeansTheConvolution) {
    const std::shared_ptr<const Workload> product = find_operator("conv2d").workload({{"shape", "1x40x5x6,8x40x1x1,8"}}),
                                          turned = find_operator("conv2d").workload(
                                              {{"shape", "1x40x5x6,8x40x1x1,8"}, {"weight_layout", "packed"}});
    const std::vector<TensorData> inputs = random_inputs(product->inputs(), DataSet::Normal, 5);
    const Reference given = product->reference(inputs)[0], expected = turned->reference(inputs)[0];
    ASSERT_EQ(given.values.size(), expected.values.size());
    for (size_t i = 0; i < given.values.size(); i++) EXPECT_NEAR(given.values[i], expected.values[i], 1e-9) << i;
    const std::vector<Arrangement> arrangements = product->arrangements(find_machine("ax01"));
    ASSERT_EQ(arrangements.size(), 1u);
    EXPECT_EQ(arrangements[0].workload->text(), turned->text());
    EXPECT_TRUE(find_operator("conv2d")
                    .workload({{"shape", "1x5x6x40,8x40x1x1"}, {"layout", "nhwc"}})
                    ->arrangements(find_machine("ax01"))
                    .empty());
}

// Groups of few channels share the lanes where the kernel is PyTorch's, too: its own elements are those of its group.
TEST(ConvolutionProduct, GroupsOfKernelsThatAreTurnedShareLanes) {
    const std::map<std::string, int64_t> whole = {{"rows", 8},          {"strip_rows", 8},
                                                  {"strip_columns", 8}, {"sums_in_registers", 1},
                                                  {"row_unroll", 1},    {"weight_unroll", 32}};
    const WorkloadArguments groups = {{"shape", "1x32x8x8,32x4x3x3"}, {"groups", "8"}, {"padding", "1"}};
    const Machine machine = find_machine("ax01");
    const Evaluation shared = at_first_point("conv2d", groups, machine, whole),
                     one = at_first_point("conv2d", {{"shape", "1x32x8x8,32x32x3x3"}, {"padding", "1"}}, machine, whole);
    EXPECT_LT(shared.cycles, one.cycles * 3 / 2);
    EXPECT_EQ(find_operator("conv2d").workload(groups)->inputs()[1].extents, (std::vector<int64_t>{3, 3, 4, 32}));
    uint64_t seed = 0;
    for (const WorkloadArguments &arguments : std::vector<WorkloadArguments>{
             groups,
             {{"shape", "2x24x5x7,48x8x3x3,48"}, {"groups", "3"}, {"padding", "1"}, {"stride", "2"}},
             {{"shape", "1x6x5x64,32x8x2x3"}, {"groups", "8"}, {"layout", "nhwc"}},
             {{"shape", "1x5x6x12,12x1x3x3,12"}, {"groups", "12"}, {"layout", "nhwc"}, {"padding", "1"}}})
        for (const char *name : {"ax01", "ax01-psum"}) {
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), name));
            Random random(++seed);
            check_sampled_point(*workload, find_machine(name), Evaluator(workload, find_machine(name), seed), random);
        }
}

// Of channels that are no whole blocks the pads hold all rows of an image, a block at a time, where all blocks are too many.
TEST(ConvolutionProduct, ImagesOfManyOddChannelsComeByBlocks) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> many =
        find_operator("conv2d").workload({{"shape", "1x500x7x7,500x500x3x3"}, {"padding", "1"}});
    Point point = many->naive_point(machine);
    for (const auto &[name, value] :
         {std::pair("rows", 7), std::pair("strip_rows", 7), std::pair("strip_columns", 7), std::pair("sums_in_registers", 1),
          std::pair("row_unroll", 1), std::pair("weight_unroll", 32)})
        point.set(name, value);
    EXPECT_EQ(violation(many->space(machine), point), "");
    Random random(2);
    for (const WorkloadArguments &arguments :
         std::vector<WorkloadArguments>{{{"shape", "1x244x16x20,32x244x1x2,32"}, {"padding", "1"}},
                                        {{"shape", "2x500x9x9,20x500x1x2"}, {"weight_layout", "packed"}}}) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        SCOPED_TRACE(workload->title());
        for (int i = 0; i < 2; i++) check_sampled_point(*workload, machine, Evaluator(workload, machine, 7), random);
    }
}

}  // namespace
}  // namespace atalla
