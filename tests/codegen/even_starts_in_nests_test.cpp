// Transfers that start at one distance from inside a hot loop that runs several times for them.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "codegen/spread.h"
#include "tests/codegen/transfer_starts.h"

namespace atalla::codegen {
namespace {

TEST(EvenStarts, GroupsOfALoopFurtherOutAreDividedAmongItsRuns) {
    Transfers f;
    const Channel outer = f.channel(6);
    const Reg left = f.kernel.scalar("left");
    Loop hot = loop_of(15);
    Body body;
    start_evenly(f.kernel, {{outer, {}, 2, left}}, 0, hot, f.code, body);
    Scalars scalars;
    scalars.run(f.aim(outer));
    scalars.set(left, 6);
    for (int run = 0; run < 5; run++) {  // in the last two nothing is left
        scalars.run(body);
        for (int i = 0; i < 14; i++) scalars.iteration(hot.body);
    }
    expect_in_order(scalars, outer);
    EXPECT_EQ(scalars.get(left), 0);
}

// The hot loop runs several times: its turns count as one long loop, of which each turn may run a few iterations more.
TEST(EvenStarts, GroupsAreDividedAmongTheTurnsOfANest) {
    for (const int64_t groups : {1, 3, 10, 20})
        for (const bool more : {true, false}) {
            Transfers f;
            const Channel c = f.channel(groups);
            const Reg go = f.kernel.scalar("go");
            constexpr int64_t turns = 4;
            Loop hot = loop_of(15);
            Body body = f.aim(c);
            ASSERT_TRUE(start_evenly_in_nest(f.kernel, {{c, go, 0, {}}}, turns, hot, f.code, body));
            for (const int64_t iterations : {sure_iterations(hot), hot.extent}) {
                Scalars scalars;
                scalars.set(go, more);
                scalars.run(body);
                for (int64_t i = 0, last = -2; i < turns * iterations; i++) {
                    if (scalars.iteration(hot.body) == 0) continue;
                    EXPECT_GT(i, last + 1) << "groups in iterations that follow each other";
                    last = i;
                }
                if (more)
                    expect_in_order(scalars, c);
                else
                    EXPECT_TRUE(scalars.started.empty());
            }
        }
    Transfers f;
    Loop hot = loop_of(15);
    Body body;
    EXPECT_FALSE(start_evenly_in_nest(f.kernel, {{f.channel(40), {}, 0, {}}}, 4, hot, f.code, body));
    EXPECT_TRUE(body.empty());
}

// A result whose groups are more than the turns of its nest leaves in the iterations given, whatever turn they are of.
TEST(EvenStarts, SeveralGroupsOfAResultStartInATurnOfANest) {
    for (const int64_t waiting : {0, 7}) {
        Transfers f;
        const Channel c = f.channel(7);
        const Reg pending = f.kernel.scalar("pending");
        constexpr int64_t turns = 3, extent = 10, iterations = 15;
        Loop hot = loop_of(extent);
        Body body = f.aim(c);
        start_from(f.kernel, {c, {}, 7, pending}, 1, iterations, hot, false, f.code, body);
        Scalars scalars;
        scalars.set(pending, waiting);
        scalars.run(body);
        for (int64_t i = 0; i < turns * extent; i++) {
            scalars.iteration(hot.body);
            if (i == iterations) {
                EXPECT_EQ(scalars.started.size(), static_cast<size_t>(waiting * 4));
            }
        }
        EXPECT_EQ(scalars.get(pending), 0);
        if (waiting > 0)
            expect_in_order(scalars, c);
        else
            EXPECT_TRUE(scalars.started.empty());
    }
}

// Several transfers, some of one round: one after the other, at one distance and in their order.
TEST(EvenStarts, RoundsOfSeveralTransfersFollowEachOtherInANest) {
    constexpr int64_t turns = 4, extent = 10;
    Transfers f;
    std::vector<SpreadTransfer> transfers;
    for (const int64_t groups : {1, 1, 3}) transfers.push_back({f.channel(groups), {}, 0, {}});
    Loop hot = loop_of(extent);
    Body body = f.aim(transfers);
    EXPECT_TRUE(can_start_evenly_in_nest(transfers, turns, hot, f.code));
    EXPECT_FALSE(can_start_evenly_in_nest(transfers, 1, hot, f.code))
        << "groups would start in iterations that follow each other";
    ASSERT_TRUE(start_evenly_in_nest(f.kernel, transfers, turns, hot, f.code, body));
    Scalars scalars;
    scalars.run(body);
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < turns * extent; i++) {
        const size_t started = scalars.iteration(hot.body);
        if (started == 0) continue;
        EXPECT_EQ(started, 4u) << "a tile for each pad";
        starts.push_back(i);
    }
    ASSERT_EQ(starts.size(), 5u);
    for (size_t i = 1; i < starts.size(); i++) EXPECT_EQ(starts[i] - starts[i - 1], starts[0]);
}

}  // namespace
}  // namespace atalla::codegen
