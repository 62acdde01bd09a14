#include "codegen/index.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <sstream>

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

std::optional<int64_t> value_at(const Expr &e, const std::map<std::string, int64_t> &iterations) {
    if (const auto *imm = e.as<IntImm>()) return imm->value;
    if (const auto *variable = e.as<Variable>()) {
        const auto found = iterations.find(variable->name);
        return found == iterations.end() ? std::nullopt : std::optional(found->second);
    }
    std::optional<int64_t> result;
    const auto take = [&](const auto *op, const auto &combine) {
        if (op == nullptr) return;
        const auto a = value_at(op->a, iterations), b = value_at(op->b, iterations);
        if (a && b) result = combine(*a, *b);
    };
    take(e.as<Add>(), [](int64_t a, int64_t b) { return a + b; });
    take(e.as<Sub>(), [](int64_t a, int64_t b) { return a - b; });
    take(e.as<Mul>(), [](int64_t a, int64_t b) { return a * b; });
    take(e.as<Div>(), [](int64_t a, int64_t b) { return b == 0 ? 0 : floor_div(a, b); });
    take(e.as<Mod>(), [](int64_t a, int64_t b) { return b == 0 ? 0 : floor_mod(a, b); });
    take(e.as<Min>(), [](int64_t a, int64_t b) { return std::min(a, b); });
    take(e.as<Max>(), [](int64_t a, int64_t b) { return std::max(a, b); });
    return result;
}

std::optional<int64_t> value_at(const Kernel &kernel, const LinearForm &form,
                                const std::map<std::string, int64_t> &iterations) {
    int64_t sum = form.constant;
    for (const auto &[atom, coefficient] : form.terms) {
        const auto value = value_at(kernel.atoms[static_cast<size_t>(atom)].expr, iterations);
        if (!value) return std::nullopt;
        sum += coefficient * *value;
    }
    return sum;
}

std::vector<Expr> conjuncts(const Expr &e) {
    std::vector<Expr> parts;
    const auto add = [&](const Expr &part) {
        for (const Expr &inner : conjuncts(part)) parts.push_back(inner);
    };
    if (const auto *let = e.as<Let>()) return conjuncts(substitute(let->name, let->value, let->body));
    const auto *both = e.as<And>();
    const auto *less = e.as<LT>();
    const auto *max = less != nullptr ? less->a.as<Max>() : nullptr;
    if (both != nullptr) {
        add(both->a);
        add(both->b);
    } else if (max != nullptr) {
        add(LT::make(max->a, less->b));
        add(LT::make(max->b, less->b));
    } else {
        parts.push_back(e);
    }
    return parts;
}

IndexScope::IndexScope(Kernel &kernel) : kernel_(kernel) {
    for (size_t a = 0; a < kernel.atoms.size(); a++) atoms_.try_emplace(kernel.atoms[a].text, static_cast<int>(a));
}

const LinearForm *IndexScope::find(const std::string &name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? nullptr : &it->second;
}

Expr IndexScope::find_condition(const std::string &name) const {
    const auto it = conditions_.find(name);
    return it == conditions_.end() ? Expr() : it->second;
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

Expr to_int(const Expr &e) { return e.type() == Int(32) ? e : Cast::make(Int(32), e); }

}  // namespace

LinearForm IndexScope::binary_non_linear(const LinearForm &a, const LinearForm &b, const Expr &rebuilt) {
    std::ostringstream text;
    text << rebuilt;
    auto [it, inserted] = atoms_.try_emplace(text.str(), static_cast<int>(kernel_.atoms.size()));
    if (inserted)
        kernel_.atoms.push_back({rebuilt, text.str(), std::max(innermost(kernel_, a), innermost(kernel_, b)), false, {}});
    LinearForm form;
    form.terms[it->second] = 1;
    return form;
}

LinearForm joined(Kernel &kernel, LinearForm form) {
    const std::map<int, int64_t> terms = form.terms;
    for (const auto &[rest, factor] : terms) {
        const Expr expr = kernel.atoms[rest].expr;
        const auto *mod = expr.as<Mod>();
        const auto *n = mod != nullptr && mod->a.as<Variable>() != nullptr ? mod->b.as<IntImm>() : nullptr;
        if (n == nullptr) continue;
        const auto quotient = std::ranges::find_if(form.terms, [&](const auto &term) {
            const auto *div = kernel.atoms[term.first].expr.template as<Div>();
            return div != nullptr && equal(div->a, mod->a) && equal(div->b, mod->b);
        });
        if (quotient == form.terms.end()) continue;
        LinearForm instead = IndexScope(kernel).loop_variable(kernel.atoms[rest].loop).scaled(factor);
        instead.terms[quotient->first] = -factor * n->value;
        form.terms.erase(rest);
        form += instead;
    }
    return form;
}

