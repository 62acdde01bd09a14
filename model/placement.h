// Decides for every node of a graph where it runs: on the accelerator, on the host, or nowhere.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "generators/operator.h"
#include "graph_import/graph.h"

namespace atalla {

struct PlacedNode {
    enum Place { Device, Host, View, Dropped, Unsupported } place = Unsupported;
    // Device: what runs, and the values that its tensors are.
    const Operator *op = nullptr;
    std::shared_ptr<const Workload> workload;
    std::vector<ValueId> inputs;
    std::string reason;                        // why not on the accelerator
    std::map<std::string, std::string> added;  // arguments of the operator beside the node's own: by the options, and whether
                                               // infinities must stay in their places
    bool fused = false;  // part of a kernel of several nodes, which is in place of the last one; the others are dropped
};

struct PlacementOptions {
    std::vector<std::string> on_host;     // targets that the accelerator is not asked for
    std::vector<std::string> registered;  // targets that the program will register host kernels for
    bool blocked_sums = false;            // products add long sums in groups: more digits, more cycles
};

// One for each node. Nothing throws for what is unsupported: all findings come together.
std::vector<PlacedNode> place_nodes(const Graph &graph, const PlacementOptions &options = {});

// Error that lists the unsupported operators with their calls, modules and what to do; nothing if there are none.
void require_placed(const Graph &graph, const std::vector<PlacedNode> &placed);

}  // namespace atalla
