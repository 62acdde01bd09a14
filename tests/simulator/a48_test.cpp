// Where the older dialect differs from A40 (isa reference, A48 columns of section 4).
#include "simulator/a48.h"

#include <functional>

#include "isa/error.h"
#include "simulator/a48_semantics.h"
#include "tests/simulator/rig.h"

namespace atalla::a48 {
namespace {

using testing::HasSubstr;

class A48 : public testing::Test {
protected:
    PacketOutcome run(const Instruction &instruction, int64_t pc = 0) {
        PacketOutcome outcome{pc + packet_bytes, false, false};
        execute(state_, instruction, pc, outcome);
        return outcome;
    }
    std::string refusal(const Instruction &instruction) {
        try {
            run(instruction);
        } catch (const Refusal &refusal) {
            return refusal.sentence;
        }
        return "";
    }
    // x3 = x1 op x2.
    uint32_t scalar(Opcode op, uint32_t a, uint32_t b = 0) {
        state_.x[1] = a;
        state_.x[2] = b;
        run({.op = op, .d = 3, .a = 1, .b = 2});
        return state_.x[3];
    }
    void fill(int vector, float value) { std::fill_n(state_.v[vector], lanes, value); }
    void set(int vector, const std::function<float(int)> &value) {
        for (int lane = 0; lane < lanes; lane++) {
            state_.v[vector][lane] = value(lane);
        }
    }
    Lanes bits(int vector) const {
        Lanes words;
        std::ranges::transform(state_.v[vector], words.begin(), float_bits);
        return words;
    }
    // v3 = v1 op v2 with all lanes equal.
    uint32_t lane_result(Opcode op, float a, float b) {
        fill(1, a);
        fill(2, b);
        run({.op = op, .d = 3, .a = 1, .b = 2});
        EXPECT_EQ(bits(3), all(bits(3)[0]));
        return bits(3)[0];
    }

