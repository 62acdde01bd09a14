// Code that takes all that it loads to be numbers, and runs again where the array finds that something was none.
#pragma once

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Rewrites the code between transfers in each loop whose Halide variable ends in `_unchecked`: what tells NaN from numbers is
// left out, an exponential of each vector that is loaded, or the vector itself where that takes less time, becomes a weight of
// the array, through which a row of ones sums them, and behind it the code as it was runs if a sum is NaN, as those with NaN
// are. It must not store to what it loads, and the array must be free. Errors say which of these fails.
void look_again(Kernel &kernel);

}  // namespace atalla::codegen
