// The order in which the tiles of a copy are moved.
#pragma once

#include <vector>

#include "codegen/compile.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Each pad has an engine: the tiles of a copy go round the pads, whatever their order in memory, and those that are moved at
// the same time are in different bank groups of the DRAM where that is possible. `at_once`: all tiles come before anything uses
// them, so that their order within a pad is free. `in_loop`: it is free, too, and they start from inside a loop that computes.
// `array`: cycles that the array has work in the loop that they come beside.
std::vector<Tile> in_turns(const Kernel &kernel, const std::vector<Tile> &tiles, const PadLayout &layout, bool at_once,
                           bool in_loop, int64_t array = 0);

}  // namespace atalla::codegen
