// Scalar loads and stores, vreg.*, scpad.* on both models (isa reference 1.3, 4.5, 4.10, 4.11; microarchitecture rules 25, 50).
#include <fmt/format.h>

#include "tests/simulator/rig.h"

namespace atalla {
namespace {

using testing::HasSubstr;

template <class R>
using DataMovement = OnBothModels<R>;
TYPED_TEST_SUITE(DataMovement, Models, ModelNames);

// bf16 elements of data memory, whichever memory the machine has.
template <class R>
uint16_t element(R &rig, uint32_t address) {
    return R::hardware ? rig.state.bytes.read16(address) : rig.state.words.read_half(address);
}
template <class R>
void set_element(R &rig, uint32_t address, uint16_t value) {
    if (R::hardware) {
        rig.state.bytes.write16(address, value);
    } else {
        rig.state.words.write_half(address, value);
    }
}

uint32_t control(uint32_t pad, uint32_t rows, uint32_t columns, uint32_t pitch_field) {
    return pad << 30 | (rows - 1) << 25 | (columns - 1) << 20 | pitch_field;
}

TYPED_TEST(DataMovement, ScalarWordsAndHalves) {
    TypeParam rig;
    rig.state.x[1] = 0x1000;
    rig.state.x[2] = 0x11223344;
    rig.run("sw.s x2, -4(x1)\nlw.s x3, -4(x1)\nlhw.s x4, -4(x1)\nshw.s x2, 8(x1)\nlw.s x5, 8(x1)\nlw.s x6, 100(x1)");
    EXPECT_EQ(rig.state.x[3], 0x11223344u);
    EXPECT_EQ(rig.state.x[4], 0x33440000u);
    EXPECT_EQ(rig.state.x[5], 0x00001122u);
    EXPECT_EQ(rig.state.x[6], 0u);
    rig.run("lw.s x0, -4(x1)\nadd.s x7, x0, x0");
    EXPECT_EQ(rig.state.x[7], 0u);
}

TEST(DataMovementHardware, MemoryIsBytes) {
    HardwareRig rig;
    rig.state.x[1] = 0x1000;
    rig.state.x[2] = 0x11223344;
    rig.state.x[3] = 0xAABBCCDD;
    rig.run("sw.s x2, 0(x1)\nlhw.s x4, 2(x1)\nlw.s x5, 1(x1)\nshw.s x3, 2(x1)\nlw.s x6, 0(x1)");
    EXPECT_EQ(rig.state.x[4], 0x11220000u);
    EXPECT_EQ(rig.state.x[5], 0x00112233u);
    EXPECT_EQ(rig.state.x[6], 0xAABB3344u);
}

TEST(DataMovementHardware, ScalarAddressesAreChecked) {
    HardwareRig rig;
    const uint64_t size = rig.state.bytes.size();
    rig.state.x[1] = static_cast<uint32_t>(size - 4);
    rig.run("sw.s x1, 0(x1)\nlhw.s x3, 2(x1)");  // the last word and half
    for (const char *text : {"lw.s x3, 1(x1)", "sw.s x3, 4(x1)", "lhw.s x3, 3(x1)", "shw.s x3, 4(x1)"}) {
        EXPECT_EQ(rig.refusal(text).rule, "memory") << text;
        EXPECT_THAT(rig.refusal(text).sentence, HasSubstr("outside the data memory of"));
    }
    EXPECT_EQ(rig.refusal("lw.s x3, 1(x1)").sentence,
              fmt::format("4 bytes at address 0x{:08X} are outside the data memory of {} bytes", size - 3, size));
    rig.state.x[2] = 0xFFFFFFFC;
    rig.run("sw.s x2, 8(x2)");  // addresses are 32 bits wide: this is 4
    EXPECT_EQ(rig.state.bytes.read32(4), 0xFFFFFFFCu);
}

TEST(DataMovementFunctional, MemoryIsAMapOfExactKeys) {
    FunctionalRig rig;
    rig.state.x[1] = 0x1000;
    rig.state.x[2] = 0x11223344;
    rig.run("sw.s x2, 0(x1)\nsw.s x1, 2(x1)\nlw.s x3, 0(x1)\nlw.s x4, 1(x1)\nlw.s x5, 2(x1)");
    EXPECT_EQ(rig.state.x[3], 0x11223344u);
    EXPECT_EQ(rig.state.x[4], 0u);
    EXPECT_EQ(rig.state.x[5], 0x1000u);
    rig.run("shw.s x2, 0(x1)\nlw.s x3, 0(x1)");  // the whole entry is replaced
    EXPECT_EQ(rig.state.x[3], 0x1122u);
    rig.state.x[2] = 0xFFFFFFFC;
    rig.run("sw.s x1, 8(x2)\nsw.s x2, -4(x0)");  // keys beyond 32 bits, and negative ones
    EXPECT_EQ(rig.state.words.read(0x100000004), 0x1000u);
    EXPECT_EQ(rig.state.words.read(-4), 0xFFFFFFFCu);
    EXPECT_FALSE(rig.state.words.exists(4));
}

// vreg.*

TYPED_TEST(DataMovement, VectorRowsRoundTripThroughAPad) {
    TypeParam rig;
    rig.set(1, [](int lane) { return static_cast<float>(lane + 1); });
    rig.state.x[1] = 64 * 3 + 17;  // the byte in the row is ignored
    rig.state.x[2] = 2;
    rig.fill(3, 9.0f);
    rig.run("vreg.st v1, x1, x2, 31, 1\nvreg.ld v2, x1, x2, 31, 1\nvreg.ld v3, x1, x2, 4, 1");
    EXPECT_EQ(rig.bits(2), rig.bits(1));
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(rig.value(3, lane), lane < 5 ? lane + 1.0f : 0.0f);  // zero-filled
    }
    // A narrow store leaves the other cells.
    rig.run("vreg.st v0, x1, x2, 1, 1\nvreg.ld v2, x1, x2, 31, 1");
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(rig.value(2, lane), lane < 2 ? 0.0f : lane + 1.0f);
    }
    // Pads are separate, unwritten cells are zero.
    rig.run("vreg.ld v2, x1, x2, 31, 0");
    EXPECT_EQ(rig.bits(2), all(0.0f));
    EXPECT_EQ(rig.state.traffic.pad_store_bytes[1], 64u + 4);
    EXPECT_EQ(rig.state.traffic.pad_load_bytes[1], 64u + 10 + 64);
    EXPECT_EQ(rig.state.traffic.pad_load_bytes[0], 64u);
}

