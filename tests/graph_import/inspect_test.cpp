// The command atalla inspect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/shell.h"
#include "tests/support/source_path.h"

namespace {

// Standard output and error together.
atalla::Output inspect(const std::string &arguments) {
    return atalla::run_shell(ATALLA_INSPECT_TOOL " " + arguments + " 2>&1");
}

const std::string model = atalla::source_path("examples/rpn-tutorial/double.pt2").string();

TEST(InspectTool, PrintsSections) {
    EXPECT_THAT(inspect(model).out, testing::AllOf(testing::HasSubstr("schema 8.20, decomposed export"),
                                                   testing::HasSubstr("call    mul   aten::mul.Tensor  x, 2       f32[]")));
    EXPECT_THAT(inspect(model + " --code").out, testing::HasSubstr("add = aten::add.Tensor(mul, 3)  # f32[]"));
    EXPECT_THAT(inspect(model + " --operators").out, testing::HasSubstr("2 calls of 2 operators"));
    EXPECT_THAT(inspect(model + " --symbols").out, testing::HasSubstr("All sizes are constant."));
    EXPECT_THAT(inspect(model + " --support").out, testing::HasSubstr("0 unsupported"));
    EXPECT_THAT(inspect(model + " --passes --code").out, testing::HasSubstr("aten::add.Tensor(x, x)"));
    EXPECT_THAT(inspect(model + " --skip strength --code").out, testing::HasSubstr("aten::mul.Tensor(x, 2)"));
    EXPECT_THAT(inspect(model + " --dump-after strength").out, testing::HasSubstr("after strength, 1 change:"));
    EXPECT_THAT(inspect("--help").out, testing::HasSubstr("atalla inspect model.pt2 --support"));
}

TEST(InspectTool, WritesSectionsToAFile) {
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "atalla_inspect_sections.txt";
    EXPECT_EQ(inspect(model + " --code -o " + file.string()).out, "");
    std::ifstream stream(file);
    EXPECT_THAT(std::string(std::istreambuf_iterator<char>(stream), {}),
                testing::HasSubstr("add = aten::add.Tensor(mul, 3)  # f32[]"));
    std::filesystem::remove(file);
}

TEST(InspectTool, WritesJson) {
    EXPECT_EQ(nlohmann::json::parse(inspect(model + " --plan --no-fuse --json").out).at("segments"), 1);
    const nlohmann::json json = nlohmann::json::parse(inspect(model + " --json --support").out);
    EXPECT_EQ(json.at("nodes").at(0).at("target"), "aten::mul.Tensor");
    EXPECT_EQ(json.at("inputs").at(0).at("value").at("dtype"), "float32");
    EXPECT_EQ(json.at("support").size(), 2u);
}

TEST(InspectTool, RefusesWithOneSentence) {
    for (const auto &[arguments, message] :
         {std::pair<std::string, std::string>("/nowhere.pt2", "/nowhere.pt2: cannot be read: No such file"),
          {model + " --emit java", "--emit"},
          {model + " --skip strengh", "did you mean 'strength'?"},
          {model + " --dump-after all-of-it", "no pass 'all-of-it'"},
          {model + " --model other", "no model 'other'; there are model"},
          {model + " --emit rpn -o /nowhere/x", "/nowhere/x: cannot be written"},
          {model + " --library /nowhere.so", "/nowhere.so: cannot be loaded"},
          {model + " --precision high", "--precision is an option of the plan: give --plan or --plan-svg, too"},
          {model + " --plan --precision low", "--precision: low not in {standard,high}"},
          {model + " --plan --sizes 3", "--sizes takes NAME=NUMBER,..., not '3'"},
          {model + " --plan --machine ax02", "ax02"},
          {"model.atl --emit mlir", "a compiled model has no graph any more: only --json and -o go with a .atl file"},
          {"", "name a .pt2 or .atl file"}}) {
        const atalla::Output output = inspect(arguments);
        EXPECT_EQ(output.status, 1) << arguments;
        EXPECT_THAT(output.out, testing::HasSubstr(message)) << arguments;
        EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 1) << output.out;
    }
}

TEST(InspectTool, TakesAUsersLibrary) {
    const std::string library = " --library " ATALLA_USER_LIBRARY;
    const atalla::Output support = inspect(model + " --support" + library);
    EXPECT_EQ(support.status, 0) << support.out;
    EXPECT_THAT(support.out, testing::HasSubstr("aten::mul.Tensor  mine"));
    EXPECT_THAT(inspect("--skip strength" + library + " " + model + " --code").out,
                testing::HasSubstr("aten::mul.Tensor(x, 2)"));
    EXPECT_THAT(inspect(library + " --list-passes").out, testing::HasSubstr("my-pass       counts the calls"));
    EXPECT_THAT(inspect(model + " --dump-after my-pass" + library).out, testing::HasSubstr("after my-pass, 2 changes:"));
}

}  // namespace
