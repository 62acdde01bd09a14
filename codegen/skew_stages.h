// How many iterations each pass of a skewed loop is behind the first, and whether passes run alike.
#pragma once

#include <map>
#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// The variables of loops of several passes that become one, as that of the first pass.
struct LoopShapes {
    std::map<int, int> first;  // atoms
    LinearForm in_first(const LinearForm &form) const;
};
// Of the loops inside of `rows`. Error if these do not run alike.
LoopShapes shapes_of(Kernel &kernel, Loop &rows);

// By node of the loop's body. What reads the result of a whole pass is an iteration behind it, and a pass that needs that
// another one; a pass that reads the rows that another one stores in the same turn runs beside it. What starts the sums of a
// pass runs with it.
std::vector<int> skew_stages(Kernel &kernel, Loop &rows);

}  // namespace atalla::codegen
