// A block's operations with what must stay in which order, and the cycles that a scheduler gives them.
#pragma once

#include <span>
#include <vector>

#include "codegen/blocks.h"
#include "codegen/dependence.h"

namespace atalla::codegen {

// Fences take no slot; they only order what stands around them.
inline bool is_marker(const Op &op) { return op.opcode == Opcode::nop_s; }

struct ScheduleGraph {
    std::vector<Op> ops;
    std::vector<Edge> edges;
    std::vector<std::vector<int>> in, out;  // edges by operation
    std::vector<int> height;                // cycles from here to the end of the block, at least
    std::vector<int> cycle;                 // -1: not scheduled
    std::vector<int> wanted;                // of straight-line code: the earliest cycle that suits an operation

    // `loop`: the loop that the operations are the whole body of, or -1. `masks_in_turn`: as dependences() has it.
    ScheduleGraph(const Kernel &kernel, std::vector<Op> operations, int loop, bool masks_in_turn = false);

    // Operations at the end that have no edges, such as packets that only take time, are gone, and no operation has a cycle.
    void drop_added();

    // Of straight-line code: what need not come behind a late wait comes before it, where the code would stand still.
    void wait_last();
    // What leads to the first transfer of a pad goes before all else, one transfer after the other. A pad's second has to wait
    // for its first.
    void start_transfers_first();
    // A step of a transfer's base register waits for the engine, and all behind it: it comes behind the transfers of other pads
    // that it would hold up. Pads that once started one after the other then go on so, and DRAM serves some while others begin.
    void start_pads_in_turn();
    // DRAM serves transfers that start together in turns, and each of them lasts as long as all: loads for a later turn start
    // at even distances.
    void spread_transfers(const Kernel &kernel);

private:
    // An operation and those that need it to have run.
    std::vector<bool> needing(size_t op) const;
};

// Operations by the cycle that they have, in the order of the block where that is the same one.
std::vector<int> in_order_of_cycles(const std::vector<int> &cycles);

// The packets of a scheduled graph: the operations of each cycle that issues something.
class PacketOrder {
public:
    explicit PacketOrder(const ScheduleGraph &graph);
    size_t size() const { return first_.size() - 1; }
    // Indices into the graph's operations.
    std::span<const int> packet(size_t p) const {
        return std::span(ops_).subspan(static_cast<size_t>(first_[p]), static_cast<size_t>(first_[p + 1] - first_[p]));
    }
    // The packet of an operation; for a marker, the one that follows it.
    const std::vector<int> &packet_of() const { return packet_of_; }

private:
    std::vector<int> ops_, packet_of_;
    std::vector<int> first_;  // of each packet in ops_, and the end of the last
};
std::vector<OpGroup> gather(const ScheduleGraph &graph);
// Of a graph's operations, the last of which were added to it.
std::vector<OpGroup> gather(std::span<const Op> ops, std::span<const Op> added, const PacketOrder &order);

}  // namespace atalla::codegen
