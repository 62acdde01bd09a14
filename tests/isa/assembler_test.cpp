#include "isa/assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "isa/disassembler.h"
#include "isa/error.h"
#include "isa/in_file.h"
#include "tests/isa/random_instruction.h"
#include "tests/isa/test_paths.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Instruction one(const std::string &text) {
    const Program program = assemble(text);
    EXPECT_EQ(program.packets.size(), 1u) << text;
    return program.packets.at(0).packet[0];
}

std::string message_of(const std::string &text) {
    return error_of([&] { assemble(text, "test.s"); });
}

// What a round trip keeps: everything but lines and the source map, which text carries as comments only.
void expect_same_program(const Program &actual, const Program &expected) {
    ASSERT_EQ(actual.packets.size(), expected.packets.size());
    for (size_t index = 0; index < actual.packets.size(); index++) {
        ASSERT_EQ(actual.packets[index].address, expected.packets[index].address) << "packet " << index;
        ASSERT_EQ(actual.packets[index].packet, expected.packets[index].packet)
            << "at " << actual.packets[index].address << ": " << assembly_text(actual.packets[index].packet) << " for "
            << assembly_text(expected.packets[index].packet);
    }
    EXPECT_EQ(actual.data, expected.data);
    EXPECT_EQ(actual.symbols, expected.symbols);
}

TEST(Assembler, AcceptsTheSpellingsOfRegistersAndMnemonics) {
    const Instruction add = one("add.vv v1, v2, v3, m4");
    EXPECT_EQ(one("add.vv $1,$2,$3,4"), add);
    EXPECT_EQ(one("add_vv $x1, $v2, $3, $m4"), add);
    EXPECT_EQ(one("  add_vv\tv1 ,v2,  v3,$4# comment"), add);
    EXPECT_EQ(one("addi x8, x2, -4"), one("addi_s x8, x2, -4"));
    EXPECT_EQ(one("addi x8, x2, 0x7f"), one("addi.s x8, x2, 0b1111111"));
    EXPECT_EQ(one("addi x8, x2, +12"), one("addi.s x8, x2, 12"));
    EXPECT_EQ(one("halt").op, Opcode::halt_s);
    EXPECT_EQ(one("mv_stm m3, x1"), one("mv.stm 3,$1"));
}

TEST(Assembler, AcceptsBothFormsOfAddresses) {
    EXPECT_EQ(one("lw.s x1, 4(x2)"), (Instruction{.op = Opcode::lw_s, .d = 1, .a = 2, .imm = 4}));
    EXPECT_EQ(one("lw.s x1, x2, 4"), one("lw.s x1, 4(x2)"));
    EXPECT_EQ(one("sw.s x1, -4(x2)"), (Instruction{.op = Opcode::sw_s, .d = 1, .a = 2, .imm = -4}));
    EXPECT_EQ(one("jalr x1, 8(x2)"), one("jalr x1, x2, 8"));
}

TEST(Assembler, LeavesOutTheUnusedSource) {
    EXPECT_EQ(one("rcp.bf x1, x2"), one("rcp.bf x1, x2, x0"));
    EXPECT_EQ(one("rcp.bf x1, x2, x7").b, 7);
}

TEST(Assembler, TakesUpperImmediatesAsBitPatterns) {
    EXPECT_EQ(one("lui.s x1, 0x1FFFFFF").imm, -1);
    EXPECT_EQ(one("lui.s x1, 0xFFFFFF").imm, 0xFFFFFF);
    EXPECT_EQ(one("lui.s x1, -16777216").imm, -16777216);
}

TEST(Assembler, PlacesPackets) {
    const Program program = assemble(
        "addi.s x1, x0, 1   # a line is a packet\n"
        "\n"
        "{ addi.s x2, x0, 2 ; nop.s ; lw.s x3, 0(x4) }\n"
        "{ addi.s x5, x0, 5\n"
        "  # a comment within\n"
        "\n"
        "  halt.s }\n"
        "{ }\n");
    ASSERT_EQ(program.packets.size(), 4u);
    EXPECT_EQ(program.packets[0].line, 1);
    EXPECT_EQ(program.packets[1].address, 20u);
    EXPECT_EQ(program.packets[1].line, 3);
    EXPECT_EQ(program.packets[1].packet[0].d, 2);
    EXPECT_TRUE(program.packets[1].packet[1].is_nop());
    EXPECT_EQ(program.packets[1].packet[2].op, Opcode::lw_s);
    EXPECT_TRUE(program.packets[1].packet[3].is_nop());
    EXPECT_EQ(program.packets[2].line, 4);
    EXPECT_EQ(program.packets[2].packet[1].op, Opcode::halt_s);
    EXPECT_EQ(program.packets[3].packet, Packet{});
}

