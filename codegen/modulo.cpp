#include "codegen/modulo.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/resources.h"

namespace atalla::codegen {

namespace {

class ModuloScheduler {
public:
    explicit ModuloScheduler(const Kernel &kernel) : kernel_(kernel), machine_(*kernel.machine) {}

    std::optional<ModuloSchedule> run(ScheduleGraph &graph) {
        const std::vector<bool> deferrable = find_deferrable(graph.ops);
        const int least = resource_bound(kernel_, graph.ops), most = least + std::max(64, least);
        for (int interval = least; interval <= most; interval += 1 + (interval - least) / 8) {
            if (!fits(graph, deferrable, interval)) continue;
            ModuloSchedule schedule{interval, {}};
            for (size_t i = 0; i < graph.ops.size(); i++) {
                if (graph.cycle[i] < interval) continue;
                schedule.deferred.push_back({graph.ops[i], graph.cycle[i]});
                graph.cycle[i] -= interval;
            }
            std::stable_sort(schedule.deferred.begin(), schedule.deferred.end(), [](const auto &a, const auto &b) { return a.cycle < b.cycle; });
            if (full_unit(graph, interval) != Unit::None) merge_packets(graph, interval);
            return schedule;
        }
        return std::nullopt;
    }

private:
    static std::vector<bool> find_deferrable(const std::vector<Op> &ops) {
        std::map<int, int> mentions;
        for (const Op &op : ops) {
            for (Reg r : reads_of(op)) mentions[r.id]++;
            if (op.dst.defined()) mentions[op.dst.id]++;
        }
        std::vector<bool> result(ops.size(), false);
        for (size_t i = 0; i < ops.size(); i++) {
            const Op &op = ops[i];
            if (op.opcode != Opcode::add_vv || op.mask.defined()) continue;
            const int side = op.src[0] == op.dst ? 0 : op.src[1] == op.dst ? 1 : -1;
            if (side < 0 || op.src[1 - side] == op.dst) continue;
            result[i] = mentions[op.dst.id] == 2 && mentions[op.src[1 - side].id] == 2;
        }
        return result;
    }

    bool fits(ScheduleGraph &graph, const std::vector<bool> &deferrable, int interval) {
        const size_t n = graph.ops.size();
        std::fill(graph.cycle.begin(), graph.cycle.end(), -1);
        ResourceTable table(kernel_, interval);
        table.reserve_loop_end();
        // A unit that has no cycle to spare gets its cycles first.
        if (const Unit unit = full_unit(graph, interval); unit != Unit::None) table.reserve_unit(unit, 0);
        std::vector<int> order(n);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return graph.height[a] > graph.height[b]; });
        for (int i : order) {
            const bool may_defer = deferrable[i];
            int first = 0, last = (may_defer ? 2 * interval : interval) - 1;
            for (int e : graph.in[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.from != i && graph.cycle[edge.from] >= 0) first = std::max(first, graph.cycle[edge.from] + spaced(edge) - edge.distance * interval);
                if (edge.from == i && edge.latency > edge.distance * interval) return false;
            }
            for (int e : graph.out[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.to != i && graph.cycle[edge.to] >= 0) last = std::min(last, graph.cycle[edge.to] - spaced(edge) + edge.distance * interval);
            }
            last = std::min(last, first + interval - 1);
            int cycle = first;
            if (!is_marker(graph.ops[i])) {
                while (cycle <= last && !table.fits(graph.ops[i], cycle)) cycle++;
                if (cycle > last) return false;
                table.take(graph.ops[i], cycle);
            } else if (cycle > last) {
                return false;
            }
            graph.cycle[i] = cycle;
        }
        shorten_lifetimes(graph, table, order, interval);
        return enough_masks(graph, interval);
    }

    // Are at most as many masks under way at a time as there are registers?
    bool enough_masks(const ScheduleGraph &graph, int interval) const {
        std::map<int32_t, std::pair<int, int>> lives;   // first and last cycle
        const auto touch = [&](Reg r, int cycle) {
            if (!r.defined() || r.id <= all_lanes.id || kernel_.cls(r) != RegisterClass::Mask) return;
            const auto [it, inserted] = lives.try_emplace(r.id, cycle, cycle);
            it->second = {std::min(it->second.first, cycle), std::max(it->second.second, cycle)};
        };
        std::map<int32_t, bool> made;
        for (size_t i = 0; i < graph.ops.size(); i++) {
            touch(graph.ops[i].dst, graph.cycle[i]);
            if (graph.ops[i].dst.defined()) made[graph.ops[i].dst.id] = true;
            for (Reg r : reads_of(graph.ops[i])) touch(r, graph.cycle[i]);
        }
        std::vector<int> live(interval, 0);
        int throughout = 0;
        for (const auto &[r, life] : lives) {
            if (!made.count(r)) throughout++;
            else
                for (int cycle = life.first; cycle < life.second; cycle++) live[cycle % interval]++;
        }
        return throughout + *std::max_element(live.begin(), live.end()) <= static_cast<int>(machine_.regs.mask) - 1;
    }

