// The matcher's expressions over lanes.
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "codegen/matcher.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr int vector_lanes = 32;

// The expression under float32 <-> bfloat16 widening that does not change a value.
Expr strip_widening(const Expr &e) {
    const auto *cast = e.as<Cast>();
    if (cast != nullptr && cast->type.element_of() == Float(32) && cast->value.type().element_of() == BFloat(16))
        return cast->value;
    return e;
}

// strict_add(a, b) as a + b, and so on: the machine is always strict.
Expr without_strict(const Expr &e) {
    const auto *call = e.as<Call>();
    if (call == nullptr || !call->is_strict_float_intrinsic() || call->args.size() != 2) return e;
    const Expr &a = call->args[0], &b = call->args[1];
    if (call->is_intrinsic(Call::strict_add)) return Add::make(a, b);
    if (call->is_intrinsic(Call::strict_sub)) return Sub::make(a, b);
    if (call->is_intrinsic(Call::strict_mul)) return Mul::make(a, b);
    if (call->is_intrinsic(Call::strict_div)) return Div::make(a, b);
    if (call->is_intrinsic(Call::strict_min)) return Min::make(a, b);
    if (call->is_intrinsic(Call::strict_max)) return Max::make(a, b);
    if (call->is_intrinsic(Call::strict_lt)) return LT::make(a, b);
    if (call->is_intrinsic(Call::strict_le)) return LE::make(a, b);
    if (call->is_intrinsic(Call::strict_eq)) return EQ::make(a, b);
    return e;
}

template <class... Nodes>
bool is_one_of(const Expr &e) {
    return ((e.as<Nodes>() != nullptr) || ...);
}

template <class... Nodes>
std::pair<Expr, Expr> operands_of_one(const Expr &e) {
    std::pair<Expr, Expr> operands;
    const auto take = [&](const auto *node) {
        if (node != nullptr) operands = {node->a, node->b};
    };
    (take(e.as<Nodes>()), ...);
    return operands;
}
std::pair<Expr, Expr> operands_of(const Expr &e) { return operands_of_one<Add, Sub, Mul, Div, Min, Max>(e); }

bool is_broadcast_row(const std::vector<int> &indices) {
    if (indices.size() != vector_lanes * vector_lanes) return false;
    for (size_t i = 0; i < indices.size(); i++)
        if (indices[i] != static_cast<int>(i % vector_lanes)) return false;
    return true;
}

// The opposite of a comparison where that is one of the machine's, exact for NaN too; undefined otherwise.
Expr opposite(const Expr &e) {
    const Expr condition = without_strict(e);
    if (const auto *op = condition.as<Not>()) return without_strict(op->a).as<EQ>() == nullptr ? op->a : Expr();
    if (const auto *op = condition.as<LE>()) return LT::make(op->b, op->a);
    if (const auto *op = condition.as<EQ>(); op != nullptr && op->a.type().is_float()) return NE::make(op->a, op->b);
    if (const auto *op = condition.as<And>()) {
        const Expr a = opposite(op->a), b = opposite(op->b);
        if (a.defined() && b.defined()) return Or::make(a, b);
    }
    return Expr();
}

bool is_positive_zero(const Expr &e) {
    const auto *broadcast = e.as<Broadcast>();
    const Expr &value = broadcast != nullptr ? broadcast->value : e;
    const auto *cast = value.as<Cast>();
    const auto *number = (cast != nullptr ? cast->value : value).as<FloatImm>();
    return number != nullptr && number->value == 0 && !std::signbit(number->value);
}

float rounded(float value) { return static_cast<float>(bfloat16_t(value)); }

}  // namespace

// ---- emission

void Matcher::forget_loads(int allocation) {
    std::erase_if(loaded_, [&](const auto &load) { return load.first.first == allocation; });
}
// Rows at a constant distance from each other are different ones.
void Matcher::forget_loads(int allocation, const LinearForm &row) {
    std::erase_if(loaded_, [&](const auto &load) {
        const auto &[of, from] = load.first;
        return of == allocation && (from.terms != row.terms || from.constant == row.constant);
    });
}
void Matcher::forget_values() {
    numbered_.clear();
    loaded_.clear();
}

