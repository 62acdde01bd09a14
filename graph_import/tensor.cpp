#include "graph_import/tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "isa/error.h"

namespace atalla {

namespace {

template <typename T>
T load(const std::byte *source) {
    T value;
    std::memcpy(&value, source, sizeof value);
    return value;
}

template <typename T>
void store(std::byte *destination, T value) {
    std::memcpy(destination, &value, sizeof value);
}

// A small float with `exponent` and `mantissa` bits as a double. `finite` formats use all exponents for numbers.
double decode_small(uint32_t bits, int exponent_bits, int mantissa_bits, int bias) {
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
    const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(1.0 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}

double decode_half(uint16_t bits) {
    if ((bits & 0x7c00) == 0x7c00) return (bits & 0x3ff ? NAN : INFINITY) * (bits & 0x8000 ? -1 : 1);
    return decode_small(bits, 5, 10, 15);
}

// Rounds to nearest, ties to even, once from the double.
uint16_t encode_half(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(value);
    if (std::isnan(value)) return sign | 0x7e00;
    if (magnitude >= 65520) return sign | 0x7c00;
    if (magnitude == 0) return sign;  // has no exponent
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    const int unit = std::max(exponent - 11, -24);  // of the last place
    const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
    if (unit == -24) return sign | static_cast<uint16_t>(steps);
    return sign | static_cast<uint16_t>(((unit + 24) << 10) + steps);
}

uint16_t encode_bf16(double value) {
    // Through float by rounding to odd, so that the second rounding sees whether anything was cut off.
    const float near = static_cast<float>(value);
    uint32_t bits = std::bit_cast<uint32_t>(near);
    if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
    if (std::isfinite(near) && static_cast<double>(near) != value) {
        if (std::fabs(static_cast<double>(near)) > std::fabs(value)) bits--;
        bits |= 1;
    } else if (std::isinf(near) && std::isfinite(value)) {
        return static_cast<uint16_t>(bits >> 16);
    }
    bits += 0x7fff + (bits >> 16 & 1);
    return static_cast<uint16_t>(bits >> 16);
}

[[noreturn]] void no_arithmetic(DType type) {
    throw Error(fmt::format("{} tensors are carried as data and cannot be computed with on the host", dtype_name(type)));
}

}  // namespace

int64_t HostTensor::elements() const {
    int64_t count = 1;
    for (int64_t size : sizes) count *= size;
    return count;
}

bool HostTensor::is_dense() const {
    int64_t expected = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
        if (sizes[i] != 1 && strides[i] != expected) return elements() == 0;
        expected *= sizes[i];
    }
    return true;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t> &sizes) {
    std::vector<int64_t> strides(sizes.size());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
        strides[i] = stride;
        stride *= std::max<int64_t>(sizes[i], 1);
    }
    return strides;
}

HostTensor make_tensor(DType dtype, std::vector<int64_t> sizes) {
    // Far beyond what folding and tests make; keeps a damaged size from asking for all memory.
    constexpr int64_t largest = int64_t{1} << 36;
    int64_t bytes = element_bytes(dtype);
    for (int64_t size : sizes) {
        if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes) || bytes > largest) {
            throw Error(fmt::format("a {} tensor of these sizes is too large", dtype_name(dtype)));
        }
    }
    HostTensor tensor{dtype, std::move(sizes), {}, 0, nullptr};
    tensor.strides = dense_strides(tensor.sizes);
    std::shared_ptr<std::byte[]> memory(new std::byte[std::max<int64_t>(bytes, 1)]());
    tensor.storage = std::make_shared<Storage>(Storage{memory, memory.get(), bytes});
    return tensor;
}

std::byte *mutable_data(HostTensor &tensor) { return const_cast<std::byte *>(tensor.begin()); }

HostTensor dense_copy(const HostTensor &tensor) {
    HostTensor copy = make_tensor(tensor.dtype, tensor.sizes);
    const int64_t bytes = element_bytes(tensor.dtype);
    std::byte *to = mutable_data(copy);
    if (tensor.is_dense()) {
        std::memcpy(to, tensor.begin(), tensor.elements() * bytes);
        return copy;
    }
    const int rank = static_cast<int>(tensor.sizes.size());
    std::vector<int64_t> index(rank);
    for (int64_t i = 0, count = tensor.elements(), at = 0; i < count; i++) {
        std::memcpy(to + i * bytes, tensor.begin() + at * bytes, bytes);
        for (int d = rank - 1; d >= 0; d--) {
            at += tensor.strides[d];
            if (++index[d] < tensor.sizes[d]) break;
            at -= tensor.strides[d] * tensor.sizes[d];
            index[d] = 0;
        }
    }
    return copy;
}

