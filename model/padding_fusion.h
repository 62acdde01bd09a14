// Zeros around an image and the convolution behind them as one kernel, whose sides may differ.
#pragma once

#include <optional>

#include "graph_import/graph.h"
#include "model/fusion.h"
#include "model/placement.h"

namespace atalla {

// Of a convolution on the accelerator whose image is padded for it alone. `uses`: the graph's.
std::optional<Fusion> padding_fusion(const Graph &graph, const std::vector<PlacedNode> &placed,
                                     const std::vector<std::vector<int32_t>> &uses, int32_t node);

}  // namespace atalla
