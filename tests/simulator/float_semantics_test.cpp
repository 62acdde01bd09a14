// Floating point is defined bit for bit (docs/numerics.md): the same results from every host, compiler and optimization.
#include <gtest/gtest.h>

#include "tests/simulator/rig.h"

namespace atalla {
namespace {

// Both zeros, denormals, the ends of the range, ties of rounding, infinities, NaN of both kinds and signs, and usual numbers.
const std::vector<uint32_t> &operands_of_interest() {
    static const std::vector<uint32_t> all = [] {
        std::vector<uint32_t> list = {0x00000000, 0x80000000, 0x00010000, 0x80010000, 0x007F0000, 0x807F0000, 0x00800000,
                                      0x7F7F0000, 0xFF7F0000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7FC10000,
                                      0x7FA00000, 0xFFA00000, 0x3F800000, 0xBF800000, 0x3F810000, 0x3F808000, 0x3F818000,
                                      0x40490000, 0x42FE0000, 0x4B7F0000, 0x33800000, 0x3F7FFFFF, 0x00000001, 0x00FFFFFF};
        uint32_t state = 12345;
        for (int more = 0; more < 20; more++) {
            state = state * 1664525 + 1013904223;
            list.push_back(state);
        }
        return list;
    }();
    return all;
}

class Digest {
public:
    void add(uint32_t word) {
        for (int byte = 0; byte < 4; byte++) {
            hash_ = (hash_ ^ (word >> 8 * byte & 255)) * 0x100000001B3;
        }
    }
    uint64_t value() const { return hash_; }

private:
    uint64_t hash_ = 0xCBF29CE484222325;
};

void add_lanes(Digest &digest, const float *values) {
    for (int lane = 0; lane < lanes; lane++) {
        digest.add(float_bits(values[lane]));
    }
}

template <MachineModel model>
uint64_t digest_of_everything() {
    Rig<model> rig;
    Digest digest;
    const auto &values = operands_of_interest();
    const auto as_lanes = [&](size_t first, int reg) {
        for (int lane = 0; lane < lanes; lane++) {
            const uint32_t pattern = values[(first + static_cast<size_t>(lane)) % values.size()];
            rig.state.v[reg][lane] = bits_float(Rig<model>::hardware ? pattern & 0xFFFF0000 : pattern);
        }
    };
    for (const char *text : {"add.bf", "sub.bf", "mul.bf", "slt.bf"}) {
        for (const uint32_t a : values) {
            for (const uint32_t b : values) {
                // The functional machine refuses an overflow, which is a result too.
                rig.state.x[3] = 0;
                rig.state.x[1] = a;
                rig.state.x[2] = b;
                rig.refusal(std::string(text) + " x3, x1, x2");
                digest.add(rig.state.x[3]);
            }
        }
    }
    for (const char *text : {"rcp.bf", "sqrt.bf", "stbf.s", "bfts.s"}) {
        for (const uint32_t a : values) {
            rig.state.x[3] = 0;
            rig.state.x[1] = a;
            rig.refusal(std::string(text) + " x3, x1");
            digest.add(rig.state.x[3]);
        }
    }
    for (size_t first = 0; first < values.size(); first++) {
        for (size_t second = 0; second < values.size(); second += 5) {
            as_lanes(first, 1);
            as_lanes(second, 2);
            rig.state.x[1] = values[first];
            for (const char *text :
                 {"add.vv v3, v1, v2, m0", "sub.vv v3, v1, v2, m0", "mul.vv v3, v1, v2, m0", "add.vs v3, v1, x1, m0",
                  "mul.vs v3, v2, x1, m0", "sub.vs v3, v2, x1, m0", "expi.vi v3, v1, 0, m0", "rsum.vi v3, v1, 64, m0",
                  "rmin.vi v3, v1, 64, m0", "rmax.vi v3, v1, 64, m0"}) {
                rig.run(text);
                add_lanes(digest, rig.state.v[3]);
            }
            for (const char *text :
                 {"mgt.mvv m3, v1, v2, m0", "mlt.mvv m3, v1, v2, m0", "meq.mvv m3, v1, v2, m0", "mneq.mvv m3, v1, v2, m0"}) {
                rig.run(text);
                digest.add(rig.state.m[3]);
            }
        }
        as_lanes(first, 1);
        rig.run("lw.vi v0, v1, 0, m0");
        rig.run("gemm.vv v3, v1, v0, m0");
        add_lanes(digest, rig.state.v[3]);
    }
    return digest.value();
}

TEST(FloatSemantics, AreTheSameBitsEverywhere) {
    EXPECT_EQ(digest_of_everything<MachineModel::Hardware>(), 0x67DA14E46510C9FDu);
    EXPECT_EQ(digest_of_everything<MachineModel::Functional>(), 0xD020A589706AFCEAu);
}

TEST(FloatSemantics, DenormalsAreKept) {
    Rig<MachineModel::Hardware> rig;
    EXPECT_EQ(rig.scalar("add.bf", 0x00010000, 0x00010000), 0x00020000u);
    EXPECT_EQ(rig.scalar("mul.bf", 0x00800000, 0x3F000000), 0x00400000u) << "2^-126 / 2";
    rig.state.v[1][0] = rig.state.v[2][0] = bits_float(0x00010000);
    rig.run("add.vv v3, v1, v2, m0");
    EXPECT_EQ(float_bits(rig.state.v[3][0]), 0x00020000u);
}

TEST(FloatSemantics, ZeroKeepsItsSign) {
    Rig<MachineModel::Hardware> rig;
    EXPECT_EQ(rig.scalar("add.bf", 0x80000000, 0x80000000), 0x80000000u);
    EXPECT_EQ(rig.scalar("add.bf", 0x80000000, 0x00000000), 0x00000000u);
    EXPECT_EQ(rig.scalar("mul.bf", 0x80000000, 0x3F800000), 0x80000000u);
    EXPECT_EQ(rig.scalar("sub.bf", 0x3F800000, 0x3F800000), 0x00000000u);
}

TEST(FloatSemantics, LanesRoundToNearestEven) {
    Rig<MachineModel::Hardware> rig;
    // 1 + 2^-8 lies between 1 and 1 + 2^-7: to even. 1 + 2^-7 + 2^-8 goes up.
    rig.state.v[1][0] = 1.0f;
    rig.state.v[1][1] = bits_float(0x3F810000);
    rig.state.v[2][0] = rig.state.v[2][1] = 0x1p-8f;
    rig.run("add.vv v3, v1, v2, m0");
    EXPECT_EQ(float_bits(rig.state.v[3][0]), 0x3F800000u);
    EXPECT_EQ(float_bits(rig.state.v[3][1]), 0x3F820000u);
}

TEST(FloatSemantics, InvalidOperationsGiveOneNan) {
    Rig<MachineModel::Hardware> rig;
    EXPECT_EQ(rig.scalar("sub.bf", 0x7F800000, 0x7F800000), default_nan);
    EXPECT_EQ(rig.scalar("mul.bf", 0x00000000, 0xFF800000), default_nan);
    EXPECT_EQ(rig.scalar("add.bf", 0x7FA00000, 0x3F800000), 0x7FE00000u) << "a signalling operand becomes quiet";
    EXPECT_EQ(rig.scalar("add.bf", 0x7FC10000, 0xFFC20000), 0x7FC10000u) << "the first of two survives";
}

}  // namespace
}  // namespace atalla