void require_inside(const HostTensor &tensor, const std::string &what) {
    const auto fail = [&] {
        throw Error(fmt::format("{}: its sizes and strides reach outside its {} bytes of data", what, tensor.storage->bytes));
    };
    if (tensor.sizes.size() != tensor.strides.size()) {
        throw Error(fmt::format("{}: {} sizes but {} strides", what, tensor.sizes.size(), tensor.strides.size()));
    }
    bool empty = false;
    for (int64_t size : tensor.sizes) {
        if (size < 0) throw Error(fmt::format("{}: a size is {}", what, size));
        empty = empty || size == 0;
    }
    if (empty) return;
    __int128 least = tensor.offset, most = tensor.offset;
    constexpr __int128 limit = __int128{1} << 100;
    __int128 count = 1;
    for (size_t i = 0; i < tensor.sizes.size(); i++) {
        const __int128 reach = static_cast<__int128>(tensor.sizes[i] - 1) * tensor.strides[i];
        (reach < 0 ? least : most) += reach;
        count *= tensor.sizes[i];
        if (least < -limit || most > limit || count > limit) fail();
    }
    const int64_t bytes = element_bytes(tensor.dtype);
    if (least < 0 || (most + 1) * bytes > tensor.storage->bytes) fail();
    // Strides of 0 repeat elements: a tensor of absurd size in a few bytes.
    if (count > __int128{1} << 40) throw Error(fmt::format("{}: absurd size", what));
}

double element_as_double(const HostTensor &tensor, int64_t index) {
    const std::byte *at = tensor.begin() + index * element_bytes(tensor.dtype);
    switch (tensor.dtype) {
        case DType::Float16:
            return decode_half(load<uint16_t>(at));
        case DType::BFloat16:
            return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(at)) << 16);
        case DType::Float32:
        case DType::Complex64:
            return load<float>(at);
        case DType::Float64:
        case DType::Complex128:
            return load<double>(at);
        case DType::UInt64:
            return static_cast<double>(load<uint64_t>(at));
        case DType::Float8E5M2:
            return decode_half(static_cast<uint16_t>(load<uint8_t>(at) << 8));
        case DType::Float8E4M3FN: {
            const uint8_t bits = load<uint8_t>(at);
            return (bits & 0x7f) == 0x7f ? NAN : decode_small(bits, 4, 3, 7);
        }
        case DType::Float8E4M3FNUZ: {
            const uint8_t bits = load<uint8_t>(at);
            return bits == 0x80 ? NAN : decode_small(bits, 4, 3, 8);
        }
        case DType::Float8E5M2FNUZ: {
            const uint8_t bits = load<uint8_t>(at);
            return bits == 0x80 ? NAN : decode_small(bits, 5, 2, 16);
        }
        case DType::Float8E8M0FNU: {
            const uint8_t bits = load<uint8_t>(at);
            return bits == 0xff ? NAN : std::ldexp(1.0, bits - 127);
        }
        case DType::Complex32:
            return decode_half(load<uint16_t>(at));
        default:
            return static_cast<double>(element_as_int(tensor, index));
    }
}

int64_t element_as_int(const HostTensor &tensor, int64_t index) {
    const std::byte *at = tensor.begin() + index * element_bytes(tensor.dtype);
    switch (tensor.dtype) {
        case DType::Bool:
            return load<uint8_t>(at) != 0;
        case DType::UInt8:
            return load<uint8_t>(at);
        case DType::Int8:
            return load<int8_t>(at);
        case DType::Int16:
            return load<int16_t>(at);
        case DType::UInt16:
            return load<uint16_t>(at);
        case DType::Int32:
            return load<int32_t>(at);
        case DType::UInt32:
            return load<uint32_t>(at);
        case DType::Int64:
        case DType::UInt64:
            return load<int64_t>(at);
        default: {
            const double value = element_as_double(tensor, index);
            if (!(std::fabs(value) < 9.2e18)) return INT64_MIN;
            return static_cast<int64_t>(value);
        }
    }
}

void store_double(std::byte *destination, DType dtype, double value) {
    switch (dtype) {
        case DType::Float16:
            return store(destination, encode_half(value));
        case DType::BFloat16:
            return store(destination, encode_bf16(value));
        case DType::Float32:
            return store(destination, static_cast<float>(value));
        case DType::Float64:
            return store(destination, value);
        case DType::Bool:
            return store(destination, static_cast<uint8_t>(value != 0));
        default:
            if (!is_integer(dtype)) no_arithmetic(dtype);
            return store_int(destination, dtype, std::fabs(value) < 9.2e18 ? static_cast<int64_t>(value) : INT64_MIN);
    }
}

void store_int(std::byte *destination, DType dtype, int64_t value) {
    switch (dtype) {
        case DType::Bool:
            return store(destination, static_cast<uint8_t>(value != 0));
        case DType::UInt8:
        case DType::Int8:
            return store(destination, static_cast<uint8_t>(value));
        case DType::Int16:
        case DType::UInt16:
            return store(destination, static_cast<uint16_t>(value));
        case DType::Int32:
        case DType::UInt32:
            return store(destination, static_cast<uint32_t>(value));
        case DType::Int64:
        case DType::UInt64:
            return store(destination, value);
        default:
            return store_double(destination, dtype, static_cast<double>(value));
    }
}

}  // namespace atalla
