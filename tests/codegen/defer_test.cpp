// The epilogue of a block of sums beside the product of the next one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/defer.h"
#include "tests/codegen/operations.h"
#include "tests/support/error_of.h"

namespace atalla::codegen {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Blocks of 8 rows: a loop over 5 k tiles adds to sums, which are stored; a loop over the rows makes results of them, which a
// copy takes to memory.
struct Defer : Fixture, testing::Test {
    static constexpr int64_t blocks = 6, k_tiles = 5, rows = 8;

    Defer() {
        b = loop_variable("no", blocks, -1);
        k = loop_variable("r", k_tiles, b);
        m = loop_variable("m_deferred", rows, b);
    }
    Copy result() {
        Copy copy;
        copy.load = false;
        copy.allocation = results;
        copy.mem.terms = {{b, 32}};
        copy.boxes.push_back({0, 0, 32, {{rows, 1, 96}}});
        return copy;
    }
    std::vector<Op> epilogue(int operations = 1) {
        std::vector<Op> ops = {at(load(row, sums, 0), {{m, 1}})};
        for (int i = 0; i < operations; i++) ops.push_back(op(Opcode::mul_vv, row, {row, row}));
        ops.push_back(at(store(row, results, 0), {{m, 1}}));
        return ops;
    }
    void build(std::vector<Op> ops, Copy copy) {
        std::vector<Op> visit = {op(Opcode::gemm_vv, dot, {row, zero_vector})};
        for (int i = 0; i < adds; i++) visit.push_back(op(Opcode::add_vv, sum, {sum, dot}));
        Loop around = loop(b, {at(load(bias, biases, 0), {{b, 1}})});
        around.body.push_back(loop(k, std::move(visit)));
        around.body.push_back(store(sum, sums, 0));
        around.body.push_back(loop(m, std::move(ops)));
        around.body.push_back(std::move(copy));
        kernel.body.push_back(std::move(around));
    }
    const Loop &around() const { return *kernel.body.front().loop; }
    const Loop &visits() const {
        const auto found = std::ranges::find_if(around().body, [](const Node &node) { return node.loop != nullptr; });
        return *found->loop;
    }
    std::vector<std::string> accesses(Opcode opcode) const {
        std::vector<std::string> texts;
        for (const Node &node : visits().body)
            if (node.op->opcode == opcode) texts.push_back(to_string(kernel, node.op->access->row));
        return texts;
    }

    int b = -1, k = -1, m = -1, adds = 40;
    int sums = allocation("sums", rows), results = allocation("results", 16), biases = allocation("biases", blocks);
    Reg row = vector("row"), dot = vector("dot"), sum = vector("sum"), bias = vector("bias");
};

TEST_F(Defer, RowsOfTheBlockBeforeRunInTheVisitsOfTheNext) {
    build(epilogue(), result());
    defer(kernel);
    // One more turn, in which the product stays with the last block.
    EXPECT_EQ(around().extent, blocks + 1);
    EXPECT_EQ(kernel.loops[static_cast<size_t>(b)].extent, blocks + 1);
    // Sums of the block before are stored first, and a loop, a load and a copy are left.
    EXPECT_EQ(around().body.front().op->opcode, Opcode::vreg_st);
    EXPECT_EQ(around().body.size(), 4u);
    EXPECT_EQ(to_string(kernel, around().body[1].op->access->row), "5 + 1*min(no + -5, 0)");
    EXPECT_EQ(to_string(kernel, around().body.back().copy->mem), "0 + 32*no + -32*min(no + -1, 0)");
    // Two rows in each of the visits but one, which other rows than those of the block take part in: there is room for them.
    EXPECT_THAT(accesses(Opcode::vreg_ld), ElementsAre("0 + 2*r", "1 + 2*r"));
    EXPECT_THAT(accesses(Opcode::vreg_st), ElementsAre("0 + 2*r", "1 + 2*r"));
    EXPECT_EQ(kernel.allocations[static_cast<size_t>(sums)].rows, 2 * k_tiles);
    EXPECT_EQ(kernel.allocations[static_cast<size_t>(results)].rows, 16);
    EXPECT_EQ(around().body.back().copy->boxes.front().row, 0);
}

TEST_F(Defer, ASecondHalfOfTheOperationsRunsAVisitLater) {
    adds = 1;
    build(epilogue(8), result());
    defer(kernel);
    // What a visit stores it has loaded in the one before, so the first rows of the results are no rows of the block.
    EXPECT_EQ(visits().body.front().op->opcode, Opcode::mul_vv);
    EXPECT_EQ(visits().body.back().op->opcode, Opcode::add_vv);
    const auto store = std::ranges::find_if(visits().body, [](const Node &node) { return node.op->opcode == Opcode::vreg_st; }),
               load = std::ranges::find_if(visits().body, [](const Node &node) { return node.op->opcode == Opcode::vreg_ld; });
    EXPECT_LT(store - visits().body.begin(), load - visits().body.begin());
    EXPECT_EQ(around().body.back().copy->boxes.front().row, 2);
}

TEST_F(Defer, RowsHaveRegistersOfTheirOwn) {
    build(epilogue(), result());
    defer(kernel);
    std::set<Reg> loaded;
    for (const Node &node : visits().body)
        if (node.op->opcode == Opcode::vreg_ld) loaded.insert(node.op->dst);
    EXPECT_EQ(loaded.size(), 2u);
}

TEST_F(Defer, OperandsOfTheEpilogueComeABlockLater) {
    std::vector<Op> ops = epilogue();
    const int operands = allocation("operands", 16);
    ops.insert(ops.begin() + 1, at(load(bias, operands, 0), {{m, 1}}));
    build(std::move(ops), result());
    Copy operand = result();
    operand.load = true;
    operand.allocation = operands;
    kernel.body.front().loop->body.insert(kernel.body.front().loop->body.begin(), Node(std::move(operand)));
    defer(kernel);
    EXPECT_EQ(to_string(kernel, around().body.front().copy->mem), "0 + 32*no + -32*min(no + -1, 0)");
}

TEST_F(Defer, LeavesOtherLoopsAlone) {
    build(epilogue(), result());
    kernel.body.front().loop->body[3].loop->name = "f.m";
    defer(kernel);
    EXPECT_EQ(around().extent, blocks);
    EXPECT_EQ(around().body.size(), 5u);
}

TEST_F(Defer, RefusesSlotsThatEndWithTheBlock) {
    kernel.allocations[static_cast<size_t>(results)].rows = rows;
    build(epilogue(), result());
    EXPECT_THAT(error_of([&] { defer(kernel); }),
                HasSubstr("'f.m_deferred' does not run beside the next block's product: slots of 'results' have too few rows"));
}

TEST_F(Defer, RefusesRowsThatNeedEachOther) {
    std::vector<Op> ops = epilogue();
    ops.insert(ops.begin(), op(Opcode::add_vv, sum, {row, row}));
    build(std::move(ops), result());
    EXPECT_THAT(error_of([&] { defer(kernel); }), HasSubstr("a row needs what another one makes"));
}

TEST_F(Defer, RefusesWhatFollowsNoLoop) {
    build(epilogue(), result());
    Body &body = kernel.body.front().loop->body;
    body.erase(body.begin() + 1);
    EXPECT_THAT(error_of([&] { defer(kernel); }), HasSubstr("no loop is in front of it"));
}

}  // namespace
}  // namespace atalla::codegen
