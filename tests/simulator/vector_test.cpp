// Lane, reduction and array instructions on both models (isa reference 4.6 to 4.9, 4.12, 4.13).
#include "simulator/lanes.h"

#include <algorithm>
#include <random>

#include "tests/simulator/rig.h"

namespace atalla {
namespace {

template <class R>
using VectorOps = OnBothModels<R>;
TYPED_TEST_SUITE(VectorOps, Models, ModelNames);

TYPED_TEST(VectorOps, ArithmeticRoundsToBf16) {
    TypeParam rig;
    rig.fill(1, 256.0f);
    rig.fill(2, 1.5f);
    rig.run("add.vv v3, v1, v2, 0\nsub.vv v4, v1, v2, 0\nmul.vv v5, v1, v2, 0");
    EXPECT_EQ(rig.bits(3), all(258.0f));  // 257.5 is not a bf16: nearest is 258
    EXPECT_EQ(rig.bits(4), all(254.0f));  // 254.5 ties between 254 and 255: even
    EXPECT_EQ(rig.bits(5), all(384.0f));
}

TYPED_TEST(VectorOps, ScalarOperandIsAFloat32PatternRounded) {
    TypeParam rig;
    rig.fill(1, 2.0f);
    rig.state.x[1] = 0x40008001;  // rounds to 0x40010000
    rig.run("add.vs v3, v1, x1, 0\nsub.vs v4, v1, x1, 0\nmul.vs v5, v1, x1, 0");
    EXPECT_EQ(rig.bits(3), all(bf16_round(2.0f + bits_float(0x40010000))));
    EXPECT_EQ(rig.bits(4), all(bf16_round(2.0f - bits_float(0x40010000))));
    EXPECT_EQ(rig.bits(5), all(bits_float(0x40810000)));
    rig.state.x[1] = 0x3F80;  // a low-half constant is a denormal here, and rounds to zero
    rig.run("add.vs v3, v1, x1, 0");
    EXPECT_EQ(rig.bits(3), all(2.0f));
}

TYPED_TEST(VectorOps, InactiveLanesKeepTheirValue) {
    TypeParam rig;
    rig.fill(1, 1.0f);
    rig.fill(3, 7.0f);
    rig.state.m[2] = 0x80000005;
    rig.run("add.vv v3, v1, v1, 2\nexpi.vi v4, v1, 0, 5");
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(rig.value(3, lane), lane == 0 || lane == 2 || lane == 31 ? 2.0f : 7.0f) << lane;
    }
    EXPECT_EQ(rig.bits(4), all(0.0f));  // a mask that was never set switches all lanes off
}

TYPED_TEST(VectorOps, V0StaysZero) {
    TypeParam rig;
    rig.fill(1, 3.0f);
    rig.run(
        "add.vv v0, v1, v1, 0\nexpi.vi v0, v1, 0, 0\nrsum.vi v0, v1, 64, 0\nlw.vi v0, v1, 0, 0\ngemm.vv v0, v1, v0, 0\n"
        "vreg.ld v0, x0, x0, 31, 0");
    EXPECT_EQ(rig.bits(0), all(0.0f));
}

TYPED_TEST(VectorOps, SpecialValues) {
    TypeParam rig;
    const auto result = [&](const char *mnemonic, uint32_t a, uint32_t b) {
        rig.fill_bits(1, a);
        rig.fill_bits(2, b);
        rig.run(std::string(mnemonic) + " v3, v1, v2, 0");
        EXPECT_EQ(rig.bits(3), all(rig.lane(3, 0)));
        return rig.lane(3, 0);
    };
    EXPECT_EQ(result("sub.vv", 0x7F800000, 0x7F800000), negative_nan);  // inf - inf
    EXPECT_EQ(result("mul.vv", 0x00000000, 0xFF800000), negative_nan);  // 0 * inf
    EXPECT_EQ(result("add.vv", 0x7F800000, 0x3F800000), 0x7F800000u);
    EXPECT_EQ(result("add.vv", 0x80000000, 0x80000000), 0x80000000u);
    EXPECT_EQ(result("add.vv", 0x80000000, 0x00000000), 0x00000000u);
    EXPECT_EQ(result("mul.vv", 0x7F000000, 0x40800000), 0x7F800000u);  // overflow
    EXPECT_EQ(result("mul.vv", 0x00010000, 0x3F000000), 0x00000000u);  // half the smallest bf16 denormal ties to even
    EXPECT_EQ(result("mul.vv", 0x00020000, 0x3F000000), 0x00010000u);  // denormals are kept
    EXPECT_EQ(result("add.vv", 0x00010000, 0x00010000), 0x00020000u);
    EXPECT_EQ(result("add.vv", 0x7FA00000, 0x3F800000), 0x7FE00000u);  // a signalling NaN comes out quiet
    EXPECT_EQ(result("mul.vv", 0x3F800000, 0xFFC10000), 0xFFC10000u);
    EXPECT_EQ(result("add.vv", 0x7FC10000, 0xFFC20000), 0x7FC10000u);  // the first of two
}

TYPED_TEST(VectorOps, OneNanDoesNotDisturbItsNeighbours) {
    TypeParam rig;
    rig.set(1, [](int lane) { return lane == 7 ? infinity : static_cast<float>(lane); });
    rig.run("sub.vv v2, v1, v1, 0");
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(rig.lane(2, lane), lane == 7 ? negative_nan : 0u) << lane;
    }
}

