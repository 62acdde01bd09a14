// What each pass makes of small graphs, and that graphs are fused, ordered and placed in memory soundly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "graph_import/passes.h"
#include "graph_import/print.h"
#include "graph_import/support.h"
#include "isa/error.h"
#include "tests/graph_import/fixtures.h"

namespace atalla {
namespace {

Graph passed(const std::string &archive, const std::string &name, const PassOptions &options = {}) {
    const Fixtures fixtures(archive);
    Graph graph = fixtures.import(fixtures.find(name)).graph;
    run_passes(graph, options);
    return graph;
}

int count(const Graph &graph, const std::string &target) {
    return static_cast<int>(
        std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node &node) { return node.target == target; }));
}

std::vector<std::string> targets(const Graph &graph) {
    std::vector<std::string> result;
    for (const Node &node : graph.nodes) result.push_back(node.target);
    return result;
}

TEST(Passes, FoldMasksOfModels) {
    // ViT's mask is all true; GPT-2 without a mask is causal.
    const Graph vit = passed("models", "vit");
    EXPECT_GT(count(vit, "aten::scaled_dot_product_attention"), 0);
    for (const Node &node : vit.nodes) {
        if (node.target != "aten::scaled_dot_product_attention") continue;
        EXPECT_TRUE(node.is_none("attn_mask"));
        EXPECT_FALSE(node.flag("is_causal"));
    }
    const Fixtures fixtures("models");
    Graph gpt = fixtures.import(fixtures.find("gpt2_no_mask")).graph;
    run_passes(gpt);
    run_passes(gpt);
    for (const Node &node : gpt.nodes) {
        if (node.target != "aten::scaled_dot_product_attention") continue;
        EXPECT_TRUE(node.is_none("attn_mask"));
        EXPECT_TRUE(node.flag("is_causal"));
    }
}

TEST(Passes, FoldBatchNorms) {
    for (const char *name : {"residual", "residual_core"}) {
        const Graph graph = passed("models", name);
        EXPECT_EQ(count(graph, "aten::batch_norm"), 0) << name;
        EXPECT_EQ(count(graph, "aten::conv2d"), 2) << name;
        PassOptions options;
        options.skipped = {"batch-norm"};
        EXPECT_EQ(count(passed("models", name, options), "aten::batch_norm"), 2) << name;
    }
}

TEST(Passes, CoreBecomesLinearAgain) {
    EXPECT_EQ(count(passed("models", "mlp_core"), "aten::linear"), 4);
    EXPECT_EQ(count(passed("models", "mlp_core"), "aten::addmm"), 0);
    EXPECT_EQ(count(passed("models", "bert_core"), "aten::addmm"), 0);
    // GPT-2's Conv1D as well: its weights are stored transposed once.
    EXPECT_EQ(count(passed("models", "gpt2"), "aten::addmm"), 0);
}

TEST(Passes, ReduceStrength) {
    EXPECT_THAT(targets(passed("scenarios", "power_2")), testing::ElementsAre("aten::mul.Tensor"));
    EXPECT_THAT(targets(passed("scenarios", "power_half")), testing::ElementsAre("aten::abs", "aten::sqrt"));
    EXPECT_THAT(targets(passed("scenarios", "dropout_eval")), testing::IsEmpty());
    EXPECT_THAT(targets(passed("scenarios", "t")), testing::ElementsAre("aten::permute"));
    EXPECT_THAT(targets(passed("scenarios", "arange")), testing::ElementsAre("aten::add.Tensor"));
    // -0.0 + 0 is 0, so x + 0 stays.
    EXPECT_THAT(targets(passed("scenarios", "reverse_sub_core")), testing::ElementsAre("aten::sub.Tensor"));
}

TEST(Passes, PoolingPaddingAndSplitsAreSimple) {
    EXPECT_EQ(count(passed("models", "gpt2"), "aten::split.Tensor"), 0);
    EXPECT_EQ(count(passed("models", "gpt2"), "aten::tanh"), 0);
    EXPECT_GT(count(passed("models", "gpt2"), "aten::gelu"), 0);
    PassOptions options;
    options.skipped = {"idioms", "parts"};
    EXPECT_GT(count(passed("models", "gpt2", options), "aten::split.Tensor"), 0);
    EXPECT_GT(count(passed("models", "gpt2", options), "aten::tanh"), 0);
}

