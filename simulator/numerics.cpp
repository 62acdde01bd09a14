#include "simulator/numerics.h"

#include <array>
#include <cmath>

namespace atalla {

// In double, rounded to float32, rounded to bf16.
const uint16_t *exp_of_halves() {
    constexpr uint16_t exp_of_nan = 0x7FC0;
    static const std::array<uint16_t, 65536> table = [] {
        std::array<uint16_t, 65536> values{};
        for (uint32_t half = 0; half < values.size(); half++) {
            const float x = bf16_float(static_cast<uint16_t>(half));
            const float y = static_cast<float>(std::exp(static_cast<double>(x)));
            values[half] = std::isnan(x) ? exp_of_nan : bf16_truncate(bf16_round(y));
        }
        return values;
    }();
    return table.data();
}

}  // namespace atalla

using namespace atalla;

extern "C" {

float atalla_exp(float x) { return bf16_float(exp_of_halves()[bf16_truncate(bf16_round(x))]); }

float atalla_rcp(float x) {
    const uint32_t bits = float_bits(x);
    return is_nan_bits(bits) ? bits_float(quiet_bits(bits)) : static_cast<float>(1.0 / static_cast<double>(x));
}

float atalla_sqrt(float x) {
    const uint32_t bits = float_bits(x);
    if (is_nan_bits(bits)) {
        return bits_float(quiet_bits(bits));
    }
    return x < 0 ? bits_float(default_nan) : static_cast<float>(std::sqrt(static_cast<double>(x)));
}
}