    // The lane unit that the loop keeps busy in every cycle, if one does.
    Unit full_unit(const ScheduleGraph &graph, int interval) const {
        if (!machine_.timed()) return Unit::None;
        std::map<Unit, int> lanes;
        for (const Op &op : graph.ops)
            if (is_lane_operation(op.opcode)) lanes[info(op.opcode).unit]++;
        for (auto [unit, count] : lanes)
            if (unit != Unit::Reduce && count * static_cast<int>(machine_.vec.ii) == interval) return unit;
        return Unit::None;
    }

    // Where a lane unit sets the pace, the packets between two of its operations can be one: the hardware waits for the unit
    // anyway, and the instruction cache holds a longer loop.
    void merge_packets(ScheduleGraph &graph, int interval) {
        const int window = static_cast<int>(machine_.vec.ii);
        std::vector<std::vector<int>> rows(interval);
        for (size_t i = 0; i < graph.ops.size(); i++)
            if (!is_marker(graph.ops[i])) rows[graph.cycle[i]].push_back(static_cast<int>(i));
        for (int first = 0; first < interval; first += window) {
            int into = first;
            for (int row = first + 1; row < std::min(first + window, interval); row++) {
                if (rows[row].empty()) continue;
                std::vector<int> both = rows[into];
                both.insert(both.end(), rows[row].begin(), rows[row].end());
                if (rows[into].empty() || !one_packet(graph, both)) {
                    into = row;
                    continue;
                }
                for (int i : rows[into]) graph.cycle[i] = row;
                rows[into].clear();
                rows[row] = std::move(both);
                into = row;
            }
        }
    }

    // Can these operations issue together? None may touch a register that another one writes.
    bool one_packet(const ScheduleGraph &graph, const std::vector<int> &ops) const {
        ResourceTable packet(kernel_, 0);
        for (int i : ops) {
            if (graph.ops[i].side || !packet.fits(graph.ops[i], 0)) return false;
            packet.take(graph.ops[i], 0);
        }
        for (int i : ops)
            for (int j : ops) {
                const Reg made = graph.ops[i].dst;
                if (i == j || !made.defined() || made.id <= all_lanes.id) continue;
                const std::vector<Reg> reads = reads_of(graph.ops[j]);
                if (graph.ops[j].dst == made || std::find(reads.begin(), reads.end(), made) != reads.end()) return false;
            }
        return true;
    }

    // Cycles without an operation are dropped, so what must keep its distance is planned a little further apart.
    static int spaced(const Edge &edge) {
        constexpr int margin = 8;
        return edge.latency + (edge.hard ? margin : 0);
    }

    // From the last operation to the first, each that makes a value moves as late as its readers allow: values wait in
    // fewer registers.
    void shorten_lifetimes(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &order, int interval) {
        constexpr int load_margin = 4;   // a load may find its pad busy
        for (size_t o = order.size(); o-- > 0;) {
            const int i = order[o];
            const Op &op = graph.ops[i];
            // Scalar steps too: one that touches a transfer's register would wait for the transfer.
            const Unit unit = info(op.opcode).unit;
            if (op.opcode != Opcode::gemm_vv && op.opcode != Opcode::vreg_ld && (unit != Unit::Ex1 || op.side)) continue;
            int last = interval - 1;
            for (int e : graph.out[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.to != i) last = std::min(last, graph.cycle[edge.to] - spaced(edge) + edge.distance * interval - (op.opcode == Opcode::vreg_ld ? load_margin : 0));
            }
            const int now = graph.cycle[i];
            if (last <= now) continue;
            table.release(op, now);
            int cycle = last;
            while (cycle > now && !table.fits(op, cycle)) cycle--;
            table.take(op, cycle);
            graph.cycle[i] = cycle;
        }
    }

    const Kernel &kernel_;
    const Machine &machine_;
};

}  // namespace

std::optional<ModuloSchedule> modulo_schedule(const Kernel &kernel, ScheduleGraph &graph) { return ModuloScheduler(kernel).run(graph); }

}  // namespace atalla::codegen
