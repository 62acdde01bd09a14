// What upstream's simulator publishes, rebuilt as programs on a machine with its assumptions (docs/fidelity.md explains the
// terms). Its harness drives pads and array directly; here every step is an instruction.
#include <fmt/format.h>

#include "tests/timing/rig.h"

namespace atalla {
namespace {

// Places of the programs' values. Row numbers lie outside bank 0, where the bases are.
std::string row(int number) { return fmt::format("x{}", 64 + 4 * (number / 3) + 1 + number % 3); }
constexpr const char *base_a = "x4", *base_w = "x12";
constexpr int pad_a = 0, pad_w = 2;
// Where a tile of C lies: two places, so that one can leave while the next comes.
struct Place {
    const char *base, *control;
    int pad;
};
constexpr Place places[] = {{"x8", "x21", 1}, {"x16", "x23", 3}};

// Row numbers, addresses and the control words of whole contiguous tiles in the four pads.
std::string set_up() {
    std::string text;
    for (int number = 0; number < 32; number++) {
        text += fmt::format("addi.s {}, x0, {}\n", row(number), number);
    }
    for (int pad = 0; pad < 4; pad++) {
        const uint32_t word = static_cast<uint32_t>(pad) << 30 | 31u << 25 | 31u << 20 | 31u;
        text += fmt::format("lui.s x{0}, {1}\nori.s x{0}, x{0}, {2}\n", 20 + pad, word >> 7, word & 127);
    }
    return text + "lui.s x24, 512\nlui.s x25, 1024\nlui.s x26, 1536\nlui.s x27, 2048\n";
}

// A tile of weights through pad and registers into the array.
std::string load_weights() {
    std::string text = fmt::format("scpad.ld {}, x26, x22\n", base_w);
    constexpr int ahead = 6;  // rows from a load to its use
    for (int step = 0; step < 32 + ahead; step++) {
        text += step < 32 ? fmt::format("vreg.ld v{}, {}, {}, 31, {}\n", 128 + step, base_w, row(step), pad_w) : "nop.s\n";
        text += step >= ahead ? fmt::format("lw.vi v0, v{}, 0, m0\n", 128 + step - ahead) : "nop.s\n";
        text += "nop.s\n";
    }
    return text;
}

// 32 rows of A go through the array, three cycles each, which is what a pad can do. With a place they are added to C there.
std::string rows(const Place *c) {
    std::string text;
    constexpr int to_gemm = 5, to_store = 18;
    for (int step = 0; step < 32 + to_gemm + (c != nullptr ? to_store : 0); step++) {
        const int multiplied = step - to_gemm, stored = multiplied - to_store;
        text += step < 32 ? fmt::format("vreg.ld v{}, {}, {}, 31, {}\n", 1 + 4 * step, base_a, row(step), pad_a) : "nop.s\n";
        text += c != nullptr && step < 32
                    ? fmt::format("vreg.ld v{}, {}, {}, 31, {}\n", 2 + 4 * step, c->base, row(step), c->pad)
                    : "nop.s\n";
        std::string last;
        if (multiplied >= 0 && multiplied < 32) {
            last = fmt::format("gemm.vv v{}, v{}, v{}, m0", 3 + 4 * multiplied, 1 + 4 * multiplied, 2 + 4 * multiplied);
        }
        if (c != nullptr && stored >= 0) {
            last += fmt::format("{}vreg.st v{}, {}, {}, 31, {}", last.empty() ? "" : " ; ", 3 + 4 * stored, c->base,
                                row(stored), c->pad);
        }
        text += last.empty() ? "nop.s\n" : "{ " + last + " }\n";
    }
    return text;
}

std::string transfer(const char *mnemonic, const Place &c, bool wait) {
    const std::string text = fmt::format("{} {}, {}, {}\n", mnemonic, c.base, c.pad == 1 ? "x25" : "x27", c.control);
    return wait ? text + fmt::format("addi.s {0}, {0}, 0\n", c.base) : text;
}

// A tile of A comes in.
const std::string load_a = fmt::format("scpad.ld {0}, x24, x20\naddi.s {0}, {0}, 0\n", base_a);

// C comes in, the rows are added, C goes out: nothing overlaps.
std::string lone_tile() {
    return transfer("scpad.ld", places[0], true) + rows(&places[0]) + transfer("scpad.st", places[0], true);
}
// Two tiles, each of which leaves while the next one comes.
std::string two_tiles() {
    std::string text;
    for (const Place &place : places) {
        text += transfer("scpad.ld", place, true) + rows(&place) + transfer("scpad.st", place, false);
    }
    return text;
}

// Upstream's simulator, whose array adds what comes in, and which fetches no instructions.
Overrides peer(Overrides more = {}) {
    more.insert({{"sa.psum_in", 1}, {"icache.bytes", 65536}});
    return more;
}
// A row of 64 bytes at a time, 28 cycles each: what a published 909 cycles for a tile of weights comes to.
const Overrides row_by_row = {{"sdma.outstanding", 2}, {"dram.complete", 27}};

// The cycles of a text beyond those of the set-up.
int64_t cycles_beyond_set_up(const std::string &text, const Overrides &overrides) {
    const Overrides one = one_fetch(overrides);
    return cycles_of(set_up() + text + "halt.s\n", one, "atalla-sim") - cycles_of(set_up() + "halt.s\n", one, "atalla-sim");
}

// `visits` tiles of weights with `times` repetitions of a piece of code that does some tiles of C.
int64_t cycles_of_product(int visits, int times, const std::string &tiles) {
    const std::string text =
        fmt::format("addi.s x30, x0, {}\naddi.s x31, x0, 0\nvisit: addi.s x33, x0, {}\naddi.s x34, x0, 0\n", visits - 1,
                    times - 1) +
        load_weights() + "tile: nop.s\n" + tiles +
        "bge.s x34, x33, done, 1\njal x0, tile\ndone: bge.s x31, x30, end, 1\njal x0, visit\nend: nop.s\n";
    return cycles_beyond_set_up(text, peer());
}
// The naive order of the same product: weights, A and C come and go for each of its 32,768 tiles, one after the other.
int64_t cycles_of_naive_1024_cubed() {
    const std::string tile = load_a + lone_tile();
    return (cycles_of_product(12, 1, tile) - cycles_of_product(4, 1, tile)) / 8 * 32768;
}

// All 1024 x 1024 x 1024, whose 4,096 tiles of weights serve eight tiles of C each: steady after the first visits, so that a
// part stands for the whole.
int64_t cycles_of_1024_cubed(int times, const std::string &tiles) {
    return (cycles_of_product(12, times, tiles) - cycles_of_product(4, times, tiles)) / 8 * 4096;
}

// Published: 1,092 cycles for 32 x 32 x 32, 909 of them until the weights are loaded; and 406 to 441 for a tile with its C.
TEST(Peers, ATile) {
    EXPECT_EQ(cycles_beyond_set_up(load_weights(), peer()), 228);
    EXPECT_EQ(cycles_beyond_set_up(load_weights(), peer(row_by_row)), 993);
    EXPECT_EQ(cycles_beyond_set_up(load_weights() + rows(nullptr), peer(row_by_row)), 1180);
    EXPECT_EQ(cycles_beyond_set_up(lone_tile(), peer()), 409);
}

// Published: 22.93 million cycles, 21.07 to 22.02 in other runs.
TEST(Peers, TheNaiveProductOf1024Cubed) { EXPECT_EQ(cycles_of_naive_1024_cubed(), 24'707'072); }

// Published: 11.17 million cycles for the best schedule (eight by 32 tiles reused), 12.66 with a queue of two, 15.54 with a
// queue of one.
TEST(Peers, AProductOf1024Cubed) {
    EXPECT_EQ(cycles_of_1024_cubed(8, lone_tile()), 14'196'736);
    EXPECT_EQ(cycles_of_1024_cubed(4, two_tiles()), 11'280'384);
}

}  // namespace
}  // namespace atalla
