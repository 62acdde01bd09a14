// The expression behind a matrix product: how long it is, and its value on the host.
#pragma once

#include <vector>

#include "generators/gemm.h"
#include "generators/kernel_run.h"
#include "generators/operator.h"
#include "generators/pointwise_functions.h"

namespace atalla {

// Sets what follows from the shape's epilogue and operands: `epilogue_work` and `staged`.
void plan_epilogue(GemmShape &shape);

// `product` is the whole product, and `inputs` those of the kernel. In the machine's arithmetic.
TensorData epilogue_on_host(const GemmShape &shape, TensorData product, const std::vector<TensorData> &inputs);
// Exactly, with peaks that count how an error of the product, up to so many units in the last place, grows in the expression.
Reference epilogue_reference(const GemmShape &shape, const Reference &product, double product_ulps,
                             const std::vector<TensorData> &inputs);
// Units in the last place that the expression adds to the product's tolerance.
double epilogue_tolerance_ulps(const GemmShape &shape);

}  // namespace atalla
