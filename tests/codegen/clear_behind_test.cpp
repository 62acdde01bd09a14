// Sums that each turn of a loop clears and stores: cleared beside the stores, some of them by loads of zeros.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "codegen/dependence.h"
#include "codegen/passes.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct ClearBehind : Fixture, testing::Test {
    // A loop, in another one, that clears so many sums, adds to them in an inner loop and stores them, one after the other. The
    // inner loop may read them besides.
    void body(int sums, bool in_loop = true, bool read = true) {
        const int out = allocation("out", sums);
        const Reg row = vector("row");
        Loop turns, inner;
        turns.extent = inner.extent = 8;
        for (int i = 0; i < sums; i++) registers.push_back(vector("sum"));
        for (Reg sum : registers) turns.body.push_back(op(Opcode::sub_vv, sum, {zero_vector, zero_vector}));
        for (Reg sum : registers) inner.body.push_back(op(Opcode::gemm_vv, sum, {row, sum}));
        for (Reg sum : registers)
            if (read) inner.body.push_back(op(Opcode::add_vv, vector("other"), {sum, row}));
        turns.body.push_back(std::move(inner));
        for (int i = 0; i < sums; i++) {
            Op store = op(Opcode::vreg_st, Reg{}, {Reg{}, Reg{}, registers[static_cast<size_t>(i)]});
            store.access = PadAccess{out, {i, {}}, {}};
            turns.body.push_back(store);
        }
        if (in_loop) {
            Loop around;
            around.extent = 4;
            around.body.push_back(std::move(turns));
            kernel.body.push_back(std::move(around));
        } else {
            kernel.body.push_back(std::move(turns));
        }
        clear_behind(kernel);
    }
    bool loads_zeros(const Node &node) const { return node.op && node.op->opcode == Opcode::vreg_ld && is_zeros(*node.op); }
    bool is_zeros(const Op &op) const { return kernel.allocations[static_cast<size_t>(op.access->allocation)].zeros; }
    static const Body &inside(const Body &body) {
        return std::ranges::find_if(body, [](const Node &node) { return node.loop != nullptr; })->loop->body;
    }
    const Body &turn() const { return inside(inside(kernel.body)); }

    std::vector<Reg> registers;
};

// As many clears as pairs of stores go beside these; of the others half are loads, of the sums that are stored last.
TEST_F(ClearBehind, ZerosComeFromThePadsWhereStoresLeaveNoRoom) {
    constexpr int sums = 220, loads = 55;
    body(sums);
    std::vector<Reg> loaded;
    int cleared = 0;
    for (const Node &node : turn()) {
        if (loads_zeros(node)) loaded.push_back(node.op->dst);
        if (node.op && makes_constant(kernel, *node.op)) cleared++;
    }
    EXPECT_EQ(cleared, sums);
    ASSERT_EQ(loaded.size(), static_cast<size_t>(loads));
    for (Reg reg : loaded) EXPECT_GE(std::ranges::find(registers, reg) - registers.begin(), sums - loads);
    // The rows that they read, one in each pad, are stored before everything else.
    const int64_t pads = machine.pad.count;
    for (int64_t i = 0; i < pads; i++) {
        ASSERT_TRUE(kernel.body[static_cast<size_t>(i)].op);
        EXPECT_EQ(kernel.body[static_cast<size_t>(i)].op->opcode, Opcode::vreg_st);
        EXPECT_EQ(kernel.body[static_cast<size_t>(i)].op->src[2], zero_vector);
        EXPECT_TRUE(is_zeros(*kernel.body[static_cast<size_t>(i)].op));
    }
}

// Sums that rows of the array alone change are cleared beside these, in the first iteration of the inner loop.
TEST_F(ClearBehind, OthersAreClearedInsideUnderAMaskOfTheFirstIteration) {
    constexpr int sums = 220, inside_loop = 110;
    body(sums, true, false);
    EXPECT_EQ(kernel.allocations.size(), 1u) << "nothing is loaded";
    std::set<Reg> cleared;
    Reg first;
    for (const Node &node : inside(turn())) {
        if (!clears_under_mask(kernel, *node.op)) continue;
        EXPECT_TRUE(!first.defined() || node.op->mask == first);
        first = node.op->mask;
        cleared.insert(node.op->dst);
    }
    EXPECT_EQ(cleared.size(), static_cast<size_t>(inside_loop));
    const auto sets = [&](const Body &body, int32_t lanes) {
        return std::ranges::count_if(body, [&](const Node &node) {
            return node.op && node.op->opcode == Opcode::mv_stm && node.op->dst == first &&
                   (lanes == 0 ? node.op->src[0] == zero_scalar : kernel.registers[node.op->src[0].id].constant == lanes);
        });
    };
    EXPECT_EQ(sets(turn(), -1), 1);
    EXPECT_EQ(sets(inside(turn()), 0), 1);
    for (const Node &node : turn())
        if (node.op && makes_constant(kernel, *node.op)) {
            EXPECT_TRUE(cleared.insert(node.op->dst).second) << "once";
        }
    EXPECT_EQ(cleared.size(), static_cast<size_t>(sums));
}

// Their code stays in the instruction cache.
TEST_F(ClearBehind, FewerSumsAreClearedByTheLanes) {
    body(160);
    EXPECT_EQ(kernel.allocations.size(), 1u);
}

TEST_F(ClearBehind, ALoneLoopIsClearedByTheLanes) {
    body(220, false);
    EXPECT_EQ(kernel.allocations.size(), 1u);
}

// Without times there is nothing to gain.
TEST_F(ClearBehind, LoadsNothingOnAMachineWithoutTimes) {
    Fixture functional("fsim");
    kernel.machine = &functional.machine;
    body(220);
    EXPECT_EQ(kernel.allocations.size(), 1u);
}

}  // namespace
}  // namespace atalla::codegen
