// Passes of an iteration that become one loop, each on the rows of another iteration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "codegen/dependence.h"
#include "codegen/skew.h"
#include "tests/codegen/operations.h"
#include "tests/support/error_of.h"

namespace atalla::codegen {
namespace {

using testing::HasSubstr;

// Of each of 8 rows of 4 vectors, the first pass adds up the vectors and stores what it makes of them; the second one scales
// that by the sum.
struct Skew : Fixture, testing::Test {
    static constexpr int64_t rows = 8, vectors = 4;

    Skew() {
        m = loop_variable("m_skewed", rows, -1);
        first = loop_variable("first", vectors, 0);
        second = loop_variable("second", vectors, 0);
    }
    std::vector<Op> first_pass() {
        return {at(load(x, in, 0), {{m, vectors}, {first, 1}}), op(Opcode::add_vv, sum, {sum, x}),
                op(Opcode::mul_vv, made, {x, x}), at(store(made, between, 0), {{first, 1}})};
    }
    std::vector<Op> second_pass() {
        return {at(load(again, between, 0), {{second, 1}}), op(Opcode::mul_vs, result, {again, scale}),
                at(store(result, out, 0), {{m, vectors}, {second, 1}})};
    }
    void build(std::vector<Op> one, std::vector<Op> other) {
        Loop around = loop(m, {op(Opcode::mul_vv, sum, {zero_vector, zero_vector})});
        around.body.push_back(loop(first, std::move(one)));
        around.body.push_back(op(Opcode::vmov_vts, scale, {sum}));
        around.body.push_back(loop(second, std::move(other)));
        kernel.body.push_back(std::move(around));
        Copy result;
        result.load = false;
        result.allocation = out;
        kernel.body.push_back(std::move(result));
    }
    const Body &body() const { return kernel.body.front().loop->body; }
    const Body &passes() const { return body().back().loop->body; }
    const Op &pass(Opcode opcode, int allocation) const {
        for (const Node &node : passes())
            if (node.op->opcode == opcode && node.op->access && node.op->access->allocation == allocation) return *node.op;
        throw std::runtime_error("no such access");
    }
    std::string text(const PadAccess &access) const { return to_string(kernel, access.row); }

