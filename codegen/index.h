// Integer index expressions of the lowered IR in linear form.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <Halide.h>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// What in the IR has no code; becomes an Error that shows the statement.
struct Mismatch {
    std::string reason;
};

struct Limits {
    int64_t low = 0, high = 0;
};

// Values of integer variables (lets, loop variables) by name, and the conversion of expressions over them.
class IndexScope {
public:
    explicit IndexScope(Kernel &kernel);

    void bind(const std::string &name, LinearForm value) { values_[name] = std::move(value); }
    void unbind(const std::string &name) { values_.erase(name); }
    // A boolean let, for the selects that use it.
    void bind_condition(const std::string &name, Halide::Expr condition) { conditions_[name] = std::move(condition); }
    const LinearForm *find(const std::string &name) const;

    Halide::Expr find_condition(const std::string &name) const;

    // Throws Mismatch for an expression that is not an integer expression of bound variables.
    LinearForm linear(const Halide::Expr &e);
    // The form with a loop's variable at a value.
    LinearForm at(const LinearForm &form, int loop, int64_t value);
    LinearForm at(const LinearForm &form, int loop, const Halide::Expr &value);
    // The loop in whose first iteration alone an extent is above 0, -1: none. Halide makes such extents where what was copied
    // before is still there.
    int first_iteration_only(const LinearForm &extent);
    // The variable of a loop as a linear form; interns its atom.
    LinearForm loop_variable(int loop);
    // Lowest and highest value over the iterations of all loops, where that is known.
    std::optional<Limits> range(const LinearForm &form) const;
    std::optional<Limits> range(const Halide::Expr &e) const;

private:
    std::optional<Limits> range(const Atom &atom) const;
    LinearForm extreme(LinearForm form, bool least) const;
    LinearForm smaller_or_larger(const Halide::Expr &a, const Halide::Expr &b, bool smaller);
    LinearForm narrowed(const Halide::Expr &e, Halide::Type type, bool saturating);
    LinearForm remainder(const LinearForm &a, int64_t divisor);
    LinearForm quotient(const LinearForm &a, int64_t divisor);
    std::optional<LinearForm> selected(const Halide::Internal::Select &select);
    // Of two values by their comparison.
    LinearForm selected_where_equal(const Halide::Expr &first, const Halide::Expr &second,
                                    const Halide::Internal::Select &select);
    LinearForm selected_where_less(const Halide::Expr &first, const Halide::Expr &second,
                                   const Halide::Internal::Select &select);
    LinearForm binary_non_linear(const LinearForm &a, const LinearForm &b, const Halide::Expr &rebuilt);

    Kernel &kernel_;
    std::map<std::string, LinearForm> values_;
    std::map<std::string, Halide::Expr> conditions_;
    std::map<std::string, int> atoms_;
};

// The same form, in which a loop's variable stands for what a division by a constant leaves of it, where the quotient is
// there, too: of a walk through all rows nothing is left but steps.
LinearForm joined(Kernel &kernel, LinearForm form);

// Conditions that hold together exactly where `e` does: max(a, b) < c is a < c and b < c.
std::vector<Halide::Expr> conjuncts(const Halide::Expr &e);

// The value of an integer expression of loop variables, and of a linear form, where loops are in these iterations; nothing for
// other expressions.
std::optional<int64_t> value_at(const Halide::Expr &e, const std::map<std::string, int64_t> &iterations);
std::optional<int64_t> value_at(const Kernel &kernel, const LinearForm &form, const std::map<std::string, int64_t> &iterations);

// A linear form as a Halide expression over loop variables (named like the loops).
Halide::Expr to_expr(const Kernel &kernel, const LinearForm &form);

}  // namespace atalla::codegen
