// Pass 1: lowered Halide IR to kernel IR; whatever is not one of the documented idioms is an error that shows the statement.
#pragma once

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

Kernel match(const Halide::Internal::LoweredFunc &function, const Machine &machine, bool optimize);

}  // namespace atalla::codegen
