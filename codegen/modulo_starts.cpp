// Where in an iteration transfers start.
#include <algorithm>
#include <map>
#include <set>

#include "codegen/modulo_scheduler.h"

namespace atalla::codegen {

namespace {

// The transfers that every iteration starts beside what it computes.
std::vector<int> transfers_of(const ScheduleGraph &graph) {
    std::vector<int> transfers;
    if (std::none_of(graph.ops.begin(), graph.ops.end(), [](const Op &op) { return op.access.has_value(); })) return transfers;
    for (size_t i = 0; i < graph.ops.size(); i++)
        if (info(graph.ops[i].opcode).unit == Unit::Sdma) transfers.push_back(static_cast<int>(i));
    return transfers;
}

// Does code out of line start several transfers of a pad, one after the other?
bool follow_in_pads(const ScheduleGraph &graph) {
    std::map<int, int> sides;  // by pad
    for (const Op &op : graph.ops) {
        if (!op.side) continue;
        std::set<int> pads;
        for (const Op &inner : *op.side)
            if (inner.opcode == Opcode::scpad_ld) pads.insert(inner.pad);
        for (int pad : pads) sides[pad]++;
    }
    return std::ranges::any_of(sides, [](const auto &pad) { return pad.second > 1; });
}

}  // namespace

bool ModuloScheduler::starts_transfers(const ScheduleGraph &graph) { return transfers_of(graph).size() > 1; }

std::vector<int> ModuloScheduler::spread_sides(const ScheduleGraph &graph, int interval) const {
    // A branch reaches 102 packets. A loop that a lane unit paces has fewer packets than cycles: merge_packets.
    const int cycles_in_reach = full_unit(graph, interval) == Unit::None ? 90 : 104;
    std::vector<int> wanted(graph.ops.size(), 0);
    const auto sides = std::count_if(graph.ops.begin(), graph.ops.end(), [](const Op &op) { return op.side != nullptr; });
    // In a nest the code that leads there would push other code out of the instruction cache.
    const bool in_nest =
        std::ranges::any_of(kernel_.loops, [this](const LoopInfo &loop) { return loop.index == index_ && loop.parent >= 0; });
    const bool anywhere =
        !in_nest && follow_in_pads(graph) && interval > 2 * cycles_in_reach && !kernel_.takes(Choice::SidesNear);
    const int range = anywhere ? interval : std::min(interval, cycles_in_reach);
    int at = 0;
    for (size_t i = 0; i < graph.ops.size(); i++)
        if (graph.ops[i].side) wanted[i] = (2 * interval - turn_ - range + range * at++ / static_cast<int>(sides)) % interval;
    return wanted;
}

void ModuloScheduler::spread_transfers(const ScheduleGraph &graph, int interval) {
    const std::vector<int> transfers = transfers_of(graph);
    const auto count = static_cast<int>(transfers.size());
    for (int t = 0; t < count; t++) {
        const int cycle = (interval - turn_) * t / count;
        wanted_[transfers[t]] = cycle;
        for (int e : graph.in[transfers[t]])
            if (const Edge &edge = graph.edges[e];
                edge.distance == 0 && graph.ops[edge.from].dst == graph.ops[transfers[t]].dst)
                wanted_[edge.from] = cycle;
    }
}

}  // namespace atalla::codegen
