// Which accesses of the pads must keep their order.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/dependence.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct Dependence : Fixture, testing::Test {
    static constexpr int64_t iterations = 8, step = 4;

    // Row `first` of the buffer in the first iteration of the loop, `step` further in each later one.
    Op moving(Op access) {
        access.access->row.terms = {{0, step}};
        return access;
    }
    // Another loop, whose variable is the second atom.
    void second_loop(int64_t turns) {
        kernel.loops.push_back({"j", turns, -1, kernel.scalar("j")});
        Atom j;
        j.loop = 1;
        j.is_loop = true;
        kernel.atoms.push_back(j);
    }
    // It is around the first one.
    void around(int64_t turns) {
        second_loop(turns);
        kernel.loops[0].parent = 1;
    }
    bool ordered(const Op &earlier, const Op &later) const {
        const std::vector<Edge> edges = dependences(kernel, {earlier, later}, 0, false);
        return std::any_of(edges.begin(), edges.end(), [](const Edge &edge) { return edge.from != edge.to; });
    }

    const Reg index = counted_loop(iterations);
    const int buffer = allocation("buffer", 3 * iterations * step);
    Reg x = vector("x");
};

// What takes time between transfers does so behind those in front of it, whatever registers they use.
TEST_F(Dependence, WhatTakesTimeStandsBehindTransfers) {
    const Op start = transfer(0).back();
    Op division = op(Opcode::div_s, kernel.scalar("late"), {zero_scalar, kernel.scalar("one")});
    EXPECT_FALSE(ordered(start, division));
    division.orders = buffer;
    EXPECT_TRUE(ordered(start, division));
}

// Rows at different steps may be any rows of their pad in another iteration, in the loop and in the code in front of it.
TEST_F(Dependence, RowsAtDifferentStepsMayMeet) {
    kernel.atoms.push_back({Halide::Internal::Variable::make(Halide::Int(32), "i") * 3 / 2, "((i*3)/2)", 0, false});
    const auto at_steps = [&](int64_t row, int pad) {
        Op access = store(x, buffer, row);
        access.access->row.terms = {{1, 1}};
        access.pad = pad;
        return access;
    };
    const Op first = at_steps(0, 0), second = at_steps(1, 0);
    EXPECT_FALSE(may_alias(kernel, *first.access, *second.access));
    EXPECT_TRUE(ordered(first, second));
    EXPECT_FALSE(ordered(first, at_steps(iterations, 1)));
    Op later = second;
    later.access->iteration = 1;
    EXPECT_TRUE(may_alias(kernel, *first.access, *later.access));
}

// A loop goes through the rows in front of one, which it reads in every iteration.
TEST_F(Dependence, NoneBetweenRowsThatLieApart) {
    constexpr int64_t last = (iterations - 1) * step;
    const Op passes = moving(store(x, buffer, 0));
    EXPECT_FALSE(may_alias(kernel, *passes.access, *load(x, buffer, last + 1).access));
    EXPECT_FALSE(ordered(passes, load(vector("y"), buffer, last + 1)));
    EXPECT_TRUE(may_alias(kernel, *passes.access, *load(x, buffer, last).access));
    EXPECT_TRUE(ordered(passes, load(vector("y"), buffer, last)));
}

TEST_F(Dependence, RowsThatGoBackEndWhereTheyBegan) {
    Op back = store(x, buffer, 2 * iterations * step);
    back.access->row.terms = {{0, -step}};
    EXPECT_FALSE(ordered(back, load(vector("y"), buffer, 2 * iterations * step + 1)));
    EXPECT_TRUE(ordered(back, load(vector("y"), buffer, iterations * step + step)));
    EXPECT_FALSE(ordered(back, load(vector("y"), buffer, iterations * step + step - 1)));
}

// Rows that other turns of the loop around touch do not count: in each turn one access stays in front of the other.
TEST_F(Dependence, NoneBetweenRowsThatLieApartInEachTurn) {
    const int64_t turns = 5, rows = 64;
    around(turns);
    const auto in_turn = [rows](Op access, int64_t inner) {
        access.access->row.terms = {{1, rows}};
        if (inner != 0) access.access->row.terms[0] = inner;
        return access;
    };
    constexpr int64_t last = (iterations - 1) * step;
    EXPECT_FALSE(ordered(in_turn(store(x, buffer, 0), step), in_turn(load(vector("y"), buffer, last + 1), 0)));
    EXPECT_TRUE(ordered(in_turn(store(x, buffer, 0), step), in_turn(load(vector("y"), buffer, last), 0)));
    EXPECT_TRUE(
        may_alias(kernel, *in_turn(store(x, buffer, 0), step).access, *in_turn(load(vector("y"), buffer, last + 1), 0).access))
        << "in code that other turns may run beside";
}

// A loop whose number of iterations shrinks from turn to turn goes no further than in the first one.
TEST_F(Dependence, LoopsThatVaryEndWhereTheyEnd) {
    second_loop(iterations);
    kernel.loops[1].parent = 0;
    kernel.loops[1].last = kernel.scalar("last");
    kernel.loops[1].last_value = LinearForm{iterations - 1, {{0, -1}}};
    Op shrinking = store(x, buffer, 0);
    shrinking.access->row.terms = {{0, step}, {1, step}};
    constexpr int64_t last = (iterations - 1) * step;
    EXPECT_FALSE(may_alias(kernel, *shrinking.access, *load(x, buffer, last + 1).access));
    EXPECT_TRUE(may_alias(kernel, *shrinking.access, *load(x, buffer, last).access));
}

// Both go on by as many rows: what is between them is never a whole number of such steps.
TEST_F(Dependence, NoneBetweenRowsThatPassEachOther) {
    around(3);
    Op beside = moving(store(vector("y"), buffer, 1));
    beside.access->row.terms[1] = 1;  // rows 1, 2 and 3 of each step
    EXPECT_FALSE(ordered(moving(store(x, buffer, step)), beside));
    beside.access->row.constant = 2;  // rows 2, 3 and the first of the next step
    EXPECT_TRUE(ordered(moving(store(x, buffer, step)), beside));
}

// An expression of loop variables may be anything, and slots that are registers are not told apart.
TEST_F(Dependence, UnknownRowsKeepTheirOrder) {
    kernel.atoms.push_back({});
    Op anywhere = store(x, buffer, 0), elsewhere = moving(store(x, buffer, 0)),
       read = load(vector("y"), buffer, 2 * iterations * step);
    anywhere.access->row.terms = {{1, 1}};
    EXPECT_TRUE(ordered(anywhere, read));
    elsewhere.access->slot = kernel.scalar("slot");
    EXPECT_TRUE(ordered(elsewhere, read));
}

}  // namespace
}  // namespace atalla::codegen
