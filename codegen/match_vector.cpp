// The matcher's 32-lane expressions.
#include <bit>
#include <sstream>

#include <fmt/format.h>

#include "codegen/matcher.h"
#include "isa/error.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

namespace {

// The expression under float32 <-> bfloat16 widening that does not change a value.
Expr strip_widening(const Expr &e) {
    const auto *cast = e.as<Cast>();
    if (cast != nullptr && cast->type.element_of() == Float(32) && cast->value.type().element_of() == BFloat(16)) return cast->value;
    return e;
}

bool is_broadcast_row(const std::vector<int> &indices) {
    if (indices.size() != 1024) return false;
    for (size_t i = 0; i < indices.size(); i++)
        if (indices[i] != static_cast<int>(i % 32)) return false;
    return true;
}

}  // namespace

void Matcher::forget_loads(int allocation) {
    const std::string prefix = fmt::format("ld {} ", allocation);
    for (auto it = numbered_.lower_bound(prefix); it != numbered_.end() && it->first.starts_with(prefix);) it = numbered_.erase(it);
}

Reg Matcher::emit(Op op, RegisterClass cls, const std::string &name) {
    // Value numbering: the same operation on the same registers in one straight line is the same value.
    std::string key;
    if (op.opcode == Opcode::vreg_ld)
        key = fmt::format("ld {} {}", op.access->allocation, to_string(kernel_, op.access->row));
    else
        key = fmt::format("{} {} {} {} {} {}", static_cast<int>(op.opcode), op.src[0].id, op.src[1].id, op.src[2].id, op.mask.id, op.imm);
    const bool pure = op.opcode != Opcode::gemm_vv && !op.keeps_dst;
    if (pure)
        if (const auto it = numbered_.find(key); it != numbered_.end()) return it->second.reg;
    const Reg result = kernel_.new_register(cls, name);
    op.dst = result;
    op.source = source_;
    body_->push_back(op);
    if (pure) numbered_[key] = Value::of_vector(result);
    return result;
}

Reg Matcher::constant_vector(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (bits == 0) return zero_vector;
    auto [it, inserted] = constant_vectors_.try_emplace(bits);
    if (inserted) {
        it->second = kernel_.vector(fmt::format("k{}", value));
        Op op;
        op.dst = it->second;
        if (value == 0) {
            op.opcode = Opcode::mul_vs;   // 0 * -1 = -0
            op.src = {zero_vector, kernel_.constant(static_cast<int32_t>(0xBF800000))};
        } else {
            op.opcode = Opcode::add_vs;
            op.src = {zero_vector, kernel_.constant(static_cast<int32_t>(bits))};
        }
        entry_.push_back(op);
    }
    return it->second;
}

Reg Matcher::as_vector(const Value &value) {
    switch (value.kind) {
    case Value::Vector: return value.reg;
    case Value::Constant: return constant_vector(value.constant);
    case Value::Dot: return round_dot(value).reg;
    case Value::Splat: {
        Op op;
        op.opcode = Opcode::add_vs;   // -0 + x = x for every x
        op.src = {constant_vector(-0.0f), value.reg};
        return emit(op, RegisterClass::Vector, "splat");
    }
    case Value::Mask: break;
    }
    throw Error("cannot generate code: a comparison is used as a number");
}

Value Matcher::round_dot(Value dot) {
    Op op;
    op.opcode = Opcode::gemm_vv;
    // Where the array adds vs2, -0 leaves every sum as it is.
    op.src = {dot.reg, kernel_.machine->sa.psum_in ? constant_vector(-0.0f) : zero_vector};
    return Value::of_vector(emit(op, RegisterClass::Vector, "dot"));
}

LinearForm Matcher::pad_row(const Expr &index, int lanes, const std::string &what) {
    const Ramp *ramp = index.as<Ramp>();
    if (lanes != 32 || ramp == nullptr) fail("'" + what + "' in the pads is accessed other than 32 lanes at a time", index);
    if (!is_const_one(ramp->stride)) fail("lanes of '" + what + "' are not next to each other in the pads (a transpose is needed)", index);
    LinearForm row = scope_.linear(ramp->base);
    if (!row.divide(32)) fail("an access to '" + what + "' does not start at a row of the pads", index);
    return row;
}

Value Matcher::evaluate_load(const Load *load) {
    if (const auto array = arrays_.find(load->name); array != arrays_.end()) {
        const Ramp *ramp = load->index.as<Ramp>();
        if (ramp == nullptr || ramp->lanes != 32 || !is_const_one(ramp->stride))
            fail("a register array is read other than 32 lanes at a time", Expr(load));
        const LinearForm index = scope_.linear(ramp->base);
        if (!index.is_constant() || index.constant % 32 != 0) fail("a register array is indexed by a loop that was not unrolled", Expr(load));
        const auto value = array->second.lanes.find(index.constant / 32);
        if (value == array->second.lanes.end()) fail("'" + load->name + "' is read before it is written", Expr(load));
        return value->second;
    }
    const auto allocation = allocations_.find(load->name);
    if (allocation == allocations_.end())
        fail("computation reads '" + load->name + "' in memory; copy it to the pads first", Expr(load));
    Op op;
    op.opcode = Opcode::vreg_ld;
    op.access = PadAccess{allocation->second, pad_row(load->index, load->type.lanes(), load->name), {}};
    op.imm = 31;
    return Value::of_vector(emit(op, RegisterClass::Vector, kernel_.allocations[allocation->second].name));
}

