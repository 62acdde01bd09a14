// atalla-ops from outside, and what --help says of an operator.
#include <gmock/gmock.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "generators/registry.h"
#include "tests/tools/tool_fixture.h"

namespace atalla {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Ops : public testing_tools::Tool {
protected:
    Output ops(const std::string &arguments) const { return run(ATALLA_OPS_TOOL, arguments); }
    Output tune(const std::string &arguments) const { return run(ATALLA_TUNE_TOOL, arguments); }
};

TEST_F(Ops, ListsEveryOperatorInColumns) {
    const Output output = ops("");
    EXPECT_EQ(output.status, 0) << output.error;
    std::istringstream text(output.out);
    size_t column = std::string::npos, found = 0;
    for (std::string line; std::getline(text, line);) {
        if (column == std::string::npos) {
            column = line.find("status");
            continue;
        }
        if (!line.starts_with("  ")) continue;
        const std::string name = line.substr(2, line.find(' ', 2) - 2);
        EXPECT_EQ(find_operator(name).name(), name);
        EXPECT_EQ(line.find("not tuned yet"), column) << line;
        found++;
    }
    EXPECT_EQ(found, operators().size());
}

TEST_F(Ops, TellsMachinesAndWhatWasTuned) {
    const json before = json::parse(ops("relu --json").out);
    EXPECT_EQ(before["family"], "pointwise");
    EXPECT_THAT(before["machines"], Contains("ax01"));
    EXPECT_THAT(before["machines"], Contains("fsim"));
    EXPECT_TRUE(before["tuned"].empty());
    ASSERT_EQ(tune("--op relu --shape 8x64 --budget 1 --quiet").status, 0);
    const json tuned = json::parse(ops("relu --json").out)["tuned"]["ax01"];
    EXPECT_EQ(tuned["workloads"], 1);
    EXPECT_GT(tuned["least_share"], 0);
    EXPECT_THAT(ops("relu").out, HasSubstr("runs on"));
}

TEST_F(Ops, RefusesWhatDoesNotExist) {
    const Output output = ops("sofmax");
    EXPECT_EQ(output.status, 1);
    EXPECT_THAT(output.error, HasSubstr("did you mean 'softmax'?"));
}

// `atalla tune --op NAME --help` is about that operator.
TEST_F(Ops, HelpOfEachOperatorHasItsExample) {
    for (const char *name : {"softmax", "conv2d", "gelu", "scaled_dot_product_attention", "cat"}) {
        const Operator &op = find_operator(name);
        const Output output = tune(std::string("--op ") + name + " --help");
        EXPECT_EQ(output.status, 0);
        EXPECT_THAT(output.out, HasSubstr(op.help())) << name;
        EXPECT_THAT(output.out, HasSubstr(example_line(op))) << name;
        for (const WorkloadArgument &argument : op.arguments())
            EXPECT_THAT(output.out, HasSubstr("--" + argument.name)) << name;
    }
    EXPECT_THAT(tune("--op softmax --help").out, Not(HasSubstr("--groups")));
    EXPECT_THAT(tune("--help").out, HasSubstr("--groups"));
    EXPECT_THAT(tune("--op softmax --shape 4x4 --groups 2").error, StartsWith("atalla-tune: softmax"));
}

}  // namespace
}  // namespace atalla
