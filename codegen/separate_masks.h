// Blocks that are copies of one another, such as the last turn of a loop behind it, make and read the same masks.
#pragma once

#include "codegen/blocks.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// A mask that every block makes before it reads it gets a register of its own in each of them: it is busy where it is used, and
// not from the first to the last of these blocks. There are few mask registers.
void separate_masks(Kernel &kernel, Blocks &blocks);

}  // namespace atalla::codegen