TYPED_TEST(DataMovement, RowsWrapAtTheEndOfThePad) {
    TypeParam rig;
    const int64_t rows = rig.state.pad_rows;
    rig.fill(1, 5.0f);
    rig.state.x[2] = static_cast<uint32_t>(rows + 1);
    rig.run("vreg.st v1, x0, x2, 31, 0");
    rig.state.x[2] = 1;
    rig.run("vreg.ld v2, x0, x2, 31, 0");
    EXPECT_EQ(rig.bits(2), all(5.0f));
    rig.state.x[1] = 64;
    rig.state.x[2] = 0xFFFFFFFF;  // unsigned: 2^32 - 1 rows from row 1 is row 0
    rig.fill(1, 6.0f);
    rig.run("vreg.st v1, x1, x2, 31, 0\nvreg.ld v2, x0, x0, 31, 0");
    EXPECT_EQ(rig.bits(2), all(6.0f));
}

TEST(DataMovementHardware, PadsHoldBf16Patterns) {
    HardwareRig rig;
    rig.fill_bits(1, 0x7FA00000);  // a signalling NaN is only copied
    rig.run("vreg.st v1, x0, x0, 31, 3\nvreg.ld v2, x0, x0, 31, 3");
    EXPECT_EQ(rig.bits(2), all(0x7FA00000u));
    EXPECT_EQ(rig.state.pad_halves(3, 0)[31], 0x7FA0);
    EXPECT_EQ(rig.state.pad_rows, 8192);
}

TEST(DataMovementFunctional, PadsHoldFloat32) {
    FunctionalRig rig;
    rig.fill_bits(1, 0x3F812345);
    rig.run("vreg.st v1, x0, x0, 31, 1\nvreg.ld v2, x0, x0, 31, 1");
    EXPECT_EQ(rig.bits(2), all(0x3F812345u));
}

TEST(DataMovementFunctional, PadsTwoAndThreeAreRefusedByVreg) {
    FunctionalRig rig;
    EXPECT_EQ(rig.refusal("vreg.ld v1, x0, x0, 31, 2").sentence, "vreg.ld names pad 2, the machine has pads 0 to 1");
    EXPECT_EQ(rig.refusal("vreg.st v1, x0, x0, 31, 3").sentence, "vreg.st names pad 3, the machine has pads 0 to 1");
    EXPECT_EQ(rig.refusal("vreg.st v1, x0, x0, 31, 3").rule, "pad");
}