// Value numbering: the same operation on the same registers in one straight line is the same value.
Reg Matcher::emit(Op op, RegisterClass cls, const std::string &name) {
    // A row through the array is the same as long as the weights stay.
    const auto number = [&] {
        return op.value ? "value " + to_string(kernel_, *op.value)
                        : fmt::format("{} {} {} {} {} {} {}", static_cast<int>(op.opcode), op.src[0].id, op.src[1].id,
                                      op.src[2].id, op.mask.id, op.imm, op.opcode == Opcode::gemm_vv ? fill_ : 0);
    };
    Reg &known = op.opcode == Opcode::vreg_ld ? loaded_[{op.access->allocation, op.access->row}][op.imm]
                                              : numbered_[number()];  // the value, or where to note it
    if (known.defined()) return known;
    const Reg result = kernel_.new_register(cls, name);
    op.dst = result;
    op.source = source_;
    body_->push_back(op);
    known = result;
    return result;
}

// x - 0 = x for every x, -0 included.
Reg Matcher::copy_vector(Reg from, Reg to) {
    Op copy;
    copy.opcode = Opcode::sub_vv;
    copy.src = {from, zero_vector};
    copy.dst = to;
    copy.source = source_;
    body_->push_back(copy);
    return to;
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
            op.opcode = Opcode::mul_vs;  // 0 * -1 = -0
            op.src = {zero_vector, kernel_.constant(static_cast<int32_t>(0xBF800000))};
        } else {
            op.opcode = Opcode::add_vs;
            op.src = {zero_vector, kernel_.constant(static_cast<int32_t>(bits))};
        }
        entry_.push_back(op);
    }
    return it->second;
}

bool Matcher::is_bfloat(const Value &value) const {
    switch (value.kind) {
        case Value::Vector:
            return true;
        case Value::Constant:
            return std::isnan(value.constant) || rounded(value.constant) == value.constant;
        case Value::Splat:
        case Value::Dot:
            return value.rounded;
        default:
            return false;
    }
}

Reg Matcher::as_vector(const Value &value) {
    if (value.kind == Value::Mask) throw Mismatch{"a comparison is used as a number"};
    if (!is_bfloat(value))
        throw Mismatch{"a float32 value is used as it is, but lanes hold bfloat16; round it in the algorithm"};
    switch (value.kind) {
        case Value::Constant:
            return constant_vector(value.constant);
        case Value::Dot:
            return round_dot(value).reg;
        case Value::Splat: {
            Op op;
            op.opcode = Opcode::add_vs;  // -0 + x = x for every x, rounded
            op.src = {constant_vector(-0.0f), value.reg};
            return emit(op, RegisterClass::Vector, "splat");
        }
        default:
            return value.reg;
    }
}

Value Matcher::round_dot(const Value &dot) {
    if (dot.fill != fill_) throw Mismatch{"the weights of a dot product have changed before it is used"};
    Op op;
    op.opcode = Opcode::gemm_vv;
    // Where the array adds vs2, -0 leaves every sum as it is.
    op.src = {dot.reg, kernel_.machine->sa.psum_in ? constant_vector(-0.0f) : zero_vector};
    return Value::of_vector(emit(op, RegisterClass::Vector, "dot"));
}

// ---- loads

LinearForm Matcher::pad_row(const Expr &index, int lanes, const std::string &what) {
    const Ramp *ramp = index.as<Ramp>();
    if (lanes != vector_lanes || ramp == nullptr)
        fail("'" + what + "' in the pads is accessed other than 32 lanes at a time", index);
    if (!is_const_one(ramp->stride))
        fail("lanes of '" + what + "' are not next to each other in the pads (a transpose is needed)", index);
    LinearForm row = scope_.linear(ramp->base);
    if (!row.divide(vector_lanes)) fail("an access to '" + what + "' does not start at a row of the pads", index);
    return row;
}

