// Rows of an unrolled loop that are alike: that they are found, follow each other at one distance and have pointers for early
// and late uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "codegen/chains.h"
#include "codegen/modulo.h"
#include "codegen/resources.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

// exp(row - constant) times a factor, twelve rows an iteration.
struct AlikeChains : Fixture, testing::Test {
    static constexpr int rows = 12, bytes = 64;
    static constexpr int64_t iterations = 20;

    AlikeChains() {
        index = counted_loop(iterations);
        in = allocation("in", rows * iterations);
        out = allocation("out", rows * iterations);
        from = kernel.scalar("from");
        to = kernel.scalar("to");
        subtrahend = vector("subtrahend");
        factor = kernel.scalar("factor");
        for (int row = 0; row < rows; row++) add_row(row);
        ops.push_back(step(from));
        ops.push_back(step(to));
    }

    void add_row(int row) {
        const Reg x = vector("x"), difference = vector("difference"), e = vector("e"), y = vector("y");
        for (const Op &next :
             {moving(load(x, in, row), from), op(Opcode::sub_vv, difference, {x, subtrahend}),
              op(Opcode::expi_vi, e, {difference}), op(Opcode::mul_vs, y, {e, factor}), moving(store(y, out, row), to)})
            ops.push_back(next);
    }
    Op moving(Op access, Reg pointer) {
        access.access->row.terms = {{0, rows}};
        access.src[0] = pointer;
        access.src[1] = kernel.constant(static_cast<int32_t>(access.access->row.constant) * bytes);
        return access;
    }
    static Op step(Reg pointer) {
        Op next = op(Opcode::addi_s, pointer, {pointer});
        next.imm = rows * bytes;
        return next;
    }

    Reg index, from, to, subtrahend, factor;
    int in = 0, out = 0;
    std::vector<Op> ops;
};

struct SpacedChains : AlikeChains, testing::WithParamInterface<RowLoads> {};

TEST_F(AlikeChains, AreFound) {
    const Chains chains = find_chains(kernel, ScheduleGraph(kernel, ops, 0), true);
    ASSERT_EQ(chains.alike.size(), static_cast<size_t>(rows));
    EXPECT_EQ(chains.alike[1].size(), 5u);
    EXPECT_EQ(chains.in_turn.size(), static_cast<size_t>(rows) + 1) << "and the pointers";
    ops[2].opcode = Opcode::add_vv;
    ops[2].src[1] = subtrahend;
    EXPECT_TRUE(find_chains(kernel, ScheduleGraph(kernel, ops, 0), true).alike.empty()) << "one row does something else";
}

TEST_F(AlikeChains, OneRowIsAlikeItself) {
    ops.clear();
    add_row(0);
    ops.push_back(step(from));
    const Chains chains = find_chains(kernel, ScheduleGraph(kernel, ops, 0), true);
    ASSERT_EQ(chains.alike.size(), 1u);
    EXPECT_EQ(chains.alike[0].size(), 5u);
}

TEST_P(SpacedChains, FollowEachOtherAtOneDistance) {
    const std::optional<AlikeRows> alike = alike_rows(kernel, ops, 0, GetParam());
    ASSERT_TRUE(alike);
    EXPECT_TRUE(alike->in_front.empty()) << "each pointer is used by one operation of a row";
    ScheduleGraph graph(kernel, alike->loop, 0);
    const std::optional<ModuloSchedule> schedule =
        evenly_spaced_schedule(kernel, graph, kernel.loops[0], {}, OverlapIterations::Long, GetParam());
    ASSERT_TRUE(schedule);
    EXPECT_GE(schedule->interval, resource_bound(kernel, ops));
    EXPECT_LE(schedule->interval, resource_bound(kernel, ops) + rows) << "at most one cycle a row more than a lane unit needs";
    const int distance = schedule->interval / rows;
    const std::vector<std::vector<int>> chains = find_chains(kernel, ScheduleGraph(kernel, ops, 0), true).alike;
    for (int row = 1; row < rows; row++)
        for (size_t i = 0; i < chains[0].size(); i++)
            EXPECT_EQ(graph.cycle[chains[static_cast<size_t>(row)][i]],
                      (graph.cycle[chains[0][i]] + row * distance) % schedule->interval)
                << fmt::format("operation {} of row {}", i, row);
}

