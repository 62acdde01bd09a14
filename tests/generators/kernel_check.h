// Compiles, runs and compares kernels: what the tests of pipelines and of generated code share.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "generators/kernel_definition.h"
#include "generators/kernel_run.h"

namespace atalla {

// Random bf16 patterns whose sums of 32 products float32 holds exactly, in any order: `steps` multiples of `step` up and
// down from zero.
TensorData random_tensor(const TensorSpec &tensor, std::mt19937 &random, int steps = 15, float step = 0.25f);
// Any bf16 pattern, zeros of both signs, denormals, infinities and (quiet) NaN more often than chance has them.
TensorData random_patterns(const TensorSpec &tensor, std::mt19937 &random);

// Compiles and runs; fails the current test, with the reason, if the program breaks the packet contract, is refused or writes
// outside the tensors. Empty then.
std::vector<TensorData> run_checked(const KernelDefinition &kernel, const Machine &machine, bool optimize,
                                    const std::vector<TensorData> &inputs);

// Every output of `actual` is that of `expected`, bit for bit.
void expect_equal(const KernelDefinition &kernel, const std::vector<TensorData> &actual,
                  const std::vector<TensorData> &expected, const std::string &what);

}  // namespace atalla
