// Transfers that start from inside a hot loop: every group once and in order, however often the loop runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "codegen/result_transfer.h"
#include "codegen/rings.h"
#include "codegen/spread.h"
#include "codegen/transfer_code.h"
#include "isa/machine.h"

namespace atalla::codegen {
namespace {

// Runs scalar operations; transfers are noted by where they read the memory.
class Scalars {
public:
    void run(const Op &op) {
        if (op.opcode == Opcode::scpad_ld || op.opcode == Opcode::scpad_st) {
            started.push_back({values_[op.src[0].id], values_[op.src[1].id]});
            return;
        }
        int64_t result = 0;
        const auto source = [&](size_t i) { return values_[op.src[i].id]; };
        if (op.value) {
            result = op.value->constant;
            for (Reg r : op.src) result += r.defined() ? values_[r.id] : 0;
        } else if (op.opcode == Opcode::slt_s) {
            result = source(0) < source(1);
        } else if (op.opcode == Opcode::slli_s) {
            result = source(0) * (int64_t{1} << op.imm);
        } else if (op.opcode == Opcode::srai_s) {
            result = source(0) >> op.imm;
        } else if (op.opcode == Opcode::and_s) {
            result = source(0) & source(1);
        } else {
            FAIL() << "an operation that the test does not know";
        }
        values_[op.dst.id] = result;
    }
    // An iteration of a loop of branches that are taken where their register is 0, or not below it, and add to it.
    void iteration(const Body &loop) {
        for (const Node &node : loop) {
            const int64_t due = values_[node.op->src[0].id];
            const bool taken = node.op->opcode == Opcode::beq_s ? due == 0 : due >= 0;
            values_[node.op->src[0].id] += node.op->aux;
            for (size_t i = 0; taken && i < node.op->side->size(); i++) run((*node.op->side)[i]);
        }
    }
    void set(Reg reg, int64_t value) { values_[reg.id] = value; }
    void set_constants(const Kernel &kernel) {
        for (size_t id = 0; id < kernel.registers.size(); id++)
            if (kernel.registers[id].constant) values_[static_cast<int32_t>(id)] = *kernel.registers[id].constant;
    }
    int64_t get(Reg reg) { return values_[reg.id]; }
    std::vector<std::pair<int64_t, int64_t>> started;  // pad row, memory; both in bytes

private:
    std::map<int32_t, int64_t> values_;
};

struct Fixture {
    Fixture() : machine(find_machine("ax01")) {
        kernel.machine = &machine;
        Allocation pads;
        pads.name = "B";
        pads.rows = 4096;
        pads.interleave = 4;
        pads.pads = {0, 1, 2, 3};
        pads.base_row = 0;
        kernel.allocations = {pads};
        kernel.tensors = {{"b", {1024, 1024}, false, kernel.scalar("b")}};
        copy.tensor = 0;
        copy.allocation = 0;
    }
    // So many groups of one tile in each of the pads.
    Channel channel(TransferCode &code, int64_t groups) const {
        Run run{{}, groups, 8, 4096};
        for (int pad = 0; pad < 4; pad++) run.group.push_back({pad, 0, pad * 1024, 8, 32, 1024});
        return code.channel(copy, run);
    }
    // What starts while the hot loop runs so many times, from the first group on.
    static void expect_in_order(const Scalars &scalars, const Channel &c) {
        ASSERT_EQ(scalars.started.size(), static_cast<size_t>(c.run.count) * 4);
        for (size_t i = 0; i < scalars.started.size(); i++) {
            const auto group = static_cast<int64_t>(i / 4);
            EXPECT_EQ(scalars.started[i].first, group * c.run.row_step * 64) << "transfer " << i;
            EXPECT_EQ(scalars.started[i].second, (static_cast<int64_t>(i % 4) * 1024 + group * c.run.mem_step) * 2)
                << "transfer " << i;
        }
    }
    Machine machine;
    Kernel kernel;
    Copy copy;
};

// Groups that all start from inside a hot loop: what is in front of it, and the loop.
struct Started {
    Started(Fixture &f, TransferCode &code, const Channel &channel, int64_t extent) {
        hot.extent = extent;
        code.aim(channel, true, {}, {}, {}, body);
        start_evenly(f.kernel, {{channel, {}, 0, {}}}, 0, hot, code, body);
        for (const Node &node : body) scalars.run(*node.op);
    }
    Body body;
    Loop hot;
    Scalars scalars;
};

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
        Fixture f;
        Rings rings(f.kernel, false);
        TransferCode code(f.kernel, rings);
        const Channel c = f.channel(code, 4);
        Loop hot;
        hot.extent = longer ? 32 : 1024;
        Body body;
        code.aim(c, true, {}, {}, {}, body);
        spread(f.kernel, {{c, {}, 0, {}}}, {}, 1, hot, code, body);
        Scalars scalars;
        for (const Node &node : body) scalars.run(*node.op);
        std::map<int64_t, std::vector<int64_t>> groups_of_pad;  // pads by their place in memory
        for (int64_t i = 0; i < sure_iterations(hot); i++) {
            const size_t before = scalars.started.size();
            scalars.iteration(hot.body);
            if (scalars.started.size() > before) {
                EXPECT_EQ(scalars.started.size() - before, longer ? 2u : 4u);
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
        Fixture f;
        Rings rings(f.kernel, false);
        TransferCode code(f.kernel, rings);
        constexpr int64_t length = 257, rows = 32, groups = 4;
        const codegen::Run::Jump jump{128 - groups / 2 * rows * length, groups, 1, 100};
        codegen::Run run{{}, groups, rows, rows * length, 0, {jump}};
        for (int pad = 0; pad < 4; pad++) run.group.push_back({pad, 0, pad * 32, rows, 32, length});
        const Channel c = code.channel(f.copy, run);
        Loop hot;
        hot.extent = 32;
        const Reg counter = f.kernel.scalar("counter");
        constexpr int computes = 48;
        for (int i = 0; i < computes; i++) hot.body.push_back(value_op(counter, {1, {}}, {counter}));
        Body body;
        code.aim(c, true, {}, {}, {}, body);
        spread(f.kernel, {{c, {}, 0, {}}}, {}, runs, hot, code, body);
        hot.body.erase(hot.body.begin(), hot.body.begin() + computes);
        Scalars scalars;
        scalars.set_constants(f.kernel);
        for (const Node &node : body) scalars.run(*node.op);
        for (int64_t i = 0; i < sure_iterations(hot); i++) {
            const size_t before = scalars.started.size();
            scalars.iteration(hot.body);
            if (scalars.started.size() > before) {
                EXPECT_EQ(scalars.started.size() - before, runs > 1 ? 2u : 4u) << i;
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
        Fixture f;
        Rings rings(f.kernel, false);
        TransferCode code(f.kernel, rings);
        const auto tile = [](int pad, int64_t place) { return Tile{pad, place * 8, (pad + 4 * place) * 1024, 8, 32, 1024}; };
        const std::vector<codegen::Run> runs = {
            {{tile(0, 0), tile(2, 0)}, 1, 0, 0}, {{tile(1, 1), tile(3, 1)}, 2, -8, -4096}, {{tile(0, 1), tile(2, 1)}, 1, 0, 0}};
        std::vector<SpreadTransfer> transfers;
        for (const codegen::Run &run : runs) transfers.push_back({code.channel(f.copy, run), {}, 0, {}});
        Loop hot;
        hot.extent = extent;
        ASSERT_EQ(can_spread(transfers, {}, hot, code), extent > 2);
        if (extent == 2) continue;
        Body body;
        for (const SpreadTransfer &t : transfers) code.aim(t.channel, true, {}, {}, {}, body);
        spread(f.kernel, transfers, {}, 1, hot, code, body);
        Scalars scalars;
        for (const Node &node : body) scalars.run(*node.op);
        std::map<int64_t, std::vector<int64_t>> iterations_of_pad;  // pads by their place in memory
        for (int64_t i = 0; i < sure_iterations(hot); i++) {
            const size_t before = scalars.started.size();
            scalars.iteration(hot.body);
            for (size_t t = before; t < scalars.started.size(); t++)
                iterations_of_pad[scalars.started[t].second / 2048 % 4].push_back(i);
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
    Fixture f;
    Rings rings(f.kernel, false);
    TransferCode code(f.kernel, rings);
    const Channel many = f.channel(code, 6);
    const codegen::Run one{{{0, 64, 0, 1, 32, 32}}, 1, 0, 0};
    const std::vector<SpreadTransfer> transfers = {{code.channel(f.copy, one), {}, 0, {}}, {many, {}, 0, {}}};
    Loop hot;
    hot.extent = 16;
    ASSERT_TRUE(can_spread(transfers, {}, hot, code));
    Body body;
    for (const SpreadTransfer &t : transfers) code.aim(t.channel, true, {}, {}, {}, body);
    spread(f.kernel, transfers, {}, 1, hot, code, body);
    Scalars scalars;
    for (const Node &node : body) scalars.run(*node.op);
    for (int64_t i = 0; i < sure_iterations(hot); i++) scalars.iteration(hot.body);
    EXPECT_EQ(std::count_if(scalars.started.begin(), scalars.started.end(), [](const auto &s) { return s.first == 64 * 64; }),
              1);
    EXPECT_EQ(scalars.started.size(), 6 * 4 + 1u);
}

TEST(EvenStarts, StartEveryGroupOnceHoweverManyIterationsAreLeftToTheLoop) {
    for (const int64_t extent : {9, 15, 16, 24, 31, 32, 128})
        for (const int64_t groups : {1, 2, 3, 4, 7, 8, 14, 31}) {
            Fixture f;
            Rings rings(f.kernel, false);
            TransferCode code(f.kernel, rings);
            const Channel c = f.channel(code, groups);
            Loop hot;
            hot.extent = extent;
            const std::vector<SpreadTransfer> transfers = {{c, {}, 0, {}}};
            EXPECT_EQ(can_start_evenly(transfers, hot, code), groups < sure_iterations(hot))
                << groups << " groups in " << extent;
            if (!can_start_evenly(transfers, hot, code)) continue;
            for (const int64_t iterations : {sure_iterations(hot), extent}) {
                SCOPED_TRACE(std::to_string(groups) + " groups in " + std::to_string(iterations) + " of " +
                             std::to_string(extent) + " iterations");
                Started started(f, code, c, extent);
                started.scalars.iteration(started.hot.body);
                EXPECT_TRUE(started.scalars.started.empty()) << "a result leaves in the first iteration";
                for (int64_t i = 1; i < iterations; i++) started.scalars.iteration(started.hot.body);
                Fixture::expect_in_order(started.scalars, c);
            }
        }
}

TEST(EvenStarts, AreApartByTheSameNumberOfIterationsOrOneMore) {
    for (const auto &[extent, groups] : {std::pair{16, 8}, {32, 16}, {24, 7}, {31, 29}, {16, 2}}) {
        Fixture f;
        Rings rings(f.kernel, false);
        TransferCode code(f.kernel, rings);
        const Channel c = f.channel(code, groups);
        Started started(f, code, c, extent);
        Scalars &scalars = started.scalars;
        std::set<int> distances;
        int last = -1;
        for (int i = 0; i < sure_iterations(started.hot); i++) {
            const size_t before = scalars.started.size();
            scalars.iteration(started.hot.body);
            if (scalars.started.size() == before) continue;
            if (last >= 0) distances.insert(i - last);
            last = i;
        }
        SCOPED_TRACE(std::to_string(groups) + " groups in " + std::to_string(extent) + " iterations");
        Fixture::expect_in_order(scalars, c);
        ASSERT_FALSE(distances.empty());
        EXPECT_LE(*distances.rbegin() - *distances.begin(), 1);
        EXPECT_GE(*distances.rbegin(), static_cast<int>(sure_iterations(started.hot) / (groups + 1)));
    }
}

// The iterations in which a tile of each of four pads starts: of a loop of 16 iterations that take so many cycles, in the first
// of which a result leaves.
std::vector<int> starts_of_tiles(int64_t cycles, int64_t of_result = 1) {
    Fixture f;
    Rings rings(f.kernel, false);
    TransferCode code(f.kernel, rings);
    std::vector<SpreadTransfer> transfers;
    for (int pad = 0; pad < 4; pad++) {
        Run run;
        run.group.push_back({pad, 0, pad * 1024, 32, 32, 1024});
        transfers.push_back({code.channel(f.copy, run), {}, 0, {}});
    }
    Loop hot;
    hot.extent = 16;
    const Reg counter = f.kernel.scalar("counter");
    for (int64_t i = 0; i < cycles; i++) hot.body.push_back(value_op(counter, {1, {}}, {counter}));
    Body body;
    start_evenly(f.kernel, transfers, of_result, hot, code, body);
    Scalars scalars;
    for (const Node &node : body) scalars.run(*node.op);
    Body branches(std::make_move_iterator(hot.body.end() - 4), std::make_move_iterator(hot.body.end()));
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
Channel long_groups(const Fixture &f, TransferCode &code, int64_t groups) {
    codegen::Run run{{}, groups, 32, 4096};
    for (int pad = 0; pad < 4; pad++) run.group.push_back({pad, 0, pad * 4096 * groups, 32, 32, 32});
    return code.channel(f.copy, run);
}

// A loop that loads weights, which takes at least 64 cycles an iteration.
Loop loop_of_weights(int64_t extent) {
    Loop hot;
    hot.extent = extent;
    for (int weight = 0; weight < 32; weight++) {
        Op load;
        load.opcode = Opcode::lw_vi;
        hot.body.push_back(load);
    }
    return hot;
}
Body branches_of(Loop &hot) {
    return Body(std::make_move_iterator(hot.body.begin() + 32), std::make_move_iterator(hot.body.end()));
}

// Where DRAM is busy for most of a loop that loads weights, transfers have all iterations but the one of a result, two pads at
// a time, and all start however many iterations are left to the loop.
TEST(EvenStarts, HaveTheWholeLoopWhereItLoadsWeightsAndDramIsBusy) {
    for (const auto &[groups, extent, busy] :
         {std::tuple{8, 32, true}, {16, 36, true}, {9, 31, true}, {12, 47, true}, {8, 64, false}}) {
        Fixture f;
        Rings rings(f.kernel, false);
        TransferCode code(f.kernel, rings);
        const Channel c = long_groups(f, code, groups);
        Loop hot = loop_of_weights(extent);
        Body body;
        start_evenly(f.kernel, {{c, {}, 0, {}}}, 1, hot, code, body);
        const int64_t sure = sure_iterations(hot);
        const Body branches = branches_of(hot);
        for (const int64_t iterations : {sure, hot.extent}) {
            SCOPED_TRACE(fmt::format("{} groups in {} of {} iterations", groups, iterations, extent));
            Scalars scalars;
            Body aim;
            code.aim(c, true, {}, {}, {}, aim);
            for (const Node &node : aim) scalars.run(*node.op);
            for (const Node &node : body) scalars.run(*node.op);
            std::set<size_t> together;
            int64_t first = -1;
            for (int64_t i = 0; i < iterations; i++) {
                const size_t before = scalars.started.size();
                scalars.iteration(branches);
                if (scalars.started.size() == before) continue;
                together.insert(scalars.started.size() - before);
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
    Fixture f;
    Rings rings(f.kernel, false);
    TransferCode code(f.kernel, rings);
    const Channel many = long_groups(f, code, 16), one = long_groups(f, code, 1);
    Loop hot = loop_of_weights(36);
    Body body;
    start_evenly(f.kernel, {{many, {}, 0, {}}, {one, {}, 0, {}}}, 1, hot, code, body);
    const Body branches = branches_of(hot);
    EXPECT_EQ(branches.size(), 3u);
    Scalars scalars;
    for (const Node &node : body) scalars.run(*node.op);
    std::map<size_t, int> times;  // by the transfers that start together
    for (int64_t i = 0; i < sure_iterations(hot); i++) {
        const size_t before = scalars.started.size();
        scalars.iteration(branches);
        if (scalars.started.size() > before) times[scalars.started.size() - before]++;
    }
    EXPECT_EQ(scalars.started.size(), 17u * 4);
    EXPECT_GE(times[2], 26) << "of 32 halves, some of which may start together";
}

// One register counts the groups of a loop further out: whole ones.
TEST(EvenStarts, GroupsOfALoopFurtherOutAreNotHalved) {
    Fixture f;
    Rings rings(f.kernel, false);
    TransferCode code(f.kernel, rings);
    const Channel outer = long_groups(f, code, 24);
    const Reg left = f.kernel.scalar("left");
    Loop hot = loop_of_weights(32);
    Body body, aim;
    start_evenly(f.kernel, {{outer, {}, 8, left}}, 1, hot, code, body);
    const Body branches = branches_of(hot);
    code.aim(outer, true, {}, {}, {}, aim);
    Scalars scalars;
    for (const Node &node : aim) scalars.run(*node.op);
    scalars.set(left, 24);
    for (int run = 0; run < 3; run++) {
        for (const Node &node : body) scalars.run(*node.op);
        for (int64_t i = 0; i < hot.extent; i++) scalars.iteration(branches);
    }
    EXPECT_EQ(scalars.started.size(), 24u * 4);
    EXPECT_EQ(scalars.get(left), 0);
}

TEST(EvenStarts, GroupsOfALoopFurtherOutAreDividedAmongItsRuns) {
    Fixture f;
    Rings rings(f.kernel, false);
    TransferCode code(f.kernel, rings);
    const Channel outer = f.channel(code, 6);
    const Reg left = f.kernel.scalar("left");
    Loop hot;
    hot.extent = 15;
    Body body;
    start_evenly(f.kernel, {{outer, {}, 2, left}}, 0, hot, code, body);
    Scalars scalars;
    Body aim;
    code.aim(outer, true, {}, {}, {}, aim);
    for (const Node &node : aim) scalars.run(*node.op);
    scalars.set(left, 6);
    for (int run = 0; run < 5; run++) {  // in the last two nothing is left
        for (const Node &node : body) scalars.run(*node.op);
        for (int i = 0; i < 14; i++) scalars.iteration(hot.body);
    }
    Fixture::expect_in_order(scalars, outer);
    EXPECT_EQ(scalars.get(left), 0);
}

// The hot loop runs several times: its turns count as one long loop, of which each turn may run a few iterations more.
TEST(EvenStarts, GroupsAreDividedAmongTheTurnsOfANest) {
    for (const int64_t groups : {1, 3, 10, 20})
        for (const bool more : {true, false}) {
            Fixture f;
            Rings rings(f.kernel, false);
            TransferCode code(f.kernel, rings);
            const Channel c = f.channel(code, groups);
            const Reg go = f.kernel.scalar("go");
            constexpr int64_t turns = 4;
            Loop hot;
            hot.extent = 15;
            Body body;
            code.aim(c, true, {}, {}, {}, body);
            ASSERT_TRUE(start_evenly_in_nest(f.kernel, {{c, go, 0, {}}}, turns, hot, code, body));
            for (const int64_t iterations : {sure_iterations(hot), hot.extent}) {
                Scalars scalars;
                scalars.set(go, more);
                for (const Node &node : body) scalars.run(*node.op);
                size_t before = 0;
                for (int64_t i = 0, last = -2; i < turns * iterations; i++) {
                    scalars.iteration(hot.body);
                    if (scalars.started.size() == before) continue;
                    EXPECT_GT(i, last + 1) << "groups in iterations that follow each other";
                    before = scalars.started.size();
                    last = i;
                }
                if (more)
                    Fixture::expect_in_order(scalars, c);
                else
                    EXPECT_TRUE(scalars.started.empty());
            }
        }
    Fixture f;
    Rings rings(f.kernel, false);
    TransferCode code(f.kernel, rings);
    Loop hot;
    hot.extent = 15;
    Body body;
    EXPECT_FALSE(start_evenly_in_nest(f.kernel, {{f.channel(code, 40), {}, 0, {}}}, 4, hot, code, body));
    EXPECT_TRUE(body.empty());
}

// A result whose groups are more than the turns of its nest leaves in the iterations given, whatever turn they are of.
TEST(EvenStarts, SeveralGroupsOfAResultStartInATurnOfANest) {
    for (const int64_t waiting : {0, 7}) {
        Fixture f;
        Rings rings(f.kernel, false);
        TransferCode code(f.kernel, rings);
        const Channel c = f.channel(code, 7);
        const Reg pending = f.kernel.scalar("pending");
        constexpr int64_t turns = 3, extent = 10, iterations = 15;
        Loop hot;
        hot.extent = extent;
        Body body;
        code.aim(c, true, {}, {}, {}, body);
        start_from(f.kernel, {c, {}, 7, pending}, 1, iterations, hot, false, code, body);
        Scalars scalars;
        scalars.set(pending, waiting);
        for (const Node &node : body) scalars.run(*node.op);
        for (int64_t i = 0; i < turns * extent; i++) {
            scalars.iteration(hot.body);
            if (i == iterations) {
                EXPECT_EQ(scalars.started.size(), static_cast<size_t>(waiting * 4));
            }
        }
        EXPECT_EQ(scalars.get(pending), 0);
        if (waiting > 0)
            Fixture::expect_in_order(scalars, c);
        else
            EXPECT_TRUE(scalars.started.empty());
    }
}

// Several transfers, some of one round: one after the other, at one distance and in their order.
TEST(EvenStarts, RoundsOfSeveralTransfersFollowEachOtherInANest) {
    constexpr int64_t turns = 4, extent = 10;
    Fixture f;
    Rings rings(f.kernel, false);
    TransferCode code(f.kernel, rings);
    std::vector<SpreadTransfer> transfers;
    for (const int64_t groups : {1, 1, 3}) transfers.push_back({f.channel(code, groups), {}, 0, {}});
    Loop hot;
    hot.extent = extent;
    Body body;
    for (const SpreadTransfer &t : transfers) code.aim(t.channel, true, {}, {}, {}, body);
    EXPECT_TRUE(can_start_evenly_in_nest(transfers, turns, hot, code));
    EXPECT_FALSE(can_start_evenly_in_nest(transfers, 1, hot, code))
        << "groups would start in iterations that follow each other";
    ASSERT_TRUE(start_evenly_in_nest(f.kernel, transfers, turns, hot, code, body));
    Scalars scalars;
    for (const Node &node : body) scalars.run(*node.op);
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < turns * extent; i++) {
        const size_t before = scalars.started.size();
        scalars.iteration(hot.body);
        if (scalars.started.size() == before) continue;
        EXPECT_EQ(scalars.started.size() - before, 4u) << "a tile for each pad";
        starts.push_back(i);
    }
    ASSERT_EQ(starts.size(), 5u);
    for (size_t i = 1; i < starts.size(); i++) EXPECT_EQ(starts[i] - starts[i - 1], starts[0]);
}

TEST(LateStart, IsOnceAndInTheIterationThatIsNamed) {
    for (const bool armed : {true, false}) {
        Fixture f;
        Rings rings(f.kernel, false);
        TransferCode code(f.kernel, rings);
        const Channel c = f.channel(code, 1);
        const Reg pending = f.kernel.scalar("pending");
        Loop hot;
        hot.extent = 6;
        Body body;
        code.aim(c, true, {}, {}, {}, body);
        start_late(f.kernel, {c, pending, 0, {}}, 2, hot, code, body);
        Scalars scalars;
        scalars.set(pending, armed);
        for (const Node &node : body) scalars.run(*node.op);
        for (int i = 0; i < 6; i++) {
            EXPECT_EQ(scalars.started.size(), armed && i > 2 ? 4u : 0u) << "in front of iteration " << i;
            scalars.iteration(hot.body);
        }
        EXPECT_EQ(scalars.started.size(), armed ? 4u : 0u);
    }
}

// For a pad's second transfer the code would stand still until its first has ended.
TEST(LateStart, TransfersOfAResultGoInRoundsOfOneForEachPad) {
    for (const int64_t iterations : {20, 60}) {
        Fixture f;
        Rings rings(f.kernel, false);
        TransferCode code(f.kernel, rings);
        f.copy.load = false;
        f.copy.tiles = {{0, 0, 0, 8, 32, 1024}, {1, 0, 8192, 8, 32, 1024}, {0, 8, 32768, 4, 32, 1024}};
        const ResultTransfer result(f.kernel, rings, code, f.copy, split_runs(f.copy.tiles));
        Loop hot;
        hot.extent = iterations;
        Body body;
        result.issue_pending(&hot, body);
        if (iterations == 20) {
            ASSERT_EQ(hot.body.size(), 1u) << "little code for few iterations";
            continue;
        }
        Scalars scalars;
        scalars.set(result.pending(), 1);
        for (const Node &node : body)
            if (!node.op->fence) scalars.run(*node.op);
        std::vector<size_t> started;
        for (int i = 0; i < 4; i++) {
            scalars.iteration(hot.body);
            started.push_back(scalars.started.size());
        }
        EXPECT_EQ(started, (std::vector<size_t>{2, 2, 3, 3}));
    }
}

TEST(TransferRuns, AreSplitSoThatNoTransferOfAGroupWaitsForAnother) {
    const std::vector<codegen::Run> split = one_tile_a_pad(
        {{{{0, 0, 0, 8, 32, 32}, {1, 0, 1, 8, 32, 32}, {0, 8, 2, 8, 32, 32}, {1, 8, 3, 8, 32, 32}, {0, 16, 4, 8, 32, 32}},
          5,
          7,
          9}});
    ASSERT_EQ(split.size(), 3u);
    std::set<int64_t> seen;
    for (const codegen::Run &run : split) {
        EXPECT_EQ(run.count, 5);
        EXPECT_EQ(run.row_step, 7);
        EXPECT_EQ(run.mem_step, 9);
        std::set<int> pads;
        for (const Tile &tile : run.group) {
            EXPECT_TRUE(pads.insert(tile.pad).second);
            EXPECT_TRUE(seen.insert(tile.mem).second);
        }
    }
    EXPECT_EQ(seen.size(), 5u);
}

// A load of one row waits for its engine in front of the last group of a result: the rest of the loop then runs beside that
// group.
TEST(Spread, WhatIsShortComesBeforeTheLastGroupOfAResult) {
    Fixture f;
    Rings rings(f.kernel, false);
    TransferCode code(f.kernel, rings);
    Copy store = f.copy, load = f.copy;
    store.load = false;
    codegen::Run run{{}, 3, 32, 4096};
    for (int pad = 0; pad < 4; pad++) run.group.push_back({pad, 0, pad * 1024, 32, 32, 1024});
    const Channel result = code.channel(store, run), numbers = code.channel(load, {{{0, 2000, 0, 1, 32, 32}}});
    Loop hot;
    hot.extent = 8;
    const Reg counter = f.kernel.scalar("counter");
    for (int i = 0; i < 48; i++) hot.body.push_back(value_op(counter, {1, {}}, {counter}));
    Body body;
    spread(f.kernel, {{result, {}, 0, {}}, {numbers, {}, 0, {}}}, {}, 1, hot, code, body);
    Body branches;
    for (Node &node : hot.body)
        if (node.op->side) branches.push_back(std::move(node));
    Scalars scalars;
    for (const Node &node : body) scalars.run(*node.op);
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
    Fixture f;
    Rings rings(f.kernel, false);
    TransferCode code(f.kernel, rings);
    std::vector<Tile> results;
    Run run;
    for (int pad = 0; pad < 4; pad++) {
        results.push_back({pad, 0, pad * 1024, 32, 32, 1024});
        run.group.push_back({pad, 0, pad * 1024, rows, 32, 1024});
    }
    Loop hot;
    hot.extent = 8;
    const Reg counter = f.kernel.scalar("counter");
    for (int64_t i = 0; i < cycles; i++) hot.body.push_back(value_op(counter, {1, {}}, {counter}));
    Body body;
    spread(f.kernel, {{code.channel(f.copy, run), {}, 0, {}}}, results, 1, hot, code, body);
    Scalars scalars;
    for (const Node &node : body) scalars.run(*node.op);
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
