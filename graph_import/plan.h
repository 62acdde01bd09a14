// How a graph is to be run: fused groups of nodes, the segments that the accelerator and the host take, and where every
// tensor lives in memory.
#pragma once

#include <string>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

enum class Placement { Accelerator, Host, Unsupported };

// Nodes that run as one kernel. Groups are convex (no path leaves a group and comes back) and cover all nodes, each once.
struct Group {
    std::string pattern;             // "linear+gelu+add", "attention", "layer_norm": the anchor first, then the epilogue
    int32_t anchor = -1;             // the node that decides the shape of the kernel
    std::vector<int32_t> nodes;      // in order
    std::vector<ValueId> inputs;     // operands from outside, each once, in order of first use
    std::vector<ValueId> outputs;    // results that are used outside
    Placement placement = Placement::Host;
    std::string reason;              // why not on the accelerator
};

// Groups, in order, that run in one place without a crossing.
struct PlanSegment {
    Placement placement = Placement::Host;
    std::vector<int32_t> groups;
};

// Where a value is during a call.
struct PlannedTensor {
    ValueId value;
    int64_t offset = -1;             // in the arena of activations, bytes; -1 for an input, output or constant, which have a place of their own
    int64_t bytes = 0;
    int32_t first = 0, last = 0;     // the groups (as positions in the order) that write it first and read it last
    ValueId alias_of;                // shares the bytes of this value: a view, or computed in place
};

struct MemoryPlan {
    std::vector<PlannedTensor> tensors;
    int64_t alignment = 0;           // of every offset, bytes
    int64_t arena_bytes = 0;
    int64_t lower_bound = 0;         // most bytes alive at a time: no plan is smaller
};

struct Plan {
    std::vector<Group> groups;       // in the order of execution
    std::vector<PlanSegment> segments;
    MemoryPlan memory;
};

class OperatorRegistry;

// Of a graph of constant sizes, after the passes. `alignment` is that of every tensor in the arena, bytes.
Plan make_plan(const Graph &graph, const std::vector<const OperatorRegistry *> &registries, int64_t alignment = 64);

// The steps of make_plan. Fusion follows the values that are used once: a product or convolution takes the additions,
// activations and pooling behind it, element-wise calls each other, QK^T-softmax-PV is one group.
std::vector<Group> make_groups(const Graph &graph, const std::vector<const OperatorRegistry *> &registries);
// Orders the groups so that those of a side come together where their operands allow it.
std::vector<PlanSegment> order_groups(const Graph &graph, std::vector<Group> &groups);
MemoryPlan plan_memory(const Graph &graph, const std::vector<Group> &groups, int64_t alignment);

std::string plan_text(const Graph &graph, const Plan &plan);
// Time from left to right, addresses upwards, a box for each tensor, the live bytes as a line.
std::string plan_svg(const Graph &graph, const Plan &plan);

}  // namespace atalla
