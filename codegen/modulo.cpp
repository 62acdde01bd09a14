#include "codegen/modulo.h"

#include <algorithm>
#include <numeric>

#include "codegen/modulo_scheduler.h"

namespace atalla::codegen {

namespace {

// Longer iterations take too long to schedule, and their code with that around them leaves the instruction cache. Rows at one
// distance are placed as one.
constexpr int64_t most_values = 320, most_values_of_rows = 480;
// Iterations under way at a time where they do not follow each other evenly.
constexpr int most_stages_uneven = 3;

std::vector<bool> find_deferrable(const std::vector<Op> &ops) {
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

}  // namespace

int64_t values_of(const Kernel &kernel, const std::vector<Op> &ops) {
    std::set<Reg> vectors;
    for (const Op &op : ops)
        if (op.dst.defined() && kernel.cls(op.dst) == RegisterClass::Vector) vectors.insert(op.dst);
    return static_cast<int64_t>(vectors.size());
}

int64_t most_short_values(const Machine &machine) { return machine.regs.vector / 2; }

ModuloScheduler::ModuloScheduler(const Kernel &kernel, const std::set<Reg> &shared_masks, OverlapIterations overlap)
    : kernel_(kernel),
      machine_(*kernel.machine),
      shared_masks_(shared_masks),
      masks_may_overlap_(overlap != OverlapIterations::WithoutMasks),
      most_values_(overlap >= OverlapIterations::LongInPairs ? most_values : most_short_values(machine_)),
      in_pairs_(overlap == OverlapIterations::LongInPairs) {}

std::optional<ModuloSchedule> ModuloScheduler::run(ScheduleGraph &graph, const LoopInfo &loop, const RunsLater &runs_later) {
    index_ = loop.index;
    claims_ = ResourceTable(kernel_, 0).claims(graph.ops);
    const int least = resource_bound(kernel_, graph.ops), most = least + std::max(64, least);
    std::optional<ModuloSchedule> result;
    std::vector<int> window(graph.ops.size(), 1);
    const std::vector<bool> deferrable = find_deferrable(graph.ops);
    for (size_t i = 0; i < window.size(); i++) window[i] += deferrable[i];
    const std::vector<int> unplaced = graph.cycle;
    std::vector<int> one_stage;
    if (const int interval = least_interval(graph, window, least, most, false); interval > 0) {
        if (loop.sure() > 1 && can_turn(graph, loop)) {
            ScheduleGraph turned = graph;
            result = turned_schedule(turned, window, interval);
            if (result && runs_later(result->epilogue)) {
                graph = std::move(turned);
                return result;
            }
        }
        result = deferring_schedule(graph, interval);
        one_stage = graph.cycle;
    }

    const std::vector<int> stages = stages_allowed(graph, loop);
    const int allowed = stages.empty() ? 1 : std::min(most_stages_uneven, *std::max_element(stages.begin(), stages.end()));
    // Worth its code where the whole loop gets shorter, the iterations that fill and drain it included: of a loop of a few
    // iterations fewer stages may take less than the shortest interval.
    constexpr int64_t few_iterations = 16;
    const int64_t iterations = (loop.sure() + loop.extent) / 2;
    int64_t least_cycles = (result ? result->interval : 2 * most) * iterations;
    int best_interval = 0;
    bool evicting = false;
    std::vector<int> best;
    for (int most_here = iterations <= few_iterations ? std::min(2, allowed) : allowed; most_here <= allowed; most_here++) {
        std::vector<int> here = stages;
        for (int &stage : here) stage = std::min(stage, most_here);
        if (most_here < 2) continue;
        const int gain_below = static_cast<int>(least_cycles / (iterations + most_here - 1));
        const int interval = least_interval(graph, here, least, std::min(most, gain_below - 1), true);
        if (interval == 0) continue;
        best_interval = interval;
        evicting = evicting_;
        best = graph.cycle;
        least_cycles = interval * (iterations + most_here - 1);
    }
    if (best_interval > 0) {
        graph.cycle = std::move(best);
        ModuloSchedule schedule = overlapping_schedule(graph, best_interval);
        schedule.evicting = evicting;
        return schedule;
    }
    graph.cycle = result ? std::move(one_stage) : unplaced;
    return result;
}

int ModuloScheduler::least_interval(ScheduleGraph &graph, const std::vector<int> &window, int least, int most,
                                    bool overlapping) {
    if (least > most) return 0;
    order_operations(graph, overlapping);
    // A visit of the array that a lane unit paces takes fewer packets than cycles if it can: the nest should fit the
    // instruction cache.
    const std::vector<bool> spreads = starts_transfers(graph) ? std::vector<bool>{true, false} : std::vector<bool>{false};
    const bool visit = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op &op) { return op.opcode == Opcode::lw_vi; });
    if (visit && full_unit(graph, least) != Unit::None)
        for (const bool spread : spreads)
            for (packed_ = 1; packed_ <= 4; packed_++)
                if (fits(graph, window, least, packed_, spread)) return least;
    packed_ = 0;
    evicting_ = false;
    int found = 0;
    const auto any_fits = [&](int interval) {
        return std::ranges::any_of(spreads, [&](bool spread) { return fits(graph, window, interval, packed_, spread); });
    };
    for (int interval = least; interval <= most && found == 0; interval += 1 + (interval - least) / 8) {
        if (any_fits(interval)) found = interval;
        // Where rows wait for nothing but weights, what is added to them may come with them.
        with_rows_ = found == 0 && overlapping && visit;
        if (with_rows_ && any_fits(interval)) found = interval;
        with_rows_ = false;
    }
    if (found == least || !can_evict(graph)) return found;
    constexpr int least_gain = 50;  // one of so many cycles: placed once, operations wait a little less for each other
    const int shorter = interval_with_evictions(graph, window, least, found > 0 ? found - found / least_gain : most + 1);
    evicting_ = shorter > 0;
    return evicting_ ? shorter : found;
}

