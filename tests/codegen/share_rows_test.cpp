// Allocations that take the rows of others by their names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

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
    void expect_shared(int x, int p, int other) {
        body(x, p, other);
        share_rows(kernel);
        ASSERT_EQ(kernel.allocations.size(), 2u);
        EXPECT_EQ(name_of(accessed(0)), "X");
        EXPECT_EQ(accessed(1), accessed(0));
        EXPECT_EQ(name_of(kernel.body.back().op->access->allocation), "other");
    }
    int accessed(size_t operation) const { return kernel.body.front().loop->body[operation].op->access->allocation; }
    const int64_t half = kernel.machine->pad.count * kernel.machine->pad_rows() / 2;  // of the rows of all pads
    const std::string &name_of(int allocation) const { return kernel.allocations[static_cast<size_t>(allocation)].name; }
};

TEST_F(ShareRows, OneAllocationHasTheRowsOfTwo) {
    const int x = allocation("X", half), p = allocation("p_over_X", half), other = allocation("other", 4);
    expect_shared(x, p, other);
}

TEST_F(ShareRows, TheOwnerMayComeLater) {
    const int p = allocation("p_over_X", half), other = allocation("other", 4), x = allocation("X", half);
    expect_shared(x, p, other);
}

// Loads and stores of rows that are not shared wait less for each other, and other pads may serve them.
TEST_F(ShareRows, EachHasItsOwnWhereThePadsHoldThem) {
    const int x = allocation("X", 8), p = allocation("p_over_X", 8);
    body(x, p, x);
    share_rows(kernel);
    EXPECT_EQ(kernel.allocations.size(), 2u);
    EXPECT_NE(accessed(1), accessed(0));
}

TEST_F(ShareRows, SaysWhatDoesNotFit) {
    const int other = allocation("other", 4);
    allocation("p_over_X", 2 * half);
    EXPECT_THAT(error_of([&] { share_rows(kernel); }),
                HasSubstr("'p_over_X' is to lie where 'X' does, which is not in the pads"));
    const int x = allocation("X", 9);
    body(x, x, other);
    EXPECT_THAT(error_of([&] { share_rows(kernel); }),
                HasSubstr(fmt::format("'p_over_X' with {} rows is to lie where 'X' does, which has 9", 2 * half)));
}

}  // namespace
}  // namespace atalla::codegen
