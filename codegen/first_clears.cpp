#include "codegen/first_clears.h"

#include <algorithm>
#include <limits>
#include <map>
#include <ranges>
#include <set>

#include "codegen/dependence.h"
#include "codegen/resources.h"

namespace atalla::codegen {

namespace {

// Operation by operation: is it a clear, or does it empty the mask of clears?
std::vector<bool> first_clears(const Kernel &kernel, const std::vector<Op> &ops) {
    std::map<Reg, size_t> emptied;  // masks
    std::set<Reg> sums;
    for (size_t i = 0; i < ops.size(); i++) {
        const Op &op = ops[i];
        if (op.opcode == Opcode::mv_stm && op.src[0] == zero_scalar) emptied[op.dst] = i;
        if (adds_to_sum(op)) sums.insert(op.dst);
    }
    std::vector<bool> found(ops.size(), false);
    for (size_t i = 0; i < ops.size(); i++) {
        const Op &op = ops[i];
        const auto mask = emptied.find(op.mask);
        if (mask == emptied.end() || !sums.contains(op.dst) || !clears_under_mask(kernel, op)) continue;
        found[i] = found[mask->second] = true;
    }
    return found;
}

class FirstClears {
public:
    FirstClears(const Kernel &kernel, ScheduleGraph &graph, int interval)
        : kernel_(kernel), graph_(graph), interval_(interval), table_(kernel, interval) {
        for (size_t i = 0; i < graph.ops.size(); i++) {
            if (graph.cycle[i] < 0 || is_marker(graph.ops[i])) continue;
            packets_[graph.cycle[i]].push_back(static_cast<int>(i));
            table_.take(graph.ops[i], graph.cycle[i]);
        }
        if (!packets_.empty()) packets_.erase(std::prev(packets_.end()));  // the branch's
    }

    // Those of the first rows first.
    bool place(std::vector<int> clears) {
        std::ranges::stable_sort(clears, {}, [&](int i) { return room(i).second; });
        return std::ranges::all_of(clears, [&](int i) {
            if (place_here(i)) return true;
            // Zero is a product or a difference: on the other unit.
            Op &op = graph_.ops[static_cast<size_t>(i)];
            if (op.src[0] != zero_vector || op.src[1] != zero_vector) return false;
            op.opcode = op.opcode == Opcode::mul_vv ? Opcode::sub_vv : Opcode::mul_vv;
            return place_here(i);
        });
    }

private:
    std::pair<int, int> room(int i) const {
        int first = 0, last = std::numeric_limits<int>::max();
        for (int e : graph_.in[static_cast<size_t>(i)]) {
            const Edge &edge = graph_.edges[static_cast<size_t>(e)];
            if (const int from = graph_.cycle[static_cast<size_t>(edge.from)]; from >= 0)
                first = std::max(first, from + edge.latency - edge.distance * interval_);
        }
        for (int e : graph_.out[static_cast<size_t>(i)]) {
            const Edge &edge = graph_.edges[static_cast<size_t>(e)];
            if (const int to = graph_.cycle[static_cast<size_t>(edge.to)]; to >= 0)
                last = std::min(last, to - edge.latency + edge.distance * interval_);
        }
        return {first, last};
    }
    bool place_here(int i) {
        const Claim claim = table_.claim(graph_.ops[static_cast<size_t>(i)]);
        Claim waits = claim;  // until the bank of its result is free
        waits.written_bank = -1;
        return place(i, claim) || place(i, waits);
    }
    bool place(int i, const Claim &claim) {
        const auto [first, last] = room(i);
        if (first > last) return false;
        for (auto packet = packets_.lower_bound(first); packet != packets_.end() && packet->first <= last; ++packet) {
            if (!fits(i, claim, *packet)) continue;
            packet->second.push_back(i);
            table_.take(claim, packet->first);
            graph_.cycle[static_cast<size_t>(i)] = packet->first;
            return true;
        }
        return false;
    }
    bool fits(int i, const Claim &claim, const std::pair<const int, std::vector<int>> &packet) const {
        const Op &op = graph_.ops[static_cast<size_t>(i)];
        // Two that read one mask would wait for its bank.
        const auto apart = [&](int other) {
            const Op &beside = graph_.ops[static_cast<size_t>(other)];
            return !beside.side && (!op.mask.defined() || beside.mask != op.mask);
        };
        return std::ranges::all_of(packet.second, apart) && table_.fits(claim, packet.first);
    }

    const Kernel &kernel_;
    ScheduleGraph &graph_;
    const int interval_;
    ResourceTable table_;
    std::map<int, std::vector<int>> packets_;  // by cycle
};

}  // namespace

std::vector<Op> without_first_clears(const Kernel &kernel, const std::vector<Op> &ops) {
    const std::vector<bool> left_out = first_clears(kernel, ops);
    std::vector<Op> rest;
    for (size_t i = 0; i < ops.size(); i++)
        if (!left_out[i]) rest.push_back(ops[i]);
    return rest;
}

std::optional<ScheduleGraph> with_first_clears(const Kernel &kernel, const ScheduleGraph &scheduled, const std::vector<Op> &ops,
                                               int loop, int interval) {
    ScheduleGraph graph(kernel, ops, loop);
    const std::vector<bool> left_out = first_clears(kernel, ops);
    std::vector<int> clears, behind;
    for (size_t i = 0, next = 0; i < ops.size(); i++) {
        graph.cycle[i] = left_out[i] ? -1 : scheduled.cycle[next++];
        if (left_out[i]) (ops[i].mask.defined() ? clears : behind).push_back(static_cast<int>(i));
    }
    FirstClears places(kernel, graph, interval);
    if (!places.place(std::move(clears)) || !places.place(std::move(behind))) return std::nullopt;
    return graph;
}

}  // namespace atalla::codegen