ModuloSchedule ModuloScheduler::deferring_schedule(ScheduleGraph &graph, int interval) {
    ModuloSchedule schedule;
    schedule.interval = interval;
    for (size_t i = 0; i < graph.ops.size(); i++) {
        if (graph.cycle[i] < interval) continue;
        schedule.deferred.push_back({graph.ops[i], graph.cycle[i]});
        graph.cycle[i] -= interval;
    }
    std::stable_sort(schedule.deferred.begin(), schedule.deferred.end(),
                     [](const auto &a, const auto &b) { return a.cycle < b.cycle; });
    if (full_unit(graph, interval) != Unit::None) merge_packets(graph, interval);
    return schedule;
}

bool ModuloScheduler::can_turn(const ScheduleGraph &graph, const LoopInfo &loop) const {
    bool weights = false;
    for (const Op &op : graph.ops) {
        if (reads(op, loop.index)) return false;
        weights = weights || op.opcode == Opcode::lw_vi;
    }
    return weights && machine_.timed();
}

int ModuloScheduler::turn_of(const ScheduleGraph &graph, int interval) const {
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

std::optional<ModuloSchedule> ModuloScheduler::turned_schedule(ScheduleGraph &turned, const std::vector<int> &window,
                                                               int interval) {
    turn_ = turn_of(turned, interval);
    // Once more with branches out of line where they should be then.
    const bool again = turn_ > 0 && (fits(turned, window, interval, packed_, spread_transfers_) ||
                                     (spread_transfers_ && fits(turned, window, interval, packed_, false)));
    const int turn = turn_;
    turn_ = 0;
    if (!again || turn_of(turned, interval) < turn) return std::nullopt;
    for (size_t i = 0; i < turned.ops.size(); i++)
        turned.cycle[i] = turned.ops[i].side ? (turned.cycle[i] + turn) % interval : turned.cycle[i] + turn;
    ModuloSchedule schedule = overlapping_schedule(turned, interval);
    schedule.later = true;
    return schedule;
}

int ModuloScheduler::stages_with_sides(const std::vector<const Op *> &ops, const LoopInfo &loop) const {
    const int most = most_stages_with_sides(ops, loop.sure(), loop.parent >= 0);
    return most > 2 && kernel_.takes(Choice::SidesInPairs) ? 2 : most;
}

std::vector<int> ModuloScheduler::stages_allowed(const ScheduleGraph &graph, const LoopInfo &loop) const {
    if (!masks_may_overlap_ && std::ranges::any_of(graph.ops, [&](const Op &op) { return kernel_.is_mask(op.dst); })) return {};
    const int64_t allowed = evenly_ && most_values_ == most_values ? most_values_of_rows : most_values_;
    if (values_of(kernel_, graph.ops) > allowed) return {};
    const bool sides = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op &op) { return op.side != nullptr; });
    std::vector<const Op *> ops;
    for (const Op &op : graph.ops) ops.push_back(&op);
    const int64_t under_way = in_pairs_ ? 2
                              : sides   ? stages_with_sides(ops, loop)
                                        : most_stages(ops),
                  most = std::min(under_way, loop.sure());
    std::vector<int> stages(graph.ops.size(), static_cast<int>(most));
    for (size_t i = 0; i < graph.ops.size(); i++) {
        const Op &op = graph.ops[i];
        if (reads(op, loop.index)) return {};
        if (op.side) stages[i] = 1;
    }
    return stages;
}

