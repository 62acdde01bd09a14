#include "generators/reduce_space.h"

#include <algorithm>
#include <vector>

#include "generators/packed_row_sums.h"
#include "generators/pad_room.h"
#include "generators/row_sums.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

constexpr int most_straight_parts = 4, most_straight_extrema = 3, most_straight_variances = 3;

// May what finds NaN in a row of an extremum, or in those of all planes, be weights of the array? Of shorter rows, what the
// array leads to, which is as long, takes more time than their lanes; those of planes would be loops.
bool marks_fill_array(const ReduceShape &shape) {
    const int64_t least = shape.other > 1 ? 8 : 24;
    return shape.along_lanes && shape.extremum() && shape.vectors() * shape.other >= least && straight_parts(shape);
}

// Of an extremum along lanes, whose steps are a compare and a copy that waits for it: as many as divide the vectors of a row.
// Of many in straight-line code so many that none is under way longer than the row takes.
int extrema_of(const ReduceShape &shape) {
    const int64_t vectors = shape.vectors_in_pads();
    int side = shape.other == 1 && (marks_fill_array(shape) || vectors % lanes == 0) ? 16 : 4;
    while (vectors % side != 0 || (vectors == side && side > 1)) side /= 2;
    return side;
}

// May NaN be looked for by the array first? Across lanes where extrema stand side by side, along them in rows of many vectors.
bool finds_nan_later(const ReduceShape &shape, const Machine &machine) {
    constexpr int64_t many = 128;
    return machine.timed() && shape.extremum() &&
           (shape.along_lanes ? shape.other == 1 && shape.vectors() >= many : accumulators_of(shape.length) > 1);
}

}  // namespace

bool straight_parts(const ReduceShape &shape) {
    const int64_t parts = tiles_of(shape.vectors_in_pads() * (shape.extremum() ? shape.other : 1));
    return parts <= (shape.extremum()               ? most_straight_extrema
                     : shape.kind == Reduction::Var ? most_straight_variances
                                                    : most_straight_parts);
}

int64_t planes_beside(const ReduceShape &shape) {
    constexpr int64_t few = 8, most = 16;
    const int64_t vectors = shape.vectors_in_pads();
    if (!shape.along_lanes || !shape.extremum() || shape.other == 1 || vectors > few) return 1;
    int64_t planes = most / vectors;
    while (planes > 1 && (shape.other % planes != 0 || planes == shape.other)) planes--;
    return planes;
}

int sides_of(const ReduceShape &shape) {
    if (!shape.along_lanes) return accumulators_of(shape.length);
    if (!shape.extremum()) return 1;
    const int64_t planes = planes_beside(shape);
    return planes > 1 ? static_cast<int>(planes * shape.vectors_in_pads()) : extrema_of(shape);
}

bool by_columns(const ReduceShape &shape, int64_t rows, int64_t chunk) {
    return shape.along_lanes && chunk == 0 && shape.length % lanes != 0 && rows >= shape.vectors_in_pads();
}

bool means_come_first(const ReduceShape &shape, const Point &point) {
    return shape.kind == Reduction::Var && point["grouped"] != 0 && shape.parts() == 1;
}

bool ends_apart(const ReduceShape &shape, const Machine &machine, const Point &point) {
    return point["grouped"] != 0 && straight_parts(shape) && !shape.whole_vectors() && machine.timed() &&
           !by_columns(shape, point["rows"], point["chunk"]) && shape.vectors() > machine.pad.count;
}

