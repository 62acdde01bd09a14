// A product takes the one that makes its rows into its kernel, with the same bits.
#include "model/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/bf16.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

const std::vector<int64_t> sizes = {32, 64};

// linear(gelu(linear(x, w1)), w2), with a second reader of gelu's result or without.
Graph two_layers(bool read_twice) {
    Graph graph;
    const ValueId x = add_input(graph, "x", sizes, GraphInput::Kind::User);
    const ValueId w1 = add_input(graph, "w1", {256, 64}, GraphInput::Kind::Parameter, random_tensor({256, 64}, 1, 0.2f));
    const ValueId w2 = add_input(graph, "w2", {64, 256}, GraphInput::Kind::Parameter, random_tensor({64, 256}, 2, 0.2f));
    const auto product = [&](ValueId of, ValueId weight, std::vector<int64_t> result) {
        return add_node(graph, "aten::linear", {{"input", of}, {"weight", weight}, {"bias", std::monostate{}}},
                        std::move(result));
    };
    const ValueId middle =
        add_node(graph, "aten::gelu", {{"self", product(x, w1, {32, 256})}, {"approximate", std::string("none")}}, {32, 256});
    for (const ValueId id : {product(middle, w2, sizes), middle}) {
        if (id == middle && !read_twice) continue;
        GraphOutput output;
        output.value = id;
        output.name = "y";
        graph.outputs.push_back(output);
    }
    return graph;
}

TEST(ProductFusion, KeepsTheRowsBetweenTwoProducts) {
    const Graph graph = two_layers(false);
    const auto compiled = [&](bool fuse) {
        CompileModelOptions options;
        options.fuse = fuse;
        options.one_by_one = !fuse;
        options.kernels.measured = 2;
        return compile_model(graph, find_machine("ax01"), options);
    };
    const CompiledModel fused = compiled(true), apart = compiled(false);
    const auto &tables = *fused.tables.specializations[0];
    ASSERT_EQ(tables.code->calls.size(), 1u);
    EXPECT_EQ(apart.tables.specializations[0]->code->calls.size(), 3u);
    ASSERT_EQ(tables.fusions.size(), 1u);
    EXPECT_THAT(tables.fusions[0]->kernel, testing::StartsWith("linear(gelu(linear(t0, t1)), t2) 32x64"));
    EXPECT_TRUE(tables.fusions[0]->chosen);
    EXPECT_LT(tables.fusions[0]->cycles, tables.fusions[0]->apart);
    // In memory are the model's input and its result alone.
    EXPECT_EQ(fused.plans.at(0).tensors.size(), 2u);
    EXPECT_EQ(apart.plans.at(0).tensors.size(), 4u);
    const HostTensor x = random_tensor(sizes, 3, 2);
    EXPECT_EQ(bf16_elements(run(fused, x)), bf16_elements(run(apart, x)));
}

TEST(ProductFusion, SavesMoreThanEachAlone) {
    const Graph graph = two_layers(false);
    const std::vector<PlacedNode> placed = place_nodes(graph, {});
    const std::vector<Fusion> fusions = find_fusions(graph, placed);
    ASSERT_EQ(fusions.size(), 1u);
    EXPECT_EQ(fusions[0].nodes, (std::vector<int32_t>{0, 1, 2}));
    EXPECT_EQ(fusions[0].second_product, 2);
    EXPECT_TRUE(find_fusions(graph, placed, [](const Fusion &) { return -1; }).empty());

    const Graph read_twice = two_layers(true);
    EXPECT_TRUE(find_fusions(read_twice, place_nodes(read_twice, {})).empty());
}

}  // namespace
}  // namespace atalla