int64_t ModuloScheduler::rows_per_iteration(const PadAccess &access) const {
    int64_t rows = 0;
    for (auto [atom, coefficient] : access.row.terms)
        if (kernel_.atoms[atom].is_loop && kernel_.loops[kernel_.atoms[atom].loop].index == index_) rows += coefficient;
    return rows;
}

bool ModuloScheduler::steps_differ(const PadAccess &access) const {
    return std::ranges::any_of(access.row.terms, [&](const auto &term) {
        const Atom &atom = kernel_.atoms[static_cast<size_t>(term.first)];
        return !atom.is_loop && atom.loop >= 0 && kernel_.loops[static_cast<size_t>(atom.loop)].index == index_;
    });
}

ModuloSchedule ModuloScheduler::overlapping_schedule(ScheduleGraph &graph, int interval) {
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
            if (graph.ops[i].side && !graph.ops[i].every) continue;
            Op op = graph.ops[i];
            if (op.access) {
                // For dependences between them.
                op.access->row.constant += iteration * rows_per_iteration(*op.access);
                if (steps_differ(*op.access)) op.access->iteration = iteration;
            }
            (iteration + stage[i] < under_way ? schedule.prologue : schedule.epilogue).push_back(std::move(op));
        }
    for (size_t i = 0; i < graph.ops.size(); i++) graph.cycle[i] -= stage[i] * interval;
    for (Edge &edge : graph.edges) edge.distance += stage[edge.to] - stage[edge.from];
    // Rows at one distance have their units in turn, which a merge would disturb.
    if (!evenly_ && chains_.alike.size() < 2 && full_unit(graph, interval) != Unit::None &&
        !kernel_.takes(Choice::PacketsApart))
        merge_packets(graph, interval);
    schedule.stage = std::move(stage);
    return schedule;
}

bool ModuloScheduler::fits(ScheduleGraph &graph, const std::vector<int> &window, int interval, int packed, bool spread) {
    spread_transfers_ = spread;
    std::fill(graph.cycle.begin(), graph.cycle.end(), -1);
    ResourceTable table = empty_table(graph, interval, packed);
    for (const std::vector<int> &chain : chains_.in_turn) {
        if (!place_somewhere(graph, table, chain, window, interval)) return false;
        shorten_lifetimes(graph, table, chain, window, interval);
    }
    if (registers_suffice(graph, interval)) return true;
    for (const std::vector<int> &chain : chains_.in_turn) make_masks_late(graph, table, chain, window, interval);
    return registers_suffice(graph, interval);
}

bool ModuloScheduler::place_somewhere(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &chain,
                                      const std::vector<int> &window, int interval) const {
    // Later starts of a long chain, which fills most of the interval anyway, are all much the same.
    constexpr size_t steps_of_one = 24;
    const int step = 1 + static_cast<int>(chain.size() / steps_of_one);
    for (int start = 0;;) {
        const Placed placed = place(graph, table, chain, window, interval, start);
        if (placed.all) return true;
        start += (placed.same_until - start) / step * step + step;
        if (!overlapping_ || start >= interval || !may_start(graph, chain, window, interval, start)) return false;
    }
}

