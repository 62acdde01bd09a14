// The matcher's single values, which are vectors with the same value in every lane or scalar registers, and masks made of
// integers.
#include <bit>
#include <cmath>

#include "codegen/matcher.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr int vector_lanes = 32;
Expr widened(const Expr &e) { return e.type() == Int(32) ? e : Cast::make(Int(32), e); }

// Halide narrows both sides of a comparison where the numbers are small.
Expr plain_index(const Expr &x) {
    const auto *cast = x.as<Cast>();
    const auto *ramp = cast != nullptr ? cast->value.as<Ramp>() : nullptr;
    const bool small = ramp != nullptr && is_const(ramp->base) && x.type().bits() >= 16;
    const auto *broadcast = x.as<Broadcast>();
    return small ? cast->value : broadcast != nullptr ? broadcast->value : x;
}

constexpr int32_t into_every_lane = 64;  // immediate of a reduction

}  // namespace

// One row to one value: the largest, the smallest, or the float32 sum, which the machine rounds to bfloat16. Lanes are
// bfloat16, also where the IR widens them to float32 first.
Value Matcher::reduce_lanes(const VectorReduce *reduce) {
    const Type type = reduce->value.type();
    if (type.lanes() != vector_lanes || !type.is_float()) fail("only 32 lanes are reduced to one value", Expr(reduce));
    Op op;
    op.imm = into_every_lane;
    if (reduce->op == VectorReduce::Add)
        op.opcode = Opcode::rsum_vi;
    else if (reduce->op == VectorReduce::Max)
        op.opcode = Opcode::rmax_vi;
    else if (reduce->op == VectorReduce::Min)
        op.opcode = Opcode::rmin_vi;
    else
        fail("the machine reduces by sum, maximum and minimum only", Expr(reduce));
    op.src = {as_vector(evaluate(reduce->value))};
    const Reg result = emit(op, RegisterClass::Vector, "reduced");
    if (op.opcode != Opcode::rsum_vi) {
        Value extremum = Value::of_vector(result);
        extremum.number = true;  // the machine passes over NaN
        return extremum;
    }
    const Value::Kind kind = type.element_of() == BFloat(16) ? Value::Vector : Value::Sum;
    if (kernel_.machine->timed()) return {kind, 0, result};
    // Upstream's functional simulator leaves the sum in float32. Not by the operation that a move is: moves are dropped.
    Op round;
    round.opcode = Opcode::sub_vs;
    round.src = {result, zero_scalar};
    return {kind, 0, emit(round, RegisterClass::Vector, "reduced")};
}

Value Matcher::lane_of(Reg vector, int64_t lane) {
    Op op;
    op.opcode = Opcode::vmov_vts;
    op.src = {vector};
    op.imm = static_cast<int32_t>(lane);
    Value value = Value::of_scalar(emit(op, RegisterClass::Scalar, "lane"));
    value.rounded = value.exact = true;
    return value;
}

// A single value as a float32 pattern in a scalar register, exactly.
Reg Matcher::as_scalar(const Value &value) {
    if (value.kind == Value::Constant) return kernel_.constant(std::bit_cast<int32_t>(value.constant));
    if (value.is_in_scalar()) return value.reg;
    return lane_of(as_vector(value), 0).reg;
}

// Reciprocal and root exist on scalar registers only; their result is float32.
Value Matcher::scalar_function(Opcode opcode, const Call *call) {
    Expr argument = call->args[0];
    if (const auto *cast = argument.as<Cast>();
        cast != nullptr && cast->type.element_of() == Float(32) && cast->value.type().element_of() == BFloat(16))
        argument = cast->value;
    if (const auto *broadcast = argument.as<Broadcast>()) argument = broadcast->value;
    if (!argument.type().is_scalar())
        fail("the machine computes '" + call->name + "' of single values, not of lanes; make it a scalar Func in Register",
             Expr(call));
    Op op;
    op.opcode = opcode;
    op.src = {as_scalar(evaluate(argument))};
    return Value::of_scalar(emit(op, RegisterClass::Scalar, opcode == Opcode::rcp_bf ? "rcp" : "sqrt"));
}

