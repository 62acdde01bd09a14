// Masks and vectors that code has in common by name alone.
#pragma once

#include "codegen/blocks.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Code that is there several times, such as unrolled iterations or the last turn of a loop behind it, makes and reads the same
// masks and vectors. One that every block makes before it reads it gets registers of its own: it is busy where it is used, and
// not from the first to the last of these places. Masks, of which there are few, get one each time that they are made, vectors
// one in each block.
void separate_registers(Kernel &kernel, Blocks &blocks);

}  // namespace atalla::codegen
