#include "simulator/a48_semantics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "simulator/lanes.h"
#include "simulator/semantics_scalar.h"
#include "simulator/semantics_vector.h"

namespace atalla::a48 {

namespace {

using S = State;
using I = Instruction;
using semantics::as_signed;
using semantics::bf_operand;  // every float operand: low-half bf16 up to 0xFFFF, else a float32 pattern
using semantics::divide;
using semantics::equal;
using semantics::greater_than;
using semantics::less_than;
using semantics::modulo;
using semantics::not_equal;
using semantics::shift_left;
using semantics::shift_right;
using semantics::shift_right_signed;

uint32_t imm(const I &i) { return static_cast<uint32_t>(i.imm); }
void set_rd(S &s, const I &i, uint32_t value) {
    s.x[i.d] = value;
    s.x[0] = 0;
}

// m0 reads as all ones, whatever is written.
void set_mask(S &s, const I &i, uint32_t value) {
    if (i.d >= std::size(s.m)) {
        refuse("isa 1.1", fmt::format("m{} does not exist, the masks are m0 to m15", i.d));
    }
    if (i.d != 0) {
        s.m[i.d] = value;
    }
}

// Scalar float: double arithmetic, one rounding to float32, then the upper half goes to the lower half of rd.

void set_bf(S &s, const I &i, float value) { set_rd(s, i, bf16_truncate(value)); }

template <class Operation>
void scalar_bf(S &s, const I &i, Operation operation, const char *what) {
    const float a = bf_operand(s.x[i.a]), b = bf_operand(s.x[i.b]);
    set_bf(s, i, bits_float(semantics::float_result<MachineModel::Functional>(operation(double{a}, double{b}), a, b, what)));
}
void rcp_bf(S &s, const I &i) {
    const float a = bf_operand(s.x[i.a]);
    if (a == 0) {
        refuse("isa 4.3", "rcp.bf of zero");
    }
    if (std::isinf(atalla_rcp(a))) {
        semantics::refuse_overflow("rcp.bf");
    }
    set_bf(s, i, atalla_rcp(a));
}
void sqrt_bf(S &s, const I &i) {
    const float a = bf_operand(s.x[i.a]);
    set_bf(s, i, a > 0 ? atalla_sqrt(a) : 0.0f);
}
void bfts_s(S &s, const I &i) {
    const float value = bf_operand(s.x[i.a]);
    if (!std::isfinite(value)) {
        refuse("isa 4.3", "bfts.s of a value that is not finite");
    }
    set_rd(s, i, static_cast<uint32_t>(static_cast<int64_t>(std::fmod(std::trunc(double{value}), 4294967296.0))));
}

void branch(S &s, const I &i, int64_t pc, PacketOutcome &out, bool taken) {
    out.taken = taken;
    out.next_pc = pc + (taken ? i.imm : packet_bytes);
    s.x[i.a] += i.aux;
    s.x[0] = 0;
}
void jump(S &s, const I &i, int64_t pc, PacketOutcome &out, int64_t target) {
    out.taken = true;
    out.next_pc = target;
    set_rd(s, i, static_cast<uint32_t>(pc + packet_bytes));
}

// Lanes.

void set_lanes(S &s, const I &i, const Vector &results) {
    if (i.d != 0) {
        merge_lanes(s.v[i.d], results.data(), s.m[i.mask]);
    }
}
Vector splat(float value) {
    Vector vector;
    vector.fill(value);
    return vector;
}
Vector scalar_operand(const S &s, const I &i) { return splat(bf_operand(s.x[i.b])); }
Vector immediate_operand(const I &i) { return splat(bf16_float(static_cast<uint16_t>(i.imm))); }
Vector vector_operand(const S &s, const I &i) {
    Vector vector;
    std::copy_n(s.v[i.b], lanes, vector.begin());
    return vector;
}

template <class Operation>
void arithmetic(S &s, const I &i, const Vector &second, Operation operation) {
    Vector results;
    for (int lane = 0; lane < lanes; lane++) {
        results[lane] = bf16_round(with_nan_rules(bf16_round(s.v[i.a][lane]), bf16_round(second[lane]), operation));
    }
    set_lanes(s, i, results);
}
constexpr auto quotient = [](float a, float b) { return b != 0 ? a / b : 0.0f; };

template <class Function>
void unary(S &s, const I &i, Function function) {
    Vector results;
    for (int lane = 0; lane < lanes; lane++) {
        results[lane] = bf16_round(function(bf16_round(s.v[i.a][lane])));
    }
    set_lanes(s, i, results);
}
float exponential(float value) {
    using namespace semantics;
    return float_bits(value) == expi_quirk_input ? bits_float(expi_quirk_result) : atalla_exp(value);
}
float clamped_root(float value) { return value < 0 ? 0.0f : atalla_sqrt(value); }

// Bitwise operations on bf16 patterns.
template <class Operation>
void bitwise(S &s, const I &i, Operation operation) {
    Vector results;
    for (int lane = 0; lane < lanes; lane++) {
        const uint32_t a = bf16_round_bits(float_bits(s.v[i.a][lane])), b = bf16_round_bits(float_bits(s.v[i.b][lane]));
        results[lane] = bits_float(operation(a, b) & 0xFFFF0000);
    }
    set_lanes(s, i, results);
}
constexpr auto bit_not = [](uint32_t a, uint32_t) { return ~a; };

// Moves lanes toward lane 0, or with bit 5 toward lane 31; neither masked nor rounded.
void shift_vi(S &s, const I &i) {
    const int distance = (i.imm & 32) != 0 ? -(i.imm & 31) : i.imm & 31;
    Vector results{};
    for (int lane = 0; lane < lanes; lane++) {
        if (lane + distance >= 0 && lane + distance < lanes) {
            results[lane] = s.v[i.a][lane + distance];
        }
    }
    if (i.d != 0) {
        std::ranges::copy(results, s.v[i.d]);
    }
}

// Inactive lanes get the old mask in reverse order (quirk 5).
template <class Compare>
void compare(S &s, const I &i, const Vector &second, Compare holds) {
    const uint32_t active = s.m[i.mask];
    const uint32_t result = lane_bits([&](int lane) { return holds(s.v[i.a][lane], second[lane]); });
    set_mask(s, i, (result & active) | (reversed_bits(s.m[i.d]) & ~active));
}

void set_reduction(S &s, const I &i, float result) {
    if (i.d != 0) {
        place_reduction(s.v[i.d], s.v[i.a], i.imm, result);
    }
}

void lw_vi(S &s, const I &i) {
    if (s.weights.used) {
        s.weights = {};
    }
    std::copy_n(s.v[i.a], lanes, s.weights.row[s.weights.count++ % lanes]);
}

// vd = vs1 . W + vs2 in double, where row k of W is the k-th vector loaded; rounded once, to float32.
void gemm_vv(S &s, const I &i) {
    s.weights.used = true;
    Vector results;
    for (int column = 0; column < lanes; column++) {
        double sum = 0;
        for (int k = 0; k < lanes; k++) {
            sum += double{s.v[i.a][k]} * double{s.weights.row[k][column]};
        }
        results[column] = static_cast<float>(sum + double{s.v[i.b][column]});
    }
    if (i.d != 0) {
        std::ranges::copy(results, s.v[i.d]);
    }
}

void vmov_vts(S &s, const I &i) {
    if (i.imm >= lanes) {
        refuse("isa 4.12", fmt::format("vmov.vts names lane {}, a vector has lanes 0 to 31", i.imm));
    }
    set_rd(s, i, quiet_bits(float_bits(s.v[i.a][i.imm])) >> 16);
}

// Pads.

constexpr uint32_t spill_base = 1024;

// The cells a vreg.* names: lane n is cell(n), for n up to `last`.
struct PadLine {
    Pad &pad;
    bool row;         // a tile row: lane n in bank n; otherwise a tile column: lane n in slot n
    uint32_t number;  // the slot of the row, the bank of the column
    int last;

