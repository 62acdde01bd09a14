// The instruction set as Markdown, printed from the tables that encode, decode and assemble it.
#pragma once

#include <string>

namespace atalla {

// The text of docs/isa.md.
std::string isa_document();

}  // namespace atalla
