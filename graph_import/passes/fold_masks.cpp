// Attention masks that are constant: all true is no mask, the lower triangle is causal.
#include <cmath>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

enum class MaskKind { Full, Causal, Other };

// Of the last two dimensions, the same in all others. A float mask that is 0 attends, one that is -inf or the most
// negative float32 (which has the same effect in a row that attends to anything) does not.
MaskKind classify(const HostTensor &mask, int64_t rows, int64_t columns) {
    const HostTensor dense = dense_copy(mask);
    const auto rank = static_cast<int64_t>(mask.sizes.size());
    const int64_t own_rows = rank >= 2 ? mask.sizes[rank - 2] : 1, own_columns = rank >= 1 ? mask.sizes[rank - 1] : 1;
    const bool flags = mask.dtype == DType::Bool;
    constexpr double hidden = -3.4e38;
    bool full = true, causal = rows == columns && own_rows == rows && own_columns == columns && rows > 1;
    for (int64_t i = 0; i < dense.elements(); i++) {
        const double value = element_as_double(dense, i);
        const bool attends = flags ? value != 0 : value == 0;
        if (!flags && !attends && !(value <= hidden)) return MaskKind::Other;
        const int64_t row = i / own_columns % own_rows, column = i % own_columns;
        full = full && attends;
        causal = causal && attends == (column <= row);
    }
    return full ? MaskKind::Full : causal ? MaskKind::Causal : MaskKind::Other;
}

bool is_all(const HostTensor &tensor, double value) {
    for (int64_t i = 0, count = tensor.elements(); i < count && i < 1; i++) {
        const HostTensor dense = dense_copy(tensor);
        for (int64_t j = 0; j < count; j++) {
            if (element_as_double(dense, j) != value) return false;
        }
    }
    return true;
}

}  // namespace

int fold_masks(Graph &graph) {
    const auto constant = [&](const Node &node, const char *name) -> const HostTensor * {
        const Argument *argument = node.find(name);
        const auto *id = argument ? std::get_if<ValueId>(argument) : nullptr;
        return id ? graph.constant_data(*id) : nullptr;
    };
    Rewriter rewriter(graph);
    return rewriter.sweep([&](Node &node) {
        // x & true is x.
        if (node.target == "aten::__and__.Tensor" || node.target == "aten::bitwise_and.Tensor" ||
            node.target == "aten::logical_and") {
            for (const auto &[mask, other] : {std::pair("self", "other"), std::pair("other", "self")}) {
                const HostTensor *data = constant(node, mask);
                const auto *kept = std::get_if<ValueId>(node.find(other));
                if (!data || data->dtype != DType::Bool || !kept || !is_all(*data, 1)) continue;
                if (!same_type(graph.type(*kept), graph.type(node.outputs[0]))) continue;
                rewriter.replace(node.outputs[0], *kept);
                node.target.clear();
                return;
            }
        }
        if (node.target != "aten::scaled_dot_product_attention") return;
        const HostTensor *mask = constant(node, "attn_mask");
        const Sizes &query = graph.type(node.tensor("query")).sizes, &key = graph.type(node.tensor("key")).sizes;
        if (!mask || query.size() < 2 || !is_constant({query[query.size() - 2], key[key.size() - 2]})) return;
        const MaskKind kind = classify(*mask, query[query.size() - 2].value(), key[key.size() - 2].value());
        if (kind == MaskKind::Other || (kind == MaskKind::Causal && node.flag("is_causal"))) return;
        for (NamedArgument &argument : node.arguments) {
            if (argument.name == "attn_mask") argument.value = std::monostate{};
            if (argument.name == "is_causal" && kind == MaskKind::Causal) argument.value = true;
        }
        rewriter.count();
    });
}

}  // namespace atalla
