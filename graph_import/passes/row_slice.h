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

// What a call of slice takes of a dimension of this size: ends in order, inside it.
RowSlice slice_of(const Node &node, int64_t size);

// Of a slice of at least one element along the last dimension, whose size is constant; nothing if the node is another call.
std::optional<RowSlice> row_slice(const Graph &graph, const Node &node);

}  // namespace atalla