Value Matcher::read_register(const Load *load, const RegisterArray &array) {
    const Ramp *ramp = load->index.as<Ramp>();
    const int width = load->type.lanes();
    if (width != 1 && (ramp == nullptr || width != vector_lanes || !is_const_one(ramp->stride)))
        fail("a register array is read other than one value or 32 neighbouring lanes at a time", Expr(load));
    const LinearForm index = scope_.linear(width == 1 ? load->index : ramp->base);
    if (!index.is_constant()) fail("a register array is indexed by a loop that was not unrolled", Expr(load));
    if (array.width != 0 && width > array.width)
        fail("'" + array.name + "' in Register holds single values but is read as a vector", Expr(load));
    const int64_t lane = array.width == 0 ? 0 : floor_mod(index.constant, array.width);
    if (width != 1 && lane != 0) fail("lanes of two registers are read at once", Expr(load));
    const auto found = array.elements.find(index.constant - lane);
    if (found == array.elements.end()) fail("'" + array.name + "' is read before it is written", Expr(load));
    const Value &value = found->second;
    if (width == array.width || value.kind == Value::Constant || value.kind == Value::Splat || value.kind == Value::Sum)
        return value;
    return lane_of(as_vector(value), lane);
}

Value Matcher::evaluate_load(const Load *load) {
    if (const auto array = arrays_.find(load->name); array != arrays_.end()) return read_register(load, array->second);
    const auto allocation = allocations_.find(load->name);
    if (allocation == allocations_.end())
        fail("computation reads '" + load->name + "' in memory; copy it to the pads first", Expr(load));
    Op op;
    op.opcode = Opcode::vreg_ld;
    op.imm = vector_lanes - 1;
    if (load->type.is_scalar()) {
        LinearForm row = scope_.linear(load->index);
        const int64_t lane = floor_mod(row.constant, vector_lanes);
        row.constant -= lane;
        if (!row.divide(vector_lanes))
            fail("a single value of '" + load->name +
                     "' is read from the pads in a lane that changes from iteration to iteration",
                 Expr(load));
        op.access = PadAccess{allocation->second, row, {}};
        return lane_of(emit(op, RegisterClass::Vector, kernel_.allocations[allocation->second].name), lane);
    }
    op.access = PadAccess{allocation->second, pad_row(load->index, load->type.lanes(), load->name), {}};
    return Value::of_vector(emit(op, RegisterClass::Vector, kernel_.allocations[allocation->second].name));
}

// ---- products of matrices

// vector_reduce_add(float32(row, 32 times) * float32(weights)): one row through the array.
Value Matcher::evaluate_product(const VectorReduce *reduce) {
    const auto *product = reduce->value.as<Mul>();
    const auto weight_load = [&](const Expr &e) -> const Load * {
        const auto *load = strip_widening(e).as<Load>();
        return load != nullptr && weight_names_.count(load->name) && arrays_.count(load->name) ? load : nullptr;
    };
    // Without a factor the row is all ones.
    const bool ones = product == nullptr && weight_load(reduce->value) != nullptr;
    if (reduce->op != VectorReduce::Add || (product == nullptr && !ones) ||
        reduce->value.type() != Float(32, vector_lanes * vector_lanes) || reduce->type.lanes() != vector_lanes)
        fail("only a reduction of 32 x 32 products in float32 runs on the array", Expr(reduce));
    Expr row = ones ? Expr() : product->a, weights = ones ? reduce->value : product->b;
    if (weight_load(weights) == nullptr) std::swap(row, weights);
    const Load *load = weight_load(weights);
    if (load == nullptr) fail("neither factor of the product is a weight tile (a Register Func of 32 x 32)", Expr(reduce));
    const auto *ramp = load->index.as<Ramp>();
    if (ramp == nullptr || !is_const_zero(ramp->base) || !is_const_one(ramp->stride))
        fail("the weight tile is not read in order", Expr(reduce));
    if (loaded_weights_ != load->name)
        fail("the weight buffer holds another tile here, or one that depends on the iteration", Expr(reduce));
    if (ones) {
        Value dot{Value::Dot, 0, constant_vector(1)};
        dot.fill = fill_;
        return dot;
    }
    row = strip_widening(row);
    Expr lanes;
    if (const auto *shuffle = row.as<Shuffle>();
        shuffle != nullptr && shuffle->vectors.size() == 1 && is_broadcast_row(shuffle->indices))
        lanes = shuffle->vectors[0];
    else if (const auto *broadcast = row.as<Broadcast>();
             broadcast != nullptr && broadcast->value.type().lanes() == vector_lanes)
        lanes = broadcast->value;
    else
        fail("the row of a matrix product is not one vector repeated", Expr(reduce));
    Value dot{Value::Dot, 0, as_vector(evaluate(strip_widening(lanes)))};
    dot.fill = fill_;
    return dot;
}

