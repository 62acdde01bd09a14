// Nests that the instruction cache holds, but not where they begin: they lie in a line more than it has.
#pragma once

#include "codegen/blocks.h"

namespace atalla::codegen {

// Moves loops whose code is no longer than the instruction cache, and lies in more lines than that has, a few packets on: the
// first and the last of these lines would push each other out in every turn. The packets in front run once for all turns.
void fit_nests_to_lines(const Kernel &kernel, Blocks &blocks);

}  // namespace atalla::codegen
