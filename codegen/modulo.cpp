#include "codegen/modulo.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "codegen/chains.h"
#include "codegen/resources.h"

namespace atalla::codegen {

namespace {

// Longer iterations take too long to schedule.
constexpr int64_t most_values = 320;
// Places tried for the first of rows that follow each other evenly.
constexpr int most_starts = 4;

class ModuloScheduler {
public:
    ModuloScheduler(const Kernel &kernel, const std::set<Reg> &shared_masks, OverlapIterations overlap)
        : kernel_(kernel), machine_(*kernel.machine), shared_masks_(shared_masks), masks_may_overlap_(overlap != OverlapIterations::WithoutMasks),
          most_values_(overlap == OverlapIterations::Long ? most_values : machine_.regs.vector / 2) {}

    std::optional<ModuloSchedule> run(ScheduleGraph &graph, const LoopInfo &loop, const RunsLater &runs_later) {
        index_ = loop.index;
        claims_ = ResourceTable(kernel_, 0).claims(graph.ops);
        const int least = resource_bound(kernel_, graph.ops), most = least + std::max(64, least);
        std::optional<ModuloSchedule> result;
        std::vector<int> window(graph.ops.size(), 1);
        const std::vector<bool> deferrable = find_deferrable(graph.ops);
        for (size_t i = 0; i < window.size(); i++) window[i] += deferrable[i];
        ScheduleGraph one_stage = graph;
        if (const int interval = least_interval(one_stage, window, least, most, false); interval > 0) {
            if (loop.sure() > 1 && can_turn(one_stage, loop)) {
                result = turned_schedule(graph, one_stage, window, interval);
                if (result && runs_later(result->epilogue)) return result;
            }
            result = deferring_schedule(one_stage, interval);
        }

        const std::vector<int> stages = stages_allowed(graph, loop);
        const int allowed = stages.empty() ? 1 : *std::max_element(stages.begin(), stages.end());
        // Worth its code where the whole loop gets shorter, the iterations that fill and drain it included: of a loop of a few iterations
        // fewer stages may take less than the shortest interval.
        constexpr int64_t few_iterations = 16;
        const int64_t iterations = (loop.sure() + loop.extent) / 2;
        int64_t least_cycles = (result ? result->interval : 2 * most) * iterations;
        int best_interval = 0;
        ScheduleGraph best = graph;
        for (int most_here = iterations <= few_iterations ? std::min(2, allowed) : allowed; most_here <= allowed; most_here++) {
            std::vector<int> here = stages;
            for (int &stage : here) stage = std::min(stage, most_here);
            if (most_here < 2) continue;
            const int gain_below = static_cast<int>(least_cycles / (iterations + most_here - 1));
            ScheduleGraph overlapped = graph;
            const int interval = least_interval(overlapped, here, least, std::min(most, gain_below - 1), true);
            if (interval == 0) continue;
            best_interval = interval;
            best = std::move(overlapped);
            least_cycles = interval * (iterations + most_here - 1);
        }
        if (best_interval > 0) {
            graph = std::move(best);
            return overlapping_schedule(graph, best_interval);
        }
        if (result) graph = std::move(one_stage);
        return result;
    }

