// Ends of iterations that run later: in which blocks they stand, under which names, and when they must not.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/dependence.h"
#include "codegen/later.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

// A nest: block 0 before it, 1 the head of the outer loop, 2 the hot loop, 3 the end of the outer loop, 4 behind it.
struct Nest : Fixture, testing::Test {
    Nest() : blocks(5) {
        const auto loop = [&](size_t b, int target) {
            blocks[b].end.kind = Terminator::Loop;
            blocks[b].end.target = target;
        };
        loop(2, 2);
        loop(3, 1);
        blocks[4].end.kind = Terminator::Halt;
        buffer = allocation("rows", 8);
        blocks[2].ops = {load(row, buffer, 0), last};
        // The next turn starts the sum anew; what is behind the nest reads it.
        blocks[1].ops = {op(Opcode::mul_vv, sum, {other, other})};
        blocks[4].ops = {op(Opcode::mul_vv, other, {sum, sum})};
    }
    size_t count_of_sums(size_t b) const {
        return static_cast<size_t>(std::count_if(blocks[b].ops.begin(), blocks[b].ops.end(),
                                                 [](const Op &op) { return op.opcode == Opcode::add_vv; }));
    }
    static Op transfer_to(int allocation) {
        Op transfer;
        transfer.opcode = Opcode::scpad_ld;
        transfer.orders = allocation;
        transfer.pad = 0;
        return transfer;
    }

    Blocks blocks;
    int buffer = -1;
    Reg sum = vector("sum"), row = vector("row"), other = vector("other");
    Op last = op(Opcode::add_vv, sum, {sum, row});
    const std::vector<Op> epilogue = {last};
};

TEST_F(Nest, EndsRunWithTheNextTurnAndBehindTheNest) {
    place_later(kernel, blocks, 2, epilogue);
    EXPECT_EQ(count_of_sums(0), 0u);
    EXPECT_EQ(count_of_sums(1), 1u);
    EXPECT_EQ(count_of_sums(3), 0u);
    EXPECT_EQ(count_of_sums(4), 1u);
    EXPECT_EQ(blocks[1].ops.front().opcode, Opcode::add_vv) << "in front of what makes the register anew";
    EXPECT_EQ(blocks[4].ops.front().opcode, Opcode::add_vv) << "in front of what reads it";
}

// The first turn has no iteration before it whose end a sum could take in.
TEST_F(Nest, EndsOfSumsThatTurnsGoOnWithStayInTheirTurn) {
    blocks[1].ops = {op(Opcode::mul_vv, other, {sum, other})};
    place_later(kernel, blocks, 2, epilogue);
    EXPECT_EQ(count_of_sums(1), 0u);
    EXPECT_EQ(count_of_sums(3), 1u);
    EXPECT_EQ(count_of_sums(4), 0u);
    EXPECT_FALSE(can_turn(kernel, blocks, 2, epilogue));
}

// What skips the branch around the loop has no iteration that could end.
TEST_F(Nest, EndsStayInsideTheBranchAroundTheLoop) {
    blocks[1].end.kind = Terminator::Skip;
    blocks[1].end.target = 4;
    blocks[3].end = {};
    place_later(kernel, blocks, 2, epilogue);
    EXPECT_EQ(count_of_sums(3), 1u);
    EXPECT_EQ(count_of_sums(4), 0u);
    EXPECT_FALSE(can_turn(kernel, blocks, 2, epilogue));
}

TEST_F(Nest, ReadsOfPadsAreMarkedAsTheTurnBefore) {
    place_later(kernel, blocks, 2, {load(row, buffer, 0), last});
    ASSERT_TRUE(blocks[1].ops.front().access);
    EXPECT_TRUE(blocks[1].ops.front().access->earlier);
}

TEST_F(Nest, TurnsWhereTheBlockInFrontUsesWhatIsMade) { EXPECT_TRUE(can_turn(kernel, blocks, 2, epilogue)); }

TEST_F(Nest, DoesNotTurnWhereAnotherBlockOfTheNestUsesIt) {
    blocks[3].ops = {op(Opcode::mul_vv, other, {sum, sum})};
    EXPECT_FALSE(can_turn(kernel, blocks, 2, epilogue));
}

TEST_F(Nest, DoesNotTurnWhereATransferOverwritesTheRowsThatItStillReads) {
    const std::vector<Op> reads = {load(row, buffer, 0), last};
    EXPECT_TRUE(can_turn(kernel, blocks, 2, reads));
    blocks[3].ops.push_back(transfer_to(buffer));
    EXPECT_FALSE(can_turn(kernel, blocks, 2, reads));
    blocks[3].ops.back() = transfer_to(allocation("others", 8));
    EXPECT_TRUE(can_turn(kernel, blocks, 2, reads));
}

TEST_F(Nest, DoesNotTurnWhatStores) { EXPECT_FALSE(can_turn(kernel, blocks, 2, {store(sum, buffer, 0)})); }

TEST_F(Nest, DoesNotTurnWithoutALoopAround) {
    blocks[3].end = {};
    EXPECT_FALSE(can_turn(kernel, blocks, 2, epilogue));
}

TEST_F(Nest, PointersAreAimedAtTheLastRowsBeforeTheFirstTurn) {
    const Reg pointer = kernel.scalar("pointer");
    Op read = load(row, buffer, 2);
    read.src[0] = pointer;
    aim_first_turn(kernel, blocks, 2, {read, last});
    ASSERT_EQ(blocks[0].ops.size(), 1u);
    const Op &aim = blocks[0].ops[0];
    EXPECT_EQ(aim.opcode, Opcode::lui_s);
    EXPECT_EQ(aim.dst, pointer);
    // Row 2 from the pointer is the last of the 8; lui counts 128 bytes.
    EXPECT_EQ(aim.imm * 128, 5 * machine.pad.row_bytes / 128 * 128);
}

TEST_F(Nest, CopiesOfWholeLivesGetRegistersOfTheirOwn) {
    const std::vector<Op> &loop = blocks[2].ops;
    const std::vector<Op> copy = with_own_registers(kernel, loop, loop);
    EXPECT_NE(copy[0].dst, row) << "made and read here as in the loop";
    EXPECT_EQ(copy[1].src[1], copy[0].dst);
    EXPECT_EQ(copy[1].dst, sum) << "read before it is made: it comes from outside";
}

TEST_F(Nest, CopiesOfPartsOfLivesKeepTheRegister) {
    const std::vector<Op> copy = with_own_registers(kernel, blocks[2].ops, {blocks[2].ops[0]});
    EXPECT_EQ(copy[0].dst, row) << "its reader is elsewhere";
}

}  // namespace
}  // namespace atalla::codegen
