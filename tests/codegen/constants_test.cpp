// Constants made where they are read.
#include <gtest/gtest.h>

#include "codegen/blocks.h"
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
    EXPECT_EQ(results(blocks[0]), (std::vector<Reg>{five, first.dst, seven, second.dst, again.dst, far})) << "what only other blocks read comes last";
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

}  // namespace
}  // namespace atalla::codegen