    State state_;
};

TEST_F(A48, ScalarFloatsAreTruncatedBf16InTheLowHalf) {
    EXPECT_EQ(scalar(Opcode::add_bf, 0x4380, 0x3FC0), 0x4380u);  // 256 + 1.5 = 257.5, truncated
    EXPECT_EQ(scalar(Opcode::rcp_bf, 0x4040), 0x3EAAu);
    EXPECT_EQ(scalar(Opcode::mul_bf, 0x4040, 0xBF00), 0xBFC0u);
    EXPECT_EQ(scalar(Opcode::sub_bf, float_bits(3.0f), 0x3F80), 0x4000u);  // a float32 pattern is taken as one
    EXPECT_EQ(scalar(Opcode::sqrt_bf, 0x4110), 0x4040u);
    EXPECT_EQ(scalar(Opcode::sqrt_bf, 0xC110), 0u);
    EXPECT_EQ(scalar(Opcode::sqrt_bf, 0x7FC0), 0u);
    EXPECT_EQ(scalar(Opcode::slt_bf, 0xBF80, 0x3F80), 1u);
    EXPECT_EQ(scalar(Opcode::stbf_s, 257), 0x4380u);
    EXPECT_EQ(scalar(Opcode::bfts_s, 0xC039), 0xFFFFFFFEu);
    state_.x[1] = 0;
    EXPECT_EQ(refusal({.op = Opcode::rcp_bf, .d = 3, .a = 1}), "rcp.bf of zero");
}

TEST_F(A48, ControlUsesPacketsOf24Bytes) {
    EXPECT_EQ(run({.op = Opcode::jal, .d = 1, .imm = 48}, 0x100).next_pc, 0x130);
    EXPECT_EQ(state_.x[1], 0x118u);
    EXPECT_EQ(run({.op = Opcode::jalr, .a = 1, .imm = 4}, 0).next_pc, 0x11C);
    state_.x[4] = 0xFFFFFFFF;
    EXPECT_FALSE(run({.op = Opcode::blt_s, .a = 4, .aux = 1, .imm = -24}, 0x100).taken);  // unsigned
    EXPECT_EQ(state_.x[4], 0u);
    EXPECT_EQ(run({.op = Opcode::bge_s, .a = 4, .imm = -24}, 0x100).next_pc, 0xE8);
    EXPECT_TRUE(run({.op = Opcode::halt_s}).halted);
    EXPECT_EQ(run({.op = Opcode::barrier_s}, 24).next_pc, 48);
}

TEST_F(A48, MasksStopAtFifteenAndM0IsConstant) {
    state_.x[1] = 5;
    run({.op = Opcode::mv_stm, .d = 0, .a = 1});
    EXPECT_EQ(state_.m[0], 0xFFFFFFFFu);
    run({.op = Opcode::mv_stm, .d = 15, .a = 1});
    run({.op = Opcode::mv_mts, .d = 2, .a = 15});
    EXPECT_EQ(state_.x[2], 5u);
    EXPECT_EQ(refusal({.op = Opcode::mv_stm, .d = 16, .a = 1}), "m16 does not exist, the masks are m0 to m15");
    EXPECT_EQ(refusal({.op = Opcode::mv_mts, .d = 1, .a = 200}), "m200 does not exist, the masks are m0 to m15");
}

TEST_F(A48, LaneOperationsOfItsOwn) {
    EXPECT_EQ(lane_result(Opcode::div_vv, 3.0f, 2.0f), float_bits(1.5f));
    EXPECT_EQ(lane_result(Opcode::div_vv, 3.0f, 0.0f), 0u);
    EXPECT_EQ(lane_result(Opcode::div_vv, 3.0f, -0.0f), 0u);
    EXPECT_EQ(lane_result(Opcode::div_vv, 3.0f, bits_float(positive_nan)), positive_nan);
    EXPECT_EQ(lane_result(Opcode::and_vv, bits_float(0x3F8F0000), bits_float(0x7FF30000)), 0x3F830000u);
    EXPECT_EQ(lane_result(Opcode::or_vv, bits_float(0x3F800000), bits_float(0x000F0000)), 0x3F8F0000u);
    EXPECT_EQ(lane_result(Opcode::xor_vv, bits_float(0x3F800000), bits_float(0x80000000)), 0xBF800000u);
    EXPECT_EQ(lane_result(Opcode::not_vi, bits_float(0x3F80FFFF), 0), 0xC07E0000u);  // rounded first: ~0x3F81
    EXPECT_EQ(lane_result(Opcode::sqrti_vi, 9.0f, 0), float_bits(3.0f));
    EXPECT_EQ(lane_result(Opcode::sqrti_vi, -9.0f, 0), 0u);
    EXPECT_EQ(lane_result(Opcode::expi_vi, bits_float(0x40DB0000), 0), 0x446A0000u);
    EXPECT_EQ(lane_result(Opcode::expi_vi, 0.0f, 0), float_bits(1.0f));
}

TEST_F(A48, ImmediatesAreBf16Patterns) {
    fill(1, 2.0f);
    run({.op = Opcode::addi_vi, .d = 3, .a = 1, .imm = 0x3F80});
    EXPECT_EQ(bits(3), all(3.0f));
    run({.op = Opcode::subi_vi, .d = 3, .a = 1, .imm = 0x3F80});
    EXPECT_EQ(bits(3), all(1.0f));
    run({.op = Opcode::muli_vi, .d = 3, .a = 1, .imm = 0xC040});
    EXPECT_EQ(bits(3), all(-6.0f));
}

TEST_F(A48, ScalarsOfLaneOperationsMayBeLowHalfBf16) {
    fill(1, 2.0f);
    state_.x[2] = 0x3F80;
    run({.op = Opcode::add_vs, .d = 3, .a = 1, .b = 2});
    EXPECT_EQ(bits(3), all(3.0f));
    run({.op = Opcode::div_vs, .d = 3, .a = 1, .b = 2});
    EXPECT_EQ(bits(3), all(2.0f));
    run({.op = Opcode::mgt_mvs, .d = 3, .a = 1, .b = 2});
    EXPECT_EQ(state_.m[3], 0xFFFFFFFFu);
}

TEST_F(A48, ShiftMovesLanesUnmaskedAndUnrounded) {
    set(1, [](int lane) { return bits_float(0x3F800001 + static_cast<uint32_t>(lane)); });
    run({.op = Opcode::shift_vi, .d = 3, .a = 1, .mask = 7, .imm = 2});
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(bits(3)[lane], lane < 30 ? 0x3F800003u + lane : 0u) << lane;
    }
    run({.op = Opcode::shift_vi, .d = 3, .a = 1, .imm = 33});
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(bits(3)[lane], lane > 0 ? 0x3F800000u + lane : 0u) << lane;
    }
}