TEST(Assembler, ResolvesLabels) {
    const Program program = assemble(
        "main: first:\n"
        "    jal x1, work\n"
        "again: { lw.s x2, 0(x3) ; bne.s x4, x5, again }\n"
        "    beq.s x4, x5, \"odd name!\", 3\n"
        "    halt\n"
        "\"odd name!\":\n"
        "work: jalr x0, x1, 0\n"
        ".Lend:\n");
    EXPECT_EQ(program.packets[0].packet[0].imm, 80);
    EXPECT_EQ(program.packets[1].packet[1].imm, 0);
    EXPECT_EQ(program.packets[1].packet[1].aux, 0);
    EXPECT_EQ(program.packets[2].packet[0].imm, 40);
    EXPECT_EQ(program.packets[2].packet[0].aux, 3);
    EXPECT_THAT(program.symbols, ElementsAre(Pair("again", 20u), Pair("first", 0u), Pair("main", 0u), Pair("odd name!", 80u),
                                             Pair("work", 80u)));
}

TEST(Assembler, FollowsDirectives) {
    const Program program = assemble(
        ".section .text,\"ax\",@progbits\n"
        ".globl main\n"
        ".org 0x100\n"
        "main: nop.s\n"
        ".org 0\n"
        "jal x0, main\n"
        ".equ tensor, 0x1000\n"
        ".data\n"
        "\n"
        "00001000: 3F80_0000 # one\n"
        "0x1004: 2\n");
    ASSERT_EQ(program.packets.size(), 2u);
    EXPECT_EQ(program.packets[0].address, 0u);
    EXPECT_EQ(program.packets[0].packet[0].imm, 0x100);
    EXPECT_EQ(program.packets[1].address, 0x100u);
    EXPECT_THAT(program.symbols, ElementsAre(Pair("main", 0x100u), Pair("tensor", 0x1000u)));
    EXPECT_THAT(program.data, ElementsAre(Pair(0x1000u, 0x3F800000u), Pair(0x1004u, 2u)));
    EXPECT_THAT(assemble("halt\ndata mem\n10: 1\n").data, ElementsAre(Pair(0x10u, 1u)));
}

TEST(Assembler, ExpandsLargeConstants) {
    EXPECT_EQ(one("li.s x1, -5"), (Instruction{.op = Opcode::li_s, .d = 1, .imm = -5}));
    for (const int64_t value : {0x12345678L, 0x7FFFFFFFL, -0x80000000L, 0xFFFFFFC0L, 0x01000000L, 0x3F800000L, 0x7FFFFFC0L}) {
        const Program program = assemble("li.s x1, " + std::to_string(value));
        uint32_t loaded = static_cast<uint32_t>(program.packets.at(0).packet[0].imm) << 7;
        if (program.packets.size() == 2) {
            EXPECT_EQ(program.packets[1].packet[0].op, Opcode::addi_s);
            EXPECT_EQ(program.packets[1].packet[0].a, 1);
            EXPECT_LE(std::abs(program.packets[1].packet[0].imm), 64);
            loaded += static_cast<uint32_t>(program.packets[1].packet[0].imm);
        }
        EXPECT_EQ(loaded, static_cast<uint32_t>(value)) << value;
    }
    EXPECT_EQ(assemble("li.s x1, 0x3F800000").packets.size(), 1u);
}

TEST(Assembler, ExpandsTileOperations) {
    // sid 1, 32 rows, 8 columns, pitch 8: 1 << 30 | 31 << 25 | 7 << 20 | 7.
    const Program transfer = assemble("scpad.ld x1, x2, 7, 31, 1");
    ASSERT_EQ(transfer.packets.size(), 3u);
    EXPECT_EQ(assembly_text(transfer.packets[0].packet), "lui.s x254, 16572416");
    EXPECT_EQ(assembly_text(transfer.packets[1].packet), "addi.s x254, x254, 7");
    EXPECT_EQ(assembly_text(transfer.packets[2].packet), "scpad.ld x1, x2, x254");
    EXPECT_EQ((uint32_t{16572416} << 7) + 7, 1u << 30 | 31u << 25 | 7u << 20 | 7u);
    EXPECT_EQ(assemble("scpad.st x1, x2, 0, 0, 3").packets.size(), 2u);

    const Program access = assemble("vreg.ld v1, x2, 31, 31, 1, 1, 5\nvreg.st v1, x2, 31, 31, 1, 0, $7\n");
    ASSERT_EQ(access.packets.size(), 3u);
    EXPECT_EQ(assembly_text(access.packets[0].packet), "addi.s x253, x0, 5");
    EXPECT_EQ(assembly_text(access.packets[1].packet), "vreg.ld v1, x2, x253, 31, 1");
    EXPECT_EQ(assembly_text(access.packets[2].packet), "vreg.st v1, x2, x7, 31, 1");
    // Labels count the packets that an expansion inserts.
    EXPECT_EQ(assemble("scpad.ld x1, x2, 7, 31, 1\nend: halt").symbols.at("end"), 60u);
}

