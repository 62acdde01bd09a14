#include "codegen/index.h"

#include <set>
#include <sstream>

#include "isa/error.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

Expr to_expr(const Kernel &kernel, const LinearForm &form) {
    Expr sum;
    for (auto [atom, coefficient] : form.terms) {
        Expr term = kernel.atoms[atom].expr;
        if (coefficient != 1) term = Mul::make(term, IntImm::make(Int(32), coefficient));
        sum = sum.defined() ? Add::make(sum, term) : term;
    }
    if (!sum.defined()) return IntImm::make(Int(32), form.constant);
    if (form.constant != 0) sum = Add::make(sum, IntImm::make(Int(32), form.constant));
    return sum;
}

const LinearForm *IndexScope::find(const std::string &name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? nullptr : &it->second;
}

LinearForm IndexScope::loop_variable(int loop) {
    const std::string &name = kernel_.loops[loop].name;
    auto [it, inserted] = atoms_.try_emplace(name, static_cast<int>(kernel_.atoms.size()));
    if (inserted) kernel_.atoms.push_back({Variable::make(Int(32), name), name, loop, true});
    LinearForm form;
    form.terms[it->second] = 1;
    return form;
}

namespace {

// The innermost loop that a linear form depends on: loops are numbered outside in along a nest.
int innermost(const Kernel &kernel, const LinearForm &form) {
    int loop = -1;
    for (auto [atom, coefficient] : form.terms) loop = std::max(loop, kernel.atoms[atom].loop);
    return loop;
}


}  // namespace

LinearForm IndexScope::binary_non_linear(const LinearForm &a, const LinearForm &b, const Expr &rebuilt) {
    std::ostringstream text;
    text << rebuilt;
    auto [it, inserted] = atoms_.try_emplace(text.str(), static_cast<int>(kernel_.atoms.size()));
    if (inserted) kernel_.atoms.push_back({rebuilt, text.str(), std::max(innermost(kernel_, a), innermost(kernel_, b)), false});
    LinearForm form;
    form.terms[it->second] = 1;
    return form;
}

LinearForm IndexScope::at(const LinearForm &form, int loop, int64_t value) {
    LinearForm result{form.constant, {}};
    for (auto [atom, coefficient] : form.terms) {
        const Expr fixed = simplify(substitute(kernel_.loops[loop].name, IntImm::make(Int(32), value), kernel_.atoms[atom].expr));
        // Atoms are expressions over loop names, which stay bound to their loops' variables here.
        LinearForm part;
        struct Loops : IRVisitor {
            std::set<std::string> names;
            using IRVisitor::visit;
            void visit(const Variable *v) override { names.insert(v->name); }
        } used;
        fixed.accept(&used);
        IndexScope inner(kernel_);
        inner.atoms_ = atoms_;
        for (const std::string &name : used.names)
            for (size_t l = 0; l < kernel_.loops.size(); l++)
                if (kernel_.loops[l].name == name) inner.bind(name, inner.loop_variable(static_cast<int>(l)));
        part = inner.linear(fixed);
        atoms_ = inner.atoms_;
        result += part.scaled(coefficient);
    }
    return result;
}

LinearForm IndexScope::linear(const Expr &e) {
    if (const auto *imm = e.as<IntImm>()) return {imm->value, {}};
    if (const auto *imm = e.as<UIntImm>()) return {static_cast<int64_t>(imm->value), {}};
    if (const auto *v = e.as<Variable>()) {
        const LinearForm *value = find(v->name);
        if (value == nullptr) throw Error("index uses '" + v->name + "', which is not a loop variable or an integer let");
        return *value;
    }
    if (const auto *cast = e.as<Cast>()) return linear(cast->value);
    if (const auto *let = e.as<Let>()) {
        bind(let->name, linear(let->value));
        LinearForm result = linear(let->body);
        unbind(let->name);
        return result;
    }
    if (const auto *op = e.as<Add>()) {
        LinearForm a = linear(op->a);
        return a += linear(op->b);
    }
    if (const auto *op = e.as<Sub>()) {
        LinearForm a = linear(op->a);
        return a += linear(op->b).scaled(-1);
    }
    if (const auto *op = e.as<Mul>()) {
        LinearForm a = linear(op->a), b = linear(op->b);
        if (b.is_constant()) return a.scaled(b.constant);
        if (a.is_constant()) return b.scaled(a.constant);
    }
    if (const auto *op = e.as<Mod>()) {
        LinearForm a = linear(op->a), b = linear(op->b);
        if (b.is_constant() && b.constant > 0) {
            LinearForm rest{floor_mod(a.constant, b.constant), {}};
            for (auto [atom, c] : a.terms)
                if (c % b.constant != 0) rest.terms[atom] = c;
            if (rest.is_constant()) return rest;
            return binary_non_linear(rest, {}, Mod::make(to_expr(kernel_, rest), IntImm::make(Int(32), b.constant)));
        }
    }
    if (const auto *op = e.as<Div>()) {
        LinearForm a = linear(op->a), b = linear(op->b);
        if (b.is_constant() && b.constant > 0) {
            if (a.is_constant()) return {floor_div(a.constant, b.constant), {}};
            LinearForm exact = a;
            if (exact.divide(b.constant)) return exact;
            return binary_non_linear(a, {}, Div::make(to_expr(kernel_, a), IntImm::make(Int(32), b.constant)));
        }
    }
    const auto *min = e.as<Min>();
    const auto *max = e.as<Max>();
    if (min != nullptr || max != nullptr) {
        LinearForm a = linear(min ? min->a : max->a), b = linear(min ? min->b : max->b);
        LinearForm difference = a;
        difference += b.scaled(-1);
        if (difference.is_constant()) return ((difference.constant < 0) == (min != nullptr)) ? a : b;
        const Expr ea = to_expr(kernel_, a), eb = to_expr(kernel_, b);
        return binary_non_linear(a, b, min ? Min::make(ea, eb) : Max::make(ea, eb));
    }
    if (const auto *select = e.as<Select>()) {
        Expr condition = select->condition;
        if (const auto *v = condition.as<Variable>())
            if (const auto it = conditions_.find(v->name); it != conditions_.end()) condition = it->second;
        if (const auto *less = condition.as<LT>()) {
            const LinearForm a = linear(less->a), b = linear(less->b), on = linear(select->true_value), off = linear(select->false_value);
            if (a.is_constant() && b.is_constant()) return a.constant < b.constant ? on : off;
            LinearForm all = a;
            for (const LinearForm *part : {&b, &on, &off}) all.terms.insert(part->terms.begin(), part->terms.end());
            return binary_non_linear(all, {}, Select::make(LT::make(to_expr(kernel_, a), to_expr(kernel_, b)), to_expr(kernel_, on), to_expr(kernel_, off)));
        }
    }
    std::ostringstream text;
    text << "index expression is not an integer expression of loop variables: " << e;
    throw Error(text.str());
}

}  // namespace atalla::codegen
