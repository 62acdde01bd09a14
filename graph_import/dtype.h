// The element types of PyTorch's tensors. The numbers are those that exported programs are written with.
#pragma once

#include <cstdint>
#include <string_view>

namespace atalla {

enum class DType : uint8_t {
    UInt8 = 1,
    Int8 = 2,
    Int16 = 3,
    Int32 = 4,
    Int64 = 5,
    Float16 = 6,
    Float32 = 7,
    Float64 = 8,
    Complex32 = 9,
    Complex64 = 10,
    Complex128 = 11,
    Bool = 12,
    BFloat16 = 13,
    UInt16 = 28,
    Float8E4M3FN = 29,
    Float8E5M2 = 30,
    Float8E4M3FNUZ = 31,
    Float8E5M2FNUZ = 32,
    Float8E8M0FNU = 33,
    UInt32 = 34,
    UInt64 = 35,
};

// Error if no element type has this number.
DType dtype_of_number(int64_t number);

int64_t element_bytes(DType type);
// As PyTorch names it, "bfloat16", and for tables: "bf16".
std::string_view dtype_name(DType type);
std::string_view short_dtype_name(DType type);

// Float16, BFloat16, Float32, Float64 and the 8-bit ones.
bool is_floating(DType type);
bool is_complex(DType type);
// The signed and unsigned integers; bool is none.
bool is_integer(DType type);

}  // namespace atalla
