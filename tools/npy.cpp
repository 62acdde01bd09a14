#include "tools/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "isa/error.h"
#include "isa/read_file.h"
#include "isa/write_file.h"

namespace atalla {

namespace {

constexpr std::string_view magic("\x93NUMPY", 6);
constexpr size_t most_dimensions = 64;  // numpy's own limit
constexpr size_t header_alignment = 64;
constexpr size_t longest_header = 1 << 20;  // of the types read here, none comes near

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie in the file");

// ---- Elements ----

uint16_t bf16_of_float(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if (std::isnan(value)) {
        return static_cast<uint16_t>(bits >> 16 | 0x0040);
    }
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Through a float rounded to odd: its last bit says that something was cut off, so the second rounding sees every tie.
uint16_t bf16_of_double(double value) {
    float near = static_cast<float>(value);
    if (!std::isnan(value) && static_cast<double>(near) != value) {
        if (std::abs(static_cast<double>(near)) > std::abs(value)) {
            near = std::nextafter(near, 0.0f);
        }
        near = std::bit_cast<float>(std::bit_cast<uint32_t>(near) | 1);
    }
    return bf16_of_float(near);
}

float float_of_half(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3FF;
    if (exponent == 31) {
        return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
    }
    const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                          : std::ldexp(static_cast<float>(fraction | 0x400), static_cast<int>(exponent) - 25);
    return sign != 0 ? -magnitude : magnitude;
}

template <typename Stored>
Stored load(const uint8_t *bytes) {
    Stored value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

struct ElementType {
    std::string_view name;
    size_t size;
    uint16_t (*to_bf16)(const uint8_t *);
};

uint16_t pattern(const uint8_t *bytes) { return load<uint16_t>(bytes); }

constexpr ElementType element_types[] = {
    {"<V2", 2, pattern},
    {"|V2", 2, pattern},
    {"V2", 2, pattern},
    {"bfloat16", 2, pattern},
    {"<u2", 2, pattern},
    {"<f2", 2, [](const uint8_t *bytes) { return bf16_of_float(float_of_half(load<uint16_t>(bytes))); }},
    {"<f4", 4, [](const uint8_t *bytes) { return bf16_of_float(load<float>(bytes)); }},
    {"<f8", 8, [](const uint8_t *bytes) { return bf16_of_double(load<double>(bytes)); }},
};

// ---- Header ----

struct Header {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<int64_t>> shape;
};

// The Python dictionary that a header is: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderReader {
public:
    HeaderReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

    Header read() {
        Header header;
        expect('{');
        while (!accept('}')) {
            const std::string key = string();
            expect(':');
            if (key == "descr" && !header.descr) {
                header.descr = descr();
            } else if (key == "fortran_order" && !header.fortran_order) {
                header.fortran_order = boolean();
            } else if (key == "shape" && !header.shape) {
                header.shape = shape();
            } else {
                fail(fmt::format("has an unknown or repeated key '{}'", key));
            }
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        if (peek() != '\0') {
            fail("goes on after its closing brace");
        }
        if (!header.descr || !header.fortran_order || !header.shape) {
            fail("lacks 'descr', 'fortran_order' or 'shape'");
        }
        return header;
    }

private:
    [[noreturn]] void fail(std::string_view what) const {
        throw Error(fmt::format("{}: the header of this .npy file {}; write it with numpy.save", file_, what));
    }

    // The next character that is not blank, '\0' at the end.
    char peek() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
            at_++;
        }
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool accept(char wanted) {
        if (peek() != wanted || at_ == text_.size()) {
            return false;
        }
        at_++;
        return true;
    }
    void expect(char wanted) {
        if (!accept(wanted)) {
            fail(fmt::format("has no '{}' at offset {}", wanted, at_));
        }
    }

    std::string string() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') {
            fail(fmt::format("has no quoted word at offset {}", at_));
        }
        const size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) {
            fail("has a quote that does not close");
        }
        std::string word(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        if (!std::ranges::all_of(word, [](unsigned char c) { return std::isprint(c) != 0; })) {
            fail("holds unprintable characters");
        }
        return word;
    }

    std::string descr() {
        if (peek() == '[') {
            throw Error(fmt::format("{}: the elements are records; save one field of them", file_));
        }
        return string();
    }

    bool boolean() {
        for (const auto &[word, value] : {std::pair{std::string_view("True"), true}, {"False", false}}) {
            peek();
            if (text_.substr(at_, word.size()) == word) {
                at_ += word.size();
                return value;
            }
        }
        fail("has a 'fortran_order' that is neither True nor False");
    }