// vector_reduce_add(float32(row, 32 times) * float32(weights)): one row through the array.
Value Matcher::evaluate_reduce(const VectorReduce *reduce) {
    const auto *product = reduce->value.as<Mul>();
    if (reduce->op != VectorReduce::Add || product == nullptr || reduce->value.type() != Float(32, 1024) || reduce->type.lanes() != 32)
        fail("only a reduction of 32 x 32 products in float32 runs on the array", Expr(reduce));
    Expr row = product->a, weights = product->b;
    auto weight_load = [&](const Expr &e) -> const Load * {
        const auto *load = strip_widening(e).as<Load>();
        if (load == nullptr) return nullptr;
        const auto array = arrays_.find(load->name);
        return array != arrays_.end() && array->second.weights ? load : nullptr;
    };
    if (weight_load(weights) == nullptr) std::swap(row, weights);
    const Load *load = weight_load(weights);
    if (load == nullptr) fail("neither factor of the product is a weight tile (a Register Func of 32 x 32)", Expr(reduce));
    const auto *ramp = load->index.as<Ramp>();
    if (ramp == nullptr || !is_const_zero(ramp->base) || !is_const_one(ramp->stride)) fail("the weight tile is not read in order", Expr(reduce));
    row = strip_widening(row);
    Expr lanes;
    if (const auto *shuffle = row.as<Shuffle>(); shuffle != nullptr && shuffle->vectors.size() == 1 && is_broadcast_row(shuffle->indices))
        lanes = shuffle->vectors[0];
    else if (const auto *broadcast = row.as<Broadcast>(); broadcast != nullptr && broadcast->value.type().lanes() == 32)
        lanes = broadcast->value;
    else
        fail("the row of a matrix product is not one vector repeated", Expr(reduce));
    return {Value::Dot, 0, as_vector(evaluate(strip_widening(lanes)))};
}

Value Matcher::binary(Opcode vv, Opcode vs, Value a, Value b, bool commutes) {
    if (commutes && (a.kind == Value::Constant || a.kind == Value::Splat)) std::swap(a, b);
    if (vv == Opcode::add_vv && b.kind == Value::Constant && b.constant == 0 && std::signbit(b.constant)) return a;  // x + -0 = x
    Op op;
    // Partial sums enter the array where the machine has the input.
    if (vv == Opcode::add_vv && kernel_.machine->sa.psum_in && kernel_.machine->timed() && optimize_ && a.kind != b.kind &&
        (a.kind == Value::Dot || b.kind == Value::Dot)) {
        op.opcode = Opcode::gemm_vv;
        op.src = a.kind == Value::Dot ? std::array<Reg, 3>{a.reg, as_vector(b)} : std::array<Reg, 3>{b.reg, as_vector(a)};
        return Value::of_vector(emit(op, RegisterClass::Vector, "dot"));
    }
    if (b.kind == Value::Constant || b.kind == Value::Splat) {
        op.opcode = vs;
        op.src = {as_vector(a), b.kind == Value::Splat ? b.reg : kernel_.constant(std::bit_cast<int32_t>(b.constant))};
        return Value::of_vector(emit(op, RegisterClass::Vector, "t"));
    }
    op.opcode = vv;
    op.src = {as_vector(a), as_vector(b)};
    return Value::of_vector(emit(op, RegisterClass::Vector, "t"));
}

Value Matcher::compare(Opcode vv, Opcode vs, Opcode swapped_vs, Value a, Value b) {
    Op op;
    if (b.kind == Value::Constant || b.kind == Value::Splat) {
        op.opcode = vs;
        op.src = {as_vector(a), b.kind == Value::Splat ? b.reg : kernel_.constant(std::bit_cast<int32_t>(b.constant))};
    } else if (a.kind == Value::Constant || a.kind == Value::Splat) {
        op.opcode = swapped_vs;
        op.src = {as_vector(b), a.kind == Value::Splat ? a.reg : kernel_.constant(std::bit_cast<int32_t>(a.constant))};
    } else {
        op.opcode = vv;
        op.src = {as_vector(a), as_vector(b)};
    }
    return {Value::Mask, 0, emit(op, RegisterClass::Mask, "m")};
}

