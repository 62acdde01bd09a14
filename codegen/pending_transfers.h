// Which transfers may still be under way when a kernel ends.
#pragma once

#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Base registers of transfers that no operation behind them is sure to have waited for, each once. On a machine without timing
// a transfer keeps none busy, and none is under way.
std::vector<Reg> transfers_at_end(const Body &body);

}  // namespace atalla::codegen