LinearForm IndexScope::at(const LinearForm &form, int loop, int64_t value) {
    return at(form, loop, IntImm::make(Int(32), value));
}
LinearForm IndexScope::at(const LinearForm &form, int loop, const Expr &value) {
    LinearForm result{form.constant, {}};
    for (auto [atom, coefficient] : form.terms) {
        const Expr fixed = simplify(substitute(kernel_.loops[loop].name, value, kernel_.atoms[atom].expr));
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

int IndexScope::first_iteration_only(const LinearForm &extent) {
    const auto is_positive_at = [&](size_t loop, int64_t value) -> std::optional<bool> {
        const LinearForm form = at(extent, static_cast<int>(loop), value);
        if (!form.is_constant()) return std::nullopt;
        return form.constant > 0;
    };
    for (size_t l = 0; l < kernel_.loops.size(); l++) {
        const bool used = std::any_of(extent.terms.begin(), extent.terms.end(), [&](const auto &term) {
            return expr_uses_var(kernel_.atoms[term.first].expr, kernel_.loops[l].name);
        });
        if (used && is_positive_at(l, 0) == true && is_positive_at(l, 1) == false &&
            is_positive_at(l, kernel_.loops[l].extent - 1) == false)
            return static_cast<int>(l);
    }
    return -1;
}

// The form with the last values of varying loops, which depend on the loops around them, in place of their variables where that
// makes it less, or greater.
LinearForm IndexScope::extreme(LinearForm form, bool least) const {
    // The innermost loop first: what takes its place may have a variable of a loop around it.
    for (auto it = form.terms.rbegin(); it != form.terms.rend();) {
        const auto [atom, coefficient] = *it;
        const Atom &variable = kernel_.atoms[atom];
        if (!variable.is_loop || (coefficient < 0) != least || !kernel_.loops[variable.loop].last_value) {
            ++it;
            continue;
        }
        form.terms.erase(atom);
        form += kernel_.loops[variable.loop].last_value->scaled(coefficient);
        it = form.terms.rbegin();
    }
    return form;
}

std::optional<Limits> IndexScope::range(const LinearForm &form) const {
    const LinearForm least = extreme(form, true), greatest = extreme(form, false);
    Limits all{least.constant, greatest.constant};
    for (auto [atom, coefficient] : least.terms) {
        const auto limits = range(kernel_.atoms[atom]);
        if (!limits) return std::nullopt;
        all.low += coefficient * (coefficient < 0 ? limits->high : limits->low);
    }
    for (auto [atom, coefficient] : greatest.terms) {
        const auto limits = range(kernel_.atoms[atom]);
        if (!limits) return std::nullopt;
        all.high += coefficient * (coefficient < 0 ? limits->low : limits->high);
    }
    return all;
}
std::optional<Limits> IndexScope::range(const Atom &atom) const {
    if (!atom.capped) return range(atom.expr);
    const auto limits = range(*atom.capped);
    return limits ? std::optional(Limits{std::min<int64_t>(limits->low, 0), std::min<int64_t>(limits->high, 0)}) : std::nullopt;
}

// The same for the expression of an atom.
std::optional<Limits> IndexScope::range(const Expr &e) const {
    if (const auto *imm = e.as<IntImm>()) return Limits{imm->value, imm->value};
    if (const auto *variable = e.as<Variable>()) {
        // Dimensions of copies may be there several times, the one that counts last.
        for (size_t l = kernel_.loops.size(); l-- > 0;)
            if (kernel_.loops[l].name == variable->name)
                return kernel_.loops[l].extent > 0 ? std::optional(Limits{0, kernel_.loops[l].extent - 1}) : std::nullopt;
        return std::nullopt;
    }
    const auto both = [&](const Expr &x, const Expr &y,
                          const std::function<Limits(const Limits &, const Limits &)> &combine) -> std::optional<Limits> {
        const auto a = range(x), b = range(y);
        if (!a || !b) return std::nullopt;
        return combine(*a, *b);
    };
    if (const auto *op = e.as<Add>())
        return both(op->a, op->b, [](const Limits &a, const Limits &b) { return Limits{a.low + b.low, a.high + b.high}; });
    if (const auto *op = e.as<Min>())
        return both(op->a, op->b, [](const Limits &a, const Limits &b) {
            return Limits{std::min(a.low, b.low), std::min(a.high, b.high)};
        });
    if (const auto *op = e.as<Max>())
        return both(op->a, op->b, [](const Limits &a, const Limits &b) {
            return Limits{std::max(a.low, b.low), std::max(a.high, b.high)};
        });
    if (const auto *op = e.as<Mul>())
        return both(op->a, op->b, [](const Limits &a, const Limits &b) {
            const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
            return Limits{low, high};
        });
    if (const auto *op = e.as<Mod>())
        if (const auto *n = op->b.as<IntImm>(); n != nullptr && n->value > 0) return Limits{0, n->value - 1};
    if (const auto *op = e.as<Div>())
        if (const auto *n = op->b.as<IntImm>(); n != nullptr && n->value > 0)
            if (const auto limits = range(op->a))
                return Limits{floor_div(limits->low, n->value), floor_div(limits->high, n->value)};
    return std::nullopt;
}

// min(a, b) or max(a, b); one of them where it is the same one in every iteration.
LinearForm IndexScope::smaller_or_larger(const Expr &x, const Expr &y, bool smaller) {
    const LinearForm a = linear(x), b = linear(y);
    LinearForm difference = a;
    difference += b.scaled(-1);
    if (const auto limits = range(difference)) {
        if (limits->high <= 0) return smaller ? a : b;
        if (limits->low >= 0) return smaller ? b : a;
    }
    // Both through one kind of atom, min(d, 0) with a normalized sign, so that equal ones cancel: min(a, b) = b + min(a - b,
    // 0), min(d, 0) = d + min(-d, 0), max(a, b) = a + b - min(a, b). What divides d divides the result: rows stay in their
    // pads.
    LinearForm least = b;
    if (difference.terms.begin()->second < 0) {
        least += difference;
        difference = difference.scaled(-1);
    }
    int64_t factor = std::abs(difference.constant);
    for (const auto &[atom, coefficient] : difference.terms) factor = std::gcd(factor, coefficient);
    difference.divide(factor);
    const LinearForm capped =
        binary_non_linear(difference, {}, Min::make(to_expr(kernel_, difference), IntImm::make(Int(32), 0)));
    kernel_.atoms[capped.terms.begin()->first].capped = difference;
    least += capped.scaled(factor);
    if (smaller) return least;
    LinearForm greatest = a;
    greatest += b;
    return greatest += least.scaled(-1);
}

// A value converted to a type: itself, if the type has it.
LinearForm IndexScope::narrowed(const Expr &e, Type type, bool saturating) {
    const LinearForm form = linear(e);
    if (type.bits() >= 32) return form;
    const int64_t high = (int64_t{1} << (type.is_uint() ? type.bits() : type.bits() - 1)) - 1,
                  low = type.is_uint() ? 0 : -high - 1;
    if (const auto limits = range(form); limits && limits->low >= low && limits->high <= high) return form;
    if (saturating) return linear(Max::make(Min::make(to_int(e), IntImm::make(Int(32), high)), IntImm::make(Int(32), low)));
    std::ostringstream text;
    text << "an index may not fit " << type << ": " << e;
    throw Mismatch{text.str()};
}

LinearForm IndexScope::remainder(const LinearForm &a, int64_t divisor) {
    LinearForm rest{floor_mod(a.constant, divisor), {}};
    for (auto [atom, c] : a.terms)
        if (c % divisor != 0) rest.terms[atom] = c;
    if (rest.is_constant()) return rest;
    return binary_non_linear(rest, {}, Mod::make(to_expr(kernel_, rest), IntImm::make(Int(32), divisor)));
}

LinearForm IndexScope::quotient(const LinearForm &a, int64_t divisor) {
    // What divides, and the rest where that is rounded down to the same number in every iteration.
    LinearForm whole, rest{a.constant, {}};
    for (const auto &term : a.terms) (term.second % divisor == 0 ? whole : rest).terms.insert(term);
    const auto limits = range(rest);
    if (limits && floor_div(limits->low, divisor) == floor_div(limits->high, divisor)) {
        whole.divide(divisor);
        whole.constant = floor_div(limits->low, divisor);
        return whole;
    }
    return binary_non_linear(a, {}, Div::make(to_expr(kernel_, a), IntImm::make(Int(32), divisor)));
}

// Nothing for other conditions than comparisons of integers and what is made of these.
std::optional<LinearForm> IndexScope::selected(const Select &select) {
    Expr condition = select.condition;
    while (const auto *let = condition.as<Let>()) condition = substitute(let->name, let->value, let->body);
    if (const auto *v = condition.as<Variable>(); v != nullptr && find_condition(v->name).defined())
        condition = find_condition(v->name);
    if (const auto *op = condition.as<LE>()) condition = LT::make(op->a, op->b + 1);
    if (const auto *op = condition.as<GT>()) condition = LT::make(op->b, op->a);
    if (const auto *op = condition.as<GE>()) condition = LT::make(op->b, op->a + 1);
    if (const auto *negated = condition.as<Not>())
        return linear(Select::make(negated->a, select.false_value, select.true_value));
    if (const auto *both = condition.as<And>())
        return linear(Select::make(both->a, Select::make(both->b, select.true_value, select.false_value), select.false_value));
    if (const auto *either = condition.as<Or>())
        return linear(
            Select::make(either->a, select.true_value, Select::make(either->b, select.true_value, select.false_value)));
    if (const auto *unequal = condition.as<NE>())
        return linear(Select::make(EQ::make(unequal->a, unequal->b), select.false_value, select.true_value));
    if (const auto *equal = condition.as<EQ>(); equal != nullptr && equal->a.type().is_int())
        return selected_where_equal(equal->a, equal->b, select);
    if (const auto *less = condition.as<LT>()) return selected_where_less(less->a, less->b, select);
    return {};
}

LinearForm IndexScope::selected_where_equal(const Expr &first, const Expr &second, const Select &select) {
    const LinearForm a = linear(first), b = linear(second), on = linear(select.true_value), off = linear(select.false_value);
    LinearForm difference = a;
    difference += b.scaled(-1);
    if (on == off) return on;
    if (difference.is_constant()) return difference.constant == 0 ? on : off;
    if (const auto limits = range(difference); limits && (limits->low > 0 || limits->high < 0)) return off;
    LinearForm all = difference;
    for (const LinearForm *part : {&on, &off}) all.terms.insert(part->terms.begin(), part->terms.end());
    return binary_non_linear(all, {},
                             Select::make(EQ::make(to_expr(kernel_, difference), IntImm::make(Int(32), 0)),
                                          to_expr(kernel_, on), to_expr(kernel_, off)));
}

LinearForm IndexScope::selected_where_less(const Expr &first, const Expr &second, const Select &select) {
    const LinearForm a = linear(first), b = linear(second), on = linear(select.true_value), off = linear(select.false_value);
    LinearForm difference = a;
    difference += b.scaled(-1);
    if (on == off) return on;
    if (const auto limits = range(difference)) {
        if (limits->high < 0) return on;
        if (limits->low >= 0) return off;
    }
    LinearForm all = a;
    for (const LinearForm *part : {&b, &on, &off}) all.terms.insert(part->terms.begin(), part->terms.end());
    return binary_non_linear(
        all, {}, Select::make(LT::make(to_expr(kernel_, a), to_expr(kernel_, b)), to_expr(kernel_, on), to_expr(kernel_, off)));
}

LinearForm IndexScope::linear(const Expr &e) {
    if (const auto *imm = e.as<IntImm>()) return {imm->value, {}};
    if (const auto *imm = e.as<UIntImm>()) return {static_cast<int64_t>(imm->value), {}};
    if (const auto *v = e.as<Variable>()) {
        const LinearForm *value = find(v->name);
        if (value == nullptr)
            throw Mismatch{"an index uses '" + v->name + "', which is neither a loop variable nor an integer made of them"};
        return *value;
    }
    if (const auto *cast = e.as<Cast>()) return narrowed(cast->value, cast->type, false);
    if (const auto *call = e.as<Call>()) {
        if (call->is_intrinsic(Call::saturating_cast)) return narrowed(call->args[0], call->type, true);
        if (call->is_intrinsic(Call::saturating_sub)) {
            LinearForm a = linear(call->args[0]);  // indices are far from the ends of int32
            return a += linear(call->args[1]).scaled(-1);
        }
    }
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
        if (b.is_constant() && b.constant > 0) return remainder(a, b.constant);
    }
    if (const auto *op = e.as<Div>()) {
        LinearForm a = linear(op->a), b = linear(op->b);
        if (b.is_constant() && b.constant > 0) return quotient(a, b.constant);
    }
    if (const auto *min = e.as<Min>()) return smaller_or_larger(min->a, min->b, true);
    if (const auto *max = e.as<Max>()) return smaller_or_larger(max->a, max->b, false);
    if (const auto *select = e.as<Select>())
        if (auto chosen = selected(*select)) return *std::move(chosen);
    std::ostringstream text;
    text << "an index is not an integer expression of loop variables: " << e;
    throw Mismatch{text.str()};
}

}  // namespace atalla::codegen
