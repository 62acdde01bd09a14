#include "generators/lane_math.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "generators/vocabulary.h"
#include "simulator/within_bf16.h"

namespace atalla::lane_math {

using namespace Halide;
using vocabulary::bf16;

Expr number(double value) { return bf16(static_cast<float>(bfloat16_t(static_cast<float>(within_bf16(value))))); }

std::optional<double> as_number(const Expr &e) {
    const auto *immediate = e.as<Internal::FloatImm>();
    return immediate != nullptr ? std::optional<double>(immediate->value) : std::nullopt;
}

namespace {

// As strict_float() makes them, but without its walk through the operands, which share much.
Expr strict(const Type &type, Internal::Call::IntrinsicOp operation, const Expr &a, const Expr &b) {
    return Internal::Call::make(type, operation, {a, b}, Internal::Call::PureIntrinsic);
}

}  // namespace

Expr add(const Expr &a, const Expr &b) { return strict(a.type(), Internal::Call::strict_add, a, b); }
Expr sub(const Expr &a, const Expr &b) { return strict(a.type(), Internal::Call::strict_sub, a, b); }
Expr mul(const Expr &a, const Expr &b) { return strict(a.type(), Internal::Call::strict_mul, a, b); }
Expr exponential(const Expr &x) { return vocabulary::machine_exp(x); }
Expr less(const Expr &a, const Expr &b) { return strict(Bool(), Internal::Call::strict_lt, a, b); }
Expr equal(const Expr &a, const Expr &b) { return strict(Bool(), Internal::Call::strict_eq, a, b); }
// Halide's != and <= are inversions of these, which also hold for NaN; an inverted choice costs nothing.
Expr differs(const Expr &a, const Expr &b) { return !equal(a, b); }
Expr at_least(const Expr &a, const Expr &b) { return less(b, a) || equal(a, b); }

Expr choose(const Expr &condition, const Expr &on, const Expr &off) {
    if (const auto *inverted = condition.as<Internal::Not>()) return select(inverted->a, off, on);
    if (const auto *either = condition.as<Internal::Or>()) return select(either->a, on, select(either->b, on, off));
    return select(condition, on, off);
}

Expr as_value(const Expr &e) { return e.type().is_bool() ? choose(e, number(1), number(0)) : e; }
Expr as_condition(const Expr &e) { return e.type().is_bool() ? e : differs(e, number(0)); }

Expr negate(const Expr &x) { return mul(x, number(-1)); }
// 0 - x, also for both zeros and NaN.
Expr magnitude(const Expr &x) { return choose(less(number(0), x), x, sub(number(0), x)); }
Expr at_least_number(const Expr &x, double least) {
    return std::isnan(least) ? add(x, number(least)) : choose(less(x, number(least)), number(least), x);
}
Expr at_most_number(const Expr &x, double most) {
    return std::isnan(most) ? add(x, number(most)) : choose(less(number(most), x), number(most), x);
}
// PyTorch takes the second of equal values, which shows in the sign of a zero.
Expr larger(const Expr &a, const Expr &b) { return choose(differs(a, a), a, choose(less(b, a), a, b)); }
Expr smaller(const Expr &a, const Expr &b) { return choose(differs(a, a), a, choose(less(a, b), a, b)); }

// ---- rounded functions

namespace {

Expr two_to(int exponent) { return number(std::ldexp(1.0f, exponent)); }
Expr one() { return number(1); }

// The first four bits of a significand, and the rest: products of such halves are exact in bf16.
struct Halves {
    Expr high, low;
};
// Of a number in [1, 4) by adding a number so large that eighths are its last bits.
Halves halves_near_one(const Expr &m) {
    const Expr high = sub(add(m, number(24)), number(24));
    return {high, sub(m, high)};
}
Expr polynomial(const Expr &x, std::initializer_list<double> ascending) {
    Expr sum;
    for (const double *c = ascending.end(); c-- != ascending.begin();)
        sum = sum.defined() ? add(mul(x, sum), number(*c)) : number(*c);
    return sum;
}

// 1 / m, m in [1, 2]: a seed of four bits, whose residual is then exact, and two terms of the series.
Expr reciprocal_near_one(const Expr &m) {
    const Halves h = halves_near_one(m);
    const Expr seed = sub(add(mul(add(mul(m, number(0.3235f)), number(-1.4556f)), m), number(12 + 2.1282f)), number(12));
    const Expr residual = sub(sub(one(), mul(h.high, seed)), mul(h.low, seed));
    return add(seed, mul(seed, add(mul(residual, residual), residual)));
}

// 1 / sqrt(m), m in [1, 4), the same way.
Expr reciprocal_root_near_one(const Expr &m) {
    const Halves h = halves_near_one(m);
    const Expr cubic = mul(add(mul(add(mul(m, number(-0.01904296875f)), number(0.1943359375f)), m), number(-0.73828125f)), m);
    const Expr seed = sub(add(cubic, number(12 + 1.5546875f)), number(12)), square = mul(seed, seed);
    const Expr high = sub(add(square, number(12)), number(12)), low = sub(square, high);
    Expr residual = sub(one(), mul(h.high, high));
    residual = sub(residual, mul(h.high, low));
    residual = sub(residual, mul(h.low, high));
    residual = sub(residual, mul(h.low, low));
    return add(seed, mul(seed, add(mul(mul(residual, residual), number(0.375f)), mul(residual, number(0.5f)))));
}

// A positive number as m times powers of two, m in [1, 2^least). Infinity stays, zero becomes what stays zero.
struct Normalised {
    struct Step {
        Expr taken;    // a condition
        int exponent;  // of the factor that was taken out
        Expr again;  // the condition by the number itself, for what comes late: there are few masks, and a row would keep them
                     // until then
    };
    Expr m;
    std::vector<Step> steps;

