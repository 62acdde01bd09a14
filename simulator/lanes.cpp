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

// Puts sums in the order of the ring in the order of the columns, the first of which is anywhere in the ring.
void leave_ring(const WeightBuffer &weights, float *sums) {
    alignas(64) float ring[lanes];
    copy_lanes(sums, ring);
    const size_t tail = lanes - weights.first;
    std::copy_n(ring + weights.first, tail, sums);
    std::copy_n(ring, weights.first, sums + tail);
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

// The sums of `count` rows, at most four vectors of each at a time, so that all stay in registers. Each lane is computed by
// itself, so neither the width of a vector nor the number of rows changes a bit. `check` has a NaN where a sum is NaN;
// infinities may make one too.
template <class Vector, int count>
[[gnu::always_inline]] inline void plain_sums(const float (*rows)[lanes], const WeightBuffer &weights, float (*results)[lanes],
                                              Vector &check) {
    constexpr int vectors = lanes * sizeof(float) / sizeof(Vector), columns = vectors < 4 ? vectors : 4;
    for (int first = 0; first < vectors; first += columns) {
        Vector sums[count][columns] = {};
        const Vector *depth = reinterpret_cast<const Vector *>(weights.depth) + first;
        for (int k = 0; k < lanes; k++, depth += vectors) {
#pragma GCC unroll 4
            for (int row = 0; row < count; row++) {
#pragma GCC unroll 4
                for (int column = 0; column < columns; column++) {
                    sums[row][column] += rows[row][k] * depth[column];
                }
                side_by_side(sums[row][0], sums[row][1]);
            }
        }
#pragma GCC unroll 4
        for (int row = 0; row < count; row++) {
#pragma GCC unroll 4
            for (int column = 0; column < columns; column++) {
                check += sums[row][column];
                store_rounded(sums[row][column], reinterpret_cast<Vector *>(results[row])[first + column]);
            }
        }
    }
}

template <class Vector, int at_once>
[[gnu::always_inline]] inline void sums_of_rows(const float (*rows)[lanes], int count, const WeightBuffer &weights,
                                                float (*results)[lanes], Vector &check) {
    check = Vector{};
    int row = 0;
    for (; row + at_once <= count; row += at_once) {
        plain_sums<Vector, at_once>(rows + row, weights, results + row, check);
    }
    for (; row < count; row++) {
        plain_sums<Vector, 1>(rows + row, weights, results + row, check);
    }
}

// Makes of an operation's result in plain arithmetic the one that with_nan_rules() (lanes.h) has.
template <class Vector>
[[gnu::always_inline]] inline void decide_nan(const Vector &first, const Vector &second, Vector &result) {
    using Bits [[gnu::vector_size(sizeof(Vector))]] = int32_t;
    constexpr int32_t quiet = quiet_bit, invalid = static_cast<int32_t>(default_nan), magnitude = 0x7FFFFFFF, most = 0x7F800000;
    const Bits a = reinterpret_cast<Bits>(first), b = reinterpret_cast<Bits>(second), plain = reinterpret_cast<Bits>(result);
    const Bits a_nan = (a & magnitude) > most, b_nan = (b & magnitude) > most, nan = (plain & magnitude) > most;
    const Bits of_numbers = (nan & invalid) | (~nan & plain);
    const Bits of_second = (b_nan & (b | quiet)) | (~b_nan & of_numbers);
    result = reinterpret_cast<Vector>((a_nan & (a | quiet)) | (~a_nan & of_second));
}

// The sums of a row in the order of the ring, with every NaN decided by rule.
template <class Vector>
[[gnu::always_inline]] inline void row_times_weights_nan(const float *row, const WeightBuffer &weights, float *results) {
    constexpr int vectors = lanes * sizeof(float) / sizeof(Vector);
    for (int first = 0; first < vectors; first++) {
        const Vector *depth = reinterpret_cast<const Vector *>(weights.depth) + first;
        Vector sum = {};
        for (int k = 0; k < lanes; k++, depth += vectors) {
            Vector factor;
            std::fill_n(reinterpret_cast<float *>(&factor), sizeof(Vector) / sizeof(float), row[k]);
            Vector product = factor * *depth, next = sum;
            decide_nan(factor, *depth, product);
            next += product;
            decide_nan(sum, product, next);
            sum = next;
        }
        reinterpret_cast<Vector *>(results)[first] = sum;
    }
    round_lanes(results, results);
}

// What is left to do with the sums of the ring, one of which may be NaN.
template <class Vector>
[[gnu::always_inline]] inline void finish_sums(const float (*rows)[lanes], int count, const WeightBuffer &weights,
                                               float (*results)[lanes], bool nan) {
    for (int row = 0; row < count; row++) {
        if (nan) [[unlikely]] {
            row_times_weights_nan<Vector>(rows[row], weights, results[row]);
        }
        if (weights.first != 0) {
            leave_ring(weights, results[row]);
        }
    }
}

void sums_by_four(const float (*rows)[lanes], int count, const WeightBuffer &weights, float (*results)[lanes]) {
    Four check;
    sums_of_rows<Four, 2>(rows, count, weights, results, check);
    bool nan = false;
    for (int lane = 0; lane < 4; lane++) {
        nan |= is_nan_bits(float_bits(check[lane]));
    }
    finish_sums<Four>(rows, count, weights, results, nan);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void sums_by_eight(const float (*rows)[lanes], int count, const WeightBuffer &weights,
                                           float (*results)[lanes]) {
    Eight check;
    sums_of_rows<Eight, 2>(rows, count, weights, results, check);
    finish_sums<Eight>(rows, count, weights, results, _mm256_movemask_ps(_mm256_cmp_ps(check, check, _CMP_UNORD_Q)) != 0);
}

#define ATALLA_SIXTEEN_LANES gnu::target("avx512f,avx512bw,avx512dq,avx512vl")

[[ATALLA_SIXTEEN_LANES]] bool all_moderate(const float (*rows)[lanes], int count) {
    const __m512i least = _mm512_set1_epi32(least_moderate), range = _mm512_set1_epi32(most_moderate - least_moderate);
    __mmask16 extreme = 0;
    for (const float *values = rows[0]; values < rows[count]; values += 16) {
        const __m512i magnitude = _mm512_and_epi32(_mm512_load_epi32(values), _mm512_set1_epi32(0x7FFFFFFF));
        const __mmask16 outside = _mm512_cmp_epu32_mask(_mm512_sub_epi32(magnitude, least), range, _MM_CMPINT_GT);
        extreme |= outside & _mm512_test_epi32_mask(magnitude, magnitude);
    }
    return extreme == 0;
}

// plain_sums() where all products are exact: the addition that is fused with one rounds as the one after it would.
template <int count>
[[ATALLA_SIXTEEN_LANES]] inline void fused_sums(const float (*rows)[lanes], const WeightBuffer &weights,
                                                float (*results)[lanes]) {
    __m512 sums[count][2] = {};
#pragma GCC unroll 8
    for (int k = 0; k < lanes; k++) {
        const __m512 low = _mm512_load_ps(weights.depth[k]), high = _mm512_load_ps(weights.depth[k] + 16);
#pragma GCC unroll 4
        for (int row = 0; row < count; row++) {
            const __m512 factor = _mm512_set1_ps(rows[row][k]);
            sums[row][0] = _mm512_fmadd_ps(factor, low, sums[row][0]);
            sums[row][1] = _mm512_fmadd_ps(factor, high, sums[row][1]);
        }
    }
#pragma GCC unroll 4
    for (int row = 0; row < count; row++) {
        auto *to = reinterpret_cast<Sixteen *>(results[row]);
        store_rounded<Sixteen>(sums[row][0], to[0]);
        store_rounded<Sixteen>(sums[row][1], to[1]);
    }
}

[[ATALLA_SIXTEEN_LANES]] void sums_by_sixteen(const float (*rows)[lanes], int count, const WeightBuffer &weights,
                                              float (*results)[lanes]) {
    // A row by itself waits for its additions, which take longer when they are fused.
    const int fused = weights.extreme == 0 && count >= 4 && all_moderate(rows, count) ? count & ~3 : 0;
    for (int row = 0; row < fused; row += 4) {
        fused_sums<4>(rows + row, weights, results + row);
    }
    Sixteen check;
    sums_of_rows<Sixteen, 4>(rows + fused, count - fused, weights, results + fused, check);
    finish_sums<Sixteen>(rows, count, weights, results, _mm512_cmp_ps_mask(check, check, _CMP_UNORD_Q) != 0);
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

RowsTimesWeights rows_times_weights_by([[maybe_unused]] int width) {
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
const RowsTimesWeights rows_times_weights = rows_times_weights_by(widest_vectors());

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
        copy_lanes(vs1, vd);
    }
    vd[imm & 31] = result;
}

}  // namespace atalla