TEST_F(A48, LaneToScalarTruncates) {
    fill(1, bits_float(0x3F81FFFF));
    run({.op = Opcode::vmov_vts, .d = 3, .a = 1, .imm = 31});
    EXPECT_EQ(state_.x[3], 0x3F81u);
    EXPECT_EQ(refusal({.op = Opcode::vmov_vts, .d = 3, .a = 1, .imm = 32}),
              "vmov.vts names lane 32, a vector has lanes 0 to 31");
}

TEST_F(A48, GemmTakesLoadedVectorsAsRowsAndStartsOverAfterUse) {
    for (int k = 0; k < 3; k++) {
        set(10, [k](int lane) { return static_cast<float>(100 * k + lane) + 0.001f; });  // not rounded to bf16
        run({.op = Opcode::lw_vi, .a = 10});
    }
    set(1, [](int lane) { return static_cast<float>(lane == 0 ? 1 : lane == 1 ? 2 : lane == 2 ? -1 : 5); });
    set(2, [](int lane) { return static_cast<float>(lane); });
    run({.op = Opcode::gemm_vv, .d = 3, .a = 1, .b = 2});
    for (int lane = 0; lane < lanes; lane++) {
        const auto w = [lane](int k) { return double{static_cast<float>(100 * k + lane) + 0.001f}; };
        EXPECT_EQ(state_.v[3][lane], static_cast<float>(w(0) + 2 * w(1) - w(2) + lane)) << lane;
    }
    // The next load clears the buffer.
    fill(10, 4.0f);
    run({.op = Opcode::lw_vi, .a = 10});
    run({.op = Opcode::gemm_vv, .d = 3, .a = 1, .b = 0});
    EXPECT_EQ(bits(3), all(4.0f));
}

TEST_F(A48, VregMovesRowsAndColumns) {
    set(1, [](int lane) { return static_cast<float>(lane + 1); });
    state_.x[1] = 32 + 2;                                                                               // mod 32
    run({.op = Opcode::vreg_st, .d = 1, .a = 1, .rows = 7, .cols = 4, .sid = 1, .rc = 1, .rc_id = 3});  // row 5, 5 columns
    run({.op = Opcode::vreg_ld, .d = 2, .a = 1, .rows = 31, .cols = 31, .sid = 1, .rc = 1, .rc_id = 3});
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(state_.v[2][lane], lane < 5 ? lane + 1.0f : 0.0f);
    }
    state_.x[2] = 1;
    run({.op = Opcode::vreg_ld, .d = 2, .a = 0, .rows = 31, .cols = 0, .sid = 1, .rc = 0, .rc_id = 2, .register_form = true});
    for (int lane = 0; lane < lanes; lane++) {
        EXPECT_EQ(state_.v[2][lane], lane == 5 ? 2.0f : 0.0f);  // column 1
    }
    state_.x[1] = 30;
    EXPECT_EQ(refusal({.op = Opcode::vreg_ld, .d = 2, .a = 1, .rc = 1, .rc_id = 2}),
              "vreg.ld uses slot 32 of a pad, the last is 31");
    EXPECT_EQ(refusal({.op = Opcode::vreg_st, .d = 2, .a = 1, .rc = 0, .rc_id = 9}),
              "vreg.st uses bank 39 of a pad, the last is 31");
}

TEST_F(A48, HighPadAddressesAreASpillStore) {
    fill(1, bits_float(0x3F812345));
    state_.x[1] = 1024;
    run({.op = Opcode::vreg_st, .d = 1, .a = 1, .cols = 3, .rc = 1});
    run({.op = Opcode::vreg_ld, .d = 2, .a = 1, .sid = 1});
    EXPECT_EQ(bits(2), all(0x3F812345u));  // the whole vector, exact
    state_.x[1] = 1025;
    run({.op = Opcode::vreg_ld, .d = 2, .a = 1});
    EXPECT_EQ(bits(2), all(0.0f));
}

