// Element-wise operators.
#include <cmath>

#include "graph_import/interpreter/call.h"
#include "isa/error.h"

namespace atalla::interpreter {

namespace {

struct Operands {
    std::vector<HostTensor> tensors;
    std::vector<bool> numbers;
    Extents sizes;
};

Operands gather(const Call &call, std::initializer_list<const char *> names) {
    Operands operands;
    for (const char *name : names) {
        operands.tensors.push_back(call.tensor(name));
        operands.numbers.push_back(call.is_number(name));
        operands.sizes = broadcast(operands.sizes, operands.tensors.back().sizes);
    }
    return operands;
}

// Computes in the type that `dtype` is computed in; `f` takes values of it and returns something that converts to it.
template <typename F>
HostTensor map(const HostTensor &x, DType dtype, DType result, F &&f) {
    return with_compute_type(dtype, [&](auto zero) {
        using T = decltype(zero);
        Array<T> values = load<T>(x);
        for (T &value : values.data) value = static_cast<T>(f(value));
        return store(values, result);
    });
}

template <typename F>
HostTensor map(const HostTensor &x, const HostTensor &y, const Extents &sizes, DType dtype, DType result, F &&f) {
    return with_compute_type(dtype, [&](auto zero) {
        using T = decltype(zero);
        Array<T> a = load<T>(x, sizes);
        const Array<T> b = load<T>(y, sizes);
        for (size_t i = 0; i < a.data.size(); i++) a.data[i] = static_cast<T>(f(a.data[i], b.data[i]));
        return store(a, result);
    });
}

// Of the type of the result.
template <typename F>
Kernel unary(F f) {
    return [f](const Call &call) -> Results {
        const DType dtype = call.result_dtype();
        return {map(call.tensor("self"), dtype, dtype, f)};
    };
}

// Like unary, for functions of real numbers alone: f(float or double).
template <typename F>
Kernel real_unary(F f) {
    return unary([f](auto x) {
        if constexpr (std::is_integral_v<decltype(x)>) {
            return f(static_cast<double>(x));
        } else {
            return f(x);
        }
    });
}

// Of the promoted type of the operand, with a bool as result.
template <typename F>
Kernel test(F f) {
    return [f](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        return {map(x, x.dtype, DType::Bool, f)};
    };
}

template <typename F>
Kernel binary(F f) {
    return [f](const Call &call) -> Results {
        const Operands operands = gather(call, {"self", "other"});
        const DType dtype = call.result_dtype();
        return {map(operands.tensors[0], operands.tensors[1], operands.sizes, dtype, dtype, f)};
    };
}

// self + alpha * other.
template <typename F>
Kernel scaled(F f) {
    return [f](const Call &call) -> Results {
        const Operands operands = gather(call, {"self", "other"});
        const DType dtype = call.result_dtype();
        const double alpha = call->find("alpha") ? call->number("alpha") : 1;
        return {map(operands.tensors[0], operands.tensors[1], operands.sizes, dtype, dtype,
                    [&](auto x, auto y) { return f(x, y, static_cast<decltype(x)>(alpha)); })};
    };
}

template <typename F>
Kernel comparison(F f) {
    return [f](const Call &call) -> Results {
        const Operands operands = gather(call, {"self", "other"});
        const DType dtype = promoted_dtype(operands.tensors, operands.numbers);
        return {map(operands.tensors[0], operands.tensors[1], operands.sizes, dtype, call.result_dtype(), f)};
    };
}

template <typename T>
T floor_quotient(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
        if (y == 0) throw Error("integer division by zero");
        if (y == -1) return static_cast<T>(0 - static_cast<uint64_t>(x));
        return x / y - (x % y != 0 && (x < 0) != (y < 0));
    } else {
        // As Python: the quotient of what is left after the remainder.
        if (y == 0) return x / y;
        T remainder = std::fmod(x, y);
        T quotient = (x - remainder) / y;
        if (remainder != 0 && (remainder < 0) != (y < 0)) quotient -= 1;
        if (quotient == 0) return std::copysign(T(0), x / y);
        T floored = std::floor(quotient);
        if (quotient - floored > T(0.5)) floored += 1;
        return floored;
    }
}

template <typename T>
T remainder(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
        if (y == 0) throw Error("integer division by zero");
        if (y == -1) return 0;
        const T r = x % y;
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;
    } else {
        const T r = std::fmod(x, y);
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;
    }
}

