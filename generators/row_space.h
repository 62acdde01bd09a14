// Schedules of kernels that work along the rows of a matrix: their space, what they are taken to cost, and how a point lays
// rows out.
#pragma once

#include <cstdint>
#include <string>

#include "isa/machine.h"
#include "isa/vectors.h"
#include "schedules/point.h"
#include "schedules/space.h"

namespace atalla {

// A matrix of `rows` rows of `length` elements, dense.
struct RowShape {
    int64_t rows = 0, length = 0;
    // Of rows that the pads do not hold: vectors that come at a time, a part of a row, once for each pass over it. The sum of a
    // part is rounded. 0: rows are in the pads.
    int64_t part = 0;
    // All blocks of a sum are added one after the other, in float32.
    bool flat = false;
    // Parts of long rows have 16 vectors, not 32 at the most: with_short_parts().
    bool short_parts = false;
    // In the pads: those of a row that is too long for straight-line code are as many as equal parts have, the last of which
    // may end in vectors of no elements.
    int64_t vectors() const {
        const int64_t least = tiles_of(length);
        if (part > 0) return round_up(least, part);
        if (short_parts) return round_up(least, lanes / 2);
        return has_parts() ? round_up(least, tiles_of(least)) : least;
    }
    bool has_parts() const {
        constexpr int64_t most_straight = 42;
        return !flat && tiles_of(length) > most_straight;
    }
    bool whole_vectors() const { return length == vectors() * lanes; }
    // Few enough vectors for the reduction unit to sum them: it takes one at a time, the array one a cycle once its weights are
    // there.
    bool is_short() const { return vectors() <= 4; }
    int64_t parts() const { return part > 0 ? vectors() / part : fills_array() ? equal_parts() : 0; }
    // Enough vectors, in equal parts of at most 32, for a part to be the weights of the array and one row of ones to sum them
    // all.
    bool fills_array() const { return !flat && vectors() >= 12 && vectors() % equal_parts() == 0; }

private:
    int64_t equal_parts() const { return short_parts ? vectors() / (lanes / 2) : tiles_of(vectors()); }
};

// For passes that may be one loop (`skewed`) whose iteration is a part of a row, the weights of the array for its sum: of many
// vectors in many rows the parts are so short that the loop and the code around it fit the instruction cache.
RowShape with_short_parts(RowShape shape);

// What the steps of a row cost, for the draft model and the constraints of a space.
struct RowCost {
    double adds = 0, muls = 0, exps = 0;  // lane operations a vector
    double waiting_adds = 0;    // those that are made once where all passes are one loop, whose values wait for the next
    double passes = 0;          // loops over a row, one after the other
    double sums = 0;            // sums of a row
    double latency = 0;         // cycles from the first load of a row to its last store, beside those of its lanes
    double values = 0;          // vectors that stay in registers for each vector of an unrolled row
    int64_t fixed_rows = 0;     // rows for all, such as a bias, that stay in the pads
    int64_t steps_in_pads = 0;  // element-wise steps that are in the pads where a row is not unrolled
    int64_t light_steps = 0;    // of these, those that take less than a store and a load: RowKernel::each_light()
    int64_t row_tensors = 1;    // tensors of rows that are read
    bool waits = true;          // is what one step makes read by a step behind a sum?
    double packets = 0;         // that a vector of straight-line code takes; 0: half as many as it has operations
    double row_operations = 0;  // lane operations a row of the unit that has most, beside those of its vectors
    double row_packets = 0;     // packets a row, beside those of its vectors
    bool beside = false;        // may numbers of rows be made beside each other? RowKernel::in_lanes()
};

// Parameters: `rows`, that are in the pads at a time; `row_unroll`, rows in straight-line code; `vector_unroll`, vectors of a
// row in straight-line code: all of them, or a part that divides them; `reduced`, whether the reduction unit sums 32 lanes
// where rows are short, instead of the array; `grouped`, whether the vectors of a row that fills the array are its weights;
// `stored`, whether the steps of such a row in straight-line code are in the pads, where they do not fill the registers;
// `skewed`, whether its passes, which are loops, are one loop, each on another row; `beside`, whether what the lanes make of a
// number of a row is made of those of many rows at once.
Space row_space(const RowShape &shape, const Machine &machine, const RowCost &cost);
// The shape in the pads of a machine: in parts, as many vectors as fit, where no schedule has room for a whole row.
RowShape shape_in_pads(const RowShape &shape, const Machine &machine, const RowCost &cost);
double row_draft(const RowShape &shape, const Machine &machine, const Point &point, const RowCost &cost);
std::string row_words(const RowShape &shape, const Point &point);

// Rows of the pads that the steps of a row take for each of its vectors.
int64_t steps_in_pads(const RowShape &shape, const Point &point, const RowCost &cost);

// Kernels that only have rows made for them do not skew.
bool is_skewed(const Point &point);
bool is_beside(const Point &point);
// Rows in straight-line code come from all pads where they can: each pad has neighbouring rows, and its transfers are in other
// pages of the DRAM than those of the next pad.
bool rows_apart(const RowShape &shape, const Machine &machine, const Point &point);
// Rows of a block that are beside each other: as many as have lanes and divide it, and the first row of a last one that begins
// earlier, in turns of those in straight-line code. 0: there are none.
int64_t rows_beside(const RowShape &shape, const Point &point);
// Is each of those numbers in all lanes of a vector of its own, so that rows of many vectors are a loop?
bool numbers_spread(const RowShape &shape, const Point &point);
// All rows in the pads, those that are apart in turns of so many neighbours: those of two transfers, or of one. Every other pad
// then has tiles of the other bank group of the DRAM, wherever the tensor begins. 0: they are in the tensor's order.
int64_t neighbours_of(const RowShape &shape, const Machine &machine, const Point &point);
// Is all in the pads and one loop over rows, beside which it comes and goes?
bool rows_stream(const RowShape &shape, const Machine &machine, const Point &point);
// The same of rows that lie in columns: in so many parts, of which all columns come before the next part's. 1: they do not.
int64_t parts_of_columns(const RowShape &shape, const Machine &machine, const Point &point);
// Rows of the pads behind those of a block that end inside a vector, for stages of its loop that run idle: those that are whole
// vectors have them between blocks, but the lanes behind the last elements of these are filled through all blocks.
int64_t spare_rows(const RowShape &shape, const Machine &machine, const Point &point);
// Short rows that go round the pads, as many as fill all of them, have each vector in one pad anyway.
bool rows_in_columns(const RowShape &shape, const Machine &machine);

}  // namespace atalla