TEST(VectorFunctional, LanesAreFloat32UntilAnOperationRoundsThem) {
    FunctionalRig rig;
    rig.fill_bits(1, 0x3F808001);
    rig.fill(2, 0.0f);
    rig.fill_bits(4, 0x3F800000);
    rig.run("add.vv v3, v1, v2, 0\nmgt.mvv m1, v1, v4, 0\nvmov.vts x1, v1, 3");
    EXPECT_EQ(rig.bits(3), all(0x3F810000u));
    EXPECT_EQ(rig.state.m[1], 0xFFFFFFFFu);  // compares do not round: 1.0039 > 1
    EXPECT_EQ(rig.state.x[1], 0x3F808001u);
    // The operand's rounding turns some NaNs into infinities (quirk 9).
    rig.fill_bits(1, 0x7F800001);
    rig.run("add.vv v3, v1, v2, 0");
    EXPECT_EQ(rig.bits(3), all(0x7F800000u));
}

// Compares.

TYPED_TEST(VectorOps, Compares) {
    TypeParam rig;
    rig.set(1, [](int lane) { return lane == 31 ? bits_float(positive_nan) : static_cast<float>(lane); });
    rig.fill(2, 4.0f);
    rig.state.x[1] = float_bits(4.0f);
    const auto mask = [&](const std::string &text) {
        rig.run(text);
        return rig.state.m[1];
    };
    EXPECT_EQ(mask("mgt.mvv m1, v1, v2, 0"), 0x7FFFFFE0u);
    EXPECT_EQ(mask("mlt.mvv m1, v1, v2, 0"), 0x0000000Fu);
    EXPECT_EQ(mask("meq.mvv m1, v1, v2, 0"), 0x00000010u);
    EXPECT_EQ(mask("mneq.mvv m1, v1, v2, 0"), 0xFFFFFFEFu);  // NaN compares false but for this one
    EXPECT_EQ(mask("mgt.mvs m1, v1, x1, 0"), 0x7FFFFFE0u);
    EXPECT_EQ(mask("mlt.mvs m1, v1, x1, 0"), 0x0000000Fu);
    EXPECT_EQ(mask("meq.mvs m1, v1, x1, 0"), 0x00000010u);
    EXPECT_EQ(mask("mneq.mvs m1, v1, x1, 0"), 0xFFFFFFEFu);
    rig.fill_bits(3, 0x80000000);
    EXPECT_EQ(mask("meq.mvv m1, v3, v0, 0"), 0xFFFFFFFFu);  // -0 equals +0
}