template <typename T>
T truncated_quotient(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
        if (y == 0) throw Error("integer division by zero");
        return y == -1 ? static_cast<T>(0 - static_cast<uint64_t>(x)) : x / y;
    } else {
        return std::trunc(x / y);
    }
}

template <typename T>
T power(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
        if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
        uint64_t result = 1, base = static_cast<uint64_t>(x);
        for (T n = y; n > 0; n >>= 1, base *= base) {
            if (n & 1) result *= base;
        }
        return static_cast<T>(result);
    } else {
        if (y == 2) return x * x;
        if (y == 3) return x * x * x;
        return std::pow(x, y);
    }
}

// NaN wins, as in PyTorch.
template <typename T>
T larger(T x, T y) {
    return x != x ? x : y != y ? y : std::max(x, y);
}
template <typename T>
T smaller(T x, T y) {
    return x != x ? x : y != y ? y : std::min(x, y);
}

// The other one where one is NaN.
template <typename T, typename F>
T unless_nan(T x, T y, F &&f) {
    return x != x ? y : y != y ? x : f(x, y);
}

// std::lgamma keeps the sign in a variable of the process.
double log_gamma(double x) {
    int sign = 0;
    return ::lgamma_r(x, &sign);
}

// Of decimal digits behind the point, or before it where there are fewer than none.
template <typename T>
T rounded_to(T x, int64_t decimals) {
    if constexpr (std::is_integral_v<T>) {
        return x;
    } else {
        const T unit = static_cast<T>(std::pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals)));
        return decimals < 0 ? std::nearbyint(x / unit) * unit : std::nearbyint(x * unit) / unit;
    }
}

Results divide_by_mode(const Call &call) {
    const Operands operands = gather(call, {"self", "other"});
    const DType dtype = call.result_dtype();
    const std::string mode = call.has("rounding_mode") ? call->string("rounding_mode") : "";
    const auto compute = [&](auto f) {
        return Results{map(operands.tensors[0], operands.tensors[1], operands.sizes, dtype, dtype, f)};
    };
    if (mode == "floor") return compute([](auto x, auto y) { return floor_quotient(x, y); });
    if (mode == "trunc") return compute([](auto x, auto y) { return truncated_quotient(x, y); });
    if (!mode.empty()) call.fail("rounding mode '" + mode + "' is not known");
    return compute([](auto x, auto y) { return x / y; });
}

Results gelu(const Call &call) {
    const std::string form = call->string("approximate");
    if (form != "none" && form != "tanh") call.fail("approximation '" + form + "' is not known");
    const DType dtype = call.result_dtype();
    const auto erf_form = [](auto x) {
        using T = decltype(x);
        return T(0.5) * x * (T(1) + std::erf(x * T(M_SQRT1_2)));
    };
    const auto tanh_form = [](auto x) {
        using T = decltype(x);
        const T inner = T(M_SQRT2 * M_2_SQRTPI * 0.5) * (x + T(0.044715) * x * x * x);
        return T(0.5) * x * (T(1) + std::tanh(inner));
    };
    const HostTensor x = call.tensor("self");
    return {form == "tanh" ? map(x, dtype, dtype, tanh_form) : map(x, dtype, dtype, erf_form)};
}

Results clamp(const Call &call, const char *low, const char *high) {
    HostTensor x = call.tensor("self");
    const DType dtype = call.result_dtype();
    const auto bound = [&](const char *name, bool lower) {
        if (!name || !call.has(name)) return;
        const HostTensor limit = call.tensor(name);
        const Extents sizes = broadcast(x.sizes, limit.sizes);
        x = lower ? map(x, limit, sizes, dtype, dtype, [](auto a, auto b) { return larger(a, b); })
                  : map(x, limit, sizes, dtype, dtype, [](auto a, auto b) { return smaller(a, b); });
    };
    bound(low, true);
    bound(high, false);
    return {map(x, dtype, dtype, [](auto a) { return a; })};
}

