// The arena: buffers that are alive together do not overlap, and no plan is smaller than the bound.
#include "graph_import/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace atalla {
namespace {

TEST(Arena, SharesWhatIsNotAliveTogether) {
    std::vector<Buffer> buffers = {{100, 0, 1, -1}, {100, 1, 2, -1}, {100, 2, 3, -1}, {60, 0, 3, -1}};
    const Arena arena = plan_arena(buffers, 64);
    EXPECT_EQ(arena.bound, 128 + 128 + 64);
    EXPECT_EQ(arena.bytes, arena.bound);
    EXPECT_EQ(buffers[0].offset, buffers[2].offset);
}

TEST(Arena, HoldsItsRulesForAnyLives) {
    std::mt19937 random(3);
    for (int round = 0; round < 200; round++) {
        std::vector<Buffer> buffers(1 + random() % 40);
        for (Buffer &b : buffers) {
            b.bytes = static_cast<int64_t>(random() % 5000);
            b.first = static_cast<int32_t>(random() % 30);
            b.last = b.first + static_cast<int32_t>(random() % 10);
        }
        // Every other round, those of some size start in the middle of a page.
        constexpr int64_t page = 1024;
        const auto in_the_middle = [&](int64_t bytes) { return round % 2 == 1 && bytes > 2000 && bytes < 4000; };
        const ArenaStart start = [&](int64_t offset, int64_t bytes) {
            return in_the_middle(bytes) ? (offset + page / 2 - 1) / page * page + page / 2 : offset;
        };
        const Arena arena = plan_arena(buffers, 64, start);
        EXPECT_GE(arena.bytes, arena.bound);
        for (size_t i = 0; i < buffers.size(); i++) {
            EXPECT_EQ(buffers[i].offset % 64, 0);
            if (in_the_middle(buffers[i].bytes)) {
                EXPECT_EQ(buffers[i].offset % page, page / 2);
            }
            EXPECT_LE(buffers[i].offset + buffers[i].bytes, arena.bytes);
            for (size_t j = 0; j < i; j++) {
                const Buffer &a = buffers[i], &b = buffers[j];
                const bool together = a.first <= b.last && b.first <= a.last,
                           overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
                EXPECT_FALSE(together && overlap) << round << ": " << i << " and " << j;
            }
        }
    }
}

}  // namespace
}  // namespace atalla
