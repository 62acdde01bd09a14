// Runs a scheduled pipeline on the host with Halide's JIT: what the accelerator must give, computed by another compiler.
#pragma once

#include <vector>

#include "generators/kernel_definition.h"
#include "generators/kernel_run.h"

namespace atalla {

// No more warnings from Halide; its errors become Error.
void silence_halide();

// Outputs for `inputs`, both as bf16 patterns in the order of the definition. The JIT adds the 32 products of a dot product
// in an order of its own, without the rules for NaN: inputs must keep those sums finite and exact in float32.
std::vector<TensorData> run_on_host(const KernelDefinition &kernel, const std::vector<TensorData> &inputs);

// How many elements differ. Two NaN count as equal: which payload survives where several meet is unspecified.
size_t count_differences(const TensorData &a, const TensorData &b);

}  // namespace atalla