INSTANTIATE_TEST_SUITE_P(Loads, SpacedChains, testing::Values(RowLoads::Shared, RowLoads::Own));

// A single row whose result waits for a sum of all its vectors, which the scalar unit adds one to the other, while the vectors
// wait in the pads: its iterations follow each other as closely as the multiplier allows.
TEST_F(AlikeChains, ALongRowThatWaitsForItsSumInThePadsKeepsTheMultiplierBusy) {
    constexpr int vectors = 24;
    ops.clear();
    const int steps = allocation("steps", vectors * iterations);
    const Reg through = kernel.scalar("through");
    const auto at = [&](Op access, Reg pointer) {
        access = moving(access, pointer);
        access.access->row.terms = {{0, vectors}};
        access.pad = static_cast<int>(access.access->row.constant) % static_cast<int>(machine.pad.count);
        return access;
    };
    Reg sum = zero_scalar;
    for (int v = 0; v < vectors; v++) {
        const Reg x = vector("x"), square = vector("square"), lane = kernel.scalar("lane"), next = kernel.scalar("sum");
        for (const Op &one :
             {at(load(x, in, v), from), op(Opcode::mul_vv, square, {x, subtrahend}), at(store(square, steps, v), through),
              op(Opcode::vmov_vts, lane, {square}), op(Opcode::add_bf, next, {sum, lane})})
            ops.push_back(one);
        sum = next;
    }
    for (int v = 0; v < vectors; v++) {
        const Reg x = vector("x"), scaled = vector("scaled"), y = vector("y");
        for (const Op &one : {at(load(x, steps, v), through), op(Opcode::mul_vs, scaled, {x, sum}),
                              op(Opcode::mul_vv, y, {scaled, subtrahend}), at(store(y, out, v), to)})
            ops.push_back(one);
    }
    for (const Reg pointer : {from, through, to}) ops.push_back(step(pointer));
    const std::optional<AlikeRows> row = alike_rows(kernel, ops, 0, RowLoads::Own);
    ASSERT_TRUE(row);
    ScheduleGraph graph(kernel, row->loop, 0);
    const std::optional<ModuloSchedule> schedule =
        evenly_spaced_schedule(kernel, graph, kernel.loops[0], {}, OverlapIterations::Long, RowLoads::Own);
    ASSERT_TRUE(schedule);
    EXPECT_EQ(schedule->interval, resource_bound(kernel, ops));
}

TEST_F(AlikeChains, LoadWhatTheyShareEach) {
    // A vector that all rows are multiplied by, loaded in front of them.
    const Reg weight = vector("weight");
    const int weights = allocation("weights", 1);
    for (int row = 0; row < rows; row++) {
        Op &product = ops[static_cast<size_t>(5 * row + 3)];
        product.opcode = Opcode::mul_vv;
        product.src[1] = weight;
    }
    ops.insert(ops.begin(), load(weight, weights, 0));
    EXPECT_EQ(find_chains(kernel, ScheduleGraph(kernel, ops, 0), true).alike.size(), 1u) << "one load connects them all";
    const std::optional<AlikeRows> alike = alike_rows(kernel, ops, 0, RowLoads::Own);
    ASSERT_TRUE(alike);
    EXPECT_EQ(alike->loop.size(), ops.size() + rows - 1);
    const std::vector<std::vector<int>> chains = find_chains(kernel, ScheduleGraph(kernel, alike->loop, 0), true).alike;
    ASSERT_EQ(chains.size(), static_cast<size_t>(rows));
    std::set<Reg> own;
    for (const std::vector<int> &chain : chains)
        for (int i : chain)
            if (const Op &one = alike->loop[static_cast<size_t>(i)]; one.access && one.access->allocation == weights)
                own.insert(one.dst);
    EXPECT_EQ(own.size(), static_cast<size_t>(rows)) << "a register each";

    ops.push_back(store(weight, weights, 0));
    const std::optional<AlikeRows> changed = alike_rows(kernel, ops, 0, RowLoads::Own);
    ASSERT_TRUE(changed);
    EXPECT_EQ(changed->loop.size(), ops.size()) << "what the loop changes has to be loaded where it was";
}

