// Rows that are read early and late in an iteration: loaded again, unless something changes them.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/dependence.h"
#include "codegen/passes.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct Reload : Fixture, testing::Test {
    // A loop that reads a row at once, and again behind a chain of so many products. `between`: what runs before the second
    // read.
    void body(int chain, const std::vector<Op> &between = {}) {
        Loop loop;
        loop.extent = 16;
        Reg value = vector("value");
        loop.body.push_back(load(x, in, 0));
        loop.body.push_back(op(Opcode::add_vs, value, {x, zero_scalar}));
        for (int i = 0; i < chain; i++) {
            const Reg next = vector("value");
            loop.body.push_back(op(Opcode::mul_vv, next, {value, value}));
            value = next;
        }
        for (const Op &op : between) loop.body.push_back(op);
        loop.body.push_back(op(Opcode::add_vv, vector("result"), {value, x}));
        kernel.body.push_back(std::move(loop));
    }
    // The registers that the row is loaded to.
    std::vector<Reg> loaded() const {
        std::vector<Reg> to;
        for (const Node &node : kernel.body.back().loop->body)
            if (node.op->opcode == Opcode::vreg_ld) to.push_back(node.op->dst);
        return to;
    }
    Reg late_read() const { return kernel.body.back().loop->body.back().op->src[1]; }

    Reg x = vector("x");
    int in = allocation("in", 4);
};

TEST_F(Reload, LoadsAgainForAReaderFarBehind) {
    body(8);
    reload(kernel);
    ASSERT_EQ(loaded().size(), 2u);
    EXPECT_NE(loaded()[0], loaded()[1]);
    EXPECT_NE(late_read(), x);
}

TEST_F(Reload, KeepsWhatIsReadSoon) {
    body(0);
    reload(kernel);
    EXPECT_EQ(loaded().size(), 1u);
    EXPECT_EQ(late_read(), x);
}

TEST_F(Reload, KeepsARowThatIsOverwritten) {
    body(8, {store(vector("new"), in, 0)});
    reload(kernel);
    EXPECT_EQ(loaded().size(), 1u);
    EXPECT_EQ(late_read(), x);
}

TEST_F(Reload, LoadsAgainWhereOtherRowsOfTheBufferAreStored) {
    body(8, {store(vector("new"), in, 1)});
    reload(kernel);
    EXPECT_EQ(loaded().size(), 2u);
    EXPECT_NE(late_read(), x);
}

// A value that is stored and loaded on the way to the late reader has waited for the first row all the same.
TEST_F(Reload, LoadsAgainForAReaderBehindRowsThatAreStored) {
    const int steps = allocation("steps", 1);
    const Reg value = vector("value"), again = vector("again"), last = vector("last");
    Loop loop;
    loop.extent = 16;
    for (const Op &next :
         {load(x, in, 0), op(Opcode::add_vs, value, {x, zero_scalar}), store(value, steps, 0), load(again, steps, 0),
          op(Opcode::mul_vs, last, {again, zero_scalar}), op(Opcode::add_vv, vector("result"), {last, x})})
        loop.body.push_back(next);
    kernel.body.push_back(std::move(loop));
    reload(kernel);
    EXPECT_EQ(loaded().size(), 3u);
    EXPECT_NE(late_read(), x);
}

TEST_F(Reload, LeavesLoopsOfTheArrayAlone) {
    body(8, {op(Opcode::lw_vi, {}, {vector("w")})});
    reload(kernel);
    EXPECT_EQ(loaded().size(), 1u);
}

TEST_F(Reload, ReplacesACopyByALoad) {
    const Reg copy = vector("copy");
    body(8, {op(Opcode::sub_vv, copy, {x, zero_vector})});
    reload(kernel);
    bool copied = false, loads_copy = false;
    for (const Node &node : kernel.body.back().loop->body) {
        copied |= node.op->opcode == Opcode::sub_vv;
        loads_copy |= node.op->opcode == Opcode::vreg_ld && node.op->dst == copy;
    }
    EXPECT_FALSE(copied);
    EXPECT_TRUE(loads_copy);
}