bool ModuloScheduler::may_start(const ScheduleGraph &graph, const std::vector<int> &chain, const std::vector<int> &window,
                                int interval, int start) const {
    constexpr int most_rounds = 4;  // enough for most; what they do not find is tried
    std::vector<int> earliest(graph.ops.size()), latest(graph.ops.size());
    for (int i : chain) {
        earliest[i] = start + waits_for_end(graph, i);
        latest[i] = window[i] * interval - 1;
        for (int e : graph.out[i]) {
            const Edge &edge = graph.edges[e];
            if (edge.to != i && graph.cycle[edge.to] >= 0)
                latest[i] = std::min(latest[i], graph.cycle[edge.to] - spaced(graph, edge) + edge.distance * interval);
        }
    }
    bool changed = true;
    for (int round = 0; changed && round < most_rounds; round++) {
        changed = false;
        for (int i : chain) {
            int first = earliest[i];
            for (int e : graph.in[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.from == i && edge.latency > edge.distance * interval) return false;
                if (edge.from == i) continue;
                const int from = std::max(graph.cycle[edge.from], earliest[edge.from]);
                first = std::max(first, from + spaced(graph, edge) - edge.distance * interval);
            }
            if (first > latest[i]) return false;
            changed = changed || first > earliest[i];
            earliest[i] = first;
        }
    }
    return true;
}

ResourceTable ModuloScheduler::empty_table(const ScheduleGraph &graph, int interval, int packed) {
    ResourceTable table(kernel_, interval);
    table.reserve_loop_end();
    // A unit that has no cycle to spare gets its cycles first.
    if (const Unit unit = full_unit(graph, interval); unit != Unit::None) {
        table.reserve_unit(unit, 0);
        if (packed > 0) table.close_last_of(unit, packed);
    }
    wanted_ = spread_sides(graph, interval);
    if (spread_transfers_) spread_transfers(graph, interval);
    return table;
}

std::pair<int, int> ModuloScheduler::room(const ScheduleGraph &graph, int i, int window, int interval, int start) const {
    int first = start + waits_for_end(graph, i), last = window * interval - 1;
    for (int e : graph.in[i]) {
        const Edge &edge = graph.edges[e];
        if (edge.from != i && graph.cycle[edge.from] >= 0)
            first = std::max(first, graph.cycle[edge.from] + spaced(graph, edge) - edge.distance * interval);
        if (edge.from == i && edge.latency > edge.distance * interval) last = -1;
    }
    for (int e : graph.out[i]) {
        const Edge &edge = graph.edges[e];
        if (edge.to != i && graph.cycle[edge.to] >= 0)
            last = std::min(last, graph.cycle[edge.to] - spaced(graph, edge) + edge.distance * interval);
    }
    if (graph.ops[i].opcode == Opcode::lw_vi) first = std::max(first, back_to_back(graph, i));
    // What turns later may not start transfers.
    if (info(graph.ops[i].opcode).unit == Unit::Sdma && turn_ > 0) last = std::min(last, interval - turn_ - 1);
    return {first, std::min(last, first + interval - 1)};
}

int ModuloScheduler::waits_for_end(const ScheduleGraph &graph, int i) const {
    return overlapping_ && graph.ops[i].opcode == Opcode::vreg_ld ? longest_ - graph.height[i] : 0;
}

std::optional<int> ModuloScheduler::row_is_there(const ScheduleGraph &graph, int i) const {
    std::optional<int> there;
    for (int out : graph.out[i]) {
        const Edge &read = graph.edges[out];
        if (read.distance > 0 || !reads(graph.ops[read.to], graph.ops[i].dst)) continue;
        for (int in : graph.in[read.to]) {
            const Edge &other = graph.edges[in];
            if (other.distance > 0 || graph.ops[other.from].opcode != Opcode::gemm_vv || graph.cycle[other.from] < 0) continue;
            const int needed = graph.cycle[other.from] + spaced(graph, other) - spaced(graph, read);
            there = std::min(there.value_or(needed), needed);
        }
    }
    return there;
}

