// Every timing parameter, alone: a small program, the value changed, and the exact difference in cycles.
#include <set>

#include "isa/machine_parameters.h"
#include "tests/timing/rig.h"

namespace atalla {
namespace {

struct Case {
    std::string key;
    int64_t value;       // instead of the default of ax01
    int64_t difference;  // in cycles
    std::string program;
    Overrides others = {};  // of both runs
    bool cold = false;      // with the instruction cache as it is
};

// Waits long enough that what happens before it decides the end of the program.
const std::string long_tail = repeat("rsum.vi v60, v60, 64, m0\n", 4) + "halt.s\n";

// Control words of tiles: rows x columns, contiguous, of pad 0 or 1 (ctl = pad << 30 | rows-1 << 25 | cols-1 << 20 | pitch-1).
std::string tile(const std::string &reg, int pad, int rows, int columns, int pitch) {
    const uint32_t word = static_cast<uint32_t>(pad) << 30 | static_cast<uint32_t>(rows - 1) << 25 |
                          static_cast<uint32_t>(columns - 1) << 20 | static_cast<uint32_t>(pitch - 1);
    return "lui.s " + reg + ", " + std::to_string(word >> 7) + "\nori.s " + reg + ", " + reg + ", " +
           std::to_string(word & 127) + "\nnop.s\nnop.s\n";
}
// A transfer of one tile from or to memory 0x400 * 128 * page, waited for.
std::string transfer(const std::string &mnemonic, int rows, int columns, int upper_address = 0) {
    return tile("x3", 0, rows, columns, columns) + "lui.s x2, " + std::to_string(upper_address) + "\nnop.s\nnop.s\n" +
           mnemonic + " x1, x2, x3\naddi.s x1, x1, 0\nhalt.s\n";
}

const std::vector<Case> &cases() {
    static const std::vector<Case> all = {
        // A chain of three waits twice.
        {"wb.offer_to_use", 5, 6, "addi.s x1, x0, 1\naddi.s x1, x1, 1\naddi.s x1, x1, 1\nhalt.s\n"},
        // Both results are offered in the same cycle for bank 0; the move loses.
        {"wb.writes_per_bank", 2, -1, "{ addi.s x4, x0, 1 ; vmov.vts x8, v1, 0 }\naddi.s x1, x8, 0\nhalt.s\n"},

        {"ex1.L", 4, 8, "addi.s x1, x0, 1\naddi.s x2, x1, 1\nhalt.s\n"},
        {"ex1.ii", 3, 2, "addi.s x1, x0, 1\naddi.s x2, x0, 1\nhalt.s\n"},
        {"ex2.rcp_sqrt_L", 13, 2, "lui.s x2, 0x7F0000\nrcp.bf x1, x2\naddi.s x3, x1, 0\nhalt.s\n"},
        {"ex2.divmod_L", 20, -46, "divi.s x1, x2, 7\naddi.s x3, x1, 0\nhalt.s\n"},
        {"ex2.conv_L", 3, 2, "stbf.s x1, x2\naddi.s x3, x1, 0\nhalt.s\n"},
        {"ex2.ii_after_L", 5, 3, "stbf.s x1, x2\nstbf.s x3, x2\nhalt.s\n"},
        {"ex3.L", 4, 3, "add.bf x1, x2, x3\naddi.s x4, x1, 0\nhalt.s\n"},
        {"ex3.ii", 5, 2, "add.bf x1, x2, x3\nadd.bf x4, x2, x3\nhalt.s\n"},
        {"ex4.L", 7, 5, "mul.s x1, x2, x3\naddi.s x4, x1, 0\nhalt.s\n"},
        {"ex4.ii", 9, 5, "mul.s x1, x2, x3\nmul.s x4, x2, x3\nhalt.s\n"},

        // A miss, then a hit, each waited for.
        {"ex5.load_hit", 6, 4, "lw.s x1, 0(x0)\naddi.s x1, x1, 0\nlw.s x1, 0(x0)\naddi.s x1, x1, 0\nhalt.s\n"},
        {"ex5.store_hit", 12, 6, "sw.s x1, 0(x0)\nsw.s x1, 0(x0)\nhalt.s\n"},
        {"ex5.ii_after_L", 5, 3, "lw.s x1, 0(x0)\nlw.s x2, 0(x0)\naddi.s x1, x2, 0\nhalt.s\n"},
        {"dcache.miss_clean", 40, 12, "lw.s x1, 0(x0)\naddi.s x2, x1, 0\nhalt.s\n"},
        {"dcache.miss_dirty",
         46,
         10,
         "sw.s x1, 0(x0)\nlw.s x2, 64(x0)\naddi.s x3, x2, 0\nhalt.s\n",
         {{"dcache.bytes", 64}, {"dcache.ways", 1}, {"dram.write_turnaround", 0}}},
        // Five lines of one set, then the first again: it stays only in a cache that is larger or has more ways.
        {"dcache.bytes", 8192, -28,
         "lw.s x1, 0(x0)\nlw.s x1, 1024(x0)\nlui.s x2, 16\nlw.s x1, 0(x2)\nlw.s x1, 1024(x2)\nlui.s x3, 32\nlw.s x1, 0(x3)\n"
         "lw.s x1, 0(x0)\nhalt.s\n"},
        {"dcache.ways", 8, -28,
         "lw.s x1, 0(x0)\nlw.s x1, 1024(x0)\nlui.s x2, 16\nlw.s x1, 0(x2)\nlw.s x1, 1024(x2)\nlui.s x3, 32\nlw.s x1, 0(x3)\n"
         "lw.s x1, 0(x0)\nhalt.s\n"},
        {"dcache.line", 128, -28, "lw.s x1, 0(x0)\nlw.s x1, 64(x0)\naddi.s x2, x1, 0\nhalt.s\n"},
        // Two beats arrive 2 cycles apart, one beat has the whole line.
        {"dcache.beat", 64, -2, "lw.s x1, 0(x0)\naddi.s x2, x1, 0\nhalt.s\n", {{"dcache.miss_clean", 0}}},

        // Two blocks 8192 bytes apart, visited in turn, three times each: the second and third visits miss or not. A miss whose
        // row is open takes 24 cycles, and in the far block one more for the second sector unless the branch was mispredicted.
        {"icache.bytes",
         16384,
         -(4 * 24 + 1),
         "addi.s x2, x0, 2\nlui.s x3, 65\naddi.s x4, x0, 0x80\njal x0, near\n.org 0x80\nnear: jalr x0, x3, 0\n"
         ".org 0x2080\nbge.s x1, x2, done, 1\njalr x0, x4, 0\ndone: halt.s\n",
         {},
         true},
        // The second packet needs the second sector, which is a line of its own: looked up at 35, there at 59 instead of 36.
        {"icache.line", 32, 23, "nop.s\nhalt.s\n", {}, true},
        {"icache.sector", 64, -1, "nop.s\nhalt.s\n", {}, true},
        {"branch.penalty", 5, 2, "jal x0, skip\nnop.s\nskip: halt.s\n"},
        // Jump and branch share the only entry: the jump is mispredicted 4 times instead of once, the branch 3 times instead
        // of 2.
        {"branch.btb", 1, 4 * 3,
         "addi.s x1, x0, 0\naddi.s x2, x0, 3\nloop: jal x0, skip\nnop.s\nskip: nop.s\nnop.s\n"
         "blt.s x1, x2, loop, 1\nnop.s\nhalt.s\n"},

        {"vec.ii", 5, 2, "add.vv v1, v2, v3, m0\nadd.vv v4, v2, v3, m0\nhalt.s\n"},
        {"vec.add_L", 8, 3, "add.vv v1, v2, v3, m0\nvmov.vts x1, v1, 0\nhalt.s\n"},
        {"vec.mul_L", 9, 5, "mul.vv v1, v2, v3, m0\nvmov.vts x1, v1, 0\nhalt.s\n"},
        {"vec.cmp_L", 9, 4, "mgt.mvv m1, v2, v3, m0\nmv.mts x1, m1\nhalt.s\n"},
        {"vec.exp_L", 14, 8, "expi.vi v1, v2, 0, m0\nvmov.vts x1, v1, 0\nhalt.s\n"},
        {"vec.reduce_L", 4, -16, "rsum.vi v1, v2, 64, m0\nvmov.vts x1, v1, 0\nhalt.s\n"},
        {"vec.reduce_ii", 7, -13, "rsum.vi v1, v2, 64, m0\nrsum.vi v3, v2, 64, m0\nhalt.s\n"},
        {"vec.mov_to_scalar_L", 3, 3, "vmov.vts x1, v1, 0\naddi.s x2, x1, 0\nhalt.s\n"},
        {"vec.mov_to_scalar_ii", 4, 3, "vmov.vts x1, v1, 0\nvmov.vts x2, v1, 0\nhalt.s\n"},

        {"regs.scalar_banks", 2, 2, "add.s x1, x2, x4\nhalt.s\n"},
        {"regs.vector_banks", 2, 2, "add.vv v1, v2, v4, m0\nhalt.s\n"},
        {"regs.mask_banks", 1, 2, "{ add.vv v1, v2, v3, m1 ; mul.vv v4, v5, v8, m2 }\nhalt.s\n"},
        {"regs.scalar_conflict", 0, -2, "add.s x1, x4, x8\nhalt.s\n"},
        {"regs.vector_conflict", 0, -2, "add.vv v1, v4, v8, m0\nhalt.s\n"},
        {"regs.mask_conflict", 0, -2, "{ add.vv v1, v2, v3, m1 ; mul.vv v4, v5, v8, m3 }\nhalt.s\n"},

        {"pad.read_L", 10, 3, "vreg.ld v1, x0, x0, 31, 0\nvmov.vts x1, v1, 0\nhalt.s\n"},
        {"pad.read_ii", 6, 3, "vreg.ld v1, x0, x0, 31, 0\nvreg.ld v2, x0, x0, 31, 0\nvmov.vts x1, v2, 0\nhalt.s\n"},
        {"pad.write_land", 5, 3, "vreg.st v1, x0, x0, 31, 0\nhalt.s\n"},
        {"pad.write_ii", 6, 3, "vreg.st v1, x0, x0, 31, 0\nvreg.st v2, x0, x0, 31, 0\nhalt.s\n"},
        // The row of a transfer issued at t is presented at t+31; a load issued at t+29 comes in the same cycle and waits.
        {"pad.accept_per_cycle", 2, -1,
         tile("x3", 0, 1, 16, 16) + "addi.s x2, x0, 1024\nnop.s\nnop.s\nscpad.ld x1, x2, x3\n" + repeat("nop.s\n", 28) +
             "vreg.ld v60, x2, x0, 31, 0\n" + long_tail},
        // Eight stores take 3 cycles each. In a queue of two they hold up the load behind them by 11 cycles.
        {"pad.queue", 2, 11,
         "addi.s x9, x0, 1024\nnop.s\nnop.s\n" + repeat("vreg.st v1, x0, x0, 31, 0\n", 8) + "vreg.ld v60, x9, x0, 31, 0\n" +
             long_tail},
        {"vlsu.present", 4, 2, "vreg.ld v1, x0, x0, 31, 0\nvmov.vts x1, v1, 0\nhalt.s\n"},
        {"vlsu.load_extra", 3, 2, "vreg.ld v1, x0, x0, 31, 0\nvmov.vts x1, v1, 0\nhalt.s\n"},
        // The third waits for the first, the fourth for the second.
        {"vlsu.load_queue", 2, 4,
         "vreg.ld v1, x0, x0, 31, 0\nvreg.ld v2, x0, x0, 31, 0\nvreg.ld v3, x0, x0, 31, 0\nvreg.ld v4, x0, x0, 31, 0\n"
         "vmov.vts x1, v4, 0\nhalt.s\n"},
        {"vlsu.store_queue", 1, 4, repeat("vreg.st v1, x0, x0, 31, 0\n", 3) + "halt.s\n", {{"pad.write_ii", 1}}},

        {"sdma.setup", 12, 4, transfer("scpad.ld", 1, 16)},
        {"sdma.beat", 16, 4, transfer("scpad.ld", 1, 32)},
        {"sdma.outstanding", 1, 20, transfer("scpad.ld", 1, 32)},
        {"sdma.row_ii", 8, 5, transfer("scpad.ld", 2, 16)},
        {"sdma.load_extra", 4, 3, transfer("scpad.st", 1, 16)},
        {"sdma.store_rows_ahead", 1, 6, transfer("scpad.st", 2, 16)},
        // Two transfers of one packet: the second one's row opens a cycle earlier.
        {"bus.launches",
         2,
         -1,
         tile("x3", 0, 1, 16, 16) + tile("x6", 1, 1, 16, 16) +
             "lui.s x5, 64\nnop.s\nnop.s\n{ scpad.ld x1, x2, x3 ; scpad.ld x4, x5, x6 }\naddi.s x4, x4, 0\nhalt.s\n",
         {{"issue.scalar_reads", 6}}},

        {"dram.cas", 6, 4, transfer("scpad.ld", 1, 32)},
        {"dram.cas_same_group", 6, 4, transfer("scpad.ld", 1, 32)},
        {"dram.complete", 30, 8, "halt.s\n"},
        {"dram.open_closed", 15, 5, "halt.s\n"},
        {"dram.open_conflict", 26, 6, transfer("scpad.ld", 1, 16, 512)},  // 0x10000: bank 0, where code has opened row 0
        // 0x2000 lies in another bank, or in the row that is open; 0x8000 in a closed bank, or in bank 0 beside code.
        {"dram.row_bytes", 16384, -10, transfer("scpad.ld", 1, 16, 64)},
        {"dram.banks", 4, 10, transfer("scpad.ld", 1, 16, 256)},
        // A row of two beats on both sides of 0x2000.
        {"dram.groups",
         1,
         1,
         tile("x3", 0, 1, 32, 32) + "lui.s x2, 64\nnop.s\nnop.s\naddi.s x2, x2, -32\nnop.s\nnop.s\nscpad.ld x1, x2, x3\n"
                                    "addi.s x1, x1, 0\nhalt.s\n",
         {{"dram.open_closed", 0}}},
        // 64 beats of row 1 of bank 0, and one of row 2. With the cap the row is left and opened again: the stream loses 40
        // cycles. Without it the single beat goes last and opens its row then: 21 cycles, and its wait comes first in the
        // program.
        {"dram.row_hit_cap", 1000, -18,
         tile("x3", 0, 32, 32, 32) + tile("x6", 1, 1, 16, 16) +
             "lui.s x2, 512\nlui.s x5, 1024\nnop.s\nnop.s\nscpad.ld x1, x2, x3\nscpad.ld x4, x5, x6\naddi.s x4, x4, 0\n"
             "addi.s x1, x1, 0\nhalt.s\n"},
        // The only beat is launched in cycle 51, within a refresh that ends in 60: then its row opens again.
        {"dram.refresh_interval", 50, 19, transfer("scpad.ld", 1, 16), {{"dram.refresh", 10}}},
        // A chain of divisions leads into the refresh that starts at 700.
        {"dram.refresh",
         298,
         10,
         repeat("divi.s x9, x9, 7\n", 10) + "addi.s x9, x9, 0\n" + transfer("scpad.ld", 1, 16),
         {{"dram.refresh_interval", 700}}},
        // The write is commanded in the cycle before the read could be.
        {"dram.write_turnaround", 30, 14,
         tile("x3", 0, 1, 16, 16) + tile("x6", 1, 1, 16, 16) + "addi.s x5, x0, 512\nnop.s\nnop.s\nscpad.st x1, x2, x3\n" +
             repeat("nop.s\n", 8) + "scpad.ld x4, x5, x6\naddi.s x4, x4, 0\nhalt.s\n"},

        {"sa.L", 50, 4, "gemm.vv v1, v2, v0, m0\nvmov.vts x1, v1, 0\nhalt.s\n"},
        {"sa.credits", 1, 45, "gemm.vv v1, v2, v0, m0\ngemm.vv v3, v2, v0, m0\nhalt.s\n"},
        {"sa.credit_return", 5, 5, "gemm.vv v1, v2, v0, m0\ngemm.vv v3, v2, v0, m0\nhalt.s\n", {{"sa.credits", 1}}},
        {"sa.dst_queue", 1, 46, "gemm.vv v1, v2, v0, m0\ngemm.vv v3, v2, v0, m0\nhalt.s\n"},
        // vs2 is waited for only if it is read.
        {"sa.psum_in", 1, 7, "add.vv v5, v2, v3, m0\ngemm.vv v1, v2, v5, m0\nhalt.s\n"},
    };
    return all;
}

TEST(TimingParameters, ChangeCyclesExactly) {
    for (const Case &one : cases()) {
        SCOPED_TRACE(one.key);
        const Overrides base = one.cold ? one.others : one_fetch(one.others);
        Overrides changed = base;
        changed[one.key] = one.value;
        EXPECT_EQ(cycles_of(one.program, changed) - cycles_of(one.program, base), one.difference)
            << cycles_of(one.program, base);
    }
}

// What the cases leave out has no influence on cycles: it is fixed, or decides only whether a program is refused.
TEST(TimingParameters, AreAllCovered) {
    std::set<std::string> covered = {
        "core.clock",       "memory.bytes",      "issue.slots",       "issue.scalar_reads", "issue.vector_reads",
        "issue.mask_reads", "issue.lane_ops",    "pad.count",         "pad.bytes",          "sdma.max_rows",
        "sdma.max_cols",    "sa.switch_spacing", "sa.weight_buffers",
    };
    for (const Case &one : cases()) {
        covered.insert(one.key);
    }
    for (const ParameterEntry &entry : parameter_table()) {
        const bool fixed = entry.low == entry.high;
        EXPECT_TRUE(fixed || covered.contains(std::string(entry.key))) << entry.key;
    }
}

// A cold miss: launched in cycle 1, the row open in 11, the first sector there in 33 and usable in 34.
TEST(TimingParameters, TheFirstPacketIssuesWhenItsSectorIsThere) {
    EXPECT_EQ(cycles_of("halt.s\n"), 35);
    EXPECT_EQ(cycles_of("halt.s\n", one_fetch()), 35);
}

}  // namespace
}  // namespace atalla
