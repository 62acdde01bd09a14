// Calls that put a constant around a tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

bool is_padding(const Node &node);
// What is added at the start and the end of each dimension, the last one first; empty where that depends on a size or is no
// constant.
std::vector<int64_t> padding_of(const Node &node);
bool pads_with_zeros(const Node &node);

}  // namespace atalla
