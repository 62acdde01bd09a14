// Straight code: what must stay in order does, however densely it is packed, and what each way of packing is for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "codegen/code_cost.h"
#include "codegen/constant_units.h"
#include "codegen/dependence.h"
#include "codegen/late_rows.h"
#include "codegen/list_schedule.h"
#include "codegen/tighten.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct StraightCodeTest : Fixture, testing::Test {
    // Rows are loaded, added up in pairs and stored: chains that are independent of each other.
    std::vector<Op> chains(int count) {
        const int in = allocation("in", 2 * count), out = allocation("out", count);
        std::vector<Op> ops;
        for (int i = 0; i < count; i++) {
            const Reg a = vector("a"), b = vector("b"), sum = vector("sum"), product = vector("product");
            ops.push_back(load(a, in, 2 * i));
            ops.push_back(load(b, in, 2 * i + 1));
            ops.push_back(op(Opcode::add_vv, sum, {a, b}));
            ops.push_back(op(Opcode::mul_vv, product, {sum, sum}));
            ops.push_back(store(product, out, i));
        }
        return ops;
    }
    static int packets(const ScheduleGraph &graph) { return static_cast<int>(gather(graph).size()); }
};

// Every dependence holds: in cycles where the hardware does not wait, and at least in the order of packets elsewhere.
void expect_in_order(const ScheduleGraph &graph, int packet_cycles) {
    for (const Edge &edge : graph.edges) {
        const int apart = edge.hard ? edge.latency : (edge.latency + packet_cycles - 1) / packet_cycles;
        EXPECT_GE(graph.cycle[edge.to], graph.cycle[edge.from] + apart) << edge.from << " to " << edge.to;
    }
}

TEST_F(StraightCodeTest, KeepsDependencesAndSlotsAtEveryDensity) {
    StraightCode code(kernel, chains(20), {}, false);
    int sparse = 0;
    for (const int packet_cycles : {1, 2, 4, 12}) {
        const auto [graph, table] = code.schedule(packet_cycles);
        expect_in_order(graph, packet_cycles);
        for (const OpGroup &packet : gather(graph)) EXPECT_LE(static_cast<int64_t>(packet.size()), machine.issue.slots);
        if (packet_cycles == 1) sparse = packets(graph);
        EXPECT_LE(packets(graph), sparse) << packet_cycles << " cycles a packet";
    }
}

// Code that is scheduled again gets the cycles that it would get the first time, whatever was added to its graph since.
TEST_F(StraightCodeTest, KeepsNothingOfTheScheduleBefore) {
    const std::vector<Op> ops = chains(20);
    StraightCode again(kernel, ops, {}, false);
    for (const int packet_cycles : {1, 4, 2, 1}) {
        ScheduleGraph &graph = again.schedule(packet_cycles).first;
        EXPECT_EQ(graph.cycle, StraightCode(kernel, ops, {}, false).schedule(packet_cycles).first.cycle);
        EXPECT_TRUE(again.added_to(graph).empty());
        graph.ops.push_back(op(Opcode::or_s, zero_scalar, {zero_scalar, zero_scalar}));
        graph.cycle.push_back(0);
        EXPECT_EQ(again.added_to(graph).size(), 1U);
        EXPECT_EQ(again.ops().size(), ops.size());
    }
}

// Packets are cycles that have operations, in their order; a fence belongs to the packet behind it.
TEST_F(StraightCodeTest, PacketsAreCyclesWithOperations) {
    ScheduleGraph graph(kernel,
                        {op(Opcode::add_s, kernel.scalar("a"), {zero_scalar, zero_scalar}), Op{},
                         op(Opcode::mul_s, kernel.scalar("b"), {zero_scalar, zero_scalar}),
                         op(Opcode::or_s, kernel.scalar("c"), {zero_scalar, zero_scalar})},
                        -1);
    graph.cycle = {7, 3, 7, 2};
    const PacketOrder order(graph);
    ASSERT_EQ(order.size(), 2U);
    EXPECT_EQ(order.packet_of(), (std::vector<int>{1, 1, 1, 0}));
    const std::vector<OpGroup> packets = gather(graph);
    ASSERT_EQ(packets.size(), 2U);
    ASSERT_EQ(packets[0].size(), 1U);
    EXPECT_EQ(packets[0][0].opcode, Opcode::or_s);
    ASSERT_EQ(packets[1].size(), 2U);
    EXPECT_EQ(packets[1][0].opcode, Opcode::add_s);
    EXPECT_EQ(packets[1][1].opcode, Opcode::mul_s);
    EXPECT_EQ(in_order_of_cycles({}), std::vector<int>{});
}

