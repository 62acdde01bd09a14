// The scalar instructions: integer, float, control, moves to and from masks (isa reference 4.2 to 4.4, 4.12).
#pragma once

#include <cmath>
#include <limits>

#include "simulator/semantics.h"

namespace atalla::semantics {

using enum MachineModel;
using S = MachineState;
using I = Instruction;

inline uint32_t rs1(const S &s, const I &i) { return s.x[i.a]; }
inline uint32_t rs2(const S &s, const I &i) { return s.x[i.b]; }
inline uint32_t imm(const I &i) { return static_cast<uint32_t>(i.imm); }
inline int32_t as_signed(uint32_t value) { return static_cast<int32_t>(value); }

// x0 stays zero.
inline void set_rd(S &s, const I &i, uint32_t value) {
    s.x[i.d] = value;
    s.x[0] = 0;
}

// Integer operations. The second operand is rs2 or the sign-extended immediate; shifts use the whole amount.
inline uint32_t shift_left(uint32_t a, uint32_t by) { return by < 32 ? a << by : 0; }
inline uint32_t shift_right(uint32_t a, uint32_t by) { return by < 32 ? a >> by : 0; }
inline uint32_t shift_right_signed(uint32_t a, uint32_t by) {
    return static_cast<uint32_t>(as_signed(a) >> (by < 32 ? by : 31));
}

template <MachineModel model>
[[noreturn, gnu::cold, gnu::noinline]] void refuse_division(const char *what) {
    refuse(model == Hardware ? "50" : "isa 4.2", std::string(what) + " by zero");
}

// Toward zero; the most negative number by -1 gives itself.
template <MachineModel model>
uint32_t divide(uint32_t a, uint32_t b) {
    if (b == 0) {
        refuse_division<model>("division");
    }
    return static_cast<uint32_t>(int64_t{as_signed(a)} / as_signed(b));
}

// The result has the sign of the divisor.
template <MachineModel model>
uint32_t modulo(uint32_t a, uint32_t b) {
    if (b == 0) {
        refuse_division<model>("modulo");
    }
    const int64_t rest = int64_t{as_signed(a)} % as_signed(b);
    return static_cast<uint32_t>(rest != 0 && (rest < 0) != (as_signed(b) < 0) ? rest + as_signed(b) : rest);
}

// The integer operations that both encodings have, as cases of the switch over i.op in execute(): every operation is one jump
// away there, and a function with a switch of its own would make it two.
#define ATALLA_INTEGER_CASES                                \
    case Opcode::add_s:                                     \
        return set_rd(s, i, a + b);                         \
    case Opcode::sub_s:                                     \
        return set_rd(s, i, a - b);                         \
    case Opcode::mul_s:                                     \
        return set_rd(s, i, a * b);                         \
    case Opcode::mod_s:                                     \
        return set_rd(s, i, modulo<model>(a, b));           \
    case Opcode::or_s:                                      \
        return set_rd(s, i, a | b);                         \
    case Opcode::and_s:                                     \
        return set_rd(s, i, a & b);                         \
    case Opcode::xor_s:                                     \
        return set_rd(s, i, a ^ b);                         \
    case Opcode::sll_s:                                     \
        return set_rd(s, i, shift_left(a, b));              \
    case Opcode::srl_s:                                     \
        return set_rd(s, i, shift_right(a, b));             \
    case Opcode::sra_s:                                     \
        return set_rd(s, i, shift_right_signed(a, b));      \
    case Opcode::slt_s:                                     \
        return set_rd(s, i, as_signed(a) < as_signed(b));   \
    case Opcode::sltu_s:                                    \
        return set_rd(s, i, a < b);                         \
    case Opcode::addi_s:                                    \
        return set_rd(s, i, a + imm(i));                    \
    case Opcode::subi_s:                                    \
        return set_rd(s, i, a - imm(i));                    \
    case Opcode::muli_s:                                    \
        return set_rd(s, i, a * imm(i));                    \
    case Opcode::divi_s:                                    \
        return set_rd(s, i, divide<model>(a, imm(i)));      \
    case Opcode::modi_s:                                    \
        return set_rd(s, i, modulo<model>(a, imm(i)));      \
    case Opcode::ori_s:                                     \
        return set_rd(s, i, a | imm(i));                    \
    case Opcode::andi_s:                                    \
        return set_rd(s, i, a & imm(i));                    \
    case Opcode::xori_s:                                    \
        return set_rd(s, i, a ^ imm(i));                    \
    case Opcode::slli_s:                                    \
        return set_rd(s, i, shift_left(a, imm(i)));         \
    case Opcode::srli_s:                                    \
        return set_rd(s, i, shift_right(a, imm(i)));        \
    case Opcode::srai_s:                                    \
        return set_rd(s, i, shift_right_signed(a, imm(i))); \
    case Opcode::slti_s:                                    \
        return set_rd(s, i, as_signed(a) < i.imm);          \
    case Opcode::sltui_s:                                   \
        return set_rd(s, i, a < imm(i));                    \
    case Opcode::li_s:                                      \
        return set_rd(s, i, imm(i));                        \
    case Opcode::lui_s:                                     \
        return set_rd(s, i, imm(i) << 7);

// Float operations: double arithmetic on the decoded operands, one rounding to float32.

// A register as a float32 pattern. Reading a signalling NaN quiets it.
inline float float_operand(uint32_t value) { return bits_float(quiet_bits(value)); }
// add, sub and mul also take a bf16 constant in the low half of a register.
inline float bf_operand(uint32_t value) { return float_operand(value <= 0xFFFF ? value << 16 : value); }

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_float(const char *what) { refuse("isa 4.3", what); }
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_overflow(const char *what) {
    refuse("isa 4.3", std::string(what) + " overflows float32");
}

// Rounds to float32. `a` and `b` are the operands, the first NaN of which survives, so that no compiler has a choice.
template <MachineModel model>
uint32_t float_result(double value, float a, float b, const char *what) {
    if (is_nan_bits(float_bits(a))) {
        return float_bits(a);
    }
    if (is_nan_bits(float_bits(b))) {
        return float_bits(b);
    }
    if (std::isnan(value)) {
        return default_nan;
    }
    const float result = static_cast<float>(value);
    if constexpr (model == Functional) {
        if (std::isinf(result) && !std::isinf(value)) {
            refuse_overflow(what);
        }
    }
    return float_bits(result);
}

template <MachineModel model>
void add_bf(S &s, const I &i) {
    const float a = bf_operand(rs1(s, i)), b = bf_operand(rs2(s, i));
    set_rd(s, i, float_result<model>(double{a} + double{b}, a, b, "add.bf"));
}
template <MachineModel model>
void sub_bf(S &s, const I &i) {
    const float a = bf_operand(rs1(s, i)), b = bf_operand(rs2(s, i));
    set_rd(s, i, float_result<model>(double{a} - double{b}, a, b, "sub.bf"));
}
template <MachineModel model>
void mul_bf(S &s, const I &i) {
    const float a = bf_operand(rs1(s, i)), b = bf_operand(rs2(s, i));
    set_rd(s, i, float_result<model>(double{a} * double{b}, a, b, "mul.bf"));
}
template <MachineModel model>
void rcp_bf(S &s, const I &i) {
    const float a = float_operand(rs1(s, i));
    if constexpr (model == Functional) {
        if (a == 0) {
            refuse_float("rcp.bf of zero");
        }
        if (std::isinf(atalla_rcp(a))) {
            refuse_overflow("rcp.bf");
        }
    }
    set_rd(s, i, float_bits(atalla_rcp(a)));
}
inline void sqrt_bf(S &s, const I &i) { set_rd(s, i, float_bits(atalla_sqrt(float_operand(rs1(s, i))))); }
inline void slt_bf(S &s, const I &i) { set_rd(s, i, float_operand(rs1(s, i)) < float_operand(rs2(s, i))); }
// The register is taken as unsigned.
inline void stbf_s(S &s, const I &i) { set_rd(s, i, float_bits(static_cast<float>(rs1(s, i)))); }

// Toward zero. Beyond 32 bits the functional machine keeps the low ones.
template <MachineModel model>
void bfts_s(S &s, const I &i) {
    const float value = float_operand(rs1(s, i));
    if (!std::isfinite(value)) {
        refuse_float("bfts.s of a value that is not finite");
    }
    const double whole = std::trunc(double{value});
    if constexpr (model == Hardware) {
        if (whole < std::numeric_limits<int32_t>::min() || whole > std::numeric_limits<uint32_t>::max()) {
            refuse_float("bfts.s of a value beyond 32 bits");
        }
    }
    const double low = std::fmod(whole, 4294967296.0);
    set_rd(s, i, static_cast<uint32_t>(static_cast<int64_t>(low)));
}

// Control. `next` arrives as the address of the following packet.

// Compares of old rs1 with rs2: signed on hardware, unsigned in upstream's functional simulator (quirk 3).
template <MachineModel model>
bool less(uint32_t a, uint32_t b) {
    if constexpr (model == Hardware) {
        return as_signed(a) < as_signed(b);
    }
    return a < b;
}

// The last branch of a packet decides, also when it is not taken; rs1 grows by the increment either way.
inline void branch(S &s, const I &i, const DecodedPacket &packet, PacketOutcome &out, bool taken) {
    out.taken = taken;
    out.next_pc = int64_t{packet.address} + (taken ? i.imm : packet_bytes);
    s.x[i.a] += i.aux;
    s.x[0] = 0;
}

inline void link(S &s, const I &i, const DecodedPacket &packet) {
    set_rd(s, i, packet.address + static_cast<uint32_t>(packet_bytes));
}
inline void jal(S &s, const I &i, const DecodedPacket &packet, PacketOutcome &out) {
    out = {int64_t{packet.address} + i.imm, out.halted, true};
    link(s, i, packet);
}
template <MachineModel model>
void jalr(S &s, const I &i, const DecodedPacket &packet, PacketOutcome &out) {
    const int64_t target = model == Hardware ? int64_t{rs1(s, i) + imm(i)} : int64_t{rs1(s, i)} + i.imm;
    out = {target, out.halted, true};
    link(s, i, packet);
}

// Masks. m0 is constant on hardware, an ordinary register in upstream's functional simulator (quirk 23).
template <MachineModel model>
void set_mask(S &s, const I &i, uint32_t value) {
    if (model == Functional || i.d != 0) {
        s.m[i.d] = value;
    }
}
inline void mv_mts(S &s, const I &i) { set_rd(s, i, s.m[i.a]); }
template <MachineModel model>
void mv_stm(S &s, const I &i) {
    set_mask<model>(s, i, rs1(s, i));
}

}  // namespace atalla::semantics
