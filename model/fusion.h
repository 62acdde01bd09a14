// Nodes that run as one kernel: a matrix product with the pointwise operators behind it, a chain of those, attention with its transposes.
#pragma once

#include <functional>
#include <vector>

#include "graph_import/graph.h"
#include "model/placement.h"

namespace atalla {

struct Fusion {
    std::vector<int32_t> nodes;   // in order; the result of the last one is that of the kernel, no other is used outside
    PlacedNode kernel;            // in place of the last one's
};

// Of nodes that are placed on the accelerator. Each node is in one at most. Of what could be one kernel from a node on, the longest
// that `take` agrees to (without it, the longest).
std::vector<Fusion> find_fusions(const Graph &graph, const std::vector<PlacedNode> &placed, const std::function<bool(const Fusion &)> &take = {});

// Makes the nodes of a fusion one.
void apply(const Fusion &fusion, std::vector<PlacedNode> &placed);

}  // namespace atalla