bool ModuloScheduler::place_with_row(ScheduleGraph &graph, ResourceTable &table, int i, int window, int interval,
                                     int start) const {
    if (!with_rows_ || graph.ops[i].opcode != Opcode::vreg_ld) return false;
    const std::optional<int> there = row_is_there(graph, i);
    if (!there) return false;
    const auto [first, last] = room(graph, i, window, interval, start - waits_for_end(graph, i));
    for (int cycle = std::min(last, *there); cycle >= std::max({first, start, *there - interval / 2}); cycle--)
        if (table.fits(claims_[i], cycle)) {
            table.take(claims_[i], cycle);
            graph.cycle[i] = cycle;
            return true;
        }
    return false;
}

ModuloScheduler::Placed ModuloScheduler::place(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &chain,
                                               const std::vector<int> &window, int interval, int start) const {
    Placed placed{true, interval};
    for (size_t c = 0; c < chain.size(); c++) {
        if (place(graph, table, chain[c], window[chain[c]], interval, start)) {
            // A load that comes with a row does so wherever the row is.
            if (const int from = graph.cycle[chain[c]] - waits_for_end(graph, chain[c]); from >= start)
                placed.same_until = std::min(placed.same_until, from);
            continue;
        }
        if (!overlapping_ && place_by_exchange(graph, table, chain, c, window, interval, start)) continue;
        while (c-- > 0) {
            if (!is_marker(graph.ops[chain[c]])) table.release(claims_[chain[c]], graph.cycle[chain[c]]);
            graph.cycle[chain[c]] = -1;
        }
        placed.all = false;
        break;
    }
    return placed;
}

bool ModuloScheduler::place_by_exchange(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &chain, size_t c,
                                        const std::vector<int> &window, int interval, int start) const {
    const int i = chain[c];
    const Unit unit = info(graph.ops[i].opcode).unit;
    if (!is_lane_operation(graph.ops[i].opcode) || unit != full_unit(graph, interval)) return false;
    for (size_t other = 0; other < c; other++) {
        const int j = chain[other], before = graph.cycle[j];
        if (info(graph.ops[j].opcode).unit != unit) continue;
        table.release(claims_[j], before);
        graph.cycle[j] = -1;
        if (place(graph, table, i, window[i], interval, start)) {
            if (place(graph, table, j, window[j], interval, start)) return true;
            table.release(claims_[i], graph.cycle[i]);
            graph.cycle[i] = -1;
        }
        table.take(claims_[j], before);
        graph.cycle[j] = before;
    }
    return false;
}

bool ModuloScheduler::place(ScheduleGraph &graph, ResourceTable &table, int i, int window, int interval, int start) const {
    if (place_with_row(graph, table, i, window, interval, start)) return true;
    const std::pair<int, int> between = room(graph, i, window, interval, start);
    return place_between(graph, table, i, between.first, between.second);
}

