// Sums in the pads that a loop around the array adds to in every iteration: in registers while it runs.
#include "codegen/promote.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct Promote : Fixture, testing::Test {
    Promote() {
        kernel.loops.push_back({"k", 8, -1, kernel.scalar("k")});
        Atom k;
        k.loop = 0;
        k.is_loop = true;
        kernel.atoms.push_back(k);
        loop.id = 0;
        loop.extent = 8;
    }

    // sums[row] += a product, in the loop.
    void add(int sums, LinearForm row) {
        const Reg sum = vector("sum"), product = vector("product"), next = vector("next");
        Op loaded = load(sum, sums, 0), stored = store(next, sums, 0);
        loaded.access->row = stored.access->row = row;
        loop.body.push_back(loaded);
        loop.body.push_back(op(Opcode::gemm_vv, product, {vector("row")}));
        loop.body.push_back(op(Opcode::add_vv, next, {sum, product}));
        loop.body.push_back(stored);
    }
    void run() {
        kernel.body.push_back(std::move(loop));
        promote_sums(kernel);
    }
    static int64_t count(const Body &body, Opcode opcode) {
        return std::count_if(body.begin(), body.end(), [&](const Node &node) { return node.op && node.op->opcode == opcode; });
    }
    const Body &inside() const {
        return std::find_if(kernel.body.begin(), kernel.body.end(), [](const Node &node) { return node.loop != nullptr; })
            ->loop->body;
    }

    Loop loop;
};

TEST_F(Promote, LoadsStandInFrontAndStoresBehind) {
    const int sums = allocation("sums", 4);
    for (int64_t row = 0; row < 3; row++) add(sums, {row, {}});
    run();
    EXPECT_EQ(count(inside(), Opcode::vreg_ld) + count(inside(), Opcode::vreg_st), 0);
    ASSERT_EQ(kernel.body.size(), 7U);
    for (size_t i = 0; i < 3; i++) {
        const Op &load = *kernel.body[i].op, &store = *kernel.body[4 + i].op;
        EXPECT_EQ(load.opcode, Opcode::vreg_ld);
        EXPECT_EQ(store.opcode, Opcode::vreg_st);
        EXPECT_EQ(load.access->row, store.access->row);
        EXPECT_EQ(store.src[2], load.dst) << "what is stored is the register that the loop adds to";
    }
}

// Rows that change with the loop, that are loaded twice, or of which some change and some do not, stay in the pads.
TEST_F(Promote, OtherRowsStay) {
    const int stepping = allocation("stepping", 8), twice = allocation("twice", 2), mixed = allocation("mixed", 16);
    add(stepping, {0, {{0, 1}}});
    add(twice, {0, {}});
    loop.body.push_back(load(vector("again"), twice, 0));
    add(mixed, {0, {}});
    add(mixed, {8, {{0, 1}}});
    const size_t operations = loop.body.size();
    run();
    EXPECT_EQ(kernel.body.size(), 1U);
    EXPECT_EQ(inside().size(), operations);
}

TEST_F(Promote, RegistersForRowsAreFew) {
    constexpr int64_t many = 250;
    const int sums = allocation("sums", many);
    for (int64_t row = 0; row < many; row++) add(sums, {row, {}});
    run();
    EXPECT_EQ(kernel.body.size(), 1U);
    EXPECT_EQ(count(inside(), Opcode::vreg_st), many);
}

}  // namespace
}  // namespace atalla::codegen
