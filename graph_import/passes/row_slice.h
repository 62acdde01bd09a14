// Slices along the last dimension.
#pragma once

#include <cstdint>
#include <optional>

#include "graph_import/graph.h"

namespace atalla {

// Elements start, start + step, ... before `end` of each row.
struct RowSlice {
    int64_t start = 0, end = 0, step = 1;
};

// Of a slice of at least one element along the last dimension, whose size is constant; nothing if the node is another call.
std::optional<RowSlice> row_slice(const Graph &graph, const Node &node);

}  // namespace atalla
