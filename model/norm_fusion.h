// A norm with the additions before it, such as a residual: one kernel reads the addends, and the sum is never in memory.
#pragma once

#include <vector>

#include "graph_import/graph.h"
#include "model/fusion.h"
#include "model/placement.h"

namespace atalla {

// Of a norm node of the accelerator: with one addition, two, ... as far as their results have no other use. `uses`: the
// graph's.
std::vector<Fusion> norm_fusions(const Graph &graph, const std::vector<PlacedNode> &placed,
                                 const std::vector<std::vector<int32_t>> &uses, int32_t node);

}  // namespace atalla
