#include "schedules/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr int64_t element_bytes = 2;  // bf16
constexpr int64_t most_multiplications = 100'000'000'000'000;

int64_t ceil_div(int64_t dividend, int64_t divisor) { return (dividend + divisor - 1) / divisor; }

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

int64_t beat_cycles(const Machine &machine, int64_t beats) {
    const auto &dram = machine.dram;
    const int64_t launch = ceil_div(beats, machine.bus.launches);
    const int64_t before_first_refresh = most_beats(machine, dram.refresh_interval);
    if (beats <= before_first_refresh) {
        return std::max(launch, least_cycles(machine, beats));
    }
    // A refresh closes all banks: the first column command after it also waits for a row to open (rules 37, 38).
    const int64_t closed = dram.refresh == 0 ? 0 : std::min(dram.refresh + dram.open_closed, dram.refresh_interval - 1);
    const int64_t per_interval = most_beats(machine, dram.refresh_interval - closed);
    const int64_t rest = beats - before_first_refresh;
    const int64_t intervals = ceil_div(rest, per_interval);
    const int64_t last = rest - (intervals - 1) * per_interval;
    return std::max(launch, intervals * dram.refresh_interval + closed + least_cycles(machine, last));
}

// Elements that the machine can hold outside DRAM: everything a value can be read back from, and what moves between
// pads and registers or pads and DRAM. Operations in flight need no room of their own: their destination is reserved.
int64_t elements_on_chip(const Machine &machine) {
    const auto &[regs, pad, vec] = std::tie(machine.regs, machine.pad, machine.vec);
    const int64_t scalar_elements = 4 / element_bytes * (regs.scalar + regs.mask);
    const int64_t rows_in_motion = 2 * pad.queue + machine.vlsu.store_queue + machine.sdma.store_rows_ahead;
    const int64_t pad_bytes = pad.bytes + rows_in_motion * pad.row_bytes + machine.sdma.outstanding * machine.sdma.beat;
    return (pad.count * pad_bytes + machine.dcache.bytes) / element_bytes + regs.vector * vec.vl + scalar_elements +
           machine.sa.weight_buffers * machine.sa.rows * machine.sa.cols;
}

// Elements that must cross the boundary of a fast memory of `capacity` elements: 2mnk/sqrt(S) - 2S (Smith, Lowery,
// Langou, van de Geijn: A tight I/O lower bound for matrix multiplication, arXiv 1702.02017).
int64_t least_transfers(int64_t multiplications, int64_t capacity) {
    const double size = static_cast<double>(capacity);
    const double transfers = 2.0 * static_cast<double>(multiplications) / std::sqrt(size) - 2.0 * size;
    return transfers <= 0 ? 0 : static_cast<int64_t>(transfers * (1 - 1e-12));
}

// ---- Array ----

// Cycles between the last row of a tile and the first load of the next in which the array is idle.
int64_t switch_gap(const Machine &machine) {
    return machine.sa.weight_buffers > 1 ? 0 : std::max<int64_t>(0, machine.sa.switch_spacing - 1);
}

// Cycles that a run of rows without loads loses per sa.credits rows (rule 23): a row that issues at t holds its credit
// for issues before t+L. Loads that need no gap can use these cycles.
int64_t credit_loss(const Machine &machine) {
    return machine.sa.weight_buffers > 1 ? 0 : std::max<int64_t>(0, machine.sa.L + machine.sa.credit_return - machine.sa.credits);
}

// Least number of times that one of `runs` runs, of `rows` rows together, waits for a credit.
int64_t credit_waits(const Machine &machine, int64_t rows, int64_t runs) {
    return std::max<int64_t>(0, ceil_div(rows, machine.sa.credits) - runs);
}

// ---- GEMM ----

struct Gemm {
    const Machine &machine;
    int64_t m, n, k;
    GemmBoundOptions options;

    int64_t k_blocks() const { return ceil_div(k, machine.sa.rows); }
    int64_t multiplications() const { return options.batch * m * n * k; }
    int64_t bytes() const { return element_bytes * (options.batch * (m * k + k * n + m * n) + options.addend); }
    // Vector additions of a machine without partial sums, for every result vector.
    int64_t additions() const { return k_blocks() - 1 + (options.addend > 0); }
};