bool ModuloScheduler::place_between(ScheduleGraph &graph, ResourceTable &table, int i, int first, int last) const {
    // Branches out of line keep their distance where they can.
    if (first > last && !graph.ops[i].side) return false;
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

void ModuloScheduler::order_operations(const ScheduleGraph &graph, bool overlapping) {
    overlapping_ = overlapping;
    longest_ = graph.height.empty() ? 0 : *std::max_element(graph.height.begin(), graph.height.end());
    chains_ = find_chains(kernel_, graph, overlapping);
    made_weights_ = overlapping ? find_made_weights(graph) : std::vector<int>{};
    part_made_weights(graph);
}

Unit ModuloScheduler::full_unit(const ScheduleGraph &graph, int interval) const {
    const std::vector<Unit> full = full_units(graph, interval);
    return full.empty() ? Unit::None : full.front();
}

std::vector<Unit> ModuloScheduler::full_units(const ScheduleGraph &graph, int interval) const {
    std::vector<Unit> full;
    if (!machine_.timed()) return full;
    std::map<Unit, int> lanes;
    for (const Op &op : graph.ops)
        if (is_lane_operation(op.opcode)) lanes[info(op.opcode).unit]++;
    for (auto [unit, count] : lanes)
        if (unit != Unit::Reduce && count * static_cast<int>(machine_.vec.ii) == interval) full.push_back(unit);
    return full;
}

void ModuloScheduler::merge_packets(ScheduleGraph &graph, int interval) {
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

bool ModuloScheduler::one_packet(const ScheduleGraph &graph, const std::vector<int> &ops) const {
    ResourceTable packet(kernel_, 0);
    for (int i : ops) {
        if (graph.ops[i].side || !packet.fits(graph.ops[i], 0)) return false;
        packet.take(graph.ops[i], 0);
    }
    for (int i : ops)
        for (int j : ops) {
            const Reg made = graph.ops[i].dst;
            if (i == j || !made.defined() || made.id <= all_lanes.id) continue;
            if (graph.ops[j].dst == made || reads(graph.ops[j], made)) return false;
        }
    return true;
}

int ModuloScheduler::spaced(const ScheduleGraph &graph, const Edge &edge) const {
    constexpr int margin = 8, load_margin = 4, row_margin = 3;
    // Where iterations overlap, waits in packets that are there keep weights apart from rows (delays.h).
    if (edge.hard) return edge.latency + (overlapping_ && graph.ops[edge.to].opcode == Opcode::lw_vi ? 0 : margin);
    const Opcode from = graph.ops[edge.from].opcode;
    // A row of a transfer may come in between.
    if (displacing_ && from == Opcode::vreg_ld && edge.latency > 1)
        return edge.latency + static_cast<int>(machine_.pad.read_ii);
    if (overlapping_ || edge.latency <= 1) return edge.latency;
    return edge.latency + (from == Opcode::vreg_ld ? load_margin : from == Opcode::gemm_vv ? row_margin : 0);
}

namespace {

std::vector<const Op *> operations_of(const Loop &loop) {
    std::vector<const Op *> ops;
    for (const Node &node : loop.body)
        if (node.op) ops.push_back(&*node.op);
    return ops;
}

}  // namespace

int most_stages(const std::vector<const Op *> &ops) {
    constexpr int most = 3, most_through_pads = 5;
    std::set<std::pair<int, LinearForm>> stored;
    bool through_pads = false;
    for (const Op *op : ops) {
        if (!op->access) continue;
        const std::pair row{op->access->allocation, op->access->row};
        if (op->opcode == Opcode::vreg_st)
            stored.insert(row);
        else
            through_pads = through_pads || stored.count(row) > 0;
    }
    return through_pads ? most_through_pads : most;
}

int most_stages_with_sides(const std::vector<const Op *> &ops, int64_t iterations, bool in_nest) {
    // With weights loops in a nest have code in front of them and behind them.
    constexpr int64_t enough = 4, enough_with_weights = 12, enough_in_nest = 64;
    const auto has = [&](Opcode opcode) {
        return std::any_of(ops.begin(), ops.end(), [&](const Op *op) { return op->opcode == opcode; });
    };
    const int64_t least = !has(Opcode::lw_vi) ? enough : in_nest ? enough_in_nest : enough_with_weights;
    return has(Opcode::gemm_vv) && iterations >= least ? most_stages(ops) : 2;
}

int most_stages(const Loop &loop) { return most_stages(operations_of(loop)); }
int most_stages_with_sides(const Loop &loop) {
    return loop.in_pairs ? 2 : most_stages_with_sides(operations_of(loop), loop.extent, loop.in_nest);
}

std::optional<ModuloSchedule> modulo_schedule(const Kernel &kernel, ScheduleGraph &graph, const LoopInfo &loop,
                                              const std::set<Reg> &shared_masks, OverlapIterations overlap,
                                              const RunsLater &runs_later) {
    return ModuloScheduler(kernel, shared_masks, overlap).run(graph, loop, runs_later);
}

void name_rows_by_loop(const Kernel &kernel, ScheduleGraph &graph, const ModuloSchedule &schedule, int loop) {
    for (size_t i = 0; i < schedule.stage.size(); i++) {
        if (!graph.ops[i].access) continue;
        LinearForm &row = graph.ops[i].access->row;
        for (const auto &[atom, step] : row.terms) {
            const Atom &variable = kernel.atoms[static_cast<size_t>(atom)];
            if (variable.is_loop && variable.loop == loop) row.constant += (schedule.stages - 1 - schedule.stage[i]) * step;
        }
    }
}

}  // namespace atalla::codegen
