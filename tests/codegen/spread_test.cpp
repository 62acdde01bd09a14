// Transfers that start from inside a hot loop: every group once and in order, however often the loop runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "codegen/spread.h"
#include "tests/codegen/transfer_starts.h"

namespace atalla::codegen {
namespace {

// As many tiles in each half, in both bank groups of the DRAM where there are several of each.
TEST(Spread, HalvesHaveTilesInBothBankGroups) {
    const Machine machine = find_machine("ax01");
    const int64_t page = machine.dram.row_bytes / 2;
    const auto halves = [&](const std::vector<int64_t> &pages) {
        std::vector<Tile> tiles;
        for (const int64_t at : pages) tiles.push_back({static_cast<int>(tiles.size()), 0, at * page, 32, 32, 32});
        return halves_of(tiles, machine);
    };
    EXPECT_EQ(halves({0, 0, 1, 1}), (std::vector<size_t>{0, 1, 0, 1}));
    EXPECT_EQ(halves({0, 1, 2, 3}), (std::vector<size_t>{0, 0, 1, 1}));
    EXPECT_EQ(halves({0, 0, 0, 1}), (std::vector<size_t>{0, 1, 0, 1}));
    EXPECT_EQ(halves({1, 0, 1, 1}), (std::vector<size_t>{1, 0, 0, 1}));
    EXPECT_EQ(halves({0, 0, 0, 0}), (std::vector<size_t>{0, 1, 0, 1}));
}

// Transfers that take longer than the loop: two pads at a time, each in its order, every group once.
TEST(Spread, StartsHalvesOfGroupsWhereTransfersTakeLonger) {
    for (const bool longer : {true, false}) {
        Transfers f;
        const Channel c = f.channel(4);
        Loop hot = loop_of(longer ? 32 : 1024);
        Body body = f.aim(c);
        spread(f.kernel, {{c, {}, 0, {}}}, {}, 1, hot, f.code, body);
        Scalars scalars;
        scalars.run(body);
        std::map<int64_t, std::vector<int64_t>> groups_of_pad;  // pads by their place in memory
        for (int64_t i = 0; i < sure_iterations(hot); i++) {
            if (const size_t started = scalars.iteration(hot.body); started > 0) {
                EXPECT_EQ(started, longer ? 2u : 4u);
            }
        }
        for (const auto &[row, memory] : scalars.started)
            groups_of_pad[memory / 2 % c.run.mem_step].push_back(row / 64 / c.run.row_step);
        EXPECT_EQ(groups_of_pad.size(), 4u);
        for (const auto &[pad, groups] : groups_of_pad) EXPECT_EQ(groups, (std::vector<int64_t>{0, 1, 2, 3}));
    }
}

// Columns of the same rows, which one bank group serves together: two pads at a time where the loop runs so often that it pays.
// Each half counts its own steps to the next columns.
TEST(Spread, ColumnsOfTheSameRowsStartAsHalves) {
    for (const int64_t runs : {1, 32}) {
        Transfers f;
        constexpr int64_t length = 257, rows = 32, groups = 4;
        const codegen::Run::Jump jump{128 - groups / 2 * rows * length, groups, 1, 100};
        codegen::Run run{{}, groups, rows, rows * length, 0, {jump}};
        for (int pad = 0; pad < 4; pad++) run.group.push_back({pad, 0, pad * 32, rows, 32, length});
        const Channel c = f.code.channel(f.copy, run);
        Loop hot = loop_of(32);
        constexpr int64_t cycles = 48;
        f.take_cycles(hot, cycles);
        Body body = f.aim(c);
        spread(f.kernel, {{c, {}, 0, {}}}, {}, runs, hot, f.code, body);
        const Body branches = branches_behind(hot, cycles);
        Scalars scalars;
        scalars.set_constants(f.kernel);
        scalars.run(body);
        for (int64_t i = 0; i < sure_iterations(hot); i++) {
            if (const size_t started = scalars.iteration(branches); started > 0) {
                EXPECT_EQ(started, runs > 1 ? 2u : 4u) << i;
            }
        }
        ASSERT_EQ(scalars.started.size(), 4u * groups);
        std::multiset<std::pair<int64_t, int64_t>> expected;
        for (int64_t group = 0; group < groups; group++)
            for (int64_t pad = 0; pad < 4; pad++) {
                const bool jumps = group >= groups / 2;
                expected.insert({(group * rows + (jumps ? jump.rows : 0)) * 64,
                                 (pad * 32 + group * rows * length + (jumps ? jump.mem : 0)) * 2});
            }
        EXPECT_EQ(std::multiset(scalars.started.begin(), scalars.started.end()), expected);
    }
}

// Of two tiles for each pad two pads begin with the first ones and two with the second ones: a pad's are as far apart as all
// others of the copy let them be, and none is left out, however few iterations there are.
TEST(Spread, TilesOfAPadAreFarApart) {
    for (const int64_t extent : {2, 3, 6, 7, 9, 16, 40}) {
        SCOPED_TRACE(extent);
        Transfers f;
        const auto tile = [](int pad, int64_t place) { return Tile{pad, place * 8, (pad + 4 * place) * 1024, 8, 32, 1024}; };
        const std::vector<codegen::Run> runs = {
            {{tile(0, 0), tile(2, 0)}, 1, 0, 0}, {{tile(1, 1), tile(3, 1)}, 2, -8, -4096}, {{tile(0, 1), tile(2, 1)}, 1, 0, 0}};
        std::vector<SpreadTransfer> transfers;
        for (const codegen::Run &run : runs) transfers.push_back({f.code.channel(f.copy, run), {}, 0, {}});
        Loop hot = loop_of(extent);
        ASSERT_EQ(can_spread(transfers, {}, hot, f.code), extent > 2);
        if (extent == 2) continue;
        Body body = f.aim(transfers);
        spread(f.kernel, transfers, {}, 1, hot, f.code, body);
        Scalars scalars;
        scalars.run(body);
        std::map<int64_t, std::vector<int64_t>> iterations_of_pad;  // pads by their place in memory
        for (int64_t i = 0; i < sure_iterations(hot); i++) {
            for (size_t left = scalars.iteration(hot.body); left > 0; left--)
                iterations_of_pad[scalars.started[scalars.started.size() - left].second / 2048 % 4].push_back(i);
        }
        ASSERT_EQ(iterations_of_pad.size(), 4u);
        for (const auto &[pad, iterations] : iterations_of_pad) {
            ASSERT_EQ(iterations.size(), 2u) << "pad " << pad;
            EXPECT_GE(iterations[1] - iterations[0], sure_iterations(hot) / 2 - 1) << "pad " << pad;
        }
    }
}

// Of a lone tile the share is no whole iteration, which it does not need: it starts once, in front of what follows it.
TEST(Spread, ALoneTileBesideManyStartsToo) {
    Transfers f;
    const Channel many = f.channel(6);
    const codegen::Run one{{{0, 64, 0, 1, 32, 32}}, 1, 0, 0};
    const std::vector<SpreadTransfer> transfers = {{f.code.channel(f.copy, one), {}, 0, {}}, {many, {}, 0, {}}};
    Loop hot = loop_of(16);
    ASSERT_TRUE(can_spread(transfers, {}, hot, f.code));
    Body body = f.aim(transfers);
    spread(f.kernel, transfers, {}, 1, hot, f.code, body);
    Scalars scalars;
    scalars.run(body);
    for (int64_t i = 0; i < sure_iterations(hot); i++) scalars.iteration(hot.body);
    EXPECT_EQ(std::count_if(scalars.started.begin(), scalars.started.end(), [](const auto &s) { return s.first == 64 * 64; }),
              1);
    EXPECT_EQ(scalars.started.size(), 6 * 4 + 1u);
}

// A load of one row waits for its engine in front of the last group of a result: the rest of the loop then runs beside that
// group.
TEST(Spread, WhatIsShortComesBeforeTheLastGroupOfAResult) {
    Transfers f;
    Copy store = f.copy, load = f.copy;
    store.load = false;
    codegen::Run run{{}, 3, 32, 4096};
    for (int pad = 0; pad < 4; pad++) run.group.push_back({pad, 0, pad * 1024, 32, 32, 1024});
    const Channel result = f.code.channel(store, run), numbers = f.code.channel(load, {{{0, 2000, 0, 1, 32, 32}}});
    Loop hot = loop_of(8);
    f.take_cycles(hot, 48);
    Body body;
    spread(f.kernel, {{result, {}, 0, {}}, {numbers, {}, 0, {}}}, {}, 1, hot, f.code, body);
    const Body branches = branches_behind(hot, 48);
    Scalars scalars;
    scalars.run(body);
    scalars.set(numbers.pad[0], 77);
    size_t loaded_behind = 0;
    for (int64_t i = 0; i < hot.extent; i++) {
        scalars.iteration(branches);
        for (size_t at = 0; at < scalars.started.size(); at++)
            if (scalars.started[at].first == 77) loaded_behind = at;
    }
    EXPECT_EQ(scalars.started.size(), 3u * 4 + 1);
    EXPECT_EQ(loaded_behind, 2u * 4) << "behind two groups of the result";
}

// The iteration in which a lone group starts: of a loop of 8 iterations that take so many cycles, behind results of 256 beats.
int64_t start_of_lone_group(int64_t cycles, int rows) {
    Transfers f;
    std::vector<Tile> results;
    Run run;
    for (int pad = 0; pad < 4; pad++) {
        results.push_back({pad, 0, pad * 1024, 32, 32, 1024});
        run.group.push_back({pad, 0, pad * 1024, rows, 32, 1024});
    }
    Loop hot = loop_of(8);
    f.take_cycles(hot, cycles);
    Body body;
    spread(f.kernel, {{f.code.channel(f.copy, run), {}, 0, {}}}, results, 1, hot, f.code, body);
    Scalars scalars;
    scalars.run(body);
    Body branch;
    branch.push_back(std::move(hot.body.back()));
    int64_t iteration = 0;
    for (; iteration < hot.extent && scalars.started.empty(); iteration++) scalars.iteration(branch);
    return iteration - 1;
}

TEST(Spread, ALoneGroupStartsWhenTheEnginesAreFreeIfTheRestOfTheLoopIsShorterThanItsTransfers) {
    constexpr int64_t even = 3;  // its share of the 7 iterations that are sure to run
    EXPECT_EQ(start_of_lone_group(48, 24), even + 1)
        << "the engines are busy for 264 cycles, the rest takes no longer than the transfers";
    EXPECT_EQ(start_of_lone_group(480, 24), even) << "the engines are free";
    EXPECT_EQ(start_of_lone_group(48, 32 * 4), even) << "the transfers take longer than the loop";
}

}  // namespace
}  // namespace atalla::codegen
