// Numbers that a model states or a caller passes, before they are rounded to bf16.
#pragma once

#include <algorithm>
#include <cmath>

namespace atalla {

constexpr double largest_bf16 = 0x1.fep127;

// The number itself, or the nearest that bf16 has a finite value for. What is finite stays so: masks are made of the most
// negative float32, which would round to minus infinity, and 0 times that, or a softmax of nothing else, is NaN.
inline double within_bf16(double value) {
    return std::isfinite(value) ? std::clamp(value, -largest_bf16, largest_bf16) : value;
}

}  // namespace atalla
