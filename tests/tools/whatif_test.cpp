// atalla-whatif from outside: grids, refusals, fingerprints.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "db/database.h"
#include "tests/support/source_path.h"
#include "tests/tools/tool_fixture.h"

namespace atalla::testing_tools {
namespace {

using testing::HasSubstr;

class WhatIfTool : public Tool {
protected:
    Output whatif(const std::string &arguments) const { return run(ATALLA_WHATIF_TOOL, arguments); }
    nlohmann::json rows(const std::string &arguments) const {
        const Output output = whatif(arguments + " --json --quiet");
        EXPECT_EQ(output.status, 0) << output.error;
        return nlohmann::json::parse(output.out).at("rows");
    }
    std::string error_of(const std::string &arguments) const {
        const Output output = whatif(arguments);
        EXPECT_EQ(output.status, 1) << arguments;
        EXPECT_EQ(output.out, "");
        return output.error;
    }
    const std::string program_ = source_path("tests/tools/profiled.s").string();
};

TEST_F(WhatIfTool, RunsTheGridOfAProgram) {
    const nlohmann::json list = rows(program_ + " --set branch.penalty=0 --sweep vec.add_L=5,9 --sweep sa.L=46,50");
    ASSERT_EQ(list.size(), 4u);
    // Each of the 32 rows waits for its row of the array and then for its sum.
    const auto cycles = [&](size_t row) { return list[row].at("cycles").get<int64_t>(); };
    EXPECT_EQ(cycles(1) - cycles(0), 4 * 32);
    EXPECT_EQ(cycles(2) - cycles(0), 4 * 32);
    EXPECT_EQ(cycles(3) - cycles(0), 8 * 32);
    EXPECT_EQ(list[3].at("settings").at("sa.L"), 50);
    EXPECT_EQ(list[3].at("machine"), "ax01 branch.penalty=0 vec.add_L=9 sa.L=50");
}

TEST_F(WhatIfTool, KeepsTheScheduleOrTunesForEach) {
    const nlohmann::json kept = rows("--op gemm --shape 64x64x128 --sweep vec.ii=2,3 --plot plot.svg");
    ASSERT_EQ(kept.size(), 2u);
    EXPECT_EQ(kept[0].at("schedule"), kept[1].at("schedule"));
    EXPECT_LE(kept[0].at("cycles"), kept[1].at("cycles"));
    EXPECT_GE(kept[0].at("cycles"), kept[0].at("bound_cycles"));
    EXPECT_THAT(read("plot.svg"), testing::StartsWith("<svg "));

    const nlohmann::json tuned = rows("--op gemm --shape 64x64x128 --sweep vec.ii=2,3 --retune");
    EXPECT_LE(tuned[0].at("cycles"), kept[0].at("cycles"));
    EXPECT_EQ(tuned[1].at("cycles"), kept[1].at("cycles")) << "the machine as it is";
    // What was tuned for another machine is kept apart.
    const Database database(file("x.db"), Database::Access::ReadOnly);
    std::set<std::string> machines;
    for (const KeySummary &key : database.list()) {
        machines.insert(key.key.machine);
        ASSERT_TRUE(key.winner);
    }
    EXPECT_EQ(machines, (std::set<std::string>{tuned[0].at("fingerprint"), tuned[1].at("fingerprint")}));
}

TEST_F(WhatIfTool, AMachineThatCannotRunItIsARowWithTheReason) {
    const nlohmann::json list = rows("--op gemm --shape 64x64x64 --sweep pad.bytes=64,524288");
    EXPECT_TRUE(list[0].contains("problem")) << list[0];
    EXPECT_FALSE(list[0].at("problem").get<std::string>().empty());
    EXPECT_GT(list[1].at("cycles"), 0);
    EXPECT_THAT(
        error_of("--op gemm --shape 64x64x64 --set pad.bytes=64 --quiet --point " + list[1].at("schedule").get<std::string>()),
        HasSubstr("gemm 64x64x64 runs on none of the machines; on ax01 pad.bytes=64: "));
}

TEST_F(WhatIfTool, PadsThatDoNotDivideATileAreStillAMachine) {
    EXPECT_GT(rows("--op gemm --shape 64x64x64 --sweep pad.count=3 --retune")[0].at("cycles"), 0);
}

TEST_F(WhatIfTool, NamesRetuneWhereTheScheduleIsNone) {
    EXPECT_THAT(error_of("--op gemm --shape 64x64x64 --sweep pad.count=3 --quiet"),
                HasSubstr("the schedule kept is none for this machine (--retune looks for one that is): weight_unroll = "));
}

TEST_F(WhatIfTool, HighPrecisionIsTheOrderOfSumsThatKeepsMoreDigits) {
    const nlohmann::json high = rows("--op gemm --shape 32x32x1024 --precision high"),
                         blocked = rows("--op gemm --shape 32x32x1024 --sums blocked");
    EXPECT_EQ(high, blocked);
    EXPECT_NE(high, rows("--op gemm --shape 32x32x1024 --precision standard"));
    EXPECT_THAT(error_of("--op relu --precision high --quiet"),
                HasSubstr("relu adds in one order only: --precision high is for matrix products"));
    EXPECT_THAT(error_of(program_ + " --precision high"), HasSubstr("give a program file or an operator, not both"));
}

TEST_F(WhatIfTool, FewerRegisterBanksAreStillAMachine) {
    for (const nlohmann::json &row :
         rows("--op gemm --shape 32x32x32 --sweep regs.scalar_banks=1,2 --sweep regs.vector_banks=1,2"))
        EXPECT_GT(row.at("cycles"), 0) << row;
}

TEST_F(WhatIfTool, TriesEveryPlausibleValue) {
    const Output output = whatif(program_ + " --sensitivity");
    ASSERT_EQ(output.status, 0) << output.error;
    EXPECT_THAT(output.out, HasSubstr("| `sa.L` | 46 | 56 |"));
    EXPECT_THAT(output.out, HasSubstr("| `vec.exp_L` | 6 | 14 |"));
    EXPECT_THAT(output.out, HasSubstr("| `ex4.ii` | 4 | 8 |")) << "where none is plausible, the double";
    EXPECT_THAT(output.out, HasSubstr("| +0.00 % |"));
}

TEST_F(WhatIfTool, SaysWhatIsWrong) {
    EXPECT_THAT(error_of(program_ + " --sweep vec.ij=2"), HasSubstr("vec.ij is not a machine parameter; did you mean vec.ii?"));
    EXPECT_THAT(error_of(program_ + " --sweep vec.ii=5..2"), HasSubstr("the sweep vec.ii=5..2 is empty: 5 is larger than 2"));
    EXPECT_THAT(error_of(program_ + " --sweep vec.ii="), HasSubstr("the sweep over vec.ii has no values"));
    EXPECT_THAT(error_of(program_ + " --set sdma.beat=24"), HasSubstr("sdma.beat is 24, but it must be a power of two"));
    EXPECT_THAT(error_of(program_ + " --set vec.ii=0"), HasSubstr("vec.ii cannot be '0': it must be 1..4096 cycles"));
    EXPECT_THAT(error_of(""), HasSubstr("nothing to run: give a program file, or an operator with --op"));
    EXPECT_THAT(error_of(program_ + " --op gemm"), HasSubstr("give a program file or an operator, not both"));
    EXPECT_THAT(error_of(program_ + " --shape 32x32x32"), HasSubstr("give a program file or an operator, not both"));
    EXPECT_THAT(error_of(program_ + " --retune"), HasSubstr("--retune needs an operator: a program file has no schedule"));
    EXPECT_THAT(error_of(program_ + " --point rows=1"), HasSubstr("--point needs an operator: a program file has no schedule"));
    EXPECT_THAT(error_of("--op gemm --retune --point rows=1"),
                HasSubstr("--retune looks for a schedule of each machine, and --point gives one"));
    EXPECT_THAT(error_of(program_ + " --sensitivity --sweep vec.ii=1"),
                HasSubstr("--sensitivity changes one parameter after the other"));
    EXPECT_THAT(error_of(program_ + " --plot no/such/folder.svg"), HasSubstr("cannot write 'no/such/folder.svg'"));
    EXPECT_THAT(error_of("missing.in"), HasSubstr("missing.in"));
}

}  // namespace
}  // namespace atalla::testing_tools