// Sums, differences and products of single values in float32, which the scalar unit computes.
Value Matcher::scalar_arithmetic(const Expr &e, const Value &a, const Value &b) {
    Op op;
    op.opcode = e.as<Add>() != nullptr ? Opcode::add_bf : e.as<Sub>() != nullptr ? Opcode::sub_bf : Opcode::mul_bf;
    const auto is_neutral = [](const Value &v) {
        return v.kind == Value::Constant && v.constant == 0 && std::signbit(v.constant);
    };
    if (e.as<Add>() != nullptr && is_neutral(a)) return b;  // -0 + x = x
    if (e.as<Add>() != nullptr && is_neutral(b)) return a;
    op.src = {as_scalar(a), as_scalar(b)};
    return Value::of_scalar(emit(op, RegisterClass::Scalar, "f"));
}

Reg Matcher::copy_scalar(Reg from, Reg to) {
    Op copy;
    copy.opcode = Opcode::or_s;
    copy.src = {from, zero_scalar};
    copy.dst = to;
    copy.source = source_;
    body_->push_back(copy);
    return to;
}

// ---- masks

Reg Matcher::integer_value(const LinearForm &form) {
    if (form.is_constant()) return kernel_.constant(static_cast<int32_t>(form.constant));
    Op op;
    op.opcode = Opcode::addi_s;
    op.value = form;
    return emit(op, RegisterClass::Scalar, "i");
}

// The lanes where a condition holds that names no variables.
std::optional<uint32_t> Matcher::constant_lanes(const Expr &condition) {
    uint32_t bits = 0;
    for (int lane = 0; lane < condition.type().lanes(); lane++) {
        const Expr here = simplify(extract_lane(condition, lane));
        if (!is_const(here)) return std::nullopt;
        if (is_const_one(here)) bits |= 1u << lane;
    }
    return bits;
}

// The one lane, counted from `a` or `b`, where both indices are equal.
Value Matcher::integer_equality(const Expr &left, const Expr &right, const Expr &e) {
    const Expr a = plain_index(left), b = plain_index(right);
    if (const auto bits = constant_lanes(e)) return Value::of_lanes(*bits);
    const auto *ramp = a.as<Ramp>() != nullptr ? a.as<Ramp>() : b.as<Ramp>();
    const Expr &other = ramp == a.as<Ramp>() ? b : a;
    if (ramp == nullptr || !is_const_one(ramp->stride) || !ramp->base.type().is_scalar() || !other.type().is_scalar())
        fail("indices are compared that do not count lanes by one", e);
    const Expr lane = widened(other) - widened(ramp->base);
    const LinearForm form = scope_.linear(lane);
    if (form.is_constant())
        return Value::of_lanes(form.constant >= 0 && form.constant < vector_lanes ? 1u << form.constant : 0u);
    if (scope_.linear(clamp(lane, 0, vector_lanes - 1)) != form) fail("the lane of a comparison may lie outside the vector", e);
    Op power;
    power.opcode = Opcode::sll_s;
    power.src = {kernel_.constant(1), integer_value(form)};
    return Value::of_bits(emit(power, RegisterClass::Scalar, "lane"));
}

// The lanes where a < b, which are indices.
Value Matcher::integer_comparison(const Expr &e) {
    const auto *op = e.as<LT>();
    const Expr a = plain_index(op->a), b = plain_index(op->b);
    const auto *a_ramp = a.as<Ramp>();
    const auto *b_ramp = b.as<Ramp>();
    for (const Ramp *ramp : {a_ramp, b_ramp})
        if (ramp != nullptr && (!is_const_one(ramp->stride) || !ramp->base.type().is_scalar()))
            fail("lanes are compared that do not count by one", e);
    if (a_ramp != nullptr && b.type().is_scalar()) return first_lanes(widened(b) - widened(a_ramp->base));
    if (b_ramp != nullptr && a.type().is_scalar()) return lanes_from(widened(a) + 1 - widened(b_ramp->base));
    if (!a.type().is_scalar() || !b.type().is_scalar()) fail("this comparison of indices has no translation", e);
    const LinearForm left = scope_.linear(a), right = scope_.linear(b);
    LinearForm difference = left;
    difference += right.scaled(-1);
    if (difference.is_constant()) return Value::of_lanes(difference.constant < 0 ? ~0u : 0u);
    // 1 or 0, then all ones or none.
    Op slt, negate;
    slt.opcode = Opcode::slt_s;
    slt.src = {integer_value(left), integer_value(right)};
    negate.opcode = Opcode::sub_s;
    negate.src = {zero_scalar, emit(slt, RegisterClass::Scalar, "less")};
    return Value::of_bits(emit(negate, RegisterClass::Scalar, "less"));
}

