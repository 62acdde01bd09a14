// Iterative modulo scheduling (Rau, 1994), for loops of lane operations whose units have little to spare: an operation without
// room gets a cycle all the same, and those that it displaces there, or that a dependence puts elsewhere now, are placed once
// more. Placing each operation once (modulo.cpp) needs an interval far above the resource bound where a few of the last
// operations must run within a few cycles.
#include <algorithm>
#include <array>
#include <numeric>
#include <queue>
#include <set>

#include "codegen/modulo_scheduler.h"

namespace atalla::codegen {

namespace {

// Longer loops take too long, and lose less: they have more operations to choose from.
constexpr size_t most_operations = 400;
// Intervals tried whose schedules take too many registers: longer ones mostly do, too.
constexpr int most_crowded = 3;

// The cycle of the interval that a cycle of any iteration is. (In int: the search does hardly anything else.)
int wrapped(int cycle, int interval) {
    const int rest = cycle % interval;
    return rest < 0 ? rest + interval : rest;
}

// Cycles from `from` on to the next one that is `to` in some iteration.
int behind(int from, int to, int interval) { return wrapped(to - from, interval); }

}  // namespace

// The operations that have a place, by their cycle in the interval.
class ModuloScheduler::PlacedOps {
public:
    PlacedOps(const Machine &machine, const std::vector<Claim> &claims, int interval)
        : interval_(interval), at_(interval), where_(claims.size(), -1) {
        reach_.fill(static_cast<int>(std::max(machine.pad.read_ii, machine.pad.write_ii)));
        for (const Claim &claim : claims) {
            int &reach = reach_[static_cast<size_t>(claim.unit)];
            reach = std::max(reach, claim.busy);
            if (claim.written_bank >= 0) latencies_.insert(wrapped(claim.latency, interval));
        }
    }

    void put(int i, int cycle) {
        take(i);
        where_[i] = wrapped(cycle, interval_);
        at_[where_[i]].push_back(i);
    }

    void take(int i) {
        if (where_[i] >= 0) std::erase(at_[where_[i]], i);
        where_[i] = -1;
    }

    // Visits those that may be in the way of an operation, each once: so near that they could share its packet or its unit, or
    // with a result in the cycle of its own.
    template <class Visit>
    void near(const Claim &mine, int cycle, const Visit &visit) const {
        const auto visit_all = [&](int at) {
            for (const int i : at_[at]) visit(i);
        };
        const int reach = reach_[static_cast<size_t>(mine.unit)], first = wrapped(cycle + 1 - reach, interval_),
                  cycles = std::min(2 * reach - 1, interval_);
        for (int c = 0, at = first; c < cycles; c++, at = at + 1 == interval_ ? 0 : at + 1) visit_all(at);
        if (mine.written_bank < 0) return;
        for (const int latency : latencies_)
            if (const int at = wrapped(cycle + mine.latency - latency, interval_); behind(first, at, interval_) >= cycles)
                visit_all(at);
    }

private:
    int interval_;
    std::vector<std::vector<int>> at_;  // by cycle
    std::vector<int> where_;            // by operation
    // By unit: cycles from which on two operations do not meet there.
    std::array<int, static_cast<size_t>(Unit::Undefined) + 1> reach_{};
    std::set<int> latencies_;  // of vector results, as cycles of the interval
};

bool ModuloScheduler::can_evict(const ScheduleGraph &graph) const {
    // Rows through the array leave units room, but not beside the passes of other rows, whose slots rotate, nor where the lanes
    // make its weights.
    const bool of_passes =
        std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op &op) { return op.access && op.access->turn >= 0; });
    const auto plain = [&](const Op &op) {
        return info(op.opcode).unit != Unit::Array || !made_weights_.empty() || (of_passes && op.opcode != Opcode::lw_vi);
    };
    return machine_.timed() && overlapping_ && graph.ops.size() <= most_operations &&
           std::all_of(graph.ops.begin(), graph.ops.end(), plain);
}

int ModuloScheduler::interval_with_evictions(ScheduleGraph &graph, const std::vector<int> &window, int least, int below) {
    // Whole operations of a lane unit fill an interval.
    const int unit = static_cast<int>(machine_.vec.ii);
    int crowded = 0;
    displacing_ = true;
    const std::vector<int> before = graph.cycle;
    for (int interval = least; interval < below && crowded < most_crowded;
         interval += unit - interval % unit + (interval - least) / 8 / unit * unit) {
        bool placed = false;
        for (const Phases &phases : phases_to_try(graph, interval)) {
            if (!place_with_evictions(graph, window, interval, phases)) continue;
            placed = true;
            if (!registers_suffice(graph, interval)) continue;
            displacing_ = false;
            return interval;
        }
        crowded += placed;
    }
    displacing_ = false;
    graph.cycle = before;
    return 0;
}