// Weights that are parts of one row each: the lanes would be busy with copies, the pads are not. Not behind a store to the row.
TEST_F(Reload, ACopyOfARowThatOthersReadIsALoadWhereLanesHaveFarMoreToDo) {
    for (const bool stored : {false, true}) {
        constexpr int weights = 8;
        Loop loop;
        loop.extent = 16;
        loop.body.push_back(load(x, in, 0));
        if (stored) loop.body.push_back(store(vector("new"), in, 0));
        for (int w = 0; w < weights; w++) {
            const Reg part = vector("part");
            loop.body.push_back(op(Opcode::sub_vv, part, {x, zero_vector}));
            loop.body.push_back(masked(Opcode::sub_vv, part, {zero_vector, zero_vector}, mask("lanes")));
            loop.body.push_back(op(Opcode::lw_vi, {}, {part}));
        }
        kernel.body.push_back(std::move(loop));
        reload(kernel);
        EXPECT_EQ(loaded().size() > 1, !stored);
    }
}

// One register read twice is a conflict of its bank.
TEST_F(Reload, ARowThatIsSquaredComesTwice) {
    Loop loop;
    loop.extent = 16;
    loop.body.push_back(load(x, in, 0));
    loop.body.push_back(store(vector("new"), in, 0));
    loop.body.push_back(op(Opcode::mul_vv, vector("square"), {x, x}));
    kernel.body.push_back(std::move(loop));
    reload(kernel);
    const Body &body = kernel.body.back().loop->body;
    ASSERT_EQ(body.size(), 4u);
    ASSERT_EQ(loaded().size(), 2u);
    EXPECT_EQ(body[1].op->opcode, Opcode::vreg_ld) << "both before the row changes";
    EXPECT_EQ(body[3].op->src[0], x);
    EXPECT_EQ(body[3].op->src[1], body[1].op->dst);
}

TEST_F(Reload, ARowThatIsComparedWithItselfComesTwice) {
    Loop loop;
    loop.extent = 16;
    loop.body.push_back(load(x, in, 0));
    loop.body.push_back(op(Opcode::mneq_mvv, mask("nan"), {x, x}));
    kernel.body.push_back(std::move(loop));
    reload(kernel);
    ASSERT_EQ(loaded().size(), 2u);
    const Op &compare = *kernel.body.back().loop->body.back().op;
    EXPECT_NE(compare.src[0], compare.src[1]);
}

// The difference from a mean, squared, in a loop with so many products more.
TEST_F(Reload, ADifferenceThatIsSquaredIsMadeTwiceWhereTheAdderHasRoom) {
    for (const int products : {0, 1}) {
        Loop loop;
        loop.extent = 16;
        const Reg centred = vector("centred"), square = vector("square");
        loop.body.push_back(load(x, in, 0));
        loop.body.push_back(op(Opcode::sub_vs, centred, {x, zero_scalar}));
        loop.body.push_back(op(Opcode::mul_vv, square, {centred, centred}));
        for (int i = 0; i < products; i++) loop.body.push_back(op(Opcode::mul_vv, vector("scaled"), {centred, square}));
        kernel.body.push_back(std::move(loop));
        reload(kernel);
        const Body &body = kernel.body.back().loop->body;
        ASSERT_EQ(body.size(), products == 0 ? 3u : 5u);
        if (products == 0) continue;
        EXPECT_EQ(body[2].op->opcode, Opcode::sub_vs);
        EXPECT_EQ(body[2].op->src, body[1].op->src);
        EXPECT_EQ(body[3].op->src[0], centred);
        EXPECT_EQ(body[3].op->src[1], body[2].op->dst);
    }
}

