#include "isa/in_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "isa/assembler.h"
#include "isa/error.h"
#include "tests/isa/random_instruction.h"
#include "tests/isa/test_paths.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

Program read(const std::string &text) {
    std::istringstream input(text);
    return read_in(input, "test.in");
}

std::string written(const Program &program, InComments comments = InComments::None) {
    std::ostringstream output;
    write_in(program, output, comments);
    return output.str();
}

std::string message_of(const std::string &text) {
    return error_of([&] { read(text); });
}

// Doubles four bf16 numbers; the words are those of the public example.
constexpr const char *doubling_assembly = R"(
        { addi.s x1, x0, 60 ; nop.s }
        { lw.s x2, 0(x1) ; lui.s x4, 24576 }
        { lw.s x3, 4(x1) ; addi.s x4, x4, 3 }
        addi.s x5, x0, 0
        scpad.ld x5, x2, x4
        vreg.ld v1, x5, x0, 3, 0
        add.vv v2, v1, v1, m0
        vreg.st v2, x5, x0, 3, 0
        scpad.st x5, x3, x4
        halt.s
)";
constexpr const char *doubling = R"(00000000: 001E000096 0000000031 0000000031 0000000031
00000014: 0000008129 0030000230 0000000031 0000000031
00000028: 00020081A9 0001820216 0000000031 0000000031
0000003C: 0000000296 0000000031 0000000031 0000000031
00000050: 00020102C6 0000000031 0000000031 0000000031
00000064: 01800280C4 0000000031 0000000031 0000000031
00000078: 0000808133 0000000031 0000000031 0000000031
0000008C: 0180028145 0000000031 0000000031 0000000031
000000A0: 00020182C7 0000000031 0000000031 0000000031
000000B4: 0000000032 0000000031 0000000031 0000000031

.data

0000003C: 00001000
0000003E: 20000000
00000040: 00002000
00000FFE: 3F800000
00001000: C0203F80
00001002: 3E20C020
00001004: 43C03E20
00001006: 000043C0
)";

TEST(InFile, WritesTheConventionsByteForByte) {
    Program program = assemble(doubling_assembly);
    program.data = overlapping_words(
        {{0x3C, {0x00, 0x10, 0, 0, 0x00, 0x20, 0, 0}}, {0x1000, {0x80, 0x3F, 0x20, 0xC0, 0x20, 0x3E, 0xC0, 0x43}}});
    EXPECT_EQ(written(program), doubling);
    EXPECT_EQ(written(read(doubling)), doubling);
}

TEST(InFile, ReadsPacketsWithTheirLines) {
    const Program program = read("# heading\n\n" + std::string(doubling));
    ASSERT_EQ(program.packets.size(), 10u);
    EXPECT_EQ(program.packets[0].line, 3);
    EXPECT_EQ(program.packets[9].line, 12);
    EXPECT_EQ(program.packets[9].address, 0xB4u);
    EXPECT_EQ(program.packets[9].packet[0].op, Opcode::halt_s);
    EXPECT_EQ(program.packets[1].packet[1], (Instruction{.op = Opcode::lui_s, .d = 4, .imm = 24576}));
    EXPECT_EQ(program.data.at(0x1002), 0x3E20C020u);
}

TEST(InFile, WritesAssemblyBesidePackets) {
    Program program;
    program.append(assemble("{ addi.s x1, x0, 60 ; halt.s }").packets[0].packet);
    EXPECT_EQ(written(program, InComments::Assembly),
              "00000000: 001E000096 0000000032 0000000031 0000000031 # addi.s x1, x0, 60 ; halt.s\n\n.data\n\n");
    EXPECT_EQ(read(written(program, InComments::Assembly)).packets[0].packet, program.packets[0].packet);
}

TEST(InFile, AcceptsTheWholeGrammar) {
    const Program program = read(
        "  # only a comment\r\n"
        "0X14 :0x0000000032000000003100000000310000000031\r\n"
        "0: 00000000_31 00000000 31 0000000031\t0000000031# no blank before the comment\n"
        "000000000014: 0000000031 0000000031 0000000031 0000000032 # again: later wins\n"
        "28:3100000000310000000031000000 00 31 # leading zeros left out\n"
        "  .data and more\n"
        "2: ff\n"
        "0: 1 # last line has no end\n"
        "2: 0000000000FE\n"
        ".data\n"
        "0xFFFFFFFF: 0xdeadBEEF");
    ASSERT_EQ(program.packets.size(), 3u);
    EXPECT_EQ(program.packets[1].address, 0x14u);
    EXPECT_EQ(program.packets[1].line, 4);
    EXPECT_EQ(program.packets[1].packet[0].op, Opcode::nop_s);
    EXPECT_EQ(program.packets[1].packet[3].op, Opcode::halt_s);
    EXPECT_EQ(program.packets[2].packet, Packet{});
    EXPECT_THAT(program.data, ElementsAre(Pair(0u, 1u), Pair(2u, 0xFEu), Pair(0xFFFFFFFFu, 0xDEADBEEFu)));
    EXPECT_THAT(read("").packets, IsEmpty());
}

