// How packed blocks end: branches back, over and out, and those that reach too far for their offset.
#pragma once

#include "codegen/blocks.h"
#include "codegen/delays.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Adds to each block the packets that end it, and jumps where a branch does not reach its target: to a block out of line by an
// island, to one in line by a branch over a jump. With `optimize`, branches share packets with other operations.
void add_branches(const Kernel &kernel, Blocks &blocks, const Delays &delays, bool optimize);
// A packet that does nothing, to move what is behind it.
OpGroup idle_packet();
// Does every branch still reach the block it goes to?
bool branches_reach(const Blocks &blocks);

}  // namespace atalla::codegen
