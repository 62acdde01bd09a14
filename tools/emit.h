// Writes a compiled kernel as files that other simulators and people read.
#pragma once

#include <filesystem>

#include "generators/kernel_run.h"

namespace atalla {

// The program with its tensors as data words and their addresses at 0x3C; outputs start as zeros.
Program program_with_data(const KernelDefinition &kernel, const codegen::CompiledKernel &compiled, const Machine &machine,
                          const std::vector<TensorData> &inputs);

// The file appears whole or not at all.
void write_text_file(const std::filesystem::path &file, const std::string &text);
void write_program_file(const std::filesystem::path &file, const Program &program);

}  // namespace atalla