std::vector<ModuloScheduler::Phases> ModuloScheduler::phases_to_try(const ScheduleGraph &graph, int interval) const {
    std::vector<Phases> all = {{}};
    std::vector<Unit> units;
    for (const Unit unit : {Unit::Alu, Unit::Mul, Unit::Exp})
        if (std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op &op) { return info(op.opcode).unit == unit; }))
            units.push_back(unit);
    const auto ii = static_cast<size_t>(machine_.vec.ii);
    if (units.size() < 2 || units.size() > ii || interval % static_cast<int>(ii) != 0) return all;
    const Unit reserved = full_unit(graph, interval);  // for which the first cycles are kept
    std::vector<int> order(ii);
    std::iota(order.begin(), order.end(), 0);
    do {
        Phases phases;
        for (size_t u = 0; u < units.size(); u++) phases.emplace_back(units[u], order[u]);
        if (std::none_of(phases.begin(), phases.end(),
                         [&](const auto &phase) { return phase.first == reserved && phase.second != 0; }))
            all.push_back(std::move(phases));
    } while (std::next_permutation(order.begin(), order.end()));
    return all;
}

bool ModuloScheduler::place_with_evictions(ScheduleGraph &graph, const std::vector<int> &window, int interval,
                                           const Phases &phases) {
    constexpr size_t placings = 6;  // of each operation on average
    const size_t n = graph.ops.size();
    const std::optional<std::vector<std::pair<int, int>>> limited = limits(graph, window, interval);
    if (!limited) return false;
    std::fill(graph.cycle.begin(), graph.cycle.end(), -1);
    ResourceTable table = empty_table(graph, interval, 0);
    for (const auto &[unit, phase] : phases) table.keep_to_phase(unit, phase);
    PlacedOps placed(machine_, claims_, interval);
    // First comes what must run first to leave the others their time.
    std::vector<int> order(n), turn(n), forced(n, -1);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return (*limited)[a].second < (*limited)[b].second; });
    for (size_t t = 0; t < n; t++) turn[order[t]] = static_cast<int>(t);
    std::priority_queue<int, std::vector<int>, std::greater<>> waiting;  // turns
    for (size_t t = 0; t < n; t++) waiting.push(static_cast<int>(t));
    for (size_t left = placings * n; !waiting.empty(); left--) {
        if (left == 0) return false;
        const int i = order[waiting.top()];
        waiting.pop();
        const std::pair<int, int> between = room(graph, i, window[i], interval, 0), limit = (*limited)[i];
        if (!place_between(graph, table, i, std::max(between.first, limit.first), std::min(between.second, limit.second))) {
            const std::optional<std::vector<int>> evicted =
                place_evicting(graph, table, placed, i, limit, interval, forced[i], turn);
            if (!evicted) return false;
            for (int other : *evicted) {
                placed.take(other);
                waiting.push(turn[other]);
            }
        }
        if (!is_marker(graph.ops[i])) placed.put(i, graph.cycle[i]);
    }
    make_masks_late(graph, table, order, window, interval);
    shorten_lifetimes(graph, table, order, window, interval);
    return keeps_dependences(graph, interval);
}

std::optional<std::vector<std::pair<int, int>>> ModuloScheduler::limits(const ScheduleGraph &graph,
                                                                        const std::vector<int> &window, int interval) const {
    std::vector<std::pair<int, int>> limits;
    for (const int stages : window) limits.emplace_back(0, stages * interval - 1);
    for (bool changed = true; changed;) {
        changed = false;
        for (const Edge &edge : graph.edges) {
            const int apart = (edge.from == edge.to ? edge.latency : spaced(graph, edge)) - edge.distance * interval;
            auto &[first, last] = limits[edge.to];
            changed = changed || limits[edge.from].first + apart > first || last - apart < limits[edge.from].second;
            first = std::max(first, limits[edge.from].first + apart);
            limits[edge.from].second = std::min(limits[edge.from].second, last - apart);
            if (first > last || limits[edge.from].first > limits[edge.from].second) return std::nullopt;
        }
    }
    return limits;
}

