// Integer index expressions of the lowered IR in linear form.
#pragma once

#include <map>
#include <string>

#include <Halide.h>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Values of integer variables (lets, loop variables) by name, and the conversion of expressions over them.
class IndexScope {
public:
    explicit IndexScope(Kernel &kernel) : kernel_(kernel) {}

    void bind(const std::string &name, LinearForm value) { values_[name] = std::move(value); }
    void unbind(const std::string &name) { values_.erase(name); }
    // A boolean let, for the selects that use it.
    void bind_condition(const std::string &name, Halide::Expr condition) { conditions_[name] = std::move(condition); }
    const LinearForm *find(const std::string &name) const;

    // Throws Error for an expression that is not an integer expression of bound variables.
    LinearForm linear(const Halide::Expr &e);
    // The form with a loop's variable at a value.
    LinearForm at(const LinearForm &form, int loop, int64_t value);
    // The variable of a loop as a linear form; interns its atom.
    LinearForm loop_variable(int loop);

private:
    LinearForm binary_non_linear(const LinearForm &a, const LinearForm &b, const Halide::Expr &rebuilt);

    Kernel &kernel_;
    std::map<std::string, LinearForm> values_;
    std::map<std::string, Halide::Expr> conditions_;
    std::map<std::string, int> atoms_;
};

// A linear form as a Halide expression over loop variables (named like the loops).
Halide::Expr to_expr(const Kernel &kernel, const LinearForm &form);

}  // namespace atalla::codegen
