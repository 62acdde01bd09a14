// Convolutions and pooling between two transposes that move the channels inside: one kernel that leaves them there.
#pragma once

#include <vector>

#include "graph_import/graph.h"
#include "model/fusion.h"
#include "model/placement.h"

namespace atalla {

// The weights of depthwise kernels become constants of the graph in the order that the kernel reads. A transpose in front that
// others read, too, is of the first fusion around it, if all of these are in fusions.
std::vector<Fusion> find_channels_fusions(Graph &graph, const std::vector<PlacedNode> &placed, const FusionSavings &saves);

}  // namespace atalla
