// Which transfers may still be under way when a kernel ends.
#include "codegen/pending_transfers.h"

#include <gtest/gtest.h>

#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct PendingTransfers : testing::Test, Fixture {
    Reg memory = kernel.scalar("mem"), control = kernel.scalar("control");

    Op start(Opcode opcode, Reg pad, Reg busy, int number) const {
        Op made = op(opcode, busy, {pad, memory, control});
        made.pad = number;
        return made;
    }
    static Body body(const std::vector<Op> &ops) {
        Body made;
        for (const Op &one : ops) made.emplace_back(one);
        return made;
    }
};

TEST_F(PendingTransfers, UntilTheirRegisterIsReadOrTheirPadStartsAnother) {
    const Reg a = kernel.scalar("a"), b = kernel.scalar("b"), c = kernel.scalar("c");
    const std::vector<Op> starts = {start(Opcode::scpad_ld, a, a, 0), start(Opcode::scpad_st, b, b, 1)};
    EXPECT_EQ(transfers_at_end(body(starts)), (std::vector<Reg>{a, b}));
    EXPECT_EQ(transfers_at_end(body({starts[0], starts[1], op(Opcode::or_s, zero_scalar, {b, zero_scalar})})),
              (std::vector<Reg>{a}));
    EXPECT_EQ(transfers_at_end(body({starts[0], starts[1], start(Opcode::scpad_st, c, c, 0)})), (std::vector<Reg>{b, c}));
}

TEST_F(PendingTransfers, NoneThatKeepsNoRegister) {
    const Reg a = kernel.scalar("a");
    EXPECT_TRUE(transfers_at_end(body({start(Opcode::scpad_ld, a, {}, 0), start(Opcode::scpad_st, a, {}, 1)})).empty());
}

}  // namespace
}  // namespace atalla::codegen
