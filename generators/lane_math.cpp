#include "generators/lane_math.h"

#include <cmath>
#include <utility>
#include <vector>

#include "generators/vocabulary.h"

namespace atalla::lane_math {

using namespace Halide;
using vocabulary::bf16;

Expr number(float value) { return bf16(static_cast<float>(bfloat16_t(value))); }

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
Expr at_least_number(const Expr &x, double least) { return choose(less(x, number(static_cast<float>(least))), number(static_cast<float>(least)), x); }
Expr at_most_number(const Expr &x, double most) { return choose(less(number(static_cast<float>(most)), x), number(static_cast<float>(most)), x); }
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
// Of any number that stays finite when it is multiplied by 17 (Veltkamp).
Halves halves(const Expr &a) {
    const Expr t = mul(a, number(17)), high = sub(t, sub(t, a));
    return {high, sub(a, high)};
}

Expr polynomial(const Expr &x, std::initializer_list<double> ascending) {
    Expr sum;
    for (const double *c = ascending.end(); c-- != ascending.begin();) sum = sum.defined() ? add(mul(x, sum), number(static_cast<float>(*c))) : number(static_cast<float>(*c));
    return sum;
}

// 1 / (m + low), m in [1, 2]: a seed of four bits, whose residual is then exact, and two terms of the series.
Expr reciprocal_near_one(const Expr &m, const Expr &low = {}) {
    Halves h = halves_near_one(m);
    if (low.defined()) h.low = add(h.low, low);
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
        Expr taken;     // a condition
        int exponent;   // of the factor that was taken out
        Expr again;     // the condition by the number itself, for what comes late: there are few masks, and a row would keep them until then
    };
    Expr m;
    std::vector<Step> steps;
};
Normalised normalised(const Expr &x, int least) {
    Normalised result;
    Expr a = x;
    const auto step = [&](const Expr &taken, int exponent, const Expr &again = {}) {
        a = choose(taken, mul(a, two_to(-exponent)), a);
        result.steps.push_back({taken, exponent, again});
    };
    const auto down = [&](int exponent) { step(!less(a, two_to(exponent)), exponent); };
    down(64);
    int taken = 0;
    for (int exponent : {64, 64, 8}) {
        step(less(a, one()), -exponent, less(x, two_to(-taken)));
        taken += exponent;
    }
    for (int exponent = 32; exponent >= least; exponent /= 2) down(exponent);
    result.m = a;
    return result;
}

// value * 2^(sum of the steps' exponents * numerator / denominator); the steps that made small numbers large come last.
Expr scaled(Expr value, const Normalised &n, int numerator, int denominator) {
    Expr factor = one();
    for (const Normalised::Step &step : n.steps)
        if (step.exponent > 0) factor = choose(step.taken, mul(factor, two_to(step.exponent * numerator / denominator)), factor);
    value = mul(value, factor);
    for (const Normalised::Step &step : n.steps)
        if (step.exponent < 0) value = choose(step.again, mul(value, two_to(step.exponent * numerator / denominator)), value);
    return value;
}

Expr infinity() { return number(INFINITY); }
Expr zero() { return number(0); }
Expr not_a_number() { return number(NAN); }

// exp(-|x|) and 1 / (1 + exp(-|x|)).
struct Logistic {
    Expr small, inverse;
};
Logistic logistic(const Expr &minus_magnitude) {
    const Expr e = exponential(minus_magnitude), sum = add(e, one());
    return {e, reciprocal_near_one(sum, sub(e, sub(sum, one())))};
}

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

// 1/-0 is +inf here: no lane operation tells the zeros apart.
Expr reciprocal(const Expr &x) {
    const Expr a = magnitude(x);
    const Normalised n = normalised(a, 1);
    const Expr inverse = scaled(reciprocal_near_one(n.m), n, -1, 1);
    return with_sign_of(x, choose(equal(a, infinity()), zero(), inverse));
}

Expr divide(const Expr &a, const Expr &b) {
    // By a number: one product, whose factor is rounded.
    if (const std::optional<double> divisor = as_number(b); divisor && std::isfinite(1 / *divisor)) return mul(a, number(static_cast<float>(1 / *divisor)));
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
    for (const Normalised::Step &step : n.steps) k = choose(step.taken, add(k, number(static_cast<float>(step.exponent))), k);
    // m in [1/sqrt(2), sqrt(2)].
    const Expr large = less(number(1.4140625f), n.m);
    const Expr m = choose(large, mul(n.m, number(0.5f)), n.m);
    k = choose(large, add(k, one()), k);
    const Expr t = sub(m, one());
    const Expr of_m = add(t, mul(mul(t, t), polynomial(t, {-0.5, 0.333984375, -0.2490234375, 0.203125, -0.185546875, 0.1259765625})));
    const float high = static_cast<float>(bfloat16_t(static_cast<float>(M_LN2))), low = static_cast<float>(M_LN2 - high);
    const Expr sum = add(mul(k, number(high)), add(mul(k, number(low)), of_m));
    return choose(less(x, zero()), not_a_number(), choose(equal(x, zero()), number(-INFINITY), choose(equal(x, infinity()), x, sum)));
}

Expr sigmoid(const Expr &x) {
    const Logistic l = logistic(negate(magnitude(x)));
    return choose(less(x, zero()), mul(l.small, l.inverse), l.inverse);
}

Expr hyperbolic_tangent(const Expr &x) {
    const Expr a = magnitude(x);
    const Logistic l = logistic(mul(a, number(-2)));
    const Expr beyond = with_sign_of(x, sub(one(), mul(add(l.small, l.small), l.inverse)));
    const Expr square = mul(x, x), near = add(x, mul(x, mul(square, polynomial(square, {-0.333984375, 0.1328125, -0.052734375, 0.0181884765625, -0.0037078857421875}))));
    return choose(equal(x, zero()), x, choose(less(a, one()), near, beyond));
}