TEST(Passes, TransposesOfOneElementAreViews) {
    const auto target = [](std::vector<SymInt> sizes, std::vector<SymInt> dims) {
        Graph graph;
        const auto type = [](const std::vector<SymInt> &of) {
            TensorType made;
            made.sizes = of;
            made.strides.assign(of.size(), SymInt(1));
            return made;
        };
        std::vector<SymInt> moved;
        for (const SymInt &dim : dims) moved.push_back(sizes[static_cast<size_t>(dim.value())]);
        GraphInput input;
        input.value = graph.add_value("x", type(sizes));
        input.name = "x";
        graph.inputs.push_back(input);
        Node node;
        node.target = "aten::permute";
        node.arguments = {{"self", input.value}, {"dims", dims}};
        node.outputs = {graph.add_value("y", type(moved))};
        graph.value(node.outputs[0]).producer = 0;
        graph.nodes.push_back(node);
        GraphOutput output;
        output.value = node.outputs[0];
        graph.outputs.push_back(output);
        canonicalize(graph);
        return graph.nodes.at(0).target;
    };
    const SymInt one = 1, four = 4, any = SymInt::symbol("s0");
    EXPECT_EQ(target({one, one, four, any}, {0, 2, 1, 3}), "aten::view");
    EXPECT_EQ(target({one, four, any}, {2, 0, 1}), "aten::permute");
    EXPECT_EQ(target({four, one, any}, {0, 2, 1}), "aten::view");
    EXPECT_EQ(target({any, four, one}, {1, 0, 2}), "aten::permute") << "s0 may be more than 1";
}

TEST(Passes, BooleanMasksBecomeNumbers) {
    const Fixtures fixtures("models");
    for (const char *name : {"bert", "gpt2"}) {
        Graph graph = fixtures.import(fixtures.find(name)).graph;
        run_passes(graph);
        for (const Node &node : graph.nodes) {
            if (node.target != "aten::scaled_dot_product_attention") continue;
            const ValueId mask = node.optional_tensor("attn_mask");
            EXPECT_TRUE(!mask || graph.type(mask).dtype != DType::Bool) << name;
        }
    }
}

// What chooses between values that the model computes is 1 or 0: constants are made once, others converted on the host.
TEST(Passes, ConditionsBecomeNumbers) {
    for (const char *name : {"where", "where_scalar", "masked_fill"})
        EXPECT_EQ(count(passed("scenarios", name), "aten::_to_copy"), 1) << name;
    for (const char *name : {"where_constant", "masked_fill_constant"}) {
        const Graph graph = passed("scenarios", name);
        EXPECT_EQ(count(graph, "aten::_to_copy"), 0) << name;
        for (const Node &node : graph.nodes) {
            const Argument *condition = node.find("condition") != nullptr ? node.find("condition") : node.find("mask");
            EXPECT_TRUE(condition == nullptr || graph.type(std::get<ValueId>(*condition)).dtype == DType::Float32) << name;
        }
    }
    EXPECT_EQ(count(passed("scenarios", "where_scalars"), "aten::_to_copy"), 0) << "a mask that is made of numbers stays one";
}

TEST(Passes, ConstantIndicesAtEqualStepsAreSlices) {
    const Graph graph = passed("scenarios", "index_constant");
    EXPECT_EQ(count(graph, "aten::slice.Tensor"), 2) << "of -2, and of 1 and 3; 0, 1, 2 are all rows";
    EXPECT_EQ(count(graph, "aten::index.Tensor"), 2) << "3 before 0, and 1 twice";
    EXPECT_EQ(count(passed("scenarios", "index_select_constant"), "aten::slice.Tensor"), 2);
    EXPECT_EQ(count(passed("scenarios", "index_select"), "aten::index_select"), 1) << "its indices are an input";
}

