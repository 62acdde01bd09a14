// Depthwise convolutions whose lanes are channels as they lie in memory.
#pragma once

#include "generators/pool.h"

namespace atalla {

// Weighted windows with channels innermost, on machines with timing: windows side by side share what they load, and the
// innermost loop goes down the rows of a tile.
extern const PoolForm depthwise_windows;

}  // namespace atalla
