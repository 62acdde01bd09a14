#include "codegen/weights_gap.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/resources.h"

namespace atalla::codegen {

namespace {

class Merger {
public:
    Merger(const Kernel &kernel, ScheduleGraph &graph) : kernel_(kernel), graph_(graph) {
        for (size_t i = 0; i < graph.ops.size(); i++)
            if (!is_marker(graph.ops[i])) rows_[graph.cycle[i]].push_back(static_cast<int>(i));
    }

    void run() {
        const std::optional<int> weights = first(Opcode::lw_vi), rows = last(Opcode::gemm_vv);
        if (!weights || !rows || *rows < *weights) return;
        steps_beside_rows(*weights, *rows);
        if (first(Opcode::gemm_vv) > *weights) join(*weights);
    }

private:
    std::optional<int> first(Opcode opcode) const {
        for (const auto &[cycle, ops] : rows_)
            if (has(ops, opcode)) return cycle;
        return std::nullopt;
    }
    std::optional<int> last(Opcode opcode) const {
        std::optional<int> found;
        for (const auto &[cycle, ops] : rows_)
            if (has(ops, opcode)) found = cycle;
        return found;
    }
    bool has(const std::vector<int> &ops, Opcode opcode) const {
        return std::any_of(ops.begin(), ops.end(), [&](int i) { return graph_.ops[i].opcode == opcode; });
    }

    // Does nothing keep operation `i` from running in a packet of this cycle, which is not later than its own?
    bool may_run(int i, int cycle) const {
        if (is_lane_operation(graph_.ops[i].opcode)) return false;  // they keep their pace
        for (int e : graph_.in[i]) {
            const Edge &edge = graph_.edges[e];
            const bool before = edge.distance == 0 && edge.from != i;
            if (before && (edge.hard || graph_.cycle[edge.from] + std::min(edge.latency, 1) > cycle)) return false;
        }
        const auto row = rows_.find(cycle);
        if (row == rows_.end()) return true;
        ResourceTable packet(kernel_, 0);
        for (int other : row->second) {
            if (graph_.ops[other].side) return false;
            packet.take(claim(other), 0);
        }
        return packet.fits(claim(i), 0);
    }
    // What an operation takes of a packet. Vectors that arrive together are written one after the other, for which there is
    // time.
    Claim claim(int i) const {
        Claim claim = ResourceTable(kernel_, 0).claim(graph_.ops[i]);
        claim.written_bank = -1;
        return claim;
    }
    void move(int i, int cycle) {
        std::vector<int> &from = rows_[graph_.cycle[i]];
        std::erase(from, i);
        if (from.empty()) rows_.erase(graph_.cycle[i]);
        rows_[cycle].push_back(i);
        graph_.cycle[i] = cycle;
    }

    bool is_step(int i) const { return info(graph_.ops[i].opcode).unit == Unit::Ex1 && !graph_.ops[i].side; }

    // Scalar steps behind the last row; what they step is read before it. Where one finds no room, what makes it goes to
    // the first packet from the weights on that has some.
    void steps_beside_rows(int weights, int last_row) {
        std::vector<int> steps;
        for (auto row = rows_.upper_bound(last_row); row != rows_.end(); row++)
            for (int i : row->second)
                if (is_step(i)) steps.push_back(i);
        std::erase_if(steps, [&](int i) { return move_to_first(i, packets_for(i, last_row)); });
        // Lanes that have work in the loop set its pace, not its packets.
        if (std::ranges::any_of(graph_.ops, is_lane_operation, &Op::opcode)) return;
        std::set<int> makers;
        for (int i : steps) add_makers(i, makers);
        std::vector<int> in_order(makers.begin(), makers.end());
        std::ranges::stable_sort(in_order, {}, [&](int i) { return graph_.cycle[i]; });
        for (int i : in_order) {
            std::vector<int> cycles = packets_for(i, std::min(last_row, graph_.cycle[i]));
            std::erase_if(cycles, [&](int cycle) { return cycle < std::max(weights, ready(i)); });
            std::ranges::reverse(cycles);
            move_to_first(i, cycles);
        }
        for (int i : steps)
            if (!makers.contains(i)) move_to_first(i, packets_for(i, last_row));
    }
    // The steps that operation `i` reads.
    void add_makers(int i, std::set<int> &makers) const {
        for (int e : graph_.in[i]) {
            const Edge &edge = graph_.edges[e];
            if (edge.distance == 0 && is_step(edge.from) && reads(graph_.ops[i], graph_.ops[edge.from].dst) &&
                makers.insert(edge.from).second)
                add_makers(edge.from, makers);
        }
    }
    // The first cycle in which what operation `i` reads is there.
    int ready(int i) const {
        int cycle = 0;
        for (int e : graph_.in[i])
            if (const Edge &edge = graph_.edges[e]; edge.distance == 0)
                cycle = std::max(cycle, graph_.cycle[edge.from] + edge.latency);
        return cycle;
    }
    // The packets in front of the one of a cycle, the last ones first, as far as what operation `i` depends on lets it. The
    // last packet is the branch's.
    std::vector<int> packets_for(int i, int before) const {
        std::vector<int> cycles;
        for (auto row = rows_.lower_bound(before); row != rows_.begin();) {
            cycles.push_back((--row)->first);
            if (depends_on(i, row->first)) break;
        }
        return cycles;
    }
    // To the first of these packets that has room; false if none has.
    bool move_to_first(int i, const std::vector<int> &cycles) {
        const auto room = std::ranges::find_if(cycles, [&](int cycle) { return may_run(i, cycle); });
        if (room == cycles.end()) return false;
        move(i, *room);
        return true;
    }
    bool depends_on(int i, int cycle) const {
        return std::any_of(graph_.in[i].begin(), graph_.in[i].end(), [&](int e) {
            return graph_.edges[e].from != i && graph_.edges[e].distance == 0 && graph_.cycle[graph_.edges[e].from] >= cycle;
        });
    }

    // Packets in front of the weights: each joins the one before if all of it fits there.
    void join(int weights) {
        std::vector<int> cycles;
        for (const auto &[cycle, ops] : rows_)
            if (cycle < weights) cycles.push_back(cycle);
        for (size_t c = 1, into = 0; c < cycles.size(); c++) {
            const std::vector<int> ops = rows_[cycles[c]];
            size_t joined = 0;
            for (; joined < ops.size() && !graph_.ops[ops[joined]].side && may_run(ops[joined], cycles[into]); joined++)
                move(ops[joined], cycles[into]);
            if (joined == ops.size()) continue;
            for (size_t back = 0; back < joined; back++) move(ops[back], cycles[c]);
            into = c;
        }
    }

    const Kernel &kernel_;
    ScheduleGraph &graph_;
    std::map<int, std::vector<int>> rows_;  // operations by cycle
};

}  // namespace

void merge_between_rows_and_weights(const Kernel &kernel, ScheduleGraph &graph) { Merger(kernel, graph).run(); }

}  // namespace atalla::codegen