    std::optional<ModuloSchedule> run_evenly(Kernel &kernel, ScheduleGraph &graph, const LoopInfo &loop) {
        index_ = loop.index;
        claims_ = ResourceTable(kernel_, 0).claims(graph.ops);
        const std::vector<int> stages = stages_allowed(graph, loop);
        order_operations(graph, true);
        if (stages.empty() || chains_.alike.empty()) return std::nullopt;
        const int least = resource_bound(kernel_, graph.ops), allowed = *std::max_element(stages.begin(), stages.end());
        int best_interval = 0;
        ScheduleGraph best = graph;
        for (int most_here = 2; most_here <= allowed; most_here++) {
            std::vector<int> here = stages;
            for (int &stage : here) stage = std::min(stage, most_here);
            ScheduleGraph even = graph;
            const int most = best_interval == 0 ? least + least / 2 : static_cast<int>(best_interval * (loop.extent + most_here - 2) / (loop.extent + most_here - 1)) - 1;
            const int interval = evenly_spaced_interval(even, here, least, most);
            if (interval == 0) continue;
            best_interval = interval;
            best = std::move(even);
        }
        if (best_interval == 0) return std::nullopt;
        graph = std::move(best);
        assign_row_banks(kernel, graph, chains_, best_interval / static_cast<int>(chains_.alike.size()));
        return overlapping_schedule(graph, best_interval);
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

    // The shortest interval found, with the graph's cycles for it; 0 if none fits. `window`: stages that an operation may be in.
    int least_interval(ScheduleGraph &graph, const std::vector<int> &window, int least, int most, bool overlapping) {
        order_operations(graph, overlapping);
        // A visit of the array that a lane unit paces takes fewer packets than cycles if it can: the nest should fit the instruction cache.
        const bool visit = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op &op) { return op.opcode == Opcode::lw_vi; });
        if (visit && full_unit(graph, least) != Unit::None)
            for (packed_ = 1; packed_ <= 4; packed_++)
                if (fits(graph, window, least, packed_)) return least;
        packed_ = 0;
        for (int interval = least; interval <= most; interval += 1 + (interval - least) / 8)
            if (fits(graph, window, interval, packed_)) return interval;
        return 0;
    }

    // Rows that are alike and follow each other at one distance: each operation finds its place once for all of them.
    int evenly_spaced_interval(ScheduleGraph &graph, const std::vector<int> &window, int least, int most) {
        const int rows = static_cast<int>(chains_.alike.size());
        for (int distance = (least + rows - 1) / rows; distance * rows <= most; distance += 1 + (distance * rows - least) / (4 * rows))
            for (int start = 0; start < std::min(distance, most_starts); start++)
                if (fits_evenly(graph, window, distance, start)) return distance * rows;
        return 0;
    }

    bool fits_evenly(ScheduleGraph &graph, const std::vector<int> &window, int distance, int start) {
        const int rows = static_cast<int>(chains_.alike.size()), interval = distance * rows;
        std::fill(graph.cycle.begin(), graph.cycle.end(), -1);
        ResourceTable table = empty_table(graph, interval, 0);
        first_of_.clear();
        std::map<int, size_t> position;
        for (size_t i = 0; i < chains_.alike[0].size(); i++) position[chains_.alike[0][i]] = i;
        // Lanes and scalars first, whose units have little to spare; loads go where these leave room, and stores behind them.
        const auto part_of = [&](int i) { return graph.ops[i].opcode == Opcode::vreg_ld ? 1 : graph.ops[i].opcode == Opcode::vreg_st ? 2 : 0; };
        for (int part = 0; part < 3; part++)
            for (int i : chains_.in_turn[0])
                if (part_of(i) == part && !place_evenly(graph, table, position.at(i), window[i], distance, start)) return false;
        if (chains_.in_turn.size() > chains_.alike.size() && !place(graph, table, chains_.in_turn.back(), window, interval, 0)) return false;
        const bool kept = std::all_of(graph.edges.begin(), graph.edges.end(), [&](const Edge &edge) {
            return graph.cycle[edge.to] + edge.distance * interval >= graph.cycle[edge.from] + (edge.from == edge.to ? edge.latency : spaced(graph, edge));
        });
        return kept && registers_suffice(graph, interval);
    }

