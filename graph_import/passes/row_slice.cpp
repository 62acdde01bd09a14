#include "graph_import/passes/row_slice.h"

#include <algorithm>

namespace atalla {

std::optional<RowSlice> row_slice(const Graph &graph, const Node &node) {
    if (node.target != "aten::slice.Tensor") return {};
    const Sizes &sizes = graph.type(node.tensor("self")).sizes;
    const auto last = static_cast<int64_t>(sizes.size()) - 1;
    if (sizes.empty() || (node.integer("dim") != last && node.integer("dim") != -1) || !sizes.back().is_constant()) return {};
    const int64_t size = sizes.back().value();
    const auto bound = [&](const char *name, int64_t otherwise) {
        const int64_t given = node.optional_integer(name).value_or(otherwise);
        return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size);
    };
    const RowSlice slice{bound("start", 0), bound("end", size), node.integer("step")};
    return slice.start < slice.end ? std::optional(slice) : std::nullopt;
}

}  // namespace atalla