// ---- arithmetic and comparisons

Value Matcher::binary(Opcode vv, Opcode vs, Value a, Value b, bool commutes) {
    if (commutes && (a.kind == Value::Constant || a.kind == Value::Splat)) std::swap(a, b);
    if (vv == Opcode::add_vv && b.kind == Value::Constant && b.constant == 0 && std::signbit(b.constant))
        return a;  // x + -0 = x
    Op op;
    // Partial sums enter the array where the machine has the input.
    if (vv == Opcode::add_vv && kernel_.machine->sa.psum_in && kernel_.machine->timed() && optimize_ && a.kind != b.kind &&
        (a.kind == Value::Dot || b.kind == Value::Dot)) {
        if (b.kind == Value::Dot) std::swap(a, b);
        if (a.fill != fill_) throw Mismatch{"the weights of a dot product have changed before it is used"};
        op.opcode = Opcode::gemm_vv;
        op.src = {a.reg, as_vector(b)};
        return Value::of_vector(emit(op, RegisterClass::Vector, "dot"));
    }
    if (b.kind == Value::Constant || b.kind == Value::Splat) {
        op.opcode = vs;
        op.src = {as_vector(a), b.kind == Value::Splat ? b.reg : kernel_.constant(std::bit_cast<int32_t>(b.constant))};
    } else {
        op.opcode = vv;
        op.src = {as_vector(a), as_vector(b)};
    }
    return Value::of_vector(emit(op, RegisterClass::Vector, "t"));
}

// Division by a power of two is the multiplication by another; all else would round differently.
Value Matcher::divide(const Expr &e, const Value &a, const Value &b) {
    int exponent = 0;
    const bool exact = b.kind == Value::Constant && std::isfinite(b.constant) &&
                       std::abs(std::frexp(b.constant, &exponent)) == 0.5f && std::isnormal(1 / b.constant);
    if (!exact) fail("the machine divides exactly by powers of two alone; multiply by atalla_rcp of the divisor", e);
    return binary(Opcode::mul_vv, Opcode::mul_vs, a, Value::of_constant(1 / b.constant), true);
}