TEST(InFile, RoundTripsRandomPrograms) {
    std::mt19937_64 random(3);
    const auto table = instruction_table();
    Program program;
    for (size_t index = 0; index < 1000; index++) {
        Packet packet;
        for (Instruction &instruction : packet) {
            instruction = random_instruction(table[random() % table.size()], random);
        }
        program.append(packet);
        program.data[static_cast<uint32_t>(random())] = static_cast<uint32_t>(random());
    }
    const Program again = read(written(program));
    ASSERT_EQ(again.packets.size(), program.packets.size());
    for (size_t index = 0; index < program.packets.size(); index++) {
        ASSERT_EQ(again.packets[index].address, program.packets[index].address);
        ASSERT_EQ(again.packets[index].packet, program.packets[index].packet);
    }
    EXPECT_EQ(again.data, program.data);
}

struct BadText {
    const char *text;
    const char *message;
};

class InFileErrors : public testing::TestWithParam<BadText> {};

TEST_P(InFileErrors, NameThePosition) { EXPECT_EQ(message_of(GetParam().text), GetParam().message); }

INSTANTIATE_TEST_SUITE_P(
    Messages, InFileErrors,
    testing::Values(
        BadText{"\n  0000", "test.in:2:3: expected `address: value`, but the line has no colon"},
        BadText{"0: 1: 2", "test.in:1:5: expected one `address: value`, but the line has a second colon"},
        BadText{" : 31", "test.in:1:2: the address before the colon is missing"},
        BadText{": 31", "test.in:1:1: the address before the colon is missing"},
        BadText{"0x: 31", "test.in:1:3: the address before the colon is missing"},
        BadText{"0: ", "test.in:1:4: the value after the colon is missing"},
        BadText{"0: 0x # 1", "test.in:1:6: the value after the colon is missing"},
        BadText{"1 0: 31", "test.in:1:2: ' ' is not a hexadecimal digit of an address"},
        BadText{"-4: 31", "test.in:1:1: '-' is not a hexadecimal digit of an address"},
        BadText{"0: 31g", "test.in:1:6: 'g' is not a hexadecimal digit of a value"},
        BadText{"0: 31\xFF", "test.in:1:6: byte 0xFF is not a hexadecimal digit of a value"},
        BadText{"100000000: 31", "test.in:1:1: the address is wider than 32 bits"},
        BadText{"0: 1 0000000031 0000000031 0000000031 0000000031",
                "test.in:1:4: the value has 41 hexadecimal digits, more than the 160 bits that fit here"},
        BadText{".data\n0: 100000000", "test.in:2:4: the value has 9 hexadecimal digits, more than the 32 bits that fit here"},
        BadText{"0: 0000000031 0000000031 00000000 50 0000000031",
                "test.in:1:26: slot 2: slot word 0x0000000050 has the undefined opcode 0x50"},
        BadText{"0: 31", "test.in:1:4: slot 0: slot word 0x0000000000 has the undefined opcode 0x00"},
        BadText{"0: 31 0000000000 0000000031", "test.in:1:4: slot 0: slot word 0x0000000000 has the undefined opcode 0x00"}));

TEST(InFile, BoundsTheLengthOfALine) {
    EXPECT_EQ(message_of("# " + std::string(in_line_limit - 2, 'x') + "\n0: 31g"),
              "test.in:2:6: 'g' is not a hexadecimal digit of a value");
    EXPECT_THAT(message_of("# " + std::string(in_line_limit, 'x') + "\n"),
                HasSubstr("test.in:1:65536: the line is longer than"));
}

TEST(InFile, SeesZeroBytes) {
    EXPECT_EQ(message_of(std::string("0: 31\0 31", 9)), "test.in:1:6: byte 0x00 is not a hexadecimal digit of a value");
}

