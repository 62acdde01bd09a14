// Mask registers: of their own where blocks need not share them, and never more alive than there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "codegen/dependence.h"
#include "codegen/list_schedule.h"
#include "codegen/masks.h"
#include "codegen/separate_registers.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

Block block_of(std::vector<Op> ops) {
    Block block;
    block.ops = std::move(ops);
    return block;
}

struct Masks : Fixture, testing::Test {
    // A mask that is made and read.
    std::vector<Op> use(Reg mask) {
        return {op(Opcode::mgt_mvs, mask, {x, zero_scalar}), masked(Opcode::add_vv, y, {x, x}, mask)};
    }
    std::vector<Reg> many_masks(size_t count) {
        std::vector<Reg> masks;
        for (size_t i = 0; i < count; i++) masks.push_back(mask("m"));
        return masks;
    }
    Reg x = vector("x"), y = vector("y");
};

TEST_F(Masks, OfBlocksThatMakeThemBeforeTheyReadThemAreSeparate) {
    const Reg m = mask("m");
    Blocks blocks = {block_of(use(m)), block_of(use(m)), block_of(use(m))};
    separate_registers(kernel, blocks);
    const Reg first = blocks[0].ops[0].dst, second = blocks[1].ops[0].dst, third = blocks[2].ops[0].dst;
    EXPECT_EQ(first, m);
    EXPECT_NE(second, first);
    EXPECT_NE(third, first);
    EXPECT_NE(third, second);
    for (const Block &block : blocks) EXPECT_EQ(block.ops[1].mask, block.ops[0].dst);
    EXPECT_EQ(kernel.cls(second), RegisterClass::Mask);
}

TEST_F(Masks, ThatABlockMakesAgainAreSeparate) {
    const Reg m = mask("m");
    std::vector<Op> twice = use(m);
    const std::vector<Op> again = use(m);
    twice.insert(twice.end(), again.begin(), again.end());
    Blocks blocks = {block_of(twice)};
    separate_registers(kernel, blocks);
    const std::vector<Op> &ops = blocks[0].ops;
    EXPECT_EQ(ops[0].dst, m);
    EXPECT_EQ(ops[1].mask, m);
    EXPECT_NE(ops[2].dst, m);
    EXPECT_EQ(ops[3].mask, ops[2].dst);
}

TEST_F(Masks, OfConstantLanesAreMadeAgainWhereManyOthersAreUsedInBetween) {
    constexpr size_t many = 12;
    std::vector<Op> ops;
    const std::vector<Reg> masks = many_masks(many);
    for (size_t i = 0; i < many; i++)
        ops.push_back(op(Opcode::mv_stm, masks[i], {kernel.constant(static_cast<int32_t>(1u << i))}));
    const auto read_all = [&] {
        for (Reg m : masks) ops.push_back(masked(Opcode::add_vv, y, {x, x}, m));
    };
    read_all();
    Blocks few = {block_of({ops.begin(), ops.begin() + 5})};
    EXPECT_FALSE(make_masks_again(kernel, few));
    read_all();
    Blocks blocks = {block_of(ops)};
    ASSERT_TRUE(make_masks_again(kernel, blocks));
    // Every reader has the lanes that it had.
    std::map<Reg, int32_t> lanes;
    size_t readers = 0;
    for (const Op &o : blocks[0].ops)
        if (o.opcode == Opcode::mv_stm)
            lanes[o.dst] = *kernel.registers[o.src[0].id].constant;
        else
            EXPECT_EQ(lanes.at(o.mask), static_cast<int32_t>(1u << (readers++ % many)));
    EXPECT_EQ(readers, 2 * many);
    EXPECT_FALSE(make_masks_again(kernel, blocks)) << "once is enough";
}

