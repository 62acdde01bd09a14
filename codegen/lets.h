// Definitions of names in statements that Halide lowers. Bounds inference defines the bounds of every dimension of every stage
// in every loop around it: thousands, most of which nobody reads or which are constants. Halide's passes behind it take time
// for each, so they go first. What is left is lowered to the same loops.
#pragma once

#include <Halide.h>

namespace atalla::codegen {

// NAME.loop_min and NAME.loop_max of a loop NAME: passes that infer how much an allocation holds, or fold it, look for them.
enum class LoopBounds { Keep, Remove };

// Without definitions that nothing reads. Names may be defined again inside.
Halide::Internal::Stmt remove_dead_lets(const Halide::Internal::Stmt &stmt, LoopBounds loop_bounds);

// Puts integers and other names in the place of names that stand for them, with the sums, bounds and comparisons that become
// integers too, and drops assertions that are then true. Every name is defined once. Bounds of loops stay defined if they are
// no integers.
Halide::Internal::Stmt substitute_lets(const Halide::Internal::Stmt &stmt);

// Defines the bounds of loops where they are not defined.
Halide::Internal::Stmt define_loop_bounds(const Halide::Internal::Stmt &stmt);

}  // namespace atalla::codegen
