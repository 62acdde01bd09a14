// Sums of rows side by side: a vector of each of up to 32 rows are the weights of the array, through which one row of ones
// goes. Lane w of what comes out is the sum of row w's vector, so that lanes add the vectors of a row and results are whole
// vectors.
#pragma once

#include "generators/kernel_definition.h"
#include "generators/reduce_shape.h"
#include "isa/machine.h"
#include "schedules/point.h"
#include "schedules/space.h"

namespace atalla {

// Parameters as of other reductions: `rows`, results in the pads at a time, in equal tiles of up to 32;
// `chunk`, vectors along a row that are there at a time, 0: all; `row_unroll`, `vector_unroll`: tiles and vectors in
// straight-line code.
Space row_sums_space(const ReduceShape &shape, const Machine &machine);
double row_sums_draft(const ReduceShape &shape, const Machine &machine, const Point &point);
KernelDefinition row_sums_kernel(const ReduceShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
