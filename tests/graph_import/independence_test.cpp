// Which sizes may be filled up.
#include "graph_import/independence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph_import/fixtures.h"

namespace atalla {
namespace {

// By the name of each symbol of an exported model: its first input's dimensions that are one.
std::string dependence_along(const std::string &model, size_t dimension) {
    const Fixtures fixtures("models");
    const Graph graph = fixtures.import(fixtures.find(model)).graph;
    for (const GraphInput &input : graph.inputs)
        if (input.kind == GraphInput::Kind::User) return dependence(graph, graph.type(input.value).sizes.at(dimension).name());
    return "no input";
}

TEST(Independence, OfTheExamplesOfABatch) {
    EXPECT_EQ(dependence_along("lenet_dynamic", 0), "");
    for (const char *model : {"bert_dynamic", "distilbert_dynamic", "gpt2_dynamic", "llama_dynamic"})
        EXPECT_EQ(dependence_along(model, 0), "") << model;
}

TEST(Independence, NotOfTheTokensOfASequence) {
    for (const char *model : {"bert_dynamic", "distilbert_dynamic", "gpt2_dynamic", "llama_dynamic"})
        EXPECT_NE(dependence_along(model, 1), "") << model;
}

struct Made {
    Graph graph;
    ValueId x;
    Made() {
        graph.symbols["s0"] = {1, 8, 4};
        x = value({SymInt::symbol("s0"), 3});
        GraphInput input;
        input.name = "x";
        input.value = x;
        graph.inputs.push_back(input);
    }
    ValueId value(const Sizes &sizes) {
        TensorType type;
        type.sizes = sizes;
        return graph.add_value("v", type);
    }
    ValueId call(const std::string &target, std::vector<NamedArgument> arguments, const Sizes &sizes) {
        const ValueId result = value(sizes);
        graph.value(result).producer = static_cast<int32_t>(graph.nodes.size());
        graph.nodes.push_back({target, std::move(arguments), {result}, "", ""});
        return result;
    }
    std::string dependence_of(ValueId result) {
        GraphOutput output;
        output.value = result;
        graph.outputs = {output};
        return dependence(graph, "s0");
    }
};

TEST(Independence, FollowsTheDimension) {
    const SymInt s = SymInt::symbol("s0");
    {
        Made made;  // turned, and the other dimension summed
        const ValueId turned = made.call("aten::permute", {{"self", made.x}, {"dims", Sizes{1, 0}}}, {3, s});
        EXPECT_EQ(made.dependence_of(
                      made.call("aten::sum.dim_IntList", {{"self", turned}, {"dim", Sizes{0}}, {"keepdim", false}}, {s})),
                  "");
    }
    {
        Made made;
        const ValueId turned = made.call("aten::permute", {{"self", made.x}, {"dims", Sizes{1, 0}}}, {3, s});
        EXPECT_THAT(made.dependence_of(made.call("aten::softmax.int", {{"self", turned}, {"dim", SymInt(-1)}}, {3, s})),
                    testing::HasSubstr("aten::softmax.int may mix what lies along s0"));
    }
    {
        Made made;  // x x': a row with every other
        const ValueId turned = made.call("aten::permute", {{"self", made.x}, {"dims", Sizes{1, 0}}}, {3, s});
        EXPECT_THAT(made.dependence_of(made.call("aten::matmul", {{"self", made.x}, {"other", turned}}, {s, s})),
                    testing::HasSubstr("more than once"));
    }
    {
        Made made;  // the size as a number
        EXPECT_THAT(made.dependence_of(made.call("aten::div.Tensor", {{"self", made.x}, {"other", s}}, {s, 3})),
                    testing::HasSubstr("aten::div.Tensor"));
    }
    {
        Made made;  // rows in another order
        const ValueId index =
            made.call("aten::arange.start_step", {{"start", SymInt(1)}, {"end", s + SymInt(1)}, {"step", SymInt(1)}}, {s});
        EXPECT_THAT(made.dependence_of(
                        made.call("aten::index.Tensor", {{"self", made.x}, {"indices", std::vector<ValueId>{index}}}, {s, 3})),
                    testing::HasSubstr("aten::index.Tensor"));
    }
}

}  // namespace
}  // namespace atalla