TYPED_TEST(VectorOps, InactiveMaskBitsAreOldOnHardwareReversedInUpstream) {
    TypeParam rig;
    rig.state.m[1] = 0x00000001;
    rig.state.m[2] = 0x0000FFFF;
    rig.run("mgt.mvv m1, v0, v0, 2");
    EXPECT_EQ(rig.state.m[1], TypeParam::hardware ? 0x00000000u : 0x80000000u);
    rig.state.m[1] = 0x40000000;
    rig.run("meq.mvv m1, v0, v0, 2");
    EXPECT_EQ(rig.state.m[1], TypeParam::hardware ? 0x4000FFFFu : 0x0000FFFFu);
    rig.state.m[2] = 0xFFFF0000;
    rig.state.m[1] = 0x40000000;
    rig.run("meq.mvv m1, v0, v0, 2");
    EXPECT_EQ(rig.state.m[1], TypeParam::hardware ? 0xFFFF0000u : 0xFFFF0002u);
}

TYPED_TEST(VectorOps, ConstantMask) {
    TypeParam rig;
    rig.run(".writable_m0\nmgt.mvv m0, v0, v0, 0");
    EXPECT_EQ(rig.state.m[0], TypeParam::hardware ? 0xFFFFFFFFu : 0u);
}

TEST(ReversedBits, OfAWord) {
    EXPECT_EQ(reversed_bits(1), 0x80000000u);
    EXPECT_EQ(reversed_bits(0x12345678), 0x1E6A2C48u);
}

// Reductions.

TYPED_TEST(VectorOps, ReductionsOverActiveLanes) {
    TypeParam rig;
    rig.set(1, [](int lane) { return static_cast<float>(lane - 10); });
    rig.state.m[1] = 0x0000FF00;  // lanes 8 to 15: -2 .. 5
    rig.run("rsum.vi v2, v1, 64, 1\nrmin.vi v3, v1, 64, 1\nrmax.vi v4, v1, 64, 1");
    EXPECT_EQ(rig.bits(2), all(12.0f));
    EXPECT_EQ(rig.bits(3), all(-2.0f));
    EXPECT_EQ(rig.bits(4), all(5.0f));
    rig.run("rsum.vi v2, v1, 64, 2\nrmin.vi v3, v1, 64, 2\nrmax.vi v4, v1, 64, 2");  // no active lane
    EXPECT_EQ(rig.bits(2), all(0.0f));
    EXPECT_EQ(rig.bits(3), all(infinity));
    EXPECT_EQ(rig.bits(4), all(-infinity));
}

TYPED_TEST(VectorOps, ReductionResultGoesWhereTheImmediateSays) {
    TypeParam rig;
    rig.set(1, [](int lane) { return static_cast<float>(lane); });
    rig.fill(2, 99.0f);
    rig.state.m[1] = 0x6;  // the mask has no say in the output
    rig.run("rsum.vi v2, v1, 5, 1\nrsum.vi v3, v1, 37, 1\nrsum.vi v4, v1, 101, 1");
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(rig.value(2, lane), lane == 5 ? 3.0f : static_cast<float>(lane)) << lane;  // others from vs1
        EXPECT_EQ(rig.value(3, lane), lane == 5 ? 3.0f : 0.0f) << lane;
        EXPECT_EQ(rig.value(4, lane), 3.0f) << lane;  // bit 6 wins
    }
    rig.run("rmax.vi v1, v1, 0, 0");  // in place
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(rig.value(1, lane), lane == 0 ? 31.0f : static_cast<float>(lane));
    }
}

TYPED_TEST(VectorOps, ExtremaSkipNanAndKeepTheFirstOfEquals) {
    TypeParam rig;
    rig.set(1, [](int lane) { return lane == 0 ? bits_float(positive_nan) : lane == 1 ? -0.0f : 0.0f; });
    rig.run("rmin.vi v2, v1, 64, 0\nrmax.vi v3, v1, 64, 0");
    EXPECT_EQ(rig.bits(2), all(0x80000000u));
    EXPECT_EQ(rig.bits(3), all(0x80000000u));
    rig.fill_bits(1, positive_nan);
    rig.run("rmin.vi v2, v1, 64, 0");
    EXPECT_EQ(rig.bits(2), all(infinity));
}

