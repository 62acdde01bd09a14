// Distances that the hardware does not keep by itself: proved from packets and units, or made with packets that take time.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "codegen/blocks.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// The fewest cycles in which packets issue, one after the other: one each, the initiation intervals of the lane units, and
// known delays.
class LeastCycles {
public:
    LeastCycles(const Machine &machine, Reg delay) : machine_(machine), delay_(delay) {}
    // The cycle in which the next packet issues; the first one's is 0.
    int next(const OpGroup &packet);

private:
    const Machine &machine_;
    Reg delay_;
    std::array<int, 16> free_at_{};  // by unit
    int delayed_ = -1, cycle_ = -1;
};

class Delays {
public:
    explicit Delays(Kernel &kernel) : kernel_(kernel), machine_(*kernel.machine) {}

    // The packets of a scheduled block. Cycles without an operation are not emitted: the hardware waits by itself, except
    // across hard edges, where packets that take a known time are put in between. Of a loop whose iterations overlap, those of
    // the iteration before may wait.
    std::vector<OpGroup> packets(ScheduleGraph &graph, bool overlapping = false);

    // A weight load soon after the rows of another block: blocks that load weights get a delay unless enough cycles come
    // first. `is_loop_body(b)`: block b is the whole body of a loop whose own iterations keep their distance.
    void keep_weights_apart(Blocks &blocks, const std::function<bool(size_t)> &is_loop_body);

    // Packets that take at least so many cycles, and hardly more: results that are waited for, and a few packets that do
    // nothing of use.
    std::vector<OpGroup> delay_packets(int cycles);
    LeastCycles pace() const { return {machine_, delay_}; }

    // Does an operation touch the register that delays wait for?
    bool touches(const Op &op) const;

private:
    int least_cycles(const std::vector<OpGroup> &packets, int from, int to, int distance) const;
    bool share_delay(ScheduleGraph &graph, const std::vector<OpGroup> &packets, const std::vector<int> &packet_of, int from,
                     int at, int missing);
    void insert_delay(ScheduleGraph &graph, const std::vector<int> &packet_of, int at, int missing);
    Op starts(Opcode opcode);

    Kernel &kernel_;
    const Machine &machine_;
    Reg delay_;
};

}  // namespace atalla::codegen
