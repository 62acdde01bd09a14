// A scheduled Halide pipeline ready to be compiled, with the tensors it reads and writes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <Halide.h>

#include "codegen/compile.h"

namespace atalla {

struct TensorSpec {
    std::string name;
    std::vector<int64_t> extents;  // innermost first; bf16, dense
    int64_t elements() const {
        int64_t n = 1;
        for (int64_t e : extents) n *= e;
        return n;
    }
};

struct KernelDefinition {
    Halide::Pipeline pipeline;
    std::vector<Halide::Argument> arguments;  // inputs, in order
    std::vector<TensorSpec> inputs, outputs;
    // How the rows of a Func lie in the pads, by its name without Halide's "$1".
    std::map<std::string, codegen::PadLayout> layouts;

    codegen::Choices choices;

    // A tensor of constant extents, or one that has others outside of the pipeline.
    void add_input(std::string name, const Halide::ImageParam &tensor);
    void add_input(TensorSpec outside, const Halide::ImageParam &tensor);
    void lay_out(const Halide::Func &func, const codegen::PadLayout &layout);
    // These options with the layouts and choices of the kernel.
    codegen::CompileOptions compile_options(codegen::CompileOptions options = {}) const;
};

}  // namespace atalla
