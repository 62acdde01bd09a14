// What the machine would get wrong in silence is refused: the packet, its line, what it does and the rule.
#include "isa/error.h"
#include "tests/timing/rig.h"

namespace atalla {
namespace {

using testing::HasSubstr;

// The message of a run that must be refused under `rule`.
std::string refusal(const std::string &rule, const std::string &text, const Overrides &overrides = {},
                    const std::string &machine = "ax01") {
    const RunResult result = run_text(text, one_fetch(overrides), machine);
    EXPECT_FALSE(result.ok) << text;
    EXPECT_EQ(result.rule, rule) << result.error;
    return result.error;
}
void accepted(const std::string &text, const Overrides &overrides = {}, const std::string &machine = "ax01") {
    const RunResult result = run_text(text, one_fetch(overrides), machine);
    EXPECT_TRUE(result.ok) << result.error;
}

// Control word of a tile of `rows` x 32, contiguous, in `pad`.
std::string tile(const std::string &reg, int pad, int rows) {
    const uint32_t word = static_cast<uint32_t>(pad) << 30 | static_cast<uint32_t>(rows - 1) << 25 | 31u << 20 | 31u;
    return "lui.s " + reg + ", " + std::to_string(word >> 7) + "\nori.s " + reg + ", " + reg + ", " +
           std::to_string(word & 127) + "\n";
}

TEST(Refusals, PacketContract) {
    EXPECT_EQ(refusal("50", "nop.s\n{ addi.s x1, x0, 1 ; addi.s x2, x0, 1 }\nhalt.s\n"),
              "packet 0x00000014 (line 2): slot 0 (addi.s) and slot 1 (addi.s) both need EX1, but a packet issues one "
              "operation on it (rule 50)");
    EXPECT_THAT(refusal("50", "{ add.s x1, x2, x3 ; mul.s x4, x5, x6 ; mv.stm m1, x7 }\nhalt.s\n"),
                HasSubstr("read ports (rule 50)"));
    EXPECT_THAT(refusal("50", "{ addi.s x1, x0, 1 ; mul.s x2, x1, x3 }\nhalt.s\n"),
                HasSubstr("slot 1 (mul.s) reads x1, which slot 0 (addi.s)"));
    EXPECT_THAT(refusal("50", "{ addi.s x1, x0, 1 ; mul.s x1, x2, x3 }\nhalt.s\n"), HasSubstr("both write x1"));
    accepted("{ addi.s x0, x0, 1 ; mul.s x2, x0, x3 }\nhalt.s\n");
    accepted("{ mul.s x2, x1, x3 ; addi.s x1, x0, 1 }\nhalt.s\n");
    // A packet that is never reached does not matter.
    accepted("halt.s\n{ addi.s x1, x0, 1 ; addi.s x2, x0, 1 }\n");
}

TEST(Refusals, LimitsComeFromTheMachine) {
    EXPECT_THAT(refusal("50", "{ addi.s x1, x0, 1 ; mul.s x2, x3, x4 }\nhalt.s\n", {{"issue.slots", 1}}),
                HasSubstr("at most 1 (rule 50)"));
    EXPECT_THAT(refusal("50", "{ addi.s x1, x5, 1 ; mul.s x2, x3, x4 ; mv.stm m1, x6 }\nhalt.s\n", {{"issue.scalar_reads", 3}}),
                HasSubstr("a packet has 3 scalar read ports"));
    EXPECT_THAT(refusal("50", "{ add.vv v1, v2, v3, m0 ; vreg.st v4, x0, x0, 31, 0 }\nhalt.s\n", {{"issue.vector_reads", 2}}),
                HasSubstr("a packet has 2 vector read ports"));
    EXPECT_THAT(refusal("50", "{ add.vv v1, v2, v3, m1 ; mul.vv v4, v2, v3, m2 }\nhalt.s\n", {{"issue.mask_reads", 1}}),
                HasSubstr("a packet has 1 mask read ports"));
    EXPECT_THAT(refusal("50", "{ add.vv v1, v2, v3, m0 ; mul.vv v4, v2, v3, m0 }\nhalt.s\n", {{"issue.lane_ops", 1}}),
                HasSubstr("at most 1 (rule 50)"));
    EXPECT_THAT(refusal("50", "vreg.ld v1, x0, x0, 31, 2\nhalt.s\n", {{"pad.count", 2}}),
                HasSubstr("names pad 2, but the machine has pads 0..1"));
    EXPECT_THAT(refusal("50", tile("x3", 0, 5) + "scpad.ld x1, x2, x3\nhalt.s\n", {{"sdma.max_rows", 4}}),
                HasSubstr("scpad.ld moves 5 x 32 elements, but a tile has at most 4 x 32"));
    EXPECT_THAT(refusal("50", tile("x3", 0, 5) + "scpad.ld x1, x2, x3\nhalt.s\n", {{"sdma.max_cols", 16}}),
                HasSubstr("scpad.ld moves 5 x 32 elements, but a tile has at most 32 x 16"));
}

TEST(Refusals, WhatOnlyValuesTell) {
    EXPECT_EQ(refusal("50", "divi.s x1, x2, 0\nhalt.s\n"), "packet 0x00000000 (line 1): division by zero (rule 50)");
    EXPECT_THAT(refusal("50", "lui.s x3, 8192\nscpad.ld x1, x2, x3\nhalt.s\n"),
                HasSubstr("row pitch of 1 elements, less than its 2 columns (rule 50)"));
    EXPECT_THAT(refusal("50", "nop.s\nnop.s\n"),
                HasSubstr("packet 0x00000028: there is no packet at address 0x00000028 (rule 50)"));
    EXPECT_THAT(refusal("50", "jal x0, 1000\n"), HasSubstr("there is no packet at address 0x000003E8"));
    // Two transfers of one packet whose control words name the same pad.
    EXPECT_THAT(
        refusal("50", tile("x3", 1, 1) + "nop.s\nnop.s\n{ scpad.ld x1, x2, x3 ; scpad.st x4, x5, x3 }\nhalt.s\n",
                {{"issue.scalar_reads", 6}}),
        HasSubstr("slot 0 (scpad.ld) and slot 1 (scpad.st) are transfers of pad 1, but a packet issues at most 1 (rule 50)"));
}

TEST(Refusals, AddressesOutside) {
    EXPECT_THAT(refusal("memory", "addi.s x1, x0, -4\nlw.s x2, 0(x1)\nhalt.s\n"),
                HasSubstr("outside the data memory of 1073741824 bytes"));
    EXPECT_THAT(refusal("memory", "lui.s x1, 32\nlw.s x2, 0(x1)\nhalt.s\n", {{"memory.bytes", 4096}}),
                HasSubstr("of 4096 bytes (rule memory)"));
    EXPECT_THAT(refusal("pad", "lui.s x1, 256\n" + tile("x3", 0, 1) + "scpad.ld x1, x0, x3\nhalt.s\n", {{"pad.bytes", 32768}}),
                HasSubstr("which has 512 rows (rule pad)"));
}

TEST(Refusals, StepLimit) {
    const RunResult result = run_program(assemble("again: jal x0, again\n"), machine_with({}), {.step_limit = 1000});
    EXPECT_EQ(result.rule, "step limit");
    EXPECT_EQ(result.error,
              "packet 0x00000000 (line 1): no halt within 1000 packets; raise the step limit if the program is meant to run "
              "longer (rule step limit)");
    EXPECT_EQ(result.counters.packets, 1000u);
}

// Rule 51: a read overtakes an older write of its row that waits behind others, and the other way round.
TEST(Refusals, OvertakingInAPad) {
    const std::string stores = repeat("vreg.st v1, x0, x0, 31, 0\n", 3);
    EXPECT_EQ(refusal("51", stores + "vreg.ld v2, x0, x0, 31, 0\nhalt.s\n"),
              "packet 0x0000003C (line 4): its read of row 0 of pad 0 starts in cycle 39, while the older write by packet "
              "0x00000014 (line 2) "
              "still waits; leave the pad more time or use another row (rule 51)");
    const std::string loads =
        repeat("vreg.ld v1, x0, x0, 31, 0\nvreg.ld v2, x0, x0, 31, 0\n", 1) + "vreg.ld v3, x0, x0, 31, 0\n";
    EXPECT_THAT(refusal("51", loads + "vreg.st v4, x0, x0, 31, 0\nhalt.s\n"),
                HasSubstr("its write of row 0 of pad 0 starts in cycle 39, while the older read"));
    // Another row, another pad, or an idle channel: nothing is overtaken.
    accepted("addi.s x1, x0, 1\nnop.s\nnop.s\n" + stores + "vreg.ld v2, x0, x1, 31, 0\nhalt.s\n");
    accepted(stores + "vreg.ld v2, x0, x0, 31, 1\nhalt.s\n");
    accepted("vreg.st v1, x0, x0, 31, 0\nvreg.ld v2, x0, x0, 31, 0\nhalt.s\n");
    accepted(stores + repeat("nop.s\n", 6) + "vreg.ld v2, x0, x0, 31, 0\nhalt.s\n");
}

// The last cycle in which it is refused: the write starts in the cycle of the read, not in an earlier one.
TEST(Refusals, OvertakingInTheSameCycle) {
    // Stores start in 36, 39, 42 (issue 34..36); a load issued in t starts in t+2.
    const std::string stores = repeat("vreg.st v1, x0, x0, 31, 0\n", 3);
    EXPECT_THAT(refusal("51", stores + repeat("nop.s\n", 3) + "vreg.ld v2, x0, x0, 31, 0\nhalt.s\n"), HasSubstr("in cycle 42"));
    accepted(stores + repeat("nop.s\n", 4) + "vreg.ld v2, x0, x0, 31, 0\nhalt.s\n");
}

TEST(Refusals, OvertakingByATransfer) {
    // 33 stores: the last starts more than 90 cycles after it issued, a transfer of its row reads it long before.
    std::string text = "addi.s x9, x0, 5\n" + tile("x3", 0, 1) + "addi.s x1, x0, 320\nnop.s\nnop.s\n" +
                       repeat("vreg.st v1, x0, x0, 31, 0\n", 20) + "vreg.st v1, x0, x9, 31, 0\n";
    EXPECT_THAT(refusal("51", text + "scpad.st x1, x2, x3\nhalt.s\n"), HasSubstr("its read of row 5 of pad 0"));
    accepted(text + repeat("nop.s\n", 60) + "scpad.st x1, x2, x3\nhalt.s\n");
}

TEST(Refusals, WeightsTooCloseBehindARow) {
    const auto program = [](int gap) {
        return "gemm.vv v1, v2, v0, m0\n" + repeat("nop.s\n", gap) + "lw.vi v0, v2, 0, m0\nhalt.s\n";
    };
    EXPECT_EQ(refusal("52", program(30)),
              "packet 0x0000026C (line 32): lw.vi issues 31 cycles after a gemm.vv, less than 32 (rule 52)");
    accepted(program(31));
    accepted(program(9), {{"sa.switch_spacing", 10}});
    accepted(program(0), {{"sa.weight_buffers", 2}});
    refusal("52", program(8), {{"sa.switch_spacing", 10}});
}

// Rule 53: between the issue of a transfer and its end, both included.
TEST(Refusals, RowsOfATransferInFlight) {
    const std::string start = tile("x3", 0, 2) + "addi.s x9, x0, 1\naddi.s x8, x0, 2\nnop.s\nnop.s\n";
    const std::string load = start + "scpad.ld x1, x2, x3\n", store = start + "scpad.st x1, x2, x3\n";
    EXPECT_EQ(refusal("53", load + "vreg.ld v1, x0, x9, 31, 0\nhalt.s\n"),
              "packet 0x0000008C (line 8): vreg.ld reads row 1 of pad 0, which belongs to the scpad.ld of packet 0x00000078 "
              "(line 7) in flight; "
              "wait for the transfer by its rs1 (rule 53)");
    EXPECT_THAT(refusal("53", load + "vreg.st v1, x0, x9, 31, 0\nhalt.s\n"), HasSubstr("vreg.st writes row 1 of pad 0"));
    EXPECT_THAT(refusal("53", store + "vreg.st v1, x0, x9, 31, 0\nhalt.s\n"), HasSubstr("which belongs to the scpad.st"));
    accepted(store + "vreg.ld v1, x0, x9, 31, 0\nhalt.s\n");
    accepted(load + "vreg.ld v1, x0, x8, 31, 0\nhalt.s\n");
    accepted(load + "vreg.ld v1, x0, x9, 31, 1\nhalt.s\n");
    accepted(load + "vreg.ld v1, x1, x9, 31, 0\nhalt.s\n");
    EXPECT_THAT(
        refusal("53", start + "{ scpad.ld x1, x2, x3 ; vreg.st v1, x0, x9, 31, 0 }\nhalt.s\n", {{"issue.scalar_reads", 5}}),
        HasSubstr("which belongs to the scpad.ld of the same packet"));
}

TEST(Refusals, ATransferIsInFlightUntilItsEnd) {
    // One row of one beat to a row that is open: issue t, launch t+8, arrival t+30, start t+31, end t+33.
    const std::string start = "lui.s x3, 122880\nori.s x3, x3, 15\nnop.s\nnop.s\n";
    const auto program = [&](int distance) {
        return start + "scpad.ld x1, x2, x3\n" + repeat("nop.s\n", distance - 1) + "vreg.ld v1, x0, x0, 31, 0\nhalt.s\n";
    };
    refusal("53", program(33));
    accepted(program(34));
}

TEST(Refusals, MemoryOfATransferInFlight) {
    const std::string start = tile("x3", 0, 2) + tile("x6", 1, 2) + "addi.s x2, x0, 1024\naddi.s x5, x0, 1088\nnop.s\nnop.s\n";
    const std::string load = start + "scpad.ld x1, x2, x3\n", store = start + "scpad.st x1, x2, x3\n";
    EXPECT_THAT(
        refusal("53", load + "sw.s x7, 124(x2)\nhalt.s\n"),
        HasSubstr("sw.s touches memory at 0x0000047C, which belongs to the scpad.ld of packet 0x000000A0 (line 9) in flight"));
    accepted(load + "sw.s x7, 128(x2)\nhalt.s\n");
    accepted(load + "lw.s x7, 124(x2)\nhalt.s\n");
    refusal("53", store + "lw.s x7, 124(x2)\nhalt.s\n");
    refusal("53", store + "lw.s x7, -2(x2)\nhalt.s\n");
    accepted(store + "lhw.s x7, -2(x2)\nhalt.s\n");
    accepted(store + "lw.s x7, -4(x2)\nhalt.s\n");
    EXPECT_THAT(
        refusal("53", load + "scpad.st x4, x5, x6\nhalt.s\n"),
        HasSubstr(
            "scpad.st of memory at 0x00000440 overlaps the bytes of the scpad.ld of packet 0x000000A0 (line 9) in flight"));
    refusal("53", store + "scpad.st x4, x5, x6\nhalt.s\n");
    refusal("53", store + "scpad.ld x4, x5, x6\nhalt.s\n");
    accepted(load + "scpad.ld x4, x5, x6\nhalt.s\n");
    EXPECT_THAT(refusal("53", start + "{ scpad.ld x1, x2, x3 ; scpad.st x4, x5, x6 }\nhalt.s\n", {{"issue.scalar_reads", 6}}),
                HasSubstr("overlaps the bytes of the scpad.ld of the same packet"));
}

// Tiles with a pitch interleave without a common byte.
TEST(Refusals, TilesMayInterleave) {
    // 4 rows of 8 elements, pitch 16, at 0 and 16 bytes on.
    const auto control = [](const std::string &reg, uint32_t pad, uint32_t columns) {
        const uint32_t word = pad << 30 | 3u << 25 | (columns - 1) << 20 | 15u;
        return "lui.s " + reg + ", " + std::to_string(word >> 7) + "\nori.s " + reg + ", " + reg + ", " +
               std::to_string(word & 127) + "\n";
    };
    const auto program = [&](uint32_t columns, int offset) {
        return control("x3", 0, columns) + control("x6", 1, 8) + "addi.s x2, x0, 1024\naddi.s x5, x2, " +
               std::to_string(offset) + "\nscpad.st x1, x2, x3\nscpad.st x4, x5, x6\nhalt.s\n";
    };
    accepted(program(8, 16));
    refusal("53", program(9, 16));
    refusal("53", program(8, 14));
    accepted(program(8, 128));
}

TEST(Refusals, AreResultsWithCounters) {
    const RunResult result = run_text("addi.s x1, x0, 3\nnop.s\ndivi.s x2, x1, 0\nhalt.s\n", one_fetch());
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.counters.packets, 2u);
    EXPECT_EQ(result.counters.cycles, 37u) << "34 cycles of fetch, two packets and a stall";
}

TEST(Refusals, OnlyHardwareIsTimed) {
    const Machine fsim = machine_with({}, "fsim");
    MachineState state(fsim);
    try {
        run_timed(fsim, assemble("halt.s\n"), state);
        FAIL();
    } catch (const Error &error) {
        EXPECT_STREQ(error.what(), "machine 'fsim' has no timing: its model is functional");
    }
}

}  // namespace
}  // namespace atalla