TEST(DataMovementFunctional, HighAddressesOfVregAreMemory) {
    FunctionalRig rig;
    rig.set(1, [](int lane) { return bits_float(0x3F800000 + 0x10000 * static_cast<uint32_t>(lane) + 0xFFFF); });
    rig.state.x[1] = 0x1000;
    rig.state.x[2] = 7;  // the row and the pad are ignored
    rig.run("vreg.st v1, x1, x2, 31, 3\nvreg.ld v2, x1, x0, 31, 2");
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(rig.lane(2, lane), 0x3F800000 + 0x10000u * static_cast<uint32_t>(lane));
    }
    EXPECT_EQ(rig.state.words.read(0x1000), 0x3F813F80u);  // truncated, two elements a word
    EXPECT_EQ(rig.state.traffic.pad_store_bytes, (std::array<uint64_t, 4>{}));

    // A signalling NaN becomes quiet on the way out and on the way in.
    rig.fill_bits(1, 0x7F810000);
    rig.state.words.write(0x2000, 0x7F81FF81);
    rig.state.x[2] = 0x2000;
    rig.run("vreg.st v1, x1, x0, 0, 0\nvreg.ld v2, x2, x0, 1, 0");
    EXPECT_EQ(rig.state.words.read_half(0x1000), 0x7FC1);
    EXPECT_EQ(rig.lane(2, 0), 0xFFC10000u);
    EXPECT_EQ(rig.lane(2, 1), 0x7FC10000u);
    EXPECT_EQ(rig.lane(2, 2), 0u);
}

TEST(DataMovementFunctional, AddressesAroundTheFramePointerAreMemory) {
    FunctionalRig rig;
    rig.fill(1, 2.0f);
    const auto goes_to_memory = [&](uint32_t frame, uint32_t address) {
        rig.state.x[33] = frame;
        rig.state.x[1] = address;
        rig.state.words = WordMemory();
        rig.run("vreg.st v1, x1, x0, 31, 0");
        return rig.state.words.exists(address & ~3u);
    };
    EXPECT_TRUE(goes_to_memory(0x1000, 0x1000));
    EXPECT_TRUE(goes_to_memory(0x1000, 0x1000 - 768));
    EXPECT_FALSE(goes_to_memory(0x1000, 0x1000 - 772));
    EXPECT_FALSE(goes_to_memory(0xFFF, 0xFF0));
    EXPECT_FALSE(goes_to_memory(0x2000, 0xFF0));
}

// scpad.*

template <class R>
void fill_matrix(R &rig, uint32_t address, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        set_element(rig, address + 2 * i, static_cast<uint16_t>(0x3F80 + i));
    }
}

TYPED_TEST(DataMovement, TilesMoveBetweenMemoryAndPad) {
    TypeParam rig;
    fill_matrix(rig, 0x2000, 64);
    rig.state.x[1] = 64 * 2;
    rig.state.x[2] = 0x2000 + 2 * 3;  // column 3 of a matrix 10 wide
    rig.state.x[3] = control(1, 4, 5, 9);
    rig.state.x[4] = 0x4000;
    rig.state.x[5] = control(1, 4, 5, 6);  // pitch 7
    rig.run("scpad.ld x1, x2, x3\nscpad.st x1, x4, x5");
    for (uint32_t row = 0; row < 4; row++) {
        rig.state.x[6] = row;
        rig.run("vreg.ld v1, x1, x6, 31, 1");
        for (uint32_t column = 0; column < lanes; column++) {
            EXPECT_EQ(rig.lane(1, static_cast<int>(column)), column < 5 ? (0x3F83 + row * 10 + column) << 16 : 0u);
        }
        for (uint32_t column = 0; column < 7; column++) {
            EXPECT_EQ(element(rig, 0x4000 + 2 * (row * 7 + column)), column < 5 ? 0x3F83 + row * 10 + column : 0u);
        }
    }
    EXPECT_EQ(rig.state.traffic.dma_load_bytes[1], 40u);
    EXPECT_EQ(rig.state.traffic.dma_store_bytes[1], 40u);
}

TYPED_TEST(DataMovement, LoadsTouchOnlyTheTile) {
    TypeParam rig;
    rig.fill(1, 8.0f);
    rig.state.x[1] = 1;
    rig.run("vreg.st v1, x0, x0, 31, 0\nvreg.st v1, x0, x1, 31, 0");
    rig.state.x[3] = control(0, 1, 3, 31);
    rig.run("scpad.ld x0, x2, x3\nvreg.ld v2, x0, x0, 31, 0\nvreg.ld v3, x0, x1, 31, 0");
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(rig.value(2, lane), lane < 3 ? 0.0f : 8.0f);
    }
    EXPECT_EQ(rig.bits(3), all(8.0f));
}

TYPED_TEST(DataMovement, PitchBelowColumnsIsRefused) {
    TypeParam rig;
    rig.state.x[3] = control(0, 2, 5, 3);
    for (const char *op : {"scpad.ld", "scpad.st"}) {
        const Refusal refusal = rig.refusal(std::string(op) + " x1, x2, x3");
        EXPECT_EQ(refusal.sentence, std::string(op) + " has a row pitch of 4 elements, less than its 5 columns");
        EXPECT_EQ(refusal.rule, TypeParam::hardware ? "50" : "isa 4.10");
    }
}

