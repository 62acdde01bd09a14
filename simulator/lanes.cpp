#include "simulator/lanes.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

namespace atalla {

namespace {

// The same sums with every NaN decided by rule.
[[gnu::cold, gnu::noinline]] void row_times_weights_nan(const float *row, const WeightBuffer &weights, float *sums) {
    std::fill_n(sums, lanes, 0.0f);
    for (int k = 0; k < lanes; k++) {
        for (int column = 0; column < lanes; column++) {
            const float product = with_nan_rules(row[k], weights.depth[k][column], std::multiplies<float>());
            sums[column] = with_nan_rules(sums[column], product, std::plus<float>());
        }
    }
}

// Up to four vectors of sums at a time, each a variable of its own so that it stays in a register. Each lane is computed by
// itself, so the width of a vector changes no bit.
template <class Vector>
[[gnu::always_inline]] inline void plain_sums(const float *row, const WeightBuffer &weights, float *sums) {
    constexpr int vectors = lanes * sizeof(float) / sizeof(Vector);
    constexpr bool four = vectors >= 4;
    for (int first = 0; first < vectors; first += 4) {
        const Vector *depth = reinterpret_cast<const Vector *>(weights.depth) + first;
        Vector sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
        for (int k = 0; k < lanes; k += 4) {
            for (int next = 0; next < 4; next++, depth += vectors) {
                const float factor = row[k + next];
                sum0 += factor * depth[0];
                sum1 += factor * depth[1];
                if constexpr (four) {
                    sum2 += factor * depth[2];
                    sum3 += factor * depth[3];
                }
            }
        }
        auto *to = reinterpret_cast<Vector *>(sums) + first;
        to[0] = sum0;
        to[1] = sum1;
        if constexpr (four) {
            to[2] = sum2;
            to[3] = sum3;
        }
    }
}

template <class Vector>
[[gnu::always_inline]] inline void rounded_sums(const float *row, const WeightBuffer &weights, float *results) {
    alignas(64) float sums[lanes];
    plain_sums<Vector>(row, weights, sums);
    uint32_t nan = 0;
    for (const float sum : sums) {
        nan |= is_nan_bits(float_bits(sum)) ? 1u : 0u;
    }
    if (nan != 0) [[unlikely]] {
        row_times_weights_nan(row, weights, sums);
    }
    round_lanes(sums);
    // The ring starts at column 0.
    if (weights.first == 0) {
        std::copy_n(sums, lanes, results);
    } else {
        const int tail = lanes - static_cast<int>(weights.first);
        std::copy_n(sums + weights.first, tail, results);
        std::copy_n(sums, weights.first, results + tail);
    }
}

using Four [[gnu::vector_size(16), gnu::may_alias]] = float;
void sums_by_four(const float *row, const WeightBuffer &weights, float *sums) { rounded_sums<Four>(row, weights, sums); }

#ifdef __x86_64__
using Eight [[gnu::vector_size(32), gnu::may_alias]] = float;
using Sixteen [[gnu::vector_size(64), gnu::may_alias]] = float;
[[gnu::target("avx2")]] void sums_by_eight(const float *row, const WeightBuffer &weights, float *sums) {
    rounded_sums<Eight>(row, weights, sums);
}
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void sums_by_sixteen(const float *row, const WeightBuffer &weights,
                                                                           float *sums) {
    rounded_sums<Sixteen>(row, weights, sums);
}
#endif

}  // namespace

int widest_vectors() {
#ifdef __x86_64__
    const bool sixteen = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return sixteen ? 16 : __builtin_cpu_supports("avx2") ? 8 : 4;
#else
    return 4;
#endif
}

RowTimesWeights row_times_weights_by([[maybe_unused]] int width) {
#ifdef __x86_64__
    if (width == 16) {
        return sums_by_sixteen;
    }
    if (width == 8) {
        return sums_by_eight;
    }
#endif
    return sums_by_four;
}
const RowTimesWeights row_times_weights = row_times_weights_by(widest_vectors());

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// The first of the best lanes.
template <class Better>
float extremum(const float *values, uint32_t active, float identity, Better better) {
    float candidates[lanes];
    for (int lane = 0; lane < lanes; lane++) {
        const float value = bf16_round(values[lane]);
        candidates[lane] = (active & lane_bit[lane]) != 0 && !is_nan_bits(float_bits(value)) ? value : identity;
    }
    float best = identity;
    for (const float candidate : candidates) {
        best = better(candidate, best) ? candidate : best;
    }
    return best;
}

}  // namespace

float sum_of_lanes(const float *values, uint32_t active) {
    float sum = 0;
    for (int lane = 0; lane < lanes; lane++) {
        const float next = sum + bf16_round(values[lane]);
        sum = (active & lane_bit[lane]) != 0 ? next : sum;
    }
    if (!is_nan_bits(float_bits(sum))) [[likely]] {
        return sum;
    }
    sum = 0;
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

}  // namespace atalla