    // The operations at one position of all rows.
    bool place_evenly(ScheduleGraph &graph, ResourceTable &table, size_t position, int window, int distance, int start) {
        constexpr int loads_early = 16;   // cycles that loads may be earlier than they must
        const int rows = static_cast<int>(chains_.alike.size()), interval = distance * rows, i = chains_.alike[0][position];
        const bool load = graph.ops[i].opcode == Opcode::vreg_ld;
        std::vector<Claim> claims;
        for (const std::vector<int> &row : chains_.alike) claims.push_back(claims_[row[position]]);
        const int early = loads_early + result_latency(machine_, Opcode::vreg_ld);
        auto [first, last] = room(graph, i, window, interval, load ? graph.height[i] - longest_ : start + early);
        last = std::min(last, window * interval - 1 - (rows - 1) * distance);
        // A unit with little to spare has its operations side by side.
        const int busy = claims[0].busy;
        const bool tight = is_lane_operation(graph.ops[i].opcode) && distance < busy * (2 + operations_of(graph, claims[0].unit) / rows);
        const auto phase = first_of_.find(claims[0].unit);
        const std::vector<int> beside = readers_beside(graph, i);
        const auto alone = [&](int cycle) { return std::none_of(beside.begin(), beside.end(), [&](int other) { return (cycle - graph.cycle[other]) % distance == 0; }); };
        const auto fits = [&](int cycle) {
            if (busy > distance) return false;
            if (tight && phase != first_of_.end())
                if (const int behind = (cycle - phase->second % distance + distance) % distance; behind % busy != 0 || behind + busy > distance) return false;
            for (int row = 0; row < rows; row++)
                if (!table.fits(claims[row], cycle + row * distance)) return false;
            return true;
        };
        const int step = load ? -1 : 1;
        if (load) first = std::max(first, last - 2 * distance);
        else last = std::min(last, first + distance - 1);
        for (const bool without_conflict : {true, false})
            for (int cycle = load ? last : first; cycle >= first && cycle <= last; cycle += step) {
                if ((without_conflict && !alone(cycle)) || !fits(cycle)) continue;
                first_of_.try_emplace(claims[0].unit, cycle);
                for (int row = 0; row < rows; row++) {
                    table.take(claims[row], cycle + row * distance);
                    graph.cycle[chains_.alike[row][position]] = cycle + row * distance;
                }
                return true;
            }
        return false;
    }

    // The operations with a place that read a vector of operation `i`: in a packet with one of them it would meet another row's vector in
    // the same bank.
    std::vector<int> readers_beside(const ScheduleGraph &graph, int i) const {
        std::vector<int> readers;
        if (!machine_.regs.vector_conflict) return readers;
        const std::vector<Reg> mine = reads_of(graph.ops[i]);
        for (int other : chains_.alike[0]) {
            if (graph.cycle[other] < 0) continue;
            const std::vector<Reg> theirs = reads_of(graph.ops[other]);
            if (std::any_of(mine.begin(), mine.end(), [&](Reg r) { return r.id > all_lanes.id && kernel_.cls(r) == RegisterClass::Vector && std::find(theirs.begin(), theirs.end(), r) != theirs.end(); }))
                readers.push_back(other);
        }
        return readers;
    }