TYPED_TEST(VectorOps, SumIsSequentialFloat32) {
    TypeParam rig;
    // 1 + 2^24 loses the 1 in float32; then the large terms cancel.
    rig.set(1, [](int lane) {
        return lane == 0 ? 1.0f : lane == 1 ? 0x1p24f : lane == 2 ? -0x1p24f : lane == 3 ? 0.5f : 0.0f;
    });
    rig.run("rsum.vi v2, v1, 64, 0");
    EXPECT_EQ(rig.bits(2), all(0.5f));
    // 257.5 needs ten bits: hardware registers round it, upstream's lanes keep it.
    rig.set(1, [](int lane) { return lane == 4 ? 256.0f : lane == 9 ? 1.5f : 0.0f; });
    rig.run("rsum.vi v2, v1, 64, 0");
    EXPECT_EQ(rig.bits(2), all(TypeParam::hardware ? 258.0f : 257.5f));
    // inf - inf
    rig.set(1, [](int lane) { return lane == 4 ? infinity : lane == 9 ? -infinity : 0.0f; });
    rig.run("rsum.vi v2, v1, 64, 0");
    EXPECT_EQ(rig.bits(2), all(negative_nan));
}

// The array.

std::mt19937 random_bits(7);
float random_bf16() { return bf16_round(std::normal_distribution<float>()(random_bits)); }

// w[j] is the vector that output lane j is the dot product with.
template <class R>
Lanes expected_product(R &rig, int row, const std::array<std::array<float, lanes>, lanes> &w) {
    Lanes words;
    for (int column = 0; column < lanes; column++) {
        float sum = 0;
        for (int k = 0; k < lanes; k++) {
            sum += rig.value(row, k) * w[column][k];
        }
        words[column] = bf16_round_bits(float_bits(sum));
    }
    return words;
}

TYPED_TEST(VectorOps, GemmIsTheDotProductWithEachLoadedVector) {
    TypeParam rig;
    std::array<std::array<float, lanes>, lanes> w;
    for (auto &vector : w) {
        for (float &value : vector) {
            value = random_bf16();
        }
    }
    const auto load = [&](int vector) {
        std::ranges::copy(w[vector], rig.state.v[10]);
        rig.run("lw.vi v0, v10, 0, 0");
    };
    rig.set(1, [](int) { return random_bf16(); });

    // Upstream fills columns 0 to 31 first; hardware always shifts in at column 0, so the last vector comes first.
    for (int vector = 0; vector < lanes; vector++) {
        load(TypeParam::hardware ? lanes - 1 - vector : vector);
    }
    rig.run("gemm.vv v2, v1, v0, 9");  // the mask is ignored
    EXPECT_EQ(rig.bits(2), expected_product(rig, 1, w));

    // From then on both shift.
    for (int vector = 0; vector < 5; vector++) {
        load(vector);
        std::rotate(w.begin(), w.end() - 1, w.end());
        w[0] = w[vector + 1];
        rig.run("gemm.vv v2, v1, v0, 0");
        ASSERT_EQ(rig.bits(2), expected_product(rig, 1, w)) << vector;
    }
}

TYPED_TEST(VectorOps, GemmAccumulatesInFloat32WithAscendingDepth) {
    TypeParam rig;
    rig.fill(10, 1.0f);
    for (int vector = 0; vector < lanes; vector++) {
        rig.run("lw.vi v0, v10, 0, 0");
    }
    rig.set(1, [](int lane) {
        return lane == 0 ? 1.0f : lane == 1 ? 0x1p24f : lane == 2 ? -0x1p24f : lane == 3 ? 0.5f : 0.0f;
    });
    rig.run("gemm.vv v2, v1, v0, 0");
    EXPECT_EQ(rig.bits(2), all(0.5f));
    // A sum of negative zeros starts from +0.
    rig.fill_bits(1, 0x80000000);
    rig.run("gemm.vv v2, v1, v0, 0");
    EXPECT_EQ(rig.bits(2), all(0x00000000u));
    // NaN stays in its column.
    rig.set(1, [](int lane) { return lane == 3 ? infinity : 1.0f; });
    rig.set(10, [](int lane) { return lane == 3 ? 0.0f : 1.0f; });
    rig.run("lw.vi v0, v10, 0, 0\ngemm.vv v2, v1, v0, 0");
    EXPECT_EQ(rig.lane(2, 0), negative_nan);
    EXPECT_EQ(rig.lane(2, 1), float_bits(infinity));
    EXPECT_EQ(rig.lane(2, 31), float_bits(infinity));
}

