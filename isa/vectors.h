// Whole vectors, blocks and multiples: the divisions that round up.
#pragma once

#include <cstdint>
#include <type_traits>

namespace atalla {

// Elements of a vector register, of a row of the pads and of a side of the array: fixed by the instruction set.
constexpr int lanes = 32;

// Both at least 0, the divisor at least 1.
template <class Count, class Divisor>
constexpr std::common_type_t<Count, Divisor> ceil_div(Count count, Divisor divisor) {
    return (count + divisor - 1) / divisor;
}
template <class Count, class Step>
constexpr std::common_type_t<Count, Step> round_up(Count count, Step step) {
    return ceil_div(count, step) * step;
}

// Vectors that `count` elements take.
template <class Count>
constexpr Count tiles_of(Count count) {
    return ceil_div(count, lanes);
}

}  // namespace atalla
