// Loops that write constants to an allocation, so that they lie on all pads.
#pragma once

#include <map>
#include <string>

#include "codegen/compile.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Shapes loops that only store so that each of their stores stays in one pad: `wanted` says which allocations have blocks of
// rows, whose fills go along the blocks of all pads side by side; those of others go round the pads row by row.
void shape_fills(Kernel &kernel, const std::map<std::string, PadLayout> &wanted);

}  // namespace atalla::codegen
