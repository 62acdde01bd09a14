// Distances that the hardware does not keep by itself: proved from packets and units, or made with packets that take time.
#pragma once

#include <algorithm>
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
    // The cycle in which the next packet issues, of so many operations, that `op_at` gives; the first one's is 0.
    template <typename OpAt>
    int next(size_t ops, const OpAt &op_at);
    int next(const OpGroup &packet) {
        return next(packet.size(), [&](size_t i) -> const Op & { return packet[i]; });
    }

private:
    const Machine &machine_;
    Reg delay_;
    std::array<int, 16> free_at_{};  // by unit
    int delayed_ = -1, cycle_ = -1;
};

template <typename OpAt>
int LeastCycles::next(size_t ops, const OpAt &op_at) {
    const auto lane = [](Unit unit) { return unit == Unit::Alu || unit == Unit::Mul || unit == Unit::Exp; };
    cycle_++;
    for (size_t i = 0; i < ops; i++) {
        const Op &op = op_at(i);
        const Unit unit = info(op.opcode).unit;
        if (lane(unit)) cycle_ = std::max(cycle_, free_at_[static_cast<size_t>(unit)]);
        if (delayed_ >= 0 && std::count(op.src.begin(), op.src.end(), delay_) > 0) cycle_ = std::max(cycle_, delayed_);
    }
    for (size_t i = 0; i < ops; i++) {
        const Op &op = op_at(i);
        const Unit unit = info(op.opcode).unit;
        if (lane(unit)) free_at_[static_cast<size_t>(unit)] = cycle_ + static_cast<int>(machine_.vec.ii);
        if (delay_.defined() && op.dst == delay_) delayed_ = cycle_ + result_latency(machine_, op.opcode);
    }
    return cycle_;
}

class Delays {
public:
    explicit Delays(Kernel &kernel) : kernel_(kernel), machine_(*kernel.machine) {}

    // The packets of a scheduled block. Cycles without an operation are not emitted: the hardware waits by itself, except
    // across hard edges, where packets that take a known time are put in between, as operations at the end of the graph. Of a
    // loop whose iterations overlap, those of the iteration before may wait.
    PacketOrder keep_apart(ScheduleGraph &graph, bool overlapping = false);
    std::vector<OpGroup> packets(ScheduleGraph &graph, bool overlapping = false) {
        const PacketOrder order = keep_apart(graph, overlapping);
        return gather(graph.ops, {}, order);
    }

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
    template <typename Next>
    int least_cycles(int total, int from, int to, int distance, const Next &next) const;
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
