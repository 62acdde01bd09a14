// Allocations that take the rows of others by their names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/share_rows.h"
#include "tests/codegen/operations.h"
#include "tests/support/error_of.h"

namespace atalla::codegen {
namespace {

using testing::HasSubstr;

struct ShareRows : Fixture, testing::Test {
    // A loop that loads a row of X and stores it to p, and behind it a store to another allocation.
    void body(int from, int to, int other) {
        Loop loop;
        loop.extent = 4;
        const Reg x = vector("x");
        loop.body.push_back(load(x, from, 1));
        loop.body.push_back(store(x, to, 1));
        kernel.body.push_back(std::move(loop));
        kernel.body.push_back(store(vector("y"), other, 2));
    }
    int accessed(size_t operation) const { return kernel.body.front().loop->body[operation].op->access->allocation; }
    const std::string &name_of(int allocation) const { return kernel.allocations[static_cast<size_t>(allocation)].name; }
};

TEST_F(ShareRows, OneAllocationHasTheRowsOfTwo) {
    const int x = allocation("X", 8), p = allocation("p_over_X", 8), other = allocation("other", 4);
    body(x, p, other);
    share_rows(kernel, true);
    ASSERT_EQ(kernel.allocations.size(), 2u);
    EXPECT_EQ(name_of(accessed(0)), "X");
    EXPECT_EQ(accessed(1), accessed(0));
    EXPECT_EQ(name_of(kernel.body.back().op->access->allocation), "other");
}

TEST_F(ShareRows, TheOwnerMayComeLater) {
    const int p = allocation("p_over_X", 8), other = allocation("other", 4), x = allocation("X", 8);
    body(x, p, other);
    share_rows(kernel, true);
    ASSERT_EQ(kernel.allocations.size(), 2u);
    EXPECT_EQ(name_of(accessed(0)), "X");
    EXPECT_EQ(accessed(1), accessed(0));
    EXPECT_EQ(name_of(kernel.body.back().op->access->allocation), "other");
}

TEST_F(ShareRows, TheUnoptimizedProgramSharesWhereThePadsAreFull) {
    const int64_t most = kernel.machine->pad.count * kernel.machine->pad_rows();
    const int x = allocation("X", 8), p = allocation("p_over_X", 8);
    body(x, p, x);
    share_rows(kernel, false);
    EXPECT_EQ(kernel.allocations.size(), 2u);
    for (Allocation &allocation : kernel.allocations) allocation.rows = most / 2;
    share_rows(kernel, false);
    EXPECT_EQ(kernel.allocations.size(), 1u);
    EXPECT_EQ(accessed(1), accessed(0));
}

TEST_F(ShareRows, SaysWhatDoesNotFit) {
    const int other = allocation("other", 4);
    allocation("p_over_X", 8);
    EXPECT_THAT(error_of([&] { share_rows(kernel, true); }), HasSubstr("'p_over_X' is to lie where 'X' does, which is not in the pads"));
    const int x = allocation("X", 9);
    body(x, x, other);
    EXPECT_THAT(error_of([&] { share_rows(kernel, true); }), HasSubstr("'p_over_X' with 8 rows is to lie where 'X' does, which has 9"));
}

}  // namespace
}  // namespace atalla::codegen
