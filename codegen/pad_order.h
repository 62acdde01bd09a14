// Loads and transfers that must not overtake stores which still wait in their pad's queue.
#pragma once

#include <functional>

#include "codegen/blocks.h"
#include "codegen/delays.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// A pad writes a row every few cycles, and cycles without an operation are not emitted: stores of many rows to one pad fill its
// queue. A delay stands in front of each load that could otherwise start before the store of a row that it may read, in the
// same block or in one before, and of each transfer that could read a row so early. `is_loop_body(b)`: block b is the whole
// body of a loop whose own iterations keep their distance.
void keep_loads_behind_stores(const Kernel &kernel, Blocks &blocks, Delays &delays,
                              const std::function<bool(size_t)> &is_loop_body);

}  // namespace atalla::codegen
