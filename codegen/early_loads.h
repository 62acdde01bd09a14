// Loads that need not wait until rows are filled with constants.
#pragma once

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Buffers that a copy does not fill whole are filled with constants first, by code that runs long where it comes from memory.
// Loads behind it start in front of it, with what aims them, where their rows of the pads are others.
void start_loads_before_fills(Kernel &kernel);

}  // namespace atalla::codegen
