// The vector instructions: lanes, compares, reductions, the array (isa reference 4.6 to 4.9, 4.12).
#pragma once

#include <algorithm>
#include <functional>

#include "simulator/lanes.h"
#include "simulator/semantics_scalar.h"

namespace atalla::semantics {

// The lanes of a register as operands, which are bf16. On hardware the registers hold nothing else.
template <MachineModel model>
class LaneOperands {
public:
    explicit LaneOperands(const float *values) : values_(values) {
        if constexpr (model == Functional) {
            round_lanes(values, rounded_);
            values_ = rounded_;
        }
    }
    LaneOperands(const LaneOperands &) = delete;
    operator const float *() const { return values_; }

private:
    alignas(64) float rounded_[lanes];
    const float *values_;
};

// vd = rounded results where the mask is set. v0 stays zero.
inline void set_lanes(S &s, const I &i, const float *results) {
    if (i.d == 0) {
        return;
    }
    if (const uint32_t mask = s.m[i.mask]; mask == all_lanes) {
        copy_lanes(results, s.v[i.d]);
    } else {
        merge_lanes(s.v[i.d], results, mask);
    }
}

// Element-wise arithmetic: one float32 operation on bf16 operands, rounded to bf16.
template <MachineModel model, class Operation>
void arithmetic(S &s, const I &i, const float *second, Operation operation) {
    alignas(64) float results[lanes];
    rounded_lanes(LaneOperands<model>(s.v[i.a]), LaneOperands<model>(second), results, operation);
    set_lanes(s, i, results);
}

template <MachineModel model, class Operation>
void arithmetic_vv(S &s, const I &i, Operation operation) {
    arithmetic<model>(s, i, s.v[i.b], operation);
}

// A scalar operand is a float32 pattern, rounded like a lane.
template <MachineModel model, class Operation>
void arithmetic_vs(S &s, const I &i, Operation operation) {
    alignas(64) float scalar[lanes];
    std::fill_n(scalar, lanes, bf16_round(float_operand(rs2(s, i))));
    arithmetic<model>(s, i, scalar, operation);
}

// Upstream's exponential differs from the rounded exact one for a single input (quirk 10).
constexpr uint32_t expi_quirk_input = 0x40DB0000, expi_quirk_result = 0x446A0000;

template <MachineModel model>
void expi_vi(S &s, const I &i) {
    const uint16_t *exp = exp_of_halves();
    uint32_t operands[lanes], exponentials[lanes];
    for (int lane = 0; lane < lanes; lane++) {
        operands[lane] = bf16_round_bits(float_bits(s.v[i.a][lane]));
    }
    for (int lane = 0; lane < lanes; lane++) {
        exponentials[lane] = exp[operands[lane] >> 16];
    }
    alignas(64) float results[lanes];
    for (int lane = 0; lane < lanes; lane++) {
        const bool quirk = model == Functional && operands[lane] == expi_quirk_input;
        results[lane] = bits_float(quirk ? expi_quirk_result : exponentials[lane] << 16);
    }
    set_lanes(s, i, results);
}

inline constexpr auto greater_than = [](float a, float b) { return a > b; };
inline constexpr auto less_than = [](float a, float b) { return a < b; };
inline constexpr auto equal = [](float a, float b) { return a == b; };
inline constexpr auto not_equal = [](float a, float b) { return a != b; };

// Compares take lanes as they are, without rounding. In lanes that the mask switches off, hardware keeps the old bit of
// md; upstream puts the old bits there in reverse order (quirk 5).
template <MachineModel model, class Compare>
void compare(S &s, const I &i, const float *second, Compare holds) {
    const uint32_t active = s.m[i.mask];
    const uint32_t old = model == Hardware ? s.m[i.d] : reversed_bits(s.m[i.d]);
    const uint32_t result = lane_bits([&](int lane) { return holds(s.v[i.a][lane], second[lane]); });
    set_mask<model>(s, i, (result & active) | (old & ~active));
}

template <MachineModel model, class Compare>
void compare_mvv(S &s, const I &i, Compare holds) {
    compare<model>(s, i, s.v[i.b], holds);
}
template <MachineModel model, class Compare>
void compare_mvs(S &s, const I &i, Compare holds) {
    alignas(64) float scalar[lanes];
    std::fill_n(scalar, lanes, float_operand(rs2(s, i)));
    compare<model>(s, i, scalar, holds);
}

// Reductions. Hardware registers round the result.
template <MachineModel model>
void set_reduction(S &s, const I &i, float result) {
    if (i.d != 0) {
        place_reduction(s.v[i.d], s.v[i.a], i.imm, model == Hardware ? bf16_round(result) : result);
    }
}
template <MachineModel model>
void rsum_vi(S &s, const I &i) {
    set_reduction<model>(s, i, sum_of_lanes(s.v[i.a], s.m[i.mask]));
}
template <MachineModel model>
void rmin_vi(S &s, const I &i) {
    set_reduction<model>(s, i, minimum_of_lanes(s.v[i.a], s.m[i.mask]));
}
template <MachineModel model>
void rmax_vi(S &s, const I &i) {
    set_reduction<model>(s, i, maximum_of_lanes(s.v[i.a], s.m[i.mask]));
}

// Pushes vs1 into the weight buffer at column 0. Upstream's functional simulator first fills columns 0 to 31 (quirk 12).
template <MachineModel model>
void lw_vi(S &s, const I &i) {
    const LaneOperands<model> values(s.v[i.a]);
    if (model == Functional && s.weights.loaded < lanes) {
        s.weights.set_column(s.weights.loaded++, values);
    } else {
        s.weights.shift_in(values);
    }
}

// The sums of a row of the functional machine. Computes those ahead that the packet names as well.
inline const float *functional_sums(S &s, const I &i, const DecodedPacket &packet) {
    RowsAhead &ahead = s.ahead;
    if (ahead.taken == ahead.count) {
        alignas(64) float rows[RowsAhead::capacity][lanes];
        round_lanes(s.v[i.a], rows[0]);
        ahead.count = 1;
        for (const uint8_t vector : packet.rows_ahead) {
            if (vector == 0) {
                break;
            }
            round_lanes(s.v[vector], rows[ahead.count++]);
        }
        rows_times_weights(rows, ahead.count, s.weights, ahead.sums);
        ahead.taken = 0;
    }
    return ahead.sums[ahead.taken++];
}

// vd[j] = bf16(vs1 . column j), the dot product in float32 with ascending depth. vs2 is added in float32 and stays unrounded
// on the functional machine; on hardware with a partial-sum input the sum is a bf16 addition; else vs2 is not read. There the
// row waits for others that it is computed with.
template <MachineModel model>
void gemm_vv(S &s, const I &i, [[maybe_unused]] const DecodedPacket &packet) {
    if (i.d == 0) {
        return;
    }
    if constexpr (model == Functional) {
        alignas(64) float results[lanes];
        for_all_lanes(functional_sums(s, i, packet), s.v[i.b], results, std::plus<float>());
        copy_lanes(results, s.v[i.d]);
    } else {
        WaitingRows &rows = s.rows;
        const int place = rows.count++;
        copy_lanes(s.v[i.a], rows.row[place]);
        if (s.psum_in) {
            copy_lanes(s.v[i.b], rows.addend[place]);
        }
        rows.destination[static_cast<size_t>(place)] = i.d;
    }
}

inline void finish_rows(S &s) {
    WaitingRows &rows = s.rows;
    if (rows.count == 0) {
        return;
    }
    alignas(64) float sums[WaitingRows::capacity][lanes];
    rows_times_weights(rows.row, rows.count, s.weights, sums);
    for (int place = 0; place < rows.count; place++) {
        float *vd = s.v[rows.destination[static_cast<size_t>(place)]];
        if (s.psum_in) {
            rounded_lanes(sums[place], rows.addend[place], vd, std::plus<float>());
        } else {
            copy_lanes(sums[place], vd);
        }
    }
    rows.count = 0;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_lane(const I &i) {
    refuse("50", "vmov.vts names lane " + std::to_string(i.imm) + ", a vector has lanes 0 to 31");
}

// One lane to a scalar register, as a float32 pattern.
template <MachineModel model>
void vmov_vts(S &s, const I &i) {
    if (i.imm >= lanes) {
        refuse_lane(i);
    }
    const uint32_t bits = float_bits(s.v[i.a][i.imm]);
    set_rd(s, i, model == Functional ? quiet_bits(bits) : bits);
}

}  // namespace atalla::semantics
