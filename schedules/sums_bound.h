// The bound of kernels whose sums the array makes where it takes partial sums, and the adder elsewhere.
#pragma once

#include "schedules/bounds.h"

namespace atalla {

// kernel_bound() of the work and of `sums` additions of vec.vl elements beside it. With partial sums a row of the array makes
// sa.cols of them, and the share of the array is the one that the bound is least with.
Bound sums_bound(const Machine &machine, const KernelWork &work, int64_t sums);

}  // namespace atalla
