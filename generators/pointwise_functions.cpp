#include "generators/pointwise_functions.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "generators/lane_math.h"
#include "isa/error.h"
#include "simulator/within_bf16.h"

namespace atalla {

using namespace Halide;
using namespace lane_math;

namespace {

double keyword(const Keywords &keywords, const char *name) { return std::strtod(keywords.at(name).c_str(), nullptr); }
Expr constant(const Keywords &keywords, const char *name) { return number(keyword(keywords, name)); }
double as_bf16(double value) {
    return static_cast<double>(static_cast<float>(bfloat16_t(static_cast<float>(within_bf16(value)))));
}

using Lanes = const std::vector<Expr> &;
using Words = const Keywords &;
using Reals = const std::vector<double> &;

double relu(double x) { return x < 0 ? 0 : x; }
double clamped(double x, double low, double high) {
    return std::isnan(x) || std::isnan(low) || std::isnan(high) ? NAN : std::min(std::max(x, low), high);
}
double normal_cdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
// x tanh(log(1 + exp(x))) with the exponential that does not overflow.
double mish(double x) {
    const double e = std::exp(-std::abs(x));
    return x > 0 ? x * (1 + 2 * e) / (1 + 2 * e + 2 * e * e) : x * e * (2 + e) / (2 + 2 * e + e * e);
}
double gelu_tanh(double x) {
    // 1 + tanh(u) as it stays exact for large negative u.
    const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    return x / (1 + std::exp(-2 * u));
}

// x to a power that a few multiplications, roots and reciprocals make.
Expr power(const Expr &x, double exponent) {
    if (exponent == 0) return number(1);
    if (exponent == -0.5) return reciprocal_root(x);
    if (exponent < 0) return power(reciprocal(x), -exponent);
    if (exponent == 0.5) return square_root(x);
    Expr result, factor = x;
    for (auto rest = static_cast<int64_t>(exponent); rest > 0; rest /= 2) {
        if (rest % 2 == 1) result = result.defined() ? mul(result, factor) : factor;
        if (rest > 1) factor = mul(factor, factor);
    }
    return result;
}

// To Halide both zeros are one constant, so that a condition's 0 would take the place of a -0: that one is a product.
Expr with_own_zero(const Expr &x) {
    const std::optional<double> value = as_number(x);
    return value && *value == 0 && std::signbit(*value) ? mul(number(0), number(-1)) : x;
}

// log(1 + exp(x)), or x above the threshold, from where on a large one leaves nothing of the difference in bf16.
Expr softplus_up_to(const Expr &x, double threshold) {
    constexpr double no_difference = 8;
    return threshold >= no_difference ? softplus(x) : choose(less(number(threshold), x), x, softplus(x));
}

bool is_simple_power(double exponent) {
    return std::abs(exponent) == 0.5 || (std::abs(exponent) <= 4 && exponent == std::trunc(exponent));
}

}  // namespace

const std::vector<PointwiseFunction> &pointwise_functions() {
    // clang-format off
    static const std::vector<PointwiseFunction> table = {
        // name, operands, schemas, formula, keywords, machine, exact, condition
        {"add", 2, {"add.Tensor", "add.Scalar"}, "x + alpha y", {{"alpha", "1"}},
         [](Lanes v, Words k) { return add(v[0], keyword(k, "alpha") == 1 ? v[1] : mul(v[1], constant(k, "alpha"))); },
         [](Reals v, Words k) { return v[0] + as_bf16(keyword(k, "alpha")) * v[1]; }},
        {"sub", 2, {"sub.Tensor", "sub.Scalar"}, "x - alpha y", {{"alpha", "1"}},
         [](Lanes v, Words k) { return sub(v[0], keyword(k, "alpha") == 1 ? v[1] : mul(v[1], constant(k, "alpha"))); },
         [](Reals v, Words k) { return v[0] - as_bf16(keyword(k, "alpha")) * v[1]; }},
        {"rsub", 2, {"rsub.Scalar", "rsub.Tensor"}, "y - x", {}, [](Lanes v, Words) { return sub(v[1], v[0]); },
         [](Reals v, Words) { return v[1] - v[0]; }},
        {"mul", 2, {"mul.Tensor", "mul.Scalar"}, "x y", {}, [](Lanes v, Words) { return mul(v[0], v[1]); },
         [](Reals v, Words) { return v[0] * v[1]; }},
        {"div", 2, {"div.Tensor", "div.Scalar"}, "x / y", {}, [](Lanes v, Words) { return divide(v[0], v[1]); },
         [](Reals v, Words) { return v[0] / v[1]; }},
        {"maximum", 2, {"maximum", "max.other"}, "the larger; NaN if one is", {},
         [](Lanes v, Words) { return larger(v[0], v[1]); },
         [](Reals v, Words) { return std::isnan(v[0]) || std::isnan(v[1]) ? NAN : v[0] > v[1] ? v[0] : v[1]; }},
        {"minimum", 2, {"minimum", "min.other"}, "the smaller; NaN if one is", {},
         [](Lanes v, Words) { return smaller(v[0], v[1]); },
         [](Reals v, Words) { return std::isnan(v[0]) || std::isnan(v[1]) ? NAN : v[0] < v[1] ? v[0] : v[1]; }},
        {"pow", 2, {"pow.Tensor_Scalar"}, "x to the power of a number: 0, 1, 2, 3, 4, 0.5 and their negatives", {},
         [](Lanes v, Words) { return power(v[0], *as_number(v[1])); },
         [](Reals v, Words) {
             return v[1] == 0.5 ? std::sqrt(v[0]) : v[1] == -0.5 ? 1 / std::sqrt(v[0]) : std::pow(v[0], v[1]);
         }},
        {"where", 3, {"where.self", "where.ScalarOther", "where.ScalarSelf"},
         "x where the condition holds (is not 0), otherwise y", {},
         [](Lanes v, Words) { return choose(as_condition(v[0]), with_own_zero(v[1]), with_own_zero(v[2])); },
         [](Reals v, Words) { return v[0] != 0 ? v[1] : v[2]; }},
        {"masked_fill", 3, {"masked_fill.Scalar"}, "the number y where the mask holds (is not 0), otherwise x", {},
         [](Lanes v, Words) { return choose(as_condition(v[1]), with_own_zero(v[2]), v[0]); },
         [](Reals v, Words) { return v[1] != 0 ? v[2] : v[0]; }},

        {"gt", 2, {"gt.Tensor", "gt.Scalar"}, "x > y", {}, [](Lanes v, Words) { return less(v[1], v[0]); },
         [](Reals v, Words) { return double(v[0] > v[1]); }, true},
        {"lt", 2, {"lt.Tensor", "lt.Scalar"}, "x < y", {}, [](Lanes v, Words) { return less(v[0], v[1]); },
         [](Reals v, Words) { return double(v[0] < v[1]); }, true},
        {"ge", 2, {"ge.Tensor", "ge.Scalar"}, "x >= y", {}, [](Lanes v, Words) { return at_least(v[0], v[1]); },
         [](Reals v, Words) { return double(v[0] >= v[1]); }, true},
        {"le", 2, {"le.Tensor", "le.Scalar"}, "x <= y", {}, [](Lanes v, Words) { return at_least(v[1], v[0]); },
         [](Reals v, Words) { return double(v[0] <= v[1]); }, true},
        {"eq", 2, {"eq.Tensor", "eq.Scalar"}, "x = y", {}, [](Lanes v, Words) { return equal(v[0], v[1]); },
         [](Reals v, Words) { return double(v[0] == v[1]); }, true},
        {"ne", 2, {"ne.Tensor", "ne.Scalar"}, "x and y differ", {}, [](Lanes v, Words) { return differs(v[0], v[1]); },
         [](Reals v, Words) { return double(v[0] != v[1]); }, true},

        {"neg", 1, {"neg"}, "-x", {}, [](Lanes v, Words) { return negate(v[0]); }, [](Reals v, Words) { return -v[0]; }},
        {"abs", 1, {"abs"}, "|x|", {}, [](Lanes v, Words) { return magnitude(v[0]); },
         [](Reals v, Words) { return std::abs(v[0]); }},
        {"relu", 1, {"relu"}, "0 below zero, otherwise x; NaN stays", {},
         [](Lanes v, Words) { return at_least_number(v[0], 0); }, [](Reals v, Words) { return relu(v[0]); }},
        {"relu6", 1, {"relu6"}, "x between 0 and 6", {},
         [](Lanes v, Words) { return at_most_number(at_least_number(v[0], 0), 6); },
         [](Reals v, Words) { return clamped(v[0], 0, 6); }},
        {"hardtanh", 1, {"hardtanh"}, "x between min_val and max_val", {{"max_val", "1"}, {"min_val", "-1"}},
         [](Lanes v, Words k) { return at_most_number(at_least_number(v[0], keyword(k, "min_val")), keyword(k, "max_val")); },
         [](Reals v, Words k) { return clamped(v[0], as_bf16(keyword(k, "min_val")), as_bf16(keyword(k, "max_val"))); }},
        {"clamp", 1, {"clamp", "clamp_min", "clamp_max"}, "x between min and max", {{"max", "inf"}, {"min", "-inf"}},
         [](Lanes v, Words k) {
             Expr x = v[0];
             if (keyword(k, "min") != -INFINITY) x = at_least_number(x, keyword(k, "min"));
             return keyword(k, "max") != INFINITY ? at_most_number(x, keyword(k, "max")) : x;
         },
         [](Reals v, Words k) { return clamped(v[0], as_bf16(keyword(k, "min")), as_bf16(keyword(k, "max"))); }},
        {"leaky_relu", 1, {"leaky_relu"}, "x above zero, otherwise x negative_slope", {{"negative_slope", "0.01"}},
         [](Lanes v, Words k) { return choose(less(number(0), v[0]), v[0], mul(v[0], constant(k, "negative_slope"))); },
         [](Reals v, Words k) { return v[0] > 0 ? v[0] : v[0] * as_bf16(keyword(k, "negative_slope")); }},
        {"elu", 1, {"elu"}, "x from zero on, otherwise alpha (exp(x input_scale) - 1), each times scale",
         {{"alpha", "1"}, {"input_scale", "1"}, {"scale", "1"}},
         [](Lanes v, Words k) {
             const auto times = [&](const Expr &x, const char *word) {
                 return keyword(k, word) == 1 ? x : mul(x, constant(k, word));
             };
             const Expr below = times(times(exponential_less_one(times(v[0], "input_scale")), "alpha"), "scale");
             return choose(less(v[0], number(0)), below, times(v[0], "scale"));
         },
         [](Reals v, Words k) {
             const auto word = [&](const char *name) { return as_bf16(keyword(k, name)); };
             return word("scale") * (v[0] < 0 ? word("alpha") * std::expm1(v[0] * word("input_scale")) : v[0]);
         }},
        {"exp", 1, {"exp"}, "the machine's own", {}, [](Lanes v, Words) { return exponential(v[0]); },
         [](Reals v, Words) { return std::exp(v[0]); }},
        {"log", 1, {"log"}, "k log 2 + log m", {}, [](Lanes v, Words) { return logarithm(v[0]); },
         [](Reals v, Words) { return std::log(v[0]); }},
        {"sqrt", 1, {"sqrt"}, "x rsqrt(x) with a correction", {}, [](Lanes v, Words) { return square_root(v[0]); },
         [](Reals v, Words) { return std::sqrt(v[0]); }},
        {"rsqrt", 1, {"rsqrt"}, "Newton steps on the mantissa", {}, [](Lanes v, Words) { return reciprocal_root(v[0]); },
         [](Reals v, Words) { return 1 / std::sqrt(v[0]); }},
        {"reciprocal", 1, {"reciprocal"}, "1 / x, by a residual that is exact", {},
         [](Lanes v, Words) { return reciprocal(v[0]); }, [](Reals v, Words) { return 1 / v[0]; }},
        {"sigmoid", 1, {"sigmoid"}, "1 / (1 + exp(-x))", {}, [](Lanes v, Words) { return sigmoid(v[0]); },
         [](Reals v, Words) { return 1 / (1 + std::exp(-v[0])); }},
        {"tanh", 1, {"tanh"}, "a polynomial up to 1, then 1 - 2 / (1 + exp(2 x))", {},
         [](Lanes v, Words) { return hyperbolic_tangent(v[0]); }, [](Reals v, Words) { return std::tanh(v[0]); }},
        {"erf", 1, {"erf"}, "a polynomial up to 1, then one for 1 - erf", {},
         [](Lanes v, Words) { return error_function(v[0]); }, [](Reals v, Words) { return std::erf(v[0]); }},
        {"silu", 1, {"silu"}, "x sigmoid(x)", {}, [](Lanes v, Words) { return silu(v[0]); },
         [](Reals v, Words) { return v[0] / (1 + std::exp(-v[0])); }},
        {"mish", 1, {"mish"}, "x tanh(softplus(x))", {}, [](Lanes v, Words) { return mish(v[0]); },
         [](Reals v, Words) { return mish(v[0]); }},
        {"softplus", 1, {"softplus"}, "log(1 + exp(x)), x above the threshold; beta = 1", {{"beta", "1"}, {"threshold", "20"}},
         [](Lanes v, Words k) { return softplus_up_to(v[0], keyword(k, "threshold")); },
         [](Reals v, Words k) {
             const double x = v[0];
             return x > as_bf16(keyword(k, "threshold")) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
         }},
        {"gelu", 1, {"gelu"}, "x times the normal distribution; approximate=tanh: its approximation by tanh",
         {{"approximate", "none"}},
         [](Lanes v, Words k) { return k.at("approximate") == "tanh" ? gelu_by_tanh(v[0]) : gelu(v[0]); },
         [](Reals v, Words k) { return k.at("approximate") == "tanh" ? gelu_tanh(v[0]) : v[0] * normal_cdf(v[0]); }},
        {"hardsigmoid", 1, {"hardsigmoid"}, "x + 3 between 0 and 6, over 6", {},
         [](Lanes v, Words) { return hard_sigmoid(v[0]); },
         [](Reals v, Words) { return clamped(v[0] + 3, 0, 6) / 6; }},
        {"hardswish", 1, {"hardswish"}, "x hardsigmoid(x)", {}, [](Lanes v, Words) { return hard_swish(v[0]); },
         [](Reals v, Words) { return v[0] * clamped(v[0] + 3, 0, 6) / 6; }},
    };
    // clang-format on
    return table;
}

const PointwiseFunction *find_pointwise_function(std::string_view name) {
    for (const PointwiseFunction &one : pointwise_functions())
        if (one.name == name) return &one;
    return nullptr;
}

void check_pointwise(ExpressionNode &node) {
    for (ExpressionNode &argument : node.arguments) check_pointwise(argument);
    if (node.kind != ExpressionNode::Call) return;
    const PointwiseFunction *function = find_pointwise_function(node.name);
    if (function == nullptr) {
        std::vector<std::string> names;
        for (const PointwiseFunction &one : pointwise_functions()) names.push_back(one.name);
        const std::string nearest = nearest_name(node.name, names);
        throw Error(
            fmt::format("'{}' is no pointwise operator{} An expression has only these, behind at most a product or a "
                        "convolution, and in front of a product a norm or softmax of an input; other operators are kernels of "
                        "their own (softmax between two products: scaled_dot_product_attention)",
                        node.name, nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest)));
    }
    if (static_cast<int>(node.arguments.size()) != function->operands)
        throw Error(fmt::format("{} takes {} operand{}, not {}", node.name, function->operands,
                                function->operands == 1 ? "" : "s", node.arguments.size()));
    for (const auto &[name, value] : node.keywords) {
        if (!function->keywords.contains(name)) throw Error(fmt::format("{} has no argument '{}'", node.name, name));
        if (name == "approximate") {
            if (value != "none" && value != "tanh")
                throw Error(fmt::format("{}: approximate must be none or tanh, not '{}'", node.name, value));
        } else {
            char *end = nullptr;
            std::strtod(value.c_str(), &end);
            if (value.empty() || *end != '\0')
                throw Error(fmt::format("{}: {} must be a number, not '{}'", node.name, name, value));
        }
    }
    if (node.name == "pow") {
        const ExpressionNode &exponent = node.arguments[1];
        if (exponent.kind != ExpressionNode::Number || !is_simple_power(exponent.number))
            throw Error(
                "pow: the exponent must be one of -4 ... 4, 0.5 and -0.5; others need a logarithm with more digits than bf16 "
                "has");
    }
    if (node.keywords.contains("beta") && keyword(node.keywords, "beta") != 1)
        throw Error(fmt::format("{}: beta must be 1; the factor's rounding would be multiplied by x", node.name));
    // As usual or left out is the same.
    std::erase_if(node.keywords, [&](const auto &word) { return function->keywords.at(word.first) == word.second; });
}