Expr error_function(const Expr &x) {
    const float high = static_cast<float>(bfloat16_t(static_cast<float>(M_2_SQRTPI))), low = static_cast<float>(M_2_SQRTPI - high);
    const Expr a = magnitude(x), square = mul(x, x);
    const Expr near = add(mul(x, number(high)), mul(x, add(mul(square, polynomial(square, {-0.376953125, 0.11279296875, -0.02685546875, 0.005035400390625, -0.000606536865234375})), number(low))));
    const Expr from_middle = sub(at_most_number(a, 2.5), number(1.75f));
    const Expr beyond = with_sign_of(x, sub(one(), polynomial(from_middle, {0.0133056640625, -0.052734375, 0.09228515625, -0.091796875, 0.04833984375, -0.00130462646484375, -0.00946044921875})));
    return choose(less(a, one()), near, beyond);
}

// The smaller half is a product of two exponentials where one alone would be denormal.
Expr silu(const Expr &x) {
    const Expr a = magnitude(x), half = exponential(mul(a, number(-0.5f)));
    const Logistic l = logistic(negate(a));
    const Expr small = choose(less(number(80), a), mul(mul(x, half), half), mul(x, l.small));
    return choose(less(x, zero()), mul(small, l.inverse), mul(x, l.inverse));
}

// max(x, 0) - a Q(a), a = |x|, Q the upper tail of the normal distribution: exp(-a^2/2) in three exponents, of which those with the
// nearest integer are exact, times a sum of three exponentials, within 0.3 % of exp(a^2/2) Q(a) up to 13.5. From 13.5 on the
// product is zero. The numbers are those with the smallest largest error over all inputs; two of the terms share their weight.
Expr gelu(const Expr &x) {
    const Expr positive = less(zero(), x), a = at_most_number(choose(positive, x, sub(zero(), x)), 15);
    // Integers are the last bits of the sum.
    const Expr whole = sub(add(a, number(192)), number(192)), rest = sub(whole, a);
    const Expr first = exponential(mul(mul(whole, number(-0.5f)), whole)), second = exponential(mul(whole, rest)), third = exponential(mul(mul(rest, number(-0.5f)), rest));
    const auto decay = [&](float rate) { return exponential(mul(a, number(-rate))); };
    const Expr ratio = add(mul(decay(0.06884765625f), number(0.07275390625f)), mul(add(decay(0.427734375f), decay(1.375f)), number(0.2138671875f)));
    const Expr tail = mul(mul(mul(second, third), first), mul(ratio, a));
    // x times 0 has the sign of a zero, and is NaN for an infinity.
    return sub(choose(positive, x, mul(x, zero())), tail);
}

// x / (1 + exp(-2u)), 2u = x w, w = c (1 + 0.044715 x^2): w in two parts, so that the exponents are exact to the last bit.
Expr gelu_by_tanh(const Expr &x) {
    const double c = 2 * std::sqrt(2 / M_PI), cubic = c * 0.044715;
    const auto rounded = [](double value) { return static_cast<double>(static_cast<float>(bfloat16_t(static_cast<float>(value)))); };
    const auto part = [](double value) { return number(static_cast<float>(value)); };
    const double c_high = rounded(c), cubic_high = rounded(cubic);
    const int unit = static_cast<int>(std::ceil(4 - std::log2(cubic_high)));
    const double cubic_first = std::ldexp(std::round(std::ldexp(cubic_high, unit)), -unit), cubic_second = cubic_high - cubic_first;
    const Expr a = at_most_number(magnitude(x), 10.5);
    const Halves h = halves(a);
    const Expr square = mul(a, a);
    const Expr square_low = add(add(sub(mul(h.high, h.high), square), mul(mul(h.high, h.low), number(2))), mul(h.low, h.low));
    const Expr product = mul(square, part(cubic_high));
    const Halves s = halves(square);
    Expr product_low = add(add(add(sub(mul(s.high, part(cubic_first)), product), mul(s.high, part(cubic_second))), mul(s.low, part(cubic_first))),
                           mul(s.low, part(cubic_second)));
    product_low = add(product_low, add(mul(square, part(cubic - cubic_high)), mul(square_low, part(cubic_high))));
    const Expr w = add(part(c_high), product);
    Expr w_low = choose(less(product, part(c_high)), sub(product, sub(w, part(c_high))), sub(part(c_high), sub(w, product)));
    w_low = add(w_low, add(product_low, part(c - c_high)));
    const Halves halves_of_w = halves(w);
    const Expr second = mul(h.high, halves_of_w.low), third = mul(h.low, halves_of_w.high), sum = add(second, third);
    const Expr back = sub(sum, second), lost = add(sub(second, sub(sum, back)), sub(third, back));
    const Expr rest = add(add(mul(h.low, halves_of_w.low), mul(a, w_low)), lost);
    const Expr e1 = exponential(negate(mul(h.high, halves_of_w.high))), e2 = exponential(negate(sum)), e3 = exponential(negate(rest));
    const Expr e = mul(mul(e1, e2), e3), whole = add(e, one());
    const Expr inverse = reciprocal_near_one(whole, sub(e, sub(whole, one())));
    const Expr value = choose(less(x, zero()), mul(mul(mul(mul(x, e1), inverse), e2), e3), choose(less(number(10.5f), x), x, mul(x, inverse)));
    return choose(less(x, number(-11)), mul(x, zero()), value);
}

Expr hard_sigmoid(const Expr &x) { return sixth_of_clamped(x); }
Expr hard_swish(const Expr &x) { return mul(x, sixth_of_clamped(x)); }

}  // namespace atalla::lane_math