TEST(InFile, ReportsFilesThatCannotBeUsed) {
    EXPECT_THROW(read_in(std::filesystem::path("no/such.in")), Error);
    const TemporaryFolder folder;
    EXPECT_THROW(read_in(folder.path()), Error);
    EXPECT_THROW(write_in(Program{}, folder.path()), Error);
    if (std::filesystem::exists("/dev/full")) {
        try {
            write_in(Program{}, std::filesystem::path("/dev/full"));
            FAIL();
        } catch (const Error &error) {
            EXPECT_THAT(error.what(), HasSubstr("No space left"));
        }
    }
}

TEST(InFile, RefusesToWriteWhatCannotBeEncoded) {
    Program program;
    program.append({Instruction{.op = Opcode::addi_s, .imm = 5000}});
    std::ostringstream output;
    EXPECT_THROW(write_in(program, output), Error);
}

TEST(InFile, RewritesTheReferencePrograms) {
    const TemporaryFolder folder;
    size_t files = 0;
    for (const char *archive : {"vectors/vectors.tar.xz", "timing-vectors.tar.xz"}) {
        for (const auto &file : unpack_vectors(archive, ".in", folder)) {
            if (file.parent_path().filename() == "a48-random") {
                continue;
            }
            // Comments are the one thing that a program does not keep.
            std::istringstream lines(read_text(file));
            std::string expected;
            for (std::string line; std::getline(lines, line);) {
                if (!line.starts_with('#')) {
                    expected += line + "\n";
                }
            }
            ASSERT_EQ(written(read_in(file)), expected) << file;
            files++;
        }
    }
    if (files == 0) {
        GTEST_SKIP() << "the reference programs are not beside the source tree";
    }
    EXPECT_GE(files, 252u);
}

TEST(OverlappingWords, CoverEveryEvenAddress) {
    EXPECT_THAT(overlapping_words({{0x1000, {0x11, 0x22, 0x33, 0x44}}}),
                ElementsAre(Pair(0x1000u, 0x44332211u), Pair(0x1002u, 0x4433u)));
    // Words start at the lowest byte, so nothing reaches it from below.
    EXPECT_THAT(overlapping_words({{0x1001, {0x22}}}), ElementsAre(Pair(0x1000u, 0x2200u)));
    EXPECT_THAT(overlapping_words({{0x1000, {1, 0, 0, 0}}, {0x1003, {}}, {0x1005, {5}}}),
                ElementsAre(Pair(0x1000u, 1u), Pair(0x1002u, 5u << 24), Pair(0x1004u, 5u << 8)));
    EXPECT_THAT(overlapping_words({{0x1000, {0, 0}}}), IsEmpty());
    EXPECT_THAT(overlapping_words({}), IsEmpty());
    EXPECT_THAT(overlapping_words({{0xFFFFFFFF, {7}}}), ElementsAre(Pair(0xFFFFFFFEu, 0x700u)));
}

TEST(OverlappingWords, AgreeWithTheDefinition) {
    std::mt19937_64 random(4);
    for (int repeat = 0; repeat < 200; repeat++) {
        std::map<uint32_t, std::vector<uint8_t>> image;
        std::map<uint32_t, uint8_t> bytes;
        uint32_t address = random() % 5;
        for (int run = 0; run < 6; run++) {
            std::vector<uint8_t> &values = image[address];
            values.resize(random() % 6 + 1);
            for (size_t index = 0; index < values.size(); index++) {
                values[index] = static_cast<uint8_t>(random() % 3);
                bytes[address + static_cast<uint32_t>(index)] = values[index];
            }
            address += static_cast<uint32_t>(values.size() + random() % 5);
        }
        std::map<uint32_t, uint32_t> expected;
        for (uint32_t even = bytes.begin()->first & ~1u; even <= bytes.rbegin()->first; even += 2) {
            uint32_t word = 0;
            for (uint32_t byte = 0; byte < 4; byte++) {
                const auto found = bytes.find(even + byte);
                word |= found == bytes.end() ? 0u : uint32_t{found->second} << (8 * byte);
            }
            if (word != 0) {
                expected[even] = word;
            }
        }
        ASSERT_EQ(overlapping_words(image), expected);
    }
}

TEST(OverlappingWords, RefuseImpossibleImages) {
    EXPECT_THROW(overlapping_words({{0, {1, 2, 3}}, {2, {4}}}), Error);
    EXPECT_THROW(overlapping_words({{0xFFFFFFFF, {1, 2}}}), Error);
}

}  // namespace
}  // namespace atalla
