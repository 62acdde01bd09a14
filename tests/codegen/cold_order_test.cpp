// Code in another order in memory than it runs: the same packets run, and lines of the instruction cache come two at a time.
#include <gtest/gtest.h>

#include <set>

#include "codegen/cold_order.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct ColdOrderTest : Fixture, testing::Test {
    using Fixture::Fixture;

    // Straight code of so many packets, each with one operation that knows its number.
    Block straight(int packets, Opcode opcode) {
        Block block;
        for (int p = 0; p < packets; p++) {
            Op numbered = op(opcode, {}, {});
            numbered.source = p;
            block.packets.push_back({numbered});
        }
        return block;
    }
    static Blocks program(Block block) {
        Blocks blocks = {std::move(block)};
        Op halt;
        halt.opcode = Opcode::halt_s;
        blocks.front().packets.push_back({halt});
        blocks.front().end.kind = Terminator::Halt;
        return blocks;
    }
    // A loop around a block: `iterations` times.
    Blocks loop_around(Block block, int32_t iterations) {
        Blocks blocks(1);
        blocks.front().packets = straight(2, Opcode::lw_vi).packets;
        const Reg index = kernel.scalar("i");
        Op branch = op(Opcode::blt_s, index, {index, kernel.constant(iterations - 1)});
        branch.imm = 1;
        block.packets.push_back({branch});
        block.end = {Terminator::Loop, index, kernel.constant(iterations - 1), 1};
        blocks.push_back(std::move(block));
        return blocks;
    }

    // The numbers of the packets in the order in which they run, and how often the first run waits for memory.
    struct Walk {
        std::vector<int> numbers;
        int waits = 0;
    };
    Walk walk(const Blocks &blocks) const {
        Walk result;
        std::set<int64_t> present;
        const ProgramLayout layout = lay_out(blocks);
        for (size_t b = 0; b < blocks.size(); b++)
            for (size_t p = 0; p < blocks[b].packets.size();) {
                const int64_t at = layout.start[b] + static_cast<int64_t>(p) * packet_bytes;
                bool missed = false;
                for (int64_t line = at / machine.icache.line; line <= (at + packet_bytes - 1) / machine.icache.line; line++)
                    missed |= present.insert(line).second;
                result.waits += missed;
                for (const Op &op : blocks[b].packets[p]) {
                    if (op.source >= 0) result.numbers.push_back(op.source);
                }
                const auto jump = blocks[b].jumps.find(static_cast<int>(p));
                p = jump == blocks[b].jumps.end() ? p + 1 : static_cast<size_t>(jump->second);
            }
        return result;
    }
    static size_t packets(const Blocks &blocks) {
        size_t count = 0;
        for (const Block &block : blocks) count += block.packets.size();
        return count;
    }
};

TEST_F(ColdOrderTest, RunsTheSamePacketsWithFewerWaits) {
    for (int length = 1; length <= 120; length++) {
        Blocks blocks = program(straight(length, Opcode::lw_vi));
        const Walk before = walk(blocks);
        order_cold_code(kernel, blocks);
        const Walk after = walk(blocks);
        EXPECT_EQ(after.numbers, before.numbers) << length << " packets";
        EXPECT_LE(after.waits, before.waits) << length << " packets";
        EXPECT_EQ(packets(blocks), static_cast<size_t>(length) + 1) << "jumps share packets";
        if (length < 60) continue;
        EXPECT_LE(after.waits * 3, before.waits * 2 + 3) << length << " packets";
    }
}

TEST_F(ColdOrderTest, JumpsWithoutRoomInPacketsGetTheirOwn) {
    // Jumps and these are operations of the same unit.
    Blocks blocks = program(straight(100, Opcode::addi_s));
    const Walk before = walk(blocks);
    order_cold_code(kernel, blocks);
    const Walk after = walk(blocks);
    EXPECT_EQ(after.numbers, before.numbers);
    EXPECT_LT(after.waits, before.waits);
    EXPECT_EQ(packets(blocks), 101 + blocks.front().jumps.size());
}

TEST_F(ColdOrderTest, LeavesHotCodeAsItIs) {
    Blocks few = loop_around(straight(40, Opcode::addi_s), 2), many = loop_around(straight(40, Opcode::addi_s), 1000);
    order_cold_code(kernel, few);
    order_cold_code(kernel, many);
    EXPECT_FALSE(few[1].jumps.empty());
    EXPECT_TRUE(many[1].jumps.empty()) << "packets of their own for jumps would cost in every iteration";
}

TEST_F(ColdOrderTest, KeepsLoopsInTheCache) {
    const int fits = static_cast<int>(machine.icache.bytes / packet_bytes) - 2;
    Blocks full = loop_around(straight(fits, Opcode::addi_s), 2);
    order_cold_code(kernel, full);
    EXPECT_TRUE(full[1].jumps.empty());
}

TEST_F(ColdOrderTest, LeavesCodeThatBranchesAway) {
    Blocks blocks = program(straight(60, Opcode::lw_vi));
    Op away = op(Opcode::bne_s, zero_scalar, {zero_scalar, zero_scalar});
    away.side = std::make_shared<std::vector<Op>>();
    blocks.front().packets[30].push_back(away);
    order_cold_code(kernel, blocks);
    EXPECT_TRUE(blocks.front().jumps.empty());
}

struct ColdOrderWithoutTiming : ColdOrderTest {
    ColdOrderWithoutTiming() : ColdOrderTest("fsim") {}
};

TEST_F(ColdOrderWithoutTiming, ChangesNothing) {
    Blocks blocks = program(straight(100, Opcode::lw_vi));
    order_cold_code(kernel, blocks);
    EXPECT_TRUE(blocks.front().jumps.empty());
}

// Jumps that branches reach stand next to the block that has these, whatever else is out of line there.
TEST_F(ColdOrderTest, JumpsOutOfLineStandNextToTheirBlock) {
    Blocks blocks = {straight(1, Opcode::add_s), straight(1, Opcode::add_s), straight(20, Opcode::add_s),
                     straight(1, Opcode::jal), straight(1, Opcode::jal)};
    for (size_t o = 2; o < blocks.size(); o++) blocks[o].before = 1;
    blocks[2].from_block = blocks[4].from_block = 0;
    blocks[3].from_block = 1;
    blocks[3].island = blocks[4].island = true;
    EXPECT_EQ(lay_out(blocks).order, (std::vector<int>{0, ProgramLayout::jump_over, 4, 2, 3, 1}));
}

}  // namespace
}  // namespace atalla::codegen
