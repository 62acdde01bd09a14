// Code that takes what it loads for numbers, with what finds NaN, and as it was behind it.
#include "codegen/second_look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "isa/error.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

using testing::HasSubstr;

// y[i] = max(x[i], 1) in a loop of 8, inside of one over tiles.
struct SecondLook : Fixture, testing::Test {
    SecondLook() {
        for (const char *name : {"tile", "i"}) {
            kernel.loops.push_back({name, 8, static_cast<int>(kernel.loops.size()) - 1, kernel.scalar(name)});
            kernel.atoms.push_back({Halide::Internal::Variable::make(Halide::Int(32), name), name,
                                    static_cast<int>(kernel.loops.size()) - 1, true});
        }
        x = allocation("x", 8);
        y = allocation("y", 8);
        inner.id = 1;
        inner.extent = 8;
    }

    void add_row(int to) {
        const Reg element = vector("element"), larger = vector("larger"), kept = vector("kept"), one = vector("one");
        const Reg number = mask("number"), less = mask("less");
        Op loaded = load(element, x, 0), stored = store(kept, to, 0);
        loaded.access->row.terms[1] = stored.access->row.terms[1] = 1;
        inner.body.push_back(loaded);
        inner.body.push_back(op(Opcode::meq_mvv, number, {element, element}));
        inner.body.push_back(op(Opcode::mgt_mvv, less, {one, element}));
        inner.body.push_back(op(Opcode::sub_vv, larger, {element, zero_vector}));
        inner.body.push_back(masked(Opcode::sub_vv, larger, {one, zero_vector}, less));
        inner.body.push_back(op(Opcode::sub_vv, kept, {element, zero_vector}));
        inner.body.push_back(masked(Opcode::sub_vv, kept, {larger, zero_vector}, number));
        inner.body.push_back(stored);
    }
    const Body &run(const std::string &tiles) {
        Loop outer;
        outer.id = 0;
        outer.extent = 8;
        outer.name = tiles;
        outer.body.push_back(std::move(inner));
        kernel.body.push_back(std::move(outer));
        look_again(kernel);
        return kernel.body[0].loop->body;
    }
    static int64_t count(const Body &body, Opcode opcode) {
        return std::ranges::count_if(body, [&](const Node &node) { return node.op && node.op->opcode == opcode; });
    }
    std::string refusal() {
        try {
            run("Y.tile_unchecked");
        } catch (const Error &error) {
            return error.what();
        }
        return "";
    }

    int x = 0, y = 0;
    Loop inner;
};

TEST_F(SecondLook, LeavesOutWhatTellsNanFromNumbers) {
    add_row(y);
    const Body &tile = run("Y.tile_unchecked");
    const auto first = std::ranges::find_if(tile, [](const Node &node) { return node.loop != nullptr; });
    ASSERT_NE(first, tile.end());
    const Body &fast = first->loop->body;
    EXPECT_EQ(count(fast, Opcode::meq_mvv), 0);
    EXPECT_EQ(count(fast, Opcode::mgt_mvv), 1);
    EXPECT_EQ(count(fast, Opcode::sub_vv), 2) << "copies of what does not change any more are gone";
    EXPECT_EQ(count(fast, Opcode::expi_vi), 1);
    EXPECT_EQ(count(fast, Opcode::lw_vi), 32);
    EXPECT_EQ(count(fast, Opcode::gemm_vv), 1);
}

// Rows of all pads have time to come twice, where exponentials would take longer than what is done with them.
TEST_F(SecondLook, TheArrayHasVectorsOfItsOwnWhereExponentialsTakeLonger) {
    add_row(y);
    for (int row = 0; row < 4; row++) inner.body.push_back(load(vector("other"), x, row));
    for (Node &node : inner.body)
        if (node.op->opcode == Opcode::vreg_ld) node.op->access->row.terms[1] = kernel.machine->pad.count;
    const Body &tile = run("Y.tile_unchecked");
    const Body &fast = std::ranges::find_if(tile, [](const Node &node) { return node.loop != nullptr; })->loop->body;
    EXPECT_EQ(count(fast, Opcode::expi_vi), 0);
    EXPECT_EQ(count(fast, Opcode::vreg_ld), 10);
    EXPECT_EQ(count(fast, Opcode::lw_vi), 32);
}