// From reset to the end of the shortest dependence chain that loads an operand, multiplies on the array and stores.
int64_t latency_cycles(const Gemm &gemm) {
    const Machine &machine = gemm.machine;
    const auto &[dram, sdma, pad, vlsu, vec, ex5] =
        std::tie(machine.dram, machine.sdma, machine.pad, machine.vlsu, machine.vec, machine.ex5);
    const int64_t use = machine.wb.offer_to_use;
    // Looked up in cycle 0, requested in 1, row opened, column command, arrival, used in the cycle after (rules 2, 3).
    const int64_t first_issue = 1 + dram.open_closed + dram.complete + 1;
    // scpad.ld, its first beat, the row written, vreg.ld after the end (rules 28, 31, 32).
    const int64_t dma_in =
        sdma.setup + dram.complete + 1 + pad.write_land + 1 + vlsu.present + pad.read_L + vlsu.load_extra + use;
    // vreg.st, scpad.st in a later packet, the row read, its last beat complete (rules 33, 41, 53).
    const int64_t dma_out = 1 + sdma.setup + pad.read_L + sdma.load_extra + dram.complete + 1;
    const int64_t array = 1 + machine.sa.L + 1 + use;  // one lw.vi, the row, its result
    if (gemm.options.programs == Programs::Tiled) {
        return first_issue + dma_in + array + dma_out;
    }
    const int64_t scalar_load = ex5.load_hit + machine.dcache.miss_clean + 1 + use;
    const int64_t scalar_store = ex5.store_hit + 2;
    if (gemm.k == 1) {
        return first_issue + scalar_load + scalar_store;
    }
    const int64_t in = std::min(dma_in, scalar_load + std::min(vec.add_L, vec.mul_L) + 1 + use);
    const int64_t out = std::min(dma_out, vec.mov_to_scalar_L + 1 + use + scalar_store);
    return first_issue + in + array + out;
}

int64_t out_of_core_cycles(const Gemm &gemm) {
    return dram_cycles(gemm.machine, element_bytes * least_transfers(gemm.multiplications(), elements_on_chip(gemm.machine)));
}

// Programs::Tiled with one choice of the stationary operand.
struct Tiled {
    const Gemm &gemm;
    int64_t streamed, stationary;

    const Machine &machine() const { return gemm.machine; }
    int64_t column_tiles() const { return ceil_div(stationary, machine().sa.cols); }
    int64_t result_rows() const { return gemm.options.batch * streamed * column_tiles(); }
    int64_t rows() const { return result_rows() * gemm.k_blocks(); }
    int64_t loads() const { return gemm.options.batch * stationary * gemm.k_blocks(); }
    int64_t tiles() const { return gemm.options.batch * column_tiles() * gemm.k_blocks(); }
    int64_t operand_rows() const { return gemm.options.batch * (gemm.m + gemm.n) * gemm.k_blocks(); }
    int64_t lane_additions() const { return machine().sa.psum_in ? 0 : result_rows() * gemm.additions(); }

    int64_t issue_packets() const {
        const auto &issue = machine().issue;
        const int64_t vector_moves = operand_rows() + result_rows();
        // The functional machine's vreg.* reach main memory by themselves.
        const int64_t transfers = machine().timed() ? ceil_div(operand_rows(), machine().sdma.max_rows) +
                                                          ceil_div(result_rows(), machine().sdma.max_rows)
                                                    : 0;
        const int64_t halt = 1;
        const int64_t operations = rows() + loads() + lane_additions() + vector_moves + transfers + halt;
        return std::max(ceil_div(operations, issue.slots),
                        ceil_div(2 * vector_moves + 3 * transfers, issue.scalar_reads));  // read ports, isa reference 5.1
    }

    int64_t visits() const;
    Bound bound() const;
};

// The visits of one tile of weights, p of them, in which `streamed` rows pass through it. A visit lasts from its first load
// to the first load of the next.
struct TileVisits {
    const Machine &machine;
    int64_t streamed, p;

    // Cycles in which the array issues, waits for credits or for the weights to change.
    int64_t array(int64_t columns) const {
        return streamed + credit_loss(machine) * credit_waits(machine, streamed, p) + p * (columns + switch_gap(machine));
    }
    // Cycles of one pad that reads the vectors which no register (all but v0) can hold when the visits begin. `sums` rows
    // read a partial sum.
    int64_t reads(int64_t sums) const { return machine.pad.read_ii * (streamed + sums - p * (machine.regs.vector - 1)); }
};

