// Attention with the transposes around it: the kernel reads and writes heads where projections have them, inside the rows.
#pragma once

#include <optional>
#include <vector>

#include "graph_import/graph.h"
#include "model/fusion.h"
#include "model/placement.h"

namespace atalla {

// Of an attention node of the accelerator; nothing if it has no such transpose. `uses`: the graph's.
std::optional<Fusion> attention_fusion(const Graph &graph, const std::vector<PlacedNode> &placed, const std::vector<std::vector<int32_t>> &uses, int32_t node);

}  // namespace atalla
