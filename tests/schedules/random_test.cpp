// The generator gives the published sequence, so that seeds mean the same everywhere.
#include "schedules/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace atalla {
namespace {

TEST(Random, IsSplitMix64) {
    // First outputs of the reference implementation (https://prng.di.unimi.it/splitmix64.c) for the seed 1234567.
    Random random(1234567);
    EXPECT_EQ(random.next(), 6457827717110365317u);
    EXPECT_EQ(random.next(), 3203168211198807973u);
    EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(Random, BelowStaysBelowAndReachesAll) {
    Random random(7);
    std::map<uint64_t, int> seen;
    constexpr int draws = 7000;
    for (int draw = 0; draw < draws; draw++) {
        seen[random.below(7)]++;
    }
    ASSERT_EQ(seen.size(), 7u);
    EXPECT_EQ(seen.rbegin()->first, 6u);
    for (const auto &[value, times] : seen) {
        EXPECT_NEAR(times, draws / 7, 150) << "value " << value;  // five standard deviations
    }
    EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, BelowIsFairForHugeRanges) {
    // With n = 3 * 2^62 a remainder alone would give the lowest third of the range half of the draws.
    Random random(3);
    const uint64_t n = 3u * (uint64_t{1} << 62);
    int low = 0;
    constexpr int draws = 6000;
    for (int draw = 0; draw < draws; draw++) {
        low += random.below(n) < n / 3;
    }
    EXPECT_NEAR(low, draws / 3, 200);
}

TEST(Random, ShuffleIsAPermutationFixedBySeed) {
    std::vector<int> items(50);
    for (int i = 0; i < 50; i++) {
        items[i] = i;
    }
    std::vector<int> one = items, same = items, other = items;
    Random(1).shuffle(one);
    Random(1).shuffle(same);
    Random(2).shuffle(other);
    EXPECT_EQ(one, same);
    EXPECT_NE(one, other);
    EXPECT_NE(one, items);
    std::sort(one.begin(), one.end());
    EXPECT_EQ(one, items);
}

}  // namespace
}  // namespace atalla
