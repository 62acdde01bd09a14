// Kernels in one program compute what they compute one by one, bit for bit.
#include "stitch/stitch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generators/registry.h"
#include "isa/error.h"
#include "isa/packet_checker.h"
#include "simulator/simulator.h"
#include "tests/generators/kernel_check.h"
#include "tests/generators/pipelines.h"

namespace atalla {
namespace {

Routine routine_of(const KernelDefinition &kernel, const Machine &machine, const std::string &name, bool optimize = true) {
    codegen::CompileOptions options;
    options.optimize = optimize;
    options.routine = true;
    codegen::CompiledKernel compiled =
        codegen::compile(kernel.pipeline, kernel.arguments, machine, kernel.compile_options(options));
    return {name, std::move(compiled.program), compiled.tensors.size()};
}

// Of transfers that routines leave under way: part of the calling convention.
bool is_busy_register(Register r, const Machine &machine) {
    return r.cls == RegisterClass::Scalar && r.number >= 4 && r.number < 4 + machine.pad.count;
}

// A chain: each kernel reads what the one before it wrote, and further tensors of its own.
struct Chain {
    const Machine machine;
    StitchPlan plan;
    std::vector<std::pair<uint32_t, TensorData>> given;  // tensors to write before the run
    uint32_t at = 0x1000, result_at = 0;
    TensorData expected;  // of the last kernel, from running them one by one
    std::mt19937 random{7};

    explicit Chain(const char *name) : machine(find_machine(name)) {
        plan.parameters = 0x100;
        plan.segments.emplace_back();
    }

    uint32_t reserve(const TensorSpec &tensor) {
        const uint32_t address = at;
        at = (at + static_cast<uint32_t>(tensor.elements()) * 2 + 0x7FF) & ~0x7FFu;
        return address;
    }

    void add(const KernelDefinition &kernel, const std::string &name, bool optimize = true) {
        KernelCall call{plan.routines.size(), {}, name};
        plan.routines.push_back(routine_of(kernel, machine, name, optimize));
        std::vector<TensorData> inputs;
        for (size_t i = 0; i < kernel.inputs.size(); i++) {
            if (i == 0 && result_at != 0) {
                ASSERT_EQ(kernel.inputs[0].elements(), static_cast<int64_t>(expected.size()));
                inputs.push_back(expected);
                call.addresses.push_back(result_at);
                continue;
            }
            inputs.push_back(random_tensor(kernel.inputs[i], random));
            call.addresses.push_back(reserve(kernel.inputs[i]));
            given.emplace_back(call.addresses.back(), inputs.back());
        }
        result_at = reserve(kernel.outputs[0]);
        call.addresses.push_back(result_at);
        plan.segments.back().calls.push_back(std::move(call));
        const std::vector<TensorData> outputs = run_checked(kernel, machine, optimize, inputs);
        ASSERT_EQ(outputs.size(), 1u);
        expected = outputs[0];
    }

