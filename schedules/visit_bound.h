// The least time of products of vectors and weight tiles of whatever operator, with the array's gaps and the register file
// counted.
#pragma once

#include <cstdint>

#include "isa/machine.h"

namespace atalla {

// Cycles, at any number of visits, for `rows` rows of the array that form `results` vectors by adding partial sums; a change of
// the weights loads at least `loads` vectors. Streamed vectors and sums are in registers at the beginning of a visit or come
// from the pads during it. docs/bounds.md, visits. 0 on machines without a partial-sum input or without time, and where there
// are no rows.
int64_t least_visit_cycles(const Machine &machine, int64_t rows, int64_t results, int64_t loads);

}  // namespace atalla
