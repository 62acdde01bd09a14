// Rows as norms scale them, before weights and biases.
#pragma once

#include <cstdint>
#include <functional>

#include <Halide.h>

#include "generators/deviation.h"
#include "generators/row_kernel.h"
#include "generators/vocabulary.h"

namespace atalla {

// x / sqrt(mean of its squares + epsilon) at kernel.n and kernel.m; x less its mean if it is centred. `rows` makes x, which is
// 0 behind the last element: once, or for each pass over rows that come in parts.
inline Halide::Expr normalized_row(RowKernel &kernel, const std::function<Halide::Func()> &rows, bool is_centred,
                                   double epsilon) {
    using namespace vocabulary;
    using Halide::Expr, Halide::Func, Halide::strict_float;
    const int64_t length = kernel.length();
    Func x = rows(), mean("mean"), centred, square("square"), scale("scale");
    const auto less_mean = [&] {
        centred = Func("centred");
        centred(kernel.n, kernel.m) = strict_float(x(kernel.n, kernel.m) - bf16(mean(kernel.m)));
        kernel.each_light(centred);
    };
    if (is_centred) {
        const Func total = kernel.sum("total", x);
        mean(kernel.m) = strict_float(total(kernel.m) * static_cast<float>(1 / static_cast<double>(length)));
        kernel.single(mean);
        if (kernel.in_parts()) x = rows();
        less_mean();
    }
    const auto value = [&]() -> Expr { return is_centred ? centred(kernel.n, kernel.m) : x(kernel.n, kernel.m); };
    const Expr squared = strict_float(value() * value());
    // Behind the last element x is 0, so x minus the mean is not.
    square(kernel.n, kernel.m) =
        kernel.whole_vectors() || !is_centred ? squared : select(kernel.n < kernel.length(), squared, bf16(0.0f));
    kernel.each_light(square);
    const Func squares = kernel.sum("squares", square);
    scale(kernel.m) = inverse_deviation(squares(kernel.m), length, epsilon);
    kernel.single(scale);
    if (kernel.in_parts()) {
        x = rows();
        if (is_centred) less_mean();
    }
    return strict_float(value() * bf16(scale(kernel.m)));
}

}  // namespace atalla