    int m = -1, first = -1, second = -1;
    int in = allocation("in", rows *vectors), between = allocation("between", vectors), out = allocation("out", rows *vectors);
    Reg x = vector("x"), sum = vector("sum"), made = vector("made"), again = vector("again"), result = vector("result"),
        scale = kernel.scalar("scale");
};

TEST_F(Skew, PassesBecomeOneLoopOnRowsOfSeveralIterations) {
    build(first_pass(), second_pass());
    skew(kernel, {});
    // The scale is made an iteration behind the sum and read another one behind.
    EXPECT_EQ(kernel.body.front().loop->extent, rows + 2);
    EXPECT_EQ(kernel.loops[static_cast<size_t>(m)].extent, rows + 2);
    EXPECT_EQ(std::count_if(body().begin(), body().end(), [](const Node &node) { return node.loop != nullptr; }), 1);
    EXPECT_EQ(body().back().loop->extent, vectors);
    EXPECT_EQ(passes().size(), 7u);
    // The first pass stays with the last row at the end, min(m, 7); the last pass begins with the first one, max(m - 2, 0).
    EXPECT_EQ(text(*pass(Opcode::vreg_ld, in).access), "28 + 1*first + 4*min(m_skewed + -7, 0)");
    EXPECT_EQ(text(*pass(Opcode::vreg_st, out).access), "-8 + 4*m_skewed + 1*first + -4*min(m_skewed + -2, 0)");
}

TEST_F(Skew, RowsBetweenPassesHaveSlotsThatRotate) {
    build(first_pass(), second_pass());
    skew(kernel, {});
    ASSERT_EQ(kernel.rotations.size(), 1u);
    const Rotation &rotation = kernel.rotations.front();
    EXPECT_EQ(rotation.allocation, between);
    EXPECT_EQ(rotation.slots.size(), 4u);  // filled, one iteration old, read, and one that is neither
    EXPECT_EQ(kernel.allocations[static_cast<size_t>(between)].rows, 4 * vectors);
    const PadAccess &stored = *pass(Opcode::vreg_st, between).access, &loaded = *pass(Opcode::vreg_ld, between).access;
    EXPECT_EQ(stored.slot, rotation.slots[0]);
    EXPECT_EQ(loaded.slot, rotation.slots[2]);
    EXPECT_EQ(stored.row, loaded.row);
    EXPECT_FALSE(may_alias(kernel, stored, loaded));
}

TEST_F(Skew, ValuesOfStraightCodeWaitAnIteration) {
    build(first_pass(), second_pass());
    skew(kernel, {});
    // The scale of the iteration before is moved in front of all else; the sum is read before it starts anew.
    const Op &move = *body().front().op;
    EXPECT_EQ(move.src[0], scale);
    const auto reader =
        std::find_if(passes().begin(), passes().end(), [](const Node &node) { return node.op->opcode == Opcode::mul_vs; });
    EXPECT_EQ(reader->op->src[1], move.dst);
    std::vector<Opcode> straight;
    for (const Node &node : body())
        if (node.op && node.op->opcode != Opcode::or_s) straight.push_back(node.op->opcode);
    EXPECT_EQ(straight, (std::vector<Opcode>{Opcode::vmov_vts, Opcode::mul_vv}));
}

TEST_F(Skew, LaterPassesFindRowsOfAnInputWhereTheFirstPutThem) {
    std::vector<Op> later = second_pass();
    later[0] = at(load(again, in, 0), {{m, vectors}, {second, 1}});
    build(first_pass(), later);
    skew(kernel, {});
    const int kept = static_cast<int>(kernel.allocations.size()) - 1;
    EXPECT_EQ(kernel.allocations.back().name, "in_kept");
    EXPECT_EQ(pass(Opcode::vreg_st, kept).src[2], x);
    EXPECT_EQ(pass(Opcode::vreg_ld, kept).access->turn, 2);
}

TEST_F(Skew, PassesOfTheSameRowsShareTheirRegisters) {
    std::vector<Op> later = second_pass();
    later[1] = op(Opcode::mul_vv, result, {again, again});  // needs no sum
    build(first_pass(), later);
    skew(kernel, {});
    // What is stored between them is neither stored nor loaded.
    for (const Node &node : passes()) EXPECT_FALSE(node.op->access && node.op->access->allocation == between);
}

// A vector that the first pass makes is a weight of the array for the second one, whose row sums it.
TEST_F(Skew, PassesMayLoadWeights) {
    build(first_pass(),
          {at(load(again, between, 0), {{second, 1}}), op(Opcode::lw_vi, Reg{}, {again}),
           op(Opcode::gemm_vv, result, {zero_vector, zero_vector}), at(store(result, out, 0), {{m, vectors}, {second, 1}})});
    skew(kernel, {});
    std::vector<Opcode> of_array;
    for (const Node &node : passes())
        if (info(node.op->opcode).unit == Unit::Array) of_array.push_back(node.op->opcode);
    EXPECT_EQ(of_array, (std::vector<Opcode>{Opcode::lw_vi, Opcode::gemm_vv}));
    const auto weight = std::ranges::find_if(passes(), [](const Node &node) { return node.op->opcode == Opcode::lw_vi; });
    EXPECT_EQ(weight->op->src[0], made) << "in the register that the first pass made it in";
}

TEST_F(Skew, LeavesOtherLoopsAlone) {
    build(first_pass(), second_pass());
    kernel.body.front().loop->name = "f.m";
    skew(kernel, {});
    EXPECT_EQ(kernel.body.front().loop->extent, rows);
    EXPECT_TRUE(kernel.rotations.empty());
}

TEST_F(Skew, RefusesPassesThatDoNotRunAlike) {
    kernel.loops[static_cast<size_t>(second)].extent = 2;
    build(first_pass(), second_pass());
    EXPECT_THAT(error_of([&] { skew(kernel, {}); }),
                HasSubstr("the loops inside of 'f.m_skewed' do not become one: 'f.first' runs 4 times and 'f.second' 2 times"));
}

// Weights, say.
TEST_F(Skew, TheLastPassFindsRowsThatStayInThePads) {
    std::vector<Op> later = second_pass();
    later[0] = at(load(again, in, 1), {{m, vectors}, {second, 1}});
    build(first_pass(), later);
    skew(kernel, {});
    std::vector<std::string> loaded;
    for (const Node &node : passes())
        if (node.op->opcode == Opcode::vreg_ld) loaded.push_back(text(*node.op->access));
    EXPECT_THAT(loaded, testing::Contains("-7 + 4*m_skewed + 1*first + -4*min(m_skewed + -2, 0)"));
}

// Of every two vectors one weight, whose number is the same part of the first loop's variable.
TEST_F(Skew, WhatIsDividedOfALaterLoopIsDividedOfTheFirst) {
    using namespace Halide::Internal;
    const auto half = [&](int loop) {
        const Halide::Expr expr = Div::make(kernel.atoms[static_cast<size_t>(loop)].expr, IntImm::make(Halide::Int(32), 2));
        std::ostringstream text;
        text << expr;
        kernel.atoms.push_back({expr, text.str(), loop, false, {}});
        return static_cast<int>(kernel.atoms.size()) - 1;
    };
    const int weights = allocation("weights", 2);
    std::vector<Op> later = second_pass();
    later.insert(later.begin(), at(load(vector("weight"), weights, 0), {{half(second), 1}}));
    build(first_pass(), later);
    skew(kernel, {});
    EXPECT_EQ(text(*pass(Opcode::vreg_ld, weights).access), "0 + 1*(first/2)");
}

TEST_F(Skew, RefusesRowsThatAreNotLinearInTheFirstLoop) {
    using namespace Halide::Internal;
    const Halide::Expr half = Div::make(kernel.atoms[static_cast<size_t>(first)].expr, IntImm::make(Halide::Int(32), 2));
    kernel.atoms.push_back({half, "(first/2)", first, false, {}});
    std::vector<Op> curved = first_pass();
    curved[0].access->row.terms = {{m, vectors}, {static_cast<int>(kernel.atoms.size()) - 1, 1}};
    build(curved, second_pass());
    EXPECT_THAT(error_of([&] { skew(kernel, {}); }), HasSubstr("'(first/2)' is not linear in 'f.first'"));
}

TEST_F(Skew, RotatingRowsAreWholeBlocksOfTheirLayout) {
    build(first_pass(), second_pass());
    skew(kernel, {{"between", {4, 3, false}}});
    EXPECT_EQ(kernel.rotations.front().rows, 12);
}

TEST_F(Skew, RefusesRowsThatTheFirstPassDoesNotRead) {
    std::vector<Op> later = second_pass();
    later[0] = at(load(again, in, 1), {{m, vectors}, {second, 1}});
    build(first_pass(), later);
    Copy rows_of_turn;
    rows_of_turn.allocation = in;
    kernel.body.front().loop->body.insert(kernel.body.front().loop->body.begin(), Node(std::move(rows_of_turn)));
    EXPECT_THAT(error_of([&] { skew(kernel, {}); }), HasSubstr("a later one reads rows of 'in' that the first does not"));
}

}  // namespace
}  // namespace atalla::codegen
