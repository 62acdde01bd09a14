// Functions of one vector of bf16 lanes in the machine's operations: every result is rounded to bf16, so the order of the
// operations is part of each. docs/pointwise-errors.md states the error of each over all inputs.
#pragma once

#include <optional>

#include <Halide.h>

namespace atalla::lane_math {

using Halide::Expr;

// ---- single operations
Expr number(double value);  // rounded to bf16, finite where it is
std::optional<double> as_number(const Expr &e);
Expr add(const Expr &a, const Expr &b);
Expr sub(const Expr &a, const Expr &b);
Expr mul(const Expr &a, const Expr &b);
Expr exponential(const Expr &x);
Expr less(const Expr &a, const Expr &b);  // a condition; false for NaN, as the next three
Expr at_least(const Expr &a, const Expr &b);
Expr equal(const Expr &a, const Expr &b);
Expr differs(const Expr &a, const Expr &b);  // true for NaN
Expr choose(const Expr &condition, const Expr &on, const Expr &off);
Expr as_value(const Expr &e);      // a condition as 1 or 0
Expr as_condition(const Expr &e);  // a value as: not 0

// ---- exact functions
Expr negate(const Expr &x);  // with the sign of zero
Expr magnitude(const Expr &x);
// NaN stays, and a zero where the bound is a zero; a bound that is NaN gives NaN.
Expr at_least_number(const Expr &x, double least);
Expr at_most_number(const Expr &x, double most);
Expr larger(const Expr &a, const Expr &b);
Expr smaller(const Expr &a, const Expr &b);

// ---- rounded functions
Expr reciprocal(const Expr &x);
Expr reciprocal_of_sum(const Expr &x, int64_t most);  // the same for x in [1, most], and NaN
Expr divide(const Expr &a, const Expr &b);
Expr square_root(const Expr &x);
Expr reciprocal_root(const Expr &x);
Expr logarithm(const Expr &x);
Expr sigmoid(const Expr &x);
Expr hyperbolic_tangent(const Expr &x);
Expr error_function(const Expr &x);
Expr silu(const Expr &x);
Expr mish(const Expr &x);
Expr exponential_less_one(const Expr &x);  // of x up to 0
Expr softplus(const Expr &x);
Expr gelu(const Expr &x);
Expr gelu_by_tanh(const Expr &x);
Expr hard_sigmoid(const Expr &x);
Expr hard_swish(const Expr &x);

}  // namespace atalla::lane_math
