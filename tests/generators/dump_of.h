// What a pass of the code generator leaves, as text: what tests of passes look at.
#pragma once

#include <string>

#include "codegen/compile.h"
#include "generators/evaluate.h"
#include "generators/kernel_definition.h"

namespace atalla {

// `compile` compiles with the options that it is given.
template <class Compile>
std::string dump_of(const std::string &pass, const Compile &compile) {
    std::string text;
    codegen::CompileOptions options;
    options.dump_after = pass;
    options.dump = [&](const std::string &, const std::string &dumped) { text = dumped; };
    compile(options);
    return text;
}

inline std::string dump_of(const std::string &pass, const Evaluator &evaluator, const Point &point) {
    return dump_of(pass, [&](const codegen::CompileOptions &options) { evaluator.compile(point, options); });
}

inline std::string dump_of(const std::string &pass, const KernelDefinition &kernel, const Machine &machine) {
    return dump_of(pass, [&](const codegen::CompileOptions &options) {
        codegen::compile(kernel.pipeline, kernel.arguments, machine, options);
    });
}

}  // namespace atalla