struct BadText {
    const char *text;
    const char *message;
};

class AssemblerErrors : public testing::TestWithParam<BadText> {};

TEST_P(AssemblerErrors, NameThePosition) { EXPECT_EQ(message_of(GetParam().text), GetParam().message); }

INSTANTIATE_TEST_SUITE_P(
    Messages, AssemblerErrors,
    testing::Values(
        BadText{"nop.s\n  ad.s x1, x2, x3", "test.s:2:3: unknown instruction 'ad.s'; did you mean add.s?"},
        BadText{"frobnicate x1", "test.s:1:1: unknown instruction 'frobnicate'"},
        BadText{"add.s x1, x2", "test.s:1:1: add.s has 2 operands; write add.s rd, rs1, rs2"},
        BadText{"nop.s x1", "test.s:1:1: nop.s has 1 operand; write nop.s"},
        BadText{"add.s x1, x2, v3", "test.s:1:15: expected a register x0..x255, got 'v3'"},
        BadText{"add.s x1, x2, 3", "test.s:1:15: expected a register x0..x255, got '3'"},
        BadText{"add.s x1, x2, x256", "test.s:1:15: expected a register x0..x255, got 'x256'"},
        BadText{"add.s x1, x2, x", "test.s:1:15: expected a register x0..x255, got 'x'"},
        BadText{"add.s x1, x2, \"x3\"", "test.s:1:15: expected a register x0..x255, got \"x3\""},
        BadText{"add.vv v1, v2, v3, m16", "test.s:1:20: expected a register m0..m15, got 'm16'"},
        BadText{"addi.s x1, x2, 2048", "test.s:1:16: imm12 of addi.s is 2048, outside -2048..2047"},
        BadText{"addi.s x1, x2, 0xFFF", "test.s:1:16: imm12 of addi.s is 4095, outside -2048..2047"},
        BadText{"addi.s x1, x2, 1.5", "test.s:1:16: expected a number for imm12 of addi.s, got '1.5'"},
        BadText{"addi.s x1, x2, 99999999999999999999",
                "test.s:1:16: expected a number for imm12 of addi.s, got '99999999999999999999'"},
        BadText{"lui.s x1, 0x2000000", "test.s:1:11: imm25 of lui.s is 33554432, outside -16777216..33554431"},
        BadText{"li.s x1, 0x100000000", "test.s:1:10: imm25 of li.s is 4294967296, outside -2147483648..4294967295"},
        BadText{"vmov.vts x1, v2, 256", "test.s:1:18: lane of vmov.vts is 256, outside 0..255"},
        BadText{"beq.s x1, x2, 42, 0", "test.s:1:15: offset of beq.s is 42, not a multiple of 4"},
        BadText{"beq.s x1, x2, 48",
                "test.s:1:15: a numeric branch target needs the increment after it; write beq.s rs1, rs2, offset, "
                "incr, or use "
                "a label"},
        BadText{"beq.s x1, x2, 40, 128", "test.s:1:19: incr of beq.s is 128, outside 0..127"},
        BadText{"loop: nop.s\nbeq.s x1, x2, lop", "test.s:2:15: label 'lop' is not defined; did you mean loop?"},
        BadText{".org 0x1000\nnop.s\nhere: .org 0\nbeq.s x1, x2, here, 1",
                "test.s:4:15: label 'here' is 4116 bytes away, but beq.s reaches multiples of 4 in -2048..2044"},
        BadText{".equ here, 2\nbeq.s x1, x2, here",
                "test.s:2:15: label 'here' is 2 bytes away, but beq.s reaches multiples of 4 in -2048..2044"},
        BadText{"a: nop.s\na: nop.s", "test.s:2:1: label 'a' is already defined in line 1"},
        BadText{"add.s x1 x2, x3", "test.s:1:10: expected ',' between operands, got 'x2'"},
        BadText{"add.s x1, , x3", "test.s:1:11: expected an operand, got ','"},
        BadText{"add.s x1, x2,", "test.s:1:14: expected an operand, got the end of the line"},
        BadText{"lw.s x1, 4(x2", "test.s:1:14: expected ')' after the base register, got the end of the line"},
        BadText{"lw.s x1, 4()", "test.s:1:12: expected a register in parentheses, got ')'"},
        BadText{"add.s x1, x2(x3), x4", "test.s:1:14: add.s takes no base in parentheses here; write add.s rd, rs1, rs2"},
        BadText{"{ nop.s ; nop.s\nhalt.s", "test.s:1:1: the packet that opens here is not closed with '}'"},
        BadText{"{ nop.s ; nop.s ; nop.s ; nop.s ; halt.s }", "test.s:1:35: a packet holds at most 4 operations"},
        BadText{"{ nop.s } halt.s", "test.s:1:11: expected the end of the line, got 'halt.s'"},
        BadText{"{ nop.s ; { }", "test.s:1:11: expected an instruction, got '{'"},
        BadText{"nop.s }", "test.s:1:7: expected the end of the line, got '}'"},
        BadText{"{ a: nop.s }", "test.s:1:4: expected an operand, got ':'"},
        BadText{"{ li.s x1, 0x12345678 }", "test.s:1:3: 'li.s' expands to 2 packets here, so it cannot share one"},
        BadText{"scpad.ld x1, x2, 32, 0, 0", "test.s:1:18: cols-1 of scpad.ld is 32, outside 0..31"},
        BadText{"vreg.ld v1, x2, 31, 31, 1, 1, 128", "test.s:1:31: row of vreg.ld is 128, outside 0..127"},
        BadText{"mv.stm m0, x1",
                "test.s:1:1: mv.stm writes m0, which is constant; choose m1..m15 (the directive .writable_m0 lifts this)"},
        BadText{"nop.s @", "test.s:1:7: '@' has no meaning here"},
        BadText{"nop.s \x01", "test.s:1:7: byte 0x01 has no meaning here"},
        BadText{"addi.s x1, x2, -", "test.s:1:16: '-' has no meaning here"},
        BadText{"\"name: nop.s", "test.s:1:1: the quoted name does not end on its line"},
        BadText{"\"\": nop.s", "test.s:1:1: a label needs a name"},
        BadText{".org x", "test.s:1:6: expected an address of at most 32 bits, got 'x'"},
        BadText{".org 0x100000000", "test.s:1:6: expected an address of at most 32 bits, got '0x100000000'"},
        BadText{".org 0xFFFFFFF0\nnop.s", "test.s:2:1: the packet reaches past the 32-bit address space"},
        BadText{".equ 5", "test.s:1:7: expected ',' after the name, got the end of the line"},
        BadText{"nop.s\n.org 0\n nop.s", "test.s:3:1: address 0x0 already holds the packet of line 1; check .org"},
        BadText{"halt\n.data\n\n10 20\n", "test.s:4:1: expected `address: value`, but the line has no colon"},
        BadText{"halt\n.data\n10: 123456789\n",
                "test.s:3:5: the value has 9 hexadecimal digits, more than the 32 bits that fit here"}));