Results where(const Call &call) {
    const HostTensor condition = call.tensor("condition"), x = call.tensor("self"), y = call.tensor("other");
    const Extents sizes = broadcast(condition.sizes, broadcast(x.sizes, y.sizes));
    const DType dtype = call.result_dtype();
    return with_compute_type(dtype, [&](auto zero) -> Results {
        using T = decltype(zero);
        const Array<int64_t> chosen = load<int64_t>(condition, sizes);
        Array<T> a = load<T>(x, sizes);
        const Array<T> b = load<T>(y, sizes);
        for (size_t i = 0; i < a.data.size(); i++) {
            if (!chosen.data[i]) a.data[i] = b.data[i];
        }
        return {store(a, dtype)};
    });
}

Results masked_fill(const Call &call) {
    const HostTensor mask = call.tensor("mask"), x = call.tensor("self"), value = call.tensor("value");
    const Extents sizes = broadcast(mask.sizes, x.sizes);
    const DType dtype = call.result_dtype();
    return with_compute_type(dtype, [&](auto zero) -> Results {
        using T = decltype(zero);
        const Array<int64_t> masked = load<int64_t>(mask, sizes);
        Array<T> a = load<T>(x, sizes);
        const T filled = load<T>(value)[0];
        for (size_t i = 0; i < a.data.size(); i++) {
            if (masked.data[i]) a.data[i] = filled;
        }
        return {store(a, dtype)};
    });
}

// Addition of a product or a quotient, scaled by `value`.
Kernel add_scaled(bool quotient) {
    return [quotient](const Call &call) -> Results {
        const Operands operands = gather(call, {"self", "tensor1", "tensor2"});
        const DType dtype = call.result_dtype();
        const double value = call->number("value");
        return with_compute_type(dtype, [&](auto zero) -> Results {
            using T = decltype(zero);
            Array<T> a = load<T>(operands.tensors[0], operands.sizes);
            const Array<T> b = load<T>(operands.tensors[1], operands.sizes), c = load<T>(operands.tensors[2], operands.sizes);
            for (size_t i = 0; i < a.data.size(); i++) {
                a.data[i] += static_cast<T>(value) * (quotient ? b.data[i] / c.data[i] : b.data[i] * c.data[i]);
            }
            return {store(a, dtype)};
        });
    };
}

Results prelu(const Call &call) {
    const HostTensor x = call.tensor("self");
    HostTensor weight = call.tensor("weight");
    if (weight.elements() > 1) {  // one slope a channel, which is dimension 1
        Extents sizes(x.sizes.size(), 1);
        sizes[std::min<size_t>(1, x.sizes.size() - 1)] = weight.elements();
        weight = dense_copy(weight);
        weight.sizes = sizes;
        weight.strides = dense_strides(sizes);
    }
    const DType dtype = call.result_dtype();
    return {map(x, weight, x.sizes, dtype, dtype, [](auto a, auto w) { return a > 0 ? a : a * w; })};
}

