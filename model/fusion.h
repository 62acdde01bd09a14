// Nodes that run as one kernel: a matrix product with the pointwise operators behind it, or a chain of those.
#pragma once

#include <string>
#include <vector>

#include "graph_import/graph.h"
#include "model/placement.h"

namespace atalla {

struct Fusion {
    std::vector<int32_t> nodes;   // in order; the result of the last one is that of the kernel, no other is used outside
    PlacedNode kernel;            // in place of the last one's
};

// Of nodes that are placed on the accelerator. Each node is in one at most. What a kernel would have to compute for long stays apart:
// the instruction cache does not hold both.
std::vector<Fusion> find_fusions(const Graph &graph, const std::vector<PlacedNode> &placed);

// Makes the nodes of a fusion one.
void apply(const Fusion &fusion, std::vector<PlacedNode> &placed);

}  // namespace atalla
