#include "graph_import/padding.h"

namespace atalla {

bool is_padding(const Node &node) { return node.target == "aten::pad" || node.target == "aten::constant_pad_nd"; }

std::vector<int64_t> padding_of(const Node &node) {
    if (node.target == "aten::pad" && node.string("mode") != "constant") return {};
    return is_constant(node.sizes("pad")) ? node.integers("pad") : std::vector<int64_t>{};
}

bool pads_with_zeros(const Node &node) { return node.is_none("value") || node.number("value") == 0; }

}  // namespace atalla
