// Convolutions take their padding into their kernel, are products where their kernel has one element, and keep channels
// innermost between such.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph_import/interpret.h"
#include "graph_import/passes.h"
#include "model/channels_fusion.h"
#include "model/fusion.h"
#include "runtime/bf16.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

ValueId pad(Graph &graph, ValueId x, const Sizes &added, double value, const std::vector<int64_t> &sizes) {
    return add_node(graph, "aten::pad", {{"self", x}, {"pad", added}, {"mode", std::string("constant")}, {"value", value}},
                    sizes);
}

ValueId convolve(Graph &graph, ValueId x, const std::vector<int64_t> &kernel, int64_t stride, int64_t padding,
                 const std::vector<int64_t> &sizes, int64_t groups = 1) {
    const auto seed = static_cast<unsigned>(graph.inputs.size());
    const ValueId weight =
        add_input(graph, "w" + std::to_string(seed), kernel, GraphInput::Kind::Parameter, random_tensor(kernel, seed, 0.3f));
    const ValueId bias = add_input(graph, "b" + std::to_string(seed), {kernel[0]}, GraphInput::Kind::Parameter,
                                   random_tensor({kernel[0]}, seed + 100, 0.3f));
    return add_node(graph, "aten::conv2d",
                    {{"input", x},
                     {"weight", weight},
                     {"bias", bias},
                     {"stride", Sizes{stride, stride}},
                     {"padding", Sizes{padding, padding}},
                     {"dilation", Sizes{1, 1}},
                     {"groups", SymInt(groups)}},
                    sizes);
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
    const std::vector<float> result = values_of<float>(run(compiled, x)),
                             expected = values_of<float>(*interpret(graph, {x}).outputs.at(0));
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
    for (const Graph &graph : {padded(1, 0), padded(0, -1)})
        EXPECT_TRUE(find_padding_fusions(graph, place_nodes(graph, {})).empty());
    Graph graph = padded(0, 0);
    output(graph, graph.nodes[0].outputs[0]);  // the frame is read elsewhere
    EXPECT_TRUE(find_padding_fusions(graph, place_nodes(graph, {})).empty());
}

// relu(conv(x)) with a kernel of one element; in steps of 2 it is no product, but takes what is behind it.
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
    expect_right(graph, random_tensor({1, 16, 12, 12}, 3, 1), {}, 1);
    const Graph steps = places(2);
    const std::vector<Fusion> with_relu = find_fusions(steps, place_nodes(steps, {}));
    ASSERT_EQ(with_relu.size(), 1u);
    EXPECT_EQ(with_relu[0].kernel.op->name(), "relu(conv2d(t0, t1, t2, dilation=[1,1], padding=[0,0], stride=[2,2]))");
}

// As mobile networks have it: a linear layer over the channels, a convolution of each channel whose padding differs, and back,
// beside what came in; then the mean over the places.
Graph inverted_residual() {
    Graph graph;
    const ValueId x = add_input(graph, "x", {1, 16, 12, 12}, GraphInput::Kind::User);
    const ValueId first = convolve(graph, x, {16, 16, 1, 1}, 1, 0, {1, 16, 12, 12});
    const ValueId wide = add_node(graph, "aten::relu",
                                  {{"self", convolve(graph, first, {40, 16, 1, 1}, 1, 0, {1, 40, 12, 12})}}, {1, 40, 12, 12});
    const ValueId framed = pad(graph, wide, {SymInt(0), SymInt(2), SymInt(1), SymInt(1)}, 0, {1, 40, 14, 14});
    const ValueId each = add_node(
        graph, "aten::relu", {{"self", convolve(graph, framed, {40, 1, 3, 3}, 1, 0, {1, 40, 12, 12}, 40)}}, {1, 40, 12, 12});
    const ValueId narrow = convolve(graph, each, {16, 40, 1, 1}, 1, 0, {1, 16, 12, 12});
    const ValueId sum =
        add_node(graph, "aten::add.Tensor", {{"self", first}, {"other", narrow}, {"alpha", SymInt(1)}}, {1, 16, 12, 12});
    const ValueId mean =
        add_node(graph, "aten::mean.dim",
                 {{"self", sum}, {"dim", Sizes{-1, -2}}, {"keepdim", true}, {"dtype", std::monostate{}}}, {1, 16, 1, 1});
    output(graph, mean);
    return graph;
}

