// Allocations that lie where others do.
#pragma once

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Where the pads do not hold all, gives an allocation whose name is NAME_over_OTHER the rows of the allocation OTHER, which has
// as many: a row of OTHER is loaded for the last time before that of NAME is stored, which the schedule answers for.
void share_rows(Kernel &kernel);

}  // namespace atalla::codegen