TEST(Passes, ProductsAreTakenFromWhatTheyAreAddedTo) {
    EXPECT_THAT(targets(passed("scenarios", "baddbmm_scaled")),
                testing::ElementsAre("aten::bmm", "aten::add.Tensor", "aten::add.Tensor"))
        << "2 x is x + x";
    EXPECT_THAT(targets(passed("scenarios", "baddbmm_without_input")), testing::ElementsAre("aten::baddbmm"));
}

TEST(Passes, NormsOfImagesAreGroupNorms) {
    for (const char *name : {"instance_norm", "instance_norm_core", "batch_norm_of_image"})
        EXPECT_EQ(count(passed("scenarios", name), "aten::group_norm"), 1) << name;
    EXPECT_EQ(count(passed("scenarios", "instance_norm_running"), "aten::batch_norm"), 1);
    EXPECT_EQ(count(passed("scenarios", "batch_norm_of_batch"), "aten::_native_batch_norm_legit.no_stats"), 1);
}

TEST(Passes, RotatedRowsAreProducts) {
    for (const char *name : {"rotary_halves", "rotary_pairs"}) {
        const Graph graph = passed("decompositions", name);
        EXPECT_EQ(count(graph, "aten::linear"), 1) << name;
        for (const char *gone : {"aten::cat", "aten::stack", "aten::neg", "aten::slice.Tensor"})
            EXPECT_EQ(count(graph, gone), 0) << name << " " << gone;
    }
    // The rows around are put together as before.
    const Graph part = passed("decompositions", "rotary_part");
    EXPECT_EQ(count(part, "aten::linear"), 1);
    EXPECT_EQ(count(part, "aten::cat"), 1);
    // A long row's matrix costs more than the calls; a product would spread an infinity.
    for (const char *name : {"rotary_long", "rotary_of_infinities"})
        EXPECT_EQ(count(passed("decompositions", name), "aten::linear"), 0) << name;
}

TEST(Passes, AttentionOfRepeatedHeadsIsGrouped) {
    const Graph grouped = passed("decompositions", "grouped_queries"),
                unlike = passed("decompositions", "grouped_queries_unlike");
    EXPECT_EQ(count(grouped, "aten::expand"), 0);
    for (const Node &node : grouped.nodes)
        if (node.target == "aten::scaled_dot_product_attention") {
            EXPECT_TRUE(node.flag("enable_gqa"));
        }
    EXPECT_EQ(count(unlike, "aten::expand"), 1);
    // One head of queries broadcasts to all repeated ones, which groups do not.
    EXPECT_EQ(count(passed("decompositions", "grouped_queries_of_one_head"), "aten::expand"), 2);
}

const Node *attention_of(const Graph &graph) {
    for (const Node &node : graph.nodes)
        if (node.target == "aten::scaled_dot_product_attention") return &node;
    return nullptr;
}

TEST(Passes, AttentionThatIsWrittenOutIsOneOperator) {
    for (const char *name :
         {"scaled", "of_columns", "biased", "hidden", "causal", "masked", "masked_rows", "seen", "of_one_batch"}) {
        const Graph graph = passed("decompositions", fmt::format("attention_{}", name));
        EXPECT_NE(attention_of(graph), nullptr) << name;
        for (const char *gone : {"aten::softmax.int", "aten::matmul", "aten::bmm"})
            EXPECT_EQ(count(graph, gone), 0) << name << " " << gone;
    }
    const Graph scaled = passed("decompositions", "attention_scaled"), causal = passed("decompositions", "attention_causal");
    EXPECT_EQ(attention_of(scaled)->number("scale"), 0.25);
    EXPECT_TRUE(attention_of(scaled)->is_none("attn_mask"));
    EXPECT_EQ(count(scaled, "aten::permute"), 0) << "keys as they were";
    EXPECT_TRUE(attention_of(causal)->flag("is_causal") && attention_of(causal)->is_none("attn_mask"));
    // Weights that are a result, heads or masks that broadcast, and softmax along queries.
    for (const char *name : {"with_weights", "of_one_head", "of_more_masks", "along_queries"})
        EXPECT_EQ(attention_of(passed("decompositions", fmt::format("attention_{}", name))), nullptr) << name;
}