TEST(ChannelsInside, StayThereBetweenConvolutions) {
    const Graph graph = inverted_residual();
    Graph inside = clone(graph);
    EXPECT_GT(place_channels(inside), 0);
    verify(inside);
    remove_dead(inside);
    std::map<std::string, int> calls;
    for (const Node &node : inside.nodes) calls[node.target]++;
    EXPECT_EQ(calls["aten::linear"], 3);
    EXPECT_EQ(calls["aten::conv2d"], 1);
    EXPECT_EQ(calls["aten::permute"], 3);  // the image once, and around the convolution of each channel
    const HostTensor x = random_tensor({1, 16, 12, 12}, 3, 1);
    const std::vector<float> expected = values_of<float>(*interpret(graph, {x}).outputs.at(0)),
                             result = values_of<float>(*interpret(inside, {x}).outputs.at(0));
    ASSERT_EQ(result.size(), expected.size());
    for (size_t i = 0; i < result.size(); i++) EXPECT_NEAR(result[i], expected[i], 1e-5) << i;
}

TEST(ChannelsInside, IsTakenWhereItIsFaster) {
    const Graph graph = inverted_residual();
    const HostTensor x = random_tensor({1, 16, 12, 12}, 3, 1);
    CompileModelOptions options;
    options.kernels.measured = 1;
    const auto names_of = [](const CompiledModel &model) {
        std::string names;
        for (const ChosenKernel &kernel : model.kernels) names += kernel.routine.name + "; ";
        return names;
    };
    const CompiledModel compiled = compile_model(graph, find_machine("ax01"), options);
    EXPECT_THAT(
        names_of(compiled),
        testing::HasSubstr("relu(conv_depthwise_nhwc(t0, t1, t2, padding=[1,0,1,2], stride=[1,1])) 1x12x12x40,3x3x40,40"));
    const std::vector<float> expected = values_of<float>(*interpret(graph, {x}).outputs.at(0)),
                             result = values_of<float>(run(compiled, x));
    for (size_t i = 0; i < result.size(); i++) EXPECT_NEAR(result[i], expected[i], 0.05) << i;
    options.passes.skipped = {"channels"};
    EXPECT_THAT(names_of(compile_model(graph, find_machine("ax01"), options)), testing::Not(testing::HasSubstr("nhwc")));
}

// A block of a residual network with steps, whose image two convolutions read, pooling, and images side by side.
Graph residual_block() {
    Graph graph;
    const ValueId x = add_input(graph, "x", {1, 32, 8, 8}, GraphInput::Kind::User);
    const ValueId first =
        add_node(graph, "aten::relu", {{"self", convolve(graph, x, {32, 32, 3, 3}, 1, 1, {1, 32, 8, 8})}}, {1, 32, 8, 8});
    const ValueId deep =
        add_node(graph, "aten::relu", {{"self", convolve(graph, first, {40, 32, 3, 3}, 2, 1, {1, 40, 4, 4})}}, {1, 40, 4, 4});
    const ValueId beside = convolve(graph, first, {40, 32, 1, 1}, 2, 0, {1, 40, 4, 4});
    const ValueId sum =
        add_node(graph, "aten::add.Tensor", {{"self", deep}, {"other", beside}, {"alpha", SymInt(1)}}, {1, 40, 4, 4});
    const ValueId pooled = add_node(graph, "aten::max_pool2d",
                                    {{"self", sum},
                                     {"kernel_size", Sizes{3, 3}},
                                     {"stride", Sizes{1, 1}},
                                     {"padding", Sizes{1, 1}},
                                     {"dilation", Sizes{1, 1}},
                                     {"ceil_mode", false}},
                                    {1, 40, 4, 4});
    output(graph,
           add_node(graph, "aten::cat", {{"tensors", std::vector<ValueId>{sum, pooled}}, {"dim", SymInt(-3)}}, {1, 80, 4, 4}));
    return graph;
}

