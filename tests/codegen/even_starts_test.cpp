// Transfers that start from inside a hot loop at one distance for all.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "codegen/spread.h"
#include "tests/codegen/transfer_starts.h"

namespace atalla::codegen {
namespace {

// Groups that all start from inside a hot loop, behind what is in front of it.
struct Started {
    Started(Transfers &f, const Channel &channel, int64_t extent) : hot(loop_of(extent)) {
        Body body = f.aim(channel);
        start_evenly(f.kernel, {{channel, {}, 0, {}}}, 0, hot, f.code, body);
        scalars.run(body);
    }
    Loop hot;
    Scalars scalars;
};

TEST(EvenStarts, StartEveryGroupOnceHoweverManyIterationsAreLeftToTheLoop) {
    for (const int64_t extent : {9, 15, 16, 24, 31, 32, 128})
        for (const int64_t groups : {1, 2, 3, 4, 7, 8, 14, 31}) {
            Transfers f;
            const Channel c = f.channel(groups);
            Loop hot = loop_of(extent);
            const std::vector<SpreadTransfer> transfers = {{c, {}, 0, {}}};
            EXPECT_EQ(can_start_evenly(transfers, hot, f.code), groups < sure_iterations(hot))
                << groups << " groups in " << extent;
            if (!can_start_evenly(transfers, hot, f.code)) continue;
            for (const int64_t iterations : {sure_iterations(hot), extent}) {
                SCOPED_TRACE(std::to_string(groups) + " groups in " + std::to_string(iterations) + " of " +
                             std::to_string(extent) + " iterations");
                Started started(f, c, extent);
                started.scalars.iteration(started.hot.body);
                EXPECT_TRUE(started.scalars.started.empty()) << "a result leaves in the first iteration";
                for (int64_t i = 1; i < iterations; i++) started.scalars.iteration(started.hot.body);
                expect_in_order(started.scalars, c);
            }
        }
}

TEST(EvenStarts, AreApartByTheSameNumberOfIterationsOrOneMore) {
    for (const auto &[extent, groups] : {std::pair{16, 8}, {32, 16}, {24, 7}, {31, 29}, {16, 2}}) {
        Transfers f;
        const Channel c = f.channel(groups);
        Started started(f, c, extent);
        Scalars &scalars = started.scalars;
        std::set<int> distances;
        int last = -1;
        for (int i = 0; i < sure_iterations(started.hot); i++) {
            if (scalars.iteration(started.hot.body) == 0) continue;
            if (last >= 0) distances.insert(i - last);
            last = i;
        }
        SCOPED_TRACE(std::to_string(groups) + " groups in " + std::to_string(extent) + " iterations");
        expect_in_order(scalars, c);
        ASSERT_FALSE(distances.empty());
        EXPECT_LE(*distances.rbegin() - *distances.begin(), 1);
        EXPECT_GE(*distances.rbegin(), static_cast<int>(sure_iterations(started.hot) / (groups + 1)));
    }
}

// The iterations in which a tile of each of four pads starts: of a loop of 16 iterations that take so many cycles, in the first
// of which a result leaves.
std::vector<int> starts_of_tiles(int64_t cycles, int64_t of_result = 1) {
    Transfers f;
    std::vector<SpreadTransfer> transfers;
    for (int pad = 0; pad < 4; pad++) {
        Run run;
        run.group.push_back({pad, 0, pad * 1024, 32, 32, 1024});
        transfers.push_back({f.code.channel(f.copy, run), {}, 0, {}});
    }
    Loop hot = loop_of(16);
    f.take_cycles(hot, cycles);
    Body body;
    start_evenly(f.kernel, transfers, of_result, hot, f.code, body);
    Scalars scalars;
    scalars.run(body);
    const Body branches = branches_behind(hot, cycles);
    std::vector<int> starts;
    for (int i = 0; i < sure_iterations(hot); i++) {
        scalars.iteration(branches);
        while (starts.size() < scalars.started.size()) starts.push_back(i);
    }
    return starts;
}

// 64 beats of one bank group take 158 cycles.
TEST(EvenStarts, AreEarlierWhereTheLastGroupWouldEndBehindTheLoop) {
    EXPECT_EQ(starts_of_tiles(480), (std::vector<int>{4, 7, 10, 13})) << "the rest of the loop takes longer";
    EXPECT_EQ(starts_of_tiles(60), (std::vector<int>{3, 6, 9, 12}));
    EXPECT_EQ(starts_of_tiles(40), (std::vector<int>{2, 5, 8, 11})) << "a result leaves in front";
    EXPECT_EQ(starts_of_tiles(60, 8), (std::vector<int>{4, 7, 10, 13})) << "groups of a result leave up to there";
    EXPECT_EQ(starts_of_tiles(30), (std::vector<int>{2, 5, 8, 11})) << "no earlier than that";
}

// Groups of 256 beats, so many of them.
Channel long_groups(Transfers &f, int64_t groups) {
    codegen::Run run{{}, groups, 32, 4096};
    for (int pad = 0; pad < 4; pad++) run.group.push_back({pad, 0, pad * 4096 * groups, 32, 32, 32});
    return f.code.channel(f.copy, run);
}

// A loop that loads weights, which takes at least 64 cycles an iteration.
Loop loop_of_weights(int64_t extent) {
    Loop hot = loop_of(extent);
    for (int weight = 0; weight < 32; weight++) {
        Op load;
        load.opcode = Opcode::lw_vi;
        hot.body.push_back(load);
    }
    return hot;
}

Body branches_of(Loop &hot) { return branches_behind(hot, 32); }

// Where DRAM is busy for most of a loop that loads weights, transfers have all iterations but the one of a result, two pads at
// a time, and all start however many iterations are left to the loop.
TEST(EvenStarts, HaveTheWholeLoopWhereItLoadsWeightsAndDramIsBusy) {
    for (const auto &[groups, extent, busy] :
         {std::tuple{8, 32, true}, {16, 36, true}, {9, 31, true}, {12, 47, true}, {8, 64, false}}) {
        Transfers f;
        const Channel c = long_groups(f, groups);
        Loop hot = loop_of_weights(extent);
        Body body;
        start_evenly(f.kernel, {{c, {}, 0, {}}}, 1, hot, f.code, body);
        const int64_t sure = sure_iterations(hot);
        const Body branches = branches_of(hot);
        for (const int64_t iterations : {sure, hot.extent}) {
            SCOPED_TRACE(fmt::format("{} groups in {} of {} iterations", groups, iterations, extent));
            Scalars scalars;
            scalars.run(f.aim(c));
            scalars.run(body);
            std::set<size_t> together;
            int64_t first = -1;
            for (int64_t i = 0; i < iterations; i++) {
                const size_t started = scalars.iteration(branches);
                if (started == 0) continue;
                together.insert(started);
                if (first < 0) first = i;
            }
            EXPECT_EQ(first, busy ? 1 : 8);
            EXPECT_EQ(*together.begin(), busy ? 2u : 4u);
            std::map<int64_t, std::vector<int64_t>> groups_of_pad;  // pads by their place in memory
            for (const auto &[row, memory] : scalars.started)
                groups_of_pad[memory / 2 / (c.run.mem_step * groups)].push_back(row / 64 / c.run.row_step);
            EXPECT_EQ(groups_of_pad.size(), 4u);
            std::vector<int64_t> all(static_cast<size_t>(groups));
            std::iota(all.begin(), all.end(), 0);
            for (const auto &[pad, started] : groups_of_pad) EXPECT_EQ(started, all) << "pad " << pad;
        }
    }
}

// A bias, for one, comes as a single group.
TEST(EvenStarts, ASingleGroupStaysWholeBesideHalves) {
    Transfers f;
    const Channel many = long_groups(f, 16), one = long_groups(f, 1);
    Loop hot = loop_of_weights(36);
    Body body;
    start_evenly(f.kernel, {{many, {}, 0, {}}, {one, {}, 0, {}}}, 1, hot, f.code, body);
    const Body branches = branches_of(hot);
    EXPECT_EQ(branches.size(), 3u);
    Scalars scalars;
    scalars.run(body);
    std::map<size_t, int> times;  // by the transfers that start together
    for (int64_t i = 0; i < sure_iterations(hot); i++) {
        if (const size_t started = scalars.iteration(branches); started > 0) times[started]++;
    }
    EXPECT_EQ(scalars.started.size(), 17u * 4);
    EXPECT_GE(times[2], 26) << "of 32 halves, some of which may start together";
}

// One register counts the groups of a loop further out: whole ones.
TEST(EvenStarts, GroupsOfALoopFurtherOutAreNotHalved) {
    Transfers f;
    const Channel outer = long_groups(f, 24);
    const Reg left = f.kernel.scalar("left");
    Loop hot = loop_of_weights(32);
    Body body;
    start_evenly(f.kernel, {{outer, {}, 8, left}}, 1, hot, f.code, body);
    const Body branches = branches_of(hot);
    Scalars scalars;
    scalars.run(f.aim(outer));
    scalars.set(left, 24);
    for (int run = 0; run < 3; run++) {
        scalars.run(body);
        for (int64_t i = 0; i < hot.extent; i++) scalars.iteration(branches);
    }
    EXPECT_EQ(scalars.started.size(), 24u * 4);
    EXPECT_EQ(scalars.get(left), 0);
}

}  // namespace
}  // namespace atalla::codegen