TEST(DataMovementHardware, PitchFieldZeroIsAPitchOfOne) {
    HardwareRig rig;
    fill_matrix(rig, 0x2000, 3);
    rig.state.x[2] = 0x2000;
    rig.state.x[3] = control(0, 3, 1, 0);
    rig.run("scpad.ld x0, x2, x3");
    for (int row = 0; row < 3; row++) {
        EXPECT_EQ(rig.state.pad_halves(0, row)[0], 0x3F80 + row);
    }
    rig.state.x[3] = control(0, 3, 2, 0);
    EXPECT_EQ(rig.refusal("scpad.ld x0, x2, x3").rule, "50");
}

TEST(DataMovementFunctional, PitchFieldZeroIsTheWidthOfTheTile) {
    FunctionalRig rig;
    fill_matrix(rig, 0x2000, 6);
    rig.state.x[2] = 0x2000;
    rig.state.x[3] = control(0, 2, 3, 0);
    rig.run("scpad.ld x0, x2, x3");
    EXPECT_EQ(float_bits(rig.state.pad_floats(0, 1)[2]), 0x3F850000u);
}

TEST(DataMovementHardware, TilesAreChecked) {
    HardwareRig rig;
    rig.state.x[1] = 64 * 8190;
    rig.state.x[3] = control(2, 2, 32, 31);
    rig.run("scpad.ld x1, x2, x3");  // the last two rows
    rig.state.x[3] = control(2, 3, 32, 31);
    EXPECT_EQ(rig.refusal("scpad.ld x1, x2, x3").sentence, "scpad.ld uses rows 8190 to 8192 of pad 2, which has 8192 rows");
    EXPECT_EQ(rig.refusal("scpad.st x1, x2, x3").rule, "pad");

    const uint64_t size = rig.state.bytes.size();
    rig.state.x[3] = control(0, 2, 4, 15);  // 2 * (16 + 4) = 40 bytes
    rig.state.x[2] = static_cast<uint32_t>(size - 40);
    rig.run("scpad.st x0, x2, x3");
    rig.state.x[2] += 1;
    EXPECT_EQ(rig.refusal("scpad.st x0, x2, x3").sentence,
              fmt::format("scpad.st moves a tile of 40 bytes at address 0x{:08X}, outside the data memory of {} bytes",
                          size - 39, size));
    EXPECT_EQ(rig.refusal("scpad.ld x0, x2, x3").rule, "memory");
}

TEST(DataMovementFunctional, TilesWrapAndPadsTwoAndThreeDoNothing) {
    FunctionalRig rig;
    fill_matrix(rig, 0x2000, 4);
    rig.state.x[1] = 64 * 31;
    rig.state.x[2] = 0x2000;
    rig.state.x[3] = control(0, 2, 2, 0);
    rig.run("scpad.ld x1, x2, x3");
    EXPECT_EQ(float_bits(rig.state.pad_floats(0, 31)[1]), 0x3F810000u);
    EXPECT_EQ(float_bits(rig.state.pad_floats(0, 0)[1]), 0x3F830000u);
    rig.state.x[4] = 0x5000;
    rig.state.x[5] = control(2, 2, 2, 0);
    rig.run("scpad.st x1, x4, x5\nscpad.ld x1, x2, x5");
    EXPECT_FALSE(rig.state.words.exists(0x5000));
    EXPECT_EQ(rig.state.traffic.dma_store_bytes, (std::array<uint64_t, 4>{}));
}

TEST(DataMovementFunctional, StoresToMemoryTruncateAndQuiet) {
    FunctionalRig rig;
    rig.fill_bits(1, 0x3F80FFFF);
    rig.fill_bits(2, 0x7F810000);
    rig.state.x[1] = 64;
    rig.state.x[2] = 0x2000;
    rig.state.x[3] = control(0, 2, 2, 0);
    rig.run("vreg.st v1, x0, x0, 31, 0\nvreg.st v2, x1, x0, 31, 0\nscpad.st x0, x2, x3");
    EXPECT_EQ(rig.state.words.read(0x2000), 0x3F803F80u);
    EXPECT_EQ(rig.state.words.read(0x2004), 0x7FC17FC1u);
    rig.state.words.write(0x2000, 0xFF81FF81);
    rig.run("scpad.ld x0, x2, x3");
    EXPECT_EQ(float_bits(rig.state.pad_floats(0, 0)[0]), 0xFFC10000u);
}

}  // namespace
}  // namespace atalla
