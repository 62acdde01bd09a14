// What a point of the schedule space forces a matrix product to take: below it no program of this schedule goes.
#pragma once

#include "generators/gemm.h"
#include "isa/machine.h"
#include "schedules/point.h"

namespace atalla {

// Cycles (packets on a functional machine); 0 for products in a batch. The largest of the work of each resource, with the ways
// in and out: docs/bounds.md, "One schedule".
int64_t gemm_least_cycles(const GemmShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
