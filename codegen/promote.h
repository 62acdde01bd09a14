// Sums that wait in the pads, in registers while a loop adds to them.
#pragma once

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Where every iteration of an innermost loop around the array loads the same rows of an allocation and stores them again, and
// there are registers for them, the loads stand in front of the loop and the stores behind it.
void promote_sums(Kernel &kernel);

}  // namespace atalla::codegen
