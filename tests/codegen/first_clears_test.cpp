// Sums that the first iteration of a loop clears, beside rows of the array.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/first_clears.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct FirstClears : Fixture, testing::Test {
    static constexpr int rows = 100, cleared = 20, interval = 160, first_row = 33;

    FirstClears() : Fixture("ax01-psum"), first(mask("first")) {
        counted_loop(8);
        std::vector<Reg> sums;
        for (int i = 0; i < rows; i++) sums.push_back(vector("sum", i % 3));
        for (int i = 0; i < cleared; i++)
            ops.push_back(masked(i % 2 == 0 ? Opcode::mul_vv : Opcode::sub_vv, sums[static_cast<size_t>(20 + 4 * i)],
                                 {zero_vector, zero_vector}, first));
        ops.push_back(op(Opcode::lw_vi, {}, {vector("weights", 3)}));
        const Reg row = vector("row", 3);
        for (Reg sum : sums) ops.push_back(op(Opcode::gemm_vv, sum, {row, sum}));
        ops.push_back(op(Opcode::mv_stm, first, {zero_scalar}));
        ops.push_back(op(Opcode::addi_s, kernel.scalar("behind"), {zero_scalar}));
    }
    // The weights, and behind them a row a cycle.
    ScheduleGraph scheduled() const {
        ScheduleGraph graph(kernel, without_first_clears(kernel, ops), 0);
        for (size_t i = 0; i < graph.ops.size(); i++) graph.cycle[i] = first_row - 1 + static_cast<int>(i);
        return graph;
    }

    Reg first;
    std::vector<Op> ops;
};

TEST_F(FirstClears, AreLeftOutWithWhatEmptiesTheirMask) {
    const std::vector<Op> rest = without_first_clears(kernel, ops);
    EXPECT_EQ(rest.size(), ops.size() - cleared - 1);
    EXPECT_TRUE(std::ranges::none_of(rest, [&](const Op &op) { return op.mask == first || op.dst == first; }));
    // Lanes of what no row of the array adds to, and those of a mask that stays.
    ops[0].dst = vector("other");
    ops[1].mask = mask("stays");
    EXPECT_EQ(without_first_clears(kernel, ops).size(), ops.size() - cleared + 1);
}

TEST_F(FirstClears, GoIntoPacketsInFrontOfTheirRowsOneToEach) {
    const ScheduleGraph before = scheduled();
    const std::optional<ScheduleGraph> graph = with_first_clears(kernel, before, ops, 0, interval);
    ASSERT_TRUE(graph);
    const std::set<int> packets(before.cycle.begin(), before.cycle.end());
    std::map<Reg, int> rows_of;
    for (size_t i = 0; i < ops.size(); i++)
        if (ops[i].opcode == Opcode::gemm_vv) rows_of[ops[i].dst] = graph->cycle[i];
    std::set<int> used;
    int last = 0;
    for (size_t i = 0; i < cleared; i++) {
        EXPECT_TRUE(packets.contains(graph->cycle[i]));
        EXPECT_TRUE(used.insert(graph->cycle[i]).second) << "two that read one mask";
        EXPECT_LE(graph->cycle[i] + result_latency(machine, ops[i].opcode), rows_of.at(ops[i].dst));
        last = std::max(last, graph->cycle[i]);
    }
    const auto empties = std::ranges::find(ops, Opcode::mv_stm, &Op::opcode);
    EXPECT_GT(graph->cycle[static_cast<size_t>(empties - ops.begin())], last);
}

TEST_F(FirstClears, FindNoRoomInFrontOfTheFirstRows) {
    ops[0].dst = ops[cleared + 1].dst;  // in the second packet
    EXPECT_FALSE(with_first_clears(kernel, scheduled(), ops, 0, interval));
}

}  // namespace
}  // namespace atalla::codegen