Value Matcher::evaluate_select(const Select *select) {
    const Value condition = evaluate(select->condition);
    if (condition.kind != Value::Mask) fail("a select's condition is not a comparison of lanes", Expr(select));
    const Value on = evaluate(select->true_value), off = evaluate(select->false_value);
    // Take the false value, then overwrite the lanes that are on. x - 0 = x for every x, -0 included.
    Op copy;
    copy.opcode = Opcode::sub_vv;
    copy.src = {as_vector(off), zero_vector};
    copy.dst = kernel_.vector("select");
    copy.source = source_;
    Op merge;
    merge.opcode = Opcode::sub_vv;
    merge.src = {as_vector(on), zero_vector};
    merge.mask = condition.reg;
    merge.keeps_dst = true;
    merge.dst = copy.dst;
    merge.source = source_;
    body_->push_back(copy);
    body_->push_back(merge);
    return Value::of_vector(copy.dst);
}

Value Matcher::evaluate_call(const Call *call) {
    if (call->is_strict_float_intrinsic() && call->args.size() == 2) {
        const Expr &a = call->args[0], &b = call->args[1];
        if (call->is_intrinsic(Call::strict_add)) return evaluate(Add::make(a, b));
        if (call->is_intrinsic(Call::strict_sub)) return evaluate(Sub::make(a, b));
        if (call->is_intrinsic(Call::strict_mul)) return evaluate(Mul::make(a, b));
        if (call->is_intrinsic(Call::strict_lt)) return evaluate(LT::make(a, b));
        if (call->is_intrinsic(Call::strict_eq)) return evaluate(EQ::make(a, b));
    }
    if (call->name == "atalla_exp" && call->args.size() == 1) {
        Op op;
        op.opcode = Opcode::expi_vi;
        op.src = {as_vector(evaluate(strip_widening(call->args[0])))};
        return Value::of_vector(emit(op, RegisterClass::Vector, "exp"));
    }
    fail("the machine has no operation for '" + call->name + "'", Expr(call));
}

Value Matcher::evaluate(const Expr &e) {
    if (const auto *imm = e.as<FloatImm>()) return Value::of_constant(static_cast<float>(imm->value));
    if (const auto *broadcast = e.as<Broadcast>()) return evaluate(broadcast->value);
    if (const auto *variable = e.as<Variable>()) {
        const auto it = vector_lets_.find(variable->name);
        if (it == vector_lets_.end()) fail("'" + variable->name + "' is not known", e);
        return evaluate(it->second);
    }
    if (const auto *let = e.as<Let>()) {
        if (let->value.type().is_scalar() && let->value.type().is_int()) {
            scope_.bind(let->name, scope_.linear(let->value));
            const Value result = evaluate(let->body);
            scope_.unbind(let->name);
            return result;
        }
        vector_lets_[let->name] = let->value;
        const Value result = evaluate(let->body);
        vector_lets_.erase(let->name);
        return result;
    }
    if (const auto *cast = e.as<Cast>()) {
        const Type to = cast->type.element_of(), from = cast->value.type().element_of();
        if (to == from || from.is_uint() || (to == Float(32) && from == BFloat(16))) return evaluate(cast->value);
        if (to == BFloat(16) && from == Float(32)) {
            const Value value = evaluate(cast->value);
            if (value.kind == Value::Constant) return Value::of_constant(static_cast<float>(bfloat16_t(value.constant)));
            return value;   // lanes round where they are written; a dot product rounds when it leaves the array
        }
        fail("a conversion has no translation", e);
    }
    if (const auto *load = e.as<Load>()) return evaluate_load(load);
    if (const auto *reduce = e.as<VectorReduce>()) return evaluate_reduce(reduce);
    if (const auto *select = e.as<Select>()) return evaluate_select(select);
    if (const auto *call = e.as<Call>()) return evaluate_call(call);
    if (const auto *op = e.as<Add>()) {
        const Value a = evaluate(op->a), b = evaluate(op->b);
        if (e.type().element_of() == Float(32)) {
            // The only float32 sum the machine has is the one inside the array, which starts at zero.
            if (a.kind == Value::Dot && b.kind == Value::Constant && b.constant == 0) return a;
            if (b.kind == Value::Dot && a.kind == Value::Constant && a.constant == 0) return b;
            fail("float32 sums exist only inside one 32-deep dot product", e);
        }
        return binary(Opcode::add_vv, Opcode::add_vs, a, b, true);
    }
    if (const auto *op = e.as<Sub>()) return binary(Opcode::sub_vv, Opcode::sub_vs, evaluate(op->a), evaluate(op->b), false);
    if (const auto *op = e.as<Mul>()) return binary(Opcode::mul_vv, Opcode::mul_vs, evaluate(op->a), evaluate(op->b), true);
    if (const auto *op = e.as<LT>())
        return compare(Opcode::mlt_mvv, Opcode::mlt_mvs, Opcode::mgt_mvs, evaluate(op->a), evaluate(op->b));
    if (const auto *op = e.as<GT>())
        return compare(Opcode::mgt_mvv, Opcode::mgt_mvs, Opcode::mlt_mvs, evaluate(op->a), evaluate(op->b));
    if (const auto *op = e.as<EQ>())
        return compare(Opcode::meq_mvv, Opcode::meq_mvs, Opcode::meq_mvs, evaluate(op->a), evaluate(op->b));
    fail("this expression has no translation", e);
}

}  // namespace atalla::codegen