TEST(Assembler, WritesM0WhereAllowed) { EXPECT_EQ(assemble(".writable_m0\nmv.stm m0, x1").packets[0].packet[0].d, 0); }

TEST(Assembler, ReportsAMissingFile) {
    try {
        assemble_file("no/such/file.s");
        FAIL();
    } catch (const Error &error) {
        EXPECT_STREQ(error.what(), "no/such/file.s: cannot be read: No such file or directory");
    }
}

TEST(Disassembler, PrintsOneFormAnInstruction) {
    for (const char *text : {"add.s x1, x2, x3",
                             "rcp.bf x1, x2",
                             "rcp.bf x1, x2, x3",
                             "addi.s x1, x2, -1",
                             "lui.s x1, -16777216",
                             "lw.s x1, -4(x2)",
                             "sw.s x1, 8(x2)",
                             "jal x1, 40",
                             "jalr x0, x1, 0",
                             "beq.s x1, x2, -40, 3",
                             "add.vv v1, v2, v3, m4",
                             "mul.vs v1, v2, x3, m4",
                             "rsum.vi v1, v2, 64, m1",
                             "mgt.mvv m1, v2, v3, m4",
                             "mlt.mvs m1, v2, x3, m4",
                             "vreg.st v1, x2, x3, 31, 3",
                             "scpad.ld x1, x2, x3",
                             "vmov.vts x1, v2, 31",
                             "mv.mts x1, m2",
                             "mv.stm m1, x2",
                             "nop.s",
                             "halt.s"}) {
        EXPECT_EQ(assembly_text(one(text)), text);
    }
}

