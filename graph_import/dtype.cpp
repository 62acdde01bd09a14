#include "graph_import/dtype.h"

#include <fmt/format.h>

#include <array>

#include "isa/error.h"

namespace atalla {

namespace {

enum class Kind { Integer, Floating, Complex, Bool };

struct Row {
    DType type;
    int bytes;
    Kind kind;
    std::string_view name, short_name;
};

constexpr std::array rows = {
    Row{DType::UInt8, 1, Kind::Integer, "uint8", "u8"},
    Row{DType::Int8, 1, Kind::Integer, "int8", "i8"},
    Row{DType::Int16, 2, Kind::Integer, "int16", "i16"},
    Row{DType::Int32, 4, Kind::Integer, "int32", "i32"},
    Row{DType::Int64, 8, Kind::Integer, "int64", "i64"},
    Row{DType::Float16, 2, Kind::Floating, "float16", "f16"},
    Row{DType::Float32, 4, Kind::Floating, "float32", "f32"},
    Row{DType::Float64, 8, Kind::Floating, "float64", "f64"},
    Row{DType::Complex32, 4, Kind::Complex, "complex32", "c32"},
    Row{DType::Complex64, 8, Kind::Complex, "complex64", "c64"},
    Row{DType::Complex128, 16, Kind::Complex, "complex128", "c128"},
    Row{DType::Bool, 1, Kind::Bool, "bool", "bool"},
    Row{DType::BFloat16, 2, Kind::Floating, "bfloat16", "bf16"},
    Row{DType::UInt16, 2, Kind::Integer, "uint16", "u16"},
    Row{DType::Float8E4M3FN, 1, Kind::Floating, "float8_e4m3fn", "f8e4m3fn"},
    Row{DType::Float8E5M2, 1, Kind::Floating, "float8_e5m2", "f8e5m2"},
    Row{DType::Float8E4M3FNUZ, 1, Kind::Floating, "float8_e4m3fnuz", "f8e4m3fnuz"},
    Row{DType::Float8E5M2FNUZ, 1, Kind::Floating, "float8_e5m2fnuz", "f8e5m2fnuz"},
    Row{DType::Float8E8M0FNU, 1, Kind::Floating, "float8_e8m0fnu", "f8e8m0fnu"},
    Row{DType::UInt32, 4, Kind::Integer, "uint32", "u32"},
    Row{DType::UInt64, 8, Kind::Integer, "uint64", "u64"},
};

const Row &row(DType type) {
    for (const Row &candidate : rows) {
        if (candidate.type == type) return candidate;
    }
    throw Error(fmt::format("element type {} does not exist", static_cast<int>(type)));
}

}  // namespace

DType dtype_of_number(int64_t number) {
    for (const Row &candidate : rows) {
        if (static_cast<int64_t>(candidate.type) == number) return candidate.type;
    }
    throw Error(
        fmt::format("element type number {} is not known; the model was written by a newer PyTorch or is damaged", number));
}

int64_t element_bytes(DType type) { return row(type).bytes; }
std::string_view dtype_name(DType type) { return row(type).name; }
std::string_view short_dtype_name(DType type) { return row(type).short_name; }
bool is_floating(DType type) { return row(type).kind == Kind::Floating; }
bool is_complex(DType type) { return row(type).kind == Kind::Complex; }
bool is_integer(DType type) { return row(type).kind == Kind::Integer; }

}  // namespace atalla
