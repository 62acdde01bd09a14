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

// The last rows of an iteration, the first weights of the next one, and loads in between, a packet each.
class LoopOfAVisit {
public:
    explicit LoopOfAVisit(int loads) : machine(find_machine("ax01")) {
        kernel.machine = &machine;
        const Reg weight = kernel.vector("weight"), row = kernel.vector("row"), pointer = kernel.scalar("pointer"),
                  one = kernel.scalar("one");
        add(Opcode::lw_vi, {}, {weight});
        add(Opcode::gemm_vv, kernel.vector("product"), {row, zero_vector});
        for (int i = 0; i < loads; i++) add(Opcode::vreg_ld, kernel.vector("other"), {pointer, one});
    }
    std::vector<OpGroup> packets(bool overlapping) {
        ScheduleGraph graph(kernel, ops, 0);
        for (size_t i = 0; i < ops.size(); i++) graph.cycle[i] = static_cast<int>(i);
        return Delays(kernel).packets(graph, overlapping);
    }
    Machine machine;
    Kernel kernel;
    std::vector<Op> ops;

private:
    void add(Opcode opcode, Reg dst, std::array<Reg, 3> src) {
        Op op;
        op.opcode = opcode;
        op.dst = dst;
        op.src = src;
        ops.push_back(op);
    }
};

// What has time behind the rows waits there.
TEST(Delays, ShareThePacketsOfTheIterationBefore) {
    LoopOfAVisit loop(14);
    EXPECT_GT(loop.packets(false).size(), loop.ops.size()) << "packets of their own where iterations do not overlap";
    const std::vector<OpGroup> packets = loop.packets(true);
    ASSERT_EQ(packets.size(), loop.ops.size()) << "none of their own";
    size_t waits = 0;
    for (const OpGroup &packet : packets)
        waits += static_cast<size_t>(std::ranges::count_if(packet, [](const Op &op) { return op.opcode == Opcode::or_s; }));
    EXPECT_EQ(waits, 2u) << "one alone takes too little time";
    EXPECT_EQ(packets.front().size(), 1u) << "not in front of the row";
}

// A loop may have as many packets as a result takes cycles, and behind an operation the one of the next iteration that must be
// so far from it. Where packets between them read all that they can, the one that would make the result is then the one that
// waits for it, an iteration later.
TEST(Delays, AreNotMadeByThePacketThatWaitsForThem) {
    constexpr int apart = 24;
    size_t beside = 0;
    for (int packets = 2; packets < 30; packets++)
        for (int weights = 1; weights < packets; weights++) {
            LoopOfAVisit loop(2 * (packets - 2));
            ScheduleGraph graph(loop.kernel, loop.ops, 0);
            graph.cycle[0] = weights;
            graph.cycle[1] = 0;
            for (int i = 2, packet = 1; packet < packets; packet++)
                for (int pad = 0; packet != weights && pad < 2; pad++, i++) {
                    graph.cycle[i] = packet;
                    graph.ops[i].pad = pad;
                }
            graph.edges = {{1, 0, apart, 1, true}};
            SCOPED_TRACE(testing::Message() << packets << " packets, weights in packet " << weights);
            for (const OpGroup &packet : Delays(loop.kernel).packets(graph, true))
                for (const Op &op : packet) {
                    beside += op.dst.defined() && info(op.opcode).unit != Unit::Vlsu && packet.size() > 1;
                    EXPECT_TRUE(!op.dst.defined() || op.dst == zero_scalar ||
                                std::ranges::none_of(packet, [&](const Op &other) { return reads(other, op.dst); }));
                }
        }
    EXPECT_GT(beside, 0u) << "waits beside other operations";
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
