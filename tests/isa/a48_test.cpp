#include "isa/a48.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "isa/error.h"
#include "tests/isa/test_paths.h"
#include "tests/support/error_of.h"

namespace atalla::a48 {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Slot words of upstream's assembler and what they hold.
struct Golden {
    const char *assembly;
    uint64_t slot;
    Instruction expected;
};
const Golden goldens[] = {
    {"addi.s $1,$0,-1", 0x0007FF800096, {.op = Opcode::addi_s, .d = 1, .imm = -1}},
    {"lw.s $1,4($2)", 0x0000020100A9, {.op = Opcode::lw_s, .d = 1, .a = 2, .imm = 4}},
    {"sw.s $1,-4($2)", 0x0007FE0100AA, {.op = Opcode::sw_s, .d = 1, .a = 2, .imm = -4}},
    {"lui.s $1,0xFFFFF", 0x0007FFFF80AE, {.op = Opcode::lui_s, .d = 1, .imm = 0xFFFFF}},
    {"jal $1,48", 0x0000001800AB, {.op = Opcode::jal, .d = 1, .imm = 48}},
    {"beq.s $1,$2,48,3", 0x0006010081A3, {.op = Opcode::beq_s, .a = 1, .b = 2, .aux = 3, .imm = 48}},
    {"beq.s $1,$2,-24,1", 0x00FD0100C0A3, {.op = Opcode::beq_s, .a = 1, .b = 2, .aux = 1, .imm = -24}},
    {"jalr $0,$1,0", 0x00000000802C, {.op = Opcode::jalr, .a = 1}},
    {"add.vv $1,$2,$3,0", 0x0000018100B2, {.op = Opcode::add_vv, .d = 1, .a = 2, .b = 3}},
    {"add.vs $1,$2,$3,1", 0x0000818100D0, {.op = Opcode::add_vs, .d = 1, .a = 2, .b = 3, .mask = 1}},
    {"addi.vi $1,$2,1.0,0", 0x01F8400100BE, {.op = Opcode::addi_vi, .d = 1, .a = 2, .imm = 0x3F80}},
    {"shift.vi $1,$2,33,0", 0x0000108100C5, {.op = Opcode::shift_vi, .d = 1, .a = 2, .imm = 33}},
    {"lw.vi $1,$2,0,0xf", 0x0007800100C6, {.op = Opcode::lw_vi, .d = 1, .a = 2, .mask = 15}},
    {"rsum.vi $1,$2,64,1", 0x0000A00100C7, {.op = Opcode::rsum_vi, .d = 1, .a = 2, .mask = 1, .imm = 64}},
    {"mgt.mvv 2,$4,$5,1", 0x00000828213A, {.op = Opcode::mgt_mvv, .d = 2, .a = 4, .b = 5, .mask = 1}},
    {"mlt.mvs 2,$4,$5,1", 0x000008282155, {.op = Opcode::mlt_mvs, .d = 2, .a = 4, .b = 5, .mask = 1}},
    {"vreg.ld $10,$3,31,31,0,1,5",
     0x002DFF81854D,
     {.op = Opcode::vreg_ld, .d = 10, .a = 3, .rows = 31, .cols = 31, .sid = 0, .rc = 1, .rc_id = 5}},
    {"vreg.ld $10,$3,31,31,1,1,$7",
     0x013FFF81854D,
     {.op = Opcode::vreg_ld, .d = 10, .a = 3, .rows = 31, .cols = 31, .sid = 1, .rc = 1, .rc_id = 7, .register_form = true}},
    {"scpad.ld $1,$2,31,31,1", 0x0003FF8100D8, {.op = Opcode::scpad_ld, .d = 1, .a = 2, .rows = 31, .cols = 31, .sid = 1}},
    {"scpad.ld $1,$2,$3", 0x0004018100D8, {.op = Opcode::scpad_ld, .d = 1, .a = 2, .b = 3, .register_form = true}},
    {"vmov.vts $1,$2,31", 0x00000F8100CF, {.op = Opcode::vmov_vts, .d = 1, .a = 2, .imm = 31}},
    {"mv.mts $1,3", 0x0000000180CB, {.op = Opcode::mv_mts, .d = 1, .a = 3}},
    {"mv.stm 3,$1", 0x0000000081CC, {.op = Opcode::mv_stm, .d = 3, .a = 1}},
    {"scpad.ld x0,x2,3,0,0", 0x000001810058, {.op = Opcode::scpad_ld, .a = 2, .cols = 3}},
    {"vreg.ld v1,x0,3,0,0,1,0", 0x0004018000CD, {.op = Opcode::vreg_ld, .d = 1, .cols = 3, .rc = 1}},
    {"nop.s", 0x00000000002F, {}},
    {"halt.s", 0x000000000030, {.op = Opcode::halt_s}},
};

class GoldenDecoding : public testing::TestWithParam<Golden> {};

TEST_P(GoldenDecoding, MatchesUpstream) {
    const Golden &golden = GetParam();
    EXPECT_EQ(decode(golden.slot), golden.expected) << golden.assembly;
    const std::string assembly(golden.assembly);
    EXPECT_EQ(info(golden.expected.op).mnemonic, assembly.substr(0, assembly.find(' ')));
}

INSTANTIATE_TEST_SUITE_P(A48, GoldenDecoding, testing::ValuesIn(goldens));

TEST(A48, KnowsItsOpcodes) {
    std::vector<int> undefined;
    for (int opcode = 0; opcode < 0x80; opcode++) {
        const InstructionInfo *row = find_instruction(static_cast<Opcode>(opcode));
        if (!row) {
            undefined.push_back(opcode);
            EXPECT_THROW(decode(static_cast<uint64_t>(opcode)), Error);
        } else {
            EXPECT_EQ(static_cast<int>(row->op), opcode);
            EXPECT_EQ(decode(static_cast<uint64_t>(opcode)).op, row->op);
        }
    }
    std::vector<int> expected = {0x00, 0x04, 0x41, 0x4A};
    for (int opcode = 0x5C; opcode < 0x80; opcode++) {
        expected.push_back(opcode);
    }
    EXPECT_EQ(undefined, expected);
    EXPECT_THROW(decode(uint64_t{1} << 48), Error);
}

TEST(A48, ReadsInFiles) {
    std::istringstream input(
        "00000000: 00001E000096 00000000002F 00000000002F 000000000030\n"
        "18: 8129 00000000002F_00000000002F 00000000002F # leading zeros left out\n"
        ".data\n"
        "3C: 1000\n");
    const Program program = read_in(input, "old.in");
    ASSERT_EQ(program.packets.size(), 2u);
    EXPECT_EQ(program.packets[0].packet[0], (Instruction{.op = Opcode::addi_s, .d = 1, .imm = 60}));
    EXPECT_EQ(program.packets[0].packet[3].op, Opcode::halt_s);
    EXPECT_EQ(program.packets[1].address, 24u);
    EXPECT_EQ(program.packets[1].line, 2);
    EXPECT_EQ(program.packets[1].packet[0], (Instruction{.op = Opcode::lw_s, .d = 2, .a = 1}));
    EXPECT_THAT(program.data, ElementsAre(Pair(0x3Cu, 0x1000u)));
}

TEST(A48, ReportsPositions) {
    const auto message_of = [](const std::string &text) -> std::string {
        std::istringstream input(text);
        return error_of([&] { read_in(input, "old.in"); });
    };
    EXPECT_EQ(message_of("0: 00000000002F 000000000004 00000000002F 00000000002F"),
              "old.in:1:17: slot 1: slot word 0x000000000004 has the A48-undefined opcode 0x04");
    EXPECT_EQ(message_of("0: 1 00000000002F 00000000002F 00000000002F 00000000002F"),
              "old.in:1:4: the value has 49 hexadecimal digits, more than the 192 bits that fit here");
    EXPECT_THROW(read_in(std::filesystem::path("no/such.in")), Error);
}

TEST(A48, ReadsTheReferencePrograms) {
    const TemporaryFolder folder;
    size_t files = 0;
    for (const auto &file : unpack_vectors("vectors/vectors.tar.xz", ".in", folder)) {
        if (file.parent_path().filename() != "a48-random") {
            continue;
        }
        const Program program = read_in(file);
        EXPECT_FALSE(program.packets.empty()) << file;
        for (size_t index = 0; index < program.packets.size(); index++) {
            EXPECT_EQ(program.packets[index].address, index * packet_bytes) << file;
        }
        files++;
    }
    if (files == 0) {
        GTEST_SKIP() << "the conformance vectors are not beside the source tree";
    }
    EXPECT_EQ(files, 40u);
}

}  // namespace
}  // namespace atalla::a48
