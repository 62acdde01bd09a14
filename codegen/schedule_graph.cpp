#include "codegen/schedule_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace atalla::codegen {

ScheduleGraph::ScheduleGraph(const Kernel &kernel, std::vector<Op> operations, int loop, bool masks_in_turn)
    : ops(std::move(operations)), edges(dependences(kernel, ops, loop, masks_in_turn)) {
    in.resize(ops.size());
    out.resize(ops.size());
    std::vector<int> coming(ops.size(), 0), leaving(ops.size(), 0);
    for (const Edge &edge : edges) {
        coming[edge.to]++;
        leaving[edge.from]++;
    }
    for (size_t i = 0; i < ops.size(); i++) {
        in[i].reserve(coming[i]);
        out[i].reserve(leaving[i]);
    }
    for (size_t e = 0; e < edges.size(); e++) {
        in[edges[e].to].push_back(static_cast<int>(e));
        out[edges[e].from].push_back(static_cast<int>(e));
    }
    // The longest way to the end of the block: through dependences, or through what its lane unit still has to do, or the pad
    // that it stores to, where more is stored than waits in the queues.
    height.assign(ops.size(), 0);
    const int lane_interval = kernel.machine->timed() ? static_cast<int>(kernel.machine->vec.ii) : 1;
    const int store_interval = static_cast<int>(kernel.machine->pad.write_ii);
    const bool stores_wait =
        kernel.machine->timed() && loop < 0 &&
        std::ranges::count(ops, Opcode::vreg_st, &Op::opcode) > kernel.machine->vlsu.store_queue * kernel.machine->pad.count;
    std::map<Unit, int> behind;
    std::map<int32_t, int> behind_in_pad;
    for (size_t i = ops.size(); i-- > 0;) {
        for (int e : out[i])
            if (edges[e].distance == 0 && !is_marker(ops[edges[e].to]))
                height[i] = std::max(height[i], height[edges[e].to] + edges[e].latency);
        constexpr int early = 160;
        if (loop < 0 && ops[i].early && !kernel.takes(Choice::StartInPlace)) height[i] += early;
        if (loop < 0 && is_lane_operation(ops[i].opcode))
            height[i] = std::max(height[i], lane_interval * behind[info(ops[i].opcode).unit]++);
        if (stores_wait && ops[i].opcode == Opcode::vreg_st)
            height[i] = std::max(height[i], store_interval * behind_in_pad[ops[i].pad]++);
    }
    cycle.assign(ops.size(), -1);
    wanted.assign(ops.size(), 0);
}

void ScheduleGraph::drop_added() {
    ops.resize(in.size());
    cycle.assign(ops.size(), -1);
}

void ScheduleGraph::wait_last() {
    const auto is_wait = [](const Op &op) { return op.opcode == Opcode::or_s && op.dst == zero_scalar && op.ahead; };
    if (std::none_of(ops.begin(), ops.end(), is_wait)) return;
    std::vector<bool> behind(ops.size());
    for (size_t i = 0; i < ops.size(); i++) {
        behind[i] = behind[i] || is_wait(ops[i]);
        if (behind[i])
            for (int e : out[i]) behind[edges[e].to] = true;
    }
    for (size_t wait = 0; wait < ops.size(); wait++)
        for (size_t i = 0; is_wait(ops[wait]) && i < ops.size(); i++) {
            if (behind[i]) continue;
            edges.push_back({static_cast<int>(i), static_cast<int>(wait), 0, 0, false});
            out[i].push_back(static_cast<int>(edges.size()) - 1);
            in[wait].push_back(static_cast<int>(edges.size()) - 1);
        }
}

std::vector<bool> ScheduleGraph::needing(size_t op) const {
    std::vector<bool> found(ops.size());
    std::vector<size_t> open = {op};
    found[op] = true;
    while (!open.empty()) {
        const size_t i = open.back();
        open.pop_back();
        for (int e : out[i])
            if (const auto to = static_cast<size_t>(edges[e].to); edges[e].distance == 0 && !found[to]) {
                found[to] = true;
                open.push_back(to);
            }
    }
    return found;
}

