#include "graph_import/passes/row_slice.h"

#include <algorithm>

namespace atalla {

RowSlice slice_of(const Node &node, int64_t size) {
    const auto bound = [&](const char *name, int64_t least, int64_t otherwise) {
        const int64_t given = node.optional_integer(name).value_or(otherwise);
        return std::clamp(given < 0 ? given + size : given, least, size);
    };
    const int64_t start = bound("start", 0, 0);
    return {start, bound("end", start, size), node.integer("step")};
}

std::optional<RowSlice> row_slice(const Graph &graph, const Node &node) {
    if (node.target != "aten::slice.Tensor") return {};
    const Sizes &sizes = graph.type(node.tensor("self")).sizes;
    const auto last = static_cast<int64_t>(sizes.size()) - 1;
    if (sizes.empty() || (node.integer("dim") != last && node.integer("dim") != -1) || !sizes.back().is_constant()) return {};
    const RowSlice slice = slice_of(node, sizes.back().value());
    return slice.start < slice.end ? std::optional(slice) : std::nullopt;
}

}  // namespace atalla
