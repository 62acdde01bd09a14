// The two halves of compile(): what Halide makes of a scheduled pipeline, and the program that is generated from it.
#pragma once

#include <vector>

#include <Halide.h>

#include "codegen/compile.h"

namespace atalla::codegen {

// The loops of a pipeline, which no option has a part in. Code may be generated from them more than once, on any thread.
struct LoweredPipeline {
    Halide::Internal::LoweredFunc function;
    double seconds = 0;  // that lowering took
};
LoweredPipeline lower(const Halide::Pipeline &pipeline, const std::vector<Halide::Argument> &arguments);

// Throws Error with the statement and the reason for what does not match.
CompiledKernel generate(const LoweredPipeline &lowered, const Machine &machine, const CompileOptions &options = {});

}  // namespace atalla::codegen
