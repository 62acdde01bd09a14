#include "generators/gemm_least_cycles.h"

#include <algorithm>

#include "generators/gemm_plan.h"
#include "isa/vectors.h"
#include "schedules/bounds.h"
#include "schedules/chains.h"

namespace atalla {

namespace {

constexpr int64_t element_bytes = 2;

// Bytes that cross the bus. What the inner loop of the blocks walks over comes again for each pass of it, but for what
// stays in the pads; where k tiles come in parts inside a block, both come for each block. Rows of A that the kernel makes are
// made once.
int64_t bytes(const GemmShape &shape, const GemmPlan &plan) {
    const bool whole = plan.k_block == plan.k_tiles || plan.k_outer;
    const int64_t passes_a = shape.inner                                                    ? 0
                             : shape.prologue || plan.a_resident || (whole && plan.m_outer) ? 1
                                                                                            : plan.col_blocks;
    const int64_t passes_b = whole && (!plan.m_outer || plan.b_resident) ? 1 : plan.row_blocks;
    return element_bytes * (shape.m * shape.k * passes_a + shape.n * shape.k * passes_b + shape.m * shape.n);
}

}  // namespace

int64_t gemm_least_cycles(const GemmShape &shape, const Machine &machine, const Point &point) {
    if (!shape.batch.empty()) return 0;
    const GemmPlan plan(shape, machine, point);
    // Blocks are whole: the last ones overlap those before. Weights that are the same from one block of rows to the next might
    // stay.
    const int64_t streamed = plan.row_blocks * plan.rows, width = std::min<int64_t>(shape.n, lanes);
    const int64_t visits = plan.k_tiles == 1 && !plan.m_outer ? 1 : plan.row_blocks, tiles = plan.col_blocks * plan.k_tiles;
    const int64_t array = array_cycles(machine, streamed * tiles, visits * tiles * width, visits * tiles);
    const int64_t sums = machine.sa.psum_in ? 0 : streamed * plan.col_blocks * (plan.k_tiles - 1);
    const int64_t accumulate = lane_cycles(machine, {.adds = sums});
    if (!machine.timed()) return std::max(array, accumulate);
    const Chains chains(machine);
    const int64_t start = chains.any_vector(), out = chains.row_to_vector - machine.sa.L - 1 + chains.any_end();
    const int64_t by_visits = visit_cycles(machine, streamed, plan.col_blocks * width, shape.k, visits);
    const int64_t dram = dram_cycles(machine, bytes(shape, plan), chains.first_packet + 1) + chains.arrival;
    return std::max(
        {start + array + out, start + by_visits, dram, sums > 0 ? start + 1 + chains.row_to_vector + accumulate : 0});
}

}  // namespace atalla
