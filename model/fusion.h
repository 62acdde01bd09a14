// Nodes that run as one kernel: a matrix product with the norm in front of it and the pointwise operators behind it, a chain of
// those, attention with its transposes, a norm with its residual, a convolution with its padding or with the pointwise
// operators behind it.
#pragma once

#include <functional>
#include <vector>

#include "graph_import/graph.h"
#include "model/placement.h"

namespace atalla {

struct Fusion {
    std::vector<int32_t> nodes;   // in order; the result of the last one is that of the kernel, no other is used outside
    PlacedNode kernel;            // in place of the last one's
    int32_t second_product = -1;  // of two products, the node of the one whose first operand the other makes
    bool long_epilogue = false;   // behind a product: it saves cycles only where it runs beside it
};

// What a fusion saves, in cycles. Asked once for each.
using FusionSavings = std::function<int64_t(const Fusion &)>;

// Of nodes that are placed on the accelerator. Each node is in one at most. Of what could be one kernel from a node on, that
// which saves most (without `saves`, the longest with a short epilogue), if it saves anything; two products in one kernel must
// save more than what begins at each of them does. A convolution with a kernel of one element may become a product by itself.
std::vector<Fusion> find_fusions(const Graph &graph, const std::vector<PlacedNode> &placed, const FusionSavings &saves = {});
// The same for what goes before weights are arranged: the arrangement is that of a kernel which pads.
std::vector<Fusion> find_padding_fusions(const Graph &graph, const std::vector<PlacedNode> &placed,
                                         const FusionSavings &saves = {});

// Makes the nodes of a fusion one.
void apply(const Fusion &fusion, std::vector<PlacedNode> &placed);

}  // namespace atalla
