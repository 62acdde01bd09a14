// The facade: loading, memory, repeated runs, dumps, on every kind of machine.
#include "simulator/simulator.h"

#include "isa/error.h"
#include "simulator/machine_state.h"
#include "simulator/numerics.h"
#include "simulator/report.h"
#include "tests/simulator/rig.h"

#include <nlohmann/json.hpp>

namespace atalla {
namespace {

using testing::HasSubstr;
using testing::Not;

// Adds the words at 0x1000 and 0x1004 into 0x1008. The three-packet gaps keep dependent packets legal everywhere.
constexpr const char *add_words = R"(
    lui.s x1, 32
    lw.s x2, 0(x1)
    lw.s x3, 4(x1)
    add.s x4, x2, x3
    sw.s x4, 8(x1)
    halt.s
)";

// A row of 32 elements at 0x1000 through pad 0 to 0x2000, and 3 in x5.
constexpr const char *moves_a_row = R"(
    lui.s x1, 32
    lui.s x2, 64
    lui.s x3, 253952
    addi.s x3, x3, 31
    addi.s x4, x0, 0
    scpad.ld x4, x1, x3
    scpad.st x4, x2, x3
    vmov.vts x6, v0, 0
    mv.mts x7, m0
    addi.s x5, x6, 3
    halt.s
)";

class OnMachine : public testing::TestWithParam<const char *> {
protected:
    OnMachine() : simulator_(shipped(GetParam())) {}

    void write_word(uint64_t address, uint32_t word) {
        simulator_.write_memory(address, {reinterpret_cast<const uint8_t *>(&word), sizeof word});
    }
    uint32_t read_word(uint64_t address) {
        uint32_t word;
        simulator_.read_memory(address, {reinterpret_cast<uint8_t *>(&word), sizeof word});
        return word;
    }

    Simulator simulator_;
};
INSTANTIATE_TEST_SUITE_P(Machines, OnMachine, testing::Values("ax01", "ax01-psum", "fsim"),
                         [](const auto &info) { return std::string(info.param) == "ax01-psum" ? "ax01_psum" : info.param; });

TEST_P(OnMachine, RunsOnTensorsWrittenByTheHost) {
    simulator_.load(assemble(add_words));
    for (const uint32_t value : {1u, 1000u}) {
        write_word(0x1000, value);
        write_word(0x1004, 41);
        const RunResult result = simulator_.run();
        ASSERT_TRUE(result.ok) << result.error;
        EXPECT_EQ(read_word(0x1008), value + 41);
        EXPECT_EQ(simulator_.state().x[4], value + 41);
        EXPECT_EQ(result.counters.packets, 6u);
        EXPECT_GE(result.counters.cycles, result.counters.packets);
    }
}

// Lanes, pads and memory stay as they were; scalars, cycles and counters are the same.
TEST(SkippedLanes, LeaveCyclesAndCountersAsTheyAre) {
    Simulator simulator(shipped("ax01"));
    const std::vector<uint8_t> ones(64, 0x3F);
    for (const LaneValues lanes : {LaneValues::Computed, LaneValues::Skipped}) {
        simulator.clear_memory();
        simulator.load(assemble(moves_a_row));
        simulator.write_memory(0x1000, ones);
        const RunResult result = simulator.run({.lanes = lanes});
        ASSERT_TRUE(result.ok) << result.error;
        std::vector<uint8_t> moved(64);
        simulator.read_memory(0x2000, moved);
        EXPECT_EQ(moved == ones, lanes == LaneValues::Computed);
        EXPECT_EQ(simulator.state().x[5], 3u);
        Simulator other(shipped("ax01"));
        other.load(assemble(moves_a_row));
        EXPECT_EQ(other.run().counters, result.counters);
    }
}

TEST(SkippedLanes, AreRefusedWhereAScalarDependsOnThem) {
    Simulator simulator(shipped("ax01"));
    const auto refusal = [&](const std::string &text) {
        simulator.load(assemble(text));
        const RunResult result = simulator.run({.lanes = LaneValues::Skipped});
        EXPECT_FALSE(result.ok);
        EXPECT_EQ(result.rule, "lanes");
        return result.error;
    };
    const std::string moves = "vmov.vts x3, v1, 0\nhalt.s\n";
    EXPECT_FALSE(may_skip_lanes(assemble(moves)));
    EXPECT_THAT(refusal(moves), HasSubstr("vmov.vts reads what is not computed"));
    std::string loads = moves_a_row;
    loads.insert(loads.find("halt.s"), "add.s x8, x4, x0\n    lw.s x6, 4(x2)\n    ");
    EXPECT_TRUE(may_skip_lanes(assemble(loads)));
    EXPECT_THAT(refusal(loads), HasSubstr("a scalar is loaded from address 0x00002004, which transfers have written to"));
}

TEST(SkippedLanes, NeedTheFastModelOfAHardwareMachine) {
    for (const auto &[machine, model] : {std::pair{"fsim", TimingModel::Fast}, std::pair{"ax01", TimingModel::Reference}}) {
        Simulator simulator(shipped(machine));
        simulator.load(assemble(add_words));
        EXPECT_THAT([&] { simulator.run({.model = model, .lanes = LaneValues::Skipped}); },
                    testing::ThrowsMessage<Error>(HasSubstr("lanes can be skipped by the fast model of a hardware machine")));
    }
}

