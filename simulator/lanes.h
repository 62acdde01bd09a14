// Arithmetic on 32 lanes at once, written so that every compiler finds the vector instructions and none changes a bit.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "simulator/machine_state.h"

#ifdef __FAST_MATH__
#error "the simulator's values are exact: build without -ffast-math"
#endif

namespace atalla {

constexpr std::array<uint32_t, lanes> lane_bit = [] {
    std::array<uint32_t, lanes> bits{};
    for (int lane = 0; lane < lanes; lane++) {
        bits[lane] = uint32_t{1} << lane;
    }
    return bits;
}();

constexpr uint32_t all_lanes = 0xFFFFFFFF;

// As a copy of constant size, which compilers put in place. The two do not overlap.
inline void copy_lanes(const float *from, float *to) { std::memcpy(to, from, lanes * sizeof(float)); }

// to[lane] = from[lane] where bit `lane` of the mask is set.
inline void merge_lanes(float *to, const float *from, uint32_t mask) {
    for (int lane = 0; lane < lanes; lane++) {
        const uint32_t select = (mask & lane_bit[lane]) != 0 ? ~0u : 0u;
        to[lane] = bits_float((float_bits(from[lane]) & select) | (float_bits(to[lane]) & ~select));
    }
}

// A word whose bit `lane` is holds(lane).
template <class Predicate>
uint32_t lane_bits(Predicate holds) {
    uint32_t word = 0;
    for (int lane = 0; lane < lanes; lane++) {
        word |= holds(lane) ? lane_bit[lane] : 0u;
    }
    return word;
}

constexpr uint32_t reversed_bits(uint32_t word) {
    word = (word >> 1 & 0x55555555) | (word & 0x55555555) << 1;
    word = (word >> 2 & 0x33333333) | (word & 0x33333333) << 2;
    word = (word >> 4 & 0x0F0F0F0F) | (word & 0x0F0F0F0F) << 4;
    word = (word >> 8 & 0x00FF00FF) | (word & 0x00FF00FF) << 8;
    return std::rotl(word, 16);
}

// a operation b, where the first NaN operand survives, quiet, and an invalid operation gives the default NaN. Hardware and
// compilers differ here: plain arithmetic is only used where no NaN comes out.
template <class Operation>
float with_nan_rules(float a, float b, Operation operation) {
    if (is_nan_bits(float_bits(a))) {
        return bits_float(quiet_bits(float_bits(a)));
    }
    if (is_nan_bits(float_bits(b))) {
        return bits_float(quiet_bits(float_bits(b)));
    }
    const float result = operation(a, b);
    return is_nan_bits(float_bits(result)) ? bits_float(default_nan) : result;
}

// rounded[lane] = values[lane] as bf16; the two may be the same.
inline void round_lanes(const float *values, float *rounded) {
    for (int lane = 0; lane < lanes; lane++) {
        rounded[lane] = bf16_round(values[lane]);
    }
}

// results[lane] = a[lane] operation b[lane], lane by lane: where NaN is met.
template <class Operation>
[[gnu::cold, gnu::noinline]] void by_nan_rules(const float *a, const float *b, float *results, Operation operation) {
    for (int lane = 0; lane < lanes; lane++) {
        results[lane] = with_nan_rules(a[lane], b[lane], operation);
    }
}

// results[lane] = a[lane] operation b[lane] with the rules for NaN: plain arithmetic, done again where a NaN came out.
// `results` overlaps neither operand.
template <class Operation>
void for_all_lanes(const float *a, const float *b, float *__restrict results, Operation operation) {
    uint32_t nan = 0;
    for (int lane = 0; lane < lanes; lane++) {
        results[lane] = operation(a[lane], b[lane]);
        nan |= is_nan_bits(float_bits(results[lane])) ? 1u : 0u;
    }
    if (nan != 0) [[unlikely]] {
        by_nan_rules(a, b, results, operation);
    }
}

// The same, rounded to bf16.
template <class Operation>
void rounded_lanes(const float *a, const float *b, float *__restrict results, Operation operation) {
    uint32_t nan = 0;
    for (int lane = 0; lane < lanes; lane++) {
        const float result = operation(a[lane], b[lane]);
        nan |= is_nan_bits(float_bits(result)) ? 1u : 0u;
        results[lane] = bf16_round(result);
    }
    if (nan != 0) [[unlikely]] {
        by_nan_rules(a, b, results, operation);
        round_lanes(results, results);
    }
}

// Reductions over the lanes whose bit in `active` is set, of values rounded to bf16 (isa reference 4.8). The sum is float32,
// sequential from lane 0 up; the extrema keep the first of equals and skip NaN.
float sum_of_lanes(const float *values, uint32_t active);
float minimum_of_lanes(const float *values, uint32_t active);
float maximum_of_lanes(const float *values, uint32_t active);

// Puts the result of a reduction where the immediate says: into every lane, or into one with the others zero or taken from
// vs1. No mask has a say here.
void place_reduction(float *vd, const float *vs1, int32_t imm, float result);

// sums[r][j] = row r . column j in float32, depth ascending from a sum of +0, rounded to bf16. Operands are bf16 values; `sums`
// overlaps none of them, and all are aligned to 64 bytes. Rows side by side share the weights that the host has in registers.
using RowsTimesWeights = void (*)(const float (*rows)[lanes], int count, const WeightBuffer &weights, float (*sums)[lanes]);
extern const RowsTimesWeights rows_times_weights;

// How many lanes an instruction of this host takes: 4, 8 or 16. The code for a width that is no wider; all give the same bits.
int widest_vectors();
RowsTimesWeights rows_times_weights_by(int width);

}  // namespace atalla
