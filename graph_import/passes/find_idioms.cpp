// What models write with several calls and PyTorch has one operator for: the norm by the root of the mean square, gelu by
// tanh, and attention whose keys and values serve several heads. One operator rounds once where the calls round after each.
#include <cmath>
#include <optional>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

class Finder {
public:
    Finder(const Graph &graph, const Rewriter &rewriter) : graph_(graph), rewriter_(rewriter) {}

    // (x * rsqrt(mean(x * x, -1, keepdim) + eps)) * weight, in any order of the factors.
    std::optional<Node> rms_norm(const Node &node) const {
        const std::optional<Pair> product = operands(node, "aten::mul.Tensor");
        if (!product) return {};
        for (const auto &[weight, scaled] : {*product, swapped(*product)}) {
            const Sizes &sizes = graph_.type(scaled).sizes;
            if (graph_.type(weight).sizes.size() != 1 || sizes.empty() || !(graph_.type(weight).sizes[0] == sizes.back()))
                continue;
            const std::optional<Pair> inner = operands(rewriter_.producer(scaled), "aten::mul.Tensor");
            if (!inner) continue;
            for (const auto &[x, root] : {*inner, swapped(*inner)}) {
                const std::optional<double> eps = mean_square_root(x, root);
                if (!eps || graph_.type(x).dtype != graph_.type(node.outputs[0]).dtype) continue;
                return make_call("aten::rms_norm",
                                 {{"input", x}, {"normalized_shape", Sizes{sizes.back()}}, {"weight", weight}, {"eps", *eps}},
                                 node);
            }
        }
        return {};
    }

    // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
    std::optional<Node> gelu_by_tanh(const Node &node) const {
        const std::optional<Pair> product = operands(node, "aten::mul.Tensor");
        if (!product) return {};
        for (const auto &[half, bell] : {*product, swapped(*product)}) {
            const std::optional<ValueId> x = times(half, 0.5), tangent = plus(bell, 1);
            const Node *tanh = tangent ? rewriter_.producer(*tangent) : nullptr;
            if (!x || tanh == nullptr || tanh->target != "aten::tanh") continue;
            const std::optional<ValueId> inner = times(tanh->tensor("self"), std::sqrt(2 / M_PI));
            const std::optional<Pair> sum = inner ? operands(rewriter_.producer(*inner), "aten::add.Tensor") : std::nullopt;
            if (!sum || rewriter_.producer(*inner)->number("alpha") != 1) continue;
            for (const auto &[same, cubic] : {*sum, swapped(*sum)}) {
                const std::optional<ValueId> cube = times(cubic, 0.044715);
                if (same == *x && cube && is_cube(*cube, *x))
                    return make_call("aten::gelu", {{"self", *x}, {"approximate", std::string("tanh")}}, node);
            }
        }
        return {};
    }

    // Attention of keys and values that were repeated for each head of a group: [.., heads, keys, depth] by views and an
    // expansion of
    // [.., heads, 1, keys, depth].
    std::optional<Node> grouped_queries(const Node &node) const {
        if (node.target != "aten::scaled_dot_product_attention" || node.flag("enable_gqa")) return {};
        const ValueId query = node.tensor("query"), repeated = node.tensor("key");
        const std::optional<ValueId> key = before_repeat(repeated), value = before_repeat(node.tensor("value"));
        if (!key || !value || graph_.type(query).sizes.size() != graph_.type(*key).sizes.size()) return {};
        // A single head of queries would broadcast to the repeated ones.
        if (!(heads_of(*key) == heads_of(*value)) || !(heads_of(query) == heads_of(repeated))) return {};
        std::vector<NamedArgument> arguments = node.arguments;
        for (NamedArgument &argument : arguments) {
            if (argument.name == "key") argument.value = *key;
            if (argument.name == "value") argument.value = *value;
            if (argument.name == "enable_gqa") argument.value = true;
        }
        return make_call(node.target, std::move(arguments), node);
    }

private:
    using Pair = std::pair<ValueId, ValueId>;
    static Pair swapped(const Pair &pair) { return {pair.second, pair.first}; }

    std::optional<Pair> operands(const Node *node, std::string_view target) const {
        return node == nullptr ? std::nullopt : operands(*node, target);
    }
    std::optional<Pair> operands(const Node &node, std::string_view target) const {
        if (node.target != target) return {};
        const auto *self = std::get_if<ValueId>(node.find("self")), *other = std::get_if<ValueId>(node.find("other"));
        if (self == nullptr || other == nullptr) return {};
        return Pair{*self, *other};
    }