// What has the longest way to the end starts first, and its values wait; in order, it starts in its turn.
TEST_F(StraightCodeTest, KeepsItsOrderWhereItMust) {
    constexpr size_t far = 100;
    std::vector<Op> ops = chains(100);
    Reg last = vector("first");
    ops.push_back(load(last, allocation("longest", 1), 0));
    for (size_t i = 0; i < far; i++) {
        const Reg next = vector("next");
        ops.push_back(op(Opcode::add_vv, next, {last, last}));
        last = next;
    }
    for (const bool in_order : {false, true}) {
        const auto [graph, table] = StraightCode(kernel, ops, {}, false, in_order).schedule(1);
        expect_in_order(graph, 1);
        size_t overtakes = 0;
        for (size_t i = 0; i + far < graph.ops.size(); i++) overtakes += graph.cycle[i + far] < graph.cycle[i];
        EXPECT_EQ(overtakes == 0, in_order) << overtakes;
    }
}

// Constants are the same wherever they are made, and take fewer packets than the one unit of integer operations needs. What a
// transfer keeps busy, or what is written again, is no factor of others, and a register that is read before stays as it is
// until then.
TEST_F(StraightCodeTest, MakesConstantsOnSeveralUnits) {
    const auto constant = [&](Reg to, int32_t value) {
        const bool small = value >= -2048 && value <= 2047;
        Op made = small ? op(Opcode::addi_s, to, {zero_scalar}) : op(Opcode::lui_s, to, {});
        made.imm = small ? value : value >> 7;
        return made;
    };
    const Reg busy = kernel.scalar("busy"), again = kernel.scalar("again"), early = kernel.scalar("early"),
              copy = kernel.scalar("copy");
    std::vector<Op> ops = {op(Opcode::or_s, copy, {early, zero_scalar}), constant(busy, 1), constant(again, 1),
                           constant(early, 1)};
    for (const int32_t value : {0, 0, 2, -3, 2047, 4096, 8192, -128, INT32_MIN, 0, 4096, 5})
        ops.push_back(constant(kernel.scalar("c"), value));
    ops.push_back(op(Opcode::scpad_ld, busy, {busy, zero_scalar, zero_scalar}));
    ops.push_back(constant(again, 7));
    ops.push_back(constant(kernel.scalar("c"), 14));
    const auto values = [&](const std::vector<Op> &code) {
        std::map<Reg, int32_t> at = {{zero_scalar, 0}, {early, 100}};
        for (const Op &o : code) {
            if (o.opcode == Opcode::addi_s)
                at[o.dst] = at.at(o.src[0]) + o.imm;
            else if (o.opcode == Opcode::lui_s)
                at[o.dst] = static_cast<int32_t>(static_cast<uint32_t>(o.imm) << 7);
            else if (o.opcode == Opcode::muli_s)
                at[o.dst] = static_cast<int32_t>(static_cast<uint32_t>(at.at(o.src[0])) * static_cast<uint32_t>(o.imm));
            else if (o.opcode == Opcode::vmov_vts)
                at[o.dst] = 0;
            else if (o.opcode == Opcode::or_s)
                at[o.dst] = at.at(o.src[0]) | at.at(o.src[1]);
        }
        return at;
    };
    const std::optional<std::vector<Op>> made = constants_on_other_units(ops);
    ASSERT_TRUE(made.has_value());
    const std::vector<Op> &spread = *made;
    EXPECT_FALSE(constants_on_other_units({ops.front()}).has_value());
    EXPECT_EQ(values(spread), values(ops));
    for (const Op &o : spread)
        if (o.opcode == Opcode::muli_s) {
            EXPECT_TRUE(o.src[0] != busy && o.src[0] != again);
        }
    for (const int packet_cycles : {1, 12})
        EXPECT_LT(packets(StraightCode(kernel, spread, {}, false).schedule(packet_cycles).first),
                  packets(StraightCode(kernel, ops, {}, false).schedule(packet_cycles).first));
}