TEST(ChannelsInside, StayThereBetweenWindows) {
    const Graph graph = residual_block();
    Graph inside = clone(graph);
    EXPECT_EQ(place_channels(inside), 0);
    EXPECT_GT(place_channels_of_windows(inside), 0);
    verify(inside);
    remove_dead(inside);
    const HostTensor x = random_tensor({1, 32, 8, 8}, 3, 1);
    const std::vector<float> expected = values_of<float>(*interpret(graph, {x}).outputs.at(0)),
                             result = values_of<float>(*interpret(inside, {x}).outputs.at(0));
    ASSERT_EQ(result.size(), expected.size());
    for (size_t i = 0; i < result.size(); i++) EXPECT_NEAR(result[i], expected[i], 1e-5) << i;

    // All but the first convolution become kernels of images with channels innermost; of the transposes those behind it and of
    // what goes out stay.
    const std::vector<PlacedNode> placed = place_nodes(inside, {});
    const std::vector<Fusion> fusions = find_channels_fusions(inside, placed, [](const Fusion &) { return int64_t{1}; });
    ASSERT_EQ(fusions.size(), 3u);
    for (const Fusion &fusion : fusions) EXPECT_THAT(fusion.kernel.workload->title(), testing::HasSubstr("layout nhwc"));
    std::vector<PlacedNode> applied = placed;
    for (const Fusion &fusion : fusions) apply(fusion, applied);
    const auto transposes = std::ranges::count_if(
        applied, [](const PlacedNode &node) { return node.place == PlacedNode::Device && node.op->name() == "permute"; });
    EXPECT_EQ(transposes, 2);

    CompileModelOptions options;
    options.kernels.measured = 1;
    const std::vector<float> computed = values_of<float>(run(compile_model(graph, find_machine("ax01"), options), x));
    for (size_t i = 0; i < computed.size(); i++) EXPECT_NEAR(computed[i], expected[i], 0.08) << i;
}

// A chain that begins behind a pooling of planes: what it makes is turned once for the convolution and for the sum, and all is
// turned back once.
TEST(ChannelsInside, BeginBehindPooling) {
    Graph graph;
    const ValueId x = add_input(graph, "x", {1, 64, 8, 8}, GraphInput::Kind::User);
    const ValueId pooled = add_node(graph, "aten::max_pool2d",
                                    {{"self", x},
                                     {"kernel_size", Sizes{2, 2}},
                                     {"stride", Sizes{2, 2}},
                                     {"padding", Sizes{0, 0}},
                                     {"dilation", Sizes{1, 1}},
                                     {"ceil_mode", false}},
                                    {1, 64, 4, 4});
    const ValueId first =
        add_node(graph, "aten::relu", {{"self", convolve(graph, pooled, {64, 64, 3, 3}, 1, 1, {1, 64, 4, 4})}}, {1, 64, 4, 4});
    const ValueId second = convolve(graph, first, {64, 64, 3, 3}, 1, 1, {1, 64, 4, 4});
    output(graph,
           add_node(graph, "aten::add.Tensor", {{"self", pooled}, {"other", second}, {"alpha", SymInt(1)}}, {1, 64, 4, 4}));
    Graph inside = clone(graph);
    EXPECT_GT(place_channels_of_windows(inside), 0);
    verify(inside);
    remove_dead(inside);
    const HostTensor image = random_tensor({1, 64, 8, 8}, 3, 1);
    const std::vector<float> expected = values_of<float>(*interpret(graph, {image}).outputs.at(0)),
                             result = values_of<float>(*interpret(inside, {image}).outputs.at(0));
    ASSERT_EQ(result.size(), expected.size());
    for (size_t i = 0; i < result.size(); i++) EXPECT_NEAR(result[i], expected[i], 1e-5) << i;
    std::vector<PlacedNode> placed = place_nodes(inside, {});
    const std::vector<Fusion> fusions = find_channels_fusions(inside, placed, [](const Fusion &) { return int64_t{1}; });
    EXPECT_EQ(fusions.size(), 2u);
    for (const Fusion &fusion : fusions) apply(fusion, placed);
    EXPECT_EQ(
        std::ranges::count_if(
            placed, [](const PlacedNode &node) { return node.place == PlacedNode::Device && node.op->name() == "permute"; }),
        2);
}

