// Vectors that blocks have in common by name alone.
#pragma once

#include "codegen/blocks.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Blocks that are copies of one another, such as the last turn of a loop behind it, make and read the same vectors. One that every
// block makes before it reads it gets a register of its own in each of them: it is busy where it is used, and not from the first to
// the last of these blocks.
void separate_vectors(Kernel &kernel, Blocks &blocks);

}  // namespace atalla::codegen
