// Tensors with data on the host: strided views of storages, which may be mapped files and may be shared by several tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph_import/dtype.h"

namespace atalla {

// Bytes, and whatever keeps them alive: a mapped file or an allocation.
struct Storage {
    std::shared_ptr<const void> owner;
    const std::byte *data = nullptr;
    int64_t bytes = 0;
};

// Sizes, strides and offset count elements. Whoever makes one of foreign data checks that it stays inside its storage.
struct HostTensor {
    DType dtype = DType::Float32;
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;
    std::shared_ptr<const Storage> storage;

    int64_t elements() const;
    // The first element in memory order of the dimensions.
    const std::byte *begin() const { return storage->data + offset * element_bytes(dtype); }
    // Dense in row-major order; sizes of 1 have any stride.
    bool is_dense() const;
};

// Zeros, dense.
HostTensor make_tensor(DType dtype, std::vector<int64_t> sizes);
// The bytes of a tensor that make_tensor returned and nobody else shares yet.
std::byte *mutable_data(HostTensor &tensor);
// The same values in a storage of their own, dense.
HostTensor dense_copy(const HostTensor &tensor);
std::vector<int64_t> dense_strides(const std::vector<int64_t> &sizes);
// Error unless all the elements lie inside the storage. `what` names the tensor.
void require_inside(const HostTensor &tensor, const std::string &what);

// Element `index` elements from begin(), as a number. Complex numbers give their real part.
double element_as_double(const HostTensor &tensor, int64_t index);
int64_t element_as_int(const HostTensor &tensor, int64_t index);
void store_double(std::byte *destination, DType dtype, double value);
void store_int(std::byte *destination, DType dtype, int64_t value);

}  // namespace atalla