namespace {

Keywords completed(const ExpressionNode &node, const PointwiseFunction &function) {
    Keywords words = function.keywords;
    for (const auto &[name, value] : node.keywords) words[name] = value;
    return words;
}

Expr lower(const ExpressionNode &node, const std::map<std::string, Expr> &inputs) {
    if (node.kind == ExpressionNode::Input) return inputs.at(node.name);
    if (node.kind == ExpressionNode::Number) return number(node.number);
    const PointwiseFunction &function = *find_pointwise_function(node.name);
    std::vector<Expr> operands;
    for (const ExpressionNode &argument : node.arguments) {
        Expr value = lower(argument, inputs);
        // A condition counts as 1 or 0, but for where.
        const bool takes_condition =
            (node.name == "where" && operands.empty()) || (node.name == "masked_fill" && operands.size() == 1);
        operands.push_back(takes_condition ? value : as_value(value));
    }
    return function.machine(operands, completed(node, function));
}

}  // namespace

Expr machine_expression(const ExpressionNode &node, const std::map<std::string, Expr> &inputs) {
    return as_value(lower(node, inputs));
}

double exact_expression(const ExpressionNode &node, const std::map<std::string, double> &inputs, double &peak) {
    double value = 0;
    if (node.kind == ExpressionNode::Input)
        value = inputs.at(node.name);
    else if (node.kind == ExpressionNode::Number)
        return as_bf16(node.number);
    else {
        const PointwiseFunction &function = *find_pointwise_function(node.name);
        std::vector<double> operands;
        for (const ExpressionNode &argument : node.arguments) {
            double inner = 0;
            operands.push_back(exact_expression(argument, inputs, inner));
            // Only what is computed on the way can be wrong; inputs are exact.
            if (argument.kind == ExpressionNode::Call && std::isfinite(inner)) peak = std::max(peak, inner);
        }
        value = function.exact(operands, completed(node, function));
    }
    if (std::isfinite(value)) peak = std::max(peak, std::abs(value));
    return value;
}

