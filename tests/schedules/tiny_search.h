// Exhaustive schedulers for GEMMs of a few elements on machines of a few elements: the true optimum that a lower bound
// must not pass. They know the resource rules of the machine and nothing of the bounds' formulas. Every latency but the
// array's is zero and every resource that a search does not name is unlimited, so an optimum found here is at most that
// of the whole machine.
#pragma once

#include <cstdint>

#include "isa/machine.h"

namespace atalla::tiny {

struct Problem {
    int m, n, k_blocks;
    // Weights change as whole tiles of one K block, columns in order, B stationary, each tile loaded `visits` times.
    bool tiled = false;
    int visits = 1;
};

// Array alone: lw.vi shifts one vector in, gemm.vv multiplies one vector with the sa.cols newest; one operation a cycle,
// weight spacing, credits. Operands are at hand and sums are free.
// Returns the cycle count with which the last product is a result.
int64_t array_optimum(const Machine &machine, const Problem &problem);

// Registers, pad reads, array and sums together: rows read their operand and (with sa.psum_in) their partial sum from
// registers, which vreg.ld fills from pads, one read per pad and pad.read_ii cycles; results are kept in a register or
// not and are in a pad in any case. add.vv sums registers, one per vec.ii cycles, but for tiled programs with sa.psum_in.
// With `dram`, operands and results also need their DRAM beats of one vector each, one a cycle, and a result a read of its
// pad; else all operands lie in the pads and results stay there.
// Returns the least cycle count, or `limit` + 1 if no schedule takes `limit` cycles or fewer.
int64_t dataflow_optimum(const Machine &machine, const Problem &problem, bool dram, int64_t limit);

// A cold run of a tiled program with one visit a tile: the first packet, DRAM beats of one vector each, one a cycle, the array,
// the adder (without sa.psum_in) and every latency on the way in and out; all else is unlimited. Every order of beats, of tiles
// and of the rows of a tile is tried, everything as early as that order allows. Returns the least cycle count of a run.
int64_t cold_optimum(const Machine &machine, const Problem &problem);

}  // namespace atalla::tiny