    void take(const Expr &taken, int exponent, const Expr &again = {}) {
        m = choose(taken, mul(m, two_to(-exponent)), m);
        steps.push_back({taken, exponent, again});
    }
    // 2^exponent, where it is in the number.
    void take_down(int exponent) { take(!less(m, two_to(exponent)), exponent); }
};
Normalised normalised(const Expr &x, int least) {
    Normalised result{x, {}};
    result.take_down(64);
    int taken = 0;
    for (int exponent : {64, 64, 8}) {
        result.take(less(result.m, one()), -exponent, less(x, two_to(-taken)));
        taken += exponent;
    }
    for (int exponent = 32; exponent >= least; exponent /= 2) result.take_down(exponent);
    return result;
}

// value * 2^(sum of the steps' exponents * numerator / denominator); the steps that made small numbers large come last.
Expr scaled(Expr value, const Normalised &n, int numerator, int denominator) {
    Expr factor = one();
    for (const Normalised::Step &step : n.steps)
        if (step.exponent > 0)
            factor = choose(step.taken, mul(factor, two_to(step.exponent * numerator / denominator)), factor);
    value = mul(value, factor);
    for (const Normalised::Step &step : n.steps)
        if (step.exponent < 0) value = choose(step.again, mul(value, two_to(step.exponent * numerator / denominator)), value);
    return value;
}

Expr infinity() { return number(INFINITY); }
Expr zero() { return number(0); }
Expr not_a_number() { return number(NAN); }

// 1 / (1 + e), e in [0, 1]: about a point on the way, so that the error of all sums but the last one is made smaller. Exact at
// both ends.
Expr logistic(const Expr &e) { return polynomial(sub(e, number(0.375f)), {0.7265625, -0.5390625, 0.416015625, -0.216796875}); }

// -|x|, given whether x is positive.
Expr minus_magnitude(const Expr &x, const Expr &positive) { return choose(positive, negate(x), x); }

Expr with_sign_of(const Expr &x, const Expr &value) { return choose(less(x, zero()), negate(value), value); }

// min(max(x + 3, 0), 6) / 6, with the rounding error of the sum.
Expr sixth_of_clamped(const Expr &x) {
    const float sixth = static_cast<float>(bfloat16_t(1.0f / 6)), rest = 1.0f / 6 - sixth;
    const Expr sum = add(x, number(3)), low = sub(x, sub(sum, number(3)));
    const Expr positive = at_least_number(sum, 0);
    const Expr value = add(mul(positive, number(sixth)), add(mul(positive, number(rest)), mul(low, number(sixth))));
    return choose(less(number(3), x), one(), choose(less(x, number(-3)), zero(), value));
}

}  // namespace

// 1/-0 is +inf here: no lane operation tells the zeros apart (docs/numerics.md).
Expr reciprocal(const Expr &x) {
    const Expr a = magnitude(x);
    const Normalised n = normalised(a, 1);
    const Expr inverse = scaled(reciprocal_near_one(n.m), n, -1, 1);
    return with_sign_of(x, choose(equal(a, infinity()), zero(), inverse));
}

Expr reciprocal_of_sum(const Expr &x, int64_t most) {
    Normalised n{x, {}};
    int exponent = 1;
    while ((int64_t{1} << (2 * exponent)) <= most) exponent *= 2;
    for (; exponent >= 1; exponent /= 2) n.take_down(exponent);
    return scaled(reciprocal_near_one(n.m), n, -1, 1);
}

namespace {

// Divided by a number: one product, whose factor is rounded. An inverse that is no normal number leaves some of its powers of
// two to a second one.
Expr mul_by_inverse(const Expr &a, double divisor) {
    constexpr int some = 64;
    const double factor = 1 / divisor, size = std::abs(factor);
    if (size == 0 || std::isinf(size) || (size >= std::numeric_limits<float>::min() && size <= largest_bf16))
        return mul(a, number(factor));
    const int apart = size < 1 ? some : -some;
    return mul(mul(a, number(std::ldexp(factor, apart))), two_to(-apart));
}

}  // namespace

Expr divide(const Expr &a, const Expr &b) {
    if (const std::optional<double> divisor = as_number(b); divisor && !std::isnan(*divisor))
        return mul_by_inverse(a, *divisor);
    const Expr size = magnitude(b);
    const Normalised n = normalised(size, 1);
    // A small dividend is made larger for as long as there are roundings.
    const Expr tiny = less(magnitude(a), two_to(-60));
    Expr quotient = mul(choose(tiny, mul(a, two_to(64)), a), reciprocal_near_one(n.m));
    Expr factor = one();
    for (const Normalised::Step &step : n.steps)
        if (step.exponent > 0) factor = choose(step.taken, mul(factor, two_to(-step.exponent)), factor);
    quotient = mul(quotient, factor);
    bool first = true;
    for (const Normalised::Step &step : n.steps)
        if (step.exponent < 0) {
            quotient = choose(step.again, mul(quotient, two_to(-step.exponent)), quotient);
            if (std::exchange(first, false)) quotient = mul(quotient, choose(tiny, two_to(-64), one()));
        }
    quotient = choose(equal(size, infinity()), mul(a, zero()), quotient);
    quotient = choose(equal(size, zero()), mul(a, infinity()), quotient);
    return with_sign_of(b, quotient);
}

Expr reciprocal_root(const Expr &x) {
    const Normalised n = normalised(x, 2);
    Expr root = scaled(reciprocal_root_near_one(n.m), n, -1, 2);
    root = choose(equal(x, zero()), infinity(), choose(equal(x, infinity()), zero(), root));
    return choose(less(x, zero()), not_a_number(), root);
}

Expr square_root(const Expr &x) {
    const Normalised n = normalised(x, 2);
    Expr root = scaled(mul(n.m, reciprocal_root_near_one(n.m)), n, 1, 2);
    root = choose(equal(x, zero()), x, choose(equal(x, infinity()), x, root));
    return choose(less(x, zero()), not_a_number(), root);
}

Expr logarithm(const Expr &x) {
    const Normalised n = normalised(x, 1);
    Expr k = zero();
    for (const Normalised::Step &step : n.steps) k = choose(step.taken, add(k, number(step.exponent)), k);
    // m in [1/sqrt(2), sqrt(2)].
    const Expr large = less(number(1.4140625f), n.m);
    const Expr m = choose(large, mul(n.m, number(0.5f)), n.m);
    k = choose(large, add(k, one()), k);
    const Expr t = sub(m, one());
    const Expr of_m =
        add(t, mul(mul(t, t), polynomial(t, {-0.5, 0.333984375, -0.2490234375, 0.203125, -0.185546875, 0.1259765625})));
    const float high = static_cast<float>(bfloat16_t(static_cast<float>(M_LN2))), low = static_cast<float>(M_LN2 - high);
    const Expr sum = add(mul(k, number(high)), add(mul(k, number(low)), of_m));
    return choose(less(x, zero()), not_a_number(),
                  choose(equal(x, zero()), number(-INFINITY), choose(equal(x, infinity()), x, sum)));
}

Expr sigmoid(const Expr &x) {
    const Expr positive = less(zero(), x), e = exponential(minus_magnitude(x, positive)), inverse = logistic(e);
    return choose(positive, inverse, mul(e, inverse));
}

// From 1 on 1 - 2 e / (1 + e), e = exp(-2 |x|), whose quotient is a line in so small an e.
Expr hyperbolic_tangent(const Expr &x) {
    const Expr a = magnitude(x), e = exponential(mul(a, number(-2)));
    const Expr beyond = with_sign_of(x, add(one(), mul(e, polynomial(e, {-1.984375, 1.65625}))));
    const Expr square = mul(x, x),
               near = add(x, mul(x, mul(square, polynomial(square, {-0.33203125, 0.1220703125, -0.0289306640625}))));
    return choose(equal(x, zero()), x, choose(less(a, one()), near, beyond));
}

Expr error_function(const Expr &x) {
    const float high = static_cast<float>(bfloat16_t(static_cast<float>(M_2_SQRTPI))),
                low = static_cast<float>(M_2_SQRTPI - high);
    const Expr a = magnitude(x), square = mul(x, x);
    const Expr near =
        add(mul(x, number(high)), mul(x, add(mul(square, polynomial(square, {-0.376953125, 0.11279296875, -0.02685546875,
                                                                             0.005035400390625, -0.000606536865234375})),
                                             number(low))));
    const Expr from_middle = sub(at_most_number(a, 2.5), number(1.75f));
    const Expr beyond =
        with_sign_of(x, sub(one(), polynomial(from_middle, {0.0133056640625, -0.052734375, 0.09228515625, -0.091796875,
                                                            0.04833984375, -0.00130462646484375, -0.00946044921875})));
    return choose(less(a, one()), near, beyond);
}

// Below zero e comes as a product of two exponentials, since one alone would be denormal.
Expr silu(const Expr &x) {
    const Expr positive = less(zero(), x), n = minus_magnitude(x, positive), half = exponential(mul(n, number(0.5f)));
    return mul(choose(positive, x, mul(mul(x, half), half)), logistic(exponential(n)));
}

// x tanh(log(1 + exp(x))): x (1 + 2 e) / (1 + 2 e + 2 e^2) above zero, x e (2 + e) / (2 + 2 e + e^2) below, e = exp(-|x|),
// quotients by polynomials about a point on the way. Far below zero e comes as a product, as in silu.
Expr mish(const Expr &x) {
    const Expr positive = less(zero(), x), n = minus_magnitude(x, positive), e = exponential(n),
               half = exponential(mul(n, number(0.5f))), t = sub(e, number(0.375f));
    const Expr above = polynomial(t, {0.86328125, -0.5078125, -0.044921875, 0.62890625, -0.54296875}),
               below = polynomial(t, {0.8203125, -0.43359375, 0.1298828125});
    const Expr size = choose(positive, x, choose(less(x, number(-80)), mul(mul(x, half), half), mul(x, e)));
    return mul(size, choose(positive, above, below));
}

// exp(x) - 1 for x up to 0: a polynomial up to where a half is left of the difference.
Expr exponential_less_one(const Expr &x) {
    const Expr near = add(x, mul(mul(x, x), polynomial(x, {0.5, 0.166015625, 0.041015625, 0.0068359375})));
    return choose(less(x, number(-0.6875f)), sub(exponential(x), one()), near);
}

// max(x, 0) + e (log(1 + e) / e), e = exp(-|x|): the quotient by a polynomial about a point in the middle.
Expr softplus(const Expr &x) {
    const Expr e = exponential(negate(magnitude(x)));
    return add(at_least_number(x, 0),
               mul(e, polynomial(sub(e, number(0.4375f)), {0.828125, -0.306640625, 0.15625, -0.07080078125})));
}

// max(x, 0) - a Q(a), a = |x|, Q the upper tail of the normal distribution: exp(-a^2/2) in three exponents, of which those with
// the nearest integer are exact, times a sum of three exponentials, within 0.3 % of exp(a^2/2) Q(a) up to 13.5. From 13.5 on
// the product is zero. The numbers are those with the smallest largest error over all inputs; two of the terms share their
// weight.
Expr gelu(const Expr &x) {
    const Expr positive = less(zero(), x), a = at_most_number(choose(positive, x, sub(zero(), x)), 15);
    // Integers are the last bits of the sum.
    const Expr whole = sub(add(a, number(192)), number(192)), rest = sub(whole, a);
    const Expr first = exponential(mul(mul(whole, number(-0.5f)), whole)), second = exponential(mul(whole, rest)),
               third = exponential(mul(mul(rest, number(-0.5f)), rest));
    const auto decay = [&](float rate) { return exponential(mul(a, number(-rate))); };
    const Expr ratio = add(mul(decay(0.06884765625f), number(0.07275390625f)),
                           mul(add(decay(0.427734375f), decay(1.375f)), number(0.2138671875f)));
    const Expr tail = mul(mul(mul(second, third), first), mul(ratio, a));
    // x times 0 has the sign of a zero, and is NaN for an infinity.
    return sub(choose(positive, x, mul(x, zero())), tail);
}

// max(x, 0) - a e / (1 + e), a = |x|, e = exp(-a w(a)), w(a) = c + k a^2. About the nearest integer W, a = W + r, the exponent
// is W w(W) + r (3 w(W) - 2 c) + 3 k W r^2 and a cube that is nearly a line in r. w(W) is g, some quarters, and a rest l, the
// first two differences of which are exact. W g, r g and r (2 g - 3) are exact too (at 8, 9 and 10 thanks to the slope of g),
// and what is left of the exponent, l (W + 3 r) + r (3 - 2 c + 3 k W r), is small. All parts are made negative, as the exponent
// is. From 10.5 on e is zero. The numbers in l and in what is left are those with the smallest largest error over all inputs.
Expr gelu_by_tanh(const Expr &x) {
    const Expr positive = less(zero(), x), a = at_most_number(choose(positive, x, sub(zero(), x)), 10.5);
    const Expr whole = sub(add(a, number(192)), number(192)), rest = sub(a, whole), twice = mul(rest, number(2)),
               square = mul(whole, whole);
    // 1.5 - g, and -g: quarters are the last bits of the sum.
    const Expr grid = add(sub(mul(square, number(-0.07568359375f)), number(47.75f)), number(48)),
               minus_g = sub(grid, number(1.5f));
    const Expr exact = sub(sub(mul(square, number(-0.0625f)), grid), mul(square, number(0.0078125f)));
    const Expr l = sub(sub(exact, mul(square, number(0.00104522705078125f))), number(0.095703125f));
    const Expr left =
        add(mul(l, add(a, twice)), mul(rest, add(mul(mul(whole, rest), number(-0.212890625f)), number(0.1845703125f))));
    const Expr first = mul(exponential(mul(whole, minus_g)), exponential(mul(rest, minus_g)));
    const Expr second = mul(exponential(mul(twice, grid)), exponential(left));
    // The smallest factor comes last: without a, e becomes denormal too early.
    const Expr tail = mul(mul(mul(second, a), logistic(mul(first, second))), first);
    // x times 0 has the sign of a zero, and is NaN for an infinity.
    return sub(choose(positive, x, mul(x, zero())), tail);
}

Expr hard_sigmoid(const Expr &x) { return sixth_of_clamped(x); }
Expr hard_swish(const Expr &x) { return mul(x, sixth_of_clamped(x)); }

}  // namespace atalla::lane_math
