#include "codegen/lets.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace atalla::codegen {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Int;

namespace {

constexpr const char *loop_min = ".loop_min", *loop_max = ".loop_max";

class RemoveDeadLets : public IRMutator {
public:
    explicit RemoveDeadLets(LoopBounds loop_bounds) : loop_bounds_(loop_bounds) {}

private:
    using IRMutator::visit;

    Expr visit(const Variable *op) override {
        read_.insert(op->name);
        return op;
    }

    Stmt visit(const For *op) override {
        if (loop_bounds_ == LoopBounds::Keep) read_.insert({op->name + loop_min, op->name + loop_max});
        return IRMutator::visit(op);
    }

    // Definitions in a row are thousands: they are walked, not called one inside the other.
    Stmt visit(const LetStmt *op) override {
        struct Let {
            const LetStmt *op;
            bool outer_is_read;  // by what was walked before, the definition around this one of the same name
        };
        std::vector<Let> lets;
        Stmt body;
        for (const LetStmt *let = op; let; let = body.as<LetStmt>()) {
            lets.push_back({let, read_.erase(let->name) > 0});
            body = let->body;
        }
        Stmt result = mutate(body);
        bool same = result.same_as(body);
        for (auto let = lets.rbegin(); let != lets.rend(); ++let) {
            const bool is_read = read_.erase(let->op->name) > 0;
            if (let->outer_is_read) read_.insert(let->op->name);
            same = same && is_read;
            if (!is_read) continue;
            mutate(let->op->value);
            result = same ? Stmt(let->op) : LetStmt::make(let->op->name, let->op->value, result);
        }
        return result;
    }

    const LoopBounds loop_bounds_;
    std::unordered_set<std::string> read_;
};

std::optional<int64_t> integer(const Expr &expr) {
    const auto *constant = expr.as<IntImm>();
    if (constant && constant->type == Int(32)) return constant->value;
    return std::nullopt;
}

bool same_name(const Expr &a, const Expr &b) {
    const auto *x = a.as<Variable>(), *y = b.as<Variable>();
    return a.same_as(b) || (x && y && x->name == y->name);
}

bool is_loop_bound(const std::string &name) { return ends_with(name, loop_min) || ends_with(name, loop_max); }

class SubstituteLets : public IRGraphMutator {
    using IRGraphMutator::visit;

    Expr visit(const Variable *op) override {
        const auto found = known_.find(op->name);
        return found == known_.end() ? Expr(op) : found->second;
    }

    Stmt visit(const LetStmt *op) override {
        std::vector<std::pair<std::string, Expr>> left;
        Stmt body;
        for (const LetStmt *let = op; let; let = body.as<LetStmt>()) {
            const Expr value = mutate(let->value);
            const bool known = integer(value) || value.as<Variable>();
            if (known) known_.emplace(let->name, value);
            if (!known || (value.as<Variable>() && is_loop_bound(let->name))) left.emplace_back(let->name, value);
            body = let->body;
        }
        Stmt result = mutate(body);
        for (auto let = left.rbegin(); let != left.rend(); ++let) result = LetStmt::make(let->first, let->second, result);
        return result;
    }

    Stmt visit(const AssertStmt *op) override {
        const Expr condition = mutate(op->condition);
        return is_const_one(condition) ? Evaluate::make(0) : AssertStmt::make(condition, mutate(op->message));
    }

    // Assertions that are true leave statements that do nothing.
    Stmt visit(const Block *op) override {
        const auto does_nothing = [](const Stmt &stmt) {
            const auto *evaluate = stmt.as<Evaluate>();
            return evaluate && is_const(evaluate->value);
        };
        const Stmt first = mutate(op->first), rest = mutate(op->rest);
        if (does_nothing(first)) return rest;
        if (does_nothing(rest)) return first;
        return first.same_as(op->first) && rest.same_as(op->rest) ? Stmt(op) : Block::make(first, rest);
    }

