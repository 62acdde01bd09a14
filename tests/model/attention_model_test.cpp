// Attention inside a model: boolean masks, and the transposes around it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_import/interpret.h"
#include "runtime/bf16.h"
#include "simulator/numerics.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

class AttentionModel : public testing::TestWithParam<const char *> {};

// A row of the mask that attends to nothing, and one that attends to a single key.
TEST_P(AttentionModel, BooleanMasksAreExact) {
    constexpr int64_t heads = 2, tokens = 8, depth = 32;
    Graph graph;
    const std::vector<int64_t> sizes = {1, heads, tokens, depth};
    const ValueId q = add_input(graph, "q", sizes, GraphInput::Kind::User),
                  mask = add_input(graph, "mask", {1, 1, tokens, tokens}, GraphInput::Kind::User);
    graph.value(mask).type.dtype = DType::Bool;
    GraphOutput output;
    output.value = add_node(graph, "aten::scaled_dot_product_attention",
                            {{"query", q},
                             {"key", q},
                             {"value", q},
                             {"attn_mask", mask},
                             {"dropout_p", 0.0},
                             {"is_causal", false},
                             {"scale", std::monostate{}},
                             {"enable_gqa", false}},
                            sizes);
    output.name = "y";
    graph.outputs.push_back(output);
    const CompiledModel compiled = compile_model(graph, find_machine(GetParam()));
    EXPECT_EQ(compiled.tables.specializations[0]->code->calls.size(), 1u) << "the mask costs no kernel";

    const HostTensor x = random_tensor(sizes, 3, 2);
    std::vector<bool> attended(tokens * tokens);
    for (int64_t row = 0; row < tokens; row++)
        for (int64_t key = 0; key < tokens; key++)
            attended[static_cast<size_t>(row * tokens + key)] = row == 5 ? key == 2 : row != 1 && key <= row;
    HostTensor flags = make_tensor(DType::Bool, {1, 1, tokens, tokens});
    for (size_t i = 0; i < attended.size(); i++) store_double(mutable_data(flags) + i, DType::Bool, attended[i]);
    Context context(Model::from_bytes(compiled.bytes, "attention.atl"));
    context.set_input(0, x);
    context.set_input(1, flags);
    context.run();
    const std::vector<float> result = values_of<float>(context.output(0)),
                             expected = values_of<float>(*interpret(graph, {x, flags}).outputs.at(0)),
                             input = values_of<float>(x);
    for (size_t i = 0; i < result.size(); i++) {
        const int64_t row = static_cast<int64_t>(i) / depth % tokens, head = static_cast<int64_t>(i) / depth / tokens;
        EXPECT_NEAR(result[i], expected[i], 0.03) << i;
        const float only = bf16_round(input[static_cast<size_t>((head * tokens + 2) * depth) + i % depth]);
        if (row == 1 || row == 5) {
            EXPECT_EQ(result[i], row == 1 ? 0 : only) << i;
        }
    }
}

// The heads of a projection's rows, as models take them apart and put them together.
TEST_P(AttentionModel, TransposesAreTheTransfersOfTheKernel) {
    constexpr int64_t heads = 2, tokens = 40, depth = 32;
    Graph graph;
    const std::vector<int64_t> rows = {1, tokens, heads, depth}, turned = {1, heads, tokens, depth};
    const Sizes dims = {SymInt(0), SymInt(2), SymInt(1), SymInt(3)};
    const auto exchange = [&](ValueId of, const std::vector<int64_t> &sizes) {
        return add_node(graph, "aten::permute", {{"self", of}, {"dims", dims}}, sizes);
    };
    std::vector<ValueId> operands;
    std::vector<HostTensor> inputs;
    for (const char *name : {"q", "k", "v"}) {
        operands.push_back(exchange(add_input(graph, name, rows, GraphInput::Kind::User), turned));
        inputs.push_back(random_tensor(rows, static_cast<unsigned>(name[0]), 2));
    }
    const ValueId attended = add_node(graph, "aten::scaled_dot_product_attention",
                                      {{"query", operands[0]},
                                       {"key", operands[1]},
                                       {"value", operands[2]},
                                       {"attn_mask", std::monostate{}},
                                       {"dropout_p", 0.0},
                                       {"is_causal", false},
                                       {"scale", std::monostate{}},
                                       {"enable_gqa", false}},
                                      turned);
    GraphOutput output;
    output.value = exchange(attended, rows);
    output.name = "y";
    graph.outputs.push_back(output);
    const auto result = [&](bool fuse, size_t calls) {
        CompileModelOptions options;
        options.fuse = fuse;
        options.kernels.measured = 1;
        const CompiledModel compiled = compile_model(graph, find_machine(GetParam()), options);
        EXPECT_EQ(compiled.tables.specializations[0]->code->calls.size(), calls);
        Context context(Model::from_bytes(compiled.bytes, "attention.atl"));
        for (size_t i = 0; i < inputs.size(); i++) context.set_input(i, inputs[i]);
        context.run();
        return bf16_elements(context.output(0));
    };
    EXPECT_EQ(result(true, 1), result(false, 5));
}

INSTANTIATE_TEST_SUITE_P(Machines, AttentionModel, testing::Values("ax01", "fsim"));

}  // namespace
}  // namespace atalla
