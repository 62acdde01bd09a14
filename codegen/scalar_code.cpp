#include "codegen/scalar_code.h"

#include <algorithm>
#include <utility>

#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla::codegen {

using namespace Halide::Internal;

Op ScalarCode::make(Opcode opcode, Reg dst, Reg a, Reg b, int32_t imm) {
    Op op;
    op.opcode = opcode;
    op.dst = dst;
    op.src = {a, b};
    op.imm = imm;
    return op;
}

Op ScalarCode::add(Reg dst, Reg a, int64_t value) const {
    if (value >= smallest_immediate && value <= largest_immediate)
        return make(Opcode::addi_s, dst, a, {}, static_cast<int32_t>(value));
    return make(Opcode::add_s, dst, a, kernel_.constant(static_cast<int32_t>(value)));
}

Reg ScalarCode::emit(Opcode opcode, Reg a, Reg b, int32_t imm, Body &out) {
    const Made key{opcode, a, b, imm};
    size_t level = loops_.size();
    while (numbering_ && level > 0 && !loops_[level - 1].varying.contains(a) && !loops_[level - 1].varying.contains(b)) level--;
    const bool hoisted = level < loops_.size();
    std::map<Made, Reg> &made = hoisted ? loops_[level].made : made_;
    if (const auto it = made.find(key); numbering_ && it != made.end()) return it->second;
    const Reg dst = kernel_.scalar("s");
    (hoisted ? *loops_[level].before : out).push_back(make(opcode, dst, a, b, imm));
    for (size_t l = 0; l < level; l++) loops_[l].varying.insert(dst);
    if (numbering_) made[key] = dst;
    return dst;
}

void ScalarCode::forget(Reg changed) {
    std::erase_if(made_, [&](const auto &entry) { return entry.first.a == changed || entry.first.b == changed; });
}

Reg ScalarCode::add_constant(Reg a, int64_t value, Body &out) {
    if (value == 0) return a;
    if (a == zero_scalar) return kernel_.constant(static_cast<int32_t>(value));
    if (value >= smallest_immediate && value <= largest_immediate)
        return emit(Opcode::addi_s, a, {}, static_cast<int32_t>(value), out);
    return emit(Opcode::add_s, a, kernel_.constant(static_cast<int32_t>(value)), 0, out);
}

Reg ScalarCode::multiply(Reg a, int64_t factor, Body &out) {
    if (factor == 0) return zero_scalar;
    if (factor == 1) return a;
    if (factor < 0) return emit(Opcode::sub_s, zero_scalar, multiply(a, -factor, out), 0, out);
    if ((factor & (factor - 1)) == 0) return emit(Opcode::slli_s, a, {}, __builtin_ctzll(factor), out);
    return emit(Opcode::mul_s, a, kernel_.constant(static_cast<int32_t>(factor)), 0, out);
}

// a / n, rounded down, or what is left, as a product and a shift, which take a fraction of a division's time: with
// 2^k = n m - e, 0 <= e < n, the product a m is (a 2^k + a e) / n, and while a e < 2^k that is less than the next quotient
// would need. Nothing where the range of a is not known, or too large.
std::optional<Reg> ScalarCode::divide_by_product(Reg a, int64_t n, const std::optional<Limits> &limits, bool rest, Body &out) {
    if (!optimize_ || !kernel_.machine->timed() || !limits) return std::nullopt;
    const int64_t below = limits->low < 0 ? ceil_div(-limits->low, n) : 0, most = limits->high + below * n;
    for (int shift = 1; shift < 31; shift++) {
        const int64_t power = int64_t{1} << shift, factor = ceil_div(power, n);
        if (most * factor > INT32_MAX) break;
        if (most * (factor * n - power) >= power) continue;
        const Reg raised = add_constant(a, below * n, out),
                  quotient = emit(Opcode::srai_s, multiply(raised, factor, out), {}, shift, out);
        return rest ? emit(Opcode::sub_s, raised, multiply(quotient, n, out), 0, out) : add_constant(quotient, -below, out);
    }
    return std::nullopt;
}

Reg ScalarCode::loop_value(const std::string &name, const std::map<int, Reg> &values) const {
    for (size_t i = kernel_.loops.size(); i-- > 0;) {
        if (kernel_.loops[i].name != name) continue;
        const int loop = static_cast<int>(i);
        if (const auto it = values.find(loop); it != values.end()) return it->second;
        const auto counter = counters_.find(loop);
        return counter != counters_.end() ? counter->second : kernel_.loops[i].index;
    }
    throw Error("cannot generate code: an address uses '" + name + "', which is not a loop");
}