void add_functions(Kernels &kernels) {
    const auto real = [&](const char *name, auto f) { kernels[name] = real_unary(f); };
    real("aten::exp", [](auto x) { return std::exp(x); });
    real("aten::exp2", [](auto x) { return std::exp2(x); });
    real("aten::expm1", [](auto x) { return std::expm1(x); });
    real("aten::log", [](auto x) { return std::log(x); });
    real("aten::log2", [](auto x) { return std::log2(x); });
    real("aten::log10", [](auto x) { return std::log10(x); });
    real("aten::log1p", [](auto x) { return std::log1p(x); });
    real("aten::sqrt", [](auto x) { return std::sqrt(x); });
    real("aten::rsqrt", [](auto x) { return 1 / std::sqrt(x); });
    real("aten::reciprocal", [](auto x) { return 1 / x; });
    real("aten::sin", [](auto x) { return std::sin(x); });
    real("aten::cos", [](auto x) { return std::cos(x); });
    real("aten::tan", [](auto x) { return std::tan(x); });
    real("aten::asin", [](auto x) { return std::asin(x); });
    real("aten::acos", [](auto x) { return std::acos(x); });
    real("aten::atan", [](auto x) { return std::atan(x); });
    real("aten::sinh", [](auto x) { return std::sinh(x); });
    real("aten::cosh", [](auto x) { return std::cosh(x); });
    real("aten::asinh", [](auto x) { return std::asinh(x); });
    real("aten::acosh", [](auto x) { return std::acosh(x); });
    real("aten::atanh", [](auto x) { return std::atanh(x); });
    real("aten::tanh", [](auto x) { return std::tanh(x); });
    real("aten::erf", [](auto x) { return std::erf(x); });
    real("aten::erfc", [](auto x) { return std::erfc(x); });
    real("aten::angle", [](auto x) { return x != x ? x : x < 0 ? decltype(x)(M_PI) : decltype(x)(0); });
    real("aten::lgamma", [](auto x) { return log_gamma(x); });
    real("aten::sigmoid", [](auto x) { return 1 / (1 + std::exp(-x)); });
    real("aten::silu", [](auto x) { return x / (1 + std::exp(-x)); });
    real("aten::log_sigmoid", [](auto x) { return std::min(x, decltype(x)(0)) - std::log1p(std::exp(-std::fabs(x))); });
    real("aten::mish", [](auto x) { return x * std::tanh(std::log1p(std::exp(x))); });
    kernels["aten::gelu"] = gelu;

    const auto any = [&](const char *name, auto f) { kernels[name] = unary(f); };
    any("aten::neg", [](auto x) { return -x; });
    any("aten::positive", [](auto x) { return x; });
    any("aten::abs", [](auto x) { return x < 0 ? -x : x == 0 ? decltype(x)(0) : x; });
    any("aten::square", [](auto x) { return x * x; });
    any("aten::sign", [](auto x) { return (x > 0) - (x < 0); });
    any("aten::sgn", [](auto x) { return (x > 0) - (x < 0); });
    any("aten::relu", [](auto x) { return x > 0 || x != x ? x : decltype(x)(0); });
    any("aten::relu6", [](auto x) { return smaller(larger(x, decltype(x)(0)), decltype(x)(6)); });
    const auto rounded = [&](const char *name, auto f) {
        any(name, [f](auto x) {
            if constexpr (std::is_integral_v<decltype(x)>) {
                return x;
            } else {
                return f(x);
            }
        });
    };
    rounded("aten::floor", [](auto x) { return std::floor(x); });
    rounded("aten::ceil", [](auto x) { return std::ceil(x); });
    rounded("aten::trunc", [](auto x) { return std::trunc(x); });
    rounded("aten::round", [](auto x) { return std::nearbyint(x); });
    rounded("aten::frac", [](auto x) { return x - std::trunc(x); });
    any("aten::hardsigmoid", [](auto x) {
        using T = decltype(x);
        return smaller(larger(x + T(3), T(0)), T(6)) / T(6);
    });
    any("aten::hardswish", [](auto x) {
        using T = decltype(x);
        return x * smaller(larger(x + T(3), T(0)), T(6)) / T(6);
    });

    kernels["aten::signbit"] = test([](auto x) {
        if constexpr (std::is_integral_v<decltype(x)>)
            return x < 0;
        else
            return std::signbit(x);
    });
    kernels["aten::logical_not"] = test([](auto x) { return x == 0; });
    kernels["aten::isnan"] = test([](auto x) { return x != x; });
    kernels["aten::isinf"] = test([](auto x) {
        if constexpr (std::is_integral_v<decltype(x)>)
            return false;
        else
            return std::isinf(x);
    });
    kernels["aten::bitwise_not"] = [](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        const bool flag = x.dtype == DType::Bool;
        return {map(x, DType::Int64, x.dtype, [flag](int64_t v) { return flag ? v == 0 : ~v; })};
    };
}

