// The one place that reads the shape of a Halide loop: Halide 21 has min/extent, later versions have inclusive bounds.
#pragma once

#include <Halide.h>

#include <algorithm>
#include <string>

namespace atalla::codegen {

struct LoopShape {
    Halide::Expr first, extent;
};

inline LoopShape loop_shape(const Halide::Internal::For *loop) { return {loop->min, loop->extent}; }

// "C.s1.m.mi.rebased" -> Func "C", variable "mi" (without Halide's uniqueness suffix, ".rebased" and our "#2").
struct LoopName {
    std::string func, variable;
};
inline LoopName split_loop_name(std::string name) {
    name.resize(std::min(name.size(), name.find('#')));
    const std::string rebased = ".rebased";
    if (name.size() > rebased.size() && name.compare(name.size() - rebased.size(), rebased.size(), rebased) == 0)
        name.resize(name.size() - rebased.size());
    LoopName result;
    result.func = name.substr(0, name.find('.'));
    if (const size_t dollar = result.func.find('$'); dollar != std::string::npos) result.func.resize(dollar);
    result.variable = name.substr(name.rfind('.') + 1);
    return result;
}

}  // namespace atalla::codegen
