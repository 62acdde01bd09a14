// The distance between a row of the array and the next weights: kept by packets, and by waits in slots that are free.
#include <algorithm>

#include <gtest/gtest.h>

#include "codegen/delays.h"
#include "codegen/dependence.h"
#include "isa/machine.h"

namespace atalla::codegen {
namespace {

// A row, so many loads of one packet each, and a weight load; all that so many times.
class RowThenWeights {
public:
    explicit RowThenWeights(int loads, int times = 1) : machine(find_machine("ax01")) {
        kernel.machine = &machine;
        const Reg row = kernel.vector("row"), product = kernel.vector("product"), pointer = kernel.scalar("pointer"),
                  one = kernel.scalar("one");
        for (int time = 0; time < times; time++) {
            add(Opcode::gemm_vv, product, {row, zero_vector});
            for (int i = 0; i < loads; i++) {
                weight = kernel.vector("weight");
                add(Opcode::vreg_ld, weight, {pointer, one});
            }
            add(Opcode::lw_vi, {}, {weight});
        }
    }
    std::vector<OpGroup> packets() {
        ScheduleGraph graph(kernel, ops, -1);
        for (size_t i = 0; i < ops.size(); i++) graph.cycle[i] = static_cast<int>(i);
        return Delays(kernel).packets(graph);
    }
    Machine machine;
    Kernel kernel;

private:
    void add(Opcode opcode, Reg dst, std::array<Reg, 3> src) {
        Op op;
        op.opcode = opcode;
        op.dst = dst;
        op.src = src;
        ops.push_back(op);
    }
    Reg weight;
    std::vector<Op> ops;
};

TEST(Delays, AreNoneWherePacketsKeepTheDistance) {
    RowThenWeights code(31);
    for (const OpGroup &packet : code.packets()) EXPECT_EQ(packet.size(), 1u);
}

TEST(Delays, ShareThePacketsThatAreThere) {
    for (const int loads : {19, 24, 30}) {
        RowThenWeights code(loads);
        const std::vector<OpGroup> packets = code.packets();
        SCOPED_TRACE(loads);
        ASSERT_EQ(packets.size(), static_cast<size_t>(loads) + 2);
        // Of one a result is made, and the last waits for it.
        int started = -1, latency = 0, waits = -1;
        for (size_t p = 0; p < packets.size(); p++)
            for (const Op &op : packets[p]) {
                if (info(op.opcode).unit == Unit::Vlsu || info(op.opcode).unit == Unit::Array) continue;
                if (op.dst != zero_scalar) {
                    started = static_cast<int>(p);
                    latency = result_latency(code.machine, op.opcode);
                } else {
                    waits = static_cast<int>(p);
                }
            }
        ASSERT_GE(started, 0);
        EXPECT_GT(waits, started);
        const int last = static_cast<int>(packets.size()) - 1;
        EXPECT_EQ(started + latency + last - waits, code.machine.sa.switch_spacing) << "not a cycle is lost";
    }
}

// The last rows of an iteration and the first weights of the next one: what has time behind the rows waits there.
TEST(Delays, ShareThePacketsOfTheIterationBefore) {
    const Machine machine = find_machine("ax01");
    Kernel kernel;
    kernel.machine = &machine;
    const Reg weight = kernel.vector("weight"), row = kernel.vector("row"), pointer = kernel.scalar("pointer"),
              one = kernel.scalar("one");
    std::vector<Op> ops;
    const auto add = [&](Opcode opcode, Reg dst, std::array<Reg, 3> src) {
        Op op;
        op.opcode = opcode;
        op.dst = dst;
        op.src = src;
        ops.push_back(op);
    };
    add(Opcode::lw_vi, {}, {weight});
    add(Opcode::gemm_vv, kernel.vector("product"), {row, zero_vector});
    for (int i = 0; i < 14; i++) add(Opcode::vreg_ld, kernel.vector("other"), {pointer, one});
    ScheduleGraph graph(kernel, ops, 0);
    for (size_t i = 0; i < ops.size(); i++) graph.cycle[i] = static_cast<int>(i);
    ScheduleGraph apart = graph;
    EXPECT_GT(Delays(kernel).packets(apart).size(), ops.size()) << "packets of their own where iterations do not overlap";
    const std::vector<OpGroup> packets = Delays(kernel).packets(graph, true);
    ASSERT_EQ(packets.size(), ops.size()) << "none of their own";
    size_t waits = 0;
    for (const OpGroup &packet : packets)
        waits += static_cast<size_t>(std::ranges::count_if(packet, [](const Op &op) { return op.opcode == Opcode::or_s; }));
    EXPECT_EQ(waits, 2u) << "one alone takes too little time";
    EXPECT_EQ(packets.front().size(), 1u) << "not in front of the row";
}

TEST(Delays, TakePacketsOfTheirOwnWhereThereAreTooFew) {
    RowThenWeights code(4);
    EXPECT_GT(code.packets().size(), 6u);
}

TEST(Delays, AreKeptHoweverManyWeightsABlockLoads) {
    RowThenWeights once(4), often(4, 150);
    EXPECT_EQ(often.packets().size(), once.packets().size() * 150);
}

// Rows in a block, a loop that loads weights, and the last of them in the block behind it: what the loop waits for, the last
// need not.
TEST(Delays, AreInFrontOfTheFirstWeightsAlone) {
    const Machine machine = find_machine("ax01");
    Kernel kernel;
    kernel.machine = &machine;
    const auto op = [](Opcode opcode, Reg dst, std::array<Reg, 3> src) {
        Op op;
        op.opcode = opcode;
        op.dst = dst;
        op.src = src;
        return op;
    };
    const Op row = op(Opcode::gemm_vv, kernel.vector("product"), {kernel.vector("row"), zero_vector}),
             weights = op(Opcode::lw_vi, {}, {kernel.vector("weight")});
    Blocks blocks(3);
    blocks[0].packets = {{row}};
    blocks[1].packets = {{weights}, {weights}};
    blocks[1].end.kind = Terminator::Loop;
    blocks[1].end.target = 1;
    blocks[2].packets = {{weights}};
    Delays(kernel).keep_weights_apart(blocks, [](size_t b) { return b == 1; });
    EXPECT_GT(blocks[0].packets.size(), 1u) << "a delay behind the row";
    EXPECT_EQ(blocks[1].packets.size(), 2u) << "none in the loop";
    EXPECT_EQ(blocks[2].packets.size(), 1u) << "none behind it";
}

}  // namespace
}  // namespace atalla::codegen