void add_parametric(Kernels &kernels) {
    const auto add = [&](const char *name, auto f) {
        kernels[name] = [f](const Call &call) -> Results {
            const DType dtype = call.result_dtype();
            return {map(call.tensor("self"), dtype, dtype, [&](auto x) { return f(call, x); })};
        };
    };
    add("aten::leaky_relu", [](const Call &call, auto x) {
        return x > 0 ? x : static_cast<decltype(x)>(x * static_cast<decltype(x)>(call->number("negative_slope")));
    });
    add("aten::elu", [](const Call &call, auto x) {
        using T = decltype(x);
        const T alpha = static_cast<T>(call->number("alpha")), scale = static_cast<T>(call->number("scale"));
        const T input_scale = static_cast<T>(call->number("input_scale"));
        return static_cast<T>(x > 0 ? x * scale : std::expm1(x * input_scale) * alpha * scale);
    });
    add("aten::softplus", [](const Call &call, auto x) {
        using T = decltype(x);
        const T beta = static_cast<T>(call->number("beta"));
        return static_cast<T>(x * beta > static_cast<T>(call->number("threshold")) ? x : std::log1p(std::exp(x * beta)) / beta);
    });
    add("aten::round.decimals", [](const Call &call, auto x) { return rounded_to(x, call->integer("decimals")); });
    add("aten::threshold", [](const Call &call, auto x) {
        using T = decltype(x);
        return x > static_cast<T>(call->number("threshold")) ? x : static_cast<T>(call->number("value"));
    });
    add("aten::hardtanh", [](const Call &call, auto x) {
        using T = decltype(x);
        return smaller(larger(x, static_cast<T>(call->number("min_val"))), static_cast<T>(call->number("max_val")));
    });
    kernels["aten::selu"] = real_unary([](auto x) {
        constexpr double alpha = 1.6732632423543772, scale = 1.0507009873554805;  // PyTorch's documentation of SELU
        using T = decltype(x);
        return static_cast<T>(x > 0 ? T(scale) * x : T(scale) * T(alpha) * std::expm1(x));
    });
    kernels["aten::clamp"] = kernels["aten::clamp.Tensor"] = [](const Call &c) { return clamp(c, "min", "max"); };
    kernels["aten::clamp_min"] = kernels["aten::clamp_min.Tensor"] = [](const Call &c) { return clamp(c, "min", nullptr); };
    kernels["aten::clamp_max"] = kernels["aten::clamp_max.Tensor"] = [](const Call &c) { return clamp(c, nullptr, "max"); };
    kernels["aten::prelu"] = kernels["aten::_prelu_kernel"] = prelu;
    kernels["aten::addcmul"] = add_scaled(false);
    kernels["aten::addcdiv"] = add_scaled(true);
}

}  // namespace

