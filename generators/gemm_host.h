// The matrix product on the host: in float64, and bit for bit as the machine computes it.
#pragma once

#include <vector>

#include "generators/gemm.h"
#include "generators/kernel_run.h"
#include "generators/operator.h"

namespace atalla {

// Inputs in the order of the kernel: A, B, then bias and addend where the shape has them.
Reference gemm_reference(const GemmShape &shape, const std::vector<TensorData> &inputs);

// Half a unit for each rounding: of a 32-deep dot product, of each sum over the k tiles, of each step after them; one more
// for the float32 sums inside a dot product.
double gemm_tolerance_ulps(const GemmShape &shape);

// Plain loops with the machine's rounding; NaN come out as some NaN.
TensorData gemm_host(const GemmShape &shape, const Machine &machine, const std::vector<TensorData> &inputs);

}  // namespace atalla