TEST_F(AlikeChains, HaveAPointerForLateUses) {
    // Each row once more where it is multiplied.
    std::vector<Op> again;
    for (int row = 0; row < rows; row++) {
        const auto first = ops.begin() + 5 * row;
        const Reg x = vector("again"), product = vector("product");
        again.insert(again.end(), first, first + 3);
        again.push_back(moving(load(x, in, row), from));
        again.push_back(op(Opcode::mul_vv, product, {first[2].dst, x}));
        again.push_back(moving(store(product, out, row), to));
    }
    again.insert(again.end(), ops.end() - 2, ops.end());
    const std::optional<AlikeRows> alike = alike_rows(kernel, again, 0, RowLoads::Shared);
    ASSERT_TRUE(alike);
    ASSERT_EQ(alike->in_front.size(), 1u);
    const Reg late = alike->in_front[0].dst;
    EXPECT_EQ(alike->in_front[0].src[0], from);
    EXPECT_EQ(alike->loop[0].src[0], from);
    EXPECT_EQ(alike->loop[3].src[0], late);
    const auto steps = std::count_if(alike->loop.begin(), alike->loop.end(),
                                     [&](const Op &one) { return one.dst == late && one.imm == rows * bytes; });
    EXPECT_EQ(steps, 1) << "it steps as the other one does";

    // Uses of what comes next stay: a pointer that steps behind all of them would be one step late.
    const auto in_last_row = again.end() - 5;
    ASSERT_EQ(in_last_row->src[0], from);
    again.insert(in_last_row, step(from));
    again.erase(std::find_if(again.end() - 2, again.end(), [&](const Op &one) { return one.dst == from; }));
    const std::optional<AlikeRows> stepped = alike_rows(kernel, again, 0, RowLoads::Shared);
    EXPECT_TRUE(!stepped || stepped->in_front.empty());
}

TEST_F(AlikeChains, HaveAPointerForLateUsesOfAnyRow) {
    // Odd rows are early where even ones are late, as rows in other pads are: each pointer has early and late uses, none in one
    // row.
    const Reg other = kernel.scalar("other");
    std::vector<Op> again;
    for (int row = 0; row < rows; row++) {
        const auto first = ops.begin() + 5 * row;
        const Reg x = vector("again"), product = vector("product");
        again.insert(again.end(), first, first + 3);
        again[again.size() - 3].src[0] = row % 2 == 0 ? from : other;
        again.push_back(moving(load(x, in, row), row % 2 == 0 ? other : from));
        again.push_back(op(Opcode::mul_vv, product, {first[2].dst, x}));
        again.push_back(moving(store(product, out, row), to));
    }
    again.insert(again.end(), ops.end() - 2, ops.end());
    again.push_back(step(other));
    const std::optional<AlikeRows> alike = alike_rows(kernel, again, 0, RowLoads::Shared);
    ASSERT_TRUE(alike);
    ASSERT_EQ(alike->in_front.size(), 2u);
    std::set<Reg> early, late;
    for (int row = 0; row < rows; row++) {
        early.insert(alike->loop[static_cast<size_t>(6 * row)].src[0]);
        late.insert(alike->loop[static_cast<size_t>(6 * row + 3)].src[0]);
    }
    EXPECT_EQ(early, (std::set<Reg>{from, other}));
    EXPECT_EQ(late, (std::set<Reg>{alike->in_front[0].dst, alike->in_front[1].dst}));
}

}  // namespace
}  // namespace atalla::codegen
