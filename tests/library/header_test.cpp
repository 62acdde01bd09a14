// The header that a library comes with, as a C program uses it, beside that of the runtime: compiled as strict C11 and run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "library/kernel_library.h"
#include "tests/isa/test_paths.h"
#include "tests/library/hand_written.h"

namespace atalla {
namespace {

using testing::HasSubstr;

const char *program = R"(#include <stdio.h>
#include "atalla.h"
#include "atalla_kernels.h"
#include "small.h"

#define ONE(op, workload, cycles, bound_cycles) + ((cycles) >= (bound_cycles) && sizeof(op) > 1 && sizeof(workload) > 2)
#define FAIL(what) return fprintf(stderr, "%s: %s\n", what, atalla_library_error()), 1

int main(int argc, char **argv) {
    atalla_library *library;
    if (argc != 2 || atalla_library_open(argv[1], &library)) FAIL("open");
    if (atalla_library_kernels(library) != SMALL_KERNELS || (0 SMALL_FOR_EACH(ONE)) != SMALL_KERNELS) FAIL("kernels");
    const uint16_t data[] = {11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22};
    const int64_t shape[] = {3, 4};
    const atalla_operand x = {data, shape, 2};
    uint16_t output[12];
    atalla_operator_report report;
    if (SMALL_copy(library, NULL, &x, output, 12, &report)) FAIL("copy");
    for (int i = 0; i < 12; i++)
        if (output[i] != data[i]) FAIL("result");
    if (SMALL_copy(library, NULL, &x, output, 11, NULL) == 0) FAIL("too little room");
    printf("%s, %d runs, machine %s, compiler %s\n", SMALL_MACHINE_FINGERPRINT, (int)report.runs, atalla_library_machine(library), SMALL_COMPILER_FINGERPRINT);
    atalla_library_close(library);
    return 0;
}
)";

TEST(LibraryHeader, IsStrictCAndItsFunctionsRun) {
    const TemporaryFolder folder;
    const KernelLibrary library = hand_written::operators();
    const std::vector<uint8_t> bytes = library_bytes(library);
    std::ofstream(folder.path() / "small.atlib", std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::ofstream(folder.path() / "small.h") << library_header(library, "small");
    std::ofstream(folder.path() / "main.c") << program;
    const auto shell = [&](const std::string &command) {
        const int status = std::system(fmt::format("cd '{}' && {} > log 2>&1", folder.path().string(), command).c_str());
        return std::pair(status, read_text(folder.path() / "log"));
    };
    const auto [compiled, complaints] = shell(ATALLA_COMPILE_C " main.c -o main " ATALLA_LINK_KERNELS);
    ASSERT_EQ(compiled, 0) << complaints;
    EXPECT_EQ(complaints, "");
    const auto [status, text] = shell("./main small.atlib");
    EXPECT_EQ(status, 0) << text;
    EXPECT_EQ(text, fmt::format("{}, 2 runs, machine ax01, compiler compiler-1\n", library.machine.fingerprint()));
}

TEST(LibraryHeader, AnyFileNameGivesIdentifiers) {
    const KernelLibrary library = hand_written::operators();
    EXPECT_THAT(library_header(library, "7b-layer"), HasSubstr("#define ATLIB_7B_LAYER_KERNELS"));
    EXPECT_THAT(library_header(library, ""), HasSubstr("#define ATLIB_KERNELS"));
}

}  // namespace
}  // namespace atalla
