// atalla-profile from outside: what it prints, and what it says about bad input.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/source_path.h"
#include "tests/tools/tool_fixture.h"

namespace atalla::testing_tools {
namespace {

using testing::HasSubstr;

class ProfileTool : public Tool {
protected:
    Output profile(const std::string &arguments) const { return run(ATALLA_PROFILE_TOOL, arguments); }
    std::string error_of(const std::string &arguments) const {
        const Output output = profile(arguments);
        EXPECT_EQ(output.status, 1) << arguments;
        EXPECT_EQ(output.out, "");
        return output.error;
    }
    const std::string program_ = source_path("tests/tools/profiled.s").string();
};

TEST_F(ProfileTool, TellsWhereTheCyclesOfAWinnerWent) {
    const Output output = profile("--op gemm --shape 32x32x32 --quiet --json");
    ASSERT_EQ(output.status, 0) << output.error;
    const nlohmann::json json = nlohmann::json::parse(output.out);
    uint64_t cycles = 0;
    for (const auto &part : json.at("by_func")) cycles += part.at("cycles").get<uint64_t>();
    EXPECT_EQ(cycles, json.at("counters").at("cycles"));
    EXPECT_EQ(json.at("hottest").size(), 10u);
    EXPECT_EQ(json.at("roofline").at("of"), "array");
    EXPECT_EQ(json.at("roofline").at("flops"), 2 * 32 * 32 * 32);
}

TEST_F(ProfileTool, PrintsTables) {
    const Output output = profile(program_);
    ASSERT_EQ(output.status, 0) << output.error;
    for (const char *part : {"bound by latency (data)", "roofline: ", "where the cycles went", "hottest packets",
                             "add.vv v5, v4, v3, m0    # rows"})
        EXPECT_THAT(output.out, HasSubstr(part));
}

TEST_F(ProfileTool, CountsPacketsOfAMachineWithoutTiming) {
    write("one.s", "addi.s x1, x0, 1\nhalt.s\n");
    const Output output = profile("one.s --machine fsim");
    EXPECT_EQ(output.status, 0) << output.error;
    EXPECT_THAT(output.out, HasSubstr("2 packets"));
    EXPECT_THAT(error_of("one.s --machine fsim --trace t"),
                HasSubstr("machine 'fsim' has no timing, so there is nothing to trace"));
}

TEST_F(ProfileTool, ShowsACompiledModelByNode) {
    const std::string source = source_path("examples/rpn-tutorial/double.pt2").string();
    ASSERT_EQ(run(ATALLA_COMPILE_TOOL, source + " -o small.atl --quiet").status, 0);
    ASSERT_EQ(run(ATALLA_COMPILE_TOOL, "-o host.atl --quiet --on-host aten::add.Tensor " + source).status, 0);
    const Output output = profile("small.atl --json --trace small.pftrace --html small.html --retire-log small.log");
    ASSERT_EQ(output.status, 0) << output.error;
    const nlohmann::json json = nlohmann::json::parse(output.out);
    const auto cycles_of = [&](const char *table) {
        uint64_t cycles = 0;
        for (const auto &part : json.at(table)) cycles += part.at("cycles").get<uint64_t>();
        return cycles;
    };
    EXPECT_GT(json.at("counters").at("cycles"), 0);
    EXPECT_EQ(cycles_of("by_func"), json.at("counters").at("cycles"));
    EXPECT_EQ(cycles_of("by_node"), json.at("counters").at("cycles"));
    EXPECT_THAT(read("small.log"), HasSubstr(" halt.s"));
    EXPECT_GT(std::filesystem::file_size(file("small.pftrace")), 0u);
    EXPECT_THAT(read("small.html"), HasSubstr("<html"));
    EXPECT_THAT(error_of("small.atl --machine ax01"), HasSubstr("a compiled model has its own machine: leave --machine out"));
    EXPECT_THAT(error_of("host.atl"), HasSubstr("nothing of 'host.atl' runs on the accelerator"));
    EXPECT_THAT(error_of("--input nowhere=x.npy small.atl"), HasSubstr("the model has no input 'nowhere'; it has"));
    EXPECT_THAT(error_of(program_ + " --input x.npy"), HasSubstr("--input is for a compiled model (.atl)"));
}

TEST_F(ProfileTool, SaysWhatIsWrong) {
    EXPECT_THAT(error_of(""), HasSubstr("nothing to profile: give a program file, or an operator with --op"));
    EXPECT_THAT(error_of(program_ + " --op gemm"), HasSubstr("give a program file or an operator, not both"));
    EXPECT_THAT(error_of(program_ + " --window 20..10"),
                HasSubstr("--window must be two cycles, the smaller one first, such as 1000..2000, not '20..10'"));
    EXPECT_THAT(error_of(program_ + " --trace t.pftrace --window 900000..900001"),
                HasSubstr("--window begins at cycle 900000, but the run ends after "));
    EXPECT_THAT(error_of("missing.in"), HasSubstr("missing.in"));
    for (const std::string option : {"--trace", "--html", "--retire-log"})
        EXPECT_THAT(error_of(program_ + " " + option + " no/such/folder"),
                    HasSubstr("cannot write 'no/such/folder': check that its folder exists"));
    EXPECT_THAT(error_of("--op gemm --shape 4096x4096x4096 --trace no/such/folder"), HasSubstr("cannot write 'no/such/folder'"))
        << "before it tunes";
    EXPECT_THAT(error_of(program_ + " --trace /"), HasSubstr("cannot write '/': it is a folder"));
    write("wild.s", "jal x0, 4000\n");
    EXPECT_THAT(error_of("wild.s"), HasSubstr("there is no packet at address"));
}

TEST_F(ProfileTool, ShowsAWindow) {
    const Output output = profile(program_ + " --trace whole --quiet");
    ASSERT_EQ(output.status, 0) << output.error;
    ASSERT_EQ(profile(program_ + " --trace part --window 1000..1100 --quiet").status, 0);
    EXPECT_LT(std::filesystem::file_size(file("part")), std::filesystem::file_size(file("whole")) / 4);
}

}  // namespace
}  // namespace atalla::testing_tools
