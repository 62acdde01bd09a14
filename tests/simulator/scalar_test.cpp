// Scalar instructions on both models (isa reference 4.2 to 4.5).
#include "tests/simulator/rig.h"

namespace atalla {
namespace {

constexpr uint32_t minus(uint32_t value) { return 0u - value; }

template <class R>
using Scalar = OnBothModels<R>;
TYPED_TEST_SUITE(Scalar, Models, ModelNames);

TYPED_TEST(Scalar, IntegerArithmeticWraps) {
    TypeParam rig;
    EXPECT_EQ(rig.scalar("add.s", 0xFFFFFFFF, 2), 1u);
    EXPECT_EQ(rig.scalar("sub.s", 1, 2), 0xFFFFFFFFu);
    EXPECT_EQ(rig.scalar("mul.s", 0x10001, 0x10001), 0x00020001u);
    EXPECT_EQ(rig.immediate("addi.s", 5, -7), minus(2));
    EXPECT_EQ(rig.immediate("subi.s", 5, -7), 12u);
    EXPECT_EQ(rig.immediate("muli.s", 5, -7), minus(35));
}

TYPED_TEST(Scalar, DivisionIsTowardZeroAndModuloFollowsTheDivisor) {
    TypeParam rig;
    EXPECT_EQ(rig.scalar("div.s", minus(7), 2), minus(3));
    EXPECT_EQ(rig.scalar("div.s", 7, minus(2)), minus(3));
    EXPECT_EQ(rig.scalar("div.s", 0x80000000, minus(1)), 0x80000000u);
    EXPECT_EQ(rig.scalar("mod.s", minus(7), 3), 2u);
    EXPECT_EQ(rig.scalar("mod.s", 7, minus(3)), minus(2));
    EXPECT_EQ(rig.scalar("mod.s", minus(6), 3), 0u);
    EXPECT_EQ(rig.scalar("mod.s", 0x80000000, minus(1)), 0u);
    EXPECT_EQ(rig.immediate("divi.s", 100, -7), minus(14));
    EXPECT_EQ(rig.immediate("modi.s", 100, -7), minus(5));
}

TYPED_TEST(Scalar, DivisionByZeroIsRefused) {
    TypeParam rig;
    for (const char *text : {"div.s x3, x1, x2", "divi.s x3, x1, 0"}) {
        EXPECT_EQ(rig.refusal(text).sentence, "division by zero") << text;
        EXPECT_EQ(rig.refusal(text).rule, TypeParam::hardware ? "50" : "isa 4.2");
    }
    for (const char *text : {"mod.s x3, x1, x2", "modi.s x3, x1, 0"}) {
        EXPECT_EQ(rig.refusal(text).sentence, "modulo by zero");
    }
}

TYPED_TEST(Scalar, LogicAndShifts) {
    TypeParam rig;
    EXPECT_EQ(rig.scalar("or.s", 0xF0F0, 0x0FF0), 0xFFF0u);
    EXPECT_EQ(rig.scalar("and.s", 0xF0F0, 0x0FF0), 0x00F0u);
    EXPECT_EQ(rig.scalar("xor.s", 0xF0F0, 0x0FF0), 0xFF00u);
    EXPECT_EQ(rig.immediate("ori.s", 1, -16), 0xFFFFFFF1u);
    EXPECT_EQ(rig.immediate("andi.s", 0x12345678, -16), 0x12345670u);
    EXPECT_EQ(rig.immediate("xori.s", 0, -1), 0xFFFFFFFFu);

    EXPECT_EQ(rig.scalar("sll.s", 1, 31), 0x80000000u);
    EXPECT_EQ(rig.scalar("sll.s", 1, 32), 0u);
    EXPECT_EQ(rig.scalar("srl.s", 0x80000000, 31), 1u);
    EXPECT_EQ(rig.scalar("srl.s", 0x80000000, 0x80000000), 0u);
    EXPECT_EQ(rig.scalar("sra.s", 0x80000000, 31), 0xFFFFFFFFu);
    EXPECT_EQ(rig.scalar("sra.s", 0x80000000, 99), 0xFFFFFFFFu);
    EXPECT_EQ(rig.scalar("sra.s", 0x7FFFFFFF, 99), 0u);
    EXPECT_EQ(rig.immediate("slli.s", 3, 4), 48u);
    EXPECT_EQ(rig.immediate("slli.s", 3, 40), 0u);
    EXPECT_EQ(rig.immediate("srli.s", 0xFFFFFFFF, -1), 0u);
    EXPECT_EQ(rig.immediate("srai.s", 0x80000000, 40), 0xFFFFFFFFu);
    EXPECT_EQ(rig.immediate("srai.s", 0xFFFFFF00, 4), 0xFFFFFFF0u);
}

TYPED_TEST(Scalar, Compares) {
    TypeParam rig;
    EXPECT_EQ(rig.scalar("slt.s", minus(1), 0), 1u);
    EXPECT_EQ(rig.scalar("slt.s", 0, minus(1)), 0u);
    EXPECT_EQ(rig.scalar("sltu.s", minus(1), 0), 0u);
    EXPECT_EQ(rig.scalar("sltu.s", 0, minus(1)), 1u);
    EXPECT_EQ(rig.immediate("slti.s", minus(2), -1), 1u);
    EXPECT_EQ(rig.immediate("sltui.s", 5, -1), 1u);  // the immediate is extended, then unsigned
}

TYPED_TEST(Scalar, ConstantsAndX0) {
    TypeParam rig;
    rig.run("li.s x1, -5\nlui.s x2, 15625\nlui.s x4, -1\naddi.s x0, x1, 1\nadd.s x5, x0, x0");
    EXPECT_EQ(rig.state.x[1], minus(5));
    EXPECT_EQ(rig.state.x[2], 2000000u);
    EXPECT_EQ(rig.state.x[4], 0xFFFFFF80u);
    EXPECT_EQ(rig.state.x[0], 0u);
    EXPECT_EQ(rig.state.x[5], 0u);
}

TYPED_TEST(Scalar, FloatResultsAreFloat32Patterns) {
    TypeParam rig;
    EXPECT_EQ(rig.scalar("add.bf", float_bits(256.0f), float_bits(1.5f)), 0x4380C000u);
    EXPECT_EQ(rig.scalar_float("sub.bf", 1.0f, 3.0f), -2.0f);
    EXPECT_EQ(rig.scalar_float("mul.bf", 3.0f, -0.5f), -1.5f);
    EXPECT_EQ(rig.scalar("rcp.bf", float_bits(3.0f), 0), 0x3EAAAAABu);
    EXPECT_EQ(rig.scalar_float("sqrt.bf", 2.25f), 1.5f);
    EXPECT_EQ(rig.scalar("sqrt.bf", float_bits(-4.0f), 0), negative_nan);
    EXPECT_EQ(rig.scalar("mul.bf", float_bits(-0.0f), float_bits(5.0f)), 0x80000000u);
    EXPECT_EQ(rig.scalar("sub.bf", float_bits(infinity), float_bits(infinity)), negative_nan);
    // Double arithmetic, rounded once: the denormal product is exact before it is rounded.
    EXPECT_EQ(rig.scalar("mul.bf", 0x00800000, float_bits(0.75f)), 0x00600000u);
}

TYPED_TEST(Scalar, SmallRegistersHoldBf16InTheLowHalfForAddSubMulOnly) {
    TypeParam rig;
    EXPECT_EQ(rig.scalar_float("add.bf", bits_float(0x3F80), 2.0f), 3.0f);
    EXPECT_EQ(rig.scalar_float("sub.bf", 2.0f, bits_float(0x3F80)), 1.0f);
    EXPECT_EQ(rig.scalar_float("mul.bf", bits_float(0x4040), bits_float(0x4000)), 6.0f);
    // As a float32 pattern 0x4080 is a denormal: not below the denormal 0x3F80.
    EXPECT_EQ(rig.scalar("slt.bf", 0x3F80, 0x4080), 1u);
    EXPECT_EQ(rig.scalar("slt.bf", 0x4080, float_bits(1.0f)), 1u);
    EXPECT_EQ(rig.scalar("sqrt.bf", 0x00004080, 0), float_bits(atalla_sqrt(bits_float(0x4080))));
    EXPECT_EQ(rig.scalar("bfts.s", 0x00004080, 0), 0u);
}

TYPED_TEST(Scalar, FirstNanSurvivesQuiet) {
    TypeParam rig;
    EXPECT_EQ(rig.scalar("add.bf", 0x7F800001, float_bits(1.0f)), 0x7FC00001u);
    EXPECT_EQ(rig.scalar("add.bf", float_bits(1.0f), 0xFFA00000), 0xFFE00000u);
    EXPECT_EQ(rig.scalar("mul.bf", 0x7FC01234, 0xFFC05678), 0x7FC01234u);
    EXPECT_EQ(rig.scalar("mul.bf", 0, 0x7F800000), negative_nan);
    EXPECT_EQ(rig.scalar("slt.bf", positive_nan, 0), 0u);
    EXPECT_EQ(rig.scalar("slt.bf", float_bits(-0.0f), 0), 0u);
}

TYPED_TEST(Scalar, Conversions) {
    TypeParam rig;
    EXPECT_EQ(rig.scalar("stbf.s", 0xFFFFFFFF, 0), float_bits(4294967296.0f));  // unsigned
    EXPECT_EQ(rig.scalar("stbf.s", 0x01000001, 0), 0x4B800000u);                // nearest even
    EXPECT_EQ(rig.scalar("bfts.s", float_bits(-2.9f), 0), minus(2));
    EXPECT_EQ(rig.scalar("bfts.s", float_bits(3e9f), 0), 3000000000u);
    EXPECT_EQ(rig.scalar("bfts.s", float_bits(-2147483648.0f), 0), 0x80000000u);
    for (const uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7FC00000u}) {
        rig.state.x[1] = bits;
        EXPECT_EQ(rig.refusal("bfts.s x3, x1, x0").sentence, "bfts.s of a value that is not finite");
    }
}

TEST(ScalarHardware, ReciprocalOfZeroAndOverflowAreInfinite) {
    HardwareRig rig;
    EXPECT_EQ(rig.scalar("rcp.bf", 0, 0), 0x7F800000u);
    EXPECT_EQ(rig.scalar("rcp.bf", 0x80000000, 0), 0xFF800000u);
    EXPECT_EQ(rig.scalar("mul.bf", 0x7F000000, 0xFF000000), 0xFF800000u);
    rig.state.x[1] = float_bits(1e10f);
    EXPECT_EQ(rig.refusal("bfts.s x3, x1, x0").sentence, "bfts.s of a value beyond 32 bits");
}

TEST(ScalarFunctional, ReciprocalOfZeroAndOverflowAreRefused) {
    FunctionalRig rig;
    EXPECT_EQ(rig.refusal("rcp.bf x3, x1, x0").sentence, "rcp.bf of zero");
    rig.state.x[1] = 0x00000001;
    EXPECT_EQ(rig.refusal("rcp.bf x3, x1, x0").sentence, "rcp.bf overflows float32");
    rig.state.x[1] = 0x7F000000;
    EXPECT_EQ(rig.refusal("mul.bf x3, x1, x1").sentence, "mul.bf overflows float32");
    EXPECT_EQ(rig.refusal("mul.bf x3, x1, x1").rule, "isa 4.3");
    EXPECT_EQ(rig.scalar("add.bf", 0x7F800000, 0x3F800000), 0x7F800000u);  // infinity itself is no overflow
    EXPECT_EQ(rig.scalar("bfts.s", float_bits(4294967296.0f + 512.0f), 0), 512u);
}

// Control.

template <class R>
PacketOutcome branch(R &rig, const std::string &mnemonic, uint32_t a, uint32_t b) {
    rig.state.x[1] = a;
    rig.state.x[2] = b;
    return rig.run(".org 0x100\n" + mnemonic + " x1, x2, -40, 3");
}

TYPED_TEST(Scalar, BranchesCompareThenIncrement) {
    TypeParam rig;
    const auto taken = [&](const char *mnemonic, uint32_t a, uint32_t b) {
        const PacketOutcome outcome = branch(rig, mnemonic, a, b);
        EXPECT_EQ(rig.state.x[1], a + 3);
        EXPECT_EQ(outcome.next_pc, outcome.taken ? 0x100 - 40 : 0x114) << mnemonic;
        EXPECT_FALSE(outcome.halted);
        return outcome.taken;
    };
    EXPECT_TRUE(taken("beq.s", 5, 5));
    EXPECT_FALSE(taken("beq.s", 5, 6));
    EXPECT_TRUE(taken("bne.s", 5, 6));
    EXPECT_FALSE(taken("bne.s", 5, 5));
    EXPECT_TRUE(taken("blt.s", 5, 6));
    EXPECT_FALSE(taken("blt.s", 5, 5));
    EXPECT_TRUE(taken("bge.s", 5, 5));
    EXPECT_FALSE(taken("bge.s", 5, 6));
    EXPECT_TRUE(taken("bgt.s", 6, 5));
    EXPECT_FALSE(taken("bgt.s", 5, 5));
    EXPECT_TRUE(taken("ble.s", 5, 5));
    EXPECT_FALSE(taken("ble.s", 6, 5));
    // -1 is small on hardware, large in upstream's functional simulator.
    EXPECT_EQ(taken("blt.s", minus(1), 1), TypeParam::hardware);
    EXPECT_EQ(taken("bge.s", minus(1), 1), !TypeParam::hardware);
    EXPECT_EQ(taken("bgt.s", minus(1), 1), !TypeParam::hardware);
    EXPECT_EQ(taken("ble.s", minus(1), 1), TypeParam::hardware);
}

TYPED_TEST(Scalar, BranchOnX0LeavesItZero) {
    TypeParam rig;
    EXPECT_TRUE(rig.run("beq.s x0, x0, 40, 7").taken);
    EXPECT_EQ(rig.state.x[0], 0u);
}

TYPED_TEST(Scalar, JumpsLinkTheNextPacket) {
    TypeParam rig;
    PacketOutcome outcome = rig.run(".org 0x200\njal x1, -40");
    EXPECT_EQ(outcome.next_pc, 0x200 - 40);
    EXPECT_TRUE(outcome.taken);
    EXPECT_EQ(rig.state.x[1], 0x214u);

    rig.state.x[5] = 0x1000;
    outcome = rig.run(".org 0x200\njalr x5, x5, -20");  // rd may equal rs1
    EXPECT_EQ(outcome.next_pc, 0x1000 - 20);
    EXPECT_EQ(rig.state.x[5], 0x214u);

    rig.state.x[6] = 0xFFFFFFF8;
    EXPECT_EQ(rig.run("jalr x0, x6, 16").next_pc, TypeParam::hardware ? 8 : 0x100000008);
    EXPECT_EQ(rig.state.x[0], 0u);
}

TYPED_TEST(Scalar, LastBranchOfAPacketDecidesAndLaterSlotsStillRun) {
    TypeParam rig;
    // The second branch is not taken, so the packet falls through; work after halt is done.
    PacketOutcome outcome = rig.run("{ beq.s x0, x0, 40, 0 ; bne.s x0, x0, 80, 0 ; halt.s ; addi.s x1, x0, 9 }");
    EXPECT_EQ(outcome.next_pc, 20);
    EXPECT_FALSE(outcome.taken);
    EXPECT_TRUE(outcome.halted);
    EXPECT_EQ(rig.state.x[1], 9u);
    outcome = rig.run("{ bne.s x0, x0, 80, 0 ; jal x0, 40 }");
    EXPECT_EQ(outcome.next_pc, 40);
    EXPECT_FALSE(outcome.halted);
}

TYPED_TEST(Scalar, SlotsSeeTheResultsOfEarlierSlots) {
    TypeParam rig;
    rig.run("{ addi.s x1, x0, 1 ; addi.s x1, x1, 2 ; addi.s x2, x1, 4 }");
    EXPECT_EQ(rig.state.x[1], 3u);
    EXPECT_EQ(rig.state.x[2], 7u);
}

TYPED_TEST(Scalar, EmptyPacketFallsThrough) {
    TypeParam rig;
    EXPECT_EQ(decode_packet({}).count, 0);
    EXPECT_EQ(rig.run(".org 0x40\nnop.s").next_pc, 0x54);
}

// Masks.

TYPED_TEST(Scalar, MaskMoves) {
    TypeParam rig;
    rig.state.x[1] = 0x12345678;
    rig.run("mv.stm m3, x1\nmv.mts x2, m3\nmv.mts x4, m0");
    EXPECT_EQ(rig.state.m[3], 0x12345678u);
    EXPECT_EQ(rig.state.x[2], 0x12345678u);
    EXPECT_EQ(rig.state.x[4], 0xFFFFFFFFu);
    rig.run(".writable_m0\nmv.stm m0, x1");
    EXPECT_EQ(rig.state.m[0], TypeParam::hardware ? 0xFFFFFFFFu : 0x12345678u);
}

TYPED_TEST(Scalar, TransposeUnitIsRefused) {
    TypeParam rig;
    PlacedPacket packet;
    for (const Opcode op : {Opcode::tpop_vi, Opcode::tpus_vi}) {
        packet.packet[0].op = op;
        try {
            execute_packet<TypeParam::model>(rig.state, decode_packet(packet));
            ADD_FAILURE() << "not refused";
        } catch (const Refusal &refusal) {
            EXPECT_EQ(refusal.rule, "50");
            EXPECT_THAT(refusal.sentence, testing::HasSubstr("cannot be executed"));
        }
    }
}

}  // namespace
}  // namespace atalla
