// Runs a compiled kernel on the simulator with tensors given as bf16 patterns.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/compile.h"
#include "generators/kernel_definition.h"
#include "simulator/simulator.h"
#include "simulator/tensor_places.h"

namespace atalla {

using TensorData = std::vector<uint16_t>;  // bf16 patterns, row-major

// Byte addresses of inputs then outputs: above the parameter block, each at its tensor_start(). Error if memory cannot hold
// them.
std::vector<uint64_t> place_tensors(const KernelDefinition &kernel, const Machine &machine);

// For RunOptions::left_behind: a NaN, which shows wherever a kernel takes in what others left.
constexpr uint16_t left_by_others = 0x7FC0;

struct KernelRun {
    RunResult result;
    std::vector<TensorData> outputs;
    bool outside_untouched = true;  // guard values around every tensor still there
};

// Guard values surround each tensor. `inputs` in the order of KernelDefinition::inputs.
KernelRun run_kernel(const KernelDefinition &kernel, const codegen::CompiledKernel &compiled, const Machine &machine,
                     const std::vector<TensorData> &inputs, const RunOptions &options = {});

}  // namespace atalla
