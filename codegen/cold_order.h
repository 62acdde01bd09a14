// The order in memory of code that runs a few times: the instruction cache fetches nothing ahead, but a packet that lies in two
// lines that are both absent asks for both at once.
#pragma once

#include "codegen/blocks.h"

namespace atalla::codegen {

// Puts packets of straight code, once they have their registers, in another order, with jumps, so that most lines come two at a
// time: runs of packets that begin across the border of two lines, the last ones first. Where jumps cost more than that saves,
// and on machines without timing, nothing changes.
void order_cold_code(const Kernel &kernel, Blocks &blocks);

}  // namespace atalla::codegen
