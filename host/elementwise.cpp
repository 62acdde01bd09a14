// Operators of one element at a time, with broadcasting.
#include <cmath>

#include "host/kernels.h"

namespace atalla {

namespace {

using Unary = double (*)(double);
template <class T>
using Binary = T (*)(T, T);

// Whether a call computes with integers: all of its tensors hold them.
bool all_integers(std::initializer_list<const HostTensor *> tensors) {
    for (const HostTensor *tensor : tensors)
        if (is_floating(tensor->dtype) || is_complex(tensor->dtype)) return false;
    return true;
}

void add_unary(HostKernels &kernels, const std::string &name, Unary function) {
    kernels["aten::" + name] = [function](const HostCall &call) {
        std::vector<double> values = values_of<double>(call.tensor("self"), call.result().sizes);
        for (double &value : values) value = function(value);
        return std::vector{tensor_of_values(call.result(), values)};
    };
}

// add_binary(kernels, names, for floats, for integers): self and other.
void add_binary(HostKernels &kernels, std::initializer_list<const char *> names, Binary<double> floats, Binary<int64_t> integers) {
    for (const char *name : names)
        kernels[std::string("aten::") + name] = [=](const HostCall &call) {
            const HostTensor a = call.tensor_of({"self", "input"}), b = call.tensor_of({"other", "exponent"});
            const std::vector<int64_t> &sizes = call.result().sizes;
            if (all_integers({&a, &b}) && !is_floating(call.result().dtype)) {
                std::vector<int64_t> values = values_of<int64_t>(a, sizes);
                const std::vector<int64_t> others = values_of<int64_t>(b, sizes);
                for (size_t i = 0; i < values.size(); i++) values[i] = integers(values[i], others[i]);
                return std::vector{tensor_of_values(call.result(), values)};
            }
            std::vector<double> values = values_of<double>(a, sizes);
            const std::vector<double> others = values_of<double>(b, sizes);
            for (size_t i = 0; i < values.size(); i++) values[i] = floats(values[i], others[i]);
            return std::vector{tensor_of_values(call.result(), values)};
        };
}

// self + alpha * other; reversed for rsub.
template <class T>
HostTensor scaled_sum(const HostCall &call, double sign, bool reversed) {
    const std::vector<int64_t> &sizes = call.result().sizes;
    std::vector<T> a = values_of<T>(call.tensor("self"), sizes), b = values_of<T>(call.tensor("other"), sizes);
    if (reversed) std::swap(a, b);
    const T alpha = static_cast<T>(call.number("alpha", 1) * sign);
    for (size_t i = 0; i < a.size(); i++) a[i] = static_cast<T>(a[i] + alpha * b[i]);
    return tensor_of_values(call.result(), a);
}

void add_sums(HostKernels &kernels) {
    const auto add = [&](const char *name, double sign, bool reversed) {
        kernels[name] = [=](const HostCall &call) {
            const HostTensor a = call.tensor("self"), b = call.tensor("other");
            const bool integers = all_integers({&a, &b}) && !is_floating(call.result().dtype);
            return std::vector{integers ? scaled_sum<int64_t>(call, sign, reversed) : scaled_sum<double>(call, sign, reversed)};
        };
    };
    for (const char *name : {"aten::add.Tensor", "aten::add.Scalar", "aten::add_.Tensor"}) add(name, 1, false);
    for (const char *name : {"aten::sub.Tensor", "aten::sub.Scalar"}) add(name, -1, false);
    for (const char *name : {"aten::rsub.Scalar", "aten::rsub.Tensor"}) add(name, -1, true);
}

template <class T>
T floor_mod(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        if (b == 0) return 0;
        const T r = a % b;
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    } else {
        const T r = std::fmod(a, b);
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
}
template <class T>
T floor_div(T a, T b) {
    if constexpr (std::is_integral_v<T>) return b == 0 ? 0 : (a - floor_mod(a, b)) / b;
    else return std::floor(a / b);
}

int64_t integer_power(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void add_arithmetic(HostKernels &kernels) {
    add_sums(kernels);
    add_binary(kernels, {"mul.Tensor", "mul.Scalar"}, [](double a, double b) { return a * b; }, [](int64_t a, int64_t b) { return a * b; });
    add_binary(kernels, {"div.Tensor", "div.Scalar", "true_divide.Tensor"}, [](double a, double b) { return a / b; }, floor_div<int64_t>);
    add_binary(kernels, {"floor_divide", "floor_divide.Scalar"}, floor_div<double>, floor_div<int64_t>);
    add_binary(kernels, {"remainder.Scalar", "remainder.Tensor"}, floor_mod<double>, floor_mod<int64_t>);
    add_binary(kernels, {"fmod.Scalar", "fmod.Tensor"}, [](double a, double b) { return std::fmod(a, b); }, [](int64_t a, int64_t b) { return b == 0 ? 0 : a % b; });
    add_binary(kernels, {"pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar"}, [](double a, double b) { return std::pow(a, b); }, integer_power);
    const auto larger = [](auto a, auto b) { return a != a ? a : b != b ? b : a > b ? a : b; };
    const auto smaller = [](auto a, auto b) { return a != a ? a : b != b ? b : a < b ? a : b; };
    add_binary(kernels, {"maximum", "max.other"}, larger, larger);
    add_binary(kernels, {"minimum", "min.other"}, smaller, smaller);
    add_binary(kernels, {"atan2"}, [](double a, double b) { return std::atan2(a, b); }, [](int64_t, int64_t) { return int64_t{0}; });
    for (const char *name : {"aten::div.Tensor_mode", "aten::div.Scalar_mode"})
        kernels[name] = [](const HostCall &call) {
            const std::string mode = call.has("rounding_mode") ? call.node().string("rounding_mode") : "";
            const std::vector<int64_t> &sizes = call.result().sizes;
            std::vector<double> a = values_of<double>(call.tensor("self"), sizes);
            const std::vector<double> b = values_of<double>(call.tensor("other"), sizes);
            for (size_t i = 0; i < a.size(); i++) {
                a[i] /= b[i];
                if (mode == "floor") a[i] = std::floor(a[i]);
                if (mode == "trunc") a[i] = std::trunc(a[i]);
            }
            return std::vector{tensor_of_values(call.result(), a)};
        };
}

void add_functions(HostKernels &kernels) {
    const std::pair<const char *, Unary> functions[] = {
        {"neg", [](double x) { return -x; }}, {"abs", [](double x) { return std::abs(x); }},
        {"exp", [](double x) { return std::exp(x); }}, {"exp2", [](double x) { return std::exp2(x); }},
        {"expm1", [](double x) { return std::expm1(x); }}, {"log", [](double x) { return std::log(x); }},
        {"log2", [](double x) { return std::log2(x); }}, {"log10", [](double x) { return std::log10(x); }},
        {"log1p", [](double x) { return std::log1p(x); }}, {"sqrt", [](double x) { return std::sqrt(x); }},
        {"rsqrt", [](double x) { return 1 / std::sqrt(x); }}, {"reciprocal", [](double x) { return 1 / x; }},
        {"sin", [](double x) { return std::sin(x); }}, {"cos", [](double x) { return std::cos(x); }},
        {"tan", [](double x) { return std::tan(x); }}, {"tanh", [](double x) { return std::tanh(x); }},
        {"atan", [](double x) { return std::atan(x); }}, {"erf", [](double x) { return std::erf(x); }},
        {"sigmoid", sigmoid}, {"silu", [](double x) { return x * sigmoid(x); }},
        {"relu", [](double x) { return x < 0 ? 0 : x; }}, {"relu_", [](double x) { return x < 0 ? 0 : x; }},
        {"relu6", [](double x) { return x < 0 ? 0 : x > 6 ? 6 : x; }},
        {"hardsigmoid", [](double x) { return std::isnan(x) ? x : std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
        {"hardswish", [](double x) { return std::isnan(x) ? x : x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
        {"mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
        {"floor", [](double x) { return std::floor(x); }}, {"ceil", [](double x) { return std::ceil(x); }},
        {"round", [](double x) { return std::nearbyint(x); }}, {"trunc", [](double x) { return std::trunc(x); }},
        {"sign", [](double x) { return static_cast<double>((x > 0) - (x < 0)); }}, {"square", [](double x) { return x * x; }},
        {"logical_not", [](double x) { return static_cast<double>(x == 0); }}, {"isnan", [](double x) { return static_cast<double>(std::isnan(x)); }},
        {"isinf", [](double x) { return static_cast<double>(std::isinf(x)); }},
        {"log_sigmoid", [](double x) { return -std::log1p(std::exp(-x)); }},
    };
    for (const auto &[name, function] : functions) add_unary(kernels, name, function);
    // Unary functions with parameters.
    const auto add = [&](const char *name, auto make) {
        kernels[std::string("aten::") + name] = [make](const HostCall &call) {
            std::vector<double> values = values_of<double>(call.tensor("self"), call.result().sizes);
            const auto function = make(call);
            for (double &value : values) value = function(value);
            return std::vector{tensor_of_values(call.result(), values)};
        };
    };
    add("gelu", [](const HostCall &call) {
        const bool by_tanh = call.has("approximate") && call.node().string("approximate") == "tanh";
        return [by_tanh](double x) {
            return by_tanh ? 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) : 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
        };
    });
    add("leaky_relu", [](const HostCall &call) { return [slope = call.number("negative_slope", 0.01)](double x) { return x < 0 ? slope * x : x; }; });
    add("elu", [](const HostCall &call) {
        return [alpha = call.number("alpha", 1), scale = call.number("scale", 1), inside = call.number("input_scale", 1)](double x) {
            return scale * (x > 0 ? x : alpha * std::expm1(inside * x));
        };
    });
    add("softplus", [](const HostCall &call) {
        return [beta = call.number("beta", 1), threshold = call.number("threshold", 20)](double x) {
            return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
        };
    });
    const auto clamp_between = [](const char *low, const char *high, double lowest, double highest) {
        return [=](const HostCall &call) {
            return [a = call.number(low, lowest), b = call.number(high, highest)](double x) { return std::isnan(x) ? x : std::min(std::max(x, a), b); };
        };
    };
    add("clamp", clamp_between("min", "max", -INFINITY, INFINITY));
    add("clamp_min", clamp_between("min", "", -INFINITY, INFINITY));
    add("clamp_max", clamp_between("", "max", -INFINITY, INFINITY));
    add("hardtanh", clamp_between("min_val", "max_val", -1, 1));
    kernels["aten::clamp.Tensor"] = [](const HostCall &call) {
        const std::vector<int64_t> &sizes = call.result().sizes;
        std::vector<double> values = values_of<double>(call.tensor("self"), sizes);
        const std::optional<HostTensor> low = call.optional_tensor("min"), high = call.optional_tensor("max");
        if (low) {
            const std::vector<double> bound = values_of<double>(*low, sizes);
            for (size_t i = 0; i < values.size(); i++) values[i] = values[i] < bound[i] ? bound[i] : values[i];
        }
        if (high) {
            const std::vector<double> bound = values_of<double>(*high, sizes);
            for (size_t i = 0; i < values.size(); i++) values[i] = values[i] > bound[i] ? bound[i] : values[i];
        }
        return std::vector{tensor_of_values(call.result(), values)};
    };
}

void add_logic(HostKernels &kernels) {
    const auto compare = [&](const std::string &name, Binary<double> floats, Binary<int64_t> integers) {
        const std::string tensor = name + ".Tensor", scalar = name + ".Scalar";
        add_binary(kernels, {tensor.c_str(), scalar.c_str()}, floats, integers);
    };
    compare("eq", [](double a, double b) -> double { return a == b; }, [](int64_t a, int64_t b) -> int64_t { return a == b; });
    compare("ne", [](double a, double b) -> double { return a != b; }, [](int64_t a, int64_t b) -> int64_t { return a != b; });
    compare("lt", [](double a, double b) -> double { return a < b; }, [](int64_t a, int64_t b) -> int64_t { return a < b; });
    compare("le", [](double a, double b) -> double { return a <= b; }, [](int64_t a, int64_t b) -> int64_t { return a <= b; });
    compare("gt", [](double a, double b) -> double { return a > b; }, [](int64_t a, int64_t b) -> int64_t { return a > b; });
    compare("ge", [](double a, double b) -> double { return a >= b; }, [](int64_t a, int64_t b) -> int64_t { return a >= b; });
    const Binary<double> none = [](double, double) { return 0.0; };   // bits are of integers only
    add_binary(kernels, {"__and__.Tensor", "__and__.Scalar", "bitwise_and.Tensor", "bitwise_and.Scalar"}, none, [](int64_t a, int64_t b) { return a & b; });
    add_binary(kernels, {"__or__.Tensor", "__or__.Scalar", "bitwise_or.Tensor", "bitwise_or.Scalar"}, none, [](int64_t a, int64_t b) { return a | b; });
    add_binary(kernels, {"__xor__.Tensor", "__xor__.Scalar", "bitwise_xor.Tensor", "bitwise_xor.Scalar"}, none, [](int64_t a, int64_t b) { return a ^ b; });
    add_binary(kernels, {"logical_and"}, [](double a, double b) -> double { return a != 0 && b != 0; }, [](int64_t a, int64_t b) -> int64_t { return a != 0 && b != 0; });
    add_binary(kernels, {"logical_or"}, [](double a, double b) -> double { return a != 0 || b != 0; }, [](int64_t a, int64_t b) -> int64_t { return a != 0 || b != 0; });
    kernels["aten::bitwise_not"] = [](const HostCall &call) {
        const HostTensor self = call.tensor("self");
        std::vector<int64_t> values = values_of<int64_t>(self);
        for (int64_t &value : values) value = self.dtype == DType::Bool ? value == 0 : ~value;
        return std::vector{tensor_of_values(call.result(), values)};
    };
}

template <class T>
HostTensor choose(const HostCall &call, const HostTensor &condition, const HostTensor &yes, const HostTensor &no) {
    const std::vector<int64_t> &sizes = call.result().sizes;
    const std::vector<int64_t> where = values_of<int64_t>(condition, sizes);
    std::vector<T> a = values_of<T>(yes, sizes);
    const std::vector<T> b = values_of<T>(no, sizes);
    for (size_t i = 0; i < a.size(); i++)
        if (where[i] == 0) a[i] = b[i];
    return tensor_of_values(call.result(), a);
}

void add_choices(HostKernels &kernels) {
    const auto choice = [](const HostCall &call, const HostTensor &condition, const HostTensor &yes, const HostTensor &no) {
        return std::vector{is_floating(call.result().dtype) ? choose<double>(call, condition, yes, no) : choose<int64_t>(call, condition, yes, no)};
    };
    for (const char *name : {"aten::where.self", "aten::where.ScalarOther", "aten::where.ScalarSelf", "aten::where.Scalar"})
        kernels[name] = [choice](const HostCall &call) { return choice(call, call.tensor("condition"), call.tensor("self"), call.tensor("other")); };
    for (const char *name : {"aten::masked_fill.Scalar", "aten::masked_fill.Tensor"})
        kernels[name] = [choice](const HostCall &call) { return choice(call, call.tensor("mask"), call.tensor("value"), call.tensor("self")); };
}

}  // namespace

void add_elementwise_kernels(HostKernels &kernels) {
    add_arithmetic(kernels);
    add_functions(kernels);
    add_logic(kernels);
    add_choices(kernels);
}

}  // namespace atalla