// All visits of a product, in units of 1/pad.count cycles. Where the pads hold up one stretch of visits, the first and the
// last read of each pad may lie at its ends, which saves read_ii - 1 cycles a stretch.
int64_t all_visits(const Machine &machine, int64_t streamed, int64_t stationary, int64_t k_blocks, int64_t p) {
    const TileVisits tile{machine, streamed, p};
    const int64_t pads = machine.pad.count, columns = machine.sa.cols;
    const int64_t full = stationary / columns, tail = stationary % columns;
    const int64_t tiles = full + (tail > 0);
    const int64_t one_k_block = pads * (full * tile.array(columns) + (tail > 0 ? tile.array(tail) : 0));
    const int64_t by_array = k_blocks * one_k_block;
    if (!machine.sa.psum_in) {
        return by_array;
    }
    const int64_t ends = pads * (machine.pad.read_ii - 1);
    const int64_t sums_read = (k_blocks - 1) * tiles * tile.reads(streamed);
    // Pads hold up every visit, or every visit but those of the first K block, which read no sums.
    return std::max({by_array, tiles * tile.reads(0) + sums_read - ends, one_k_block + sums_read - ends * (tiles * p + 1)});
}

// Cycles for all visits of a program, given in units of 1/pad.count. The last has no gap behind it but waits for its last
// result.
int64_t visits_to_cycles(const Machine &machine, int64_t units) {
    const int64_t gap = switch_gap(machine);
    return ceil_div(units, machine.pad.count) - gap + std::min(gap, machine.sa.L);
}

