#include "runtime/bf16.h"

#include <cstring>

#include <fmt/format.h>

#include "isa/error.h"
#include "simulator/numerics.h"
#include "simulator/within_bf16.h"

namespace atalla {

namespace {

uint16_t rounded(float value) {
    if (value != value) return static_cast<uint16_t>(float_bits(value) >> 16 | 0x40);
    return bf16_truncate(bf16_round(value));
}

}  // namespace

std::vector<uint16_t> bf16_elements(const HostTensor &tensor) {
    if (!is_floating(tensor.dtype))
        throw Error(fmt::format("a tensor of {} cannot be used by the accelerator, which computes with bfloat16",
                                dtype_name(tensor.dtype)));
    const HostTensor dense = tensor.is_dense() ? tensor : dense_copy(tensor);
    const auto count = static_cast<size_t>(dense.elements());
    std::vector<uint16_t> result(count);
    if (dense.dtype == DType::BFloat16) {
        if (count > 0) std::memcpy(result.data(), dense.begin(), count * 2);
        return result;
    }
    if (dense.dtype == DType::Float32) {
        for (size_t i = 0; i < count; i++) {
            float value;
            std::memcpy(&value, dense.begin() + 4 * i, sizeof value);
            result[i] = rounded(static_cast<float>(within_bf16(value)));
        }
        return result;
    }
    for (size_t i = 0; i < count; i++)
        store_double(reinterpret_cast<std::byte *>(&result[i]), DType::BFloat16,
                     within_bf16(element_as_double(dense, static_cast<int64_t>(i))));
    return result;
}

HostTensor tensor_of_bf16(DType dtype, const std::vector<int64_t> &sizes, const std::vector<uint16_t> &elements) {
    HostTensor tensor = make_tensor(dtype, sizes);
    if (elements.empty()) return tensor;
    std::byte *data = mutable_data(tensor);
    if (dtype == DType::BFloat16) {
        std::memcpy(data, elements.data(), elements.size() * 2);
        return tensor;
    }
    for (size_t i = 0; i < elements.size(); i++) {
        const float value = bf16_float(elements[i]);
        if (dtype == DType::Float32)
            std::memcpy(data + 4 * i, &value, sizeof value);
        else
            store_double(data + static_cast<size_t>(element_bytes(dtype)) * i, dtype, value);
    }
    return tensor;
}

}  // namespace atalla
