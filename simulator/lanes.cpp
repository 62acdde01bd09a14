#include "simulator/lanes.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace atalla {

namespace {

// Puts sums in the order of the ring, which starts at column 0, in the order of the columns.
void leave_ring(const float *ring, const WeightBuffer &weights, float *results) {
    const size_t tail = lanes - weights.first;
    std::copy_n(ring + weights.first, tail, results);
    std::copy_n(ring, weights.first, results + tail);
}

// The same sums with every NaN decided by rule.
[[gnu::cold, gnu::noinline]] void row_times_weights_nan(const float *row, const WeightBuffer &weights, float *results) {
    float sums[lanes] = {};
    for (int k = 0; k < lanes; k++) {
        for (int column = 0; column < lanes; column++) {
            const float product = with_nan_rules(row[k], weights.depth[k][column], std::multiplies<float>());
            sums[column] = with_nan_rules(sums[column], product, std::plus<float>());
        }
    }
    round_lanes(sums);
    leave_ring(sums, weights, results);
}

using Four [[gnu::vector_size(16), gnu::may_alias]] = float;
using Eight [[gnu::vector_size(32), gnu::may_alias]] = float;
using Sixteen [[gnu::vector_size(64), gnu::may_alias]] = float;

template <class Vector>
[[gnu::always_inline]] inline void store_rounded(const Vector &values, Vector &to) {
    using Bits [[gnu::vector_size(sizeof(Vector))]] = uint32_t;
    const Bits bits = reinterpret_cast<Bits>(values);
    to = reinterpret_cast<Vector>((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000);
}

// Both are computed before anything that follows: gcc would finish one chain of additions before it begins the other, and
// the host would wait for each of them. (clang does not, and wants the target of the caller here.)
template <class Vector>
[[gnu::always_inline]] inline void side_by_side([[maybe_unused]] Vector &one, [[maybe_unused]] Vector &other) {
#if defined(__x86_64__) && !defined(__clang__)
    asm("" : "+v"(one), "+v"(other));
#endif
}

// Up to four vectors of sums at a time, each a variable of its own so that it stays in a register. Each lane is computed by
// itself, so the width of a vector changes no bit. `check` has a NaN where a sum is NaN; infinities may make one too.
template <class Vector>
[[gnu::always_inline]] inline void plain_sums(const float *row, const WeightBuffer &weights, float *results, Vector &check) {
    constexpr int vectors = lanes * sizeof(float) / sizeof(Vector);
    constexpr bool four = vectors >= 4;
    alignas(64) float ring[lanes];
    auto *to = reinterpret_cast<Vector *>(weights.first == 0 ? results : ring);
    check = Vector{};
    for (int first = 0; first < vectors; first += 4, to += 4) {
        const Vector *depth = reinterpret_cast<const Vector *>(weights.depth) + first;
        Vector sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
        for (int k = 0; k < lanes; k++, depth += vectors) {
            const float factor = row[k];
            sum0 += factor * depth[0];
            sum1 += factor * depth[1];
            if constexpr (four) {
                sum2 += factor * depth[2];
                sum3 += factor * depth[3];
            }
            side_by_side(sum0, sum1);
        }
        check += (sum0 + sum1) + (sum2 + sum3);
        store_rounded(sum0, to[0]);
        store_rounded(sum1, to[1]);
        if constexpr (four) {
            store_rounded(sum2, to[2]);
            store_rounded(sum3, to[3]);
        }
    }
    if (weights.first != 0) {
        leave_ring(ring, weights, results);
    }
}

void sums_by_four(const float *row, const WeightBuffer &weights, float *results) {
    Four check;
    plain_sums<Four>(row, weights, results, check);
    bool nan = false;
    for (int lane = 0; lane < 4; lane++) {
        nan |= is_nan_bits(float_bits(check[lane]));
    }
    if (nan) [[unlikely]] {
        row_times_weights_nan(row, weights, results);
    }
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void sums_by_eight(const float *row, const WeightBuffer &weights, float *results) {
    Eight check;
    plain_sums<Eight>(row, weights, results, check);
    if (_mm256_movemask_ps(_mm256_cmp_ps(check, check, _CMP_UNORD_Q)) != 0) [[unlikely]] {
        row_times_weights_nan(row, weights, results);
    }
}
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void sums_by_sixteen(const float *row, const WeightBuffer &weights,
                                                                           float *results) {
    Sixteen check;
    plain_sums<Sixteen>(row, weights, results, check);
    if (_mm512_cmp_ps_mask(check, check, _CMP_UNORD_Q) != 0) [[unlikely]] {
        row_times_weights_nan(row, weights, results);
    }
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
