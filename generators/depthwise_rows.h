// Depthwise convolutions on the array: rows of a plane pass matrices that have the channel's kernel along their diagonals, so
// that a row of the kernel takes one row of the array for all its columns.
#pragma once

#include <memory>

#include "generators/convolution.h"
#include "generators/declared_operator.h"

namespace atalla {

// A convolution whose kernel passes_matrices() when packed. Products with the columns of a row of the kernel are one sum in
// float32, rounded, and rows are added in bf16, the bias after them. An infinity or NaN of the image spreads over its part of a
// row. Bounds and tensors are those of `general`, which is the same convolution. Of weights as PyTorch has them the array makes
// the matrices first.
std::unique_ptr<Workload> depthwise_rows_workload(const WorkloadRequest &request, const ConvolutionShape &shape,
                                                  std::shared_ptr<const Workload> general);

// About what it takes with weights as PyTorch has them; infinite where there are no such matrices, or those of no channel fit
// the pads.
double made_rows_cost(const ConvolutionShape &shape, const Machine &machine);

}  // namespace atalla