TEST_F(SecondLook, ExponentialsSpareASinglePad) {
    add_row(y);
    for (int row = 0; row < 4; row++) inner.body.push_back(load(vector("other"), x, row));
    for (Node &node : inner.body)
        if (node.op->opcode == Opcode::vreg_ld) node.op->access->row.terms[1] = 1;
    const Body &tile = run("Y.tile_unchecked");
    const Body &fast = std::ranges::find_if(tile, [](const Node &node) { return node.loop != nullptr; })->loop->body;
    EXPECT_EQ(count(fast, Opcode::expi_vi), 5);
    EXPECT_EQ(count(fast, Opcode::vreg_ld), 5);
}

TEST_F(SecondLook, RunsAsItWasWhereThereIsNan) {
    add_row(y);
    const Body &tile = run("Y.tile_unchecked");
    ASSERT_TRUE(tile.back().branch);
    EXPECT_TRUE(tile.back().branch->rare);
    const Body &again = tile.back().branch->body;
    ASSERT_EQ(again.size(), 1u);
    ASSERT_TRUE(again[0].loop);
    const Body &slow = again[0].loop->body;
    ASSERT_EQ(slow.size(), 8u);
    EXPECT_EQ(count(slow, Opcode::meq_mvv), 1);
    EXPECT_NE(again[0].loop->id, 1) << "loops are its own";
    const int atom = slow[0].op->access->row.terms.begin()->first;
    EXPECT_EQ(kernel.atoms[static_cast<size_t>(atom)].loop, again[0].loop->id);
}

// Rows that go on at different steps do so with the loop that makes them.
TEST_F(SecondLook, RowsAtDifferentStepsAreThoseOfTheLoopsOfTheirOwn) {
    const Halide::Expr quotient = Halide::Internal::Variable::make(Halide::Int(32), "i") / 2;
    kernel.atoms.push_back({quotient, "i/2", 1, false});
    const int uneven = static_cast<int>(kernel.atoms.size()) - 1;
    add_row(y);
    for (Node &node : inner.body)
        if (node.op->access) node.op->access->row.terms[uneven] = 4;
    const Body &again = run("Y.tile_unchecked").back().branch->body;
    ASSERT_TRUE(again[0].loop);
    const int loop = again[0].loop->id;
    std::vector<std::string> names;
    for (const auto &[atom, rows] : again[0].loop->body[0].op->access->row.terms) {
        const Atom &own = kernel.atoms[static_cast<size_t>(atom)];
        EXPECT_EQ(own.loop, loop);
        EXPECT_TRUE(Halide::Internal::expr_uses_var(own.expr, kernel.loops[static_cast<size_t>(loop)].name)) << own.expr;
        names.push_back(own.text);
    }
    EXPECT_EQ(names.size(), 2u);
}

TEST_F(SecondLook, OnlyWhereTheScheduleAsksForIt) {
    add_row(y);
    const Body &tile = run("Y.tile");
    ASSERT_EQ(tile.size(), 1u);
    EXPECT_EQ(tile[0].loop->body.size(), 8u);
}

TEST_F(SecondLook, RefusesWhatCannotRunTwice) {
    add_row(x);
    EXPECT_THAT(refusal(), HasSubstr("loop 'Y.tile_unchecked' cannot run unchecked: it loads 'x', which it stores to"));
}

TEST_F(SecondLook, RefusesCarriedValues) {
    add_row(y);
    const Reg sum = vector("sum");
    inner.body.push_back(op(Opcode::add_vv, sum, {sum, zero_vector}));
    EXPECT_THAT(refusal(), HasSubstr("it changes a value that it begins with"));
}

TEST_F(SecondLook, RefusesTheArray) {
    add_row(y);
    inner.body.push_back(op(Opcode::gemm_vv, vector("product"), {vector("row")}));
    EXPECT_THAT(refusal(), HasSubstr("it uses the array"));
}

TEST_F(SecondLook, VectorsThatAreMoreThanWeightsAreSeveralTiles) {
    for (int row = 0; row < 40; row++) add_row(y);
    const Body &tile = run("Y.tile_unchecked");
    const Body &fast = std::ranges::find_if(tile, [](const Node &node) { return node.loop != nullptr; })->loop->body;
    EXPECT_EQ(count(fast, Opcode::lw_vi), 64);
    EXPECT_EQ(count(fast, Opcode::gemm_vv), 2);
}

}  // namespace
}  // namespace atalla::codegen