// Add, Sub, Mul, Div, Min and Max. In float32 the machine has only the sums of the array and of a row, which start at zero,
// operations on widened bfloat16 values whose result is rounded at once, and those of single values.
Value Matcher::arithmetic(const Expr &e, bool rounded_next) {
    const auto [x, y] = operands_of(e);
    const Value a = evaluate(x), b = evaluate(y);
    if (e.type().element_of() != BFloat(16)) {
        const auto is_sum = [](const Value &v) { return (v.kind == Value::Dot && !v.rounded) || v.kind == Value::Sum; };
        const auto is_zero = [](const Value &v) { return v.kind == Value::Constant && v.constant == 0; };
        if (e.as<Add>() != nullptr && is_sum(a) && is_zero(b)) return a;
        if (e.as<Add>() != nullptr && is_zero(a) && is_sum(b)) return b;
        if (is_sum(a) || is_sum(b)) fail("float32 sums exist only inside one 32-deep dot product or one row", e);
        const bool single = e.type().is_scalar() && is_one_of<Add, Sub, Mul>(e);
        if (single && (!rounded_next || !is_bfloat(a) || !is_bfloat(b))) return scalar_arithmetic(e, a, b);
        if (!rounded_next && !is_one_of<Min, Max>(e))
            fail("the machine rounds every result to bfloat16; so must the algorithm", e);
    }
    if (!is_bfloat(a) || !is_bfloat(b))
        fail("an operand is a float32 value, but lanes hold bfloat16; round it in the algorithm", e);
    if (e.as<Add>() != nullptr) return binary(Opcode::add_vv, Opcode::add_vs, a, b, true);
    if (e.as<Sub>() != nullptr) return binary(Opcode::sub_vv, Opcode::sub_vs, a, b, false);
    if (e.as<Mul>() != nullptr) return binary(Opcode::mul_vv, Opcode::mul_vs, a, b, true);
    if (e.as<Div>() != nullptr) return divide(e, a, b);
    // As Halide has them on every host: the second operand unless the first is beyond it. That is x of x and the end of all
    // numbers.
    const auto is_end = [&](const Value &v) {
        return v.kind == Value::Constant && std::isinf(v.constant) && (v.constant > 0) == (e.as<Min>() != nullptr);
    };
    if (is_end(a)) return b;
    if (is_end(b) && a.number) return a;
    if (e.as<Max>() != nullptr) return choose(compare(Opcode::mgt_mvv, Opcode::mgt_mvs, Opcode::mlt_mvs, a, b), a, b);
    return choose(compare(Opcode::mlt_mvv, Opcode::mlt_mvs, Opcode::mgt_mvs, a, b), a, b);
}

// Compares do not round a scalar operand.
Value Matcher::compare(Opcode vv, Opcode vs, Opcode swapped_vs, const Value &a, const Value &b) {
    const auto is_scalar = [](const Value &v) { return v.kind == Value::Constant || v.is_in_scalar(); };
    const auto scalar = [&](const Value &v) {
        return v.kind == Value::Splat ? v.reg : kernel_.constant(std::bit_cast<int32_t>(v.constant));
    };
    Op op;
    if (is_scalar(b)) {
        op.opcode = vs;
        op.src = {as_vector(a), scalar(b)};
    } else if (is_scalar(a)) {
        op.opcode = swapped_vs;
        op.src = {as_vector(b), scalar(a)};
    } else {
        op.opcode = vv;
        op.src = {as_vector(a), as_vector(b)};
    }
    return Value::of_mask(emit(op, RegisterClass::Mask, "m"));
}

Value Matcher::comparison(const Expr &e) {
    if (const auto *op = e.as<And>()) return combine_masks(Opcode::and_s, evaluate(op->a), evaluate(op->b));
    if (const auto *op = e.as<Or>()) return combine_masks(Opcode::or_s, evaluate(op->a), evaluate(op->b));
    if (const auto *op = e.as<Not>()) {
        const Expr inner = without_strict(op->a);
        if (const auto *eq = inner.as<EQ>(); eq != nullptr && eq->a.type().is_float())
            return comparison(NE::make(eq->a, eq->b));
        return invert_mask(evaluate(op->a));
    }
    // All the others in terms of these.
    if (const auto *op = e.as<GT>()) return comparison(LT::make(op->b, op->a));
    if (const auto *op = e.as<GE>()) return comparison(LE::make(op->b, op->a));
    if (const auto *op = e.as<LT>()) {
        if (!op->a.type().is_float()) return integer_comparison(e);
        return compare(Opcode::mlt_mvv, Opcode::mlt_mvs, Opcode::mgt_mvs, evaluate(op->a), evaluate(op->b));
    }
    // As Halide has it on every host, also for NaN: not greater.
    if (const auto *op = e.as<LE>()) return invert_mask(comparison(LT::make(op->b, op->a)));
    const auto *eq = e.as<EQ>();
    const auto *ne = e.as<NE>();
    const Expr &a = eq != nullptr ? eq->a : ne->a, &b = eq != nullptr ? eq->b : ne->b;
    if (!a.type().is_float()) return ne != nullptr ? invert_mask(integer_equality(a, b, e)) : integer_equality(a, b, e);
    if (eq != nullptr) return compare(Opcode::meq_mvv, Opcode::meq_mvs, Opcode::meq_mvs, evaluate(a), evaluate(b));
    return compare(Opcode::mneq_mvv, Opcode::mneq_mvs, Opcode::mneq_mvs, evaluate(a), evaluate(b));
}

