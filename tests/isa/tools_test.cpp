// The commands atalla-asm and atalla-disasm, run as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/isa_document.h"
#include "tests/isa/test_paths.h"
#include "tests/support/shell.h"

namespace atalla {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Tools : public testing::Test {
protected:
    // Runs a command line in the test's folder.
    Output run(const std::string &command) { return run_shell(command, folder_.path()); }

    void write(const std::string &name, const std::string &text) { std::ofstream(folder_.path() / name) << text; }
    std::string read(const std::string &name) { return read_text(folder_.path() / name); }

    const std::string asm_ = ATALLA_ASM;
    const std::string disasm_ = ATALLA_DISASM;

private:
    TemporaryFolder folder_;
};

TEST_F(Tools, RoundTripAProgram) {
    write("a.s", "main: { addi.s x1, x0, 1 ; lw.s x2, 0(x3) }\nhalt\n.data\n10: 20\n");
    EXPECT_EQ(run(asm_ + " a.s -o a.in --machine ax01").status, 0);
    EXPECT_EQ(read("a.in"),
              "00000000: 0000800096 0000018129 0000000031 0000000031\n"
              "00000014: 0000000032 0000000031 0000000031 0000000031\n\n.data\n\n00000010: 00000020\n");
    EXPECT_EQ(run(disasm_ + " a.in -o b.s").status, 0);
    EXPECT_EQ(run(asm_ + " b.s").out, read("a.in"));
    EXPECT_THAT(run(asm_ + " a.s --comments").out, HasSubstr(" # halt.s\n"));
}

TEST_F(Tools, PrintTheInstructionSet) { EXPECT_EQ(run(disasm_ + " --table").out, isa_document()); }

TEST_F(Tools, FailWithOneSentence) {
    const auto expect_failure = [&](const std::string &command, const std::string &message) {
        const Output outcome = run(command);
        EXPECT_EQ(outcome.status, 1) << command;
        EXPECT_EQ(outcome.out, "") << command;
        EXPECT_THAT(outcome.error, HasSubstr(message)) << command;
        EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    };
    write("bad.s", "nop.s\nadd.s x1\n");
    write("alu.s", "nop.s\n{ add.s x1, x0, x0 ; jal x2, 0 }\n");
    write("bad.in", "0: zz\n");
    expect_failure(asm_, "FILE is required; see atalla-asm --help");
    expect_failure(asm_ + " bad.s", "atalla-asm: bad.s:2:1: add.s has 1 operand");
    expect_failure(asm_ + " none.s", "atalla-asm: none.s: cannot be read: No such file");
    expect_failure(asm_ + " .", "atalla-asm: .: cannot be read: Is a directory");
    expect_failure(asm_ + " alu.s --machine ax01",
                   "atalla-asm: alu.s:2: a packet breaks the contract of ax01: slot 0 (add.s) and slot 1 (jal) both need EX1");
    expect_failure(asm_ + " alu.s --machine nothing", "nothing");
    expect_failure(disasm_, "name a .in file, or ask for --table");
    expect_failure(disasm_ + " bad.in", "atalla-disasm: bad.in:1:4: 'z' is not a hexadecimal digit");
    expect_failure(disasm_ + " none.in", "atalla-disasm: none.in: cannot be read: No such file");
    expect_failure(disasm_ + " bad.in --table", "excludes");
}

TEST_F(Tools, ShowHelpWithAnExample) {
    for (const std::string &tool : {asm_, disasm_}) {
        const Output outcome = run(tool + " --help");
        EXPECT_EQ(outcome.status, 0);
        EXPECT_THAT(outcome.out, HasSubstr("Example"));
    }
}

}  // namespace
}  // namespace atalla