TEST(Passes, LayersThatAreUsedInPartsAreALayerForEach) {
    const Graph heads = passed("decompositions", "projected_parts"), layer = passed("decompositions", "encoder_layer"),
                rows = passed("decompositions", "projected_rows");
    EXPECT_EQ(count(heads, "aten::linear"), 3) << "selected from a transposed view";
    EXPECT_EQ(count(layer, "aten::linear"), 6) << "slices";
    for (const Graph *graph : {&heads, &layer})
        for (const char *gone : {"aten::select.int", "aten::slice.Tensor"}) EXPECT_EQ(count(*graph, gone), 0) << gone;
    EXPECT_EQ(count(rows, "aten::linear"), 1) << "some rows, with all their elements";
    EXPECT_EQ(count(rows, "aten::slice.Tensor"), 1);
}

TEST(Passes, DynamicSizesLeaveNoBookkeeping) {
    const Graph graph = passed("models", "bert_dynamic");
    for (const Node &node : graph.nodes) {
        EXPECT_FALSE(node.target.starts_with("_operator.")) << node.target;
        EXPECT_NE(node.target, "aten::sym_size.int");
        EXPECT_FALSE(node.target.starts_with("aten::_assert")) << node.target;
    }
}

TEST(Passes, SkippedByNameAndReported) {
    std::vector<std::string> ran;
    PassOptions options;
    options.skipped = {"constants", "layout", "channels"};
    options.after = [&](const Pass &pass, int, const Graph &) { ran.push_back(pass.name); };
    passed("models", "mlp", options);
    EXPECT_THAT(ran, testing::ElementsAre("canonicalize", "complex", "decompose", "attention", "masks", "boolean-masks",
                                          "strength", "idioms", "windows", "batch-norm", "weights", "parts", "rotations",
                                          "window-channels", "common", "dead"));
    options.skipped = {"strengh"};
    try {
        passed("models", "mlp", options);
        FAIL();
    } catch (const Error &error) {
        EXPECT_STREQ(error.what(), "no pass 'strengh' (did you mean 'strength'?)");
    }
}

// An accelerator that has products and norms alone.
class Products : public OperatorRegistry {
public:
    Placement placement() const override { return Placement::Accelerator; }
    std::string name() const override { return "products"; }
    std::optional<SupportVerdict> query(const Graph &graph, const Node &node) const override {
        if (node.target == "aten::gelu") return SupportVerdict{false, "not this time"};
        if (node.target != "aten::linear" && node.target != "aten::layer_norm" && node.target != "aten::add.Tensor")
            return std::nullopt;
        if (graph.type(node.outputs[0]).dtype != DType::Float32) return SupportVerdict{false, "only float32"};
        return SupportVerdict{true, ""};
    }
};

TEST(Support, ReportsAllFindingsAtOnce) {
    const Fixtures fixtures("models");
    Graph graph = fixtures.import(fixtures.find("mlp")).graph;
    const Products products;
    const SupportReport whole = support_report(graph, {&products, &host_registry()});
    EXPECT_TRUE(whole.runnable());
    EXPECT_EQ(whole.count(SupportKind::Accelerator), 4);
    require_supported(graph, whole);

    const SupportReport alone = support_report(graph, {&products});
    EXPECT_FALSE(alone.runnable());
    try {
        require_supported(graph, alone);
        FAIL();
    } catch (const Error &error) {
        EXPECT_THAT(error.what(),
                    testing::AllOf(testing::HasSubstr("aten::gelu (1 call, first in 3): products: not this time"),
                                   testing::HasSubstr("aten::relu (1 call"), testing::HasSubstr("aten::tanh (1 call")));
    }
    graph.nodes[0].target = "aten::lstm.input";
    EXPECT_EQ(support_report(graph, {&host_registry()}).count(SupportKind::Decomposition), 1);
}

}  // namespace
}  // namespace atalla
