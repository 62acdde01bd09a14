// Constants made where they are read.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/blocks.h"
#include "codegen/passes.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct Constants : Fixture, testing::Test {
    Op make(Reg constant) {
        Op made = op(Opcode::addi_s, constant, {zero_scalar});
        made.imm = *kernel.registers[constant.id].constant;
        return made;
    }
    Op use(Reg scalar) { return op(Opcode::or_s, kernel.scalar("t"), {scalar, zero_scalar}); }
    static std::vector<Reg> results(const Block &block) {
        std::vector<Reg> order;
        for (const Op &op : block.ops) order.push_back(op.dst);
        return order;
    }
    Block block;
};

TEST_F(Constants, AreMadeInFrontOfTheirFirstReader) {
    const Reg five = kernel.constant(5), seven = kernel.constant(7), far = kernel.constant(9);
    const Op first = use(five), second = use(seven), again = use(five);
    block.ops = {make(five), make(seven), make(far), first, second, again};
    Blocks blocks = {block};
    ASSERT_TRUE(make_constants_before_use(kernel, blocks));
    EXPECT_EQ(results(blocks[0]), (std::vector<Reg>{five, first.dst, seven, second.dst, again.dst, far}))
        << "what only other blocks read comes last";
    EXPECT_FALSE(make_constants_before_use(kernel, blocks)) << "all are there";
}

TEST_F(Constants, OfTwoPartsMoveTogether) {
    const Reg large = kernel.constant(1 << 20 | 3), upper = kernel.scalar("upper"), five = kernel.constant(5);
    Op high = op(Opcode::lui_s, upper, {}), low = op(Opcode::addi_s, large, {upper});
    high.imm = 1 << 13;
    low.imm = 3;
    const Op first = use(five), second = use(large);
    block.ops = {high, low, make(five), first, second};
    Blocks blocks = {block};
    ASSERT_TRUE(make_constants_before_use(kernel, blocks));
    EXPECT_EQ(results(blocks[0]), (std::vector<Reg>{five, first.dst, upper, large, second.dst}));
}

TEST_F(Constants, ThatChangeStay) {
    const Reg pointer = kernel.constant(64);
    Op step = op(Opcode::addi_s, pointer, {pointer});
    step.imm = 4;
    const Op other = use(zero_scalar), last = use(pointer);
    block.ops = {make(pointer), other, step, last};
    Blocks blocks = {block};
    EXPECT_FALSE(make_constants_before_use(kernel, blocks));
    EXPECT_EQ(results(blocks[0]), (std::vector<Reg>{pointer, other.dst, pointer, last.dst}));
}

// Where constants are too many for all of them to be made at the start, those of a nest that turns often are made in front of
// it, and those of one that does not where its blocks are entered.
TEST_F(Constants, OfANestAreMadeInFrontOfIt) {
    for (const int64_t turns : {8, 2}) {
        Kernel nest;
        nest.machine = kernel.machine;
        const auto read = [&](int32_t value) {
            Op made;
            made.opcode = Opcode::or_s;
            made.dst = nest.scalar("t");
            made.src = {nest.constant(value), zero_scalar};
            return made;
        };
        const auto loop = [&](int64_t extent, Body body) {
            const auto id = static_cast<int>(nest.loops.size());
            nest.loops.push_back({"loop", extent, -1, nest.scalar("i"), {}, 0});
            return Loop{id, extent, 0, "loop", std::move(body)};
        };
        constexpr int32_t inside = 1001, around = 1002, many = 160;
        Body inner, outer;
        inner.push_back(read(inside));
        outer.push_back(read(around));
        outer.push_back(loop(16, std::move(inner)));
        outer.push_back(read(around));
        nest.body.push_back(loop(turns, std::move(outer)));
        for (int32_t value = 0; value < many; value++) nest.body.push_back(read(2 * value + 3));
        const Blocks blocks = make_blocks(nest, false);
        const auto made = [&](size_t b, int32_t value) {
            return std::count_if(blocks[b].ops.begin(), blocks[b].ops.end(), [&](const Op &op) {
                return op.opcode == Opcode::addi_s && op.src[0] == zero_scalar && op.imm == value;
            });
        };
        // Entry, the outer loop up to the inner one, that, and what is behind it.
        ASSERT_GE(blocks.size(), 5u);
        const bool often = turns > 2;
        for (const int32_t value : {inside, around}) {
            EXPECT_EQ(made(0, value), often) << value;
            EXPECT_EQ(made(1, value), !often) << value;
            EXPECT_EQ(made(2, value), 0) << value;
        }
        EXPECT_EQ(made(3, around), 0) << "the block in front of the inner loop has it";
    }
}

// Many constants of straight code that runs a few times would make the start long, and it has room for them; a few are made
// while the first loads run.
TEST_F(Constants, OfStraightCodeThatRunsAFewTimesAreMadeThere) {
    struct Case {
        int64_t turns;
        int32_t constants;
        bool at_start;
    };
    for (const auto &[turns, constants, at_start] : {Case{2, 40, false}, Case{2, 8, true}, Case{100, 40, true}}) {
        Kernel nest;
        nest.machine = kernel.machine;
        Body body;
        for (int32_t value = 1; value <= constants; value++) {
            Op read;
            read.opcode = Opcode::or_s;
            read.dst = nest.scalar("t");
            read.src = {nest.constant(1000 + value), zero_scalar};
            body.push_back(read);
        }
        nest.loops.push_back({"loop", turns, -1, nest.scalar("i"), {}, 0});
        nest.body.push_back(Loop{0, turns, 0, "loop", std::move(body)});
        // The first loop around is no innermost one.
        nest.loops.push_back({"inner", 3, 0, nest.scalar("i"), {}, 0});
        nest.body.front().loop->body.push_back(Loop{1, 3, 0, "inner", {}});
        const Blocks blocks = make_blocks(nest, false);
        const auto made = [&](size_t b) {
            return std::count_if(blocks[b].ops.begin(), blocks[b].ops.end(), [&](const Op &op) {
                return op.opcode == Opcode::addi_s && op.imm > 1000 && op.imm <= 1000 + constants;
            });
        };
        EXPECT_EQ(made(0), at_start ? constants : 0) << turns << " turns";
        EXPECT_EQ(made(1), at_start ? 0 : constants) << turns << " turns";
    }
}

}  // namespace
}  // namespace atalla::codegen
