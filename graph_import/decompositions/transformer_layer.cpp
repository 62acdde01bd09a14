// The whole encoder layer that PyTorch calls in the place of nn.TransformerEncoderLayer's modules where no gradients are asked
// for.
#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

struct Layer {
    Expansion &e;
    SymInt batch, tokens, width;  // of what comes in and goes out
    int64_t heads, depth;

    ValueId linear(ValueId x, ValueId weight, ValueId bias) const {
        Sizes sizes = e.sizes(x);
        sizes.back() = e.sizes(weight)[0];
        return e.call("aten::linear", {{"input", x}, {"weight", weight}, {"bias", bias}}, sizes);
    }

    std::vector<NamedArgument> norm(ValueId x, const char *weight, const char *bias) const {
        return {{"input", x},
                {"normalized_shape", Sizes{width}},
                {"weight", e.tensor(weight)},
                {"bias", e.tensor(bias)},
                {"eps", e.node.number("eps")}};
    }

    // Where a mask that hides (a boolean that is true, a number that is not 0) lets a query see a key; one for all heads, or of
    // keys alone.
    ValueId seen() const {
        const ValueId mask = e.node.optional_tensor("mask");
        if (!mask) return {};
        const TensorType type = dense_type(DType::Bool, e.sizes(mask));
        const bool boolean = e.dtype(mask) == DType::Bool;
        const ValueId seen = boolean ? e.call("aten::logical_not", {{"self", mask}}, type)
                                     : e.call("aten::eq.Scalar", {{"self", mask}, {"other", SymInt(0)}}, type);
        if (e.node.integer("mask_type") != 1) return seen;
        const Sizes of_keys = {batch, 1, 1, tokens};
        return e.call("aten::view", {{"self", seen}, {"size", of_keys}}, dense_type(DType::Bool, of_keys));
    }

    ValueId attention(ValueId x) const {
        const ValueId projected = linear(x, e.tensor("qkv_weight"), e.tensor("qkv_bias"));
        const auto part = [&](int64_t at) {
            const SymInt start = width * SymInt(at);
            const ValueId slice =
                e.call("aten::slice.Tensor",
                       {{"self", projected}, {"dim", SymInt(2)}, {"start", start}, {"end", start + width}, {"step", SymInt(1)}},
                       Sizes{batch, tokens, width});
            return e.permute(e.view(slice, {batch, tokens, heads, depth}), {0, 2, 1, 3});
        };
        std::vector<NamedArgument> arguments = {{"query", part(0)}, {"key", part(1)}, {"value", part(2)}};
        if (const ValueId mask = seen()) arguments.push_back({"attn_mask", mask});
        const ValueId attended =
            e.call("aten::scaled_dot_product_attention", std::move(arguments), Sizes{batch, heads, tokens, depth});
        return linear(e.view(e.permute(attended, {0, 2, 1, 3}), {batch, tokens, width}), e.tensor("proj_weight"),
                      e.tensor("proj_bias"));
    }

    ValueId feed_forward(ValueId x) const {
        const ValueId inner = linear(x, e.tensor("ffn_weight_1"), e.tensor("ffn_bias_1"));
        return linear(e.each(e.node.flag("use_gelu") ? "aten::gelu" : "aten::relu", inner), e.tensor("ffn_weight_2"),
                      e.tensor("ffn_bias_2"));
    }
};

bool encoder_layer(Expansion &e) {
    const ValueId src = e.tensor("src");
    const Sizes sizes = e.sizes(src);
    const int64_t heads = e.node.integer("num_heads");
    if (sizes.size() != 3 || !sizes[2].is_constant() || heads < 1 || sizes[2].value() % heads != 0) return false;
    if (e.node.optional_tensor("mask") && !e.node.optional_integer("mask_type")) return false;
    const Layer layer{e, sizes[0], sizes[1], sizes[2], heads, sizes[2].value() / heads};
    const auto norm = [&](ValueId x, const char *weight, const char *bias) {
        return e.call("aten::layer_norm", layer.norm(x, weight, bias), sizes);
    };

    if (e.node.flag("norm_first")) {
        const ValueId attended = e.both("aten::add.Tensor", layer.attention(norm(src, "norm_weight_1", "norm_bias_1")), src);
        e.last("aten::add.Tensor",
               {{"self", layer.feed_forward(norm(attended, "norm_weight_2", "norm_bias_2"))}, {"other", attended}});
        return true;
    }
    const ValueId attended = norm(e.both("aten::add.Tensor", layer.attention(src), src), "norm_weight_1", "norm_bias_1");
    e.last("aten::layer_norm",
           layer.norm(e.both("aten::add.Tensor", layer.feed_forward(attended), attended), "norm_weight_2", "norm_bias_2"));
    return true;
}

}  // namespace

void add_transformer_layer(Decompositions &all) { all["aten::_transformer_encoder_layer_fwd"] = encoder_layer; }

}  // namespace atalla
