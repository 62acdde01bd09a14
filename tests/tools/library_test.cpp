// atalla-library from outside, with kernels that were tuned: what it writes, verifies and refuses.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/tools/tool_fixture.h"

namespace atalla {
namespace {

using testing::HasSubstr;

class Library : public testing_tools::Tool {
protected:
    Output library(const std::string &arguments) const { return run(ATALLA_LIBRARY_TOOL, arguments); }
    void tune(const std::string &shape) const {
        const Output output = run(ATALLA_TUNE_TOOL, "--op gemm --shape " + shape + " --budget 4 --quiet");
        ASSERT_EQ(output.status, 0) << output.error;
    }
};

TEST_F(Library, BuildsListsVerifiesAndCompares) {
    tune("32x32x32");
    tune("16x48x64");
    tune("64x64x64");  // large enough that its tensors start in the middle of pages
    Output output = library("build -o one.atlib");
    ASSERT_EQ(output.status, 0) << output.error;
    EXPECT_THAT(output.out, HasSubstr("one.atlib: 3 kernels for ax01"));
    EXPECT_THAT(read("one.h"), HasSubstr("#define ONE_KERNELS 3"));
    ASSERT_EQ(library("build -o two.atlib").status, 0);
    EXPECT_EQ(read("one.atlib"), read("two.atlib")) << "the same database gives the same bytes";
    EXPECT_THAT(library("list one.atlib").out, HasSubstr("% of bound"));
    output = library("verify one.atlib");
    EXPECT_EQ(output.status, 0) << output.out << output.error;
    EXPECT_THAT(output.out, HasSubstr("3 kernels run on random and special values: 3 give"));
    EXPECT_EQ(library("diff one.atlib two.atlib").status, 0);
    tune("8x8x8");
    ASSERT_EQ(library("build -o two.atlib").status, 0);
    output = library("diff one.atlib two.atlib");
    EXPECT_EQ(output.status, 1);
    EXPECT_THAT(output.out, testing::StartsWith("+ gemm"));
}

TEST_F(Library, WhatIsMissingIsNamed) {
    write(
        "shapes.json",
        R"({"model": "m", "source": "s", "gemms": [{"name": "a", "m": 32, "n": 32, "k": 32, "b": "nk"}, {"name": "b", "m": 40, "n": 32, "k": 32, "b": "nk"}]})");
    EXPECT_THAT(library("build -o x.atlib").error, HasSubstr("there is no database"));
    tune("32x32x32");
    Output output = library("build --shapes shapes.json -o x.atlib");
    EXPECT_EQ(output.status, 1);
    EXPECT_THAT(output.error, HasSubstr("1 of 2 kernels are missing"));
    EXPECT_THAT(output.error, HasSubstr("gemm 40x32x32: not tuned on ax01"));
    EXPECT_FALSE(std::filesystem::exists(file("x.atlib")));
    output = library("build --shapes shapes.json -o x.atlib --skip-missing");
    EXPECT_EQ(output.status, 0) << output.error;
    EXPECT_THAT(output.out, HasSubstr("left out: gemm 40x32x32"));
    EXPECT_THAT(library("build --machine fsim -o y.atlib").error, HasSubstr("no winner to put into a library for fsim"));
    EXPECT_THAT(library("list shapes.json").error, HasSubstr("shapes.json: not a kernel library"));
    EXPECT_EQ(library("build -o /nowhere/y.atlib").status, 1);
    ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
    EXPECT_THAT(library("list none.atlib").error, HasSubstr("none.atlib: cannot be read: No such file"));
    for (const char *other : {".", "pipe"})
        EXPECT_THAT(library("list " + std::string(other)).error,
                    HasSubstr(std::string(other) + ": a kernel library is a regular file"));
}

TEST_F(Library, AStaleWinnerIsNamedAndLeftOut) {
    tune("32x32x32");
    ASSERT_EQ(library("build -o now.atlib").status, 0);
    // The same winner, as if another compiler had made it.
    std::string rows = run(ATALLA_DB_TOOL, "export").out;
    const std::string name = "\"compiler\":\"";
    for (size_t at = rows.find(name); at != std::string::npos; at = rows.find(name, at + 1))
        rows.replace(at + name.size(), 10, "0123456789");
    write("old.jsonl", rows);
    ASSERT_EQ(run(ATALLA_DB_TOOL, "--db old.db merge old.jsonl").status, 0);
    Output output = library("build --db old.db -o old.atlib");
    EXPECT_EQ(output.status, 1);
    EXPECT_THAT(output.error, HasSubstr("gemm 32x32x32: the winner is stale, made by compiler 0123456789"));
    EXPECT_FALSE(std::filesystem::exists(file("old.atlib")));
    // Beside one of this compiler it does not matter.
    ASSERT_EQ(run(ATALLA_DB_TOOL, "merge old.jsonl").status, 0);
    EXPECT_EQ(library("build -o both.atlib").status, 0);
    EXPECT_EQ(read("both.atlib"), read("now.atlib"));
}

}  // namespace
}  // namespace atalla