Reg Matcher::constant_mask(uint32_t lanes) {
    if (lanes == ~0u) return all_lanes;
    Op move;
    move.opcode = Opcode::mv_stm;
    move.src = {kernel_.constant(static_cast<int32_t>(lanes))};
    if (const auto it = constant_masks_.find(lanes); it != constant_masks_.end()) return it->second;
    // Few registers: the others of many masks are made where they are needed.
    constexpr size_t most_kept = 6;
    if (constant_masks_.size() == most_kept) return emit(move, RegisterClass::Mask, "lanes");
    move.dst = constant_masks_[lanes] = kernel_.new_register(RegisterClass::Mask, "lanes");
    entry_.push_back(move);
    return move.dst;
}

// The mask of lanes 0 .. count-1, where count may lie outside 0 .. 32.
Value Matcher::first_lanes(const Expr &count) {
    const LinearForm form = scope_.linear(clamp(count, 0, vector_lanes));
    if (form.is_constant()) return Value::of_lanes(form.constant == vector_lanes ? ~0u : (1u << form.constant) - 1);
    Op less;
    less.opcode = Opcode::addi_s;
    less.src = {shifted(1, form)};
    less.imm = -1;
    return Value::of_bits(emit(less, RegisterClass::Scalar, "lanes"));
}

// That of the others.
Value Matcher::lanes_from(const Expr &count) {
    const LinearForm form = scope_.linear(clamp(count, 0, vector_lanes));
    if (form.is_constant()) return Value::of_lanes(form.constant == vector_lanes ? 0u : ~0u << form.constant);
    return Value::of_bits(shifted(-1, form));
}

// value * 2^count with a count of 0 .. 32. Shifts by 32 differ between machines: where no count is 32, or none 0, one shift by
// less will do, otherwise two by at most 16.
Reg Matcher::shifted(int32_t value, LinearForm count) {
    const auto step = [&](Opcode opcode, Reg a, Reg b, int32_t imm) {
        Op op;
        op.opcode = opcode;
        op.src = {a, b};
        op.imm = imm;
        return emit(op, RegisterClass::Scalar, "lanes");
    };
    const auto range = scope_.range(count);
    if (range && range->low >= 1) {
        count.constant--;
        return step(Opcode::sll_s, kernel_.constant(2 * value), integer_value(count), 0);
    }
    const Reg lanes = integer_value(count);
    if (range && range->high < vector_lanes) return step(Opcode::sll_s, kernel_.constant(value), lanes, 0);
    const Reg half = step(Opcode::srai_s, lanes, {}, 1), rest = step(Opcode::sub_s, lanes, half, 0);
    return step(Opcode::sll_s, step(Opcode::sll_s, kernel_.constant(value), half, 0), rest, 0);
}

Reg Matcher::mask_of(const Value &condition) {
    if (condition.lanes) return constant_mask(*condition.lanes);
    if (condition.reg.defined()) return condition.reg;
    Op move;
    move.opcode = Opcode::mv_stm;
    move.src = {condition.bits};
    return emit(move, RegisterClass::Mask, "m");
}

Reg Matcher::bits_of(const Value &condition) {
    if (condition.lanes) return kernel_.constant(static_cast<int32_t>(*condition.lanes));
    if (condition.bits.defined()) return condition.bits;
    Op move;
    move.opcode = Opcode::mv_mts;
    move.src = {condition.reg};
    return emit(move, RegisterClass::Scalar, "bits");
}

Value Matcher::combine_masks(Opcode opcode, const Value &a, const Value &b) {
    if (a.kind != Value::Mask || b.kind != Value::Mask) throw Mismatch{"a number is used as a condition"};
    if (a.lanes && b.lanes)
        return Value::of_lanes(opcode == Opcode::and_s  ? *a.lanes & *b.lanes
                               : opcode == Opcode::or_s ? *a.lanes | *b.lanes
                                                        : *a.lanes ^ *b.lanes);
    Op combine;
    combine.opcode = opcode;
    combine.src = {bits_of(a), bits_of(b)};
    return Value::of_bits(emit(combine, RegisterClass::Scalar, "bits"));
}

Value Matcher::invert_mask(const Value &mask) { return combine_masks(Opcode::xor_s, mask, Value::of_lanes(~0u)); }

}  // namespace atalla::codegen