    std::vector<int64_t> shape() {
        std::vector<int64_t> sizes;
        expect('(');
        while (!accept(')')) {
            sizes.push_back(size());
            if (sizes.size() > most_dimensions) {
                fail(fmt::format("has more than {} dimensions", most_dimensions));
            }
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return sizes;
    }

    int64_t size() {
        peek();
        int64_t value = 0;
        const size_t begin = at_;
        for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; at_++) {
            if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value)) {
                fail("has a dimension that 64 bits do not hold");
            }
        }
        if (at_ == begin) {
            fail(fmt::format("has no dimension, a number from 0 on, at offset {}", at_));
        }
        at_ += at_ < text_.size() && text_[at_] == 'L';  // Python 2 wrote 3L
        return value;
    }

    std::string_view text_, file_;
    size_t at_ = 0;
};

const ElementType &find_type(const std::string &descr, std::string_view file) {
    const auto found = std::ranges::find(element_types, descr, &ElementType::name);
    if (found != std::end(element_types)) {
        return *found;
    }
    const std::string_view hint = descr.starts_with('>')
                                      ? "it is big-endian, save x.astype(x.dtype.newbyteorder('<'))"
                                      : "save x.astype('float32'), or bf16 as ml_dtypes.bfloat16 or as patterns in uint16";
    throw Error(fmt::format("{}: elements of type '{}' are not read; {}", file, descr, hint));
}

// The number of elements, nothing if it overflows.
std::optional<int64_t> element_count(std::span<const int64_t> shape) {
    int64_t count = 1;
    // A dimension of 0 makes any others harmless.
    if (std::ranges::find(shape, 0) != shape.end()) {
        return 0;
    }
    for (int64_t size : shape) {
        if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
            return {};
        }
    }
    return count;
}

// Calls visit(position in the file) for every element in C order, where the file is in Fortran order.
template <typename Visit>
void for_each_fortran(std::span<const int64_t> shape, Visit &&visit) {
    std::vector<int64_t> stride(shape.size()), index(shape.size());
    int64_t count = 1;
    for (size_t dimension = 0; dimension < shape.size(); dimension++) {
        stride[dimension] = count;
        count *= shape[dimension];
    }
    int64_t position = 0;
    for (int64_t element = 0; element < count; element++) {
        visit(position);
        for (size_t dimension = shape.size(); dimension-- > 0;) {
            position += stride[dimension];
            if (++index[dimension] < shape[dimension]) {
                break;
            }
            position -= stride[dimension] * shape[dimension];
            index[dimension] = 0;
        }
    }
}

struct Parsed {
    Header header;
    std::span<const uint8_t> data;
};

Parsed parse(std::span<const uint8_t> bytes, std::string_view name) {
    const std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    if (!text.starts_with(magic)) {
        throw Error(fmt::format("{}: this is not a .npy file, it does not begin with \\x93NUMPY", name));
    }
    const auto truncated = [&](std::string_view where) {
        return Error(fmt::format("{}: this .npy file ends within {}; it has {} bytes", name, where, bytes.size()));
    };
    if (bytes.size() < magic.size() + 2) {
        throw truncated("its version");
    }
    const int version = bytes[magic.size()];
    if (version < 1 || version > 3) {
        throw Error(fmt::format("{}: format version {} of .npy is not read, only 1 to 3", name, version));
    }
    const size_t length_bytes = version == 1 ? 2 : 4, length_at = magic.size() + 2;
    if (bytes.size() < length_at + length_bytes) {
        throw truncated("its header length");
    }
    const size_t length = version == 1 ? load<uint16_t>(&bytes[length_at]) : load<uint32_t>(&bytes[length_at]);
    const size_t header_at = length_at + length_bytes;
    if (length > longest_header) {
        throw Error(fmt::format("{}: a .npy header of {} bytes is not credible", name, length));
    }
    if (length > bytes.size() - header_at) {
        throw truncated("its header");
    }

    return {HeaderReader(text.substr(header_at, length), name).read(), bytes.subspan(header_at + length)};
}

// Calls visit(its bytes) for every element in C order. Error unless the data have the length that the shape needs.
template <typename Visit>
void for_each_element(const Parsed &parsed, size_t element_bytes, std::string_view name, Visit &&visit) {
    const std::vector<int64_t> &shape = *parsed.header.shape;
    const std::optional<int64_t> count = element_count(shape);
    int64_t needed = 0;
    if (!count || __builtin_mul_overflow(*count, static_cast<int64_t>(element_bytes), &needed)) {
        throw Error(fmt::format("{}: a tensor of shape {} is larger than any file", name, shape_text(shape)));
    }
    if (static_cast<uint64_t>(needed) != parsed.data.size()) {
        throw Error(fmt::format("{}: shape {} of '{}' needs {} bytes of data, but the file has {}", name, shape_text(shape),
                                *parsed.header.descr, needed, parsed.data.size()));
    }
    const auto at = [&](int64_t position) { visit(&parsed.data[static_cast<size_t>(position) * element_bytes]); };
    if (*parsed.header.fortran_order && *count > 0) {
        for_each_fortran(shape, at);
    } else {
        for (int64_t position = 0; position < *count; position++) {
            at(position);
        }
    }
}