Space reduce_space(const ReduceShape &shape, const Machine &machine) {
    if (sums_packed_rows(shape, machine)) return packed_row_sums_space(shape, machine);
    if (shape.sums_side_by_side()) return row_sums_space(shape, machine);
    const int64_t vectors = shape.vectors_in_pads();
    constexpr int64_t most_rows = 128, most_unrolled_rows = 8, most_unrolled = 32, most_straight = 64;
    std::vector<int64_t> rows, chunks, row_unrolls, vector_unrolls;
    const int64_t side = sides_of(shape), steps = ceil_div(shape.along_lanes ? vectors : shape.length, side);
    const int64_t results = shape.along_lanes ? shape.kept : vectors, terms = shape.fills_array() ? shape.part_vectors()
                                                                              : shape.along_lanes && shape.extremum()
                                                                                  ? steps
                                                                                  : shape.in_a_row().run().steps;
    for (int64_t block = 1; block < 2 * std::min(results, most_rows); block *= 2) rows.push_back(std::min(block, results));
    if (shape.along_lanes && results > rows.back()) rows.push_back(results);
    for (int64_t unroll = 1; unroll <= (shape.along_lanes ? std::min(results, most_unrolled_rows) : 1); unroll *= 2)
        row_unrolls.push_back(unroll);
    for (int64_t unroll = 1; unroll <= std::min(terms, most_unrolled / side); unroll++)
        if (terms % unroll == 0) vector_unrolls.push_back(unroll);
    // All of a short sum that no loop goes along.
    if (!shape.along_lanes && !shape.extremum() && terms * side <= most_straight && terms > vector_unrolls.back())
        vector_unrolls.push_back(terms);
    if (marks_fill_array(shape) && shape.other == 1 && vector_unrolls.back() != steps) vector_unrolls.push_back(steps);
    // Whole results, or parts that divide a row of them, the largest of each order of magnitude and the smallest.
    chunks.push_back(0);
    // None of which is only vectors of zeros behind a row.
    const int64_t behind = shape.along_lanes ? (vectors - shape.vectors()) / side : 0;
    const auto add = [&](int64_t part) {
        if (terms % part != 0 || part <= behind) return false;
        if (chunks.back() != part) chunks.push_back(part);
        return true;
    };
    for (int64_t most = 512; most >= 1; most /= 8)
        for (int64_t part = std::min(most, terms); part >= 1 && !add(part);) part--;
    for (int64_t part = 1; part <= terms && !add(part);) part++;
    Space space;
    space.parameter("rows", "results (vectors of them, if lanes are results) in the pads at a time", rows)
        .parameter("chunk", "steps along a result in the pads at a time, 0: all", chunks)
        .parameter("row_unroll", "results in straight-line code", row_unrolls)
        .parameter("vector_unroll", "steps along a result in straight-line code", vector_unrolls)
        .parameter("grouped", "vectors of a row are weights of the array, which one row of ones sums",
                   shape.fills_array() || marks_fill_array(shape) ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0});
    if (finds_nan_later(shape, machine)) {
        space.parameter("second_look", "NaN are passed over, and looked for where the array has found that there are some",
                        {0, 1});
        space.constraint(
            "second look", {"second_look", "chunk", "rows", "grouped", "row_unroll"},
            "Elements that are looked at again are in the pads, one result after the other, the array is free, and there are "
            "several blocks.",
            [=](const Point &point) {
                return point["second_look"] == 0 ||
                       (point["chunk"] == 0 && point["grouped"] == 0 && point["row_unroll"] == 1 && point["rows"] < results);
            });
    }
    constexpr int64_t most_rows_of_weights = 2;  // in straight-line code, out of whose loop transfers must be in reach
    // What finds the extremum is straight-line code, too, of all planes if there are several.
    const int64_t of_weights = shape.extremum() && shape.other == 1 ? steps : 1;
    space.constraint(
        "grouped", {"grouped", "chunk", "row_unroll", "vector_unroll"},
        "Weights of the array are in the pads as whole rows, of which few are straight-line code.", [=](const Point &point) {
            return point["grouped"] == 0 ||
                   (point["chunk"] == 0 && point["row_unroll"] <= most_rows_of_weights && point["vector_unroll"] == of_weights);
        });
    space.constraint("whole unrolls", {"rows", "row_unroll"}, "The results in straight-line code divide those in the pads.",
                     [](const Point &point) { return point["rows"] % point["row_unroll"] == 0; });
    space.constraint("chunks", {"chunk", "rows", "vector_unroll"},
                     "Unrolling divides a chunk; parts of results come one result at a time.", [=](const Point &point) {
                         return point["chunk"] % point["vector_unroll"] == 0 &&
                                (point["chunk"] == 0 || point["rows"] == rows.front());
                     });
    space.constraint(
        "pads", {"rows", "chunk", "row_unroll", "vector_unroll", "grouped"}, "What is in the pads at a time fits.",
        [=](const Point &point) {
            const bool parts = point["chunk"] != 0;
            const int64_t block = point["rows"], step = point["vector_unroll"] * side, others = parts ? 1 : shape.other;
            const int64_t of_result = shape.along_lanes ? vectors : steps * side,
                          elements = parts ? point["chunk"] * side : block * of_result * others;
            const bool several = results > block || (!shape.along_lanes && shape.kept > 1) || shape.outer > 1;
            const int64_t slots = machine.timed() && several ? 2 : 1;
            // As weights, the vectors of the results in straight-line code.
            const bool round = point["grouped"] == 0
                                   ? step % machine.pad.count == 0
                                   : point["row_unroll"] * vectors % machine.pad.count == 0 || point["row_unroll"] == block;
            const bool rows_go_round = point["row_unroll"] % machine.pad.count == 0;
            const auto runs = static_cast<size_t>(shape.in_a_row().runs() * (shape.kind == Reduction::Var ? 2 : 1));
            std::vector<PadUse> uses(
                parts ? runs : 1,
                PadUse{(parts ? 1 : slots) * elements,
                       by_columns(shape, block, point["chunk"]) ? rows_go_round && block % machine.pad.count == 0 : round});
            uses.push_back({slots * block, rows_go_round});
            if (means_come_first(shape, point)) uses.push_back({block, rows_go_round});
            return fit_pads(machine, uses);
        });
    space.constraint("code", {"row_unroll", "vector_unroll", "grouped"}, "Straight-line code fits the instruction cache.",
                     [=](const Point &point) {
                         return point["row_unroll"] * point["vector_unroll"] * side <=
                                (point["grouped"] != 0 ? most_straight_parts * lanes : most_straight);
                     });
    return space;
}

Point reduce_naive_point(const ReduceShape &shape, const Machine &machine) {
    if (sums_packed_rows(shape, machine)) return {{"row_unroll", 1}, {"vector_unroll", 1}};
    const Space space = reduce_space(shape, machine);
    Point least = {{"rows", space.find("rows").values.front()},
                   {"row_unroll", 1},
                   {"vector_unroll", 1},
                   {"grouped", space.find("grouped").values.front()}};
    least.set("chunk", space.find("chunk").values.back());
    if (shape.sums_side_by_side()) least.set("weight_unroll", 8);
    if (finds_nan_later(shape, machine)) least.set("second_look", 0);
    return least;
}

bool reduction_streams(const ReduceShape &shape, const Machine &machine, const Point &point) {
    constexpr int64_t least_transfers = 4;  // of each pad
    const int64_t vectors = shape.vectors_in_pads();
    const bool straight = point["grouped"] != 0 ? straight_parts(shape) : point["vector_unroll"] * sides_of(shape) >= vectors;
    return machine.timed() && shape.along_lanes && shape.other == 1 && shape.outer == 1 && point["chunk"] == 0 && straight &&
           point["rows"] == shape.kept && (shape.whole_vectors() || ends_apart(shape, machine, point)) &&
           point["row_unroll"] * vectors % machine.pad.count == 0 &&
           shape.kept * vectors >= least_transfers * machine.pad.count * machine.sdma.max_rows;
}

}  // namespace atalla
