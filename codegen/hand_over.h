// Transfers between routines: results still leave when the next routine begins, which waits where it could meet them.
#pragma once

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// The base registers of transfers that may still run when a routine ends are these from x4 on, one for each pad. A wait for
// what the routine before left under way stands in front of all that touches pads or memory. With `leave`, the last transfer of
// each pad behind all loops keeps its register of the convention busy, and nothing waits for it.
constexpr int first_busy_register = 4;
void hand_over_transfers(Kernel &kernel, bool leave);

}  // namespace atalla::codegen
