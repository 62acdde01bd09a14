// NumPy's .npy files as bf16 tensors: what a kernel reads and writes is exchanged with Python in this form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace atalla {

// A tensor in C order, whatever the order of the file.
struct NpyTensor {
    std::vector<int64_t> shape;    // outermost dimension first, empty for a scalar
    std::vector<uint16_t> values;  // bf16 patterns
    std::string stored_as;         // the element type as the file names it, "<f4"
};

// The element types of a file.
//   bf16: "<V2" (what numpy writes for ml_dtypes.bfloat16), "bfloat16", and "<u2" holding raw patterns. Kept as they are.
//   "<f2", "<f4", "<f8": rounded to bf16, to nearest, ties to even, once (no intermediate type); too large becomes
//   infinity, NaN stays a quiet NaN with its sign and its upper bits.
// Format versions 1 to 3, C and Fortran order. Error, naming the file, for anything else: another type, a big-endian one,
// a header that is not one, sizes that overflow or do not fit the length of the file.
NpyTensor read_npy(const std::filesystem::path &file);
// The same from bytes; `name` stands for the file in messages.
NpyTensor parse_npy(std::span<const uint8_t> bytes, std::string_view name);

// Error unless the tensor has this shape. `what` names it: "A in a.npy".
void require_shape(const NpyTensor &tensor, std::span<const int64_t> shape, std::string_view what);
// "(2, 3)", as Python prints it.
std::string shape_text(std::span<const int64_t> shape);

enum class NpyType {
    Bf16,     // "<V2": numpy.load(f).view(ml_dtypes.bfloat16)
    Float32,  // "<f4": every bf16 value is exact in it
};

// Writes bf16 patterns in C order, format version 1. The file appears whole or not at all. Error if the number of values
// is not that of the shape, or the file cannot be written.
void write_npy(const std::filesystem::path &file, std::span<const int64_t> shape, std::span<const uint16_t> values,
               NpyType type);

// Numbers of any type, as they lie in a file but in C order.
struct NpyArray {
    std::vector<int64_t> shape;
    std::string descr;  // "<f4", "|b1", "<i8"
    size_t element_bytes = 0;
    std::vector<uint8_t> bytes;
};
// Error, naming the file, for what is not little-endian numbers of 1, 2, 4 or 8 bytes.
NpyArray read_npy_array(const std::filesystem::path &file);
// The file appears whole or not at all.
void write_npy_array(const std::filesystem::path &file, const NpyArray &array);

}  // namespace atalla