// A result leaves when it has been stored, in line as out of line.
TEST_F(StraightCodeTest, TransfersOutOfLineFollowTheFence) {
    const int out = allocation("out", 1);
    const Reg condition = kernel.scalar("condition");
    Op fence, leave = op(Opcode::scpad_st, kernel.scalar("base"), {}),
              branch = op(Opcode::bne_s, condition, {condition, zero_scalar});
    fence.orders = leave.orders = out;
    fence.fence = true;
    leave.pad = 0;
    branch.side = std::make_shared<std::vector<Op>>(std::vector{leave});
    const std::vector<Edge> edges = dependences(kernel, {store(vector("result"), out, 0), fence, branch}, -1, false);
    EXPECT_TRUE(std::any_of(edges.begin(), edges.end(), [](const Edge &edge) {
        return edge.from == 1 && edge.to == 2 && edge.latency >= 1 && edge.distance == 0;
    }));
}

// Of two loads into each pad the second ones do not wait for the first: they start when much of the code has run.
TEST_F(StraightCodeTest, LoadsForLaterStartAtEvenDistances) {
    constexpr int additions = 80;
    const Reg sum = vector("sum"), one = vector("one");
    const auto starts = [&](int rounds) {
        std::vector<Op> code;
        for (int round = 0; round < rounds; round++)
            for (int pad = 0; pad < machine.pad.count; pad++)
                for (Op &step : transfer(pad)) code.push_back(step);
        for (int i = 0; i < additions; i++) code.push_back(op(Opcode::add_vv, sum, {sum, one}));
        const ScheduleGraph graph = StraightCode(kernel, code, {}, false).schedule(1).first;
        std::vector<int> cycles;
        for (size_t i = 0; i < graph.ops.size(); i++)
            if (graph.ops[i].opcode == Opcode::scpad_ld) cycles.push_back(graph.cycle[i]);
        return std::pair(cycles, *std::ranges::max_element(graph.cycle));
    };
    const auto [twice, length] = starts(2);
    for (size_t i = 1; i < twice.size(); i++)
        EXPECT_GE(twice[i] - twice[i - 1], length / static_cast<int>(twice.size()) / 2) << "of " << length << " cycles";
    const auto [once, all] = starts(1);
    EXPECT_LT(*std::ranges::max_element(once), all / 4) << "what no transfer of its pad follows starts at once";
}

// A pad's next transfer that runs ahead, of another buffer, leaves the one before its time, where the code is long enough for
// that.
TEST_F(StraightCodeTest, TransfersOfAPadAreApartInLongCode) {
    const Reg sum = vector("sum"), one = vector("one");
    const auto distance = [&](int additions) {
        std::vector<Op> code;
        for (int round = 0; round < 2; round++)
            for (Op &step : transfer(0)) {
                step.orders = step.opcode == Opcode::scpad_ld ? round : step.orders;
                code.push_back(step);
            }
        for (int i = 0; i < additions; i++) code.push_back(op(Opcode::add_vv, sum, {sum, one}));
        int longest = 0;
        for (const Edge &edge : dependences(kernel, code, -1, false))
            if (code[static_cast<size_t>(edge.from)].opcode == Opcode::scpad_ld &&
                code[static_cast<size_t>(edge.to)].opcode == Opcode::scpad_ld)
                longest = std::max(longest, edge.latency);
        return longest;
    };
    EXPECT_GE(distance(300), 100);
    EXPECT_LE(distance(200), 1);
}

