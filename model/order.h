// The order in which a graph's nodes run, and which of them make a segment: few crossings between accelerator and host.
#pragma once

#include <vector>

#include "graph_import/graph.h"
#include "model/placement.h"

namespace atalla {

// Neighbouring nodes on one side. Views belong to the side of what they view.
struct NodeRun {
    bool device = false;
    std::vector<int32_t> nodes;
};

// Dropped nodes are in none. A greedy list schedule: as many nodes of a side as are ready, then those of the other; of the
// accelerator's first those that have the kernel of the call before, whose code is still in the instruction cache. `kernel_of`:
// of each node, -1 for none.
std::vector<NodeRun> order_nodes(const Graph &graph, const std::vector<PlacedNode> &placed, const std::vector<int> &kernel_of);

// The same order with a run for each kernel of the accelerator.
std::vector<NodeRun> one_kernel_each(const std::vector<NodeRun> &runs, const std::vector<PlacedNode> &placed);

}  // namespace atalla
