// The functional engine as a whole: loops, calls, limits, refusals, counters, start values.
#include "simulator/functional.h"

#include "tests/simulator/rig.h"

namespace atalla {
namespace {

class Functional : public testing::Test {
protected:
    RunResult run(const std::string &text, const RunOptions &options = {}) {
        program_ = assemble(text);
        return FunctionalProgram(program_).run(state_, options);
    }
    uint32_t x(int number) const { return state_.x[number]; }

    Program program_;
    MachineState state_{shipped("fsim")};
};

TEST_F(Functional, CountsALoop) {
    const RunResult result = run(R"(
            addi.s x1, x0, 0
            addi.s x2, x0, 10
    loop:   { add.s x3, x3, x1 ; add.vv v1, v1, v1, 0 }
            { bne.s x1, x2, loop, 1 ; vreg.st v1, x0, x0, 15, 1 }
            { gemm.vv v2, v1, v0, 0 ; lw.vi v0, v1, 0, 0 }
            halt.s
    )",
                                 {.per_packet = true});
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(x(3), 55u);
    EXPECT_EQ(x(1), 11u);
    const Counters &counters = result.counters;
    EXPECT_EQ(counters.packets, 2u + 2 * 11 + 2);
    EXPECT_EQ(counters.cycles, counters.packets);
    EXPECT_EQ(counters.operations, 2u + 4 * 11 + 3);
    EXPECT_EQ(counters.unit_operations[static_cast<size_t>(Unit::Ex1)], 2u + 2 * 11);
    EXPECT_EQ(counters.unit_operations[static_cast<size_t>(Unit::Alu)], 11u);
    EXPECT_EQ(counters.unit_operations[static_cast<size_t>(Unit::Array)], 2u);
    EXPECT_EQ(counters.array_rows, 1u);
    EXPECT_EQ(counters.weight_loads, 1u);
    EXPECT_EQ(counters.pad_store_bytes[1], 11u * 32);
    EXPECT_EQ(counters.stalls, (std::array<uint64_t, stall_causes>{}));
    EXPECT_EQ(result.packet_issues, (std::vector<uint64_t>{1, 1, 11, 11, 1, 1}));
    EXPECT_EQ(result.packet_stalls, (std::vector<StallCycles>(6)));
}

// Rows of the array are computed ahead of their packets; a run that a limit ended in between leaves none of them to the next
// one.
TEST_F(Functional, StartsAgainAfterALimit) {
    const std::string text = "lw.vi v0, v1, 0, 0\ngemm.vv v3, v2, v0, 0\ngemm.vv v4, v5, v0, 0\nhalt.s\n";
    const auto fill = [](MachineState &state, float first) {
        for (int lane = 0; lane < lanes; lane++) {
            state.v[1][lane] = static_cast<float>(lane % 7) - 3;
            state.v[2][lane] = first + static_cast<float>(lane);
            state.v[5][lane] = 2 * first - static_cast<float>(lane % 5);
        }
    };
    fill(state_, 1);
    EXPECT_FALSE(run(text, {.step_limit = 2}).ok);
    fill(state_, 9);
    state_.weights = {};
    ASSERT_TRUE(run(text).ok);
    MachineState fresh(shipped("fsim"));
    fill(fresh, 9);
    ASSERT_TRUE(FunctionalProgram(assemble(text)).run(fresh, {}).ok);
    for (const int result : {3, 4}) {
        EXPECT_EQ(std::memcmp(state_.v[result], fresh.v[result], sizeof(float) * lanes), 0) << "v" << result;
    }
    EXPECT_NE(fresh.v[3][0], 0);
}

TEST_F(Functional, CallsAndReturns) {
    const RunResult result = run(R"(
    main:   jal x1, twice
            jal x1, twice
            halt.s
    twice:  addi.s x5, x5, 2
            jalr x0, x1, 0
    )");
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(x(5), 4u);
    EXPECT_EQ(result.counters.packets, 7u);
}

TEST_F(Functional, PacketsMayLieAnywhere) {
    for (const char *address : {"0x100", "0x101", "0x40000000"}) {
        const RunResult result =
            run(std::string("lui.s x1, ") + std::to_string(std::stoul(address, nullptr, 0) >> 7) + "\njalr x0, x1, " +
                std::to_string(std::stoul(address, nullptr, 0) & 127) + "\n.org " + address + "\naddi.s x5, x0, 7\nhalt.s\n");
        ASSERT_TRUE(result.ok) << result.error;
        EXPECT_EQ(x(5), 7u);
        EXPECT_EQ(result.counters.packets, 4u);
        state_.reset();
    }
}

TEST_F(Functional, StepLimit) {
    RunResult result = run("nop.s\nbeq.s x0, x0, -20, 0\n", {.step_limit = 1000});
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.rule, "step limit");
    EXPECT_EQ(
        result.error,
        "packet 0x00000000 (line 1): no halt within 1000 packets; raise the step limit if the program is meant to run longer "
        "(rule step limit)");
    EXPECT_EQ(result.counters.packets, 1000u);
    EXPECT_TRUE(run("nop.s\nnop.s\nhalt.s\n", {.step_limit = 3}).ok);
    EXPECT_FALSE(run("nop.s\nnop.s\nhalt.s\n", {.step_limit = 2}).ok);
}

TEST_F(Functional, RefusalsNamePacketLineAndRule) {
    RunResult result = run("nop.s\n\nnop.s\naddi.s x1, x0, 5\nmod.s x2, x1, x0\nhalt.s\n");
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.error, "packet 0x0000003C (line 5): modulo by zero (rule isa 4.2)");
    EXPECT_EQ(result.rule, "isa 4.2");
    EXPECT_EQ(state_.pc, 0x3C);
    EXPECT_EQ(x(1), 5u);
    EXPECT_EQ(result.counters.packets, 3u);

    result = run("nop.s\n");
    EXPECT_EQ(result.error, "packet 0x00000014: there is no packet at address 0x00000014 (rule 50)");
    result = run("addi.s x1, x0, -8\njalr x0, x1, 12\n");
    EXPECT_EQ(result.error, "packet 0x100000004: there is no packet at address 0x100000004 (rule 50)");
    program_ = {};
    EXPECT_EQ(FunctionalProgram(program_).run(state_, {}).error,
              "packet 0x00000000: there is no packet at address 0x00000000 (rule 50)");
}

TEST_F(Functional, RefusalsNameTheSourceOfGeneratedPackets) {
    Program program = assemble("nop.s\ndiv.s x1, x1, x0\n");
    program.sources = {{"matmul", "k.outer", "aten::mm"}, {"relu", "", ""}};
    for (PlacedPacket &packet : program.packets) {
        packet.line = 0;
    }
    program.packets[1].source = 0;
    EXPECT_EQ(FunctionalProgram(program).run(state_, {}).error,
              "packet 0x00000014 (Func matmul, loop k.outer, node aten::mm): division by zero (rule isa 4.2)");
    program.packets[1].source = 1;
    EXPECT_EQ(FunctionalProgram(program).run(state_, {}).error,
              "packet 0x00000014 (Func relu): division by zero (rule isa 4.2)");
}

TEST_F(Functional, StackPointersLieAboveTheData) {
    preset_registers(state_, 0x17FE);
    EXPECT_EQ(x(2), 0x3000u);
    EXPECT_EQ(x(33), 0x4000u);
    preset_registers(state_, 0);
    EXPECT_EQ(x(2), 0x2000u);
    preset_registers(state_, 0x1000);
    EXPECT_EQ(x(2), 0x3000u);
}

}  // namespace
}  // namespace atalla