TEST_F(StraightCodeTest, DenserCodeHasFewerPacketsWhereChainsAreLong) {
    // One chain: a packet an operation and nothing to fill the waits with; with dear packets loads join them.
    StraightCode code(kernel, chains(4), {}, false);
    EXPECT_LT(packets(code.schedule(12).first), packets(code.schedule(1).first));
}

TEST_F(StraightCodeTest, CostsWhatItsWaitsAndItsPaceTake) {
    const Reg a = vector("a"), b = vector("b"), c = vector("c");
    StraightCode code(kernel, {op(Opcode::add_vv, b, {a, a}), op(Opcode::mul_vv, c, {b, b})}, {}, false);
    const ScheduleGraph graph = code.schedule(1).first;
    // The second waits for the first, and then takes a cycle.
    const int64_t waits = result_latency(machine, Opcode::add_vv);
    EXPECT_EQ(issue_cycles(machine, graph), waits + 1);
    // Slower packets hide that wait.
    EXPECT_EQ(issue_cycles(machine, graph, 2 * waits), 4 * waits);
}

TEST_F(StraightCodeTest, CostsWhatItsLaneUnitTakes) {
    const Reg a = vector("a");
    std::vector<Op> ops;
    constexpr int64_t count = 10;
    for (int64_t i = 0; i < count; i++) ops.push_back(op(Opcode::add_vv, vector("b"), {a, a}));
    const ScheduleGraph graph = StraightCode(kernel, ops, {}, false).schedule(1).first;
    EXPECT_EQ(issue_cycles(machine, graph), (count - 1) * machine.vec.ii + 1);
}

TEST_F(StraightCodeTest, FetchingCostsNothingWithoutACache) {
    EXPECT_GT(fetch_cycles(machine), 1);
    EXPECT_EQ(fetch_cycles(find_machine("fsim")), 0);
}

TEST_F(StraightCodeTest, BlocksRunAsOftenAsTheLoopsAroundThem) {
    Blocks blocks(5);
    const auto loop = [&](size_t b, int target, int32_t extent) {
        blocks[b].end.kind = Terminator::Loop;
        blocks[b].end.target = target;
        blocks[b].end.limit = kernel.constant(extent - 1);
    };
    loop(2, 2, 7);
    loop(3, 1, 5);
    Block side;
    side.from_block = 2;
    blocks.push_back(side);
    EXPECT_EQ(executions(kernel, blocks, 0), 1);
    EXPECT_EQ(executions(kernel, blocks, 1), 5);
    EXPECT_EQ(executions(kernel, blocks, 2), 35);
    EXPECT_EQ(executions(kernel, blocks, 4), 1);
    EXPECT_EQ(executions(kernel, blocks, 5), 35) << "code out of line: as often as what branches to it, at most";
}

TEST_F(StraightCodeTest, TightenedHasFewerPacketsAndTheSameOperations) {
    auto [graph, table] = StraightCode(kernel, chains(12), {}, false).schedule(1);
    const int before = packets(graph);
    const std::vector<int> cycles = graph.cycle;
    tighten(kernel, graph, table);
    EXPECT_LT(packets(graph), before);
    EXPECT_NE(graph.cycle, cycles);
    expect_in_order(graph, 1);
    size_t operations = 0;
    for (const OpGroup &packet : gather(graph)) {
        operations += packet.size();
        EXPECT_LE(static_cast<int64_t>(packet.size()), machine.issue.slots);
    }
    EXPECT_EQ(operations, graph.ops.size());
    EXPECT_LE(*std::max_element(graph.cycle.begin(), graph.cycle.end()), *std::max_element(cycles.begin(), cycles.end()))
        << "it ends no later";
}

TEST_F(StraightCodeTest, TightenLeavesArrayAndLanesWhereTheyAre) {
    auto [graph, table] = StraightCode(kernel, chains(12), {}, false).schedule(1);
    const std::vector<int> cycles = graph.cycle;
    tighten(kernel, graph, table);
    for (size_t i = 0; i < graph.ops.size(); i++) {
        if (!is_lane_operation(graph.ops[i].opcode)) continue;
        EXPECT_EQ(graph.cycle[i], cycles[i]) << "operation " << i;
    }
}

