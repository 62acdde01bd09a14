// The factor that norms scale rows by.
#pragma once

#include <cstdint>

#include <Halide.h>

#include "generators/vocabulary.h"

namespace atalla {

// 1 / sqrt(squares / count + epsilon) by the scalar unit. Epsilon comes first, as often as there are squares: add.bf and mul.bf
// take an operand whose pattern is at most 0xFFFF for a bf16 (isa 1.2), which a small quotient would be.
inline Halide::Expr inverse_deviation(const Halide::Expr &squares, int64_t count, double epsilon) {
    const auto n = static_cast<double>(count);
    const Halide::Expr sum = Halide::strict_float(squares + static_cast<float>(epsilon * n));
    return vocabulary::machine_rcp(vocabulary::machine_sqrt(Halide::strict_float(sum * static_cast<float>(1 / n))));
}

}  // namespace atalla