std::optional<std::vector<int>> ModuloScheduler::place_evicting(ScheduleGraph &graph, ResourceTable &table,
                                                                const PlacedOps &placed, int i, std::pair<int, int> limits,
                                                                int interval, int &forced, const std::vector<int> &turn) const {
    int first = std::max(limits.first, waits_for_end(graph, i));
    for (int e : graph.in[i]) {
        const Edge &edge = graph.edges[e];
        if (edge.from != i && graph.cycle[edge.from] >= 0)
            first = std::max(first, graph.cycle[edge.from] + spaced(graph, edge) - edge.distance * interval);
    }
    first = std::min(first, limits.second);
    // Not where it was put before, or two operations would displace each other for ever.
    const int last = std::min(limits.second, first + interval - 1), least = std::max(limits.first, last - interval + 1);
    int cycle = forced >= first && forced < last ? forced + 1 : first;
    std::vector<int> evicted;
    if (!is_marker(graph.ops[i])) {
        const int tries = last - least + 1;
        int t = 0;
        for (; t < tries && !make_room(graph, table, placed, i, cycle, interval, turn, evicted); t++)
            cycle = cycle == last ? least : cycle + 1;
        if (t == tries) return std::nullopt;
        table.take(claims_[i], cycle);
    }
    graph.cycle[i] = forced = cycle;
    const auto check = [&](const Edge &edge, int other) {
        if (edge.from == edge.to || graph.cycle[edge.from] < 0 || graph.cycle[edge.to] < 0) return;
        if (graph.cycle[edge.to] + edge.distance * interval >= graph.cycle[edge.from] + spaced(graph, edge)) return;
        if (!is_marker(graph.ops[other])) table.release(claims_[other], graph.cycle[other]);
        graph.cycle[other] = -1;
        evicted.push_back(other);
    };
    for (int e : graph.in[i]) check(graph.edges[e], graph.edges[e].from);
    for (int e : graph.out[i]) check(graph.edges[e], graph.edges[e].to);
    return evicted;
}

bool ModuloScheduler::make_room(ScheduleGraph &graph, ResourceTable &table, const PlacedOps &placed, int i, int cycle,
                                int interval, const std::vector<int> &turn, std::vector<int> &evicted) const {
    const Claim &mine = claims_[i];
    if (!table.in_phase(mine, cycle)) return false;
    const int rows_apart = static_cast<int>(std::max(machine_.pad.read_ii, machine_.pad.write_ii));
    std::vector<int> beside;  // what may be in the way
    placed.near(mine, cycle, [&](int other) {
        const Claim &its = claims_[other];
        const int after = behind(cycle, graph.cycle[other], interval), before = after == 0 ? 0 : interval - after;
        const bool unit = its.unit == mine.unit && (after < mine.busy || before < its.busy ||
                                                    (its.unit == Unit::Vlsu && std::min(after, before) < rows_apart));
        const bool result = its.written_bank >= 0 && its.written_bank == mine.written_bank &&
                            behind(cycle + mine.latency, graph.cycle[other] + its.latency, interval) == 0;
        if (after == 0 || unit || result) beside.push_back(other);
    });
    std::sort(beside.begin(), beside.end(), [&](int a, int b) { return turn[a] > turn[b]; });
    size_t released = 0;
    for (; released < beside.size() && !table.fits(mine, cycle); released++)
        table.release(claims_[beside[released]], graph.cycle[beside[released]]);
    const bool fits = table.fits(mine, cycle);
    // Those that were not in the way keep their cycles, from the first in turn on.
    if (fits) table.take(mine, cycle);
    while (released-- > 0) {
        const int other = beside[released];
        if (!fits || table.fits(claims_[other], graph.cycle[other])) {
            table.take(claims_[other], graph.cycle[other]);
            continue;
        }
        graph.cycle[other] = -1;
        evicted.push_back(other);
    }
    if (fits) table.release(mine, cycle);
    return fits;
}

bool ModuloScheduler::keeps_dependences(const ScheduleGraph &graph, int interval) const {
    return std::all_of(graph.edges.begin(), graph.edges.end(), [&](const Edge &edge) {
        return graph.cycle[edge.to] + edge.distance * interval >=
               graph.cycle[edge.from] + (edge.from == edge.to ? edge.latency : spaced(graph, edge));
    });
}

}  // namespace atalla::codegen