namespace {

struct LaneCounter : Internal::IRVisitor {
    std::map<std::set<std::string>, LaneCount> counts;
    std::map<std::string, std::set<std::string>> equal_parts;  // with the inputs of each
    std::set<std::string> inputs;                              // of what is being visited
    using IRVisitor::visit;

    // Visits what an operation reads: the count that the operation belongs to.
    template <class Node>
    LaneCount &counted(const Node *node) {
        std::set<std::string> around = std::exchange(inputs, {});
        IRVisitor::visit(node);
        LaneCount &count = counts[inputs];
        inputs.merge(around);
        return count;
    }
    void visit(const Internal::Variable *v) override {
        const auto part = equal_parts.find(v->name);
        if (part == equal_parts.end())
            inputs.insert(v->name);
        else
            inputs.insert(part->second.begin(), part->second.end());
    }
    void visit(const Internal::Let *let) override {
        std::set<std::string> around = std::exchange(inputs, {});
        let->value.accept(this);
        equal_parts[let->name] = std::exchange(inputs, std::move(around));
        let->body.accept(this);
    }
    void visit(const Internal::Call *call) override {
        LaneCount &count = counted(call);
        if (call->name == "atalla_exp")
            count.work.exps++;
        else if (call->is_intrinsic(Internal::Call::strict_mul) || call->is_intrinsic(Internal::Call::strict_div))
            count.work.muls++;
        else if (call->is_strict_float_intrinsic())
            count.work.adds++;
    }
    void visit(const Internal::Select *select) override {
        const bool outermost = parts_of_choices.erase(select) == 0;
        std::vector<Expr> values;
        if (outermost) find_copied(select, values);
        LaneCount &count = counted(select);
        count.copies++;
        count.least_copies += std::max<int64_t>(0, static_cast<int64_t>(values.size()) - 1);
    }
    // The different values of a choice, and of choices inside it, that are not operations which nothing else reads.
    void find_copied(const Internal::Select *select, std::vector<Expr> &values) {
        for (const Expr &value : {select->true_value, select->false_value}) {
            if (const auto *inner = value.as<Internal::Select>()) {
                parts_of_choices.insert(inner);
                find_copied(inner, values);
            } else if (value.as<Internal::Call>() == nullptr &&
                       std::ranges::none_of(values, [&](const Expr &known) { return Internal::equal(known, value); })) {
                values.push_back(value);
            }
        }
    }
    std::set<const Internal::Select *> parts_of_choices;
};

}  // namespace

std::map<std::set<std::string>, LaneCount> lane_operations_by_inputs(const Expr &e) {
    LaneCounter counter;
    Internal::common_subexpression_elimination(e, true).accept(&counter);
    return std::move(counter.counts);
}

LaneCount count_lane_operations(const Expr &e) {
    LaneCount all;
    for (const auto &[inputs, count] : lane_operations_by_inputs(e)) {
        all.work.adds += count.work.adds;
        all.work.muls += count.work.muls;
        all.work.exps += count.work.exps;
        all.copies += count.copies;
        all.least_copies += count.least_copies;
    }
    return all;
}

}  // namespace atalla
