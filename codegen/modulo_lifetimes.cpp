// How many registers the values of a modulo schedule take, and operations that move so that they take fewer.
#include <algorithm>

#include "codegen/modulo_scheduler.h"

namespace atalla::codegen {

bool ModuloScheduler::registers_suffice(const ScheduleGraph &graph, int interval) const {
    // Of the vectors some are left for what lives around the loop.
    const int64_t vectors = overlapping_ ? machine_.regs.vector * 3 / 4 : machine_.regs.vector;
    return most_live(graph, interval, RegisterClass::Mask) <= machine_.regs.mask - 1 &&
           most_live(graph, interval, RegisterClass::Vector) <= vectors - 1;
}

int64_t ModuloScheduler::most_live(const ScheduleGraph &graph, int interval, RegisterClass cls) const {
    std::map<int32_t, std::pair<int, int>> lives;  // first and last cycle
    const auto touch = [&](Reg r, int cycle) {
        if (!r.defined() || r.id <= all_lanes.id || kernel_.cls(r) != cls) return;
        const auto [it, inserted] = lives.try_emplace(r.id, cycle, cycle);
        it->second = {std::min(it->second.first, cycle), std::max(it->second.second, cycle)};
    };
    std::map<int32_t, bool> made;
    for (size_t i = 0; i < graph.ops.size(); i++) {
        touch(graph.ops[i].dst, graph.cycle[i]);
        if (graph.ops[i].dst.defined()) made[graph.ops[i].dst.id] = true;
        for_each_read(graph.ops[i], [&](Reg r) { touch(r, graph.cycle[i]); });
    }
    std::vector<int> live(interval, 0);
    // A register is free behind the packet that reads it last, which of the few masks may be one too late.
    const int last_packet = cls == RegisterClass::Mask ? 1 : 0;
    // One that other blocks share, or that lives from an iteration into the next, has its register all the time.
    int throughout = cls == RegisterClass::Mask ? static_cast<int>(shared_masks_.size()) : 0;
    for (const auto &[r, life] : lives) {
        if (cls == RegisterClass::Mask && shared_masks_.count(Reg{r})) continue;
        if (!made.count(r) || life.first / interval != life.second / interval)
            throughout++;
        else
            for (int cycle = life.first; cycle < life.second + last_packet; cycle++) live[cycle % interval]++;
    }
    return throughout + *std::max_element(live.begin(), live.end());
}

void ModuloScheduler::shorten_lifetimes(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &order,
                                        const std::vector<int> &window, int interval) {
    constexpr int load_margin = 4;  // beside that of all loads
    for (size_t o = order.size(); o-- > 0;) {
        const int i = order[o];
        const Op &op = graph.ops[i];
        // Scalar steps too: one that touches a transfer's register would wait for the transfer. And weights, which then load
        // back to back: what they wait for, their vectors and the time behind the last row, runs at once. And sums that run an
        // iteration late anyway, where the adder has time: of the cycles before them some have no packet.
        const Unit unit = info(op.opcode).unit;
        const bool later_sum =
            window[i] > 1 && !overlapping_ && graph.cycle[i] >= interval && full_unit(graph, interval) == Unit::None;
        const bool moves = op.opcode == Opcode::gemm_vv || op.opcode == Opcode::lw_vi || op.opcode == Opcode::vreg_ld ||
                           (unit == Unit::Ex1 && !op.side) || later_sum;
        if (moves) move_late(graph, table, i, window[i], interval, op.opcode == Opcode::vreg_ld ? load_margin : 0);
    }
}

void ModuloScheduler::move_late(ScheduleGraph &graph, ResourceTable &table, int i, int window, int interval, int margin) {
    int last = window * interval - 1;
    for (int e : graph.out[i]) {
        const Edge &edge = graph.edges[e];
        if (edge.to != i) last = std::min(last, graph.cycle[edge.to] - spaced(graph, edge) + edge.distance * interval - margin);
    }
    const int now = graph.cycle[i];
    if (last <= now) return;
    const Claim &claim = claims_[i];
    table.release(claim, now);
    int cycle = last;
    while (cycle > now && !table.fits(claim, cycle)) cycle--;
    table.take(claim, cycle);
    graph.cycle[i] = cycle;
}

void ModuloScheduler::make_masks_late(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &order,
                                      const std::vector<int> &window, int interval) {
    for (size_t o = order.size(); o-- > 0;)
        if (kernel_.is_mask(graph.ops[order[o]].dst)) move_late(graph, table, order[o], window[order[o]], interval, 0);
}

}  // namespace atalla::codegen