// Operations of two lane units that take turns in packets of their own share packets, which is no later, and so does what has
// room beside them.
TEST_F(StraightCodeTest, TightenedMostPairsTheLaneUnits) {
    constexpr int count = 24, order = 2, as_if = 12;
    std::vector<Op> ops;
    for (int i = 0; i < count; i++)
        ops.push_back(op(i % 2 == 0 ? Opcode::mul_vv : Opcode::sub_vv, vector("cleared"), {zero_vector, zero_vector}));
    ScheduleGraph graph = StraightCode(kernel, ops, {}, false).schedule(order).first;
    // One after the other, as where stores leave room for one of them.
    for (int i = 0; i < count; i++) graph.cycle[static_cast<size_t>(i)] = i;
    const int64_t before = issue_cycles(machine, graph);
    tighten_most(kernel, graph, as_if);
    EXPECT_EQ(packets(graph), count / 2);
    EXPECT_LE(issue_cycles(machine, graph), before + machine.vec.ii);
}

TEST_F(StraightCodeTest, TightenedMostKeepsDependencesAndSlots) {
    constexpr int order = 2, as_if = 12;
    StraightCode code(kernel, chains(20), {}, false);
    ScheduleGraph graph = code.schedule(order).first;
    const int before = packets(graph);
    tighten_most(kernel, graph, as_if);
    expect_in_order(graph, as_if);
    EXPECT_LE(packets(graph), before);
    size_t operations = 0;
    for (const OpGroup &packet : gather(graph)) {
        operations += packet.size();
        EXPECT_LE(static_cast<int64_t>(packet.size()), machine.issue.slots);
    }
    EXPECT_EQ(operations, graph.ops.size());
}

// Rows go through the array into registers of which one is still read by a long chain.
struct LateRows : StraightCodeTest {
    std::vector<Op> rows(bool busy) {
        const Reg weights = vector("w", 1), data = vector("x"), target = vector("sum", 2);
        std::vector<Op> ops;
        if (busy) {
            // Each of these waits for the one before, and the last for the old value of the target.
            Reg chain = vector("chain");
            for (int i = 0; i < 8; i++) {
                const Reg next = vector("chain");
                ops.push_back(op(Opcode::add_vv, next, {chain, chain}));
                chain = next;
            }
            ops.push_back(op(Opcode::add_vv, vector("use"), {chain, target}));
        }
        ops.push_back(op(Opcode::lw_vi, {}, {weights}));
        for (int i = 0; i < 6; i++) ops.push_back(op(Opcode::gemm_vv, i == 0 ? target : vector("sum"), {data, zero_vector}));
        return ops;
    }
    ScheduleGraph scheduled(std::vector<Op> ops) { return StraightCode(kernel, std::move(ops), {}, false).schedule(1).first; }
};

TEST_F(LateRows, KeepTheirRegisterWhereItIsFree) { EXPECT_FALSE(rename_late_rows(kernel, scheduled(rows(false)))); }

TEST_F(LateRows, GetAnotherRegisterAndAMoveWhereItIsInUse) {
    const std::vector<Op> before = rows(true);
    const auto renamed = rename_late_rows(kernel, scheduled(before));
    ASSERT_TRUE(renamed);
    ASSERT_EQ(renamed->size(), before.size() + 1);
    const auto row = std::find_if(renamed->begin(), renamed->end(), [](const Op &op) { return op.opcode == Opcode::gemm_vv; });
    const auto first = std::find_if(before.begin(), before.end(), [](const Op &op) { return op.opcode == Opcode::gemm_vv; });
    const Op &move = *(row + 1);
    EXPECT_NE(row->dst, first->dst);
    EXPECT_EQ(kernel.registers[row->dst.id].bank, kernel.registers[first->dst.id].bank);
    EXPECT_EQ(move.opcode, Opcode::mul_vs);
    EXPECT_EQ(move.dst, first->dst);
    EXPECT_EQ(move.src[0], row->dst);
    EXPECT_EQ(kernel.registers[move.src[1].id].constant, 0x3F800000) << "times 1";
}

}  // namespace
}  // namespace atalla::codegen
