// Schedules of reductions: their space, and how a point lays elements out.
#pragma once

#include "generators/reduce_shape.h"
#include "isa/machine.h"
#include "schedules/point.h"
#include "schedules/space.h"

namespace atalla {

// Running values of a result side by side.
int sides_of(const ReduceShape &shape);
// Of rows of a few vectors in several planes: planes whose vectors are all compared side by side.
int64_t planes_beside(const ReduceShape &shape);
// Is the code of all parts of a row that are weights of the array straight-line code, which the instruction cache holds?
bool straight_parts(const ReduceShape &shape);
// Rows that end inside a vector, and so many at a time as a row has vectors, lie by columns of vectors: a transfer brings a
// vector of many rows, where those of one row would be two transfers.
bool by_columns(const ReduceShape &shape, int64_t rows, int64_t chunk);
// Are the means of all rows in the pads made before the variances, so that rows overlap in a loop for either visit of the
// array? A mean stands between the two visits of its row. Of rows of several parts loops do not overlap.
bool means_come_first(const ReduceShape &shape, const Point &point);
// Of those that are weights of the array, in straight-line code, the last part alone does.
bool ends_apart(const ReduceShape &shape, const Machine &machine, const Point &point);

// Parameters: `rows`, results (or vectors of them) computed with their elements in the pads at a time; `chunk`, steps along a
// (0: all) result that are there at a time; `row_unroll`, `vector_unroll`: results and vectors in straight-line code;
// `grouped`: whether the vectors of a row that fills the array are its weights.
Space reduce_space(const ReduceShape &shape, const Machine &machine);
Point reduce_naive_point(const ReduceShape &shape, const Machine &machine);
// Are all rows in the pads at a time, brought and used by one loop over them, so that their transfers run beside it?
bool reduction_streams(const ReduceShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