std::vector<uint8_t> read_bytes(const std::filesystem::path &file) {
    std::error_code code;
    if (std::filesystem::exists(file, code) && !std::filesystem::is_regular_file(file, code)) {
        throw Error(fmt::format("{}: tensors are read from regular files", file.string()));
    }
    std::ifstream stream = open_to_read(file);
    stream.seekg(0, std::ios::end);
    std::vector<uint8_t> bytes(static_cast<size_t>(stream.tellg()));
    stream.seekg(0);
    if (!stream.read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
        throw Error(fmt::format("{}: reading failed part way", file.string()));
    }
    return bytes;
}

// The file appears whole or not at all.
void write_file(const std::filesystem::path &file, std::string_view descr, std::span<const int64_t> shape,
                std::span<const uint8_t> data) {
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape_text(shape));
    const size_t before = magic.size() + 4;
    header.resize((before + header.size() + 1 + header_alignment - 1) / header_alignment * header_alignment - before, ' ');
    header.back() = '\n';

    std::string contents(magic);
    contents += {'\x01', '\x00', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
    contents += header;
    const std::filesystem::path partial = unfinished_of(file);
    errno = 0;
    std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
    stream.write(contents.data(), static_cast<std::streamsize>(contents.size()));
    stream.write(reinterpret_cast<const char *>(data.data()), static_cast<std::streamsize>(data.size()));
    stream.close();
    std::error_code code;
    if (stream) {
        std::filesystem::rename(partial, file, code);
    }
    if (!stream || code) {
        const std::string reason = code ? code.message() : std::strerror(errno);
        discard_unfinished(file);
        throw Error(fmt::format("{}: cannot be written: {}", file.string(), reason));
    }
}

}  // namespace

NpyTensor parse_npy(std::span<const uint8_t> bytes, std::string_view name) {
    const Parsed parsed = parse(bytes, name);
    const ElementType &type = find_type(*parsed.header.descr, name);
    NpyTensor tensor{*parsed.header.shape, {}, *parsed.header.descr};
    for_each_element(parsed, type.size, name, [&](const uint8_t *element) { tensor.values.push_back(type.to_bf16(element)); });
    return tensor;
}

NpyTensor read_npy(const std::filesystem::path &file) { return parse_npy(read_bytes(file), file.string()); }

NpyArray read_npy_array(const std::filesystem::path &file) {
    const std::vector<uint8_t> bytes = read_bytes(file);
    const std::string name = file.string();
    const Parsed parsed = parse(bytes, name);
    NpyArray array{*parsed.header.shape, *parsed.header.descr, 0, {}};
    const std::string &descr = array.descr;
    if (descr == "bfloat16") {
        array.element_bytes = 2;
    } else if (descr.size() == 3 && (descr[0] == '<' || descr[0] == '|') && std::strchr("fiubV", descr[1]) != nullptr &&
               std::strchr("1248", descr[2]) != nullptr) {
        array.element_bytes = static_cast<size_t>(descr[2] - '0');
    } else {
        throw Error(
            fmt::format("{}: elements of type '{}' are not read; save little-endian numbers of 1 to 8 bytes", name, descr));
    }
    for_each_element(parsed, array.element_bytes, name, [&](const uint8_t *element) {
        array.bytes.insert(array.bytes.end(), element, element + array.element_bytes);
    });
    return array;
}

void write_npy_array(const std::filesystem::path &file, const NpyArray &array) {
    write_file(file, array.descr, array.shape, array.bytes);
}

void require_shape(const NpyTensor &tensor, std::span<const int64_t> shape, std::string_view what) {
    if (!std::ranges::equal(tensor.shape, shape)) {
        throw Error(fmt::format("{} has shape {}, but {} is needed", what, shape_text(tensor.shape), shape_text(shape)));
    }
}

std::string shape_text(std::span<const int64_t> shape) {
    return shape.size() == 1 ? fmt::format("({},)", shape[0]) : fmt::format("({})", fmt::join(shape, ", "));
}

void write_npy(const std::filesystem::path &file, std::span<const int64_t> shape, std::span<const uint16_t> values,
               NpyType type) {
    const std::optional<int64_t> count = element_count(shape);
    if (!count || static_cast<uint64_t>(*count) != values.size()) {
        throw Error(fmt::format("{}: {} values are not a tensor of shape {}", file.string(), values.size(), shape_text(shape)));
    }
    std::vector<uint8_t> data;
    const auto append = [&](const auto &value) {
        const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
        data.insert(data.end(), bytes, bytes + sizeof value);
    };
    for (uint16_t value : values) {
        if (type == NpyType::Bf16) {
            append(value);
        } else {
            append(uint32_t{value} << 16);
        }
    }
    write_file(file, type == NpyType::Bf16 ? "<V2" : "<f4", shape, data);
}

}  // namespace atalla
