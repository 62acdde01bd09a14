// The numbers of the machine: bf16 rounding and the special functions, bit for bit, for the simulator and for host code.
#pragma once

#include <bit>
#include <cstdint>

// C linkage, so that code compiled at run time finds them by name.
extern "C" {
float atalla_exp(float x);   // expi.vi: x rounded to bf16, exp of it in float32, rounded to bf16
float atalla_rcp(float x);   // rcp.bf: 1/x in float32; 1/0 is infinity with the sign of the zero
float atalla_sqrt(float x);  // sqrt.bf: in float32; -0 for -0, NaN (0xFFC00000) below zero
}

namespace atalla {

// What an operation without a result gives: x86's default NaN (isa reference 4.13).
constexpr uint32_t default_nan = 0xFFC00000;
constexpr uint32_t quiet_bit = 0x00400000;

constexpr uint32_t float_bits(float value) { return std::bit_cast<uint32_t>(value); }
constexpr float bits_float(uint32_t bits) { return std::bit_cast<float>(bits); }

// Tests on bit patterns, so that they hold whatever the compiler assumes about NaN.
constexpr bool is_nan_bits(uint32_t bits) { return (bits & 0x7FFFFFFF) > 0x7F800000; }
constexpr uint32_t quiet_bits(uint32_t bits) { return is_nan_bits(bits) ? bits | quiet_bit : bits; }

// Round to nearest even as the machine does it (isa reference 1.2): no special case for NaN, which may become infinity or
// zero. The result is a float whose low half is zero.
constexpr uint32_t bf16_round_bits(uint32_t bits) { return (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000; }
constexpr float bf16_round(float value) { return bits_float(bf16_round_bits(float_bits(value))); }

// A bf16 pattern as a float, and the upper half of a float (truncation).
constexpr float bf16_float(uint16_t half) { return bits_float(uint32_t{half} << 16); }
constexpr uint16_t bf16_truncate(float value) { return static_cast<uint16_t>(float_bits(value) >> 16); }

// The exponential of every bf16 pattern as one, in a table: what atalla_exp looks up.
const uint16_t *exp_of_halves();

}  // namespace atalla