    Simulator loaded(const Stitched &stitched) const {
        Simulator simulator(machine);
        simulator.load(stitched.program);
        for (const auto &[address, data] : given)
            simulator.write_memory(address, {reinterpret_cast<const uint8_t *>(data.data()), data.size() * 2});
        return simulator;
    }
    TensorData result(const Simulator &simulator) const {
        TensorData data(expected.size());
        simulator.read_memory(result_at, {reinterpret_cast<uint8_t *>(data.data()), data.size() * 2});
        return data;
    }
};

class Stitching : public testing::TestWithParam<const char *> {};

TEST_P(Stitching, AChainOfKernelsEqualsThemOneByOne) {
    for (const bool optimize : {true, false}) {
        Chain chain(GetParam());
        chain.add(pipelines::product({.m = 12, .n = 30, .k = 32, .step = 4}), "first", optimize);
        chain.add(pipelines::relu({12, 30, 4, true}), "relu", optimize);
        chain.add(pipelines::bias_add({12, 30, 3}), "bias", optimize);
        chain.add(pipelines::exponential_chain({12, 30, 4}), "chain", optimize);
        const Stitched stitched = stitch(chain.plan);
        for (const PlacedPacket &packet : stitched.program.packets) {
            EXPECT_EQ(check_packet(packet.packet, chain.machine), std::nullopt) << packet.address;
            ASSERT_GE(packet.source, 0) << packet.address;
            EXPECT_NE(stitched.program.sources[static_cast<size_t>(packet.source)].node, "") << packet.address;
        }
        Simulator simulator = chain.loaded(stitched);
        const RunResult run = simulator.run();
        ASSERT_TRUE(run.ok) << run.error;
        EXPECT_EQ(chain.result(simulator), chain.expected);
        EXPECT_EQ(stitched.routines.size(), 4u);
    }
}

TEST_P(Stitching, RepeatedLayersShareTheirCode) {
    Chain chain(GetParam());
    for (int layer = 0; layer < 5; layer++) {
        chain.add(pipelines::product({.m = 8, .n = 32, .k = 32, .step = 4}), "linear");
        chain.add(pipelines::relu({8, 32, 4, true}), "relu");
    }
    const Stitched stitched = stitch(chain.plan);
    ASSERT_EQ(stitched.routines.size(), 2u);
    EXPECT_EQ(stitched.calls.size(), 10u);
    EXPECT_EQ(stitched.program.packets.size() * packet_bytes, stitched.routines.back().end);
    Simulator simulator = chain.loaded(stitched);
    const RunResult run = simulator.run();
    ASSERT_TRUE(run.ok) << run.error;
    EXPECT_EQ(chain.result(simulator), chain.expected);
}

// Kernels that leave transfers under way and those that do not, as the naive one, meet in any order.
TEST_P(Stitching, TransfersAreHandedOverToAnyKernel) {
    Chain chain(GetParam());
    chain.add(pipelines::product({.m = 24, .n = 32, .k = 32, .step = 4}), "product");
    chain.add(pipelines::relu({24, 32, 4}), "naive", false);
    chain.add(pipelines::bias_add({24, 32, 4}), "bias");
    chain.add(pipelines::relu({24, 32, 24}), "relu");
    chain.add(pipelines::product({.m = 24, .n = 32, .k = 32, .step = 4}), "product");
    chain.add(pipelines::relu({24, 32, 4, true}), "ring");
    Simulator simulator = chain.loaded(stitch(chain.plan));
    const RunResult run = simulator.run();
    ASSERT_TRUE(run.ok) << run.error;
    EXPECT_EQ(chain.result(simulator), chain.expected);
}

TEST_P(Stitching, RoutinesWithoutCallsStayOut) {
    Chain chain(GetParam());
    chain.plan.routines.push_back(routine_of(pipelines::relu({8, 64, 4}), chain.machine, "nobody's"));
    chain.add(pipelines::bias_add({8, 64, 4}), "bias");
    const Stitched stitched = stitch(chain.plan);
    ASSERT_EQ(stitched.routines.size(), 1u);
    EXPECT_EQ(stitched.routines[0].name, "bias");
    Simulator simulator = chain.loaded(stitched);
    ASSERT_TRUE(simulator.run().ok);
    EXPECT_EQ(chain.result(simulator), chain.expected);
}

TEST_P(Stitching, SegmentsAreEnteredThroughTheirWord) {
    Chain chain(GetParam());
    chain.add(pipelines::relu({8, 64, 4}), "relu");
    chain.plan.segments.emplace_back();
    chain.add(pipelines::bias_add({8, 64, 4}), "bias");
    const Stitched stitched = stitch(chain.plan);
    ASSERT_EQ(stitched.entries.size(), 2u);
    Simulator simulator = chain.loaded(stitched);
    ASSERT_TRUE(simulator.run().ok);
    EXPECT_NE(chain.result(simulator), chain.expected);
    simulator.write_memory(segment_word, {reinterpret_cast<const uint8_t *>(&stitched.entries[1]), 4});
    ASSERT_TRUE(simulator.run().ok);
    EXPECT_EQ(chain.result(simulator), chain.expected);
}

INSTANTIATE_TEST_SUITE_P(Machines, Stitching, testing::Values("ax01", "ax01-psum", "fsim"));

// All loads of such a kernel come before its results, the last of which are under way when the next one starts its loads.
TEST(StitchRoutines, PassOnWhatThePadsHoldAsAWhole) {
    Chain chain("ax01");
    const auto add = [&](const char *op, const char *shape) {
        chain.add(find_operator(op)
                      .workload({{"shape", shape}})
                      ->build(chain.machine, Point::parse("block=16384,pads=4,parts=3,unroll=16")),
                  op);
    };
    add("relu", "16384");
    add("add", "16384,16384");
    add("exp", "16384");
    Simulator simulator = chain.loaded(stitch(chain.plan));
    const RunResult run = simulator.run();
    ASSERT_TRUE(run.ok) << run.error;
    EXPECT_EQ(chain.result(simulator), chain.expected);
}

TEST(StitchErrors, SayWhatIsWrongWithThePlan) {
    StitchPlan plan;
    EXPECT_THAT([&] { stitch(plan); }, testing::ThrowsMessage<Error>(testing::HasSubstr("the plan has no segment")));
    plan.routines.push_back({"relu", {}, 2});
    plan.segments.push_back({{{0, {0x1000}, "layer 3"}}});
    EXPECT_THAT([&] { stitch(plan); },
                testing::ThrowsMessage<Error>("cannot stitch layer 3: relu has 2 tensors, but the call gives 1 addresses"));
    plan.segments[0].calls[0].routine = 4;
    EXPECT_THAT([&] { stitch(plan); }, testing::ThrowsMessage<Error>("cannot stitch layer 3: there is no routine 4, only 1"));
}

TEST(StitchRoutines, TakeWhereTheNextOneIsFromTheirWords) {
    const Machine machine = find_machine("ax01");
    const Routine routine =
        routine_of(pipelines::product({.m = 12, .n = 40, .k = 70, .step = 4, .sums_in_registers = true, .ring = true}), machine,
                   "product");
    int next = 0, words = 0;
    for (const PlacedPacket &packet : routine.program.packets)
        for (const Instruction &slot : packet.packet) {
            const Operands used = operands(slot, machine.sa.psum_in);
            for (const Register &r : used.writes()) {
                if (r.cls != RegisterClass::Scalar || (r.number != 1 && r.number != 2)) continue;
                EXPECT_EQ(slot.op, Opcode::lw_s) << packet.address;
                EXPECT_EQ(slot.imm, static_cast<int32_t>(4 * (routine.tensors + (r.number == 1 ? 0 : 1)))) << packet.address;
                (r.number == 1 ? next : words)++;
            }
        }
    EXPECT_EQ(next, 1);
    EXPECT_EQ(words, 1);
    EXPECT_EQ(routine.program.packets.back().packet[0].op == Opcode::jalr ||
                  routine.program.packets.back().packet[0].op == Opcode::jal,
              true);
}

TEST(StitchRoutines, LeaveTheirLastTransfersToTheNext) {
    const Machine machine = find_machine("ax01");
    for (const bool leave : {true, false}) {  // not the naive one
        const Routine routine = routine_of(pipelines::relu({4, 64, 4}), machine, "relu", leave);
        int waits = 0, others = 0;
        for (const PlacedPacket &packet : routine.program.packets)
            for (const Instruction &slot : packet.packet) {
                const Operands used = operands(slot, machine.sa.psum_in);
                if (slot.op == Opcode::scpad_st) {
                    EXPECT_EQ(leave, is_busy_register(used.writes()[0], machine));
                }
                if (slot.op == Opcode::or_s)
                    (std::ranges::any_of(used.reads(), [&](Register r) { return is_busy_register(r, machine); }) ? waits
                                                                                                                 : others)++;
            }
        EXPECT_EQ(waits, 2);            // at the start: for four pads
        EXPECT_EQ(others > 1, !leave);  // what it loads is waited for in both cases
    }
}

TEST(StitchRoutines, WaitForTheRoutineBeforeTheyTouchPads) {
    const Machine machine = find_machine("ax01");
    const Routine routine = routine_of(pipelines::bias_add({4, 64, 4}), machine, "bias");
    int waits = 0;
    for (size_t at = 0; waits < 2;) {  // in the order in which they run
        ASSERT_LT(at, routine.program.packets.size());
        int32_t next = packet_bytes;
        for (const Instruction &slot : routine.program.packets[at].packet) {
            const Operands used = operands(slot, machine.sa.psum_in);
            EXPECT_FALSE(slot.op == Opcode::scpad_ld || slot.op == Opcode::scpad_st || slot.op == Opcode::vreg_ld ||
                         slot.op == Opcode::vreg_st)
                << at;
            waits += slot.op == Opcode::or_s &&
                     std::ranges::any_of(used.reads(), [&](Register r) { return is_busy_register(r, machine); });
            if (slot.op == Opcode::jal) next = slot.imm;
        }
        at = static_cast<size_t>(static_cast<int64_t>(at) + next / packet_bytes);
    }
}

}  // namespace
}  // namespace atalla
