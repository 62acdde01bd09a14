// Constant weights of convolutions are arranged when the model is compiled; the functional machine has no other convolutions.
#include "model/arrangement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_import/interpret.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

Graph convolution(bool constant) {
    Graph graph;
    graph.name = "convolution";
    const ValueId x = add_input(graph, "x", {1, 8, 10, 10}, GraphInput::Kind::User);
    const std::vector<int64_t> sizes = {16, 8, 3, 3};
    const ValueId weight = constant
                               ? add_input(graph, "weight", sizes, GraphInput::Kind::Parameter, random_tensor(sizes, 4, 0.2f))
                               : add_input(graph, "weight", sizes, GraphInput::Kind::User);
    GraphOutput output;
    const Sizes one = {SymInt(1), SymInt(1)};
    output.value = add_node(graph, "aten::conv2d",
                            {{"input", x},
                             {"weight", weight},
                             {"bias", std::monostate{}},
                             {"stride", one},
                             {"padding", one},
                             {"dilation", one},
                             {"groups", SymInt(1)}},
                            {1, 16, 10, 10});
    output.name = "y";
    graph.outputs.push_back(output);
    return graph;
}

TEST(Arrangement, ConvolutionsOfConstantWeights) {
    const HostTensor x = random_tensor({1, 8, 10, 10}, 2, 1);
    const std::vector<float> expected = values_of<float>(*interpret(convolution(true), {x}).outputs.at(0));
    for (const auto &[machine, layout] :
         {std::pair("ax01", "weight-layout packed"), std::pair("fsim", "weight-layout banded")}) {
        const CompiledModel compiled = compile_model(convolution(true), find_machine(machine));
        ASSERT_EQ(compiled.kernels.size(), 1u) << machine;
        EXPECT_THAT(compiled.kernels[0].routine.name, testing::HasSubstr(layout));
        EXPECT_THAT(compiled.tables.specializations[0]->fusions,
                    testing::Contains(testing::Pointee(testing::Field(&loadable::FusionT::chosen, true))));
        const std::vector<float> result = values_of<float>(run(compiled, x));
        for (size_t i = 0; i < result.size(); i++) EXPECT_NEAR(result[i], expected[i], 0.03) << machine << " " << i;
    }
}

TEST(Arrangement, LeavesWeightsThatAreInputs) {
    Graph graph = convolution(false);
    std::vector<PlacedNode> placed = place_nodes(graph, {});
    int asked = 0;
    arrange_constants(graph, placed, find_machine("ax01"),
                      [&](const PlacedNode &, const Arrangement &) { return ++asked > 0; });
    EXPECT_EQ(asked, 0);
    EXPECT_EQ(placed[0].inputs[1], graph.inputs[1].value);
}

}  // namespace
}  // namespace atalla
