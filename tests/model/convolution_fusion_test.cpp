// Convolutions take their padding into their kernel, and are products where their kernel has one element.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_import/interpret.h"
#include "model/fusion.h"
#include "runtime/bf16.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

ValueId pad(Graph &graph, ValueId x, const Sizes &added, double value, const std::vector<int64_t> &sizes) {
    return add_node(graph, "aten::pad", {{"self", x}, {"pad", added}, {"mode", std::string("constant")}, {"value", value}}, sizes);
}

ValueId convolve(Graph &graph, ValueId x, const std::vector<int64_t> &kernel, int64_t stride, int64_t padding, const std::vector<int64_t> &sizes) {
    const ValueId weight = add_input(graph, "w", kernel, GraphInput::Kind::Parameter, random_tensor(kernel, 1, 0.3f));
    const ValueId bias = add_input(graph, "b", {kernel[0]}, GraphInput::Kind::Parameter, random_tensor({kernel[0]}, 2, 0.3f));
    return add_node(graph, "aten::conv2d", {{"input", x}, {"weight", weight}, {"bias", bias}, {"stride", Sizes{stride, stride}}, {"padding", Sizes{padding, padding}}, {"dilation", Sizes{1, 1}}, {"groups", SymInt(1)}}, sizes);
}

void output(Graph &graph, ValueId id) {
    GraphOutput one;
    one.value = id;
    one.name = "y";
    graph.outputs.push_back(one);
}

// Of the program, and of the graph in float32.
void expect_right(const Graph &graph, const HostTensor &x, const CompileModelOptions &options, size_t calls) {
    const CompiledModel compiled = compile_model(graph, find_machine("ax01"), options);
    EXPECT_EQ(compiled.tables.specializations[0]->code->calls.size(), calls);
    const std::vector<float> result = values_of<float>(run(compiled, x)), expected = values_of<float>(*interpret(graph, {x}).outputs.at(0));
    ASSERT_EQ(result.size(), expected.size());
    for (size_t i = 0; i < result.size(); i++) EXPECT_NEAR(result[i], expected[i], 0.08) << i;
}

Graph padded(double value, int64_t least) {
    Graph graph;
    const ValueId x = add_input(graph, "x", {1, 8, 9, 10}, GraphInput::Kind::User);
    // One column in front, two rows behind.
    const ValueId framed = pad(graph, x, {SymInt(1), SymInt(0), SymInt(least), SymInt(2)}, value, {1, 8, 11 + least, 11});
    output(graph, convolve(graph, framed, {12, 8, 3, 3}, 2, 1, {1, 12, (13 + least - 3) / 2 + 1, 6}));
    return graph;
}

TEST(PaddingFusion, JoinsSidesThatDiffer) {
    const Graph graph = padded(0, 0);
    const std::vector<Fusion> fusions = find_padding_fusions(graph, place_nodes(graph, {}));
    ASSERT_EQ(fusions.size(), 1u);
    EXPECT_THAT(fusions[0].nodes, testing::ElementsAre(0, 1));
    EXPECT_THAT(fusions[0].kernel.workload->title(), testing::HasSubstr("padding [1,2,3,1]"));
    CompileModelOptions options;
    options.kernels.measured = 1;
    expect_right(graph, random_tensor({1, 8, 9, 10}, 3, 1), options, 1);
    options.fuse = false;
    expect_right(graph, random_tensor({1, 8, 9, 10}, 3, 1), options, 2);
}

TEST(PaddingFusion, LeavesWhatAddsNoZeros) {
    for (const Graph &graph : {padded(1, 0), padded(0, -1)}) EXPECT_TRUE(find_padding_fusions(graph, place_nodes(graph, {})).empty());
    Graph graph = padded(0, 0);
    output(graph, graph.nodes[0].outputs[0]);   // the frame is read elsewhere
    EXPECT_TRUE(find_padding_fusions(graph, place_nodes(graph, {})).empty());
}

// relu(conv(x)) with a kernel of one element; in steps of 2 it is no product.
Graph places(int64_t stride) {
    Graph graph;
    const ValueId x = add_input(graph, "x", {1, 16, 12, 12}, GraphInput::Kind::User);
    const std::vector<int64_t> sizes = {1, 24, 12 / stride, 12 / stride};
    output(graph, add_node(graph, "aten::relu", {{"self", convolve(graph, x, {24, 16, 1, 1}, stride, 0, sizes)}}, sizes));
    return graph;
}

TEST(ConvolutionFusion, MultipliesPlacesAlone) {
    const Graph graph = places(1);
    const std::vector<PlacedNode> placed = place_nodes(graph, {});
    std::vector<std::string> asked;
    const std::vector<Fusion> fusions = find_fusions(graph, placed, [&](const Fusion &fusion) {
        asked.push_back(fusion.kernel.op->name());
        return int64_t{fusion.nodes.size() == 1};
    });
    EXPECT_THAT(asked, testing::ElementsAre("conv1x1(t0, t1, t2)", "relu(conv1x1(t0, t1, t2))"));
    ASSERT_EQ(fusions.size(), 1u);
    EXPECT_THAT(fusions[0].nodes, testing::ElementsAre(0));
    CompileModelOptions options;
    options.kernels.measured = 1;
    expect_right(graph, random_tensor({1, 16, 12, 12}, 3, 1), options, 1);
    const Graph steps = places(2);
    EXPECT_TRUE(find_fusions(steps, place_nodes(steps, {})).empty());
}

}  // namespace
}  // namespace atalla
