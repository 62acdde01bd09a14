// Pipelines of several operator families, written with the schedule vocabulary and scheduled in the plainest way: what the
// tests compile, run and compare.
#pragma once

#include "generators/kernel_definition.h"

namespace atalla::pipelines {

// Two-dimensional tensors are row-major [rows][cols]; `step` is the number of rows that are in the pads at a time.
struct Plane {
    int rows = 1, cols = 1, step = 1;
    bool ring = false;       // two slots in the pads for what comes in and what goes out
    bool guard = false;      // the last step is shorter than the others; otherwise it begins earlier
    bool unchecked = false;  // rows are taken for numbers until the array finds NaN
};

KernelDefinition relu(const Plane &plane);
// Y = max(X, 1), and NaN where X is.
KernelDefinition at_least_one(const Plane &plane);
// Y = X + bias, a bias for each column.
KernelDefinition bias_add(const Plane &plane);
// Y = exp(min(X, 2) * 0.5) - X / 4, in two stages.
KernelDefinition exponential_chain(const Plane &plane);
// Along the rows: exp(x - largest) / sum. The sum runs through the array, 32 at a time, and in bf16 over the blocks of 32.
KernelDefinition softmax(const Plane &plane);
// Along the rows: (x - mean) / sqrt(variance + epsilon) * gain + bias.
KernelDefinition layernorm(const Plane &plane);

// Along the rows, by reductions of lanes instead of the array: (x - smallest) * (1 / sum of the row).
KernelDefinition spread(const Plane &plane);

// C[m][n] = A[m][k] . B[n][k], sums over blocks of 32 in bf16; `step` rows of A at a time.
struct Product {
    int m = 1, n = 1, k = 1, step = 1;
    bool sums_in_registers = false, ring = false;
    int pads = 4;  // that the rows of an allocation go round
};
KernelDefinition product(const Product &product);

// 3x3 convolution, stride 1, one pixel of zeros around the image. X [height][width][ci], weights [3][3][co][ci], Y
// [height][width][co].
struct Image {
    int width = 1, height = 1, ci = 1, co = 1;
};
KernelDefinition convolution(const Image &image);

}  // namespace atalla::pipelines
