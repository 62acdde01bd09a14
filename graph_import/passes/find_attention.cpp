// softmax(Q K^T * scale + masks) V written out is one operator, whose scores stay on the chip: models with an attention of
// their own, or an export of theirs that is called eager, have it so. It stands in front of the passes over masks, which then
// find those of it.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

class Finder {
public:
    Finder(Graph &graph, Rewriter &rewriter) : graph_(graph), rewriter_(rewriter) {
        for (const Node &node : graph.nodes) for_each_value(node, [&](ValueId id) { uses_[id]++; });
        for (const GraphOutput &output : graph.outputs) for_each_value(output.value, [&](ValueId id) { uses_[id]++; });
    }

    // Of the product of the weights with V.
    std::optional<Node> attention(const Node &node) {
        const std::optional<Product> weighted = product(&node);
        if (!weighted || rank(weighted->right) < 3) return {};
        const Node *softmax = made_by(weighted->left);
        if (softmax == nullptr || softmax->target != "aten::softmax.int") return {};
        const auto last = static_cast<int64_t>(rank(weighted->left)) - 1;
        if (const int64_t dim = softmax->integer("dim"); dim != -1 && dim != last) return {};
        Scores scores;
        if (!read(made_by(softmax->tensor("self")), scores)) return {};
        const Sizes &queries = graph_.type(scores.queries).sizes, &keys = graph_.type(scores.keys).sizes,
                    &values = graph_.type(weighted->right).sizes;
        if (!same_heads(queries, keys) || !same_heads(queries, values)) return {};
        std::vector<NamedArgument> arguments = {{"query", scores.queries},
                                                {"key", transposed(scores.keys, node)},
                                                {"value", weighted->right},
                                                {"scale", scores.scale}};
        if (!scores.masks.empty()) arguments.push_back({"attn_mask", together(scores.masks, node)});
        return make_call("aten::scaled_dot_product_attention", std::move(arguments), node);
    }

private:
    struct Product {
        ValueId left, right;
    };
    struct Scores {
        ValueId queries, keys;  // keys: [.., depth, keys]
        double scale = 1;
        std::vector<ValueId> masks;  // added, or one of flags that are true where a query attends
    };

    size_t rank(ValueId id) const { return graph_.type(id).sizes.size(); }
    static bool same_heads(const Sizes &a, const Sizes &b) {
        return a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
    }

    static std::optional<Product> product(const Node *node) {
        if (node == nullptr || (node->target != "aten::matmul" && node->target != "aten::bmm")) return {};
        return Product{node->tensor("self"), node->tensor(node->target == "aten::bmm" ? "mat2" : "other")};
    }

    // The call that makes a value that nothing else uses, conversions between floating types left out; null if something does.
    const Node *made_by(ValueId id) const {
        for (;;) {
            const auto uses = uses_.find(id);
            const Node *node = rewriter_.producer(id);
            if (node == nullptr || uses == uses_.end() || uses->second != 1) return nullptr;
            if (node->target != "aten::_to_copy" || !is_floating(graph_.type(node->tensor("self")).dtype)) return node;
            id = node->tensor("self");
        }
    }

    // A number, or a tensor that holds one.
    std::optional<double> number(const Node &node, const char *name) const {
        const Argument *argument = node.find(name);
        const auto *id = std::get_if<ValueId>(argument);
        if (id == nullptr) return node.number(name);
        const HostTensor *data = *id ? graph_.constant_data(*id) : nullptr;
        if (data == nullptr || data->elements() != 1) return std::nullopt;
        return element_as_double(dense_copy(*data), 0);
    }

    // From the softmax inwards: masks, then a scale, then the product.
    bool read(const Node *node, Scores &scores) {
        if (node == nullptr) return false;
        if (const std::optional<Product> inner = product(node)) {
            scores.queries = inner->left;
            scores.keys = inner->right;
            return true;
        }
        if (node->target == "aten::mul.Tensor" || node->target == "aten::div.Tensor" || node->target == "aten::mul.Scalar" ||
            node->target == "aten::div.Scalar") {
            const std::optional<double> factor = number(*node, "other");
            if (!factor) return false;
            const Node *scaled = made_by(node->tensor("self"));
            scores.scale = node->target.starts_with("aten::mul") ? *factor : 1 / *factor;
            return product(scaled) && read(scaled, scores);
        }
        if (node->target == "aten::add.Tensor") {
            const auto *self = std::get_if<ValueId>(node->find("self")), *other = std::get_if<ValueId>(node->find("other"));
            if (self == nullptr || other == nullptr || node->number("alpha") != 1) return false;
            for (const auto &[inside, mask] : {std::pair(*self, *other), std::pair(*other, *self)}) {
                if (!is_floating(graph_.type(mask).dtype) ||
                    !(graph_.type(inside).sizes == graph_.type(node->outputs[0]).sizes) || rank(mask) < 2)
                    continue;
                Scores found = scores;
                if (!read(made_by(inside), found)) continue;
                found.masks.push_back(mask);
                return accepts(scores, std::move(found));
            }
            return false;
        }
        return read_hidden(*node, scores);
    }