void add_elementwise_kernels(Kernels &kernels) {
    add_functions(kernels);
    add_parametric(kernels);
    const auto both = [&](const std::string &name, const Kernel &kernel) {
        kernels[name + ".Tensor"] = kernels[name + ".Scalar"] = kernel;
    };
    // Sums and products of integers wrap around.
    const auto add = [](auto x, auto y) {
        if constexpr (std::is_integral_v<decltype(x)>)
            return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
        else
            return x + y;
    };
    const auto multiply = [](auto x, auto y) {
        if constexpr (std::is_integral_v<decltype(x)>)
            return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
        else
            return x * y;
    };
    both("aten::add", scaled([add, multiply](auto x, auto y, auto alpha) { return add(x, multiply(alpha, y)); }));
    both("aten::sub", scaled([add, multiply](auto x, auto y, auto alpha) { return add(x, multiply(-alpha, y)); }));
    both("aten::rsub", scaled([add, multiply](auto x, auto y, auto alpha) { return add(y, multiply(-alpha, x)); }));
    both("aten::mul", binary(multiply));
    both("aten::div", binary([](auto x, auto y) { return x / y; }));
    kernels["aten::div.Tensor_mode"] = kernels["aten::div.Scalar_mode"] = divide_by_mode;
    kernels["aten::floor_divide"] = kernels["aten::floor_divide.Scalar"] =
        binary([](auto x, auto y) { return floor_quotient(x, y); });
    both("aten::remainder", binary([](auto x, auto y) { return remainder(x, y); }));
    both("aten::fmod", binary([](auto x, auto y) {
             if constexpr (std::is_integral_v<decltype(x)>) {
                 if (y == 0) throw Error("integer division by zero");
                 return y == -1 ? 0 : x % y;
             } else {
                 return std::fmod(x, y);
             }
         }));
    kernels["aten::maximum"] = kernels["aten::max.other"] = binary([](auto x, auto y) { return larger(x, y); });
    kernels["aten::minimum"] = kernels["aten::min.other"] = binary([](auto x, auto y) { return smaller(x, y); });
    kernels["aten::fmax"] =
        binary([](auto x, auto y) { return unless_nan(x, y, [](auto a, auto b) { return larger(a, b); }); });
    kernels["aten::fmin"] =
        binary([](auto x, auto y) { return unless_nan(x, y, [](auto a, auto b) { return smaller(a, b); }); });
    kernels["aten::atan2"] = binary([](auto x, auto y) { return std::atan2(x, y); });
    kernels["aten::ldexp.Tensor"] = binary([](auto x, auto y) {
        if constexpr (std::is_integral_v<decltype(x)>)
            return x * std::exp2(static_cast<double>(y));
        else
            return x * std::exp2(y);
    });
    kernels["aten::hypot"] = binary([](auto x, auto y) { return std::hypot(x, y); });
    both("aten::copysign", binary([](auto x, auto y) { return std::copysign(x, y); }));

    const Kernel pow = [](const Call &call) -> Results {
        const Operands operands = gather(call, {"self", "exponent"});
        const DType dtype = call.result_dtype();
        return {map(operands.tensors[0], operands.tensors[1], operands.sizes, dtype, dtype,
                    [](auto x, auto y) { return power(x, y); })};
    };
    kernels["aten::pow.Tensor_Scalar"] = kernels["aten::pow.Tensor_Tensor"] = kernels["aten::pow.Scalar"] = pow;

    both("aten::eq", comparison([](auto x, auto y) { return x == y; }));
    both("aten::ne", comparison([](auto x, auto y) { return x != y; }));
    both("aten::lt", comparison([](auto x, auto y) { return x < y; }));
    both("aten::le", comparison([](auto x, auto y) { return x <= y; }));
    both("aten::gt", comparison([](auto x, auto y) { return x > y; }));
    both("aten::ge", comparison([](auto x, auto y) { return x >= y; }));
    kernels["aten::logical_and"] = comparison([](auto x, auto y) { return x != 0 && y != 0; });
    kernels["aten::logical_or"] = comparison([](auto x, auto y) { return x != 0 || y != 0; });
    kernels["aten::logical_xor"] = comparison([](auto x, auto y) { return (x != 0) != (y != 0); });

    const auto bits = [&](const std::string &name, const std::string &symbol, auto f) {
        const Kernel kernel = [f](const Call &call) -> Results {
            const Operands operands = gather(call, {"self", "other"});
            return {map(operands.tensors[0], operands.tensors[1], operands.sizes, DType::Int64, call.result_dtype(), f)};
        };
        both("aten::bitwise_" + name, kernel);
        both("aten::__" + symbol + "__", kernel);
    };
    bits("and", "and", [](int64_t x, int64_t y) { return x & y; });
    bits("or", "or", [](int64_t x, int64_t y) { return x | y; });
    bits("xor", "xor", [](int64_t x, int64_t y) { return x ^ y; });

    // Bits that leave the type go; there is no shift by more than it has.
    const auto shift = [&](const std::string &name, const std::string &symbol, bool left) {
        const Kernel kernel = [left](const Call &call) -> Results {
            const Operands operands = gather(call, {"self", "other"});
            const DType dtype = call.result_dtype();
            const int64_t bits = 8 * element_bytes(dtype);
            return {map(operands.tensors[0], operands.tensors[1], operands.sizes, DType::Int64, dtype,
                        [left, bits](int64_t x, int64_t by) -> int64_t {
                            if (by < 0 || by >= bits) return left || x >= 0 ? 0 : -1;
                            return left ? static_cast<int64_t>(static_cast<uint64_t>(x) << by) : x >> by;
                        })};
        };
        for (const std::string &target :
             {"aten::bitwise_" + name + ".Tensor", "aten::bitwise_" + name + ".Tensor_Scalar",
              "aten::bitwise_" + name + ".Scalar_Tensor", "aten::__" + symbol + "__.Tensor", "aten::__" + symbol + "__.Scalar"})
            kernels[target] = kernel;
    };
    shift("left_shift", "lshift", true);
    shift("right_shift", "rshift", false);

    for (const char *name : {"aten::where.self", "aten::where.ScalarOther", "aten::where.ScalarSelf", "aten::where.Scalar"}) {
        kernels[name] = where;
    }
    kernels["aten::masked_fill.Scalar"] = kernels["aten::masked_fill.Tensor"] = masked_fill;
}

}  // namespace atalla::interpreter
