// Kernel libraries: the file, what it refuses, and products of any shape, with kernels written by hand.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "library/atalla_kernels.h"
#include "library/atlib_generated.h"
#include "library/gemm_dispatch.h"
#include "library/operator_dispatch.h"
#include "tests/library/hand_written.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using hand_written::copy_kernel;
using hand_written::kernel;
using hand_written::library;
using hand_written::operators;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(KernelLibrary, ComesBackAsItWasInOrder) {
    const std::vector<uint8_t> bytes = library_bytes(library());
    const KernelLibrary read = parse_library(bytes);
    EXPECT_EQ(read.machine.fingerprint(), library().machine.fingerprint());
    EXPECT_EQ(read.compiler, "compiler-1");
    ASSERT_EQ(read.kernels.size(), 4u);
    EXPECT_TRUE(std::is_sorted(read.kernels.begin(), read.kernels.end(),
                               [](const auto &one, const auto &other) { return one.workload < other.workload; }));
    const LibraryKernel wanted = kernel(32, 32, 32, 300), *found = read.find("gemm", wanted.workload);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->program.packets, wanted.program.packets);
    EXPECT_EQ(found->inputs, wanted.inputs);
    EXPECT_EQ(found->cycles, 300);
    EXPECT_EQ(found->run, "0123");
    EXPECT_EQ(read.find("gemm", "{}"), nullptr);
    EXPECT_EQ(library_bytes(read), bytes);
    KernelLibrary shuffled = library();
    std::reverse(shuffled.kernels.begin(), shuffled.kernels.end());
    EXPECT_EQ(library_bytes(shuffled), bytes) << "the order of insertion shows";
}

TEST(KernelLibrary, DamageIsRefused) {
    const std::vector<uint8_t> good = library_bytes(library());
    EXPECT_THAT(error_of([] { parse_library({}); }), HasSubstr("not a kernel library"));
    for (size_t size = 0; size < good.size(); size += 97) {
        EXPECT_NE(error_of([&] { parse_library(std::span(good).first(size)); }), "no error") << size << " bytes";
    }
    KernelLibrary twice = library();
    twice.kernels.push_back(twice.kernels.front());
    EXPECT_THAT(error_of([&] { library_bytes(twice); }), HasSubstr("twice"));
    EXPECT_THAT(error_of([] { read_library("/nowhere/x.atlib"); }),
                HasSubstr("/nowhere/x.atlib: cannot be read: No such file"));
}

// The root table's field as the file has it.
uint8_t *field_of(std::vector<uint8_t> &bytes, flatbuffers::voffset_t field) {
    const auto *table = reinterpret_cast<const flatbuffers::Table *>(atlib::GetLibrary(bytes.data()));
    return bytes.data() + (table->GetAddressOf(field) - bytes.data());
}

// A file of this version without its checksum.
std::vector<uint8_t> without_checksum(std::vector<uint8_t> bytes, uint32_t version) {
    flatbuffers::WriteScalar(field_of(bytes, atlib::Library::VT_VERSION), version);
    const auto *table = reinterpret_cast<const flatbuffers::Table *>(atlib::GetLibrary(bytes.data()));
    flatbuffers::WriteScalar<flatbuffers::voffset_t>(
        bytes.data() + (table->GetVTable() - bytes.data()) + atlib::Library::VT_CHECKSUM, 0);
    return bytes;
}

