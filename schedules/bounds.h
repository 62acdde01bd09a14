// Lower bounds: the cycles below which no program can go, by arithmetic on the machine file alone. docs/bounds.md proves
// each term. Nothing here is shared with the generator, the tuner or the simulator.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "isa/machine.h"

namespace atalla {

// A bound is the largest of its terms. Unit: cycles on a hardware machine, packets on a functional one.
struct Bound {
    int64_t cycles = 0;
    std::string binding;                                 // name of the term that decides, the first of equals
    std::vector<std::pair<std::string, int64_t>> terms;  // name and value
    int64_t steady = 0;                                  // the same for a run behind others: no first packet, no way in or out
};

// The bound that these terms make. Error if there is none.
Bound largest_of(std::vector<std::pair<std::string, int64_t>> terms);
// The bound with one more term.
Bound with_term(Bound bound, const std::string &name, int64_t value);

// Which programs a bound covers.
enum class Programs {
    // The programs that weight-stationary tiling makes. One operand is stationary throughout. Weights change as whole
    // tiles of sa.cols vectors of one K block, and every tile is loaded the same number of times. Operands come from DRAM
    // through pads and vreg.ld, results leave through vreg.st and scpad.st. The sum over K blocks is kept in rows as the
    // array delivers them and formed by its partial-sum input where there is one, else by one add.vv a row.
    Tiled,
    // Every program without data-dependent control or addresses that gives the right bits for every input, infinities
    // and NaN included, computes each product of two blocks in one lane of a gemm.vv (or, if the blocks are one element
    // deep, wherever it likes) and each sum of two such products by one floating-point addition of the machine, and
    // fills vector registers from pads or, element by element, from scalar registers.
    Any,
};

struct GemmBoundOptions {
    int64_t batch = 1;   // independent products of the same shape, as in bmm
    int64_t addend = 0;  // elements, in all, of a tensor added to the result: n for a bias, m*n for C in addmm, 0: none
    Programs programs = Programs::Tiled;
    // False: what the resources need, without the ways in and out (Bound::steady); no latency, no last operand.
    bool cold = true;
};

// Bound for C[m,n] = A[m,k] B[k,n] (+ addend) in bf16, every tensor in DRAM before and after, no two overlapping, from a
// cold start. K is summed in blocks of sa.rows elements that start at multiples of sa.rows, each rounded to bf16 once,
// the addend after that. Which operand is stationary is free: the smaller bound of the two is taken.
//
// Terms for Tiled: dram, out of core, latency, array, visits, accumulate, pads, issue, last operand; a functional machine has
// array, accumulate and issue. Any has the same without pads, issue and last operand. Section 13 of the microarchitecture
// reference is the source of array, accumulate, dram and out of core; 13.1 that of visits. Error if a dimension is not positive
// or the product of all passes 10^14 multiplications.
Bound gemm_bound(const Machine &machine, int64_t m, int64_t n, int64_t k, const GemmBoundOptions &options = {});

// Section 13.1 for a given number of visits to each weight tile: `stationary` weight vectors a K block, `streamed` rows
// through each of them. gemm_bound takes the least over `visits`. Hardware machines, Programs::Tiled, batch 1.
int64_t visit_cycles(const Machine &machine, int64_t streamed, int64_t stationary, int64_t k, int64_t visits);

// Helpers for the bounds of other operators. All are 0 for no work.

// Cycles before the last of `bytes` bytes can have been asked for: whole aligned beats, at the rate of column commands,
// none during a refresh or while banks reopen after it (rules 35 to 38), none before the cycle `start`. Functional machine:
// transfers of whole tiles.
int64_t dram_cycles(const Machine &machine, int64_t bytes, int64_t start = 0);

// Vector operations by lane unit, each on vec.vl elements.
struct LaneWork {
    int64_t adds = 0;  // add, subtract, compare
    int64_t muls = 0;
    int64_t exps = 0;
    int64_t reductions = 0;  // rsum, rmin, rmax
};
int64_t lane_cycles(const Machine &machine, const LaneWork &work);

// What a kernel of any operator cannot avoid; every count is a least one.
struct KernelWork {
    int64_t bytes = 0;   // of tensors read and written, each element once
    LaneWork lanes;      // operations that only their unit can do
    int64_t copies = 0;  // lane operations that the adder and the multiplier can do, such as a masked copy
    int64_t rows_loaded = 0, rows_stored = 0;  // vreg.ld, vreg.st
    int64_t array_rows = 0, array_loads = 0, array_tiles = 0;
    bool reads = true;  // something comes from DRAM before the first result leaves
};

// Terms: dram, lanes, array, pads, issue, latency; a functional machine has array, lanes, dram and issue. docs/bounds.md.
Bound kernel_bound(const Machine &machine, const KernelWork &work);

// Cycles for `rows` reads, or as many writes, spread evenly over all pads (rule 28). Functional machine: vreg.* packets.
int64_t pad_cycles(const Machine &machine, int64_t rows);

// Cycles for `rows` gemm.vv and `loads` lw.vi in `tiles` runs of loads, each but the first sa.switch_spacing behind a row
// (rules 20, 24), to the result of the last row. Functional machine: packets.
int64_t array_cycles(const Machine &machine, int64_t rows, int64_t loads, int64_t tiles);

}  // namespace atalla
