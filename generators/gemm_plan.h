// What a point of the schedule space means for a matrix product: the loops that gemm() makes of it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "generators/gemm.h"
#include "isa/machine.h"
#include "isa/vectors.h"
#include "schedules/point.h"

namespace atalla {

struct GemmPlan {
    GemmPlan(const GemmShape &shape, const Machine &machine, const Point &point)
        : rows(std::min(point["rows"], shape.m)),
          row_blocks(ceil_div(shape.m, rows)),
          col_blocks(ceil_div(shape.n, lanes)),
          k_tiles(shape.k_tiles()),
          pass(pass_rows(point, rows)),
          stored_rows(ceil_div(pass, machine.pad.count) * machine.pad.count),
          k_block(std::min(point["k_block"], k_tiles)),
          k_outer(point.contains("k_outer") && point["k_outer"] != 0),
          streamed(point.contains("streamed") && point["streamed"] != 0),
          slots(point["slots"]),
          sums_in_registers(point["sums_in_registers"] != 0),
          m_outer(point["m_outer"] != 0),
          straight(point["blocks_unrolled"] != 0),
          turns_inside(point.contains("b_turned") && point["b_turned"] != 0),
          alike(turns_inside || (point.contains("k_alike") && point["k_alike"] != 0)),
          deferred(point.contains("deferred") && point["deferred"] != 0),
          visits(k_tiles - !alike),
          a_resident(point.contains("a_resident") && point["a_resident"] != 0 && row_blocks > 1),
          b_resident(point["b_resident"] != 0 && col_blocks > 1),
          c_whole(point.contains("c_whole") && point["c_whole"] != 0 && col_blocks > 1),
          whole_rounds(point["rows"] > shape.m),
          ahead(machine.timed() && k_block == k_tiles),
          bias_at_once(shape.starts_with_bias() && shape.n % lanes == 0 && (slots == 1 || has_room_for_bias(shape, machine))) {}

    // So many k tiles may each be a loop over rows, which makes results as it multiplies.
    static constexpr int64_t row_loop_tiles = 2;
    // Does the bias take a small part of the pads, in front of a loop over k tiles? Loops over rows are faster with a block's.
    static bool has_room_for_bias(const GemmShape &shape, const Machine &machine) {
        constexpr int64_t small_part = 16;
        return shape.k_tiles() > row_loop_tiles && shape.n * small_part <= machine.pad.count * machine.pad_rows() * lanes;
    }

    // Rows of a block that pass through the pads at once.
    static int64_t pass_rows(const Point &point, int64_t rows) {
        return point["row_pass"] > 0 ? std::min(point["row_pass"], rows) : rows;
    }

    // Rows of the block before in each visit of a deferred epilogue, and the room that those of all visits take.
    int64_t deferred_rows() const { return ceil_div(rows, visits - 1); }
    int64_t waiting_rows() const { return deferred ? deferred_rows() * visits : stored_rows; }

    int64_t rows, row_blocks, col_blocks, k_tiles;
    int64_t pass, stored_rows;  // rows that are in the pads at once, and the room that they take
    int64_t k_block;            // k tiles that come at once
    bool k_outer;               // all columns of a block of rows pass between two of these, their sums wait in the pads
    bool streamed;              // all columns pass for each k tile, beside B that comes; their sums wait in the pads
    int64_t slots;              // of each buffer that transfers fill or empty
    bool sums_in_registers, m_outer;
    bool straight;                // no loops over blocks
    bool turns_inside;            // the loop over k tiles transposes those of B
    bool alike;                   // the first k tile has no code of its own
    bool deferred;                // the epilogue runs beside the next block's product
    int64_t visits;               // of the array in the loop over k tiles
    bool a_resident, b_resident;  // all of it stays in the pads
    bool c_whole;                 // results of all columns of a block of rows leave together
    bool whole_rounds;            // the loops over the only block of rows go a few rows further, to whole rounds of the pads
    bool ahead;                   // operands come a block ahead, in two slots
    bool bias_at_once;            // all of the bias, which the first sums wait for: a block's would wait for engines
};

}  // namespace atalla
