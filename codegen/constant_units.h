// Constants of straight code on units that have less to do than the one of integer operations.
#pragma once

#include <optional>
#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// The operations of a block with constants made where room is left: an integer operation a packet is all that there is, so a
// block that makes many constants has a packet for each. Zeros are moved from v0, and multiples of other constants are
// products. Nothing where all constants stay as they are.
std::optional<std::vector<Op>> constants_on_other_units(const std::vector<Op> &block);

}  // namespace atalla::codegen
