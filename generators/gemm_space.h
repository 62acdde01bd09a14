// The schedule space of the matrix product.
#pragma once

#include <string>

#include "generators/gemm.h"
#include "isa/machine.h"
#include "schedules/space.h"

namespace atalla {

Space gemm_space(const GemmShape &shape, const Machine &machine);
// A point that fits wherever any does: few rows, sums in the pads, little unrolled.
// What most products have, and a product inside another one always: operands on all pads, rows one after the other.
const Point &gemm_common_point();
Point gemm_naive_point(const GemmShape &shape, const Machine &machine);
// Rows of all pads together that the buffers of a point take. Without those of a result that leaves, where it is what another
// product reads.
int64_t gemm_pad_rows(const GemmShape &shape, const Machine &machine, const Point &point, bool leaves = true);
// The point for people, as a clause.
std::string gemm_words(const GemmShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