// Zeros at first, or what the options say that an earlier program left.
TEST_P(OnMachine, PadsAndRegistersHoldWhatWasLeftInThem) {
    constexpr uint16_t two = 0x4000;
    simulator_.load(assemble(add_words));
    const auto last = [&] {
        const MachineState &state = simulator_.state();
        const int64_t pad = state.pad_count - 1, row = state.pad_rows - 1;
        return shipped(GetParam()).timed() ? bf16_float(state.pad_halves(pad, row)[lanes - 1])
                                           : state.pad_floats(pad, row)[lanes - 1];
    };
    const MachineState &state = simulator_.state();
    ASSERT_TRUE(simulator_.run({.left_behind = two}).ok);
    EXPECT_EQ(last(), 2);
    EXPECT_EQ(state.v[200][lanes - 1], 2);
    EXPECT_EQ(state.x[200], 0x40004000u);
    EXPECT_EQ(state.m[9], 0x40004000u);
    EXPECT_EQ(state.weights.depth[lanes - 1][lanes - 1], 2);
    EXPECT_EQ(state.v[0][0], 0);
    EXPECT_EQ(state.m[0], 0xFFFFFFFFu);
    ASSERT_TRUE(simulator_.run().ok);
    EXPECT_EQ(last(), 0);
    EXPECT_EQ(state.v[200][lanes - 1], 0);
    EXPECT_EQ(state.weights.depth[lanes - 1][lanes - 1], 0);
}

TEST_P(OnMachine, EveryRunIsTheSame) {
    simulator_.load(assemble(add_words));
    const RunResult first = simulator_.run({.per_packet = true}), second = simulator_.run({.per_packet = true});
    EXPECT_EQ(first.counters, second.counters);
    EXPECT_EQ(first.packet_issues, second.packet_issues);
    EXPECT_EQ(first.packet_issues, std::vector<uint64_t>(6, 1));
    EXPECT_EQ(first.packet_stalls, second.packet_stalls);
}

TEST_P(OnMachine, DumpsWhatTheRunChanged) {
    Program program = assemble(add_words);
    program.data = {{0x1000, 2}, {0x1004, 3}};
    simulator_.load(program);
    const std::string dump = simulator_.dump_state(simulator_.run());
    EXPECT_THAT(dump, HasSubstr("x 1 00001000\n"));
    EXPECT_THAT(dump, HasSubstr("m 0 FFFFFFFF\nd 00001008 00000005\npackets 6\n"));
    EXPECT_THAT(dump, Not(HasSubstr("d 00001000")));
}

TEST_P(OnMachine, OverlappingDataWordsAgree) {
    Program program = assemble(add_words);
    // As upstream writes them: a word for every even address, zeros left out.
    program.data = {{0xFFE, 0x56780000}, {0x1000, 0x12345678}, {0x1002, 0x00001234}, {0x1004, 1}};
    simulator_.load(program);
    ASSERT_TRUE(simulator_.run().ok);
    EXPECT_EQ(read_word(0x1008), 0x12345679u);
}

TEST_P(OnMachine, MemoryRangesAreChecked) {
    const std::vector<uint8_t> bytes(8);
    const uint64_t end = GetParam() == std::string("fsim") ? uint64_t{1} << 32 : uint64_t(shipped(GetParam()).memory.bytes);
    simulator_.write_memory(end - 8, bytes);
    try {
        simulator_.write_memory(end - 7, bytes);
        ADD_FAILURE() << "accepted";
    } catch (const Error &error) {
        EXPECT_THAT(error.what(), HasSubstr("8 bytes at address 0x"));
        EXPECT_THAT(error.what(), HasSubstr(std::string("do not fit the data memory of machine '") + GetParam() + "'"));
    }
    std::vector<uint8_t> out(8);
    EXPECT_THROW(simulator_.read_memory(~uint64_t{0} - 3, out), Error);
    simulator_.write_memory(end, {});
}

TEST_P(OnMachine, PacketsMustAscend) {
    Program program = assemble("nop.s\nhalt.s\n");
    std::swap(program.packets[0], program.packets[1]);
    try {
        simulator_.load(program);
        ADD_FAILURE() << "accepted";
    } catch (const Error &error) {
        EXPECT_STREQ(error.what(), "the packet at address 0x00000000 follows the one at 0x00000014: packets must ascend");
    }
}

TEST_P(OnMachine, RunWithoutAProgramIsRefused) {
    const RunResult result = simulator_.run();
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.rule, "50");
    EXPECT_THAT(result.error, HasSubstr("there is no packet at address 0x00000000"));
}

TEST_P(OnMachine, RefusalsComeBackAsResults) {
    simulator_.load(assemble("addi.s x1, x0, 5\ndiv.s x2, x1, x0\nhalt.s\n"));
    const RunResult result = simulator_.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.error, HasSubstr("packet 0x00000014 (line 2): division by zero"));
}

