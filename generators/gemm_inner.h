// The product in front of a matrix product, whose result is the first operand: its rows are made in the pads, a block of them
// with all their columns, which the outer product's columns then pass.
#pragma once

#include "generators/gemm.h"
#include "isa/machine.h"
#include "schedules/point.h"
#include "schedules/space.h"

namespace atalla {

// Its parameters, named apart, and constraints, as far as they do not follow from those of the outer product.
void add_inner(Space &space, const GemmShape &shape, const Machine &machine);
// The point of its own space that the outer product's point has for it, as far as that has values, and the first of them.
Point inner_point(const Point &point);
void set_naive_inner(Point &point, const GemmShape &shape, const Machine &machine);
// Rows of all pads together that its buffers take, and what it makes.
int64_t inner_pad_rows(const GemmShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
