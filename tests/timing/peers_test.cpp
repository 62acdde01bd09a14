// What upstream's simulator publishes, rebuilt as programs on a machine with its assumptions (docs/fidelity.md explains the
// terms). Its harness drives pads and array directly; here every step is an instruction.
#include <fmt/format.h>

#include "tests/timing/rig.h"

namespace atalla {
namespace {

// Places of the programs' values. Row numbers lie outside bank 0, where the bases are.
std::string row(int number) { return fmt::format("x{}", 64 + 4 * (number / 3) + 1 + number % 3); }
constexpr const char *base_a = "x4", *base_c = "x8", *base_w = "x12";
constexpr int pad_a = 0, pad_c = 1, pad_w = 2;

// Row numbers, bases, addresses and the control words of whole contiguous tiles in the three pads.
std::string set_up() {
    std::string text;
    for (int number = 0; number < 32; number++) {
        text += fmt::format("addi.s {}, x0, {}\n", row(number), number);
    }
    for (const auto &[reg, pad] : {std::pair{"x20", pad_a}, std::pair{"x21", pad_c}, std::pair{"x22", pad_w}}) {
        const uint32_t word = static_cast<uint32_t>(pad) << 30 | 31u << 25 | 31u << 20 | 31u;
        text += fmt::format("lui.s {0}, {1}\nori.s {0}, {0}, {2}\n", reg, word >> 7, word & 127);
    }
    return text + "lui.s x24, 512\nlui.s x25, 1024\nlui.s x26, 1536\n";
}

// A tile of weights through pad and registers into the array.
std::string load_weights() {
    std::string text = fmt::format("scpad.ld {}, x26, x22\n", base_w);
    constexpr int ahead = 6;   // packets' distance, in rows, from a load to its use
    for (int step = 0; step < 32 + ahead; step++) {
        text += step < 32 ? fmt::format("vreg.ld v{}, {}, {}, 31, {}\n", 128 + step, base_w, row(step), pad_w) : "nop.s\n";
        text += step >= ahead ? fmt::format("lw.vi v0, v{}, 0, m0\n", 128 + step - ahead) : "nop.s\n";
        text += "nop.s\n";
    }
    return text;
}

// C comes in, 32 rows of A go through the array and are added to it, C goes out; nothing overlaps, as in the harness. A row takes
// three cycles, which is what a pad can do.
std::string tile() {
    std::string text = fmt::format("scpad.ld {}, x25, x21\naddi.s {}, {}, 0\n", base_c, base_c, base_c);
    constexpr int to_gemm = 5, to_store = 18;
    for (int step = 0; step < 32 + to_gemm + to_store; step++) {
        const int multiplied = step - to_gemm, stored = multiplied - to_store;
        text += step < 32 ? fmt::format("vreg.ld v{}, {}, {}, 31, {}\n", 1 + 4 * step, base_a, row(step), pad_a) : "nop.s\n";
        text += step < 32 ? fmt::format("vreg.ld v{}, {}, {}, 31, {}\n", 2 + 4 * step, base_c, row(step), pad_c) : "nop.s\n";
        std::string last;
        if (multiplied >= 0 && multiplied < 32) {
            last = fmt::format("gemm.vv v{}, v{}, v{}, m0", 3 + 4 * multiplied, 1 + 4 * multiplied, 2 + 4 * multiplied);
        }
        if (stored >= 0) {
            last += fmt::format("{}vreg.st v{}, {}, {}, 31, {}", last.empty() ? "" : " ; ", 3 + 4 * stored, base_c, row(stored), pad_c);
        }
        text += last.empty() ? "nop.s\n" : "{ " + last + " }\n";
    }
    return text + fmt::format("scpad.st {}, x25, x21\naddi.s {}, {}, 0\n", base_c, base_c, base_c);
}

// Upstream's simulator, whose array adds what comes in.
Overrides peer(Overrides more = {}) {
    more.insert({"sa.psum_in", 1});
    return more;
}

// The cycles of a text beyond those of the set-up.
int64_t cycles_beyond_set_up(const std::string &text, const Overrides &overrides) {
    const Overrides one = one_fetch(overrides);
    return cycles_of(set_up() + text + "halt.s\n", one, "atalla-sim") - cycles_of(set_up() + "halt.s\n", one, "atalla-sim");
}

// `visits` tiles of weights with `reuse` tiles of C each.
int64_t cycles_of_product(int visits, int reuse) {
    const std::string text = fmt::format("addi.s x30, x0, {}\naddi.s x31, x0, 0\nvisit: addi.s x33, x0, {}\naddi.s x34, x0, 0\n", visits - 1, reuse - 1) +
                             load_weights() + "tile: nop.s\n" + tile() + "bge.s x34, x33, done, 1\njal x0, tile\ndone: bge.s x31, x30, end, 1\njal x0, visit\nend: nop.s\n";
    return cycles_beyond_set_up(text, peer());
}

TEST(Peers, ATileOfWeightsAndRowsOfThem) {
    EXPECT_EQ(cycles_beyond_set_up(load_weights(), peer()), 0);
    EXPECT_EQ(cycles_beyond_set_up(tile(), peer()), 0);
    // A row of 64 bytes at a time, 28 cycles each, as the published 909 cycles for a tile of weights suggest.
    EXPECT_EQ(cycles_beyond_set_up(load_weights(), peer({{"sdma.outstanding", 2}, {"dram.complete", 27}})), 0);
}

TEST(Peers, AProductOf1024Cubed) {
    // Steady after the first visits, so a part stands for the whole: 32,768 tiles of C in 4,096 visits.
    const int64_t few = cycles_of_product(4, 8), more = cycles_of_product(12, 8);
    EXPECT_EQ((more - few) / 8 * 4096, 0);
}

}  // namespace
}  // namespace atalla
