// Assembly text to Program; docs/isa.md describes the syntax.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "isa/program.h"

namespace atalla {

// `name` stands for the text in messages. Labels become symbols, except those that start with ".L". Throws Error
// "name:line:column: what is wrong" for text that is not a program; no value is ever cut to fit its field.
Program assemble(std::string_view text, const std::string &name = "assembly");
Program assemble_file(const std::filesystem::path &file);

}  // namespace atalla