    // Of a call with a number as its second operand, the first one.
    std::optional<ValueId> with_number(ValueId id, std::string_view target, double number) const {
        const Node *node = rewriter_.producer(id);
        if (node == nullptr || node->target != target || std::holds_alternative<ValueId>(*node->find("other"))) return {};
        const auto *self = std::get_if<ValueId>(node->find("self"));
        if (self == nullptr || std::abs(node->number("other") - number) > 1e-6 * std::abs(number)) return {};
        return *self;
    }
    std::optional<ValueId> times(ValueId id, double factor) const { return with_number(id, "aten::mul.Tensor", factor); }
    std::optional<ValueId> plus(ValueId id, double term) const {
        const Node *node = rewriter_.producer(id);
        return node != nullptr && node->target == "aten::add.Tensor" && node->number("alpha") == 1
                   ? with_number(id, "aten::add.Tensor", term)
                   : std::nullopt;
    }

    bool is_cube(ValueId id, ValueId x) const {
        const Node *node = rewriter_.producer(id);
        return node != nullptr && node->target == "aten::pow.Tensor_Scalar" && node->number("exponent") == 3 &&
               node->tensor("self") == x;
    }

    // eps of rsqrt(mean(x * x, -1, keepdim) + eps).
    std::optional<double> mean_square_root(ValueId x, ValueId root) const {
        const Node *rsqrt = rewriter_.producer(root);
        if (rsqrt == nullptr || rsqrt->target != "aten::rsqrt") return {};
        const Node *sum = rewriter_.producer(rsqrt->tensor("self"));
        if (sum == nullptr || sum->target != "aten::add.Tensor" || !std::holds_alternative<ValueId>(*sum->find("self")) ||
            std::holds_alternative<ValueId>(*sum->find("other")) || sum->number("alpha") != 1)
            return {};
        const Node *mean = rewriter_.producer(sum->tensor("self"));
        if (mean == nullptr || mean->target != "aten::mean.dim" || !mean->flag("keepdim")) return {};
        const std::vector<int64_t> dims = mean->integers("dim");
        const auto last = static_cast<int64_t>(graph_.type(x).sizes.size()) - 1;
        if (dims.size() != 1 || (dims[0] != -1 && dims[0] != last)) return {};
        const std::optional<Pair> square = operands(rewriter_.producer(mean->tensor("self")), "aten::mul.Tensor");
        if (!square || square->first != x || square->second != x) return {};
        return sum->number("other");
    }

    static constexpr size_t from_heads = 3;  // heads, keys and depth are the last dimensions
    const SymInt &heads_of(ValueId id) const {
        const Sizes &sizes = graph_.type(id).sizes;
        return sizes[sizes.size() - from_heads];
    }
    // The tensor whose heads are repeated one by one.
    std::optional<ValueId> before_repeat(ValueId id) const {
        const Node *joined = rewriter_.producer(id);
        const Node *expanded =
            joined != nullptr && joined->target == "aten::view" ? rewriter_.producer(joined->tensor("self")) : nullptr;
        const Node *apart =
            expanded != nullptr && expanded->target == "aten::expand" ? rewriter_.producer(expanded->tensor("self")) : nullptr;
        if (apart == nullptr || apart->target != "aten::view") return {};
        const ValueId source = apart->tensor("self");
        const Sizes &own = graph_.type(source).sizes, &copies = graph_.type(expanded->outputs[0]).sizes;
        if (own.size() < from_heads || copies.size() != own.size() + 1) return {};
        const size_t at = own.size() - from_heads + 1;
        Sizes with_one = own, joint = own;
        with_one.insert(with_one.begin() + static_cast<ptrdiff_t>(at), SymInt(1));
        if (!(graph_.type(apart->outputs[0]).sizes == with_one)) return {};
        with_one[at] = copies[at];
        joint[at - 1] = own[at - 1] * copies[at];
        if (!(copies == with_one) || !(graph_.type(id).sizes == joint)) return {};
        return source;
    }

    const Graph &graph_;
    const Rewriter &rewriter_;
};

}  // namespace

int find_idioms(Graph &graph) {
    Rewriter rewriter(graph);
    const Finder finder(graph, rewriter);
    return rewriter.sweep([&](Node &node) {
        std::optional<Node> found = finder.rms_norm(node);
        if (!found) found = finder.gelu_by_tanh(node);
        if (!found) found = finder.grouped_queries(node);
        if (!found) return;
        node = std::move(*found);
        rewriter.count();
    });
}

}  // namespace atalla
