#include "tools/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "isa/error.h"

namespace atalla {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A file of version 1, 2 or 3 as numpy lays it out.
std::string npy(const std::string &dictionary, const std::string &data, int version = 1) {
    const size_t length_bytes = version == 1 ? 2 : 4;
    std::string header = dictionary;
    header.resize((10 + header.size() + 64) / 64 * 64 - 8 - length_bytes, ' ');
    header.back() = '\n';
    std::string file = "\x93NUMPY";
    file += static_cast<char>(version);
    file += '\0';
    for (size_t byte = 0; byte < length_bytes; byte++) {
        file += static_cast<char>(header.size() >> (8 * byte) & 255);
    }
    return file + header + data;
}

template <typename T>
std::string bytes_of(std::initializer_list<T> values) {
    std::string bytes;
    for (const T &value : values) {
        bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
    }
    return bytes;
}

NpyTensor parse(const std::string &file) {
    return parse_npy({reinterpret_cast<const uint8_t *>(file.data()), file.size()}, "x.npy");
}

std::string dictionary(const std::string &descr, const std::string &shape, bool fortran = false) {
    return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
}

template <typename T>
uint16_t rounded(const std::string &descr, T value) {
    return parse(npy(dictionary(descr, "()"), bytes_of({value}))).values.at(0);
}

class TemporaryFile {
public:
    explicit TemporaryFile(const std::string &name)
        : folder_(std::filesystem::temp_directory_path() / ("atalla-npy-" + std::to_string(::getpid()))) {
        std::filesystem::create_directories(folder_);
        path_ = folder_ / name;
    }
    ~TemporaryFile() { std::filesystem::remove_all(folder_); }
    const std::filesystem::path &path() const { return path_; }
    const std::filesystem::path &folder() const { return folder_; }

private:
    std::filesystem::path folder_, path_;
};

// What numpy.save writes for ml_dtypes.bfloat16: [[0, 1, 2], [3, 4, 5]].
TEST(Npy, ReadsBf16AsNumpyWritesIt) {
    const std::string row_major = npy("{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }",
                                      bytes_of<uint16_t>({0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0}));
    const NpyTensor tensor = parse(row_major);
    EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
    EXPECT_THAT(tensor.values, ElementsAre(0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0));
    EXPECT_EQ(tensor.stored_as, "<V2");

    const std::string column_major = npy("{'descr': '<V2', 'fortran_order': True, 'shape': (2, 3), }",
                                         bytes_of<uint16_t>({0, 0x4040, 0x3F80, 0x4080, 0x4000, 0x40A0}));
    EXPECT_EQ(parse(column_major).values, tensor.values);
}

TEST(Npy, ReadsEveryVersionAndSpelling) {
    const std::string data = bytes_of<uint16_t>({0x7FC1, 0xFFFF});
    for (int version : {1, 2, 3}) {
        for (const char *descr : {"<V2", "|V2", "V2", "bfloat16", "<u2"}) {
            EXPECT_THAT(parse(npy(dictionary(descr, "(2,)"), data, version)).values, ElementsAre(0x7FC1, 0xFFFF)) << descr;
        }
    }
    const std::string terse = npy("{\"shape\":(1L,2),\"fortran_order\":False,\"descr\":\"<u2\"}", data);
    EXPECT_THAT(parse(terse).shape, ElementsAre(1, 2));
}

TEST(Npy, ReadsScalarsAndEmptyTensors) {
    EXPECT_TRUE(parse(npy(dictionary("<f4", "()"), bytes_of({3.0f}))).shape.empty());
    EXPECT_THAT(parse(npy(dictionary("<f4", "()"), bytes_of({3.0f}))).values, ElementsAre(0x4040));
    EXPECT_THAT(parse(npy(dictionary("<f4", "(3, 0)"), "")).values, ElementsAre());
    EXPECT_THAT(parse(npy(dictionary("<f4", "(3, 0)", true), "")).shape, ElementsAre(3, 0));
}

TEST(Npy, TurnsFortranOrderOfAnyRank) {
    std::string data;
    // Element (i, j, k) of a 2 x 3 x 4 tensor holds 100i + 10j + k.
    for (uint16_t k = 0; k < 4; k++) {
        for (uint16_t j = 0; j < 3; j++) {
            for (uint16_t i = 0; i < 2; i++) {
                data += bytes_of<uint16_t>({static_cast<uint16_t>(100 * i + 10 * j + k)});
            }
        }
    }
    const NpyTensor tensor = parse(npy(dictionary("<u2", "(2, 3, 4)", true), data));
    size_t at = 0;
    for (uint16_t i = 0; i < 2; i++) {
        for (uint16_t j = 0; j < 3; j++) {
            for (uint16_t k = 0; k < 4; k++) {
                EXPECT_EQ(tensor.values[at++], 100 * i + 10 * j + k);
            }
        }
    }
}

TEST(Npy, RoundsFloatsToNearestEven) {
    const auto bits = [](uint32_t pattern) { return std::bit_cast<float>(pattern); };
    EXPECT_EQ(rounded("<f4", 1.0f), 0x3F80);
    EXPECT_EQ(rounded("<f4", bits(0x3F808000)), 0x3F80);  // a tie: down to even
    EXPECT_EQ(rounded("<f4", bits(0x3F818000)), 0x3F82);  // a tie: up to even
    EXPECT_EQ(rounded("<f4", bits(0x3F808001)), 0x3F81);
    EXPECT_EQ(rounded("<f4", bits(0x3F817FFF)), 0x3F81);
    EXPECT_EQ(rounded("<f4", bits(0x7F7FFFFF)), 0x7F80);  // the largest float is beyond the largest bf16
    EXPECT_EQ(rounded("<f4", -0.0f), 0x8000);
    EXPECT_EQ(rounded("<f4", bits(0x00008001)), 0x0001);  // denormals are kept
    EXPECT_EQ(rounded("<f4", -std::numeric_limits<float>::infinity()), 0xFF80);
}

TEST(Npy, KeepsNan) {
    EXPECT_EQ(rounded("<f4", std::bit_cast<float>(0x7F800001u)), 0x7FC0);
    EXPECT_EQ(rounded("<f4", std::bit_cast<float>(0xFFFFFFFFu)), 0xFFFF);
    EXPECT_EQ(rounded("<f8", std::numeric_limits<double>::quiet_NaN()) & 0x7FC0, 0x7FC0);
    EXPECT_EQ(rounded<uint16_t>("<f2", 0x7E00), 0x7FC0);
}

TEST(Npy, RoundsDoublesOnce) {
    // Just above a tie of bf16, but so close that it becomes the tie in float.
    EXPECT_EQ(rounded("<f8", 1.0 + 0x1p-8 + 0x1p-40), 0x3F81);
    EXPECT_EQ(rounded("<f8", 1.0 + 0x1p-8), 0x3F80);
    EXPECT_EQ(rounded("<f8", 1.0 + 3 * 0x1p-8 - 0x1p-40), 0x3F81);
    EXPECT_EQ(rounded("<f8", -(1.0 + 0x1p-8 + 0x1p-40)), 0xBF81);
    EXPECT_EQ(rounded("<f8", 1e300), 0x7F80);
    EXPECT_EQ(rounded("<f8", 0x1.FFp127 - 0x1p80), 0x7F7F);  // below the middle between the largest bf16 and 2^128
    EXPECT_EQ(rounded("<f8", 0x1.FFp127), 0x7F80);
    EXPECT_EQ(rounded("<f8", -1e-300), 0x8000);
    EXPECT_EQ(rounded("<f8", 0x1p-134 + 0x1p-180), 0x0001);  // just above half the smallest denormal
}

TEST(Npy, ConvertsHalves) {
    EXPECT_EQ(rounded<uint16_t>("<f2", 0x3C00), 0x3F80);  // 1
    EXPECT_EQ(rounded<uint16_t>("<f2", 0xC500), 0xC0A0);  // -5
    EXPECT_EQ(rounded<uint16_t>("<f2", 0x0001), 0x3380);  // 2^-24
    EXPECT_EQ(rounded<uint16_t>("<f2", 0x8000), 0x8000);
    EXPECT_EQ(rounded<uint16_t>("<f2", 0x3C04), 0x3F80);  // 1 + 2^-8, a tie
    EXPECT_EQ(rounded<uint16_t>("<f2", 0x3C0C), 0x3F82);  // 1 + 3 * 2^-8, a tie
    EXPECT_EQ(rounded<uint16_t>("<f2", 0x7C00), 0x7F80);  // infinity
    EXPECT_EQ(rounded<uint16_t>("<f2", 0x7BFF), 0x4780);  // 65504 becomes 65536
}

TEST(Npy, WritesWhatNumpyReads) {
    const TemporaryFile file("out.npy");
    const std::vector<int64_t> shape = {2, 2};
    const std::vector<uint16_t> values = {0x3F80, 0xC000, 0x7FC1, 0x0001};
    const auto contents = [&] {
        std::ifstream stream(file.path(), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(stream), {});
    };
    write_npy(file.path(), shape, values, NpyType::Bf16);
    EXPECT_EQ(contents(), npy(dictionary("<V2", "(2, 2)"), bytes_of<uint16_t>({0x3F80, 0xC000, 0x7FC1, 0x0001})));
    EXPECT_EQ(read_npy(file.path()).values, values);

    write_npy(file.path(), shape, values, NpyType::Float32);
    EXPECT_EQ(contents(),
              npy(dictionary("<f4", "(2, 2)"), bytes_of<uint32_t>({0x3F800000, 0xC0000000, 0x7FC10000, 0x00010000})));
    EXPECT_EQ(read_npy(file.path()).values, values);
    EXPECT_EQ(read_npy(file.path()).shape, shape);

    for (const std::vector<int64_t> &other : {std::vector<int64_t>{4}, {}, {1, 2, 0}, {1, 1, 4, 1}}) {
        int64_t count = 1;
        for (int64_t size : other) {
            count *= size;
        }
        write_npy(file.path(), other, std::span(values).first(static_cast<size_t>(count)), NpyType::Float32);
        EXPECT_EQ(read_npy(file.path()).shape, other);
    }
}

TEST(Npy, LeavesNoPartOfAFile) {
    const TemporaryFile file("out.npy");
    const std::vector<int64_t> shape = {3};
    const std::vector<uint16_t> two = {1, 2}, three = {1, 2, 3};
    EXPECT_THAT([&] { write_npy(file.path(), shape, two, NpyType::Bf16); },
                ThrowsMessage<Error>(HasSubstr("2 values are not a tensor of shape (3,)")));
    EXPECT_THAT([&] { write_npy(file.folder() / "none" / "out.npy", shape, three, NpyType::Bf16); },
                ThrowsMessage<Error>(HasSubstr("cannot be written: No such file or directory")));
    std::filesystem::create_directory(file.path());
    EXPECT_THAT([&] { write_npy(file.path(), shape, three, NpyType::Bf16); },
                ThrowsMessage<Error>(HasSubstr("cannot be written: ")));
    EXPECT_FALSE(std::filesystem::exists(file.path().string() + ".part"));
}

TEST(Npy, ChecksShapes) {
    const NpyTensor tensor = parse(npy(dictionary("<u2", "(1, 2)"), bytes_of<uint16_t>({1, 2})));
    EXPECT_NO_THROW(require_shape(tensor, std::vector<int64_t>{1, 2}, "A"));
    EXPECT_THAT([&] { require_shape(tensor, std::vector<int64_t>{2}, "A in x.npy"); },
                ThrowsMessage<Error>("A in x.npy has shape (1, 2), but (2,) is needed"));
}

TEST(Npy, RefusesTypesByName) {
    const auto refuse = [](const std::string &descr) { return [=] { parse(npy(dictionary(descr, "(1,)"), "12345678")); }; };
    EXPECT_THAT(refuse("<i8"),
                ThrowsMessage<Error>(HasSubstr("x.npy: elements of type '<i8' are not read; save x.astype('float32')")));
    EXPECT_THAT(refuse(">f4"), ThrowsMessage<Error>(HasSubstr("big-endian")));
    EXPECT_THAT(refuse("|O"), ThrowsMessage<Error>(HasSubstr("'|O'")));
    EXPECT_THAT([] { parse(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234")); },
                ThrowsMessage<Error>(HasSubstr("the elements are records")));
}

TEST(Npy, RefusesHostileFiles) {
    const auto refuse = [](const std::string &file) { return [=] { parse(file); }; };
    const std::string good = npy(dictionary("<f4", "(2,)"), bytes_of({1.0f, 2.0f}));
    EXPECT_THAT(refuse(""), ThrowsMessage<Error>(HasSubstr("not a .npy file")));
    EXPECT_THAT(refuse("PK\x03\x04"), ThrowsMessage<Error>(HasSubstr("not a .npy file")));
    for (size_t length = 6; length < good.size(); length++) {
        EXPECT_THROW(parse(good.substr(0, length)), Error) << length;
    }
    EXPECT_THAT(refuse(good.substr(0, 7)), ThrowsMessage<Error>(HasSubstr("ends within its version")));
    EXPECT_THAT(refuse(good.substr(0, 9)), ThrowsMessage<Error>(HasSubstr("ends within its header length")));
    EXPECT_THAT(refuse(good.substr(0, 50)), ThrowsMessage<Error>(HasSubstr("ends within its header; it has 50 bytes")));
    EXPECT_THAT(refuse(good.substr(0, good.size() - 1)),
                ThrowsMessage<Error>(HasSubstr("needs 8 bytes of data, but the file has 7")));
    EXPECT_THAT(refuse(good + "x"), ThrowsMessage<Error>(HasSubstr("needs 8 bytes of data, but the file has 9")));

    std::string version = good;
    version[6] = 9;
    EXPECT_THAT(refuse(version), ThrowsMessage<Error>(HasSubstr("format version 9")));
    std::string huge_header = npy(dictionary("<f4", "(2,)"), "", 2);
    huge_header[11] = '\x7F';
    EXPECT_THAT(refuse(huge_header), ThrowsMessage<Error>(HasSubstr("is not credible")));

    const auto shape = [&](const std::string &text) { return refuse(npy(dictionary("<f4", text), "")); };
    EXPECT_THAT(shape("(4294967296, 4294967296)"), ThrowsMessage<Error>(HasSubstr("larger than any file")));
    EXPECT_THAT(shape("(4611686018427387904,)"), ThrowsMessage<Error>(HasSubstr("larger than any file")));
    EXPECT_THAT(shape("(99999999999999999999,)"), ThrowsMessage<Error>(HasSubstr("64 bits do not hold")));
    EXPECT_THAT(shape("(1000000000000,)"), ThrowsMessage<Error>(HasSubstr("needs 4000000000000 bytes")));
    EXPECT_THAT(shape("(-1,)"), ThrowsMessage<Error>(HasSubstr("has no dimension")));
    EXPECT_THAT(shape("(1 2)"), ThrowsMessage<Error>(HasSubstr("has no ')'")));
    EXPECT_THAT(shape("[1]"), ThrowsMessage<Error>(HasSubstr("has no '('")));
    std::string dimensions = "(";
    for (int dimension = 0; dimension < 65; dimension++) {
        dimensions += "1,";
    }
    EXPECT_THAT(shape(dimensions + ")"), ThrowsMessage<Error>(HasSubstr("more than 64 dimensions")));
}

TEST(Npy, RefusesWrongHeaders) {
    const auto refuse = [](const std::string &text) { return [=] { parse(npy(text, "1234")); }; };
    EXPECT_THAT(refuse("import os"), ThrowsMessage<Error>(HasSubstr("has no '{'")));
    EXPECT_THAT(refuse("{'descr': '<f4'}"), ThrowsMessage<Error>(HasSubstr("lacks 'descr', 'fortran_order' or 'shape'")));
    EXPECT_THAT(refuse("{'descr': '<f4"), ThrowsMessage<Error>(HasSubstr("a quote that does not close")));
    EXPECT_THAT(refuse("{'descr': '<f4', 'descr': '<f4'}"), ThrowsMessage<Error>(HasSubstr("repeated key 'descr'")));
    EXPECT_THAT(refuse("{'x': 1}"), ThrowsMessage<Error>(HasSubstr("unknown or repeated key 'x'")));
    EXPECT_THAT(refuse("{'fortran_order': 1}"), ThrowsMessage<Error>(HasSubstr("neither True nor False")));
    EXPECT_THAT(refuse("{'de\x01scr': 1}"), ThrowsMessage<Error>(HasSubstr("unprintable")));
    EXPECT_THAT(refuse(dictionary("<f4", "(1,)") + "x"), ThrowsMessage<Error>(HasSubstr("after its closing brace")));
}

TEST(Npy, NamesTheFile) {
    EXPECT_THAT([] { read_npy("/nonexistent/a.npy"); },
                ThrowsMessage<Error>("/nonexistent/a.npy: cannot be read: No such file or directory"));
    EXPECT_THAT([] { read_npy("/"); }, ThrowsMessage<Error>(HasSubstr("/: tensors are read from regular files")));
}

}  // namespace
}  // namespace atalla