Reg ScalarCode::value(const Halide::Expr &e, const std::map<int, Reg> &values, Body &out) {
    if (const auto *imm = e.as<IntImm>()) return kernel_.constant(static_cast<int32_t>(imm->value));
    if (const auto *v = e.as<Variable>()) return loop_value(v->name, values);
    if (const auto *op = e.as<Add>()) {
        if (const auto *imm = op->b.as<IntImm>()) return add_constant(value(op->a, values, out), imm->value, out);
        return emit(Opcode::add_s, value(op->a, values, out), value(op->b, values, out), 0, out);
    }
    if (const auto *op = e.as<Mul>())
        if (const auto *imm = op->b.as<IntImm>()) return multiply(value(op->a, values, out), imm->value, out);
    const auto *mod = e.as<Mod>();
    const auto *div = e.as<Div>();
    if (mod != nullptr || div != nullptr) {
        const auto *imm = (mod ? mod->b : div->b).as<IntImm>();
        const Reg a = value(mod ? mod->a : div->a, values, out);
        const int64_t n = imm != nullptr ? imm->value : 0;
        if (n > 0 && (n & (n - 1)) == 0)
            return mod ? emit(Opcode::and_s, a, kernel_.constant(static_cast<int32_t>(n - 1)), 0, out)
                       : emit(Opcode::srai_s, a, {}, __builtin_ctzll(n), out);
        if (n > 0)
            if (const auto made =
                    divide_by_product(a, n, IndexScope(kernel_).range(mod ? mod->a : div->a), mod != nullptr, out))
                return *made;
        if (n > 0) return emit(mod ? Opcode::mod_s : Opcode::div_s, a, kernel_.constant(static_cast<int32_t>(n)), 0, out);
    }
    const auto *min = e.as<Min>();
    const auto *max = e.as<Max>();
    if (min != nullptr || max != nullptr) {
        // min(a, b) = b + ((a - b) & ((a - b) >> 31)); max takes the other side of the mask.
        const Reg a = value(min ? min->a : max->a, values, out), b = value(min ? min->b : max->b, values, out);
        const Reg difference = emit(Opcode::sub_s, a, b, 0, out), sign = emit(Opcode::srai_s, difference, {}, 31, out);
        const Reg chosen = emit(Opcode::and_s, difference, sign, 0, out);
        return min ? emit(Opcode::add_s, b, chosen, 0, out) : emit(Opcode::sub_s, a, chosen, 0, out);
    }
    throw Error("cannot generate code: no scalar operation for an address expression");
}

// Of transfers in straight code, addresses have most of their terms in common: made once.
void ScalarCode::lower_value(const Op &op, Body &out) {
    numbering_ = optimize_;
    std::vector<Reg> addends;
    for (Reg r : op.src)
        if (r.defined() && r != zero_scalar) addends.push_back(r);
    for (auto [atom, coefficient] : op.value->terms)
        addends.push_back(multiply(value(kernel_.atoms[atom].expr, op.loop_values, out), coefficient, out));
    int64_t constant = op.value->constant;
    // What the loop does not change is summed apart.
    const auto varying = std::stable_partition(addends.begin(), addends.end(), [&](Reg r) { return varies(r); });
    if (!loops_.empty() && varying != addends.begin() && varying != addends.end()) {
        Reg fixed = *varying;
        for (auto it = varying + 1; it != addends.end(); ++it) fixed = emit(Opcode::add_s, fixed, *it, 0, out);
        fixed = add_constant(fixed, std::exchange(constant, 0), out);
        addends.erase(varying, addends.end());
        addends.push_back(fixed);
    }
    while (addends.size() > 2 || (addends.size() == 2 && constant != 0)) {
        const Reg sum = emit(Opcode::add_s, addends[addends.size() - 2], addends.back(), 0, out);
        addends.resize(addends.size() - 2);
        addends.push_back(sum);
    }
    numbering_ = false;
    Op last = make(Opcode::addi_s, op.dst, addends.empty() ? zero_scalar : addends[0]);
    if (addends.size() == 2) {
        last.opcode = Opcode::add_s;
        last.src[1] = addends[1];
    } else if (constant >= smallest_immediate && constant <= largest_immediate) {
        last.imm = static_cast<int32_t>(constant);
    } else {
        last.opcode = Opcode::add_s;
        last.src[1] = kernel_.constant(static_cast<int32_t>(constant));
    }
    last.source = op.source;
    out.push_back(last);
}

std::vector<Op> ScalarCode::lower_side(const std::vector<Op> &ops) {
    Body lowered;
    const auto outside = std::exchange(made_, {});
    for (const Op &op : ops) {
        if (op.value)
            lower_value(op, lowered);
        else
            lowered.push_back(op);
        if (lowered.back().op->dst.defined()) forget(lowered.back().op->dst);
    }
    made_ = outside;
    std::vector<Op> list;
    for (const Node &node : lowered) list.push_back(*node.op);
    return list;
}

}  // namespace atalla::codegen
