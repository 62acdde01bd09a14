// Loads that start in front of fills: those whose rows of the pads are others, with what aims them.
#include <gtest/gtest.h>

#include "codegen/early_loads.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct EarlyLoads : Fixture, testing::Test {
    static constexpr int64_t filled_rows = 4, row_bytes = 64;

    EarlyLoads() : index(counted_loop(filled_rows)), buffer(allocation("rows", 64)), address(kernel.scalar("tensor")) {
        Op store = op(Opcode::vreg_st, {}, {zero_scalar, zero_scalar, zero_vector});
        store.access = PadAccess{buffer, {first_filled, {{0, 1}}}, {}};
        store.pad = 0;
        Body fill;
        fill.push_back(store);
        Loop loop{0, filled_rows, 0, "fill", std::move(fill)};
        loop.fill = true;
        kernel.body.push_back(std::move(loop));
    }

    // A load of two rows, aimed by an operation in front of it.
    void load(int64_t row, int pad = 0) {
        Op aim = op(Opcode::addi_s, kernel.scalar("memory"), {address});
        aim.value = LinearForm{row, {}};
        kernel.body.push_back(aim);
        Op start =
            op(Opcode::scpad_ld,
               kernel.constant_register(static_cast<int32_t>(row * row_bytes), 4 + static_cast<int>(kernel.body.size())), {});
        start.src = {start.dst, aim.dst, kernel.constant(1 << 25 | 31 << 20 | 31)};
        start.pad = pad;
        start.orders = buffer;
        start.source = static_cast<int32_t>(row);
        kernel.body.push_back(start);
    }
    // The rows of the loads in front of the fill, and how many nodes are there.
    std::vector<int> early() {
        start_loads_before_fills(kernel);
        std::vector<int> rows;
        nodes = 0;
        for (; kernel.body[nodes].op; nodes++)
            if (kernel.body[nodes].op->opcode == Opcode::scpad_ld) rows.push_back(kernel.body[nodes].op->source);
        return rows;
    }

    static constexpr int64_t first_filled = 8;
    Reg index;
    int buffer;
    Reg address;
    size_t nodes = 0;
};

TEST_F(EarlyLoads, BringOtherRows) {
    load(0);
    load(6);
    load(7);   // and the first filled one
    load(20);  // behind a load that this pad's waits count on
    EXPECT_EQ(early(), (std::vector<int>{0, 6}));
    EXPECT_EQ(nodes, 4u) << "each with what aims it";
}

TEST_F(EarlyLoads, OfOtherPadsBringAny) {
    load(9);
    load(9, 1);
    EXPECT_EQ(early(), std::vector<int>{9});
    EXPECT_EQ(kernel.body.front().op->dst, kernel.body[1].op->src[1]);
    EXPECT_EQ(kernel.body[1].op->pad, 1);
}

TEST_F(EarlyLoads, KeepTheirOrderWithWhatSharesRegisters) {
    load(9);
    const Reg shared = kernel.body.back().op->src[1];
    load(0, 1);
    kernel.body.back().op->src[1] = shared;  // made by an operation that a load which stays reads, too
    load(0, 2);
    kernel.body[kernel.body.size() - 2].op->dst = shared;  // and changed here
    kernel.body.back().op->src[1] = shared;
    EXPECT_EQ(early(), std::vector<int>{0}) << "the register changes only then";
    EXPECT_EQ(kernel.body[1].op->pad, 1);
}

TEST_F(EarlyLoads, WhoseRowsAreNotKnownStay) {
    load(0);
    kernel.body.back().op->src[0] = kernel.scalar("somewhere");
    EXPECT_TRUE(early().empty());
}

}  // namespace
}  // namespace atalla::codegen