Value Matcher::evaluate_select(const Select *select) {
    // Masks are not inverted where the values can be exchanged. (Both equal and unequal are the machine's.)
    Expr condition = without_strict(select->condition), on = select->true_value, off = select->false_value;
    if (const Expr other = condition.as<EQ>() == nullptr ? opposite(condition) : Expr(); other.defined()) {
        condition = other;
        std::swap(on, off);
    }
    // One side of several conditions may decide them, or leave the other.
    while (condition.as<Or>() != nullptr || condition.as<And>() != nullptr) {
        const auto *any = condition.as<Or>();
        const auto *all = condition.as<And>();
        const bool decides = any != nullptr;
        const Expr a = decides ? any->a : all->a, b = decides ? any->b : all->b;
        const std::optional<bool> first = known_here(a), second = known_here(b);
        if (first == decides || second == decides) return evaluate(decides ? on : off);
        if (!first && !second) break;
        condition = without_strict(first ? b : a);
    }
    if (const auto taken = known_here(condition)) return evaluate(*taken ? on : off);
    const Value lanes = evaluate(condition);
    if (lanes.lanes == ~0u) return evaluate(on);
    if (lanes.lanes == 0u) return evaluate(off);
    if (const auto first = first_of_row(lanes, on, off)) return *first;
    return choose(lanes, evaluate(on), evaluate(off));
}

// The first elements of a row of the pads, and zeros behind them, are a load of so many columns.
std::optional<Value> Matcher::first_of_row(const Value &lanes, const Expr &on, const Expr &off) {
    const auto *load = on.as<Load>();
    if (!lanes.lanes || (*lanes.lanes & (*lanes.lanes + 1)) != 0 || load == nullptr || !is_positive_zero(off))
        return std::nullopt;
    const auto allocation = allocations_.find(load->name);
    if (allocation == allocations_.end() || load->type.is_scalar()) return std::nullopt;
    Op op;
    op.opcode = Opcode::vreg_ld;
    op.imm = std::popcount(*lanes.lanes) - 1;
    op.access = PadAccess{allocation->second, pad_row(load->index, load->type.lanes(), load->name), {}};
    return Value::of_vector(emit(op, RegisterClass::Vector, kernel_.allocations[allocation->second].name));
}

// A comparison of indices that loops outside have decided.
std::optional<bool> Matcher::known_here(const Expr &condition) {
    if (const auto *broadcast = condition.as<Broadcast>()) return known_here(broadcast->value);
    const auto *less = condition.as<LT>();
    const auto *equal = condition.as<EQ>();
    if (!condition.type().is_scalar() || (less == nullptr && equal == nullptr) ||
        !(less != nullptr ? less->a : equal->a).type().is_int())
        return std::nullopt;
    const LinearForm value = scope_.linear(Select::make(condition, IntImm::make(Int(32), 1), IntImm::make(Int(32), 0)));
    if (!value.is_constant()) return std::nullopt;
    return value.constant != 0;
}

// Takes the value for lanes that are off, then overwrites the lanes that are on.
Value Matcher::choose(const Value &condition, const Value &on, const Value &off) {
    if (condition.kind != Value::Mask) throw Mismatch{"a select's condition is not a comparison"};
    const Reg on_lanes = as_vector(on), off_lanes = as_vector(off), mask = mask_of(condition);
    Reg &known = numbered_[fmt::format("choose {} {} {}", mask.id, on_lanes.id, off_lanes.id)];
    if (known.defined()) return Value::of_vector(known);
    const Reg result = known = copy_vector(off_lanes, kernel_.vector("select"));
    Op merge;
    merge.opcode = Opcode::sub_vv;
    merge.src = {on_lanes, zero_vector};
    merge.mask = mask;
    merge.keeps_dst = true;
    merge.dst = result;
    merge.source = source_;
    body_->push_back(merge);
    return Value::of_vector(result);
}

