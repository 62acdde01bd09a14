// Software pipelining of a loop around loops: the passes of an iteration become one loop, each on the rows of another
// iteration.
#pragma once

#include <map>
#include <string>

#include "codegen/compile.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Skews every loop whose Halide variable ends in "_skewed" and that has several loops inside, one after the other. Error if
// these do not run alike or what one leaves to another cannot wait. `layouts`: of allocations, by their names, as place() wants
// them.
void skew(Kernel &kernel, const std::map<std::string, PadLayout> &layouts);

// Behind `place`: the slots of rotations get their addresses, in front of everything.
void aim_rotations(Kernel &kernel);

}  // namespace atalla::codegen