TEST(Disassembler, WritesCommentedText) {
    Program program;
    program.sources = {{"conv", "y.yi", "aten::conv2d"}, {"", "", "aten::relu"}};
    program.append(assemble("{ addi.s x1, x0, 1 ; nop.s ; lw.s x2, 0(x3) }").packets[0].packet);
    program.append(assemble("beq.s x1, x2, 0, 1").packets[0].packet, 0);
    program.append(assemble("jal x0, -40").packets[0].packet, 0);
    program.append(assemble("bne.s x1, x2, 40, 0").packets[0].packet, 1);
    program.symbols = {{"main", 0}, {"two words", 20}, {"weights", 0x1000}};
    program.data = {{0x3C, 0x1000}};
    EXPECT_EQ(disassemble(program),
              "# packets: 4, operations: 5, data words: 1\n"
              "main:\n"
              "        { addi.s x1, x0, 1 ; nop.s ; lw.s x2, 0(x3) }             # 00000000\n"
              "# ---- func conv loop y.yi node aten::conv2d\n"
              "\"two words\":\n"
              "        beq.s x1, x2, \"two words\", 1                              # 00000014\n"
              "        jal x0, main                                              # 00000028\n"
              "# ---- node aten::relu\n"
              "        bne.s x1, x2, 40, 0                                       # 0000003C\n"
              "        .equ weights, 0x1000\n"
              "\n.data\n\n"
              "0000003C: 00001000\n");
    expect_same_program(assemble(disassemble(program)), program);
}

TEST(Disassembler, RoundTripsEveryInstructionInRandomPackets) {
    std::mt19937_64 random(2);
    const auto table = instruction_table();
    std::uniform_int_distribution<size_t> row(0, table.size() - 1);
    Program program;
    for (size_t index = 0; index < 3000; index++) {
        Packet packet;
        for (Instruction &instruction : packet) {
            instruction = random_instruction(table[row(random)], random);
        }
        packet[index % 4] = random_instruction(table[index % table.size()], random);
        program.append(packet);
    }
    program.symbols = {{"main", 0}, {"x1", 20}, {"data", 40}, {"halt.s", 40}, {"40", 60}, {"", 0}};
    program.symbols.erase("");
    program.data = {{0, 1}, {2, 0xFFFFFFFF}, {0xFFFFFFFE, 5}};
    expect_same_program(assemble(disassemble(program)), program);
}

TEST(Disassembler, RoundTripsScatteredPackets) {
    Program program;
    const Packet halt = assemble("halt.s").packets[0].packet;
    const Packet jump = assemble("jal x0, 21").packets[0].packet;
    for (const uint32_t address : {0u, 7u, 28u, 100u, 0xFFFFFFECu}) {
        program.packets.push_back({address, address == 7 ? jump : halt, -1, 0});
    }
    program.symbols = {{"inside", 50}, {"end", 120}};
    expect_same_program(assemble(disassemble(program)), program);
}

TEST(Disassembler, RoundTripsTheReferencePrograms) {
    const TemporaryFolder folder;
    size_t files = 0;
    for (const auto &file : unpack_vectors("vectors/vectors.tar.xz", ".in", folder)) {
        if (file.parent_path().filename() == "a48-random") {
            continue;
        }
        const Program program = read_in(file);
        expect_same_program(assemble(disassemble(program), file.filename().string()), program);
        files++;
    }
    if (files == 0) {
        GTEST_SKIP() << "the conformance vectors are not beside the source tree";
    }
    EXPECT_EQ(files, 252u);
}

TEST(Disassembler, RefusesWhatHasNoText) {
    Program program;
    program.append({});
    program.symbols = {{"a\"b", 0}};
    EXPECT_THROW(disassemble(program), Error);
    program.symbols.clear();
    EXPECT_NO_THROW(disassemble(program));
    program.packets[0].packet[2].op = static_cast<Opcode>(0x60);
    EXPECT_THROW(disassemble(program), Error);
    EXPECT_THROW(assembly_text(Instruction{.op = static_cast<Opcode>(0x60)}), Error);
}

TEST(AssembleFile, ADeviceWithoutAnEndIsRefused) {
    EXPECT_EQ(error_of([] { assemble_file("/dev/zero"); }), "/dev/zero: the text is longer than 268435456 bytes");
}

}  // namespace
}  // namespace atalla