// ---- everything

Value Matcher::evaluate_call(const Call *call) {
    if (call->name == "atalla_exp" && call->args.size() == 1) {
        Op op;
        op.opcode = Opcode::expi_vi;
        op.src = {as_vector(evaluate(call->args[0]))};
        return Value::of_vector(emit(op, RegisterClass::Vector, "exp"));
    }
    if (call->name == "atalla_rcp" && call->args.size() == 1) return scalar_function(Opcode::rcp_bf, call);
    if (call->name == "atalla_sqrt" && call->args.size() == 1) return scalar_function(Opcode::sqrt_bf, call);
    fail("the machine has no operation for '" + call->name + "'", Expr(call));
}

Value Matcher::evaluate_cast(const Cast *cast) {
    const Type to = cast->type.element_of(), from = cast->value.type().element_of();
    if (to == from || (to == Float(32) && from == BFloat(16)) || (to.is_bool() && from.is_bool())) return evaluate(cast->value);
    if (to != BFloat(16) || from != Float(32)) fail("this conversion has no translation", Expr(cast));
    const Expr inner = without_strict(cast->value);
    Value value = is_one_of<Add, Sub, Mul, Div>(inner) ? arithmetic(inner, true) : evaluate(inner);
    if (value.kind == Value::Mask) fail("a comparison is used as a number", Expr(cast));
    if (value.kind == Value::Constant) value.constant = rounded(value.constant);
    if (value.kind == Value::Sum) value.kind = Value::Vector;
    value.rounded = true;
    return value;
}

Value Matcher::evaluate(const Expr &original) {
    const Expr e = without_strict(original);
    if (const auto *imm = e.as<FloatImm>()) return Value::of_constant(static_cast<float>(imm->value));
    if (const auto *variable = e.as<Variable>()) {
        if (const auto it = named_.find(variable->name); it != named_.end()) return it->second;
        if (const Expr condition = scope_.find_condition(variable->name); condition.defined()) return evaluate(condition);
        fail("'" + variable->name + "' is not a value that lanes can hold", e);
    }
    if (const auto *let = e.as<Let>()) {
        const Type type = let->value.type();
        if (!type.is_float() && !type.is_bool()) {
            if (!type.is_scalar()) return evaluate(substitute(let->name, let->value, let->body));
            scope_.bind(let->name, scope_.linear(let->value));
        } else {
            named_[let->name] = evaluate(let->value);
        }
        const Value result = evaluate(let->body);
        scope_.unbind(let->name);
        named_.erase(let->name);
        return result;
    }
    const int lanes = e.type().lanes();
    if (lanes != 1 && lanes != vector_lanes) fail("an expression has neither 32 lanes nor one", e);
    if (const auto *broadcast = e.as<Broadcast>()) return evaluate(broadcast->value);
    if (const auto *cast = e.as<Cast>()) return evaluate_cast(cast);
    if (const auto *load = e.as<Load>()) return evaluate_load(load);
    if (const auto *reduce = e.as<VectorReduce>()) return lanes == 1 ? reduce_lanes(reduce) : evaluate_product(reduce);
    if (const auto *select = e.as<Select>()) return evaluate_select(select);
    if (is_one_of<And, Or, Not, LT, LE, GT, GE, EQ, NE>(e)) return comparison(e);
    if (is_one_of<Add, Sub, Mul, Div, Min, Max>(e)) return arithmetic(e, false);
    if (const auto *call = e.as<Call>()) return evaluate_call(call);
    fail("this expression has no translation", e);
}

}  // namespace atalla::codegen
