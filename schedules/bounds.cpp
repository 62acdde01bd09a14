#include "schedules/bounds.h"

#include <algorithm>

#include "isa/error.h"
#include "isa/vectors.h"
#include "schedules/chains.h"

namespace atalla {

namespace {

constexpr int64_t element_bytes = 2;  // bf16

// From the issue of an operation with latency L to the end of a run that waits for its result: execute from t+1, offered
// and written at t+1+L, and the run lasts one cycle more (rules 10 and 41).
constexpr int64_t cycles_to_end(int64_t latency) { return latency + 3; }

// `count` operations on a unit that accepts one every `ii` cycles.
int64_t unit_cycles(int64_t count, int64_t ii, int64_t latency) {
    return count == 0 ? 0 : (count - 1) * ii + std::min(ii, cycles_to_end(latency));
}

// ---- DRAM ----

// Column commands with rows open in all banks: dram.cas apart, dram.cas_same_group apart within a group (rule 36). Of any
// groups+1 in a row two share a group, so `groups` of them fill one round of this many cycles.
int64_t round_cycles(const Machine &machine) {
    return std::max(machine.dram.cas_same_group, machine.dram.groups * machine.dram.cas);
}

// Most column commands in `cycles` >= 1 consecutive cycles.
int64_t most_beats(const Machine &machine, int64_t cycles) {
    const int64_t rounds = (cycles - 1) / round_cycles(machine), rest = (cycles - 1) % round_cycles(machine);
    return rounds * machine.dram.groups + std::min(machine.dram.groups, rest / machine.dram.cas + 1);
}

// Least number of consecutive cycles for `beats` >= 1 column commands.
int64_t least_cycles(const Machine &machine, int64_t beats) {
    const int64_t rounds = (beats - 1) / machine.dram.groups, rest = (beats - 1) % machine.dram.groups;
    return rounds * round_cycles(machine) + rest * machine.dram.cas + 1;
}

// The cycle after the last of `beats` >= 1 column commands, none of them before the cycle `start`.
int64_t beats_end(const Machine &machine, int64_t start, int64_t beats) {
    const auto &dram = machine.dram;
    start = start < dram.refresh_interval ? start : 0;
    const int64_t launch = start + ceil_div(beats, machine.bus.launches);
    const int64_t before_first_refresh = most_beats(machine, dram.refresh_interval - start);
    if (beats <= before_first_refresh) {
        return std::max(launch, start + least_cycles(machine, beats));
    }
    // A refresh closes all banks: the first column command after it also waits for a row to open (rules 37, 38).
    const int64_t closed = dram.refresh == 0 ? 0 : std::min(dram.refresh + dram.open_closed, dram.refresh_interval - 1);
    const int64_t per_interval = most_beats(machine, dram.refresh_interval - closed);
    const int64_t rest = beats - before_first_refresh;
    const int64_t intervals = ceil_div(rest, per_interval);
    const int64_t last = rest - (intervals - 1) * per_interval;
    return std::max(launch, intervals * dram.refresh_interval + closed + least_cycles(machine, last));
}

}  // namespace

Bound largest_of(std::vector<std::pair<std::string, int64_t>> terms) {
    if (terms.empty()) {
        throw Error("a bound needs at least one term");
    }
    const auto largest = std::ranges::max_element(terms, {}, &std::pair<std::string, int64_t>::second);
    Bound bound{largest->second, largest->first, {}};
    bound.terms = std::move(terms);
    bound.steady = bound.cycles;
    return bound;
}

Bound with_term(Bound bound, const std::string &name, int64_t value) {
    const int64_t steady = std::max(bound.steady, value);
    bound.terms.emplace_back(name, value);
    bound = largest_of(std::move(bound.terms));
    bound.steady = steady;
    return bound;
}

int64_t dram_cycles(const Machine &machine, int64_t bytes, int64_t start) {
    if (bytes <= 0) {
        return start;
    }
    if (!machine.timed()) {
        const int64_t tile_bytes = element_bytes * machine.sdma.max_rows * machine.sdma.max_cols;
        const int64_t per_packet = std::min(machine.pad.count * machine.issue.sdma_per_pad, machine.issue.scalar_reads / 3);
        return ceil_div(ceil_div(bytes, tile_bytes), per_packet);
    }
    return beats_end(machine, start, ceil_div(bytes, std::max(machine.sdma.beat, machine.dcache.beat)));
}

int64_t lane_cycles(const Machine &machine, const LaneWork &work) {
    const int64_t operations = work.adds + work.muls + work.exps + work.reductions;
    const int64_t issue = ceil_div(operations, machine.issue.lane_ops);
    if (!machine.timed()) {
        return std::max({issue, work.adds, work.muls, work.exps, work.reductions});
    }
    const auto &vec = machine.vec;
    return std::max({issue, unit_cycles(work.adds, vec.ii, std::min(vec.add_L, vec.cmp_L)),
                     unit_cycles(work.muls, vec.ii, vec.mul_L), unit_cycles(work.exps, vec.ii, vec.exp_L),
                     unit_cycles(work.reductions, vec.reduce_ii, vec.reduce_L)});
}

namespace {

// Lane operations with the free ones where they cost least.
LaneWork balanced(const KernelWork &work) {
    LaneWork lanes = work.lanes;
    const int64_t to_muls = std::clamp<int64_t>((lanes.adds + work.copies - lanes.muls) / 2, 0, work.copies);
    lanes.muls += to_muls;
    lanes.adds += work.copies - to_muls;
    return lanes;
}

// From reset to the end of the shortest way through the chip: in by DMA, a vector operation if any, out by DMA.
int64_t shortest_way(const Machine &machine, const KernelWork &work) {
    const Chains chains(machine);
    const auto &[sdma, pad, vec] = std::tie(machine.sdma, machine.pad, machine.vec);
    int64_t cycles = chains.first_packet + chains.constant;
    if (work.reads)
        cycles += chains.transfer + (work.rows_loaded > 0 ? chains.beat_to_vector : chains.arrival + 1 + pad.write_land + 1);
    const bool computes = work.lanes.adds + work.lanes.muls + work.lanes.exps + work.lanes.reductions > 0;
    if (computes && work.rows_stored > 0)
        cycles += std::min({vec.add_L, vec.mul_L, vec.cmp_L, vec.exp_L}) + 1 + machine.wb.offer_to_use;
    return cycles + chains.transfer + pad.read_L + sdma.load_extra + chains.arrival + 1;
}

// What a cold start adds to a resource's work: nothing is at hand before the first operand has come, and what the last
// operation makes must leave. Elements may come and go through scalar registers.
Bound cold_bound(const Machine &machine, const KernelWork &work, Bound steady) {
    const Chains chains(machine);
    const auto cold = [&](const std::string &name, int64_t value) {
        if (value == 0 || name == "latency") return value;
        if (name == "dram") return dram_cycles(machine, work.bytes, chains.first_packet + 1) + chains.arrival;
        if (name == "issue") return chains.first_packet + value;
        if (!work.reads) return value;
        if (name == "array") return chains.any_vector() + value + 1 + machine.wb.offer_to_use + chains.element_to_end;
        if (name == "lanes") return chains.any_scalar() + value;
        return chains.first_packet + value;
    };
    Bound bound = steady;
    for (auto &[name, value] : bound.terms) value = cold(name, value);
    bound = largest_of(std::move(bound.terms));
    bound.steady = steady.cycles;
    return bound;
}

}  // namespace

Bound kernel_bound(const Machine &machine, const KernelWork &work) {
    const LaneWork lanes = balanced(work);
    const int64_t operations = lanes.adds + lanes.muls + lanes.exps + lanes.reductions + work.array_rows + work.array_loads +
                               work.rows_loaded + work.rows_stored;
    const int64_t issue = ceil_div(operations, machine.issue.slots);
    const int64_t array = array_cycles(machine, work.array_rows, work.array_loads, work.array_tiles);
    std::vector<std::pair<std::string, int64_t>> terms = {
        {"dram", dram_cycles(machine, work.bytes)}, {"lanes", lane_cycles(machine, lanes)}, {"array", array}};
    terms.emplace_back("pads", std::max(pad_cycles(machine, work.rows_loaded), pad_cycles(machine, work.rows_stored)));
    terms.emplace_back("issue", issue);
    if (!machine.timed()) return largest_of(std::move(terms));
    const Bound steady = largest_of(terms);
    if (work.bytes > 0) terms.emplace_back("latency", shortest_way(machine, work));
    Bound bound = cold_bound(machine, work, largest_of(std::move(terms)));
    bound.steady = steady.cycles;
    return bound;
}

int64_t pad_cycles(const Machine &machine, int64_t rows) {
    if (rows <= 0) {
        return 0;
    }
    const auto &[pad, issue] = std::tie(machine.pad, machine.issue);
    if (!machine.timed()) {
        return ceil_div(rows, std::min(pad.count * issue.vlsu_per_pad, issue.scalar_reads / 2));
    }
    // A row that starts last is still in the pad for the latency of the direction that is quicker.
    const int64_t ii = std::min(pad.read_ii, pad.write_ii);
    return (ceil_div(rows, pad.count) - 1) * ii + std::min(ii, 1 + std::min(pad.read_L, pad.write_land));
}

int64_t array_cycles(const Machine &machine, int64_t rows, int64_t loads, int64_t tiles) {
    const int64_t operations = ceil_div(rows + loads, machine.issue.array_ops);
    if (!machine.timed() || operations == 0) {
        return operations;
    }
    const int64_t switches = std::max<int64_t>(0, tiles - 1);
    return operations + Chains(machine).switch_gap * switches + machine.sa.L;
}

}  // namespace atalla