TEST_P(OnMachine, AWildLoopEnds) {
    simulator_.load(assemble("loop: beq.s x0, x0, loop, 0\n"));
    const RunResult result = simulator_.run({.step_limit = 100});
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.rule, "step limit");
    EXPECT_EQ(result.counters.packets, 100u);
}

TEST_P(OnMachine, ALongRunIsGivenUpAtItsLimit) {
    simulator_.load(assemble("loop: beq.s x0, x0, loop, 0\n"));
    const RunResult result = simulator_.run({.cycle_limit = 100});
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.rule, "cycle limit");
    EXPECT_GE(result.counters.cycles, 100u);
    EXPECT_LT(result.counters.cycles, 200u);
}

TEST_P(OnMachine, ALimitThatIsNotReachedChangesNothing) {
    simulator_.load(assemble("addi.s x1, x0, 5\nhalt.s\n"));
    const RunResult free = simulator_.run(), limited = simulator_.run({.cycle_limit = 1000});
    EXPECT_TRUE(limited.ok);
    EXPECT_EQ(limited.counters, free.counters);
}

TEST_P(OnMachine, RegistersStartAsTheModelSays) {
    simulator_.load(assemble("halt.s\n"));
    ASSERT_TRUE(simulator_.run().ok);
    const bool functional = GetParam() == std::string("fsim");
    EXPECT_EQ(simulator_.state().x[2], functional ? 0x2000u : 0u);
    EXPECT_EQ(simulator_.state().x[33], functional ? 0x3000u : 0u);
    EXPECT_EQ(simulator_.state().m[0], 0xFFFFFFFFu);
    EXPECT_EQ(simulator_.state().m[1], 0u);
    if (!functional) {
        return;
    }
    write_word(0x5000, 1);  // tensors of the host count as data
    ASSERT_TRUE(simulator_.run().ok);
    EXPECT_EQ(simulator_.state().x[2], 0x7000u);
}

TEST(Simulator, RefusesAMachineThatContradictsItself) {
    Machine machine = shipped("ax01");
    machine.pad.count = 99;
    EXPECT_THROW(Simulator{machine}, Error);
}

TEST(Simulator, DataMustFitTheMemory) {
    Program program = assemble("halt.s\n");
    program.data[0xFFFFFFFE] = 1;
    Simulator simulator(shipped("ax01"));
    EXPECT_THROW(simulator.load(program), Error);
}

TEST(Simulator, IsMovable) {
    Simulator first(shipped("fsim"));
    first.load(assemble("addi.s x1, x0, 5\nhalt.s\n"));
    Simulator second = std::move(first);
    ASSERT_TRUE(second.run().ok);
    EXPECT_EQ(second.state().x[1], 5u);
}

// Reports.

Counters sample() {
    Counters counters;
    counters.cycles = 1234567;
    counters.packets = 617283;
    counters.operations = 1000000;
    counters.stalls[static_cast<size_t>(Stall::Dma)] = 617284;
    counters.unit_operations[static_cast<size_t>(Unit::Mul)] = 42;
    counters.dma_load_bytes[3] = 2048;
    counters.dram_beats = 64;
    counters.dram_busy = 128;
    return counters;
}

TEST(Report, TextHasSharesAndLeavesOutZeros) {
    const std::string text = counters_text(sample(), shipped("ax01"));
    EXPECT_THAT(text, HasSubstr("cycles                     1,234,567\n"));
    EXPECT_THAT(text, HasSubstr("packets                      617,283   50.0 % of cycles\n"));
    EXPECT_THAT(text, HasSubstr("operations                 1,000,000   40.5 % of slots filled\n"));
    EXPECT_THAT(text, HasSubstr("  dma                        617,284   50.0 % of cycles\n"));
    EXPECT_THAT(text, HasSubstr("  MUL                             42\n"));
    EXPECT_THAT(text, HasSubstr("  pad 3                            0               0           2,048               0\n"));
    EXPECT_THAT(text, HasSubstr("16.0 a cycle while busy"));
    EXPECT_THAT(text, Not(HasSubstr("pad 0")));
    EXPECT_THAT(text, Not(HasSubstr("fetch")));
    EXPECT_THAT(text, Not(HasSubstr("array rows")));
}

TEST(Report, TextOfNothing) {
    const std::string text = counters_text({}, shipped("fsim"));
    EXPECT_EQ(text,
              "cycles                             0\n"
              "packets                            0   - of cycles\n"
              "operations                         0   - of slots filled\n");
}

TEST(Report, JsonHasEveryCounter) {
    const nlohmann::ordered_json json = counters_json(sample());
    EXPECT_EQ(json["cycles"], 1234567);
    EXPECT_EQ(json["stalls"].size(), static_cast<size_t>(stall_causes));
    EXPECT_EQ(json["stalls"]["dma"], 617284);
    EXPECT_EQ(json["stalls"]["drain"], 0);
    EXPECT_EQ(json["unit_operations"]["MUL"], 42);
    EXPECT_EQ(json["dma_load_bytes"], (std::vector<int>{0, 0, 0, 2048}));
    EXPECT_EQ(json["dram_busy"], 128);
}

}  // namespace
}  // namespace atalla
