// The rank test against published values, against enumeration, and on what its use depends on.
#include "dashboard/rank_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "isa/error.h"

namespace atalla {
namespace {

// Two-sided p by trying every order of the values.
double enumerated_p(const std::vector<double> &before, const std::vector<double> &after) {
    std::vector<double> all = before;
    all.insert(all.end(), after.begin(), after.end());
    std::sort(all.begin(), all.end());
    const auto u_of = [&](const std::vector<double> &one, const std::vector<double> &other) {
        double u = 0;
        for (double x : one)
            for (double y : other) u += y > x;
        return std::min(u, static_cast<double>(one.size() * other.size()) - u);
    };
    const double observed = u_of(before, after);
    std::vector<int> chosen(all.size(), 0);
    std::fill(chosen.end() - static_cast<std::ptrdiff_t>(after.size()), chosen.end(), 1);
    double as_extreme = 0, orders = 0;
    do {
        std::vector<double> one, other;
        for (size_t i = 0; i < all.size(); i++) (chosen[i] ? other : one).push_back(all[i]);
        as_extreme += u_of(one, other) <= observed;
        orders++;
    } while (std::next_permutation(chosen.begin(), chosen.end()));
    return as_extreme / orders;
}

TEST(RankTest, EqualsEnumerationOfAllOrders) {
    uint32_t state = 1;
    const auto next = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
    for (int trial = 0; trial < 200; trial++) {
        std::vector<double> before(1 + next() % 6), after(1 + next() % 6);
        std::vector<double> values(before.size() + after.size());
        std::iota(values.begin(), values.end(), 1.0);
        for (size_t i = values.size(); i > 1; i--) std::swap(values[i - 1], values[next() % i]);
        std::copy_n(values.begin(), before.size(), before.begin());
        std::copy(values.begin() + static_cast<std::ptrdiff_t>(before.size()), values.end(), after.begin());
        EXPECT_NEAR(rank_test(before, after).p, std::min(1.0, enumerated_p(before, after)), 1e-12) << trial;
    }
}

TEST(RankTest, SeparateSamplesGiveTheLeastP) {
    for (size_t size = 1; size <= 30; size++) {
        std::vector<double> before(size), after(size);
        std::iota(before.begin(), before.end(), 1.0);
        std::iota(after.begin(), after.end(), 100.0);
        EXPECT_NEAR(rank_test(before, after).p / least_p(size, size), 1, 1e-9) << size;
    }
    EXPECT_NEAR(least_p(5, 5), 2.0 / 252, 1e-15);
    EXPECT_EQ(least_p(1, 1), 1);
}

TEST(RankTest, LargeSamplesByTheNormalApproximation) {
    std::vector<double> before(60), after(60);
    for (int i = 0; i < 60; i++) {
        before[i] = 1 + i;
        after[i] = 10.5 + i;
    }
    // U has mean nm/2 and variance nm(n+m+1)/12.
    double u = 0;
    for (double x : before)
        for (double y : after) u += y > x;
    const double z = (u - 1800 - 0.5) / std::sqrt(60.0 * 60 * 121 / 12);
    EXPECT_NEAR(rank_test(before, after).p, std::erfc(z / std::sqrt(2)), 1e-12);
}

TEST(RankTest, TiesWidenP) {
    EXPECT_EQ(rank_test({1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}).p, 1);
    const double p = rank_test({1, 1, 2, 2, 2}, {2, 2, 3, 3, 3}).p;
    EXPECT_GT(p, 0.01);
    EXPECT_LT(p, 0.1);
}

TEST(RankTest, RatioIsThatOfTheTypicalValue) {
    EXPECT_DOUBLE_EQ(rank_test({1, 2, 3}, {2, 4, 6}).ratio, 2);
    // An outlier does not move it.
    EXPECT_NEAR(rank_test({1.0, 1.01, 1.02, 1.03, 1.04}, {1.0, 1.01, 1.02, 1.03, 50}).ratio, 1, 0.03);
}

TEST(RankTest, RefusesWhatIsNoTime) {
    EXPECT_THROW(rank_test({}, {1}), Error);
    EXPECT_THROW(rank_test({1}, {0}), Error);
    EXPECT_THROW(rank_test({1}, {-1}), Error);
    EXPECT_THROW(rank_test({1}, {std::nan("")}), Error);
}

}  // namespace
}  // namespace atalla