TEST_F(A48, TilesAreContiguousEntries) {
    for (int i = 0; i < 6; i++) {
        state_.words.write(0x1000 + 2 * i, 0xABCD0000 + 0x3F80 + static_cast<uint32_t>(i));
    }
    state_.x[1] = 33;  // slot 1
    state_.x[2] = 0x1000;
    run({.op = Opcode::scpad_ld, .d = 1, .a = 2, .rows = 1, .cols = 2});
    EXPECT_EQ(float_bits(state_.pads[0].cell[2][1]), 0x3F840000u);
    state_.x[4] = 0x2000;
    run({.op = Opcode::scpad_st, .d = 1, .a = 4, .rows = 1, .cols = 2});
    EXPECT_EQ(state_.words.read(0x2006), 0x3F83u);
    EXPECT_EQ(state_.traffic.dma_load_bytes[0], 12u);
    EXPECT_EQ(refusal({.op = Opcode::scpad_st, .d = 1, .a = 4, .rows = 1, .cols = 3}),
              "scpad.st moves a cell of its pad that was never written");
    // The shape in a register; pads 2 and 3 do nothing.
    state_.x[5] = 3u << 30 | 1u << 25 | 3u << 20;
    run({.op = Opcode::scpad_st, .d = 1, .a = 4, .b = 5, .register_form = true});
    state_.x[5] = 0u << 30 | 1u << 25 | 2u << 20 | 999;  // the pitch is ignored
    state_.x[4] = 0x3000;
    run({.op = Opcode::scpad_st, .d = 1, .a = 4, .b = 5, .register_form = true});
    EXPECT_EQ(state_.words.read(0x300A), 0x3F85u);
}

// Whole programs.

Program program(std::vector<Instruction> instructions) {
    Program program;
    for (const Instruction &instruction : instructions) {
        const uint32_t address = static_cast<uint32_t>(packet_bytes * static_cast<int64_t>(program.packets.size()));
        program.packets.push_back({address, {instruction}, static_cast<int32_t>(program.packets.size()) + 1});
    }
    return program;
}

TEST(A48Simulator, RunsAndDumps) {
    Program add = program({{.op = Opcode::lw_s, .d = 1, .imm = 0x3C},
                           {.op = Opcode::addi_s, .d = 2, .a = 1, .imm = 2},
                           {.op = Opcode::sw_s, .d = 2, .imm = 0x3D},
                           {.op = Opcode::halt_s}});
    add.data[0x3C] = 40;
    Simulator simulator(add);
    for (int repeat = 0; repeat < 2; repeat++) {
        const RunResult result = simulator.run();
        ASSERT_TRUE(result.ok) << result.error;
        EXPECT_EQ(result.counters.packets, 4u);
        EXPECT_EQ(result.counters.cycles, 4u);
        EXPECT_EQ(result.counters.operations, 4u);
        // The second run finds the word that the first one left, and does not change it.
        EXPECT_EQ(simulator.dump_state(result), std::string("x 1 00000028\nx 2 0000002A\nm 0 FFFFFFFF\n") +
                                                    (repeat == 0 ? "d 0000003D 0000002A\n" : "") + "packets 4\n");
    }
}

TEST(A48Simulator, RefusalsNameThePacket) {
    Simulator wild(program({{.op = Opcode::nop_s}, {.op = Opcode::jal, .imm = -24}}));
    RunResult result = wild.run({.step_limit = 10});
    EXPECT_EQ(result.rule, "step limit");
    EXPECT_EQ(result.counters.packets, 10u);
    Simulator bad(program({{.op = Opcode::nop_s}, {.op = Opcode::mod_s, .d = 1}}));
    EXPECT_EQ(bad.run().error, "packet 0x00000018 (line 2): modulo by zero (rule isa 4.2)");
    EXPECT_THAT(Simulator(program({{.op = Opcode::nop_s}})).run().error, HasSubstr("there is no packet at address 0x00000018"));
    Program twice = program({{.op = Opcode::nop_s}, {.op = Opcode::halt_s}});
    twice.packets[1].address = 0;
    EXPECT_THROW(Simulator{twice}, Error);
}

TEST(A48Simulator, KnowsItsFiles) {
    TemporaryFolder folder;
    const auto is_a48 = [&](const std::string &text) {
        const std::filesystem::path file = folder.path() / "program.in";
        std::ofstream(file) << text;
        return is_a48_file(file);
    };
    EXPECT_TRUE(is_a48("00000000: 00001E000096 00000000002F 00000000002F 000000000030\n"));
    EXPECT_TRUE(is_a48("0: 30\n18: 30\n"));
    EXPECT_FALSE(is_a48("00000000: 001E000096 0000000031 0000000031 0000000031\n"));
    EXPECT_FALSE(is_a48("0: 32\n14: 32\n"));
    EXPECT_FALSE(is_a48("# nothing\n"));
    EXPECT_THROW(is_a48("0: zz\n"), Error);
    EXPECT_THROW(is_a48_file(folder.path() / "absent.in"), Error);
}

}  // namespace
}  // namespace atalla::a48