// Rows of straight-line code, of which the adder has room for half of the differences: each row has as many made twice.
TEST_F(Reload, DifferencesOfAlikeRowsAreMadeTwiceAlike) {
    constexpr int rows = 3, vectors = 4, more_products = 2;
    Loop loop;
    loop.extent = 16;
    for (int v = 0; v < rows * vectors; v++) {
        const Reg centred = vector("centred");
        loop.body.push_back(op(Opcode::sub_vs, centred, {x, zero_scalar}));
        loop.body.push_back(op(Opcode::mul_vv, vector("square"), {centred, centred}));
        if (v % vectors < more_products) loop.body.push_back(op(Opcode::mul_vs, vector("scaled"), {x, zero_scalar}));
    }
    kernel.body.push_back(std::move(loop));
    reload(kernel);
    std::vector<bool> twice;
    for (const Node &node : kernel.body.back().loop->body)
        if (node.op->opcode == Opcode::mul_vv) twice.push_back(node.op->src[0] != node.op->src[1]);
    ASSERT_EQ(twice.size(), static_cast<size_t>(rows * vectors));
    EXPECT_EQ(std::count(twice.begin(), twice.end(), true), rows * more_products);
    for (size_t v = vectors; v < twice.size(); v++) EXPECT_EQ(twice[v], twice[v - vectors]);
}

// What only a merge reads is made in its lanes, behind what the others hold.
TEST_F(Reload, AValueThatIsMergedIsMadeUnderTheMask) {
    const Reg product = vector("product"), chosen = vector("chosen"), lanes = mask("lanes");
    const auto body = [&](Op between) {
        kernel.body.clear();
        kernel.body.push_back(load(x, in, 0));
        kernel.body.push_back(op(Opcode::mul_vv, product, {x, x}));
        kernel.body.push_back(std::move(between));
        kernel.body.push_back(masked(Opcode::sub_vv, chosen, {product, zero_vector}, lanes));
        kernel.body.push_back(store(chosen, in, 0));
        coalesce(kernel);
    };
    const Op clear = op(Opcode::sub_vv, chosen, {zero_vector, zero_vector});
    body(clear);
    ASSERT_EQ(kernel.body.size(), 4u);
    const Op &merge = *kernel.body[2].op;
    EXPECT_EQ(merge.opcode, Opcode::mul_vv);
    EXPECT_EQ(merge.dst, chosen);
    EXPECT_EQ(merge.mask, lanes);
    EXPECT_TRUE(merge.keeps_dst);
    EXPECT_EQ(merge.src[0], x);

    body(load(x, in, 1));
    EXPECT_EQ(kernel.body.size(), 5u) << "what it is made of changes in between";
    body(store(product, in, 1));
    EXPECT_EQ(kernel.body.size(), 5u) << "another one reads it";
}

TEST_F(Reload, DoesNothingOnAMachineWithoutTimes) {
    Fixture functional("fsim");
    kernel.machine = &functional.machine;
    body(8);
    reload(kernel);
    EXPECT_EQ(loaded().size(), 1u);
}

// Zeros that are divided between adder and multiplier read no scalar register, whose ports stores need.
TEST_F(Reload, ZerosOnTheMultiplierReadNoScalar) {
    constexpr int zeros = 8;
    std::vector<Reg> cleared;
    for (int i = 0; i < zeros; i++) {
        cleared.push_back(vector("zero"));
        kernel.body.push_back(op(Opcode::sub_vv, cleared.back(), {zero_vector, zero_vector}));
    }
    for (const Reg zero : cleared) kernel.body.push_back(op(Opcode::gemm_vv, vector("row"), {zero, zero}));
    coalesce(kernel);
    int multiplied = 0;
    for (const Node &node : kernel.body) {
        EXPECT_NE(node.op->opcode, Opcode::mul_vs);
        if (node.op->opcode != Opcode::mul_vv) continue;
        multiplied++;
        EXPECT_EQ(node.op->src[0], zero_vector);
        EXPECT_EQ(node.op->src[1], zero_vector);
    }
    EXPECT_GE(multiplied, zeros / 2 - 1);
}

}  // namespace
}  // namespace atalla::codegen
