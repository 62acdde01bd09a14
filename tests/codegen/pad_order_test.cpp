// Loads behind stores that wait in the queue of their pad.
#include <gtest/gtest.h>

#include "codegen/pad_order.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct PadOrder : Fixture, testing::Test {
    static Block packed(const std::vector<Op> &ops) {
        Block block;
        for (const Op &op : ops) block.packets.push_back({op});
        return block;
    }
    Op read(int buffer, int64_t row) { return load(vector("v"), buffer, row); }
    Block stores(int64_t rows) {
        std::vector<Op> ops;
        for (int64_t row = 0; row < rows; row++) ops.push_back(store(x, buffer, row));
        return packed(ops);
    }
    void keep(Blocks &blocks) {
        keep_loads_behind_stores(kernel, blocks, delays, [](size_t) { return false; });
    }
    // Cycles from the start of a block to its first load, at least.
    int until_load(const Block &block) {
        LeastCycles pace = delays.pace();
        int cycle = -1;
        for (const OpGroup &packet : block.packets) {
            cycle = pace.next(packet);
            if (packet.front().opcode == Opcode::vreg_ld) return cycle;
        }
        return cycle;
    }
    const int buffer = allocation("buffer", 64), other = allocation("other", 4);
    const int apart = static_cast<int>(machine.pad.write_ii);
    Reg x = vector("x");
    Delays delays{kernel};
};

TEST_F(PadOrder, WaitForARowOfABlockBefore) {
    constexpr int rows = 20;
    Blocks blocks = {stores(rows), packed({read(buffer, rows - 1)})};
    keep(blocks);
    // The last row starts when those before it are written.
    const int cycle = rows + until_load(blocks[1]), start = (rows - 1) * apart;
    EXPECT_GE(cycle, start);
    EXPECT_LE(cycle, start + 4 * apart);
    Blocks again = blocks;
    keep(again);
    EXPECT_EQ(again[1].packets.size(), blocks[1].packets.size()) << "once is enough";
}

TEST_F(PadOrder, CountEveryIterationOfALoop) {
    const Reg index = counted_loop(4);
    Block fill = stores(8);
    fill.end = {Terminator::Loop, index, index, 0};
    Blocks once = {stores(8), packed({read(buffer, 7)})}, four_times = {fill, packed({read(buffer, 7)})};
    keep(once);
    keep(four_times);
    EXPECT_GE(4 * 8 + until_load(four_times[1]), (4 * 8 - 1) * apart);
    EXPECT_LT(until_load(once[1]), until_load(four_times[1]));
}

TEST_F(PadOrder, DoNotWaitForAnotherBufferOrAnEmptyQueue) {
    Blocks blocks = {stores(20), packed({read(other, 0)})};
    keep(blocks);
    EXPECT_EQ(blocks[1].packets.size(), 1u);
    // A packet for each cycle that the rows take.
    Block idle;
    for (int cycle = 0; cycle < 20 * apart + 2 * apart; cycle++)
        idle.packets.push_back({op(Opcode::or_s, zero_scalar, {zero_scalar, zero_scalar})});
    blocks = {stores(20), idle, packed({read(buffer, 19)})};
    keep(blocks);
    EXPECT_EQ(blocks[2].packets.size(), 1u);
}

TEST_F(PadOrder, WaitForARowOfTheirOwnBlock) {
    std::vector<Op> ops;
    for (int64_t row = 0; row < 20; row++) ops.push_back(store(x, buffer, row));
    ops.push_back(read(buffer, 40));
    ops.push_back(read(buffer, 19));
    Blocks blocks = {packed(ops)};
    keep(blocks);
    ASSERT_GT(blocks[0].packets.size(), ops.size());
    EXPECT_EQ(until_load(blocks[0]), 20) << "a row that nobody writes is read at once";
    EXPECT_EQ(blocks[0].packets.back().front().access->row.constant, 19);
}

// What a loop reads that was stored in front of it is late in its first iteration alone.
TEST_F(PadOrder, WaitInFrontOfALoop) {
    const Reg index = counted_loop(4);
    const auto loop = [&](const std::vector<Op> &ops) {
        Block block = packed(ops);
        block.end = {Terminator::Loop, index, index, 1};
        return block;
    };
    const Block work = packed({op(Opcode::or_s, zero_scalar, {zero_scalar, zero_scalar})});
    for (const std::vector<Op> &body :
         {std::vector<Op>{read(buffer, 19)}, std::vector<Op>{read(buffer, 19), store(x, buffer, 19)}}) {
        Blocks blocks = {stores(20), work, loop(body)};
        keep(blocks);
        EXPECT_GT(blocks[0].packets.size(), 20u);
        EXPECT_EQ(blocks[1].packets.size(), 1u);
        EXPECT_EQ(blocks[2].packets.size(), body.size());
    }
}

// A transfer reads a row every few cycles, too: what is stored in the order in which it reads is there in time, what is stored
// the other way round is not.
TEST_F(PadOrder, TransfersWaitForTheRowThatIsStoredLast) {
    constexpr int rows = 28;
    Op leaves = op(Opcode::scpad_st, kernel.scalar("base"), {zero_scalar, zero_scalar, zero_scalar});
    leaves.pad = 0;
    leaves.orders = buffer;
    const auto delays_of = [&](bool ascending, bool own, int of) {
        std::vector<Op> ops;
        for (int64_t row = 0; row < rows; row++) ops.push_back(store(x, buffer, ascending ? row : rows - 1 - row));
        leaves.orders = of;
        if (own) ops.push_back(leaves);
        Blocks blocks = {packed(ops), packed(own ? std::vector<Op>{} : std::vector<Op>{leaves})};
        keep(blocks);
        return blocks[0].packets.size() + blocks[1].packets.size() - rows - 1;
    };
    for (const bool own : {false, true}) {
        EXPECT_EQ(delays_of(true, own, buffer), 0u) << own;
        EXPECT_GT(delays_of(false, own, buffer), 0u) << own;
        EXPECT_EQ(delays_of(false, own, other), 0u) << own;
    }
}

// What a nest stores and reads itself is late each time round.
TEST_F(PadOrder, WaitInsideANestThatStores) {
    const Reg index = counted_loop(4);
    Blocks blocks = {packed({read(other, 0)}), stores(20), packed({read(buffer, 19)})};
    blocks[2].end = {Terminator::Loop, index, index, 1};
    keep(blocks);
    EXPECT_EQ(blocks[0].packets.size(), 1u);
    EXPECT_GT(blocks[1].packets.size() + blocks[2].packets.size(), 22u);
}

// No more stores wait than a pad's unit takes.
TEST_F(PadOrder, WaitForAFullQueueAtMost) {
    const auto full = static_cast<int>(machine.vlsu.store_queue) * apart;
    const Reg index = counted_loop(1000);
    Block fill = stores(8);
    fill.end = {Terminator::Loop, index, index, 0};
    Blocks blocks = {fill, packed({read(buffer, 7)})};
    keep(blocks);
    EXPECT_GE(until_load(blocks[1]), full - 8 * apart);
    EXPECT_LE(until_load(blocks[1]), full + 4 * apart);
}

}  // namespace
}  // namespace atalla::codegen