// The last turn of a loop behind it has a copy of its results: together they would take two registers each throughout the nest.
TEST_F(Masks, AndVectorsOfBlocksThatMakeThemAnewAreSeparate) {
    const Reg made = vector("made", 2), carried = vector("carried");
    const std::vector<Op> turn = {op(Opcode::add_vv, made, {carried, x}), op(Opcode::mul_vv, carried, {made, x})};
    Blocks blocks = {block_of(turn), block_of(turn)};
    separate_registers(kernel, blocks);
    const Reg first = blocks[0].ops[0].dst, second = blocks[1].ops[0].dst;
    EXPECT_EQ(first, made);
    EXPECT_NE(second, made);
    EXPECT_EQ(blocks[1].ops[1].src[0], second);
    EXPECT_EQ(kernel.registers[second.id].bank, 2);
    for (const Block &block : blocks) {
        EXPECT_EQ(block.ops[0].src[0], carried);
        EXPECT_EQ(block.ops[1].dst, carried);
    }
}

TEST_F(Masks, OfABlockThatReadsWhatAnotherMadeStayOne) {
    const Reg m = mask("m");
    Blocks blocks = {block_of({op(Opcode::mgt_mvs, m, {x, zero_scalar})}), block_of({masked(Opcode::add_vv, y, {x, x}, m)}),
                     block_of(use(m))};
    separate_registers(kernel, blocks);
    EXPECT_EQ(blocks[1].ops[0].mask, m);
    EXPECT_EQ(blocks[2].ops[0].dst, m);
}

TEST_F(Masks, OfCodeOutOfLineStayOne) {
    const Reg m = mask("m");
    Op branch;
    branch.opcode = Opcode::bne_s;
    branch.side = std::make_shared<std::vector<Op>>(use(m));
    std::vector<Op> with_branch = use(m);
    with_branch.push_back(branch);
    Blocks blocks = {block_of(use(m)), block_of(with_branch)};
    separate_registers(kernel, blocks);
    EXPECT_EQ(blocks[1].ops[0].dst, m);
}

TEST_F(Masks, AreSharedFromTheFirstBlockToTheLastAndAroundLoops) {
    const Reg outside = mask("outside"), inside = mask("inside");
    Blocks blocks(6);
    blocks[1].ops = {op(Opcode::mgt_mvs, outside, {x, zero_scalar})};
    blocks[2].ops = use(inside);
    blocks[3].ops = {masked(Opcode::add_vv, y, {x, x}, outside)};
    // Block 3 is read again in the next turn of 2 to 4.
    blocks[4].end.kind = Terminator::Loop;
    blocks[4].end.target = 2;
    const std::set<Reg> only = {outside};
    EXPECT_TRUE(shared_masks(kernel, blocks, 0).empty());
    for (size_t b = 1; b <= 4; b++) EXPECT_EQ(shared_masks(kernel, blocks, b), only) << "block " << b;
    EXPECT_TRUE(shared_masks(kernel, blocks, 5).empty());
}

TEST_F(Masks, AreNeverMoreAliveThanThereAreRegisters) {
    // Compares first, so that the longest way to the end would have all masks at a time.
    constexpr size_t many = 60;
    std::vector<Op> ops;
    const std::vector<Reg> masks = many_masks(many);
    for (Reg m : masks) ops.push_back(op(Opcode::mgt_mvs, m, {x, zero_scalar}));
    for (size_t i = 0; i < many; i++) ops.push_back(masked(Opcode::add_vv, vector("y"), {x, x}, masks[i]));
    const auto [graph, table] = StraightCode(kernel, ops, {}, false).schedule(1);
    const int last = *std::max_element(graph.cycle.begin(), graph.cycle.end());
    for (int cycle = 0; cycle <= last; cycle++) {
        int64_t alive = 0;
        for (size_t i = 0; i < many; i++) alive += graph.cycle[i] <= cycle && graph.cycle[many + i] > cycle;
        EXPECT_LE(alive, machine.regs.mask - 1) << "in cycle " << cycle;
    }
}

}  // namespace
}  // namespace atalla::codegen
