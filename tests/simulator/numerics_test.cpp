#include "simulator/numerics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/simulator/rig.h"

namespace atalla {
namespace {

TEST(Bf16Round, RoundsToNearestEvenAndHasNoRuleForNan) {
    EXPECT_EQ(bf16_round_bits(0x3F800000), 0x3F800000u);
    EXPECT_EQ(bf16_round_bits(0x3F808000), 0x3F800000u);  // a tie goes to the even neighbour below
    EXPECT_EQ(bf16_round_bits(0x3F818000), 0x3F820000u);  // and above
    EXPECT_EQ(bf16_round_bits(0x3F808001), 0x3F810000u);
    EXPECT_EQ(bf16_round_bits(0x00008001), 0x00010000u);  // denormals are kept
    EXPECT_EQ(bf16_round_bits(0x80000000), 0x80000000u);
    EXPECT_EQ(bf16_round_bits(0x7F7FFFFF), 0x7F800000u);  // overflow
    EXPECT_EQ(bf16_round_bits(0x7F800001), 0x7F800000u);  // a NaN becomes infinity
    EXPECT_EQ(bf16_round_bits(0x7FC00000), 0x7FC00000u);
    EXPECT_EQ(bf16_round_bits(0x7FFF8000), 0x80000000u);  // or -0
    EXPECT_EQ(bf16_round_bits(0xFFFF8000), 0x00000000u);  // or +0
}

TEST(Bf16Round, KeepsEveryBf16) {
    for (uint32_t half = 0; half < 0x10000; half++) {
        ASSERT_EQ(bf16_round_bits(half << 16), half << 16);
    }
}

uint32_t reference_exp(uint16_t half) {
    const float x = bf16_float(half);
    if (std::isnan(x)) {
        return positive_nan;
    }
    return bf16_round_bits(float_bits(static_cast<float>(std::exp(static_cast<double>(x)))));
}

TEST(Exp, IsTheRoundedDoubleForEveryInput) {
    for (uint32_t half = 0; half < 0x10000; half++) {
        ASSERT_EQ(float_bits(atalla_exp(bf16_float(half))), reference_exp(half)) << std::hex << half;
    }
    EXPECT_EQ(float_bits(atalla_exp(infinity)), 0x7F800000u);
    EXPECT_EQ(float_bits(atalla_exp(-infinity)), 0u);
    EXPECT_EQ(float_bits(atalla_exp(89.0f)), 0x7F800000u);                             // the first overflow
    EXPECT_LT(atalla_exp(bits_float(0x42B10000)), infinity);                           // the input before it
    EXPECT_EQ(float_bits(atalla_exp(bits_float(0x3F808000))), reference_exp(0x3F80));  // the operand is rounded first
}

// expi.vi over all inputs, 32 at a time. Only upstream's functional simulator has the one exception.
template <class R>
void check_expi() {
    R rig;
    for (uint32_t first = 0; first < 0x10000; first += lanes) {
        rig.set(1, [&](int lane) { return bf16_float(static_cast<uint16_t>(first + lane)); });
        rig.run("expi.vi v2, v1, 0, 0");
        for (int lane = 0; lane < lanes; lane++) {
            const uint16_t half = static_cast<uint16_t>(first + lane);
            const uint32_t expected = !R::hardware && half == 0x40DB ? 0x446A0000 : reference_exp(half);
            ASSERT_EQ(rig.lane(2, lane), expected) << std::hex << half;
        }
    }
}
TEST(Exp, ExpiOnHardware) { check_expi<HardwareRig>(); }
TEST(Exp, ExpiOnTheFunctionalMachineHasOneException) {
    check_expi<FunctionalRig>();
    EXPECT_EQ(reference_exp(0x40DB), 0x446B0000u);
}

TEST(Reciprocal, IsTheRoundedDouble) {
    EXPECT_EQ(float_bits(atalla_rcp(3.0f)), 0x3EAAAAABu);
    EXPECT_EQ(float_bits(atalla_rcp(-2.0f)), 0xBF000000u);
    EXPECT_EQ(float_bits(atalla_rcp(0.0f)), 0x7F800000u);
    EXPECT_EQ(float_bits(atalla_rcp(-0.0f)), 0xFF800000u);
    EXPECT_EQ(float_bits(atalla_rcp(-infinity)), 0x80000000u);
    EXPECT_EQ(float_bits(atalla_rcp(bits_float(0x7F000000))), 0x00400000u);  // a denormal result
    EXPECT_EQ(float_bits(atalla_rcp(bits_float(0x00000001))), 0x7F800000u);  // overflow
    EXPECT_EQ(float_bits(atalla_rcp(bits_float(0xFF800001))), 0xFFC00001u);  // a signalling NaN comes out quiet
}

TEST(SquareRoot, IsTheRoundedDouble) {
    EXPECT_EQ(atalla_sqrt(9.0f), 3.0f);
    EXPECT_EQ(float_bits(atalla_sqrt(2.0f)), 0x3FB504F3u);
    EXPECT_EQ(float_bits(atalla_sqrt(-0.0f)), 0x80000000u);
    EXPECT_EQ(float_bits(atalla_sqrt(-1.0f)), negative_nan);
    EXPECT_EQ(float_bits(atalla_sqrt(-infinity)), negative_nan);
    EXPECT_EQ(float_bits(atalla_sqrt(infinity)), 0x7F800000u);
    EXPECT_EQ(float_bits(atalla_sqrt(bits_float(positive_nan))), positive_nan);
    EXPECT_EQ(float_bits(atalla_sqrt(bits_float(0x00000001))), float_bits(static_cast<float>(std::sqrt(0x1p-149))));
}

}  // namespace
}  // namespace atalla
