// Which accesses of the pads must keep their order.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/dependence.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

struct Dependence : Fixture, testing::Test {
    static constexpr int64_t iterations = 8, step = 4;

    // Row `first` of the buffer in the first iteration of the loop, `step` further in each later one.
    Op moving(Op access) {
        access.access->row.terms = {{0, step}};
        return access;
    }
    bool ordered(const Op &earlier, const Op &later) const {
        const std::vector<Edge> edges = dependences(kernel, {earlier, later}, 0, false);
        return std::any_of(edges.begin(), edges.end(), [](const Edge &edge) { return edge.from != edge.to; });
    }

    const Reg index = counted_loop(iterations);
    const int buffer = allocation("buffer", 3 * iterations * step);
    Reg x = vector("x");
};

// A loop goes through the rows in front of one, which it reads in every iteration.
TEST_F(Dependence, NoneBetweenRowsThatLieApart) {
    constexpr int64_t last = (iterations - 1) * step;
    const Op passes = moving(store(x, buffer, 0));
    EXPECT_FALSE(may_alias(kernel, *passes.access, *load(x, buffer, last + 1).access));
    EXPECT_FALSE(ordered(passes, load(vector("y"), buffer, last + 1)));
    EXPECT_TRUE(may_alias(kernel, *passes.access, *load(x, buffer, last).access));
    EXPECT_TRUE(ordered(passes, load(vector("y"), buffer, last)));
}

TEST_F(Dependence, RowsThatGoBackEndWhereTheyBegan) {
    Op back = store(x, buffer, 2 * iterations * step);
    back.access->row.terms = {{0, -step}};
    EXPECT_FALSE(ordered(back, load(vector("y"), buffer, 2 * iterations * step + 1)));
    EXPECT_TRUE(ordered(back, load(vector("y"), buffer, iterations * step + step)));
    EXPECT_FALSE(ordered(back, load(vector("y"), buffer, iterations * step + step - 1)));
}

// An expression of loop variables may be anything, and slots that are registers are not told apart.
TEST_F(Dependence, UnknownRowsKeepTheirOrder) {
    kernel.atoms.push_back({});
    Op anywhere = store(x, buffer, 0), elsewhere = moving(store(x, buffer, 0)),
       read = load(vector("y"), buffer, 2 * iterations * step);
    anywhere.access->row.terms = {{1, 1}};
    EXPECT_TRUE(ordered(anywhere, read));
    elsewhere.access->slot = kernel.scalar("slot");
    EXPECT_TRUE(ordered(elsewhere, read));
}

}  // namespace
}  // namespace atalla::codegen