// With weights as PyTorch has them the kernel whose channels are innermost takes more cycles than it saves, or none compiles;
// packed, it takes fewer.
TEST(ChannelsInside, AreMeasuredWithArrangedWeights) {
    Graph graph;
    const ValueId x = add_input(graph, "x", {1, 4, 4, 512}, GraphInput::Kind::User);
    const ValueId planes = add_node(graph, "aten::permute", {{"self", x}, {"dims", Sizes{0, 3, 1, 2}}}, {1, 512, 4, 4});
    const ValueId result = convolve(graph, planes, {32, 512, 3, 3}, 1, 1, {1, 32, 4, 4});
    output(graph, add_node(graph, "aten::permute", {{"self", result}, {"dims", Sizes{0, 2, 3, 1}}}, {1, 4, 4, 32}));
    CompileModelOptions options;
    options.kernels.measured = 1;
    const CompiledModel compiled = compile_model(graph, find_machine("ax01"), options);
    ASSERT_EQ(compiled.kernels.size(), 1u);
    EXPECT_THAT(compiled.kernels[0].routine.name,
                testing::AllOf(testing::HasSubstr("layout nhwc"), testing::HasSubstr("weight-layout packed")));
}

Graph relu_and_pooling(int64_t channels) {
    Graph graph;
    const ValueId x = add_input(graph, "x", {1, channels, 8, 8}, GraphInput::Kind::User);
    const ValueId above = add_node(graph, "aten::relu", {{"self", x}}, {1, channels, 8, 8});
    output(graph, add_node(graph, "aten::max_pool2d",
                           {{"self", above},
                            {"kernel_size", Sizes{3, 3}},
                            {"stride", Sizes{2, 2}},
                            {"padding", Sizes{1, 1}},
                            {"dilation", Sizes{1, 1}},
                            {"ceil_mode", false}},
                           {1, channels, 4, 4}));
    return graph;
}

TEST(ChannelsInside, ReluComesBehindTheFirstMaxima) {
    const Graph graph = relu_and_pooling(32);
    Graph changed = clone(graph);
    EXPECT_GT(place_channels_of_windows(changed), 0);
    verify(changed);
    remove_dead(changed);
    std::vector<std::string> targets;
    for (const Node &node : changed.nodes) targets.push_back(node.target);
    EXPECT_THAT(targets, testing::ElementsAre("aten::max_pool2d", "aten::permute", "aten::relu", "aten::permute"));
    const HostTensor x = random_tensor({1, 32, 8, 8}, 3, 1);
    EXPECT_EQ(values_of<float>(*interpret(graph, {x}).outputs.at(0)), values_of<float>(*interpret(changed, {x}).outputs.at(0)));
    Graph few = relu_and_pooling(31), read = relu_and_pooling(32);
    EXPECT_EQ(place_channels_of_windows(few), 0);
    output(read, read.nodes[0].outputs[0]);  // all elements are wanted
    place_channels_of_windows(read);
    EXPECT_EQ(read.nodes[0].target, "aten::relu");
}

// In steps of two, and where the weight is known only at run time, nothing moves.
TEST(ChannelsInside, LeaveOtherConvolutions) {
    Graph steps = places(2);
    EXPECT_EQ(place_channels(steps), 0);
    Graph given = places(1);
    for (GraphInput &input : given.inputs) input.data.reset();
    EXPECT_EQ(place_channels(given), 0);
}

}  // namespace
}  // namespace atalla
