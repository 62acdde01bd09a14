// Sums of rows that are no whole number of vectors, as they lie in memory, where the end of one and the start of the next share
// a vector. A tile of rows is whole vectors, so that all of it comes at the rate of the bus. Each row of a tile begins in a
// lane that its place in the tile tells: straight-line code takes a row's lanes of the vectors at its ends, each element where
// it is, and makes as many vectors of a row as its elements fill, which are weights of the array as in row_sums.h.
#pragma once

#include "generators/kernel_definition.h"
#include "generators/reduce_shape.h"
#include "isa/machine.h"
#include "schedules/point.h"
#include "schedules/space.h"

namespace atalla {

// Are they worth it for sums and means of this shape, and does a machine take them so?
bool rows_are_packed(const ReduceShape &shape);
int64_t packed_row_additions(const ReduceShape &shape);  // one after the other, of a result
bool sums_packed_rows(const ReduceShape &shape, const Machine &machine);

// Parameters as of other reductions: `row_unroll`, `vector_unroll`: tiles, and visits of the array for the vectors inside rows,
// in straight-line code. All rows are in the pads.
Space packed_row_sums_space(const ReduceShape &shape, const Machine &machine);
double packed_row_sums_draft(const ReduceShape &shape, const Machine &machine, const Point &point);
KernelDefinition packed_row_sums_kernel(const ReduceShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
