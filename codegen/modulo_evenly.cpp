#include <algorithm>
#include <climits>

#include "codegen/modulo_scheduler.h"

namespace atalla::codegen {

namespace {

// Places tried for the first of rows that follow each other evenly.
constexpr int most_starts = 4;
// Cycles that loads may be earlier than they must, and as many more where those do not suffice.
constexpr int loads_early = 16;
// The same that a store or a load of a single row waits for its pad, or for the ports of a packet.
constexpr int busy_ports = 8;

}  // namespace

std::optional<ModuloSchedule> ModuloScheduler::run_evenly(Kernel &kernel, ScheduleGraph &graph, const LoopInfo &loop,
                                                          RowLoads loads) {
    index_ = loop.index;
    loads_last_ = loads == RowLoads::Own;
    claims_ = ResourceTable(kernel_, 0).claims(graph.ops);
    evenly_ = true;
    const std::vector<int> stages = stages_allowed(graph, loop);
    order_operations(graph, true);
    if (stages.empty() || chains_.alike.empty()) return std::nullopt;
    look_at_rows(graph);
    const int least = resource_bound(kernel_, graph.ops), allowed = *std::max_element(stages.begin(), stages.end());
    int best_interval = 0;
    std::vector<int> best;
    for (int most_here = 2; most_here <= allowed; most_here++) {
        std::vector<int> here = stages;
        for (int &stage : here) stage = std::min(stage, most_here);
        const int most =
            best_interval == 0
                ? least + least / 2
                : static_cast<int>(best_interval * (loop.extent + most_here - 2) / (loop.extent + most_here - 1)) - 1;
        const int interval = evenly_spaced_interval(graph, here, least, most);
        if (interval == 0) continue;
        best_interval = interval;
        best = graph.cycle;
    }
    if (best_interval == 0) return std::nullopt;
    graph.cycle = std::move(best);
    assign_row_banks(kernel, graph, chains_, best_interval / static_cast<int>(chains_.alike.size()));
    return overlapping_schedule(graph, best_interval);
}

int ModuloScheduler::evenly_spaced_interval(ScheduleGraph &graph, const std::vector<int> &window, int least, int most) {
    const int rows = static_cast<int>(chains_.alike.size());
    for (int distance = (least + rows - 1) / rows; distance * rows <= most;
         distance += 1 + (distance * rows - least) / (4 * rows))
        for (const bool more_time : {false, true})
            for (int start = 0; start < std::min(distance, more_time ? 1 : most_starts); start++)
                if (fits_evenly(graph, window, distance, start, more_time)) return distance * rows;
    return 0;
}

bool ModuloScheduler::fits_evenly(ScheduleGraph &graph, const std::vector<int> &window, int distance, int start,
                                  bool more_time) {
    // What keeps others from their places, since its register must be free again for the next row, is tried a little later.
    const int interval = distance * static_cast<int>(chains_.alike.size()), most_delays = start < 2 ? 20 : 0;
    not_before_.assign(chains_.alike[0].size(), 0);
    loads_early_ = loads_early;
    busy_ports_ = loads_last_ && chains_.alike.size() == 1 ? busy_ports : 0;
    for (int delays = 0; delays <= most_delays; delays++) {
        const Even placed = place_rows(graph, window, distance, start);
        if (placed.all) return keeps_dependences(graph, interval) && registers_suffice(graph, interval);
        if (more_time && placed.early_load) {
            loads_early_ += loads_early;
            continue;
        }
        if (more_time && placed.reload && busy_ports_ > 0) {
            busy_ports_ += busy_ports;
            continue;
        }
        if (!placed.in_the_way) return false;
        const size_t other = *placed.in_the_way;
        not_before_[other] =
            graph.cycle[chains_.alike[0][other]] + std::max(more_time ? placed.later : 0, static_cast<int>(machine_.vec.ii));
    }
    return false;
}

ModuloScheduler::Even ModuloScheduler::place_rows(ScheduleGraph &graph, const std::vector<int> &window, int distance,
                                                  int start) {
    const int rows = static_cast<int>(chains_.alike.size()), interval = distance * rows;
    std::fill(graph.cycle.begin(), graph.cycle.end(), -1);
    ResourceTable table = empty_table(graph, interval, 0);
    if (rows == 1 && loads_last_) table.free_scalars();  // long sums are most of the way through a row
    first_of_.clear();
    // A second unit without a cycle to spare has the packets behind those of the first.
    if (const std::vector<Unit> full = full_units(graph, interval); loads_last_ && full.size() > 1)
        table.reserve_unit(full[1], 1);
    for (std::vector<bool> &phases : read_in_) phases.assign(static_cast<size_t>(distance), false);
    // Of the operations behind one, in the next rows mostly, the one that leaves it the least time.
    const auto in_the_way = [&](int i) {
        int last = window[i] * interval - 1 - (rows - 1) * distance;
        Even found;
        for (int e : graph.out[i]) {
            const Edge &edge = graph.edges[e];
            if (edge.to == i || graph.cycle[edge.to] < 0) continue;
            const int before = graph.cycle[edge.to] - spaced(graph, edge) + edge.distance * interval;
            if (before >= last) continue;
            last = before;
            const int at = position_[edge.to];
            // Loads come as late as they can anyway.
            const bool moves = at >= 0 && graph.ops[edge.to].opcode != Opcode::vreg_ld;
            found.in_the_way = moves ? std::optional(static_cast<size_t>(at)) : std::nullopt;
        }
        const bool load = graph.ops[i].opcode == Opcode::vreg_ld;
        const int first = room(graph, i, window[i], interval, load ? graph.height[i] - longest_ : 0).first;
        found.later = std::max(first, behind_unplaced(graph, i, interval)) - last;
        found.early_load = load && last < distance;
        found.reload = load && std::any_of(graph.in[i].begin(), graph.in[i].end(), [&](int e) {
                           return graph.edges[e].distance == 0 && graph.ops[graph.edges[e].from].opcode == Opcode::vreg_st;
                       });
        return found;
    };
    // Lanes and scalars first, whose units have little to spare; loads go where these leave room, and stores behind them. Loads
    // that rows have of their own are more, so stores choose first; and of what connects the rows, all that nothing orders has
    // its place by then, since pointers step between the last row of an iteration and the first one of the next.
    const Opcode last = loads_last_ ? Opcode::vreg_ld : Opcode::vreg_st;
    const auto part_of = [&](int i) {
        return info(graph.ops[i].opcode).unit != Unit::Vlsu ? 0 : graph.ops[i].opcode == last ? 2 : 1;
    };
    for (int part = 0; part < 3; part++) {
        for (int i : chains_.in_turn[0])
            if (part_of(i) == part &&
                !place_evenly(graph, table, static_cast<size_t>(position_[i]), window[i], distance, start))
                return in_the_way(i);
        if (loads_last_ && part == 0 && !place_connecting(graph, table, window, interval, false)) return {};
    }
    return {place_connecting(graph, table, window, interval, true), {}};
}

bool ModuloScheduler::place_connecting(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &window, int interval,
                                       bool all) const {
    if (chains_.in_turn.size() == chains_.alike.size()) return true;
    const auto orders = [&](int e) { return graph.edges[e].from != graph.edges[e].to; };
    return std::all_of(chains_.in_turn.back().begin(), chains_.in_turn.back().end(), [&](int i) {
        const bool free = std::none_of(graph.in[i].begin(), graph.in[i].end(), orders) &&
                          std::none_of(graph.out[i].begin(), graph.out[i].end(), orders);
        return graph.cycle[i] >= 0 || (!all && !free) || place(graph, table, i, window[i], interval, 0);
    });
}

bool ModuloScheduler::place_evenly(ScheduleGraph &graph, ResourceTable &table, size_t position, int window, int distance,
                                   int start) {
    const int rows = static_cast<int>(chains_.alike.size()), interval = distance * rows, i = chains_.alike[0][position];
    const bool load = graph.ops[i].opcode == Opcode::vreg_ld;
    const auto claim_of = [&](int row) -> const Claim & { return claims_[chains_.alike[row][position]]; };
    const Claim &claim = claim_of(0);
    const int early = loads_early_ + result_latency(machine_, Opcode::vreg_ld);
    auto [first, last] = room(graph, i, window, interval,
                              load ? graph.height[i] - longest_
                                   : std::max({start + early, not_before_[position], behind_unplaced(graph, i, interval)}));
    last = std::min(last, window * interval - 1 - (rows - 1) * distance);
    // A unit with little to spare has its operations side by side.
    const int busy = claim.busy;
    const bool tight = claim.lanes && distance < busy * (2 + operations_of_.at(claim.unit) / rows);
    const auto phase = first_of_.find(claim.unit);
    const auto phase_of = [&](int cycle) { return static_cast<size_t>((cycle % distance + distance) % distance); };
    const auto alone = [&](int cycle) {
        return std::ranges::none_of(shared_reads_[position], [&](size_t r) { return read_in_[r][phase_of(cycle)]; });
    };
    const auto fits = [&](int cycle) {
        if (busy > distance) return false;
        if (tight && phase != first_of_.end())
            if (const int behind = (cycle - phase->second % distance + distance) % distance;
                behind % busy != 0 || behind + busy > distance)
                return false;
        for (int row = 0; row < rows; row++)
            if (!table.fits(claim_of(row), cycle + row * distance)) return false;
        return true;
    };
    const int step = load ? -1 : 1;
    if (load)
        first = std::max(first, last - 2 * distance);
    else
        last = std::min(last, first + distance - 1);
    // The first place that shares no bank's turn with another reader of its sources, else the first place.
    std::optional<int> place;
    for (int cycle = load ? last : first; cycle >= first && cycle <= last; cycle += step) {
        const bool is_alone = alone(cycle);
        if ((place && !is_alone) || !fits(cycle)) continue;
        place = cycle;
        if (is_alone) break;
    }
    if (!place) return false;
    first_of_.try_emplace(claim.unit, *place);
    for (const size_t r : shared_reads_[position]) read_in_[r][phase_of(*place)] = true;
    for (int row = 0; row < rows; row++) {
        table.take(claim_of(row), *place + row * distance);
        graph.cycle[chains_.alike[row][position]] = *place + row * distance;
    }
    return true;
}

int ModuloScheduler::behind_unplaced(const ScheduleGraph &graph, int i, int interval) const {
    int first = INT_MIN;
    for (int e : graph.in[i]) {
        const Edge &edge = graph.edges[e];
        if (edge.from == i || edge.distance > 0 || graph.cycle[edge.from] >= 0) continue;
        int before = behind_unplaced(graph, edge.from, interval);
        for (int f : graph.in[edge.from]) {
            const Edge &to = graph.edges[f];
            if (to.from != edge.from && graph.cycle[to.from] >= 0)
                before = std::max(before, graph.cycle[to.from] + spaced(graph, to) - to.distance * interval);
        }
        if (before > INT_MIN) first = std::max(first, before + spaced(graph, edge) + busy_ports_);
    }
    return first;
}

void ModuloScheduler::look_at_rows(const ScheduleGraph &graph) {
    operations_of_.clear();
    for (const Claim &claim : claims_) operations_of_[claim.unit]++;
    const std::vector<int> &row = chains_.alike[0];
    position_.assign(graph.ops.size(), -1);
    for (size_t p = 0; p < row.size(); p++) position_[row[p]] = static_cast<int>(p);
    shared_reads_.assign(row.size(), {});
    read_in_.clear();
    if (!machine_.regs.vector_conflict) return;
    std::map<Reg, std::vector<size_t>> readers;
    for (size_t p = 0; p < row.size(); p++)
        for (const Reg r : reads_of(graph.ops[row[p]]))
            if (r.id > all_lanes.id && kernel_.cls(r) == RegisterClass::Vector) readers[r].push_back(p);
    for (const auto &[r, positions] : readers) {
        if (positions.size() < 2) continue;
        for (const size_t p : positions) shared_reads_[p].push_back(read_in_.size());
        read_in_.emplace_back();
    }
}

std::optional<ModuloSchedule> evenly_spaced_schedule(Kernel &kernel, ScheduleGraph &graph, const LoopInfo &loop,
                                                     const std::set<Reg> &shared_masks, OverlapIterations overlap,
                                                     RowLoads loads) {
    return ModuloScheduler(kernel, shared_masks, overlap).run_evenly(kernel, graph, loop, loads);
}

}  // namespace atalla::codegen