void ScheduleGraph::start_transfers_first() {
    const int all = 1 + std::accumulate(height.begin(), height.end(), 0, [](int a, int b) { return std::max(a, b); });
    std::set<int> pads;
    std::set<Reg> stepped;
    std::vector<bool> first(ops.size());
    // Of a pad, and those behind it that a step of its base register leads to.
    for (const Edge &e : edges) {
        const Op &from = ops[e.from], &to = ops[e.to];
        if (info(from.opcode).unit != Unit::Sdma || e.distance != 0 || info(to.opcode).unit == Unit::Sdma ||
            !from.dst.defined() || to.dst != from.dst)
            continue;
        stepped.insert(to.dst);
    }
    for (size_t i = 0; i < ops.size(); i++)
        first[i] = info(ops[i].opcode).unit == Unit::Sdma && (pads.insert(ops[i].pad).second || stepped.count(ops[i].dst));
    int behind = 0;  // of these transfers
    for (size_t i = ops.size(); i-- > 0;) {
        if (first[i]) height[i] += all * ++behind;
        for (int e : out[i])
            if (height[edges[e].to] >= all && edges[e].distance == 0)
                height[i] = std::max(height[i], height[edges[e].to] + std::max(1, edges[e].latency));
    }
}

void ScheduleGraph::start_pads_in_turn() {
    std::vector<size_t> transfers;  // seen so far
    for (size_t i = 0; i < ops.size(); i++) {
        if (info(ops[i].opcode).unit != Unit::Sdma) continue;
        for (size_t step = 0; step < i; step++) {
            if (info(ops[step].opcode).unit == Unit::Sdma || ops[step].dst != ops[i].dst) continue;
            const std::vector<bool> needed = needing(step);
            for (const size_t start : transfers) {
                if (needed[start]) continue;
                edges.push_back({static_cast<int>(start), static_cast<int>(step), 1, 0, false});
                out[start].push_back(static_cast<int>(edges.size()) - 1);
                in[step].push_back(static_cast<int>(edges.size()) - 1);
            }
        }
        transfers.push_back(i);
    }
}

void ScheduleGraph::spread_transfers(const Kernel &kernel) {
    std::vector<size_t> transfers;
    std::set<int> pads;
    for (size_t i = 0; i < ops.size(); i++)
        if (ops[i].opcode == Opcode::scpad_ld && ops[i].ahead) {
            transfers.push_back(i);
            pads.insert(ops[i].pad);
        }
    if (transfers.size() == pads.size() || kernel.takes(Choice::StartTogether)) return;
    const int length = *std::max_element(height.begin(), height.end()), count = static_cast<int>(transfers.size());
    for (int t = 0; t < count; t++) {
        wanted[transfers[t]] = length * t / count;
        for (int e : in[transfers[t]])
            if (const Edge &edge = edges[e]; ops[edge.from].dst == ops[transfers[t]].dst)
                wanted[edge.from] = wanted[transfers[t]];
    }
}

std::vector<int> in_order_of_cycles(const std::vector<int> &cycles) {
    // A block has about as many cycles as operations: counted, not compared.
    const auto [least, most] = std::ranges::minmax_element(cycles);
    if (cycles.empty()) return {};
    const int begin = *least;
    std::vector<int> next(static_cast<size_t>(*most - begin) + 2, 0);
    for (const int cycle : cycles) next[static_cast<size_t>(cycle - begin) + 1]++;
    std::partial_sum(next.begin(), next.end(), next.begin());
    std::vector<int> order(cycles.size());
    for (size_t i = 0; i < cycles.size(); i++)
        order[static_cast<size_t>(next[static_cast<size_t>(cycles[i] - begin)]++)] = static_cast<int>(i);
    return order;
}

PacketOrder::PacketOrder(const ScheduleGraph &graph) : packet_of_(graph.ops.size(), 0) {
    ops_.reserve(graph.ops.size());
    int current = -1;
    for (const int i : in_order_of_cycles(graph.cycle)) {
        const auto packets = static_cast<int>(first_.size());
        if (is_marker(graph.ops[static_cast<size_t>(i)])) {
            packet_of_[static_cast<size_t>(i)] = packets;
            continue;
        }
        if (const int cycle = graph.cycle[static_cast<size_t>(i)]; cycle != current) {
            first_.push_back(static_cast<int>(ops_.size()));
            current = cycle;
        }
        ops_.push_back(i);
        packet_of_[static_cast<size_t>(i)] = static_cast<int>(first_.size()) - 1;
    }
    first_.push_back(static_cast<int>(ops_.size()));
}

std::vector<OpGroup> gather(std::span<const Op> ops, std::span<const Op> added, const PacketOrder &order) {
    std::vector<OpGroup> packets(order.size());
    for (size_t p = 0; p < packets.size(); p++) {
        packets[p].reserve(order.packet(p).size());
        for (const int index : order.packet(p)) {
            const auto i = static_cast<size_t>(index);
            packets[p].push_back(i < ops.size() ? ops[i] : added[i - ops.size()]);
        }
    }
    return packets;
}

std::vector<OpGroup> gather(const ScheduleGraph &graph) { return gather(graph.ops, {}, PacketOrder(graph)); }

}  // namespace atalla::codegen