    static int operations_of(const ScheduleGraph &graph, Unit unit) {
        return static_cast<int>(std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op &op) { return info(op.opcode).unit == unit; }));
    }

    ModuloSchedule deferring_schedule(ScheduleGraph &graph, int interval) {
        ModuloSchedule schedule;
        schedule.interval = interval;
        for (size_t i = 0; i < graph.ops.size(); i++) {
            if (graph.cycle[i] < interval) continue;
            schedule.deferred.push_back({graph.ops[i], graph.cycle[i]});
            graph.cycle[i] -= interval;
        }
        std::stable_sort(schedule.deferred.begin(), schedule.deferred.end(), [](const auto &a, const auto &b) { return a.cycle < b.cycle; });
        if (full_unit(graph, interval) != Unit::None) merge_packets(graph, interval);
        return schedule;
    }

    // A loop that defers sums leaves the adder without work while the array makes the first rows of the next turn of the nest. With
    // the boundary between its iterations turned to where the sums of one begin, its last rows and all their sums run then.
    bool can_turn(const ScheduleGraph &graph, const LoopInfo &loop) const {
        bool weights = false;
        for (const Op &op : graph.ops) {
            const std::vector<Reg> reads = reads_of(op);
            if (std::find(reads.begin(), reads.end(), loop.index) != reads.end()) return false;
            weights = weights || op.opcode == Opcode::lw_vi;
        }
        return weights && machine_.timed();
    }

    // By how many cycles the boundary moves: to just before the first sum, a little earlier where that leaves the branch room.
    int turn_of(const ScheduleGraph &graph, int interval) const {
        int last = 0;
        for (size_t i = 0; i < graph.ops.size(); i++)
            if (!graph.ops[i].side) last = std::max(last, graph.cycle[i]);
        const int ii = static_cast<int>(machine_.vec.ii), most = (2 * interval - 1 - last) / ii * ii;
        if (last < interval || most <= 0) return 0;
        std::vector<int> issued(interval, 0);
        for (size_t i = 0; i < graph.ops.size(); i++)
            if (!is_marker(graph.ops[i])) issued[graph.cycle[i] % interval]++;
        const auto at_end = [&](int turn) {
            int count = 0;
            for (int c = 1; c <= ii; c++) count += issued[(2 * interval - turn - c) % interval];
            return count;
        };
        constexpr int choices = 4;
        int turn = most;
        for (int t = most; t > 0 && t > most - choices * ii; t -= ii)
            if (at_end(t) < at_end(turn)) turn = t;
        return turn;
    }

    // `graph` gets the cycles of the turned loop, `found` has those of the other one.
    std::optional<ModuloSchedule> turned_schedule(ScheduleGraph &graph, const ScheduleGraph &found, const std::vector<int> &window, int interval) {
        ScheduleGraph turned = found;
        turn_ = turn_of(turned, interval);
        // Once more with branches out of line where they should be then.
        const bool again = turn_ > 0 && fits(turned, window, interval, packed_);
        const int turn = turn_;
        turn_ = 0;
        if (!again || turn_of(turned, interval) < turn) return std::nullopt;
        for (size_t i = 0; i < turned.ops.size(); i++) turned.cycle[i] = turned.ops[i].side ? (turned.cycle[i] + turn) % interval : turned.cycle[i] + turn;
        ModuloSchedule schedule = overlapping_schedule(turned, interval);
        schedule.later = true;
        graph = std::move(turned);
        return schedule;
    }

    // Stages that each operation may be in; empty if the loop must not overlap its iterations: its index would not be that of
    // all of them, rows must move in plain steps, and values of several iterations must not
    // fill the registers.
    std::vector<int> stages_allowed(const ScheduleGraph &graph, const LoopInfo &loop) const {
        std::set<Reg> vectors;
        for (const Op &op : graph.ops) {
            if (op.dst.defined() && kernel_.cls(op.dst) == RegisterClass::Vector) vectors.insert(op.dst);
            if (kernel_.is_mask(op.dst) && !masks_may_overlap_) return {};
            if (!op.access) continue;
            for (const auto &[atom, coefficient] : op.access->row.terms)
                if (!kernel_.atoms[atom].is_loop && kernel_.loops[kernel_.atoms[atom].loop].index == loop.index) return {};
        }
        if (static_cast<int64_t>(vectors.size()) > most_values_) return {};
        const bool sides = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op &op) { return op.side != nullptr; });
        const auto has = [&](Opcode opcode) { return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op &op) { return op.opcode == opcode; }); };
        const int64_t most = std::min<int64_t>(sides ? most_stages_with_sides(loop.sure(), has(Opcode::gemm_vv), has(Opcode::lw_vi)) : most_stages, loop.sure());
        std::vector<int> stages(graph.ops.size(), static_cast<int>(most));
        for (size_t i = 0; i < graph.ops.size(); i++) {
            const Op &op = graph.ops[i];
            const std::vector<Reg> reads = reads_of(op);
            if (std::find(reads.begin(), reads.end(), loop.index) != reads.end()) return {};
            if (op.side) stages[i] = 1;
        }
        return stages;
    }

    // Rows that an access moves by in an iteration of the loop.
    int64_t rows_per_iteration(const PadAccess &access) const {
        int64_t rows = 0;
        for (auto [atom, coefficient] : access.row.terms)
            if (kernel_.atoms[atom].is_loop && kernel_.loops[kernel_.atoms[atom].loop].index == index_) rows += coefficient;
        return rows;
    }

    ModuloSchedule overlapping_schedule(ScheduleGraph &graph, int interval) {
        ModuloSchedule schedule;
        schedule.interval = interval;
        std::vector<int> stage(graph.ops.size());
        for (size_t i = 0; i < graph.ops.size(); i++) {
            stage[i] = graph.cycle[i] / interval;
            schedule.stages = std::max(schedule.stages, stage[i] + 1);
        }
        const int under_way = schedule.stages - 1;
        for (int iteration = 0; iteration < under_way; iteration++)
            for (size_t i = 0; i < graph.ops.size(); i++) {
                if (graph.ops[i].side) continue;
                Op op = graph.ops[i];
                if (op.access) op.access->row.constant += iteration * rows_per_iteration(*op.access);   // for dependences between them
                (iteration + stage[i] < under_way ? schedule.prologue : schedule.epilogue).push_back(std::move(op));
            }
        for (size_t i = 0; i < graph.ops.size(); i++) graph.cycle[i] -= stage[i] * interval;
        for (Edge &edge : graph.edges) edge.distance += stage[edge.to] - stage[edge.from];
        // Rows at one distance have their units in turn, which a merge would disturb.
        if (chains_.alike.empty() && full_unit(graph, interval) != Unit::None) merge_packets(graph, interval);
        schedule.stage = std::move(stage);
        return schedule;
    }

    bool fits(ScheduleGraph &graph, const std::vector<int> &window, int interval, int packed) {
        std::fill(graph.cycle.begin(), graph.cycle.end(), -1);
        ResourceTable table = empty_table(graph, interval, packed);
        for (const std::vector<int> &chain : chains_.in_turn) {
            // Later starts of a long chain, which fills most of the interval anyway, are all much the same.
            constexpr size_t steps_of_one = 24;
            int start = 0;
            while (!place(graph, table, chain, window, interval, start)) {
                start += 1 + static_cast<int>(chain.size() / steps_of_one);
                if (!overlapping_ || start >= interval) return false;
            }
            shorten_lifetimes(graph, table, chain, window, interval);
        }
        return registers_suffice(graph, interval);
    }

    ResourceTable empty_table(const ScheduleGraph &graph, int interval, int packed) {
        ResourceTable table(kernel_, interval);
        table.reserve_loop_end();
        // A unit that has no cycle to spare gets its cycles first.
        if (const Unit unit = full_unit(graph, interval); unit != Unit::None) {
            table.reserve_unit(unit, 0);
            if (packed > 0) table.close_last_of(unit, packed);
        }
        wanted_ = spread_sides(graph, interval);
        return table;
    }

    bool registers_suffice(const ScheduleGraph &graph, int interval) const {
        // Of the vectors some are left for what lives around the loop.
        const int64_t vectors = overlapping_ ? machine_.regs.vector * 3 / 4 : machine_.regs.vector;
        return most_live(graph, interval, RegisterClass::Mask) <= machine_.regs.mask - 1 && most_live(graph, interval, RegisterClass::Vector) <= vectors - 1;
    }

    // How many values of a class are under way at a time?
    int64_t most_live(const ScheduleGraph &graph, int interval, RegisterClass cls) const {
        std::map<int32_t, std::pair<int, int>> lives;   // first and last cycle
        const auto touch = [&](Reg r, int cycle) {
            if (!r.defined() || r.id <= all_lanes.id || kernel_.cls(r) != cls) return;
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
        // A register is free behind the packet that reads it last, which of the few masks may be one too late.
        const int last_packet = cls == RegisterClass::Mask ? 1 : 0;
        // One that other blocks share, or that lives from an iteration into the next, has its register all the time.
        int throughout = cls == RegisterClass::Mask ? static_cast<int>(shared_masks_.size()) : 0;
        for (const auto &[r, life] : lives) {
            if (cls == RegisterClass::Mask && shared_masks_.count(Reg{r})) continue;
            if (!made.count(r) || life.first / interval != life.second / interval) throughout++;
            else
                for (int cycle = life.first; cycle < life.second + last_packet; cycle++) live[cycle % interval]++;
        }
        return throughout + *std::max_element(live.begin(), live.end());
    }

    // A pad has one transfer at a time, and who starts the next one waits: starts out of line are spread over the iteration, or
    // over as much of its end as a branch to the code behind the loop reaches: one to code before it would be predicted taken.
    std::vector<int> spread_sides(const ScheduleGraph &graph, int interval) const {
        // A branch reaches 102 packets. A loop that a lane unit paces has fewer packets than cycles: merge_packets.
        const int cycles_in_reach = full_unit(graph, interval) == Unit::None ? 90 : 104;
        std::vector<int> wanted(graph.ops.size(), 0);
        const auto sides = std::count_if(graph.ops.begin(), graph.ops.end(), [](const Op &op) { return op.side != nullptr; });
        const int range = std::min(interval, cycles_in_reach);
        int at = 0;
        for (size_t i = 0; i < graph.ops.size(); i++)
            if (graph.ops[i].side) wanted[i] = (2 * interval - turn_ - range + range * at++ / static_cast<int>(sides)) % interval;
        return wanted;
    }

    // The first and the last cycle that an operation may have beside those that have theirs.
    std::pair<int, int> room(const ScheduleGraph &graph, int i, int window, int interval, int start) const {
        int first = start, last = window * interval - 1;
        // What waits for nothing starts when the longest way to the end asks for it: until then its value would fill a register.
        if (overlapping_ && graph.ops[i].opcode == Opcode::vreg_ld) first += longest_ - graph.height[i];
        for (int e : graph.in[i]) {
            const Edge &edge = graph.edges[e];
            if (edge.from != i && graph.cycle[edge.from] >= 0) first = std::max(first, graph.cycle[edge.from] + spaced(graph, edge) - edge.distance * interval);
            if (edge.from == i && edge.latency > edge.distance * interval) last = -1;
        }
        for (int e : graph.out[i]) {
            const Edge &edge = graph.edges[e];
            if (edge.to != i && graph.cycle[edge.to] >= 0) last = std::min(last, graph.cycle[edge.to] - spaced(graph, edge) + edge.distance * interval);
        }
        return {first, std::min(last, first + interval - 1)};
    }

    // Gives every operation of a chain a cycle, none before `start`, or leaves all of them without.
    bool place(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &chain, const std::vector<int> &window, int interval, int start) const {
        for (size_t c = 0; c < chain.size(); c++) {
            if (place(graph, table, chain[c], window[chain[c]], interval, start)) continue;
            while (c-- > 0) {
                if (!is_marker(graph.ops[chain[c]])) table.release(claims_[chain[c]], graph.cycle[chain[c]]);
                graph.cycle[chain[c]] = -1;
            }
            return false;
        }
        return true;
    }

    bool place(ScheduleGraph &graph, ResourceTable &table, int i, int window, int interval, int start) const {
        const std::pair<int, int> between = room(graph, i, window, interval, start);
        const int first = between.first, last = between.second;
        const bool marker = is_marker(graph.ops[i]);
        const Claim &claim = claims_[i];
        const auto earliest = [&](int cycle) { return marker ? cycle : table.first_fit(claim, cycle, last); };
        int cycle = earliest(std::max(first, wanted_[i]));
        if (cycle > last) {
            // As close to that as can be.
            cycle = wanted_[i] > 0 ? last : first;
            while (wanted_[i] > 0 && cycle > first && !table.fits(claim, cycle)) cycle--;
            cycle = earliest(cycle);
        }
        if (cycle > last) return false;
        if (!marker) table.take(claim, cycle);
        graph.cycle[i] = cycle;
        return true;
    }

    // The order of placing: one after the other, highest first. Where iterations overlap, the rows of an unrolled loop are placed one
    // after the other, each at its own pace.
    void order_operations(const ScheduleGraph &graph, bool overlapping) {
        overlapping_ = overlapping;
        longest_ = graph.height.empty() ? 0 : *std::max_element(graph.height.begin(), graph.height.end());
        chains_ = find_chains(kernel_, graph, overlapping);
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

    // Cycles without an operation are dropped, so what must keep its distance is planned a little further apart; and a load may
    // find its pad busy with a row of a transfer.
    int spaced(const ScheduleGraph &graph, const Edge &edge) const {
        constexpr int margin = 8, load_margin = 4, row_margin = 3;
        if (edge.hard) return edge.latency + margin;
        if (overlapping_ || edge.latency <= 1) return edge.latency;
        const Opcode from = graph.ops[edge.from].opcode;
        return edge.latency + (from == Opcode::vreg_ld ? load_margin : from == Opcode::gemm_vv ? row_margin : 0);
    }

    // From the last operation to the first, each that makes a value moves as late as its readers allow: values wait in
    // fewer registers.
    void shorten_lifetimes(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &order, const std::vector<int> &window, int interval) {
        constexpr int load_margin = 4;   // beside that of all loads
        for (size_t o = order.size(); o-- > 0;) {
            const int i = order[o];
            const Op &op = graph.ops[i];
            // Scalar steps too: one that touches a transfer's register would wait for the transfer.
            const Unit unit = info(op.opcode).unit;
            if (op.opcode != Opcode::gemm_vv && op.opcode != Opcode::vreg_ld && (unit != Unit::Ex1 || op.side)) continue;
            int last = window[i] * interval - 1;
            for (int e : graph.out[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.to != i) last = std::min(last, graph.cycle[edge.to] - spaced(graph, edge) + edge.distance * interval - (op.opcode == Opcode::vreg_ld ? load_margin : 0));
            }
            const int now = graph.cycle[i];
            if (last <= now) continue;
            const Claim &claim = claims_[i];
            table.release(claim, now);
            int cycle = last;
            while (cycle > now && !table.fits(claim, cycle)) cycle--;
            table.take(claim, cycle);
            graph.cycle[i] = cycle;
        }
    }

    const Kernel &kernel_;
    const Machine &machine_;
    const std::set<Reg> &shared_masks_;
    const bool masks_may_overlap_;
    const int64_t most_values_;              // that the iterations of a loop that overlap may make
    Reg index_;                              // of the loop
    std::vector<Claim> claims_;              // of its operations
    Chains chains_;
    std::map<Unit, int> first_of_;           // of rows that follow each other evenly: the cycle of the first operation of a unit
    std::vector<int> wanted_;                // the earliest cycle that suits an operation
    int turn_ = 0;                           // cycles by which the loop's boundary will move
    int packed_ = 0;                         // of so many packets of a lane unit's intervals one is kept free; 0: none
    bool overlapping_ = false;               // may an operation be in another stage than the first?
    int longest_ = 0;                        // greatest height
};

}  // namespace

int most_stages_with_sides(int64_t iterations, bool rows, bool weights) {
    constexpr int64_t enough = 4;
    return rows && !weights && iterations >= enough ? most_stages : 2;
}

int most_stages_with_sides(const Loop &loop) {
    const auto has = [&](Opcode opcode) { return std::any_of(loop.body.begin(), loop.body.end(), [&](const Node &node) { return node.op && node.op->opcode == opcode; }); };
    return most_stages_with_sides(loop.extent, has(Opcode::gemm_vv), has(Opcode::lw_vi));
}

std::optional<ModuloSchedule> modulo_schedule(const Kernel &kernel, ScheduleGraph &graph, const LoopInfo &loop, const std::set<Reg> &shared_masks, OverlapIterations overlap, const RunsLater &runs_later) {
    return ModuloScheduler(kernel, shared_masks, overlap).run(graph, loop, runs_later);
}

std::optional<ModuloSchedule> evenly_spaced_schedule(Kernel &kernel, ScheduleGraph &graph, const LoopInfo &loop, const std::set<Reg> &shared_masks, OverlapIterations overlap) {
    return ModuloScheduler(kernel, shared_masks, overlap).run_evenly(kernel, graph, loop);
}

}  // namespace atalla::codegen
