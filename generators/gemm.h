// Matrix products C = epilogue(A * B): one algorithm, scheduled by a point of the GEMM space.
#pragma once

#include <string>

#include "generators/kernel_definition.h"
#include "isa/machine.h"
#include "schedules/point.h"

namespace atalla {

// C[m, n] = relu?(alpha * sum_k A[m, k] * B[.., ..] + bias[n] + beta * D[m, n]); all tensors bf16, row-major.
struct GemmShape {
    int64_t m = 0, n = 0, k = 0;
    bool b_transposed = true;    // B is stored [n][k], as a linear layer's weight; otherwise [k][n]
    bool bias = false, relu = false, addend = false;
    double alpha = 1, beta = 1;
};

// Sums run over blocks of 32 in float32, rounded to bf16, and over the blocks in bf16, ascending. Inputs: A, B, then bias
// and addend where the shape has them; output C.
KernelDefinition gemm(const GemmShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
