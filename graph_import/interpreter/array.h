// Dense typed copies of tensors, which the host kernels compute with.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "graph_import/tensor.h"

namespace atalla::interpreter {

using Extents = std::vector<int64_t>;

inline int64_t product(const Extents &sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

template <typename T>
struct Array {
    Extents sizes;
    std::vector<T> data;

    Array() = default;
    explicit Array(Extents extents, T value = T(0)) : sizes(std::move(extents)), data(product(sizes), value) {}
    int64_t size(int64_t dimension) const { return sizes[dimension]; }
    int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
    T &operator[](int64_t i) { return data[i]; }
    const T &operator[](int64_t i) const { return data[i]; }
};

// Visits the offsets of a strided tensor in row-major order.
template <typename Visit>
void for_each_offset(const Extents &sizes, const Extents &strides, Visit &&visit) {
    const auto rank = static_cast<int64_t>(sizes.size());
    Extents index(rank);
    for (int64_t i = 0, count = product(sizes), at = 0; i < count; i++) {
        visit(at);
        for (int64_t d = rank - 1; d >= 0; d--) {
            at += strides[d];
            if (++index[d] < sizes[d]) break;
            at -= strides[d] * sizes[d];
            index[d] = 0;
        }
    }
}

// Calls `f` with a value of the type in which numbers of this element type are computed with: float (float32 and smaller),
// double or int64_t (integers and bool).
template <typename F>
decltype(auto) with_compute_type(DType dtype, F &&f) {
    if (dtype == DType::Float64) return f(double{});
    if (is_floating(dtype)) return f(float{});
    return f(int64_t{});
}

template <typename T>
Array<T> load(const HostTensor &tensor) {
    Array<T> result(tensor.sizes);
    T *to = result.data.data();
    if (tensor.dtype == DType::Float32 && std::is_same_v<T, float> && tensor.is_dense()) {
        std::memcpy(to, tensor.begin(), result.data.size() * sizeof(float));
        return result;
    }
    for_each_offset(tensor.sizes, tensor.strides, [&](int64_t offset) {
        if constexpr (std::is_integral_v<T>) {
            *to++ = element_as_int(tensor, offset);
        } else {
            *to++ = static_cast<T>(element_as_double(tensor, offset));
        }
    });
    return result;
}

template <typename T>
HostTensor store(const Array<T> &array, DType dtype) {
    HostTensor result = make_tensor(dtype, array.sizes);
    std::byte *to = mutable_data(result);
    const int64_t bytes = element_bytes(dtype);
    for (const T &value : array.data) {
        if constexpr (std::is_integral_v<T>) {
            store_int(to, dtype, value);
        } else {
            store_double(to, dtype, static_cast<double>(value));
        }
        to += bytes;
    }
    return result;
}

// The sizes that tensors of these sizes broadcast to. Error if they do not.
Extents broadcast(const Extents &a, const Extents &b);
// A view with stride 0 where a size of 1 is repeated. Error if the tensor does not broadcast to these sizes.
HostTensor expand(const HostTensor &tensor, const Extents &sizes);

template <typename T>
Array<T> load(const HostTensor &tensor, const Extents &sizes) {
    return load<T>(tensor.sizes == sizes ? tensor : expand(tensor, sizes));
}

}  // namespace atalla::interpreter
