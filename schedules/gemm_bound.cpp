#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <tuple>

#include "isa/error.h"
#include "isa/vectors.h"
#include "schedules/bounds.h"
#include "schedules/chains.h"
#include "schedules/product_work.h"

namespace atalla {

namespace {

constexpr int64_t element_bytes = 2;  // bf16
constexpr int64_t most_multiplications = 100'000'000'000'000;

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

int64_t switch_gap(const Machine &machine) { return Chains(machine).switch_gap; }

// Cycles that a run of rows without loads loses per sa.credits rows (rule 23): a row that issues at t holds its credit
// for issues before t+L. Loads that need no gap can use these cycles.
int64_t credit_loss(const Machine &machine) {
    return machine.sa.weight_buffers > 1 ? 0
                                         : std::max<int64_t>(0, machine.sa.L + machine.sa.credit_return - machine.sa.credits);
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
    // Every product passes through an addition of the adder, if there is one.
    int64_t sum_latency() const { return machine.sa.psum_in || additions() == 0 ? 0 : Chains(machine).sum_to_vector; }
};

// From reset to the end of the shortest dependence chain that loads an operand, multiplies on the array and stores.
int64_t latency_cycles(const Gemm &gemm) {
    const Chains chains(gemm.machine);
    const int64_t load = 1;  // one lw.vi
    if (gemm.options.programs == Programs::Tiled) {
        return chains.first_beat() + chains.beat_to_vector + load + chains.row_to_vector + gemm.sum_latency() +
               chains.vector_to_end;
    }
    if (gemm.k == 1) {
        return chains.first_packet + chains.scalar_load + chains.scalar_store;
    }
    return chains.any_vector() + load + chains.row_to_vector + chains.any_end();
}

// The count of transfers beyond the pads' capacity; with a start, when they have come.
int64_t out_of_core_cycles(const Gemm &gemm, int64_t start) {
    const int64_t bytes = element_bytes * least_transfers(gemm.multiplications(), elements_on_chip(gemm.machine));
    return bytes == 0 ? 0 : dram_cycles(gemm.machine, bytes, start) + (start > 0 ? gemm.machine.dram.complete : 0);
}

// The sizes of the pieces of at most `piece` elements that `length` is cut into.
std::vector<int64_t> whole_and_rest(int64_t length, int64_t piece) {
    if (length <= piece || length % piece == 0) {
        return {std::min(length, piece)};
    }
    return {piece, length % piece};
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

    // Choices of the first tile that change when work can begin: its weight vectors, and how deep its K block is.
    std::vector<int64_t> tile_widths() const { return whole_and_rest(stationary, machine().sa.cols); }
    std::vector<int64_t> block_depths() const { return whole_and_rest(gemm.k, machine().sa.rows); }

    int64_t array_start(const Chains &chains) const;
    int64_t first_sum(const Chains &chains) const;
    int64_t last_operand(const Chains &chains) const;
    Bound cold_bound() const;
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
    if (!gemm.options.cold) {
        return largest_of({{"dram", dram_cycles(machine(), gemm.bytes())},
                           {"out of core", out_of_core_cycles(gemm, 0)},
                           {"array", array},
                           {"visits", visits()},
                           {"accumulate", accumulate()}});
    }
    const Chains chains(machine());
    const int64_t start = chains.first_packet + 1, row = array > 0 ? chains.any_vector() : 0;
    const int64_t first_sum = array > 0 ? row + 1 + chains.row_to_vector : 0;
    return largest_of({{"dram", dram_cycles(machine(), gemm.bytes(), start) + chains.arrival},
                       {"out of core", out_of_core_cycles(gemm, start)},
                       {"array", array > 0 ? row + array + chains.row_to_vector - machine().sa.L - 1 + chains.any_end() : 0},
                       {"visits", array > 0 ? row + visits() : 0},
                       {"accumulate", accumulate() > 0 ? first_sum + accumulate() : 0},
                       {"latency", latency_cycles(gemm)}});
}

// The earliest cycle in which the first tile's loads could begin if nothing held them up: the tile and one vector to stream
// have come, its loads are issued, then the first row.
int64_t Tiled::array_start(const Chains &chains) const {
    int64_t start = INT64_MAX;
    for (int64_t width : tile_widths()) {
        for (int64_t depth : block_depths()) {
            const int64_t last_beat = dram_cycles(machine(), element_bytes * (width + 1) * depth, chains.first_beat()) - 1;
            const int64_t row = std::max(last_beat, chains.first_beat() + width) + chains.beat_to_vector;
            start = std::min(start, row - width);
        }
    }
    return start;
}

// The earliest cycle in which two products of one row of the result can be added, or one and the addend.
int64_t Tiled::first_sum(const Chains &chains) const {
    int64_t sum = INT64_MAX;
    const auto depths = block_depths();
    const bool two = gemm.k_blocks() > 1;
    for (int64_t width : tile_widths()) {
        const int64_t depth = depths.back() + (two ? depths.front() : 0);
        const int64_t last_beat = dram_cycles(machine(), element_bytes * (width + 1) * depth, chains.first_beat()) - 1;
        const int64_t array = width + (two ? 1 + chains.switch_gap + width : 0);
        const int64_t row = std::max(last_beat, chains.first_beat() + array) + chains.beat_to_vector;
        sum = std::min(sum, row + chains.row_to_vector);
    }
    return sum;
}

// What follows the last beat that comes in. A streamed vector must still meet every tile of its K block, a weight every row;
// the addend must be added.
int64_t Tiled::last_operand(const Chains &chains) const {
    const int64_t operands = gemm.bytes() - element_bytes * gemm.options.batch * gemm.m * gemm.n;
    const int64_t last_beat = dram_cycles(machine(), operands, chains.first_beat()) - 1;
    const int64_t sums = gemm.sum_latency(), tiles = column_tiles();
    const int64_t pace = sums > 0 ? machine().vec.ii : 1;
    const int64_t streamed_last = (tiles - 1) * (chains.switch_gap + 1) + stationary - std::min(stationary, machine().sa.cols);
    const int64_t weight_last = 1 + (streamed - 1) * pace;
    int64_t rest = std::min(streamed_last, weight_last) + chains.row_to_vector + sums;
    if (gemm.options.addend > 0) {
        rest = std::min(rest, sums > 0 ? sums : chains.row_to_vector);
    }
    return last_beat + chains.beat_to_vector + rest + chains.vector_to_end;
}

Bound Tiled::cold_bound() const {
    const Chains chains(machine());
    const int64_t beat = chains.first_beat(), start = array_start(chains);
    // From the issue of the last row to the end.
    const int64_t row_to_end = chains.row_to_vector + gemm.sum_latency() + chains.vector_to_end;
    const int64_t array = array_cycles(machine(), rows(), loads(), tiles()) - machine().sa.L;
    const int64_t by_visits = visits() - std::min(chains.switch_gap, machine().sa.L);
    const AnyProgram any{gemm};
    const int64_t adds = lane_additions();
    const auto &pad = machine().pad;
    const int64_t reads = ceil_div(operand_rows() + result_rows(), pad.count) - 1;
    const int64_t pad_to_vector = pad.read_L + machine().vlsu.load_extra + machine().wb.offer_to_use;
    return largest_of(
        {{"dram", dram_cycles(machine(), gemm.bytes(), beat) + chains.arrival},
         {"out of core", out_of_core_cycles(gemm, beat)},
         {"latency", latency_cycles(gemm)},
         {"array", start + array - 1 + row_to_end},
         {"visits", std::max(start + by_visits - 1 + row_to_end, chains.any_vector() + any.visits())},
         {"accumulate",
          adds == 0 ? 0 : first_sum(chains) + (adds - 1) * machine().vec.ii + chains.sum_to_vector + chains.vector_to_end},
         {"pads", beat + chains.beat_to_vector - pad_to_vector + reads * std::min(pad.read_ii, pad.write_ii) + pad.read_L +
                      machine().sdma.load_extra + chains.arrival + 1},
         {"issue", chains.first_packet + issue_packets()},
         {"last operand", last_operand(chains)}});
}

Bound Tiled::bound() const {
    const int64_t array = array_cycles(machine(), rows(), loads(), tiles());
    const int64_t accumulate = lane_cycles(machine(), {.adds = lane_additions()});
    if (!machine().timed()) {
        return largest_of({{"array", array}, {"accumulate", accumulate}, {"issue", issue_packets()}});
    }
    if (gemm.options.cold) {
        return cold_bound();
    }
    return largest_of({{"dram", dram_cycles(machine(), gemm.bytes())},
                       {"out of core", out_of_core_cycles(gemm, 0)},
                       {"array", array},
                       {"visits", std::max(visits(), AnyProgram{gemm}.visits())},
                       {"accumulate", accumulate},
                       {"pads", pad_cycles(machine(), operand_rows() + result_rows())},
                       {"issue", issue_packets()}});
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

Bound gemm_bound(const Machine &machine, int64_t m, int64_t n, int64_t k, const GemmBoundOptions &options) {
    check(m, n, k, options);
    const auto bound_of = [&](const GemmBoundOptions &how) {
        const Gemm gemm{machine, m, n, k, how};
        if (how.programs == Programs::Any) {
            return AnyProgram{gemm}.bound();
        }
        const Bound b_stationary = Tiled{gemm, m, n}.bound(), a_stationary = Tiled{gemm, n, m}.bound();
        return descending(a_stationary) < descending(b_stationary) ? a_stationary : b_stationary;
    };
    GemmBoundOptions steady = options;
    steady.cold = false;
    Bound bound = bound_of(options);
    bound.steady = options.cold ? bound_of(steady).cycles : bound.cycles;
    return bound;
}

KernelWork product_work(const Machine &machine, int64_t m, int64_t n, int64_t k, bool added, bool comes) {
    check(m, n, k, {});
    const Gemm gemm{machine, m, n, k, {.addend = added}};
    const Tiled b_stationary{gemm, m, n}, a_stationary{gemm, n, m};
    const int64_t gap = machine.timed() ? switch_gap(machine) : 0;
    const auto on_array = [gap](const Tiled &tiled) { return tiled.rows() + tiled.loads() + gap * tiled.tiles(); };
    const Tiled &tiled = on_array(a_stationary) < on_array(b_stationary) ? a_stationary : b_stationary;
    KernelWork work;
    work.array_rows = tiled.rows();
    work.array_loads = tiled.loads();
    work.array_tiles = tiled.tiles();
    // Whichever operand is stationary.
    work.lanes.adds = std::min(a_stationary.lane_additions(), b_stationary.lane_additions());
    work.rows_loaded = (n + (comes ? m : 0)) * gemm.k_blocks();
    work.rows_stored = std::min(a_stationary.result_rows(), b_stationary.result_rows());
    return work;
}

int64_t visit_cycles(const Machine &machine, int64_t streamed, int64_t stationary, int64_t k, int64_t visits) {
    check(streamed, stationary, k, {});
    if (visits < 1 || visits > streamed) {
        throw Error(fmt::format("{} rows cannot pass through a weight tile in {} visits", streamed, visits));
    }
    return visits_to_cycles(machine, all_visits(machine, streamed, stationary, ceil_div(k, machine.sa.rows), visits));
}

}  // namespace atalla
