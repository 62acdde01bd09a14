// List scheduling of straight-line code.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/resources.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// A graph whose operations all have their cycles, and what the units do in each.
using Scheduled = std::pair<ScheduleGraph, ResourceTable>;
// The same of code that can be scheduled again, which then gives the graph other cycles and drops operations that were added.
using ScheduledAgain = std::pair<ScheduleGraph &, ResourceTable>;

// A straight block that can be scheduled more than once: what must stay in which order is found out only the first time.
class StraightCode {
public:
    // `shared_masks`: those that other blocks have too. `entry`: it is the first block of the kernel. `in_order`: operations go
    // in the order that they have, as far as they are ready, and with masks in turn. `transfers`: it is a loop that only starts
    // transfers.
    StraightCode(const Kernel &kernel, std::vector<Op> ops, std::set<Reg> shared_masks, bool entry, bool in_order = false,
                 bool transfers = false)
        : kernel_(kernel),
          shared_masks_(std::move(shared_masks)),
          entry_(entry),
          in_order_(in_order),
          transfers_(transfers),
          code_(kernel, graph_of(std::move(ops), in_order), in_order) {}

    // The operations on the longest way to the end go first. `packet_cycles`: how many cycles a packet stands for.
    ScheduledAgain schedule(int packet_cycles) &;
    Scheduled schedule(int packet_cycles) &&;

    size_t size() const { return code_.rank.size(); }
    // Without what was added since it was scheduled, which is this of one of its graphs.
    std::span<const Op> ops() const { return std::span(code_.graph.ops).first(size()); }
    std::vector<Op> added_to(const ScheduleGraph &graph) const {
        return {graph.ops.begin() + static_cast<std::ptrdiff_t>(size()), graph.ops.end()};
    }

    // A graph, and what stays the same each time that it is scheduled.
    struct Ordered {
        Ordered(const Kernel &kernel, ScheduleGraph ordered, bool in_order);
        ScheduleGraph graph;
        std::vector<Claim> claims;  // of its operations
        // Operations of one kind have equal claims; markers are of the first kind.
        std::vector<size_t> kind;
        size_t kinds = 1;
        std::vector<size_t> rank;  // an operation's place in the order in which they are tried
        std::vector<int> by_rank;
    };

private:
    ScheduleGraph graph_of(std::vector<Op> ops, bool masks_in_turn) const;

    const Kernel &kernel_;
    std::set<Reg> shared_masks_;
    bool entry_, in_order_, transfers_;
    Ordered code_;
    std::optional<Ordered> masks_in_turn_;  // an order that has few masks alive at any time; made when it is needed
};

}  // namespace atalla::codegen