// One column of ones against one 256: dot = 256. The addend is 1.5.
template <class R>
Lanes partial_sum(R &&rig) {
    rig.set(10, [](int lane) { return lane == 0 ? 1.0f : 0.0f; });
    for (int vector = 0; vector < lanes; vector++) {
        rig.run("lw.vi v0, v10, 0, 0");
    }
    rig.fill(1, 256.0f);
    rig.fill(2, 1.5f);
    rig.run("gemm.vv v3, v1, v2, 0");
    return rig.bits(3);
}

TEST(Gemm, PartialSumInput) {
    EXPECT_EQ(partial_sum(HardwareRig("ax01")), all(256.0f));       // vs2 is not read
    EXPECT_EQ(partial_sum(HardwareRig("ax01-psum")), all(258.0f));  // a bf16 addition
    EXPECT_EQ(partial_sum(FunctionalRig()), all(257.5f));           // float32, not rounded
}

TEST(Gemm, PartialSumRoundsTheDotProductFirst) {
    HardwareRig rig("ax01-psum");
    rig.set(10, [](int lane) { return lane < 2 ? 1.0f : 0.0f; });
    for (int vector = 0; vector < lanes; vector++) {
        rig.run("lw.vi v0, v10, 0, 0");
    }
    rig.set(1, [](int lane) { return lane == 0 ? 256.0f : 1.0f; });
    rig.fill(2, 1.0f);
    rig.run("gemm.vv v3, v1, v2, 0");
    EXPECT_EQ(rig.bits(3), all(256.0f));  // bf16(bf16(257) + 1) = bf16(256 + 1), where bf16(258) would be 258
}

// Moves.

TYPED_TEST(VectorOps, LaneToScalar) {
    TypeParam rig;
    rig.set(1, [](int lane) { return static_cast<float>(lane); });
    rig.run("vmov.vts x1, v1, 31");
    EXPECT_EQ(rig.state.x[1], float_bits(31.0f));
    EXPECT_EQ(rig.refusal("vmov.vts x1, v1, 32").sentence, "vmov.vts names lane 32, a vector has lanes 0 to 31");
    EXPECT_EQ(rig.refusal("vmov.vts x1, v1, 32").rule, "50");
    rig.fill_bits(1, 0x7FA00000);
    rig.run("vmov.vts x1, v1, 0");
    EXPECT_EQ(rig.state.x[1], TypeParam::hardware ? 0x7FA00000u : 0x7FE00000u);
}

// Every arithmetic result on hardware is a bf16: so operands never need rounding.
TEST(VectorHardware, RegistersHoldBf16Only) {
    HardwareRig rig("ax01-psum");
    rig.set(1, [](int) { return random_bf16(); });
    rig.set(2, [](int) { return random_bf16(); });
    rig.state.x[1] = 0x3F9D7A31;
    rig.run(
        "lw.vi v0, v1, 0, 0\nlw.vi v0, v2, 0, 0\n"
        "add.vv v10, v1, v2, 0\nsub.vv v11, v1, v2, 0\nmul.vv v12, v1, v2, 0\n"
        "add.vs v13, v1, x1, 0\nsub.vs v14, v1, x1, 0\nmul.vs v15, v1, x1, 0\n"
        "expi.vi v16, v1, 0, 0\nrsum.vi v17, v1, 64, 0\nrsum.vi v18, v1, 3, 0\ngemm.vv v19, v1, v2, 0");
    for (int vector = 10; vector < 20; vector++) {
        for (int lane = 0; lane < lanes; lane++) {
            EXPECT_EQ(rig.lane(vector, lane) & 0xFFFF, 0u) << vector << " " << lane;
        }
    }
}

}  // namespace
}  // namespace atalla
