// Allocations that lie where others do.
#pragma once

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Gives an allocation whose name is NAME_over_OTHER the rows of the allocation OTHER, which has as many: a row of OTHER is loaded for the last time before that of
// NAME is stored, which the schedule answers for. The unoptimized program, which others are compared with, has rows for each as long as the pads hold them.
void share_rows(Kernel &kernel, bool optimize);

}  // namespace atalla::codegen
