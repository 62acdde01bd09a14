// Where a model has infinities and NaN on purpose, such as the -inf of an additive mask. What moves such values must keep them
// apart.
#pragma once

#include <vector>

#include "graph_import/graph.h"

namespace atalla {

// For each value of the graph: whether it may hold infinities or NaN, as bf16, that the model put there: in a constant, as a
// number of a call, as a logarithm of zero, or by what only moves or combines such values. Results of products, norms and
// softmax and a caller's tensors count as finite: an infinity there is an overflow. Constants that only such calls read are not
// looked at.
std::vector<bool> intended_infinities(const Graph &graph);

}  // namespace atalla
