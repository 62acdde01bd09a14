// Why cycles are lost, and what else a run counts.
#include "tests/timing/rig.h"

namespace atalla {
namespace {

// The stalls of a run after its only fetch: cause by cause, as "data 2, bank 3".
std::string stalls_of(const std::string &text, const Overrides &overrides = {}, const std::string &machine = "ax01") {
    const RunResult result = run_text(text, one_fetch(overrides), machine);
    EXPECT_TRUE(result.ok) << result.error;
    EXPECT_EQ(stall(result, Stall::Fetch), 34u);
    std::string stalls;
    for (int cause = 1; cause < stall_causes; cause++) {
        if (result.counters.stalls[static_cast<size_t>(cause)] > 0) {
            stalls += (stalls.empty() ? "" : ", ") + std::string(stall_name(static_cast<Stall>(cause))) + " " +
                      std::to_string(result.counters.stalls[static_cast<size_t>(cause)]);
        }
    }
    return stalls;
}

// A contiguous tile of pad 0 in memory at 0: x3 holds its control word, x1 its pad address.
std::string tile_of(int rows) {
    return "lui.s x3, " + std::to_string((rows - 1) << 18 | 31 << 13) + "\nori.s x3, x3, 31\nnop.s\nnop.s\n";
}

TEST(Stalls, HaveTheirCauses) {
    EXPECT_EQ(stalls_of("nop.s\nhalt.s\n"), "");
    EXPECT_EQ(stalls_of("addi.s x1, x0, 1\nadd.s x2, x1, x0\nnop.s\nhalt.s\n"), "data 2");
    EXPECT_EQ(stalls_of("jal x0, skip\nnop.s\nskip: halt.s\n"), "branch 3");
    EXPECT_EQ(stalls_of("add.s x1, x4, x8\nnop.s\nhalt.s\n"), "bank 2");
    EXPECT_EQ(stalls_of("add.vv v1, v2, v3, m0\nadd.vv v4, v2, v3, m0\nhalt.s\n"), "unit 2, drain 6");
    EXPECT_EQ(stalls_of("gemm.vv v1, v2, v0, m0\ngemm.vv v3, v2, v0, m0\nhalt.s\n", {{"sa.credits", 1}}), "array 45, drain 47");
    EXPECT_EQ(
        stalls_of(repeat("vreg.ld v1, x0, x0, 31, 0\n", 1) + "vreg.ld v2, x0, x0, 31, 0\nhalt.s\n", {{"vlsu.load_queue", 1}}),
        "vlsu 9, drain 10");
    // Two transfers on one pad with different base registers; the second waits for the engine.
    EXPECT_EQ(stalls_of(tile_of(1) + "addi.s x4, x0, 1024\nnop.s\nnop.s\nscpad.ld x1, x0, x3\nscpad.ld x5, x4, x3\nhalt.s\n"),
              "data 2, sdma 35, drain 34");
    EXPECT_EQ(stalls_of(tile_of(1) + "scpad.ld x1, x0, x3\naddi.s x1, x1, 64\nhalt.s\n"), "data 2, dma 35, drain 1");
}

// Busy with a result comes before busy with a transfer; registers come before banks, banks before units.
TEST(Stalls, AreNamedByTheFirstGateThatHolds) {
    EXPECT_EQ(stalls_of(tile_of(1) + "scpad.ld x1, x0, x3\ndivi.s x2, x3, 7\nadd.s x6, x1, x2\nhalt.s\n"), "data 70, drain 1")
        << "the division ends after the transfer";
    EXPECT_EQ(stalls_of(tile_of(1) + "scpad.ld x1, x0, x3\nstbf.s x2, x3\nadd.s x6, x1, x2\nhalt.s\n"),
              "data 5, dma 31, drain 1");
    EXPECT_EQ(stalls_of("add.vv v1, v2, v3, m0\nadd.vv v5, v4, v8, m0\nhalt.s\n", {{"vec.ii", 6}}), "bank 2, unit 3, drain 6");
}

TEST(Stalls, BankWaitsCountEveryOperandButConstants) {
    const auto bank_stalls = [](const std::string &packet) {
        return stall(run_text(packet + "\nhalt.s\n", one_fetch(), "ax01-psum"), Stall::Bank);
    };
    EXPECT_EQ(bank_stalls("add.s x1, x2, x3"), 0u);
    EXPECT_EQ(bank_stalls("add.s x1, x2, x2"), 2u);
    EXPECT_EQ(bank_stalls("add.s x1, x0, x4"), 0u);
    EXPECT_EQ(bank_stalls("{ add.s x1, x4, x8 ; mul.s x2, x12, x3 }"), 3u);
    EXPECT_EQ(bank_stalls("{ add.s x1, x4, x8 ; mul.s x2, x12, x16 }"), 4u);
    EXPECT_EQ(bank_stalls("{ add.s x1, x4, x8 ; add.vv v1, v2, v6, m0 }"), 2u) << "the files wait together";
    EXPECT_EQ(bank_stalls("{ add.s x1, x4, x3 ; add.vs v1, v4, x8, m0 }"), 2u);
    EXPECT_EQ(bank_stalls("gemm.vv v1, v2, v6, m0"), 2u) << "with a partial-sum input vs2 is read";
    EXPECT_EQ(bank_stalls("{ add.vv v1, v2, v3, m2 ; mul.vv v4, v5, v8, m4 }"), 2u);
    EXPECT_EQ(bank_stalls("scpad.st x4, x8, x12"), 3u);
}

TEST(Stalls, WriteAfterWriteWaitsAndWriteAfterReadDoesNot) {
    EXPECT_EQ(stalls_of("mul.s x1, x2, x3\naddi.s x1, x0, 1\nnop.s\nhalt.s\n"), "data 4");
    EXPECT_EQ(stalls_of("mul.s x1, x2, x3\naddi.s x2, x0, 1\nnop.s\nnop.s\nhalt.s\n"), "");
}

TEST(Stalls, ALostArbitrationHoldsTheUnitOneCycle) {
    // The move loses bank 0 in the cycle in which the next move could issue.
    EXPECT_EQ(stalls_of("{ addi.s x4, x0, 1 ; vmov.vts x8, v1, 0 }\nvmov.vts x9, v1, 0\nnop.s\nnop.s\nhalt.s\n"), "unit 1");
    EXPECT_EQ(stalls_of("{ addi.s x4, x0, 1 ; vmov.vts x9, v1, 0 }\nvmov.vts x8, v1, 0\nnop.s\nnop.s\nhalt.s\n"), "");
    // A result for x0 needs no bank.
    EXPECT_EQ(stalls_of("{ addi.s x4, x0, 1 ; vmov.vts x0, v1, 0 }\nvmov.vts x9, v1, 0\nnop.s\nnop.s\nhalt.s\n"), "");
}

TEST(Stalls, MispredictedBranchesCostThePenalty) {
    const std::string loop =
        "addi.s x1, x0, 0\naddi.s x2, x0, 9\nnop.s\nnop.s\nloop: nop.s\nnop.s\nblt.s x1, x2, loop, 1\nnop.s\nnop.s\nhalt.s\n";
    const RunResult result = run_text(loop, one_fetch());
    EXPECT_EQ(result.counters.branch_mispredicts, 2u) << "the first pass and the exit";
    EXPECT_EQ(stall(result, Stall::Branch), 6u);
    // A forward branch is predicted not taken, always.
    const std::string forward =
        "addi.s x1, x0, 0\naddi.s x2, x0, 3\nnop.s\nnop.s\nloop: beq.s x0, x0, over\nnop.s\nover: nop.s\nnop.s\n"
        "blt.s x1, x2, loop, 1\nnop.s\nnop.s\nhalt.s\n";
    EXPECT_EQ(run_text(forward, one_fetch()).counters.branch_mispredicts, 4u + 2u);
}

TEST(Counters, TellWhatARunDid) {
    const std::string text = "addi.s x2, x0, 1024\n" + tile_of(2) +
                             "scpad.ld x1, x2, x3\n"
                             "vreg.ld v1, x1, x0, 31, 0\n"
                             "lw.vi v0, v1, 0, m0\n"
                             "gemm.vv v2, v1, v0, m0\n"
                             "vreg.st v2, x1, x0, 15, 0\n"
                             "lw.s x6, 0(x2)\n"
                             "addi.s x6, x6, 0\n"
                             "scpad.st x1, x2, x3\n"
                             "halt.s\n";
    const RunResult result = run_text(text);
    ASSERT_TRUE(result.ok) << result.error;
    const Counters &counters = result.counters;
    EXPECT_EQ(counters.packets, 14u);
    EXPECT_EQ(counters.operations, 12u);
    EXPECT_EQ(counters.dma_load_bytes[0], 128u);
    EXPECT_EQ(counters.dma_store_bytes[0], 128u);
    EXPECT_EQ(counters.pad_load_bytes[0], 64u);
    EXPECT_EQ(counters.pad_store_bytes[0], 32u);
    EXPECT_EQ(counters.array_rows, 1u);
    EXPECT_EQ(counters.weight_loads, 1u);
    EXPECT_EQ(counters.unit_operations[static_cast<size_t>(Unit::Ex1)], 4u);
    EXPECT_EQ(counters.unit_operations[static_cast<size_t>(Unit::Array)], 2u);
    EXPECT_EQ(counters.icache_misses, 5u) << "14 packets of 20 bytes lie in 5 lines";
    EXPECT_EQ(counters.dcache_misses, 1u);
    EXPECT_EQ(counters.dram_beats, 10u + 4u + 2u + 4u) << "code, tile in, data cache line, tile out";
    EXPECT_GT(counters.dram_busy, counters.dram_beats);
    EXPECT_LT(counters.dram_busy, counters.cycles);
    EXPECT_EQ(result.packet_issues, std::vector<uint64_t>(14, 1));
}

// busy: 34 cycles of a fetch without its two ends, where nothing has been launched and nothing is left to command.
TEST(Counters, DramIsBusyFromTheLaunchToTheLastCommand) {
    const RunResult result = run_text("halt.s\n");
    EXPECT_EQ(result.counters.dram_beats, 2u);
    EXPECT_EQ(result.counters.dram_busy, 13u) << "cycles 1 to 13: the row opens until 11, the second column command is in 13";
}

TEST(Counters, StallsAreChargedToThePacketThatWaits) {
    const RunResult result = run_text("mul.s x1, x2, x3\nadd.s x4, x1, x0\nnop.s\nhalt.s\n", one_fetch());
    std::vector<StallCycles> expected(4);
    expected[0][static_cast<size_t>(Stall::Fetch)] = 34;
    expected[1][static_cast<size_t>(Stall::Data)] = 4;
    EXPECT_EQ(result.packet_stalls, expected);
}

}  // namespace
}  // namespace atalla
