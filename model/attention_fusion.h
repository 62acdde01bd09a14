// Attention with the transposes around it: the kernel reads and writes heads where projections have them, inside the rows.
#pragma once

#include <vector>

#include "graph_import/graph.h"
#include "model/fusion.h"
#include "model/placement.h"

namespace atalla {

// Of an attention node of the accelerator; none if it has no such transpose. `uses`: the graph's.
std::vector<Fusion> attention_fusions(const Graph &graph, const std::vector<PlacedNode> &placed,
                                      const std::vector<std::vector<int32_t>> &uses, int32_t node);

}  // namespace atalla
