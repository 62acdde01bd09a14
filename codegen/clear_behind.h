// Clears of accumulators beside their stores.
#pragma once

namespace atalla::codegen {

// The allocation that has a row of zeros in each pad, where there is one: a name that no Func has.
inline constexpr const char *rows_of_zeros = "(zeros)";

}  // namespace atalla::codegen
