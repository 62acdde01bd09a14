// Convolutions with a kernel for each channel between two transposes that move the channels inside: one kernel that leaves them there.
#pragma once

#include <vector>

#include "graph_import/graph.h"
#include "model/fusion.h"
#include "model/placement.h"

namespace atalla {

// The weights of what is taken become constants of the graph in the order that the kernel reads.
std::vector<Fusion> find_depthwise_fusions(Graph &graph, const std::vector<PlacedNode> &placed, const FusionSavings &saves);

}  // namespace atalla
