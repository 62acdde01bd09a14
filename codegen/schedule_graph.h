// A block's operations with what must stay in which order, and the cycles that a scheduler gives them.
#pragma once

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

// The packets of a scheduled graph: the operations of each cycle that issues something. `packet_of` gets the packet of each
// operation; for a marker, the one that follows it.
std::vector<OpGroup> gather(const ScheduleGraph &graph, std::vector<int> *packet_of = nullptr);

}  // namespace atalla::codegen
