// Tiles of a copy in the order in which they are moved: what the pads' engines do at the same time lies in several bank groups
// of the DRAM.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/passes.h"
#include "codegen/transfer_code.h"
#include "codegen/turns.h"
#include "isa/machine.h"

namespace atalla::codegen {
namespace {

// The tiles of a copy to or from a buffer of so many rows, in front of all loops, in the order in which they are moved.
std::vector<Tile> placed(const Machine &machine, int64_t rows, Copy copy, const PadLayout &layout) {
    Kernel kernel;
    kernel.machine = &machine;
    Allocation allocation;
    allocation.name = "rows";
    allocation.rows = rows;
    kernel.allocations.push_back(allocation);
    copy.tensor = copy.allocation = 0;
    kernel.body.push_back(std::move(copy));
    place(kernel, {{"rows", layout}});
    return kernel.body[0].copy->tiles;
}

// Rows of so many elements in columns: each vector of all rows lies in a pad of its own. Boxes of one column, or of all whole
// vectors.
std::vector<Tile> tiles_of_columns(const Machine &machine, int64_t rows, int64_t length, bool even, bool together = false) {
    const int64_t vectors = (length + 31) / 32;
    Copy copy;
    if (together) copy.boxes.push_back({0, 0, 32, {{length / 32, rows, 32}, {rows, 1, length}}});
    for (int64_t v = together ? length / 32 : 0; v < vectors; v++)
        copy.boxes.push_back({rows * v, 32 * v, static_cast<int>(std::min<int64_t>(32, length - 32 * v)), {{rows, 1, length}}});
    return placed(machine, rows * vectors, copy, {0, rows, even});
}

TEST(Turns, EveryOtherPadBeginsWithRowsOfAnotherBankGroup) {
    const Machine machine = find_machine("ax01");
    const int64_t page = machine.dram.row_bytes / 2;
    // 128 rows of 77 elements are four turns, of which the first two begin in one page and the last ones in the next.
    constexpr int64_t rows = 128, length = 77;
    constexpr size_t pads = 3;
    const std::vector<Tile> tiles = tiles_of_columns(machine, rows, length, false);
    ASSERT_EQ(tiles.size(), 4 * pads);
    std::set<std::pair<int, int64_t>> moved;
    for (size_t turn = 0; turn < 4; turn++) {
        std::set<int64_t> groups;
        for (size_t t = turn * pads; t < (turn + 1) * pads; t++) {
            groups.insert(tiles[t].mem / page % machine.dram.groups);
            moved.insert({tiles[t].pad, tiles[t].row});
        }
        EXPECT_EQ(groups.size(), 2u) << "turn " << turn;
    }
    EXPECT_EQ(moved.size(), tiles.size()) << "each tile once";
}

TEST(Turns, KeepTheOrderOfRowsWhereItIsWantedOrChangesNothing) {
    const Machine machine = find_machine("ax01");
    for (const auto &[rows, length, even] : {std::tuple{128, 77, true}, {128, 2048 + 5, false}, {32, 77, false}}) {
        std::map<int, int64_t> last;
        for (const Tile &tile : tiles_of_columns(machine, rows, length, even)) {
            const auto [before, first] = last.try_emplace(tile.pad, tile.row);
            EXPECT_TRUE(first || before->second < tile.row) << rows << " rows of " << length;
            before->second = tile.row;
        }
    }
}

// Of 197 elements three pads have two columns and one has one: turns of the same part of the rows, the first columns before the
// others, so that transfers are two runs, each with one jump of the pads that began later.
TEST(Turns, PadsOfWhichOneHasFewerColumnsKeepTheSameParts) {
    const Machine machine = find_machine("ax01");
    constexpr int64_t rows = 128, length = 197, part = 32;
    const int64_t page = machine.dram.row_bytes / 2;
    const std::vector<Tile> tiles = tiles_of_columns(machine, rows, length, false, true);
    ASSERT_EQ(tiles.size(), 28u);
    std::set<std::pair<int, int64_t>> moved;
    const auto part_of = [](const Tile &tile) { return tile.mem / length / part; };
    for (size_t turn = 0, t = 0; turn < 8; turn++) {
        const size_t pads = turn < 4 ? 4 : 3;
        std::set<int64_t> groups;
        for (size_t i = 0; i < pads; i++, t++) {
            EXPECT_EQ(tiles[t].pad, static_cast<int>(i));
            EXPECT_EQ(tiles[t].mem % length / 128, turn < 4 ? 0 : 1) << "column, turn " << turn;
            EXPECT_EQ(part_of(tiles[t]), (static_cast<int64_t>(turn) + (i % 2 == 1 ? 2 : 0)) % 4) << "turn " << turn;
            groups.insert(tiles[t].mem / page % machine.dram.groups);
            moved.insert({tiles[t].pad, tiles[t].row});
        }
        EXPECT_EQ(groups.size(), 2u) << "turn " << turn;
    }
    EXPECT_EQ(moved.size(), tiles.size()) << "each tile once";
    const std::vector<codegen::Run> runs = join_runs(split_rounds(tiles));
    ASSERT_EQ(runs.size(), 2u);
    for (const codegen::Run &run : runs) {
        EXPECT_EQ(run.count, 4);
        ASSERT_EQ(run.jumps.size(), 1u);
        EXPECT_EQ(run.jumps[0].tiles, run.group.size() == 4 ? 0b1010u : 0b010u);
        EXPECT_EQ(run.jumps[0].mem, -rows * length);
        EXPECT_EQ(run.jumps[0].rows, -rows);
    }
}

// In front of all loops a pad begins later and takes its first tiles last: planes of four pages, one in each of three pads,
// which all begin in one bank group.
TEST(Turns, PadsThatWouldMeetInOneBankGroupBeginApart) {
    const Machine machine = find_machine("ax01");
    const int64_t page = machine.dram.row_bytes / 2;
    constexpr int64_t planes = 3, rows = 512;
    constexpr size_t pads = 3;
    Copy copy;
    copy.boxes.push_back({0, 0, 32, {{planes, rows, rows * 32}, {rows, 1, 32}}});
    const std::vector<Tile> tiles = placed(machine, planes * rows, copy, {0, rows});
    ASSERT_EQ(tiles.size(), 16 * pads);
    std::set<std::pair<int, int64_t>> moved;
    std::map<int, int> backwards;
    std::map<int, int64_t> before;
    for (size_t turn = 0; turn < tiles.size() / pads; turn++) {
        std::set<int64_t> groups;
        for (size_t t = turn * pads; t < (turn + 1) * pads; t++) {
            const Tile &tile = tiles[t];
            groups.insert(tile.mem / page % machine.dram.groups);
            moved.insert({tile.pad, tile.row});
            backwards[tile.pad] += before.contains(tile.pad) && before[tile.pad] > tile.row;
            before[tile.pad] = tile.row;
        }
        EXPECT_EQ(groups.size(), 2u) << "turn " << turn;
    }
    EXPECT_EQ(moved.size(), tiles.size()) << "each tile once";
    EXPECT_EQ(backwards[0] + backwards[2], 0);
    EXPECT_EQ(backwards[1], 1);
}

// Rows that go round the pads, all in one page at a time: where a pad's tiles may have any order every other pad begins later,
// as long as no branch starts more tiles than there are pads.
TEST(Turns, TilesInAnyOrderBeginApart) {
    const Machine machine = find_machine("ax01");
    const int64_t page = machine.dram.row_bytes / 2, pads = machine.pad.count;
    const auto tiles_of_row = [&](int64_t length, bool any_order) {
        Copy copy;
        copy.boxes.push_back({0, 0, 32, {{length / 32, 1, 32}}});
        if (length % 32 > 0) copy.boxes.push_back({length / 32, length / 32 * 32, static_cast<int>(length % 32), {{1, 1, 1}}});
        copy.any_order = any_order;
        return placed(machine, (length + 31) / 32, copy, {});
    };
    for (const int64_t length : {int64_t{32000}, int64_t{7 * 4096 + 2048 + 5}}) {
        SCOPED_TRACE(length);
        const auto in_one_group = [&](const std::vector<Tile> &tiles) {
            size_t count = 0;
            for (size_t first = 0; first + 4 <= tiles.size(); first += 4) {
                std::set<int64_t> groups;
                for (size_t t = first; t < first + 4; t++) groups.insert(tiles[t].mem / page % machine.dram.groups);
                count += groups.size() == 1;
            }
            return count;
        };
        const std::vector<Tile> plain = tiles_of_row(length, false), apart = tiles_of_row(length, true);
        EXPECT_GE(in_one_group(plain), 7u);
        EXPECT_LE(in_one_group(apart), 2u);
        std::set<std::pair<int, int64_t>> moved;
        for (const Tile &tile : apart) moved.insert({tile.pad, tile.row});
        EXPECT_EQ(moved.size(), plain.size()) << "each tile once";
        for (const codegen::Run &run : split_runs(apart)) EXPECT_LE(run.group.size(), static_cast<size_t>(pads));
    }
}

// Parts of an image, each in a pad: rows of several tiles. All parts lie in one bank group for most of the time.
TEST(Turns, TilesOfAPageFollowEachOther) {
    const Machine machine = find_machine("ax01-psum");
    const int64_t page = machine.dram.row_bytes / 2;
    constexpr int64_t parts = 4, rows = 8, columns = 112, stored = 120, part = rows * stored, apart = 7 * columns * 32;
    Copy copy;
    copy.boxes.push_back({0, 0, 32, {{parts, part, apart}, {rows, stored, columns * 32}, {columns, 1, 32}}});
    const std::vector<Tile> tiles = placed(machine, parts * part, copy, {0, part});
    ASSERT_EQ(tiles.size() % parts, 0u);
    std::map<int, int64_t> last;
    size_t jumps = 0, mixed = 0;
    for (size_t first = 0; first < tiles.size(); first += parts) {
        std::map<int64_t, int> groups;
        for (size_t t = first; t < first + parts; t++) {
            const Tile &tile = tiles[t];
            const auto [before, begins] = last.try_emplace(tile.pad, tile.mem);
            jumps += !begins && tile.mem < before->second;
            before->second = tile.mem;
            groups[tile.mem / page % machine.dram.groups]++;
        }
        mixed += groups.size() > 1;
    }
    EXPECT_LE(jumps, 2u) << "from the end of every other part to its start";
    EXPECT_GE(4 * mixed, 3 * tiles.size() / parts);
}

// Eight rows of so many elements in each pad, `together` neighbours before the next pad's turn, which come at even distances.
std::vector<Tile> tiles_of_rows(const Machine &machine, int64_t length, int64_t pitch, int64_t together) {
    constexpr int64_t rows = 32;
    const int64_t vectors = length / 32;
    Copy copy;
    copy.boxes.push_back({0, 0, 32, {{vectors, 1, 32}, {rows, vectors, pitch}}});
    return placed(machine, rows * vectors, copy, {0, together * vectors, true});
}

// Rows of several pages would all be in one bank group at a time, those of four pages two and two in one bank.
TEST(Turns, PadsBeginInOtherBanksWhereTilesComeAtEvenDistances) {
    const Machine machine = find_machine("ax01");
    const int64_t page = machine.dram.row_bytes / 2;
    constexpr size_t pads = 4;
    for (const auto &[length, pitch, together, runs] : {std::tuple{2 * page, 2 * page, 1, 8},
                                                        {2 * page, 4 * page, 1, 8},
                                                        {4 * page, 4 * page, 1, 16},
                                                        {2 * page, 2 * page, 8, 4}}) {
        SCOPED_TRACE(testing::Message() << length / page << " of " << pitch / page << " pages, " << together
                                        << " rows to a pad");
        const std::vector<Tile> tiles = tiles_of_rows(machine, length, pitch, together);
        ASSERT_EQ(tiles.size(), static_cast<size_t>(32 * length / 1024));
        std::set<std::pair<int, int64_t>> moved;
        size_t apart = 0;  // turns whose tiles are in as many banks as there are pads
        for (size_t turn = 0; turn < tiles.size() / pads; turn++) {
            std::set<int64_t> banks, groups;
            for (size_t t = turn * pads; t < (turn + 1) * pads; t++) {
                banks.insert(tiles[t].mem / page % machine.dram.banks);
                groups.insert(tiles[t].mem / page % machine.dram.groups);
                moved.insert({tiles[t].pad, tiles[t].row});
            }
            apart += banks.size() == pads && groups.size() == 2;
        }
        EXPECT_EQ(moved.size(), tiles.size()) << "each tile once";
        EXPECT_GE(apart, tiles.size() / pads * 3 / 4);
        EXPECT_LE(split_runs(tiles).size(), static_cast<size_t>(runs)) << "few jumps";
    }
}

// Eight rows of a pad lie two and a half pages apart from those of the next one: the fourth pad would open another page of the
// first one's bank in half of all turns. Every other pad begins later, which is one jump of a single branch.
TEST(Turns, PadsThatMeetInABankNowAndThenBeginInOthers) {
    const Machine machine = find_machine("ax01");
    const int64_t page = machine.dram.row_bytes / 2;
    constexpr size_t pads = 4;
    constexpr int64_t length = 1280;
    const std::vector<Tile> tiles = tiles_of_rows(machine, length, length, 8);
    ASSERT_EQ(tiles.size(), static_cast<size_t>(32 * length / 1024));
    std::set<std::pair<int, int64_t>> moved;
    for (size_t turn = 0; turn < tiles.size() / pads; turn++) {
        std::set<int64_t> pages, banks;
        for (size_t t = turn * pads; t < (turn + 1) * pads; t++) {
            pages.insert(tiles[t].mem / page);
            banks.insert(tiles[t].mem / page % machine.dram.banks);
            moved.insert({tiles[t].pad, tiles[t].row});
        }
        EXPECT_EQ(banks.size(), pages.size()) << "turn " << turn;
    }
    EXPECT_EQ(moved.size(), tiles.size()) << "each tile once";
    const std::vector<codegen::Run> runs = split_runs(tiles), joined = join_runs_of_some_pads(runs);
    EXPECT_EQ(runs.size(), 2u);
    ASSERT_EQ(joined.size(), 1u);
    ASSERT_EQ(joined[0].jumps.size(), 1u);
    std::set<int> later;
    for (size_t i = 0; i < pads; i++)
        if ((joined[0].jumps[0].tiles >> i & 1u) != 0) later.insert(joined[0].group[i].pad);
    EXPECT_EQ(later, (std::set<int>{1, 3}));
}

// Where the array has more to do than DRAM, tiles stay in their order.
TEST(Turns, PadsKeepTheirOrderBesideLongVisits) {
    const Machine machine = find_machine("ax01");
    codegen::Kernel kernel;
    kernel.machine = &machine;
    std::vector<Tile> tiles;
    for (int pad = 0; pad < 4; pad++)
        for (int64_t i = 0; i < 10; i++) tiles.push_back({pad, 32 * i, 10240 * pad + 1024 * i, 32, 32, 32});
    const PadLayout layout{0, 320, true};
    constexpr int64_t one_row = 40 * 65, eight_rows = 40 * 72;
    EXPECT_EQ(split_runs(in_turns(kernel, tiles, layout, false, false, one_row)).size(), 2u);
    EXPECT_EQ(split_runs(in_turns(kernel, tiles, layout, false, false, eight_rows)).size(), 1u);
    EXPECT_TRUE(kernel.open.contains(codegen::Choice::PlainTurns));
    kernel.choices = codegen::Choice::PlainTurns;
    EXPECT_EQ(split_runs(in_turns(kernel, tiles, layout, false, false, one_row)).size(), 1u);
}

// Runs of which some pads jump from one to the next share a branch; where all do, each keeps its own.
TEST(Turns, RunsAreJoinedWhereSomePadsJump) {
    const auto run = [](int64_t first, int64_t second) {
        return codegen::Run{{{0, 0, first, 32, 32, 32}, {1, 0, second, 32, 32, 32}}, 4, 0, 1024};
    };
    EXPECT_EQ(join_runs_of_some_pads({run(0, 8192), run(4096, 0)}).size(), 1u);
    EXPECT_EQ(join_runs_of_some_pads({run(0, 8192), run(8192, 16384)}).size(), 2u);
    EXPECT_EQ(join_runs({run(0, 8192), run(8192, 16384)}).size(), 1u);
}

}  // namespace
}  // namespace atalla::codegen
