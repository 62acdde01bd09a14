// The arithmetic that prices the points of the matrix product's schedule space.
#pragma once

#include "generators/gemm.h"
#include "isa/machine.h"
#include "schedules/point.h"

namespace atalla {

// Predicted cycles. The constants that no document gives were fitted to simulated points.
double gemm_draft(const GemmShape &shape, const Machine &machine, const Point &point);

// Packets of a nest whose loop over k tiles transposes those of B, where all rows are one block.
double gemm_turning_code(const GemmShape &shape, const Machine &machine);

}  // namespace atalla
