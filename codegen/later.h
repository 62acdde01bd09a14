// Operations that end a loop's last iteration and run later: in front of the code that uses what they make, which is that of
// the next turn of the nest around the loop and the code behind the nest.
#pragma once

#include <vector>

#include "codegen/blocks.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Puts a copy of `ops`, the end of the loop that block `loop` is, in front of the code of each way out of that loop that uses
// one of their registers.
void place_later(Kernel &kernel, Blocks &blocks, size_t loop, const std::vector<Op> &ops);

// Can `ops` run with the block in front of the loop, one turn of the nest later? That takes a block in front that is the first
// to use what they make, and rows of the pads that nothing overwrites until then.
bool can_turn(const Kernel &kernel, const Blocks &blocks, size_t loop, const std::vector<Op> &ops);

// Before its first turn the nest has no iteration that these operations could end: the pointers that they read get rows that no
// transfer touches at that time, and what they make of them is never used.
void aim_first_turn(Kernel &kernel, Blocks &blocks, size_t loop, const std::vector<Op> &ops);

// Vector and mask registers that `ops`, a copy of operations of one of the loop's iterations after the other, make and read as
// the whole loop does get other names: the copy needs none of the loop's registers for them.
std::vector<Op> with_own_registers(Kernel &kernel, const std::vector<Op> &loop_ops, std::vector<Op> ops);

}  // namespace atalla::codegen
