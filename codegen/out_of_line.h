// Code that a branch inside a block leads to, in blocks of its own.
#pragma once

#include <functional>

#include "codegen/blocks.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Makes bodies of side branches blocks out of line, placed where the instruction cache keeps the loops that branch to them.
// `pack(b)` packs block b.
void move_out_of_line(const Kernel &kernel, Blocks &blocks, const std::function<void(size_t)> &pack);

}  // namespace atalla::codegen