    // Flags and numbers are not mixed.
    bool accepts(Scores &scores, Scores found) const {
        const bool flags = std::ranges::any_of(found.masks, [&](ValueId id) { return graph_.type(id).dtype == DType::Bool; });
        if (flags && found.masks.size() > 1) return false;
        scores = std::move(found);
        return true;
    }

    // Scores that are replaced by a number so low that a softmax gives them nothing.
    bool read_hidden(const Node &node, Scores &scores) {
        constexpr double lowest_score = -1e4;
        const bool fill = node.target == "aten::masked_fill.Scalar",
                   choice = node.target == "aten::where.self" || node.target == "aten::where.ScalarOther";
        if (!fill && !choice) return false;
        const ValueId mask = node.tensor(fill ? "mask" : "condition");
        const std::optional<double> hidden = number(node, fill ? "value" : "other");
        const auto *inside = std::get_if<ValueId>(node.find("self"));
        // A mask that has more heads than the scores would give the result more than the queries have.
        if (inside == nullptr || !*inside || !(graph_.type(*inside).sizes == graph_.type(node.outputs[0]).sizes) || !hidden ||
            !(*hidden <= lowest_score) || graph_.type(mask).dtype != DType::Bool || rank(mask) < 2)
            return false;
        Scores found = scores;
        if (!read(made_by(*inside), found)) return false;
        const std::optional<ValueId> attends = flags_of(mask, fill, std::isinf(*hidden), node);
        found.masks.push_back(attends ? *attends : added_for(mask, fill, *hidden, node));
        return accepts(scores, std::move(found));
    }

    // A row that hides everything has equal weights if what it holds is finite: flags say that of masks that are known.
    std::optional<ValueId> flags_of(ValueId mask, bool inverted, bool infinite, const Node &origin) {
        const TensorType &type = graph_.type(mask);
        if (const HostTensor *data = graph_.constant_data(mask)) {
            const HostTensor dense = dense_copy(*data);
            HostTensor flags = make_tensor(DType::Bool, dense.sizes);
            const int64_t columns = dense.sizes.back();
            for (int64_t row = 0; row < dense.elements() / std::max<int64_t>(columns, 1); row++) {
                bool any = infinite;
                for (int64_t at = row * columns; at < (row + 1) * columns; at++) {
                    const bool attends = (element_as_double(dense, at) != 0) != inverted;
                    any = any || attends;
                    store_double(mutable_data(flags) + at * element_bytes(DType::Bool), DType::Bool, attends);
                }
                if (!any) return std::nullopt;
            }
            return inverted ? graph_.add_constant(graph_.value(mask).name + "_attends", std::move(flags)) : mask;
        }
        if (!infinite) return std::nullopt;
        return inverted ? rewriter_.insert(make_call("aten::logical_not", {{"self", mask}}, origin),
                                           graph_.value(mask).name + "_attends", dense_type(DType::Bool, type.sizes))
                        : mask;
    }
    ValueId added_for(ValueId mask, bool inverted, double hidden, const Node &origin) {
        return rewriter_.insert(
            make_call("aten::where.Scalar",
                      {{"condition", mask}, {"self", inverted ? hidden : 0.0}, {"other", inverted ? 0.0 : hidden}}, origin),
            graph_.value(mask).name + "_added", dense_type(DType::Float32, graph_.type(mask).sizes));
    }

    ValueId together(const std::vector<ValueId> &masks, const Node &origin) {
        ValueId sum = masks[0];
        for (size_t i = 1; i < masks.size(); i++) {
            const Sizes sizes = broadcast(graph_.type(sum).sizes, graph_.type(masks[i]).sizes);
            sum = rewriter_.insert(make_call("aten::add.Tensor", {{"self", sum}, {"other", masks[i]}}, origin),
                                   graph_.value(sum).name + "_masks", dense_type(graph_.type(sum).dtype, sizes));
        }
        return sum;
    }

    // [.., depth, keys] as [.., keys, depth]: passes over transposes join this one with others.
    ValueId transposed(ValueId keys, const Node &origin) {
        Sizes sizes = graph_.type(keys).sizes;
        std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
        Sizes dims;
        for (size_t d = 0; d < sizes.size(); d++) dims.emplace_back(static_cast<int64_t>(d));
        std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
        return rewriter_.insert(make_call("aten::permute", {{"self", keys}, {"dims", dims}}, origin),
                                graph_.value(keys).name + "_rows", dense_type(graph_.type(keys).dtype, std::move(sizes)));
    }

    Graph &graph_;
    Rewriter &rewriter_;
    std::map<ValueId, int> uses_;
};

}  // namespace

int find_attention(Graph &graph) {
    Rewriter rewriter(graph);
    Finder finder(graph, rewriter);
    return rewriter.sweep([&](Node &node) {
        if (std::optional<Node> found = finder.attention(node)) {
            node = std::move(*found);
            rewriter.count();
        }
    });
}

}  // namespace atalla