    Expr visit(const Add *op) override {
        return arithmetic(op, std::plus<>(), [](const Expr &a, const Expr &b) {
            return integer(a) == 0 ? b : integer(b) == 0 ? a : Expr();
        });
    }
    Expr visit(const Sub *op) override {
        return arithmetic(op, std::minus<>(), [](const Expr &a, const Expr &b) {
            const Add *sum = a.as<Add>();
            return integer(b) == 0 ? a : sum && same_name(sum->a, b) ? sum->b : Expr();
        });
    }
    Expr visit(const Mul *op) override {
        return arithmetic(op, std::multiplies<>(), [](const Expr &a, const Expr &b) {
            return integer(a) == 1 ? b : integer(b) == 1 ? a : Expr();
        });
    }
    // Halide's division rounds so that the rest is not negative, and by zero it gives zero.
    Expr visit(const Div *op) override {
        return arithmetic(
            op, [](int64_t a, int64_t b) { return b == 0 ? 0 : div_imp(a, b); },
            [](const Expr &a, const Expr &b) { return integer(b) == 1 ? a : Expr(); });
    }
    Expr visit(const Mod *op) override {
        return arithmetic(
            op, [](int64_t a, int64_t b) { return b == 0 ? 0 : mod_imp(a, b); },
            [](const Expr &, const Expr &) { return Expr(); });
    }
    Expr visit(const Min *op) override {
        return arithmetic(
            op, [](int64_t a, int64_t b) { return std::min(a, b); },
            [](const Expr &a, const Expr &b) { return same_name(a, b) ? a : Expr(); });
    }
    Expr visit(const Max *op) override {
        return arithmetic(
            op, [](int64_t a, int64_t b) { return std::max(a, b); },
            [](const Expr &a, const Expr &b) { return same_name(a, b) ? a : Expr(); });
    }

    Expr visit(const LT *op) override { return comparison(op, std::less<>()); }
    Expr visit(const LE *op) override { return comparison(op, std::less_equal<>()); }
    Expr visit(const GT *op) override { return comparison(op, std::greater<>()); }
    Expr visit(const GE *op) override { return comparison(op, std::greater_equal<>()); }
    Expr visit(const EQ *op) override { return comparison(op, std::equal_to<>()); }
    Expr visit(const NE *op) override { return comparison(op, std::not_equal_to<>()); }
    Expr visit(const And *op) override {
        const Expr a = mutate(op->a), b = mutate(op->b);
        if (is_const_one(a)) return b;
        if (is_const_one(b)) return a;
        return rebuilt(op, a, b);
    }

    template <typename Op>
    static Expr rebuilt(const Op *op, const Expr &a, const Expr &b) {
        return a.same_as(op->a) && b.same_as(op->b) ? Expr(op) : Op::make(a, b);
    }

    // `fold` of two integers; `identity` says which operand stands for the whole, if one does.
    template <typename Op, typename Fold, typename Identity>
    Expr arithmetic(const Op *op, const Fold &fold, const Identity &identity) {
        const Expr a = mutate(op->a), b = mutate(op->b);
        if (const auto x = integer(a), y = integer(b); x && y) {
            const int64_t value = fold(*x, *y);
            if (Int(32).can_represent(value)) return IntImm::make(Int(32), value);
        }
        if (Expr whole = identity(a, b); whole.defined()) return whole;
        return rebuilt(op, a, b);
    }

    template <typename Op, typename Holds>
    Expr comparison(const Op *op, const Holds &holds) {
        const Expr a = mutate(op->a), b = mutate(op->b);
        if (const auto x = integer(a), y = integer(b); x && y) return holds(*x, *y) ? const_true() : const_false();
        return rebuilt(op, a, b);
    }

    std::unordered_map<std::string, Expr> known_;
};

class DefineLoopBounds : public IRMutator {
    using IRMutator::visit;

    Stmt visit(const LetStmt *op) override {
        if (is_loop_bound(op->name)) defined_.insert(op->name);
        return IRMutator::visit(op);
    }

    Stmt visit(const For *op) override {
        Stmt loop = IRMutator::visit(op);
        if (!defined_.contains(op->name + loop_max))
            loop = LetStmt::make(op->name + loop_max, simplify(op->min + op->extent - 1), loop);
        if (!defined_.contains(op->name + loop_min)) loop = LetStmt::make(op->name + loop_min, op->min, loop);
        return loop;
    }

    std::unordered_set<std::string> defined_;
};

}  // namespace

Stmt remove_dead_lets(const Stmt &stmt, LoopBounds loop_bounds) { return RemoveDeadLets(loop_bounds).mutate(stmt); }
Stmt substitute_lets(const Stmt &stmt) { return SubstituteLets().mutate(stmt); }
Stmt define_loop_bounds(const Stmt &stmt) { return DefineLoopBounds().mutate(stmt); }

}  // namespace atalla::codegen
