// The end of a turn of a nest and the start of the next one as one block.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/dependence.h"
#include "codegen/nest_ends.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

// Block 0 before the nest, 1 its start, 2 the hot loop, 3 its end, 4 behind it.
struct NestEnds : Fixture, testing::Test {
    NestEnds() : blocks(5) {
        turn = counted_loop(8);
        buffer = allocation("rows", 8);
        const auto loop = [&](size_t b, int target, Reg index) {
            blocks[b].end = {Terminator::Loop, index, kernel.constant(7), target};
        };
        loop(2, 2, inner);
        loop(3, 1, turn);
        blocks[4].end.kind = Terminator::Halt;
        blocks[1].ops = {op(Opcode::addi_s, inner, {zero_scalar}), op(Opcode::mul_vv, square, {sum, sum}),
                         op(Opcode::mul_vv, fourth, {square, square}), op(Opcode::sub_vv, sum, {zero_vector, zero_vector})};
        blocks[2].ops = {load(row, buffer, 0), op(Opcode::add_vv, sum, {sum, row})};
        blocks[3].ops = {op(Opcode::mul_vv, result, {sum, fourth}), store(result, buffer, 1)};
    }
    bool can_join() const { return can_join_ends(kernel, blocks, 1, 3); }
    std::vector<Opcode> opcodes(const std::vector<Op> &ops) const {
        std::vector<Opcode> list;
        for (const Op &one : ops) list.push_back(one.opcode);
        return list;
    }

    Blocks blocks;
    int buffer = -1;
    Reg turn, inner = kernel.scalar("inner");
    Reg sum = vector("sum"), row = vector("row"), square = vector("square"), fourth = vector("fourth"),
        result = vector("result");
};

TEST_F(NestEnds, TheStartOfTheNextTurnRunsWithTheEnd) {
    ASSERT_TRUE(can_join());
    join_ends(blocks, 1, 3, joined_ends(kernel, blocks, 1, 3, false));
    EXPECT_EQ(blocks[1].ops.size(), 4u) << "in front of the first turn";
    EXPECT_EQ(blocks[3].end.target, 2);
    EXPECT_EQ(opcodes(blocks[3].ops), (std::vector<Opcode>{Opcode::mul_vv, Opcode::vreg_st, Opcode::addi_s, Opcode::mul_vv,
                                                           Opcode::mul_vv, Opcode::sub_vv}));
    EXPECT_TRUE(blocks[3].ops[1].access->earlier);
    EXPECT_EQ(blocks_in_front(blocks, 2), (std::vector<size_t>{1, 3}));
}

TEST_F(NestEnds, RegistersOfTheStartAloneAreOthers) {
    const JoinedEnds joined = joined_ends(kernel, blocks, 1, 3, false);
    EXPECT_NE(joined.ops[3].dst, square);
    EXPECT_EQ(joined.ops[4].src[0], joined.ops[3].dst);
    EXPECT_EQ(joined.ops[4].dst, fourth) << "the end reads it";
}

// The square reads the sum before it starts anew; what is made of the square can wait for the end of the turn.
TEST_F(NestEnds, WhatEndsAloneNeedComesAtTheEndOfItsTurn) {
    const JoinedEnds joined = joined_ends(kernel, blocks, 1, 3, true);
    EXPECT_EQ(joined.ops.front().dst, fourth);
    EXPECT_EQ(joined.ops.front().src[0], square);
    EXPECT_EQ(std::count_if(joined.ops.begin(), joined.ops.end(), [&](const Op &one) { return one.dst == fourth; }), 1);
}

TEST_F(NestEnds, WhatTheLoopInsideReadsStays) {
    blocks[2].ops.push_back(op(Opcode::mul_vv, row, {row, fourth}));
    const JoinedEnds joined = joined_ends(kernel, blocks, 1, 3, true);
    EXPECT_EQ(joined.ops.front().dst, result);
}

TEST_F(NestEnds, TheVariableIsTheNextOne) {
    blocks[1].ops.push_back(op(Opcode::add_s, kernel.scalar("address"), {turn, turn}));
    const JoinedEnds joined = joined_ends(kernel, blocks, 1, 3, false);
    const Op &address = joined.ops.back();
    const auto next =
        std::find_if(joined.ops.begin(), joined.ops.end(), [&](const Op &one) { return one.dst == address.src[0]; });
    ASSERT_NE(next, joined.ops.end());
    EXPECT_EQ(next->src[0], turn);
    EXPECT_EQ(next->imm, 1);
}

TEST_F(NestEnds, CodeBehindTheNestFindsWhatTheLastTurnHasLeft) {
    const Reg slot = kernel.scalar("slot");
    blocks[1].ops.push_back(op(Opcode::sub_s, slot, {zero_scalar, slot}));
    blocks[4].ops = {op(Opcode::add_s, slot, {slot, slot})};
    ASSERT_TRUE(can_join());
    join_ends(blocks, 1, 3, joined_ends(kernel, blocks, 1, 3, false));
    const Reg kept = blocks[4].ops[0].src[0];
    EXPECT_NE(kept, slot);
    const auto keeps = std::find_if(blocks[3].ops.begin(), blocks[3].ops.end(), [&](const Op &one) { return one.dst == kept; });
    const auto changes =
        std::find_if(blocks[3].ops.begin(), blocks[3].ops.end(), [&](const Op &one) { return one.dst == slot; });
    EXPECT_LT(keeps, changes);
    EXPECT_EQ(keeps->src[0], slot);
}

TEST_F(NestEnds, SlotsThatRotateAreATurnOlder) {
    blocks[3].ops[1].access->turn = 0;
    EXPECT_EQ(joined_ends(kernel, blocks, 1, 3, false).ops[1].access->turn, 1);
    blocks[3].ops.push_back(load(row, buffer, 0));
    blocks[3].ops.back().access->turn = 0;
    EXPECT_FALSE(can_join()) << "what the turn has just filled";
}

TEST_F(NestEnds, WhatMustNotRunOnceMoreKeepsThemApart) {
    const auto refuses = [&](Op bad) {
        blocks[1].ops.push_back(std::move(bad));
        const bool joins = can_join();
        blocks[1].ops.pop_back();
        return !joins;
    };
    Op transfer = op(Opcode::scpad_ld, kernel.scalar("dma"), {});
    EXPECT_TRUE(refuses(transfer));
    EXPECT_TRUE(refuses(op(Opcode::lw_vi, Reg{}, {row})));
    EXPECT_TRUE(refuses(op(Opcode::lw_s, kernel.scalar("word"), {zero_scalar})));
    Op rows_of_turns = load(row, buffer, 0);
    rows_of_turns.access->row.terms = {{0, 1}};
    EXPECT_TRUE(refuses(rows_of_turns)) << "the turn behind the last one has none";
    const int weights = allocation("weights", 8);
    Op weights_of_turns = load(row, weights, 0);
    weights_of_turns.access->row.terms = {{0, 1}};
    EXPECT_FALSE(refuses(weights_of_turns)) << "nothing changes them";
    EXPECT_TRUE(refuses(op(Opcode::addi_s, turn, {turn})));
    EXPECT_FALSE(refuses(load(row, buffer, 0)));
}

TEST_F(NestEnds, NestsInsideOthersStayApart) {
    blocks[4].end = {Terminator::Loop, kernel.scalar("outer"), kernel.constant(3), 0};
    EXPECT_FALSE(can_join());
}

}  // namespace
}  // namespace atalla::codegen
