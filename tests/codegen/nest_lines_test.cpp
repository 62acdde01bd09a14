// Nests that the instruction cache holds, in as many lines as it has.
#include "codegen/nest_lines.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct NestLines : Fixture, testing::Test {
    using Fixture::Fixture;

    std::vector<OpGroup> packets(int64_t count) const {
        return std::vector<OpGroup>(static_cast<size_t>(count), {op(Opcode::lw_vi, {}, {})});
    }
    // A block of so many packets, a loop of so many that turns, and a last packet.
    Blocks nest(int64_t in_front, int64_t inside, int32_t turns) {
        const Reg index = kernel.scalar("i"), last = kernel.constant(turns - 1);
        Blocks blocks(3);
        blocks[0].packets = packets(in_front);
        blocks[1].packets = packets(inside - 2);
        Op leave = op(Opcode::bge_s, index, {index, last}), back = op(Opcode::jal, zero_scalar, {});
        leave.imm = 2;
        back.imm = 1;
        blocks[1].packets.push_back({leave});
        blocks[1].packets.push_back({back});
        blocks[1].end = {Terminator::Loop, index, last, 1};
        Op halt;
        halt.opcode = Opcode::halt_s;
        blocks[2].packets = {{halt}};
        blocks[2].end.kind = Terminator::Halt;
        return blocks;
    }
    int64_t lines(const Blocks &blocks) const {
        const ProgramLayout layout = lay_out(blocks);
        return (layout.start[2] - 1) / machine.icache.line - layout.start[1] / machine.icache.line + 1;
    }
    int64_t all_lines() const { return machine.icache.bytes / machine.icache.line; }
    int64_t capacity() const { return machine.icache.bytes / packet_bytes; }
};

TEST_F(NestLines, BeginWhereTheCacheHoldsThem) {
    size_t moved = 0;
    for (int64_t in_front = 1; in_front <= 16; in_front++)
        for (int64_t spare = 0; spare < 4; spare++) {
            Blocks blocks = nest(in_front, capacity() - spare, 12);
            const int64_t before = lines(blocks);
            fit_nests_to_lines(kernel, blocks);
            EXPECT_LE(lines(blocks), all_lines()) << in_front << " packets in front, room for " << spare;
            EXPECT_EQ(blocks[1].packets.size(), static_cast<size_t>(capacity() - spare));
            const auto added = static_cast<int64_t>(blocks[0].packets.size()) - in_front;
            EXPECT_EQ(added > 0, before > all_lines()) << "only where it is needed";
            EXPECT_LT(added, 16);
            moved += added > 0;
        }
    EXPECT_GT(moved, 0u);
}

TEST_F(NestLines, StayWhereTheyTurnAFewTimesOrDoNotFit) {
    for (const auto &[inside, turns] : {std::pair{capacity(), 3}, std::pair{capacity() + 1, 100}}) {
        for (int64_t in_front = 1; in_front <= 16; in_front++) {
            Blocks blocks = nest(in_front, inside, turns);
            fit_nests_to_lines(kernel, blocks);
            EXPECT_EQ(blocks[0].packets.size(), static_cast<size_t>(in_front));
        }
    }
}

// What stands in front may be in another order than it runs, and end with a jump.
TEST_F(NestLines, JumpsInFrontStayRight) {
    size_t moved = 0;
    for (int64_t in_front = 10; in_front < 26; in_front++) {
        Blocks blocks = nest(in_front, capacity(), 12);
        const int last = static_cast<int>(in_front) - 1;
        Op jump = op(Opcode::jal, zero_scalar, {});
        jump.imm = 1;
        blocks[0].packets.back() = {jump};
        blocks[0].jumps = {{2, 5}, {last - 1, 3}, {4, last}};
        fit_nests_to_lines(kernel, blocks);
        const int added = static_cast<int>(blocks[0].packets.size()) - static_cast<int>(in_front);
        EXPECT_EQ(blocks[0].jumps, (std::map<int, int>{{2, 5}, {last - 1, 3}, {4, last + added}}));
        EXPECT_EQ(blocks[0].packets.back().front().opcode, Opcode::jal);
        moved += added > 0;
    }
    EXPECT_GT(moved, 0u);
}

struct NestLinesWithoutTiming : NestLines {
    NestLinesWithoutTiming() : NestLines("fsim") {}
};

TEST_F(NestLinesWithoutTiming, ChangeNothing) {
    Blocks blocks = nest(3, 409, 12);
    fit_nests_to_lines(kernel, blocks);
    EXPECT_EQ(blocks[0].packets.size(), 3u);
}

}  // namespace
}  // namespace atalla::codegen
