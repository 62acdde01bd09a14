// Tensors made from numbers.
#include <cmath>

#include "graph_import/interpreter/call.h"

namespace atalla::interpreter {

namespace {

HostTensor filled(DType dtype, const Extents &sizes, const HostTensor &number) {
    return with_compute_type(dtype, [&](auto zero) {
        using T = decltype(zero);
        return store(Array<T>(sizes, load<T>(number)[0]), dtype);
    });
}

HostTensor filled(DType dtype, const Extents &sizes, int64_t number) {
    return with_compute_type(dtype,
                             [&](auto zero) { return store(Array<decltype(zero)>(sizes, decltype(zero)(number)), dtype); });
}

Results arange(const Call &call) {
    const DType dtype = call.result_dtype();
    const double start = call->find("start") ? call->number("start") : 0, step = call->find("step") ? call->number("step") : 1;
    const int64_t count = call.result_sizes().at(0);
    const bool whole = start == std::floor(start) && step == std::floor(step);
    if (is_integer(dtype) && whole) {
        Array<int64_t> values({count});
        for (int64_t i = 0; i < count; i++) values[i] = static_cast<int64_t>(start) + i * static_cast<int64_t>(step);
        return {store(values, dtype)};
    }
    Array<double> values({count});
    for (int64_t i = 0; i < count; i++) values[i] = start + static_cast<double>(i) * step;
    return {store(values, dtype)};
}

Results linspace(const Call &call) {
    const int64_t count = call.result_sizes().at(0);
    const double start = call->number("start"), end = call->number("end");
    Array<double> values({count});
    for (int64_t i = 0; i < count; i++) {
        const double step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0;
        // From the nearer end, so that both ends are exact.
        values[i] = i < count / 2 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(count - 1 - i);
    }
    if (count == 1) values[0] = start;
    return {store(values, call.result_dtype())};
}

Results eye(const Call &call) {
    Array<int64_t> values(call.result_sizes());
    for (int64_t i = 0; i < std::min(values.size(0), values.size(1)); i++) values[i * values.size(1) + i] = 1;
    return {store(values, call.result_dtype())};
}

// Keeps what is on or below (`lower`), or on or above the diagonal.
Kernel triangle(bool lower) {
    return [lower](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        const int64_t diagonal = call->integer("diagonal");
        const DType dtype = call.result_dtype();
        if (x.sizes.size() < 2) call.fail("a matrix is expected");
        return with_compute_type(dtype, [&](auto zero) -> Results {
            auto values = load<decltype(zero)>(x);
            const int64_t rows = values.size(values.rank() - 2), columns = values.size(values.rank() - 1);
            for (int64_t i = 0; i < static_cast<int64_t>(values.data.size()); i++) {
                const int64_t row = i / columns % rows, column = i % columns;
                if (lower ? column - row > diagonal : column - row < diagonal) values[i] = 0;
            }
            return {store(values, dtype)};
        });
    };
}

// Rows and columns of what lies on or below, or on or above the diagonal.
Kernel triangle_indices(bool lower) {
    return [lower](const Call &call) -> Results {
        Array<int64_t> places(call.result_sizes());
        const int64_t rows = call->integer("row"), columns = call->integer("col"), offset = call->integer("offset"),
                      count = places.size(1);
        int64_t next = 0;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t column = 0; column < columns; column++) {
                if (lower ? column - row > offset : column - row < offset) continue;
                places[next] = row;
                places[count + next++] = column;
            }
        return {store(places, call.result_dtype())};
    };
}

}  // namespace

void add_creation_kernels(Kernels &kernels) {
    for (const char *name : {"aten::arange", "aten::arange.start", "aten::arange.start_step"}) kernels[name] = arange;
    kernels["aten::linspace"] = linspace;
    kernels["aten::eye"] = kernels["aten::eye.m"] = eye;
    kernels["aten::tril_indices"] = triangle_indices(true);
    kernels["aten::triu_indices"] = triangle_indices(false);
    kernels["aten::tril"] = triangle(true);
    kernels["aten::triu"] = triangle(false);
    const auto constant = [&](const char *name, int64_t value) {
        kernels[name] = [value](const Call &call) -> Results {
            return {filled(call.result_dtype(), call.result_sizes(), value)};
        };
    };
    for (const char *name : {"aten::zeros", "aten::zeros_like", "aten::new_zeros"}) constant(name, 0);
    for (const char *name : {"aten::ones", "aten::ones_like", "aten::new_ones"}) constant(name, 1);
    // What is left uninitialized may be anything; zeros, then.
    for (const char *name : {"aten::empty.memory_format", "aten::empty_like", "aten::new_empty"}) constant(name, 0);
    for (const char *name : {"aten::full", "aten::full_like", "aten::new_full"}) {
        kernels[name] = [](const Call &call) -> Results {
            return {filled(call.result_dtype(), call.result_sizes(), call.tensor("fill_value"))};
        };
    }
    kernels["aten::scalar_tensor"] = [](const Call &call) -> Results {
        return {filled(call.result_dtype(), {}, call.tensor("s"))};
    };
    kernels["aten::fill.Scalar"] = kernels["aten::fill.Tensor"] = [](const Call &call) -> Results {
        return {filled(call.result_dtype(), call.tensor("self").sizes, call.tensor("value"))};
    };
}

}  // namespace atalla::interpreter
