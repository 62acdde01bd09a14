// Constants in the order in which kernels read them best, arranged once when the model is compiled.
#pragma once

#include <functional>
#include <vector>

#include "graph_import/graph.h"
#include "model/placement.h"

namespace atalla {

// Whether the node is to run as `arranged` from now on, one of its workload's arrangements.
using TakeArrangement = std::function<bool(const PlacedNode &node, const Arrangement &arranged)>;

// Of the nodes on the accelerator; arranged constants are added to the graph. The arrangement that was taken last counts.
void arrange_constants(Graph &graph, std::vector<PlacedNode> &placed, const Machine &machine, const TakeArrangement &take);

}  // namespace atalla
