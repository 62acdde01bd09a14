// Compiles a scheduled Halide pipeline to an Atalla program.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <Halide.h>

#include "codegen/choices.h"
#include "isa/machine.h"
#include "isa/program.h"

namespace atalla::codegen {

// How the rows of an allocation lie in the pads; 0: as the generator finds best.
struct PadLayout {
    int pads = 0;       // most pads that the rows go round
    int64_t block = 0;  // rows that stay in one pad before the next pad's turn
    // Transfers start from inside loops, where tiles at even distances take less code: no pad's are a turn ahead of the
    // others', but each may begin later and take its first ones last.
    bool even = false;
};

struct CompileOptions {
    bool optimize = true;                      // off: one operation a packet, every copy waited for: the reference
    std::map<std::string, PadLayout> layouts;  // by Func name without the suffix that makes it unique
    Choices choices;
    std::string dump_after;  // name of a pass, or "all"
    std::function<void(const std::string &pass, const std::string &text)> dump;
    uint32_t parameter_block = 0x3C;  // byte address of the tensors' addresses, one word each, in argument order
    // A routine instead of a program: entered with the address of the tensors' addresses in x2, it ends with a jump to the code
    // that the word behind these names, with what the next word holds in x2. Its last transfers may still run then
    // (hand_over.h). It may change every register, and runs at any address.
    bool routine = false;
};

// Parameter words: inputs in the order of `arguments`, then the outputs.
struct CompiledKernel {
    Program program;
    std::vector<std::string> tensors;  // names in the order of the parameter words
    Choices open;                      // those that it came to, made or not: no other changes the program
    double lower_seconds = 0, generate_seconds = 0;
};

// Lowers and generates. Throws Error with the statement and the reason for what does not match.
CompiledKernel compile(const Halide::Pipeline &pipeline, const std::vector<Halide::Argument> &arguments, const Machine &machine,
                       const CompileOptions &options = {});

// The passes in order, by the names that --dump-after takes.
const std::vector<std::string> &pass_names();

}  // namespace atalla::codegen