TEST(KernelLibrary, EveryBitThatFlipsIsRefused) {
    const std::vector<uint8_t> good = library_bytes(operators());
    for (size_t bit = 0; bit < 8 * good.size(); bit++) {
        std::vector<uint8_t> bad = good;
        bad[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
        EXPECT_NE(error_of([&] { parse_library(bad); }), "no error") << "bit " << bit;
    }
    std::vector<uint8_t> code = good;
    code[static_cast<size_t>(atlib::GetLibrary(good.data())->kernels()->Get(0)->packets()->data() - good.data())] ^= 1;
    EXPECT_EQ(error_of([&] { parse_library(code); }),
              "the kernel library is damaged: its bytes do not have its checksum; copy the file again, or build it again");
    std::vector<uint8_t> longer = good;
    longer.push_back(0);
    EXPECT_THAT(error_of([&] { parse_library(longer); }), HasSubstr("its bytes do not have its checksum"));
    EXPECT_EQ(error_of([&] { parse_library(without_checksum(good, 2)); }),
              "the kernel library is damaged: its checksum is missing");
}

TEST(KernelLibrary, FilesOfVersionOneAreReadWithoutAChecksum) {
    const std::vector<uint8_t> bytes = library_bytes(library()), old = without_checksum(bytes, 1);
    EXPECT_EQ(library_bytes(parse_library(old)), bytes);
    EXPECT_EQ(error_of([&] { parse_library(without_checksum(bytes, 3)); }),
              "the kernel library has version 3, this program reads versions 1 and 2: build it again");
    // Any change of a byte is refused or gives another library, but never ends the program.
    for (size_t at = 0; at < old.size(); at += 13) {
        std::vector<uint8_t> bad = old;
        bad[at] ^= 0xFF;
        error_of([&] { parse_library(bad); });
    }
}

TEST(KernelLibrary, DifferencesAreNamed) {
    KernelLibrary other = library();
    EXPECT_THAT(library_differences(parse_library(library_bytes(library())), parse_library(library_bytes(other))), IsEmpty());
    other.kernels[0].cycles = 1001;
    other.kernels.erase(other.kernels.begin() + 1);
    other.kernels.push_back(kernel(8, 8, 8, 10));
    const KernelLibrary one = parse_library(library_bytes(library())), two = parse_library(library_bytes(other));
    EXPECT_THAT(library_differences(one, two),
                testing::UnorderedElementsAre(HasSubstr("1000 cycles, then 1001 (+0.1 %)"), testing::StartsWith("- gemm"),
                                              testing::StartsWith("+ gemm")));
}

TEST(KernelLibrary, TheHeaderListsTheKernels) {
    const std::string header = library_header(parse_library(library_bytes(library())), "ax01-small");
    EXPECT_THAT(header, HasSubstr("#define AX01_SMALL_KERNELS 4"));
    EXPECT_THAT(header, HasSubstr(R"(X("gemm", "{\"addend\":false)"));
}

TEST(GemmDispatch, TakesTheExactKernelElseTheCheapestThatFits) {
    const KernelLibrary all = parse_library(library_bytes(library()));
    const GemmDispatch dispatch(all);
    const auto chosen = [&](GemmCall call) {
        const auto choice = dispatch.choose(call);
        return choice ? std::vector<int64_t>{choice->m, choice->n, choice->k, choice->tiles} : std::vector<int64_t>{};
    };
    EXPECT_THAT(chosen({64, 64, 64}), ElementsAre(64, 64, 64, 1));
    EXPECT_THAT(chosen({20, 30, 10}), ElementsAre(32, 32, 32, 1)) << "filled up with zeros";
    EXPECT_THAT(chosen({64, 64, 32}), ElementsAre(64, 64, 64, 1)) << "1000 cycles instead of 4 x 300";
    EXPECT_THAT(chosen({32, 65, 32}), ElementsAre(32, 32, 32, 3));
    EXPECT_THAT(chosen({32, 32, 65}), ElementsAre(32, 32, 128, 1));
    EXPECT_THAT(chosen({32, 32, 64, true}), ElementsAre(32, 32, 64, 1));
    EXPECT_THAT(chosen({32, 32, 65, true}), IsEmpty());
    EXPECT_THAT(chosen({32, 32, 32, false, true}), IsEmpty());
}

TEST(GemmDispatch, NothingWrongIsComputed) {
    const KernelLibrary all = parse_library(library_bytes(library()));
    const GemmDispatch dispatch(all);
    EXPECT_THAT(error_of([&] {
                    dispatch.run({32, 32, 1000}, Bf16(32 * 1000), Bf16(32 * 1000), {});
                }),
                HasSubstr("no gemm kernel that sums 1000 products"));
    EXPECT_THAT(error_of([&] { dispatch.run({32, 32, 32}, Bf16(5), Bf16(1024), {}); }), HasSubstr("A has 5 elements"));
    EXPECT_THAT(error_of([&] { dispatch.run({0, 32, 32}, {}, Bf16(1024), {}); }), HasSubstr("no elements"));
}

TEST(GemmDispatch, TensorsAreCutAndPutTogether) {
    const KernelLibrary all = parse_library(library_bytes(library()));
    // The kernels copy the first two elements of each block of rows of A to the first two of each tile of C.
    Bf16 a(40 * 32), b(33 * 32);
    for (size_t i = 0; i < a.size(); i++) a[i] = static_cast<uint16_t>(i);
    GemmChoice choice;
    const Bf16 c = GemmDispatch(all).run({40, 33, 32}, a, b, {}, &choice);
    EXPECT_EQ(choice.m, 64);
    EXPECT_EQ(c.size(), 40u * 33);
    EXPECT_EQ(c[1], 1);
    GemmChoice tiled;
    const Bf16 wide = GemmDispatch(all).run({33, 100, 120}, Bf16(33 * 120, 7), Bf16(100 * 120), {}, &tiled);
    EXPECT_EQ(tiled.tiles, 8);
    for (const size_t at : {size_t{0}, size_t{32}, size_t{64}, size_t{96}, size_t{3200}}) EXPECT_EQ(wide[at], 7) << at;
}

TEST(OperatorDispatch, RunsItemsThatAreIndependent) {
    const KernelLibrary all = operators();
    const OperatorDispatch dispatch(all);
    std::vector<uint16_t> data(60);
    for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<uint16_t>(i + 1);
    OperatorChoice choice;
    const auto run = [&](const std::string &op, const std::vector<int64_t> &shape, const std::string &attributes = "{}") {
        return dispatch.run({op, attributes, {{shape, data.data()}}}, &choice).front();
    };
    EXPECT_EQ(run("copy", {2, 4}), Bf16(data.begin(), data.begin() + 8));
    EXPECT_TRUE(choice.exact());
    EXPECT_EQ(run("copy", {3, 4, 5}), data) << "elements in any number, the last run filled up";
    EXPECT_EQ(choice.runs, 8);
    EXPECT_EQ(run("copy", {3}), Bf16(data.begin(), data.begin() + 3));
    EXPECT_EQ(run("rows", {5, 3, 2}), Bf16(data.begin(), data.begin() + 30));
    EXPECT_EQ(choice.runs, 4);
    EXPECT_EQ(run("along", {9, 2}, R"({ "dim" : 1 })"), Bf16(data.begin(), data.begin() + 18));
}

TEST(OperatorDispatch, RefusesWhatCouldMeanSomethingElse) {
    const KernelLibrary all = operators();
    const OperatorDispatch dispatch(all);
    const auto fits = [&](const std::string &op, const std::vector<int64_t> &shape, const std::string &attributes = "{}") {
        return dispatch.choose({op, attributes, {{shape, nullptr}}}).has_value();
    };
    EXPECT_TRUE(fits("rows", {4, 2}));
    EXPECT_FALSE(fits("rows", {4, 3})) << "rows of another length";
    EXPECT_TRUE(fits("rows", {3, 1}));
    EXPECT_FALSE(fits("whole", {9}));
    EXPECT_TRUE(fits("along", {9, 2}, R"({"dim":1})"));
    EXPECT_FALSE(fits("along", {3, 3, 2}, R"({"dim":1})")) << "the second dimension is another one";
    EXPECT_FALSE(fits("along", {4, 2}));
    EXPECT_FALSE(fits("no such", {4, 2}));
    EXPECT_THAT(error_of([&] {
                    dispatch.run({"rows", "{}", {{{4, 3}, nullptr}}});
                }),
                HasSubstr("has no kernel that serves rows of 4x3"));
    EXPECT_THAT(error_of([&] {
                    dispatch.run({"rows", "[]", {{{4, 2}, nullptr}}});
                }),
                HasSubstr("the attributes must be a JSON object"));
    EXPECT_THAT(error_of([&] { dispatch.run({"rows", "{}", {{{0, 2}, nullptr}}}); }), HasSubstr("has no elements"));
}

TEST(OperatorDispatch, PartsThatDoNotDivideATensorAreDamage) {
    KernelLibrary bad = library();
    bad.kernels.push_back(copy_kernel("copy", "[8]", 3, 100));
    EXPECT_THAT(error_of([&] { parse_library(library_bytes(bad)); }), HasSubstr("do not fall into 3 parts"));
}

TEST(CInterface, CallsAnyOperator) {
    const std::filesystem::path file = std::filesystem::temp_directory_path() / fmt::format("atalla-{}-call.atlib", getpid());
    const std::vector<uint8_t> bytes = library_bytes(operators());
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    atalla_library *opened = nullptr;
    ASSERT_EQ(atalla_library_open(file.c_str(), &opened), 0) << atalla_library_error();
    std::filesystem::remove(file);
    const std::vector<uint16_t> data(12, 7);
    const int64_t shape[] = {3, 4};
    const atalla_operand x = {data.data(), shape, 2};
    std::vector<uint16_t> output(12);
    atalla_operator_report report;
    EXPECT_EQ(atalla_operator(opened, "copy", nullptr, &x, 1, output.data(), output.size(), &report), 0)
        << atalla_library_error();
    EXPECT_EQ(output, data);
    EXPECT_FALSE(report.exact);
    EXPECT_EQ(report.runs, 2);
    EXPECT_NE(atalla_operator(opened, "copy", nullptr, &x, 1, output.data(), 11, nullptr), 0);
    EXPECT_STREQ(atalla_library_error(), "copy gives 12 elements, but there is room for 11");
    const auto refused = [&](int status, const std::string &text) {
        EXPECT_NE(status, 0) << text;
        EXPECT_THAT(atalla_library_error(), HasSubstr(text));
    };
    refused(atalla_operator(nullptr, "copy", nullptr, &x, 1, output.data(), 12, nullptr), "'library' is a null pointer");
    refused(atalla_operator(opened, nullptr, nullptr, &x, 1, output.data(), 12, nullptr), "'op' is a null pointer");
    refused(atalla_operator(opened, "copy", nullptr, nullptr, 1, output.data(), 12, nullptr), "'inputs' is a null pointer");
    refused(atalla_operator(opened, "copy", nullptr, &x, 1, nullptr, 12, nullptr), "'output' is a null pointer");
    refused(atalla_operator(opened, "copy", "{", &x, 1, output.data(), 12, nullptr), "the attributes must be a JSON object");
    refused(atalla_operator(opened, "copy", nullptr, &x, 0, output.data(), 12, nullptr), "has no kernel that serves copy");
    const auto with = [&](const uint16_t *values, std::vector<int64_t> extents, size_t rank) {
        const atalla_operand operand = {values, extents.empty() ? nullptr : extents.data(), rank};
        return atalla_operator(opened, "copy", nullptr, &operand, 1, output.data(), 12, nullptr);
    };
    refused(with(nullptr, {3, 4}, 2), "'data' is a null pointer");
    refused(with(data.data(), {}, 2), "'shape' is a null pointer");
    refused(with(data.data(), {3, 4}, SIZE_MAX), "a tensor cannot have 18446744073709551615 dimensions");
    refused(with(data.data(), {3, -4}, 2), "a tensor of 3x-4 has no elements");
    refused(with(data.data(), {3, 0}, 2), "a tensor of 3x0 has no elements");
    refused(with(data.data(), {int64_t{1} << 40, int64_t{1} << 40}, 2),
            "a tensor cannot be as large as 1099511627776x1099511627776");
    atalla_library_close(opened);
    EXPECT_THAT(library_header(operators(), "small"), HasSubstr("static inline int SMALL_copy(const atalla_library *library, "
                                                                "const char *attributes, const atalla_operand *input_0,"));
}

TEST(CInterface, OpensRunsAndExplains) {
    const std::filesystem::path file = std::filesystem::temp_directory_path() / fmt::format("atalla-{}.atlib", getpid());
    const std::vector<uint8_t> bytes = library_bytes(library());
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    atalla_library *opened = nullptr;
    ASSERT_EQ(atalla_library_open(file.c_str(), &opened), 0) << atalla_library_error();
    std::filesystem::remove(file);
    EXPECT_EQ(atalla_library_kernels(opened), 4u);
    EXPECT_STREQ(atalla_library_machine(opened), "ax01");
    std::vector<uint16_t> a(64 * 64, 3), b(64 * 64), c(64 * 64);
    atalla_gemm_report report;
    EXPECT_EQ(atalla_gemm(opened, 64, 64, 64, a.data(), b.data(), nullptr, c.data(), 0, &report), 0) << atalla_library_error();
    EXPECT_EQ(c[0], 3);
    EXPECT_TRUE(report.exact);
    EXPECT_EQ(report.runs, 1);
    EXPECT_GT(report.cycles, 0);
    EXPECT_EQ(atalla_gemm(opened, 20, 20, 20, a.data(), b.data(), nullptr, c.data(), 0, &report), 0);
    EXPECT_FALSE(report.exact);
    EXPECT_NE(atalla_gemm(opened, 64, 64, 64, a.data(), b.data(), nullptr, c.data(), ATALLA_GEMM_BIAS, nullptr), 0);
    EXPECT_STREQ(atalla_library_error(), "'bias' is a null pointer");
    EXPECT_NE(atalla_gemm(opened, INT64_MAX, INT64_MAX, 64, a.data(), b.data(), nullptr, c.data(), 0, nullptr), 0);
    EXPECT_NE(atalla_gemm(opened, -1, 64, 64, a.data(), b.data(), nullptr, c.data(), 0, nullptr), 0);
    EXPECT_NE(atalla_gemm(opened, 64, 64, 64, nullptr, b.data(), nullptr, c.data(), 0, nullptr), 0);
    EXPECT_NE(atalla_gemm(opened, 64, 64, 64, a.data(), b.data(), nullptr, c.data(), 8, nullptr), 0);
    atalla_library_close(opened);
    atalla_library_close(nullptr);
    EXPECT_NE(atalla_library_open("/nowhere", &opened), 0);
    EXPECT_THAT(atalla_library_error(), HasSubstr("/nowhere"));
    EXPECT_EQ(opened, nullptr);
    EXPECT_NE(atalla_library_open(nullptr, &opened), 0);
    EXPECT_NE(atalla_library_open("/nowhere", nullptr), 0);
    EXPECT_EQ(atalla_library_kernels(nullptr), 0u);
    EXPECT_STREQ(atalla_library_machine(nullptr), "");
}

}  // namespace
}  // namespace atalla
