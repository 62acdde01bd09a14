// The transfers that a nest starts with, in front of its outermost loop.
#pragma once

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// First transfers of several streams with as many groups go in one loop: what is needed first comes first.
Body fuse_starts(Body body);
// The same for what stands from node `from` on.
void fuse_starts(Body &body, size_t from);

// The first groups of the first loop of transfers start in front of it: the constants of the kernel are made in their shadow,
// and the pads' transfers, which then start one after the other, do not all end together while the DRAM idles.
Body begin_at_once(Kernel &kernel, Body body);

}  // namespace atalla::codegen
