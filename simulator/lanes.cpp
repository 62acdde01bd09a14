#include "simulator/lanes.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

namespace atalla {

namespace {

// The same sums with every NaN decided by rule.
[[gnu::cold]] void row_times_weights_nan(const float *row, const WeightBuffer &weights, float *sums) {
    std::fill_n(sums, lanes, 0.0f);
    for (int k = 0; k < lanes; k++) {
        for (int column = 0; column < lanes; column++) {
            const float product = with_nan_rules(row[k], weights.depth[k][column], std::multiplies<float>());
            sums[column] = with_nan_rules(sums[column], product, std::plus<float>());
        }
    }
}

template <class Better>
float extremum(const float *values, uint32_t active, float identity, Better better) {
    float best = identity;
    for (int lane = 0; lane < lanes; lane++) {
        const float value = bf16_round(values[lane]);
        if ((active & lane_bit[lane]) != 0 && better(value, best)) {
            best = value;
        }
    }
    return best;
}

// All 32 sums, by vectors of `Vector` so that they stay in registers whatever the compiler's own taste. Each lane is computed by
// itself, so the width of a vector changes no bit.
template <class Vector>
[[gnu::always_inline]] inline void plain_sums(const float *row, const WeightBuffer &weights, float *result) {
    constexpr int vectors = lanes * sizeof(float) / sizeof(Vector);
    const Vector *depth = reinterpret_cast<const Vector *>(weights.depth);
    Vector sum[vectors] = {};
    for (int k = 0; k < lanes; k++, depth += vectors) {
        for (int column = 0; column < vectors; column++) {
            sum[column] += row[k] * depth[column];
        }
    }
    std::memcpy(result, sum, sizeof sum);
}

using Four [[gnu::vector_size(16), gnu::may_alias]] = float;
void sums_by_four(const float *row, const WeightBuffer &weights, float *result) { plain_sums<Four>(row, weights, result); }

#ifdef __x86_64__
using Eight [[gnu::vector_size(32), gnu::may_alias]] = float;
[[gnu::target("avx2")]] void sums_by_eight(const float *row, const WeightBuffer &weights, float *result) {
    plain_sums<Eight>(row, weights, result);
}
const auto plain_sums_here = __builtin_cpu_supports("avx2") ? sums_by_eight : sums_by_four;
#else
constexpr auto plain_sums_here = sums_by_four;
#endif

constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

float sum_of_lanes(const float *values, uint32_t active) {
    float sum = 0;
    for (int lane = 0; lane < lanes; lane++) {
        if ((active & lane_bit[lane]) != 0) {
            sum = with_nan_rules(sum, bf16_round(values[lane]), std::plus<float>());
        }
    }
    return sum;
}
float minimum_of_lanes(const float *values, uint32_t active) { return extremum(values, active, infinity, std::less<float>()); }
float maximum_of_lanes(const float *values, uint32_t active) {
    return extremum(values, active, -infinity, std::greater<float>());
}

void place_reduction(float *vd, const float *vs1, int32_t imm, float result) {
    constexpr int32_t broadcast = 64, clear_others = 32;
    if ((imm & broadcast) != 0) {
        std::fill_n(vd, lanes, result);
        return;
    }
    if ((imm & clear_others) != 0) {
        std::fill_n(vd, lanes, 0.0f);
    } else if (vd != vs1) {
        std::copy_n(vs1, lanes, vd);
    }
    vd[imm & 31] = result;
}

void row_times_weights(const float *row, const WeightBuffer &weights, float *sums) {
    alignas(64) float result[lanes];
    plain_sums_here(row, weights, result);
    bool nan = false;
    for (const float value : result) {
        nan |= is_nan_bits(float_bits(value));
    }
    if (nan) [[unlikely]] {
        row_times_weights_nan(row, weights, result);
    }
    // The ring starts at column 0.
    const int tail = lanes - static_cast<int>(weights.first);
    std::copy_n(result + weights.first, tail, sums);
    std::copy_n(result, weights.first, sums + tail);
}

}  // namespace atalla
