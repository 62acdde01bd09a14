// The command atalla-simulate, run as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "isa/assembler.h"
#include "isa/in_file.h"
#include "tests/isa/test_paths.h"
#include "tests/support/shell.h"

namespace atalla {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class SimulateTool : public testing::Test {
protected:
    // Runs the command in the test's folder.
    Output run(const std::string &arguments) { return run_shell("'" ATALLA_SIMULATE "' " + arguments, folder_.path()); }
    void write_program(const std::string &name, const std::string &text) { write_in(assemble(text), folder_.path() / name); }
    void write(const std::string &name, const std::string &text) { std::ofstream(folder_.path() / name) << text; }
    std::string read(const std::string &name) { return read_text(folder_.path() / name); }

    void expect_failure(const std::string &arguments, const std::string &message) {
        const Output outcome = run(arguments);
        EXPECT_EQ(outcome.status, 1) << arguments;
        EXPECT_EQ(outcome.out, "") << arguments;
        EXPECT_THAT(outcome.error, StartsWith("atalla-simulate: ")) << arguments;
        EXPECT_THAT(outcome.error, HasSubstr(message)) << arguments;
        EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    }

private:
    TemporaryFolder folder_;
};

TEST_F(SimulateTool, PrintsCountersAndDumpsTheState) {
    write_program("a.in", "addi.s x1, x0, 5\nsw.s x1, 16(x0)\nhalt.s\n");
    const Output on_ax01 = run("a.in --dump-state a.state");
    EXPECT_EQ(on_ax01.status, 0) << on_ax01.error;
    EXPECT_THAT(on_ax01.out, StartsWith("a.in on ax01\ncycles "));
    EXPECT_THAT(on_ax01.out, HasSubstr("stalls "));
    EXPECT_EQ(read("a.state"), "x 1 00000005\nm 0 FFFFFFFF\nd 00000010 00000005\npackets 3\n");

    const Output on_fsim = run("a.in --machine fsim --dump-state a.state");
    EXPECT_THAT(on_fsim.out, StartsWith("a.in on fsim\ncycles                             3\n"));
    EXPECT_EQ(read("a.state"), "x 1 00000005\nx 2 00002000\nx 33 00003000\nm 0 FFFFFFFF\nd 00000010 00000005\npackets 3\n");
}

TEST_F(SimulateTool, PrintsJson) {
    write_program("a.in", "halt.s\n");
    const nlohmann::json json = nlohmann::json::parse(run("a.in --machine fsim --json").out);
    EXPECT_EQ(json["machine"], "fsim");
    EXPECT_EQ(json["fingerprint"].get<std::string>().size(), 16u);
    EXPECT_EQ(json["ok"], true);
    EXPECT_EQ(json["counters"]["cycles"], 1);
}

TEST_F(SimulateTool, TakesAMachineFile) {
    write_program("a.in", "halt.s\n");
    const Output outcome = run("a.in --machine '" + source_path("machines/ax01-psum.json").string() + "'");
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    EXPECT_THAT(outcome.out, StartsWith("a.in on ax01-psum\n"));
}

TEST_F(SimulateTool, RunsTheOlderDialect) {
    write("old.in", "00000000: 000000508096 00000000002F 00000000002F 000000000030\n");  // addi.s x1, x1, 1 ; halt.s
    const Output outcome = run("old.in --dump-state old.state");
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    EXPECT_THAT(outcome.out, StartsWith("old.in on fsim\n"));
    EXPECT_THAT(read("old.state"), HasSubstr("packets 1\n"));
    EXPECT_EQ(run("old.in --machine fsim").status, 0);
    expect_failure("old.in --machine ax01",
                   "'old.in' is a program of the older A48 dialect, which ax01 cannot run: use --machine fsim");
}

TEST_F(SimulateTool, RefusalsAreFailures) {
    write_program("bad.in", "addi.s x1, x0, 5\ndiv.s x2, x1, x0\nhalt.s\n");
    write_program("loop.in", "beq.s x0, x0, 0, 0\n");
    expect_failure("bad.in", "packet 0x00000014 (line 2): division by zero (rule 50)");
    expect_failure("bad.in --machine fsim --dump-state bad.state", "division by zero (rule isa 4.2)");
    EXPECT_THAT(read("bad.state"), StartsWith("x 1 00000005\n"));  // the state where it stopped
    expect_failure("loop.in --step-limit 100 --machine fsim", "no halt within 100 packets");

    const Output outcome = run("bad.in --json");
    EXPECT_EQ(outcome.status, 1);
    const nlohmann::json json = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(json["ok"], false);
    EXPECT_EQ(json["rule"], "50");
}

TEST_F(SimulateTool, BadInputIsOneSentence) {
    write_program("a.in", "halt.s\n");
    write("broken.in", "00000000: 12zz\n");
    expect_failure("absent.in", "absent.in: cannot be read: No such file or directory");
    expect_failure(".", ".: cannot be read: Is a directory");
    expect_failure("''", "is given an empty text: give it a value, or leave it out");
    expect_failure("broken.in", "broken.in:1:");
    expect_failure("a.in --machine ax02", "ax01");
    expect_failure("a.in --dump-state no/such/folder/state", "cannot write the state to 'no/such/folder/state'");
    expect_failure("", "PROGRAM is required");
    expect_failure("a.in --fast", "--fast");
    EXPECT_THAT(run("a.in > /dev/full").error, HasSubstr("cannot write to standard output"));
}

TEST_F(SimulateTool, Help) {
    const Output outcome = run("--help");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Example:\n"));
}

TEST_F(SimulateTool, BothModelsGiveTheSameCounters) {
    write_program("a.in", "addi.s x2, x0, 9\nloop: mul.vv v1, v2, v3, m0\nblt.s x1, x2, loop, 1\nhalt.s\n");
    const Output fast = run("a.in --json"), reference = run("a.in --json --model reference"),
                 both = run("a.in --json --model both");
    EXPECT_EQ(fast.status, 0) << fast.error;
    EXPECT_EQ(reference.status, 0) << reference.error;
    EXPECT_EQ(fast.out, reference.out);
    EXPECT_EQ(both.out, fast.out) << both.error;
    expect_failure("a.in --machine fsim --model reference",
                   "machine 'fsim' has no timing, so it has no timing model to choose");
}

TEST_F(SimulateTool, RunsSeveralPrograms) {
    write_program("a.in", "addi.s x1, x0, 5\nhalt.s\n");
    write_program("b.in", "divi.s x1, x0, 0\n");
    const Output two = run("a.in a.in --json");
    ASSERT_EQ(two.status, 0) << two.error;
    const auto list = nlohmann::json::parse(two.out);
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0], list[1]);
    EXPECT_EQ(list[0].at("counters").at("packets"), 2);
    const Output refused = run("a.in b.in");
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.out, HasSubstr("b.in (refused)"));
    EXPECT_THAT(refused.error,
                HasSubstr("1 of 2 programs refused; b.in: packet 0x00000000 (line 1): division by zero (rule 50)"));
    expect_failure("a.in b.in --dump-state s", "--dump-state writes the state of one program, but several are given");
    expect_failure("a.in b.in --model both", "--model both compares the models on one program, but several are given");
}

}  // namespace
}  // namespace atalla
