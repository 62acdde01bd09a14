// The loop that ends a block of sums, an epilogue of many lane operations, runs beside the product of the next block.
#pragma once

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// In each loop over blocks in which a loop whose Halide variable ends in "_deferred" follows the loop that makes a block's
// sums: its rows of the block before run in the iterations of that loop, as many in each as it takes. The loop over blocks runs
// once more, with the last block again, and what leaves it is a block behind. Error where the blocks do not run alike, or what
// one leaves to the next does not wait.
void defer(Kernel &kernel);

}  // namespace atalla::codegen