// The least over the number of visits. As a function of it the time is a maximum of straight lines, so it falls, then
// rises: the least is where it first does not fall.
int64_t Tiled::visits() const {
    const auto time = [this](int64_t visits) { return all_visits(machine(), streamed, stationary, gemm.k_blocks(), visits); };
    int64_t low = 1, high = streamed;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (time(middle) <= time(middle + 1)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return visits_to_cycles(machine(), gemm.options.batch * time(low));
}

// Programs::Any. A row of the array serves up to sa.cols of the m*n products of two blocks, all in one row or all in one
// column of the result.
struct AnyProgram {
    const Gemm &gemm;

    const Machine &machine() const { return gemm.machine; }

    // K blocks that only the array can multiply: the product of one element each is also a plain product.
    int64_t array_blocks() const { return gemm.k / machine().sa.rows + (gemm.k % machine().sa.rows > 1); }

    // Rows that cover m*n products of one K block.
    int64_t rows_of_block() const {
        const int64_t columns = machine().sa.cols;
        const auto [narrow, wide] = std::minmax(gemm.m, gemm.n);
        if (narrow > columns) {
            return ceil_div(gemm.m * gemm.n, columns);
        }
        return narrow * (wide / columns) + std::min(narrow, wide % columns);
    }

    int64_t rows() const { return gemm.options.batch * array_blocks() * rows_of_block(); }
    // In the products of one K block either every row of A or every column of B is a weight of some product.
    int64_t loads() const { return gemm.options.batch * array_blocks() * std::min(gemm.m, gemm.n); }
    int64_t tiles() const { return ceil_div(loads(), machine().sa.cols); }
    int64_t lane_additions() const {
        return ceil_div(gemm.options.batch * gemm.m * gemm.n * gemm.additions(), machine().vec.vl);
    }

    int64_t accumulate() const;
    int64_t visits() const;
    Bound bound() const;
};

// The adder's share of the additions; the scalar unit EX3 and a reduction give one sum an operation.
int64_t AnyProgram::accumulate() const {
    if (machine().sa.psum_in || lane_additions() == 0) {
        return 0;
    }
    const auto rate = [this](int64_t ii) { return machine().timed() ? 1.0 / static_cast<double>(ii) : 1.0; };
    const double lanes = static_cast<double>(machine().vec.vl);
    const double per_cycle = rate(machine().vec.ii) + (rate(machine().ex3.ii) + rate(machine().vec.reduce_ii)) / lanes;
    // In the last interval each of the three units may finish one operation more than its rate says.
    return std::max<int64_t>(0, static_cast<int64_t>(std::floor(static_cast<double>(lane_additions() - 3) / per_cycle)));
}

// V visits cost the array V - 1 gaps and save the pads V register files of reads: the least over V of the longer of both.
int64_t AnyProgram::visits() const {
    if (tiles() == 0) {
        return 0;
    }
    const Machine &of = machine();
    const int64_t loss = std::min(credit_loss(of), switch_gap(of));  // keeps the array's time from falling as V grows
    const auto array = [&](int64_t visits) {
        return array_cycles(of, rows(), std::max(loads(), visits), visits) + loss * credit_waits(of, rows(), visits);
    };
    const int64_t array_depth = gemm.k - (gemm.k % of.sa.rows == 1);
    const int64_t streamed = gemm.options.batch * rows_of_block() * array_depth / of.vec.vl;
    const int64_t sums = gemm.options.batch * gemm.m * gemm.n * (gemm.k_blocks() - 1) / of.vec.vl;
    // Vectors a cycle from the pads, and element by element from scalar registers through ALU and MUL. The first ones
    // may come at once.
    const double per_cycle = static_cast<double>(of.pad.count) / static_cast<double>(of.pad.read_ii) +
                             2.0 / static_cast<double>(of.vec.ii * of.vec.vl);
    const auto reads = [&](int64_t visits) {
        const int64_t vectors = streamed + sums - visits * (of.regs.vector - 1) - of.pad.count - 2;
        return vectors <= 0 ? 0 : static_cast<int64_t>(std::floor(static_cast<double>(vectors) / per_cycle));
    };
    // The first V at which the array decides; the pads do one below it.
    int64_t low = tiles(), high = std::max(low, rows());
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (array(middle) >= reads(middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const int64_t here = std::max(array(low), reads(low));
    return low == tiles() ? here : std::min(here, reads(low - 1));
}

Bound AnyProgram::bound() const {
    const int64_t array = tiles() == 0 ? 0 : array_cycles(machine(), rows(), loads(), tiles());
    if (!machine().timed()) {
        return largest_of({{"array", array}, {"accumulate", accumulate()}, {"issue", 1}});  // the packet that halts
    }
    return largest_of({{"dram", dram_cycles(machine(), gemm.bytes())},
                       {"out of core", out_of_core_cycles(gemm)},
                       {"array", array},
                       {"visits", visits()},
                       {"accumulate", accumulate()},
                       {"latency", latency_cycles(gemm)}});
}

Bound Tiled::bound() const {
    const int64_t array = array_cycles(machine(), rows(), loads(), tiles());
    const int64_t accumulate = lane_cycles(machine(), {.adds = lane_additions()});
    if (!machine().timed()) {
        return largest_of({{"array", array}, {"accumulate", accumulate}, {"issue", issue_packets()}});
    }
    return largest_of({{"dram", dram_cycles(machine(), gemm.bytes())},
                       {"out of core", out_of_core_cycles(gemm)},
                       {"array", array},
                       {"visits", std::max(visits(), AnyProgram{gemm}.visits())},
                       {"accumulate", accumulate},
                       {"pads", pad_cycles(machine(), operand_rows() + result_rows())},
                       {"issue", issue_packets()},
                       {"latency", latency_cycles(gemm)}});
}

// The terms, largest first: of two choices that one term makes equal, the next term tells the better.
std::vector<int64_t> descending(const Bound &bound) {
    std::vector<int64_t> values;
    for (const auto &[name, value] : bound.terms) {
        values.push_back(value);
    }
    std::ranges::sort(values, std::greater());
    return values;
}

void check(int64_t m, int64_t n, int64_t k, const GemmBoundOptions &options) {
    for (const auto &[name, value] : {std::pair{"m", m}, {"n", n}, {"k", k}, {"batch", options.batch}}) {
        if (value < 1) {
            throw Error(fmt::format("the bound of a GEMM needs {} >= 1, not {}", name, value));
        }
    }
    if (options.addend < 0) {
        throw Error(fmt::format("the addend of a GEMM cannot have {} elements", options.addend));
    }
    int64_t product = options.batch;
    for (int64_t factor : {m, n, k, int64_t{1}}) {
        if (product > most_multiplications / factor) {
            throw Error(fmt::format("a GEMM of {} x {} x {} x {} is over {} multiplications, more than bounds are computed for",
                                    options.batch, m, n, k, most_multiplications));
        }
        product *= factor;
    }
    if (options.addend > most_multiplications) {
        throw Error(fmt::format("an addend of {} elements is larger than any result", options.addend));
    }
}

}  // namespace

Bound largest_of(std::vector<std::pair<std::string, int64_t>> terms) {
    if (terms.empty()) {
        throw Error("a bound needs at least one term");
    }
    const auto largest = std::ranges::max_element(terms, {}, &std::pair<std::string, int64_t>::second);
    Bound bound{largest->second, largest->first, {}};
    bound.terms = std::move(terms);
    return bound;
}

Bound gemm_bound(const Machine &machine, int64_t m, int64_t n, int64_t k, const GemmBoundOptions &options) {
    check(m, n, k, options);
    const Gemm gemm{machine, m, n, k, options};
    if (options.programs == Programs::Any) {
        return AnyProgram{gemm}.bound();
    }
    const Bound b_stationary = Tiled{gemm, m, n}.bound(), a_stationary = Tiled{gemm, n, m}.bound();
    return descending(a_stationary) < descending(b_stationary) ? a_stationary : b_stationary;
}

int64_t visit_cycles(const Machine &machine, int64_t streamed, int64_t stationary, int64_t k, int64_t visits) {
    check(streamed, stationary, k, {});
    if (visits < 1 || visits > streamed) {
        throw Error(fmt::format("{} rows cannot pass through a weight tile in {} visits", streamed, visits));
    }
    return visits_to_cycles(machine, all_visits(machine, streamed, stationary, ceil_div(k, machine.sa.rows), visits));
}

int64_t dram_cycles(const Machine &machine, int64_t bytes) {
    if (bytes <= 0) {
        return 0;
    }
    if (!machine.timed()) {
        const int64_t tile_bytes = element_bytes * machine.sdma.max_rows * machine.sdma.max_cols;
        const int64_t per_packet = std::min(machine.pad.count * machine.issue.sdma_per_pad, machine.issue.scalar_reads / 3);
        return ceil_div(ceil_div(bytes, tile_bytes), per_packet);
    }
    return beat_cycles(machine, ceil_div(bytes, std::max(machine.sdma.beat, machine.dcache.beat)));
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
    const auto &[dram, sdma, pad, vlsu, vec] = std::tie(machine.dram, machine.sdma, machine.pad, machine.vlsu, machine.vec);
    const int64_t use = machine.wb.offer_to_use;
    int64_t cycles = 1 + dram.open_closed + dram.complete + 1;                       // the first packet (rules 2, 3)
    if (work.reads) cycles += sdma.setup + dram.complete + 1 + pad.write_land + 1;   // scpad.ld (rules 31, 32)
    if (work.reads && work.rows_loaded > 0) cycles += vlsu.present + pad.read_L + vlsu.load_extra + use;
    const bool computes = work.lanes.adds + work.lanes.muls + work.lanes.exps + work.lanes.reductions > 0;
    if (computes && work.rows_stored > 0) cycles += 1 + std::min({vec.add_L, vec.mul_L, vec.cmp_L, vec.exp_L}) + use;
    return cycles + sdma.setup + pad.read_L + sdma.load_extra + dram.complete + 1;   // scpad.st (rules 33, 41)
}

}  // namespace

Bound kernel_bound(const Machine &machine, const KernelWork &work) {
    const LaneWork lanes = balanced(work);
    const int64_t operations = lanes.adds + lanes.muls + lanes.exps + lanes.reductions + work.array_rows + work.array_loads + work.rows_loaded + work.rows_stored;
    const int64_t issue = ceil_div(operations, machine.issue.slots);
    const int64_t array = array_cycles(machine, work.array_rows, work.array_loads, work.array_tiles);
    std::vector<std::pair<std::string, int64_t>> terms = {{"dram", dram_cycles(machine, work.bytes)}, {"lanes", lane_cycles(machine, lanes)}, {"array", array}};
    terms.emplace_back("pads", std::max(pad_cycles(machine, work.rows_loaded), pad_cycles(machine, work.rows_stored)));
    terms.emplace_back("issue", issue);
    if (machine.timed() && work.bytes > 0) terms.emplace_back("latency", shortest_way(machine, work));
    return largest_of(std::move(terms));
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
    return operations + switch_gap(machine) * switches + machine.sa.L;
}

}  // namespace atalla