    float &cell(int lane) const { return row ? pad.cell[number][lane] : pad.cell[lane][number]; }
    bool &filled(int lane) const { return row ? pad.filled[number][lane] : pad.filled[lane][number]; }
};
PadLine pad_line(S &s, const I &i, const char *what) {
    const uint64_t number = uint64_t{s.x[i.a] % lanes} + (i.register_form ? s.x[i.rc_id] : i.rc_id);
    if (number >= lanes) {
        refuse("isa 4.11", fmt::format("{} uses {} {} of a pad, the last is 31", what, i.rc ? "slot" : "bank", number));
    }
    return {s.pads[i.sid], i.rc != 0, static_cast<uint32_t>(number), i.rc ? i.cols : i.rows};
}

void vreg_ld(S &s, const I &i) {
    Vector values{};
    if (s.x[i.a] >= spill_base) {
        if (const auto spill = s.spills.find(s.x[i.a]); spill != s.spills.end()) {
            values = spill->second;
        }
    } else {
        const PadLine line = pad_line(s, i, "vreg.ld");
        for (int lane = 0; lane <= line.last; lane++) {
            values[lane] = line.cell(lane);
        }
    }
    if (i.d != 0) {
        std::ranges::copy(values, s.v[i.d]);
    }
}

void vreg_st(S &s, const I &i) {
    if (s.x[i.a] >= spill_base) {
        std::copy_n(s.v[i.d], lanes, s.spills[s.x[i.a]].begin());
        return;
    }
    const PadLine line = pad_line(s, i, "vreg.st");
    for (int lane = 0; lane <= line.last; lane++) {
        line.cell(lane) = s.v[i.d][lane];
        line.filled(lane) = true;
    }
}

// DMA: the tile is contiguous in memory, one entry an element.
struct Tile {
    uint32_t pad, slot, rows, columns;
    int64_t address;
};
Tile tile(const S &s, const I &i) {
    const uint32_t control = s.x[i.b];
    const uint32_t slot = s.x[i.d] % lanes;
    if (i.register_form) {
        return {control >> 30, slot, (control >> 25 & 31) + 1, (control >> 20 & 31) + 1, s.x[i.a]};
    }
    return {i.sid, slot, i.rows + 1u, i.cols + 1u, s.x[i.a]};
}

template <class F>
void for_each_cell(S &s, const Tile &t, F f) {
    int64_t key = t.address;
    for (uint32_t row = 0; row < t.rows; row++) {
        const uint32_t slot = (t.slot + row) % lanes;
        for (uint32_t column = 0; column < t.columns; column++, key += 2) {
            f(key, s.pads[t.pad].cell[slot][column], s.pads[t.pad].filled[slot][column]);
        }
    }
}

void scpad_ld(S &s, const I &i) {
    const Tile t = tile(s, i);
    if (t.pad >= s.pads.size()) {
        return;  // nothing happens (quirk 16)
    }
    s.traffic.dma_load_bytes[t.pad] += 2 * t.rows * t.columns;
    for_each_cell(s, t, [&](int64_t key, float &cell, bool &filled) {
        cell = bits_float(quiet_bits(s.words.read(key) << 16));
        filled = true;
    });
}
void scpad_st(S &s, const I &i) {
    const Tile t = tile(s, i);
    if (t.pad >= s.pads.size()) {
        return;  // nothing happens (quirk 16)
    }
    s.traffic.dma_store_bytes[t.pad] += 2 * t.rows * t.columns;
    for_each_cell(s, t, [&](int64_t key, float &cell, bool &filled) {
        if (!filled) {
            refuse("isa 4.10", "scpad.st moves a cell of its pad that was never written");
        }
        s.words.write(key, quiet_bits(float_bits(cell)) >> 16);
    });
}

}  // namespace

void execute(State &s, const Instruction &i, int64_t pc, PacketOutcome &out) {
    constexpr MachineModel model = MachineModel::Functional;
    const std::plus<> plus;
    const std::minus<> minus;
    const std::multiplies<> times;
    const uint32_t a = s.x[i.a], b = s.x[i.b];
    const int64_t key = int64_t{a} + i.imm;
    // clang-format off
    switch (i.op) {
    ATALLA_INTEGER_CASES

    case Opcode::add_bf: return scalar_bf(s, i, plus, "add.bf");
    case Opcode::sub_bf: return scalar_bf(s, i, minus, "sub.bf");
    case Opcode::mul_bf: return scalar_bf(s, i, times, "mul.bf");
    case Opcode::rcp_bf: return rcp_bf(s, i);
    case Opcode::slt_bf: return set_rd(s, i, bf_operand(a) < bf_operand(b));
    case Opcode::sqrt_bf: return sqrt_bf(s, i);
    case Opcode::stbf_s: return set_bf(s, i, static_cast<float>(a));
    case Opcode::bfts_s: return bfts_s(s, i);

    case Opcode::beq_s: return branch(s, i, pc, out, a == b);
    case Opcode::bne_s: return branch(s, i, pc, out, a != b);
    case Opcode::blt_s: return branch(s, i, pc, out, a < b);
    case Opcode::bge_s: return branch(s, i, pc, out, a >= b);
    case Opcode::bgt_s: return branch(s, i, pc, out, a > b);
    case Opcode::ble_s: return branch(s, i, pc, out, a <= b);
    case Opcode::jal: return jump(s, i, pc, out, pc + i.imm);
    case Opcode::jalr: return jump(s, i, pc, out, key);
    case Opcode::halt_s: out.halted = true; return;
    case Opcode::nop_s:
    case Opcode::barrier_s: return;

    case Opcode::lw_s: return set_rd(s, i, s.words.read(key));
    case Opcode::sw_s: return s.words.write(key, s.x[i.d]);
    case Opcode::lhw_s: return set_rd(s, i, s.words.read(key) << 16);
    case Opcode::shw_s: return s.words.write(key, s.x[i.d] >> 16);

    case Opcode::add_vv: return arithmetic(s, i, vector_operand(s, i), plus);
    case Opcode::sub_vv: return arithmetic(s, i, vector_operand(s, i), minus);
    case Opcode::mul_vv: return arithmetic(s, i, vector_operand(s, i), times);
    case Opcode::div_vv: return arithmetic(s, i, vector_operand(s, i), quotient);
    case Opcode::add_vs: return arithmetic(s, i, scalar_operand(s, i), plus);
    case Opcode::sub_vs: return arithmetic(s, i, scalar_operand(s, i), minus);
    case Opcode::mul_vs: return arithmetic(s, i, scalar_operand(s, i), times);
    case Opcode::div_vs: return arithmetic(s, i, scalar_operand(s, i), quotient);
    case Opcode::addi_vi: return arithmetic(s, i, immediate_operand(i), plus);
    case Opcode::subi_vi: return arithmetic(s, i, immediate_operand(i), minus);
    case Opcode::muli_vi: return arithmetic(s, i, immediate_operand(i), times);
    case Opcode::expi_vi: return unary(s, i, exponential);
    case Opcode::sqrti_vi: return unary(s, i, clamped_root);
    case Opcode::and_vv: return bitwise(s, i, std::bit_and<>());
    case Opcode::or_vv: return bitwise(s, i, std::bit_or<>());
    case Opcode::xor_vv: return bitwise(s, i, std::bit_xor<>());
    case Opcode::not_vi: return bitwise(s, i, bit_not);
    case Opcode::shift_vi: return shift_vi(s, i);
    case Opcode::rsum_vi: return set_reduction(s, i, sum_of_lanes(s.v[i.a], s.m[i.mask]));
    case Opcode::rmin_vi: return set_reduction(s, i, minimum_of_lanes(s.v[i.a], s.m[i.mask]));
    case Opcode::rmax_vi: return set_reduction(s, i, maximum_of_lanes(s.v[i.a], s.m[i.mask]));
    case Opcode::lw_vi: return lw_vi(s, i);
    case Opcode::gemm_vv: return gemm_vv(s, i);

    case Opcode::mgt_mvv: return compare(s, i, vector_operand(s, i), greater_than);
    case Opcode::mlt_mvv: return compare(s, i, vector_operand(s, i), less_than);
    case Opcode::meq_mvv: return compare(s, i, vector_operand(s, i), equal);
    case Opcode::mneq_mvv: return compare(s, i, vector_operand(s, i), not_equal);
    case Opcode::mgt_mvs: return compare(s, i, scalar_operand(s, i), greater_than);
    case Opcode::mlt_mvs: return compare(s, i, scalar_operand(s, i), less_than);
    case Opcode::meq_mvs: return compare(s, i, scalar_operand(s, i), equal);
    case Opcode::mneq_mvs: return compare(s, i, scalar_operand(s, i), not_equal);

    case Opcode::vreg_ld: return vreg_ld(s, i);
    case Opcode::vreg_st: return vreg_st(s, i);
    case Opcode::scpad_ld: return scpad_ld(s, i);
    case Opcode::scpad_st: return scpad_st(s, i);
    case Opcode::vmov_vts: return vmov_vts(s, i);
    case Opcode::mv_mts:
        if (i.a >= std::size(s.m)) refuse("isa 1.1", fmt::format("m{} does not exist, the masks are m0 to m15", i.a));
        return set_rd(s, i, s.m[i.a]);
    case Opcode::mv_stm: return set_mask(s, i, a);
    }
    // clang-format on
}

}  // namespace atalla::a48
