#include "isa/packet_checker.h"

#include <gtest/gtest.h>

#include "isa/assembler.h"
#include "isa/in_file.h"
#include "tests/isa/test_paths.h"

namespace atalla {
namespace {

Machine machine() {
    Machine machine;
    machine.name = "test";
    machine.issue = {.slots = 4,
                     .packet_bytes = 20,
                     .scalar_reads = 4,
                     .vector_reads = 4,
                     .mask_reads = 2,
                     .array_ops = 1,
                     .mts_ops = 1,
                     .lane_ops = 2,
                     .vlsu_per_pad = 1,
                     .sdma_per_pad = 1};
    machine.pad.count = 4;
    return machine;
}

Packet packet(const std::string &operations) { return assemble("{ " + operations + " }").packets.at(0).packet; }

std::string check(const std::string &operations, const Machine &on = machine(), const PacketPads &pads = unknown_pads) {
    return check_packet(packet(operations), on, pads).value_or("legal");
}

TEST(PacketChecker, AcceptsFullPackets) {
    EXPECT_EQ(check("nop.s"), "legal");
    EXPECT_EQ(check("addi.s x1, x2, 1 ; rcp.bf x3, x4 ; add.bf x5, x0, x6 ; lui.s x7, 1"),
              "slot 0 (addi.s) and slot 3 (lui.s) both need EX1, but a packet issues one operation on it");
    EXPECT_EQ(check("addi.s x1, x2, 1 ; rcp.bf x3, x4 ; muli.s x5, x6, 2 ; lw.s x7, 0(x8)"), "legal");
    EXPECT_EQ(check("vreg.ld v1, x1, x0, 31, 0 ; vreg.st v2, x2, x0, 31, 1 ; gemm.vv v3, v4, v0, m0 ; add.vv v5, v6, v7, m0"),
              "legal");
    EXPECT_EQ(check("add.vv v1, v2, v3, m1 ; mul.vv v4, v5, v6, m2 ; vmov.vts x1, v7, 0 ; halt.s"),
              "slot 0 (add.vv), slot 1 (mul.vv) and slot 2 (vmov.vts) read 5 vector registers together, but a packet has 4 "
              "vector read ports");
    EXPECT_EQ(check("add.vv v1, v2, v3, m1 ; mul.vv v4, v5, v6, m2 ; jal x1, 0 ; mv.stm m3, x9"), "legal");
}

TEST(PacketChecker, OneOperationAScalarUnit) {
    EXPECT_EQ(check("add.s x1, x2, x3 ; beq.s x4, x5, 0, 1"),
              "slot 0 (add.s) and slot 1 (beq.s) both need EX1, but a packet issues one operation on it");
    EXPECT_EQ(check("jal x1, 0 ; nop.s ; jalr x2, x3, 0"),
              "slot 0 (jal) and slot 2 (jalr) both need EX1, but a packet issues one operation on it");
    EXPECT_EQ(check("mv.stm m1, x1 ; stbf.s x2, x3"),
              "slot 0 (mv.stm) and slot 1 (stbf.s) both need EX2, but a packet issues one operation on it");
    EXPECT_EQ(check("mul.bf x1, x0, x0 ; slt.bf x2, x0, x0"),
              "slot 0 (mul.bf) and slot 1 (slt.bf) both need EX3, but a packet issues one operation on it");
    EXPECT_EQ(check("mul.s x1, x0, x0 ; muli.s x2, x0, 1"),
              "slot 0 (mul.s) and slot 1 (muli.s) both need EX4, but a packet issues one operation on it");
    EXPECT_EQ(check("lw.s x1, 0(x2) ; shw.s x3, 0(x4)"),
              "slot 0 (lw.s) and slot 1 (shw.s) both need EX5, but a packet issues one operation on it");
    EXPECT_EQ(check("li.s x1, 1 ; lui.s x2, 1 ; lui.s x3, 1"),
              "slot 0 (li.s), slot 1 (lui.s) and slot 2 (lui.s) all need EX1, but a packet issues one operation on it");
}

TEST(PacketChecker, TwoLaneOperationsOnDifferentUnits) {
    EXPECT_EQ(check("add.vv v1, v2, v3, m0 ; mgt.mvs m1, v4, x1, m0"),
              "slot 0 (add.vv) and slot 1 (mgt.mvs) both need ALU, but a packet issues one operation on it");
    EXPECT_EQ(check("mul.vs v1, v2, x3, m0 ; mul.vv v4, v5, v6, m0"),
              "slot 0 (mul.vs) and slot 1 (mul.vv) both need MUL, but a packet issues one operation on it");
    EXPECT_EQ(check("expi.vi v1, v2, 0, m0 ; expi.vi v3, v4, 0, m0"),
              "slot 0 (expi.vi) and slot 1 (expi.vi) both need EXP, but a packet issues one operation on it");
    EXPECT_EQ(check("rsum.vi v1, v2, 64, m0 ; rmax.vi v3, v4, 64, m0"),
              "slot 0 (rsum.vi) and slot 1 (rmax.vi) both need reduction, but a packet issues one operation on it");
    EXPECT_EQ(check("expi.vi v1, v2, 0, m0 ; rsum.vi v3, v4, 64, m0"), "legal");
    EXPECT_EQ(check("expi.vi v1, v2, 0, m0 ; rsum.vi v3, v4, 64, m0 ; nop.s ; add.vs v5, v6, x1, m0"),
              "slot 0 (expi.vi), slot 1 (rsum.vi) and slot 3 (add.vs) are lane operations, but a packet issues at most 2");
}

TEST(PacketChecker, OneArrayOperationAndOneMoveToScalar) {
    EXPECT_EQ(check("lw.vi v0, v1, 0, m0 ; gemm.vv v2, v3, v0, m0"),
              "slot 0 (lw.vi) and slot 1 (gemm.vv) are array operations, but a packet issues at most 1");
    EXPECT_EQ(check("vmov.vts x1, v1, 0 ; mv.mts x2, m1"),
              "slot 0 (vmov.vts) and slot 1 (mv.mts) are moves to scalar registers, but a packet issues at most 1");
}

TEST(PacketChecker, OneVectorAccessAPad) {
    EXPECT_EQ(check("vreg.ld v1, x1, x0, 31, 2 ; vreg.st v2, x2, x0, 31, 2"),
              "slot 0 (vreg.ld) and slot 1 (vreg.st) are vector loads or stores of pad 2, but a packet issues at most 1");
    EXPECT_EQ(check("vreg.ld v1, x1, x0, 31, 2 ; vreg.ld v2, x2, x0, 31, 3"), "legal");
    Machine small = machine();
    small.pad.count = 2;
    EXPECT_EQ(check("nop.s ; vreg.ld v1, x1, x0, 31, 2", small), "slot 1 (vreg.ld) names pad 2, but the machine has pads 0..1");
    small.model = MachineModel::Functional;
    EXPECT_EQ(check("nop.s ; vreg.ld v1, x1, x0, 31, 2", small), "legal");
}

TEST(PacketChecker, OneTransferAPadWhereThePadsAreKnown) {
    Machine wide = machine();
    wide.issue.scalar_reads = 6;
    const std::string transfers = "scpad.ld x1, x2, x3 ; nop.s ; scpad.st x4, x5, x6";
    EXPECT_EQ(check(transfers, wide), "legal");
    EXPECT_EQ(check(transfers, wide, {1, -1, 2, -1}), "legal");
    EXPECT_EQ(check(transfers, wide, {1, -1, 1, -1}),
              "slot 0 (scpad.ld) and slot 2 (scpad.st) are transfers of pad 1, but a packet issues at most 1");
}

TEST(PacketChecker, ReadPorts) {
    EXPECT_EQ(check("scpad.ld x1, x2, x3 ; lw.s x4, 0(x5)"), "legal");
    EXPECT_EQ(check("scpad.ld x1, x2, x3 ; sw.s x4, 0(x5)"),
              "slot 0 (scpad.ld) and slot 1 (sw.s) read 5 scalar registers together, but a packet has 4 scalar read ports");
    // The zero register takes a port like any other.
    EXPECT_EQ(check("vreg.ld v1, x0, x0, 31, 0 ; vreg.ld v2, x0, x0, 31, 1 ; addi.s x3, x0, 1"),
              "slot 0 (vreg.ld), slot 1 (vreg.ld) and slot 2 (addi.s) read 5 scalar registers together, but a packet has 4 "
              "scalar read ports");
    EXPECT_EQ(check("add.vv v1, v2, v3, m0 ; mul.vv v4, v5, v6, m0 ; mv.mts x1, m1"),
              "slot 0 (add.vv), slot 1 (mul.vv) and slot 2 (mv.mts) read 3 mask registers together, but a packet has 2 mask "
              "read ports");
    Machine psum = machine();
    const std::string with_gemm = "add.vv v1, v2, v3, m0 ; vreg.st v4, x1, x2, 31, 0 ; gemm.vv v5, v6, v0, m0";
    EXPECT_EQ(check(with_gemm, psum), "legal");
    psum.sa.psum_in = true;
    EXPECT_EQ(check(with_gemm, psum),
              "slot 0 (add.vv), slot 1 (vreg.st) and slot 2 (gemm.vv) read 5 vector registers together, but a packet has 4 "
              "vector read ports");
}

TEST(PacketChecker, NoReadOfWhatAnEarlierSlotWrites) {
    EXPECT_EQ(check("lw.s x5, 0(x1) ; nop.s ; add.s x2, x3, x5"),
              "slot 2 (add.s) reads x5, which slot 0 (lw.s) of the same packet writes");
    EXPECT_EQ(check("vreg.ld v5, x1, x2, 31, 0 ; add.vv v6, v5, v7, m0"),
              "slot 1 (add.vv) reads v5, which slot 0 (vreg.ld) of the same packet writes");
    EXPECT_EQ(check("mv.stm m5, x1 ; add.vv v6, v5, v7, m5"),
              "slot 1 (add.vv) reads m5, which slot 0 (mv.stm) of the same packet writes");
    EXPECT_EQ(check("blt.s x1, x2, 0, 0 ; lw.s x3, 0(x1)"),
              "slot 1 (lw.s) reads x1, which slot 0 (blt.s) of the same packet writes");
    EXPECT_EQ(check("scpad.ld x1, x2, x3 ; lw.s x4, 0(x1)"),
              "slot 1 (lw.s) reads x1, which slot 0 (scpad.ld) of the same packet writes");
    // Reading what a later slot writes is safe, and so is a register of another class or a constant.
    EXPECT_EQ(check("add.s x2, x3, x5 ; lw.s x5, 0(x1)"), "legal");
    EXPECT_EQ(check("lw.s x5, 0(x1) ; add.vv v6, v5, v7, m5"), "legal");
    EXPECT_EQ(check("lw.s x0, 0(x1) ; add.s x2, x0, x0"), "legal");
    EXPECT_EQ(check("vreg.ld v0, x1, x2, 31, 0 ; add.vv v6, v0, v0, m0"), "legal");
}

TEST(PacketChecker, NoTwoWritesOfOneRegister) {
    EXPECT_EQ(check("lw.s x5, 0(x1) ; addi.s x5, x2, 1"), "slot 0 (lw.s) and slot 1 (addi.s) of one packet both write x5");
    EXPECT_EQ(check("blt.s x5, x2, 0, 0 ; lw.s x5, 0(x1)"), "slot 0 (blt.s) and slot 1 (lw.s) of one packet both write x5");
    EXPECT_EQ(check("lw.s x0, 0(x1) ; addi.s x0, x2, 1"), "legal");
}

TEST(PacketChecker, UndefinedOperations) {
    EXPECT_EQ(check("tpus.vi v1, v2, 0, m0"), "slot 0 holds tpus.vi, which no unit of the machine executes");
    EXPECT_EQ(check("nop.s ; tpop.vi v1, v2, 0, m0"), "slot 1 holds tpop.vi, which no unit of the machine executes");
    Packet undefined;
    undefined[3].op = static_cast<Opcode>(0x51);
    EXPECT_EQ(check_packet(undefined, machine()).value_or("legal"), "slot 3 holds the undefined opcode 0x51");
}

TEST(PacketChecker, SlotsOfANarrowMachine) {
    Machine narrow = machine();
    narrow.issue.slots = 2;
    EXPECT_EQ(check("halt.s ; nop.s ; lw.s x1, 0(x2)", narrow), "legal");
    EXPECT_EQ(check("halt.s ; addi.s x3, x0, 1 ; lw.s x1, 0(x2)", narrow),
              "slot 0 (halt.s), slot 1 (addi.s) and slot 2 (lw.s) are operations, but a packet issues at most 2");
}

TEST(PacketChecker, AcceptsTheReferenceKernels) {
    const TemporaryFolder folder;
    size_t checked = 0;
    for (const auto &[archive, within] :
         {std::pair{"vectors/vectors.tar.xz", "a40-kernels"}, {"timing-vectors.tar.xz", "timing"}}) {
        for (const auto &file : unpack_vectors(archive, ".in", folder)) {
            if (file.parent_path().string().find(within) == std::string::npos) {
                continue;
            }
            for (const PlacedPacket &placed : read_in(file).packets) {
                ASSERT_EQ(check_packet(placed.packet, machine()).value_or("legal"), "legal") << file << ":" << placed.line;
                checked++;
            }
        }
    }
    if (checked == 0) {
        GTEST_SKIP() << "the reference programs are not beside the source tree";
    }
    EXPECT_GT(checked, 1000u);
}

}  // namespace
}  // namespace atalla
