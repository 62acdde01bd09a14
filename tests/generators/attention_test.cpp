// Attention at random shapes and schedules: bit for bit equal to the unoptimized program, close to float64, never faster than
// the bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/generators/sampled_point.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

constexpr const char *name = "scaled_dot_product_attention";

int64_t size(Random &random, int64_t largest) {
    constexpr std::array<int64_t, 7> edges = {1, 2, 31, 32, 33, 64, 65};
    return random.below(2) == 0 ? std::min(largest, edges[random.below(edges.size())])
                                : 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(largest)));
}

TEST(Attention, RandomShapesAndSchedules) {
    constexpr int timed = 14, shapes = timed + 6;
    Random random(5);
    const std::array<Machine, 2> machines = {find_machine("ax01"), find_machine("ax01-psum")};
    const Machine functional = find_machine("fsim");
    for (int i = 0; i < shapes; i++) {
        const Machine &machine = i < timed ? machines[static_cast<size_t>(i) % 2] : functional;
        const int64_t heads = 1 + static_cast<int64_t>(random.below(2)), group = 1 + static_cast<int64_t>(random.below(2));
        const int64_t queries = size(random, 50), keys = size(random, 70), depth = size(random, 70), width = size(random, 70);
        WorkloadArguments arguments = {{"enable-gqa", "true"},
                                       {"shape", fmt::format("{}x{}x{},{}x{}x{},{}x{}x{}", heads * group, queries, depth, heads,
                                                             keys, depth, heads, keys, width)}};
        if (i % 3 == 1) arguments["is-causal"] = "true";
        if (i % 3 == 2) arguments["shape"] += fmt::format(",{}x{}", queries, keys);
        if (i % 4 == 0) arguments["scale"] = "0.3";
        SCOPED_TRACE(fmt::format("{} on {}, {}", arguments["shape"], machine.name, i));
        const std::shared_ptr<const Workload> workload = find_operator(name).workload(arguments);
        const Evaluator evaluator(workload, machine, 1 + static_cast<uint64_t>(i));
        check_sampled_point(*workload, machine, evaluator, random);
    }
}

// Where a space has the choice, each block of queries goes through all steps before the next one, a column of ones sums its
// weights, and these wait in registers, unless the point says so.
Point by_blocks(const Workload &workload, const Machine &machine, Point point) {
    for (const Parameter &parameter : workload.space(machine).parameters)
        if ((parameter.name == "stream" || parameter.name == "sum_unroll" || parameter.name == "waiting") &&
            !point.contains(parameter.name))
            point.set(parameter.name, 0);
    return point;
}

// Tiles of keys that a causal mask hides from a whole block of queries are not computed, whatever blocks are together; whole
// rows have all together. That saves cycles, of few queries too.
TEST(Attention, LeavesHiddenTilesOut) {
    const Machine machine = find_machine("ax01");
    struct Case {
        std::string shape;
        int64_t rows, row_unroll, softmax_unroll;
    };
    for (const Case &c : {Case{"320x33,320x33,320x20", 64, 64, 8}, Case{"320x33,320x33,320x20", 320, 64, 8},
                          Case{"192x33,192x33,192x20", 192, 64, 4}, Case{"128x20,160x20,160x20", 128, 32, 4},
                          Case{"100x20,100x20,100x33", 100, 50, 2}}) {
        const std::shared_ptr<const Workload> plain = find_operator(name).workload({{"shape", c.shape}});
        const std::shared_ptr<const Workload> causal =
            find_operator(name).workload({{"shape", c.shape}, {"is-causal", "true"}});
        const Point point = by_blocks(*causal, machine,
                                      {{"rows", c.rows},
                                       {"row_unroll", c.row_unroll},
                                       {"softmax_unroll", c.softmax_unroll},
                                       {"weight_unroll", 8},
                                       {"heads", 1}});
        EXPECT_EQ(violation(causal->space(machine), point), "") << c.shape;
        const Evaluator evaluator(causal, machine);
        const Evaluation evaluation = evaluator.evaluate(point), all = Evaluator(plain, machine).evaluate(point);
        ASSERT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        ASSERT_EQ(all.status, Evaluation::Ok) << all.reason;
        EXPECT_LT(evaluation.counters.at("array_rows").get<int64_t>(), all.counters.at("array_rows").get<int64_t>()) << c.shape;
        EXPECT_LT(evaluation.cycles, all.cycles) << c.shape;
        EXPECT_EQ(evaluator.verify(point), "") << c.shape;
    }
}

// The weights of a row may wait for its sum in the pads: of all blocks or of each alone, with masks, of heads that are
// together. Where a row sees several tiles of keys rows follow each other faster then.
TEST(Attention, WeightsWaitInThePads) {
    const Machine machine = find_machine("ax01");
    struct Case {
        std::string shape;
        int64_t rows, row_unroll, softmax_unroll, heads;
        bool causal, faster;
    };
    for (const Case &c : {Case{"2x200x32,2x200x32,2x200x32", 200, 50, 2, 2, true, true},
                          Case{"2x128x20,2x150x20,2x150x33", 128, 64, 2, 1, true, false},
                          Case{"4x49x32,4x49x32,4x49x32,4x49x49", 52, 52, 4, 4, false, true},
                          Case{"3x70x20,3x90x20,3x90x40", 72, 36, 4, 3, false, false}}) {
        SCOPED_TRACE(c.shape);
        const std::shared_ptr<const Workload> workload =
            find_operator(name).workload({{"shape", c.shape}, {"is-causal", c.causal ? "true" : "false"}});
        const Point in_registers = by_blocks(*workload, machine,
                                             {{"rows", c.rows},
                                              {"row_unroll", c.row_unroll},
                                              {"softmax_unroll", c.softmax_unroll},
                                              {"weight_unroll", 32},
                                              {"heads", c.heads}});
        Point in_pads = in_registers;
        in_pads.set("waiting", 1);
        EXPECT_EQ(violation(workload->space(machine), in_pads), "");
        const Evaluator evaluator(workload, machine);
        EXPECT_EQ(evaluator.verify(in_pads), "");
        const Evaluation waits = evaluator.evaluate(in_pads), lives = evaluator.evaluate(in_registers);
        ASSERT_EQ(waits.status, Evaluation::Ok) << waits.reason;
        ASSERT_EQ(lives.status, Evaluation::Ok) << lives.reason;
        if (c.faster) {
            EXPECT_LT(waits.cycles, lives.cycles);
        }
    }
}

// Keys behind the last one are hidden where the scores of a row are read: hardly more work than for keys of whole tiles.
TEST(Attention, WholeRowsHideTheEndOfTheirKeys) {
    const Machine machine = find_machine("ax01");
    const auto operations = [&](int64_t keys) {
        const std::shared_ptr<const Workload> workload =
            find_operator(name).workload({{"shape", fmt::format("16x49x32,16x{0}x32,16x{0}x32", keys)}});
        const Point point =
            by_blocks(*workload, machine,
                      {{"rows", 52}, {"row_unroll", 52}, {"softmax_unroll", 4}, {"weight_unroll", 32}, {"heads", 16}});
        const Evaluator evaluator(workload, machine);
        EXPECT_EQ(evaluator.verify(point), "");
        return evaluator.evaluate(point).counters.at("operations").get<double>();
    };
    EXPECT_LT(operations(49), 1.06 * operations(64));
}

// Many windows go through each step together, so that its code is fetched once for them.
TEST(Attention, ManyHeadsAreTogether) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", "64x49x32,64x49x32,64x49x32"}});
    const Point together = by_blocks(
        *workload, machine, {{"rows", 52}, {"row_unroll", 52}, {"softmax_unroll", 4}, {"weight_unroll", 32}, {"heads", 64}});
    EXPECT_EQ(violation(workload->space(machine), together), "");
    Point fewer = together;
    fewer.set("heads", 16);
    const Evaluator evaluator(workload, machine);
    EXPECT_EQ(evaluator.verify(together), "");
    EXPECT_LT(static_cast<double>(evaluator.evaluate(together).cycles),
              0.95 * static_cast<double>(evaluator.evaluate(fewer).cycles));
}

// Where all blocks of queries are together, each comes and leaves while others are computed: by tiles of keys and in whole
// rows, with masks and without, of several heads, and where the last tile of keys is not whole.
TEST(Attention, QueriesComeAndResultsLeaveByBlocks) {
    const Machine machine = find_machine("ax01");
    struct Case {
        std::string shape;
        int64_t blocks, row_unroll;
        WorkloadArguments more;
    };
    const WorkloadArguments causal = {{"is-causal", "true"}}, shared = {{"enable-gqa", "true"}};
    for (const Case &c : {Case{"320x33,320x33,320x20", 5, 64, {}}, Case{"3x320x33,3x320x33,3x320x20", 5, 64, causal},
                          Case{"180x20,300x20,300x33", 3, 60, {}}, Case{"192x20,290x20,290x33", 3, 64, causal},
                          Case{"320x20,300x20,300x20", 5, 64, causal}, Case{"192x20,290x20,290x40,192x290", 3, 64, {}},
                          Case{"2x2x192x20,2x1x288x20,2x1x288x20", 3, 64, shared}, Case{"2x96x40,2x96x40,2x96x33", 3, 32, {}},
                          Case{"2x160x40,2x160x40,2x160x33", 5, 32, causal}}) {
        SCOPED_TRACE(c.shape);
        WorkloadArguments arguments = c.more;
        arguments["shape"] = c.shape;
        const std::shared_ptr<const Workload> workload = find_operator(name).workload(arguments);
        const Point point = by_blocks(*workload, machine,
                                      {{"rows", c.blocks * c.row_unroll},
                                       {"row_unroll", c.row_unroll},
                                       {"softmax_unroll", 4},
                                       {"weight_unroll", 8},
                                       {"heads", 1}});
        EXPECT_EQ(violation(workload->space(machine), point), "");
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
    }
}

// All queries of a head pass between two loads of weights for the scores: with a mask and without, of several heads, wherever
// these lie, by blocks of one tile and of two, with more keys than queries, and where the scale is in the scores.
TEST(Attention, StreamsAllQueriesOfAHead) {
    struct Case {
        std::string shape;
        int64_t row_unroll, softmax_unroll;
        WorkloadArguments more;
    };
    const WorkloadArguments causal = {{"is-causal", "true"}}, shared = {{"enable-gqa", "true"}};
    const std::array<Machine, 2> machines = {find_machine("ax01"), find_machine("ax01-psum")};
    size_t number = 0;
    for (const Case &c :
         {Case{"320x33,320x33,320x20", 64, 8, {}}, Case{"320x33,320x33,320x20", 64, 8, causal},
          Case{"320x20,320x20,320x40", 32, 4, {}}, Case{"64x20,288x20,288x33", 64, 16, {}},
          Case{"128x70,352x70,352x33", 64, 1, causal}, Case{"64x20,320x20,320x20", 64, 8, causal},
          Case{"3x320x33,3x320x33,3x320x64", 64, 8, causal}, Case{"2x2x128x20,2x1x288x20,2x1x288x20", 32, 8, shared},
          Case{"2x320x2x33,2x320x2x33,2x320x2x20", 64, 2, {{"is-causal", "true"}, {"heads-inside", "qkvo"}}},
          Case{"320x33,320x33,320x20", 64, 8, {{"is-causal", "true"}, {"scale", "-0.3"}}},
          Case{"128x33,288x33,288x20", 64, 8, {{"scale", "-0.3"}}},
          // Fewer rows than a group for each tile of values that is turned.
          Case{"128x20,512x20,512x64", 64, 8, {}}}) {
        const Machine &machine = machines[number++ % machines.size()];
        SCOPED_TRACE(fmt::format("{} on {}, {}", c.shape, machine.name, number));
        WorkloadArguments arguments = c.more;
        arguments["shape"] = c.shape;
        const std::shared_ptr<const Workload> workload = find_operator(name).workload(arguments);
        const int64_t queries = workload->inputs()[0].extents[arguments.count("heads-inside") ? 2 : 1];
        const Point point = by_blocks(*workload, machine,
                                      {{"rows", queries},
                                       {"row_unroll", c.row_unroll},
                                       {"softmax_unroll", c.softmax_unroll},
                                       {"weight_unroll", 8},
                                       {"heads", 1},
                                       {"stream", 16}});
        EXPECT_EQ(violation(workload->space(machine), point), "");
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
    }
}

// Whole rows stream, too: those of one head or of several, a few at a time or a single one, of one tile of keys and of eight,
// where blocks, tiles and rounds of the pads are not whole, with several sums over the depth, and with a causal mask that
// leaves out tiles.
TEST(Attention, StreamsWholeRows) {
    struct Case {
        std::string shape;
        int64_t rows, row_unroll, softmax_unroll, heads, stream;
        WorkloadArguments more;
    };
    const WorkloadArguments causal = {{"is-causal", "true"}}, shared = {{"enable-gqa", "true"}},
                            inside = {{"heads-inside", "qkvo"}};
    const std::array<Machine, 2> machines = {find_machine("ax01"), find_machine("ax01-psum")};
    size_t number = 0;
    for (const Case &c :
         {Case{"128x64,128x64,128x64", 128, 64, 4, 1, 32, {}}, Case{"4x50x33,4x70x33,4x70x20", 52, 26, 2, 2, 16, {}},
          Case{"3x33x70,3x200x70,3x200x33", 33, 33, 1, 3, 16, {}}, Case{"64x20,20x20,20x40", 64, 32, 8, 1, 32, {}},
          Case{"2x2x40x20,2x1x96x20,2x1x96x20", 40, 8, 4, 2, 16, shared},
          Case{"2x100x2x33,2x100x2x33,2x100x2x20", 100, 50, 2, 2, 32, inside},
          Case{"2x128x100,2x256x100,2x256x20", 128, 64, 2, 1, 32, {{"scale", "-0.3"}}},
          Case{"2x62x20,2x160x20,2x160x33", 62, 62, 2, 2, 16, {{"scale", "-0.3"}}},
          Case{"128x64,128x64,128x64", 128, 64, 4, 1, 16, causal}, Case{"3x90x33,3x95x33,3x95x20", 96, 32, 2, 3, 32, causal},
          Case{"2x2x64x70,2x1x64x70,2x1x64x20",
               64,
               64,
               8,
               2,
               16,
               {{"is-causal", "true"}, {"enable-gqa", "true"}, {"scale", "-0.3"}}},
          Case{"2x256x20,2x256x20,2x256x40", 256, 64, 2, 1, 16, causal},
          // One tile of keys, which no other follows; values whose columns take several transfers a pad.
          Case{"2x23x2,2x32x2,2x32x38", 32, 16, 8, 1, 32, {}}, Case{"64x32,32x32,32x32", 64, 32, 8, 1, 16, {}},
          Case{"3x32x20,3x160x20,3x160x64", 32, 32, 4, 3, 16, {}}}) {
        const Machine &machine = machines[number++ % machines.size()];
        SCOPED_TRACE(fmt::format("{} on {}, {}", c.shape, machine.name, number));
        WorkloadArguments arguments = c.more;
        arguments["shape"] = c.shape;
        const std::shared_ptr<const Workload> workload = find_operator(name).workload(arguments);
        const Point point = {{"rows", c.rows},     {"row_unroll", c.row_unroll}, {"softmax_unroll", c.softmax_unroll},
                             {"weight_unroll", 8}, {"heads", c.heads},           {"stream", c.stream}};
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
    }
}

// Blocks of queries have rows behind the last query where these make groups of four: of one block and of two, with a mask that
// leaves tiles out, of several heads. Columns of values that are no whole tile are turned as one, with zeros behind them.
TEST(Attention, FillsGroupsAndTiles) {
    struct Case {
        std::string shape;
        int64_t rows, row_unroll, heads, stream;
        WorkloadArguments more;
    };
    for (const Case &c :
         {Case{"8x49x32,8x49x32,8x49x40", 52, 52, 8, 0, {}}, Case{"2x49x20,2x70x20,2x70x33", 52, 52, 2, 32, {}},
          Case{"2x100x40,2x77x40,2x77x70", 104, 52, 2, 0, {}}, Case{"50x33,50x33,50x40", 52, 52, 1, 0, {{"is-causal", "true"}}},
          Case{"2x37x20,2x300x20,2x300x40", 40, 40, 2, 0, {}}, Case{"3x20,70x20,70x40,3x70", 4, 4, 1, 0, {}}}) {
        SCOPED_TRACE(c.shape);
        WorkloadArguments arguments = c.more;
        arguments["shape"] = c.shape;
        const Machine machine = find_machine("ax01");
        const std::shared_ptr<const Workload> workload = find_operator(name).workload(arguments);
        Point point = {
            {"rows", c.rows}, {"row_unroll", c.row_unroll}, {"softmax_unroll", 4}, {"weight_unroll", 32}, {"heads", c.heads}};
        if (c.stream > 0) point.set("stream", c.stream);
        point = by_blocks(*workload, machine, point);
        EXPECT_EQ(violation(workload->space(machine), point), "");
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
    }
}

// Of fewer queries than 16 the groups that are summed are smaller: that saves a tile of ones beside the values, and its cycles.
TEST(Attention, SumsSmallGroups) {
    struct Case {
        std::string shape;
        int64_t group;
    };
    const std::array<Machine, 2> machines = {find_machine("ax01"), find_machine("ax01-psum")};
    for (const Case &c : {Case{"2x4x20,2x288x20,2x288x64", 4}, Case{"6x20,300x20,300x32", 8}}) {
        const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", c.shape}});
        for (const Machine &machine : machines) {
            SCOPED_TRACE(c.shape + " on " + machine.name);
            const Evaluator evaluator(workload, machine);
            Point point = by_blocks(
                *workload, machine,
                {{"rows", c.group}, {"row_unroll", c.group}, {"softmax_unroll", c.group}, {"weight_unroll", 32}, {"heads", 1}});
            const int64_t of_ones = evaluator.evaluate(point).cycles;
            point.set("sum_unroll", c.group);
            EXPECT_EQ(violation(workload->space(machine), point), "");
            EXPECT_EQ(evaluator.verify(point), "");
            EXPECT_LT(evaluator.evaluate(point).cycles, of_ones);
        }
    }
}

// Where a mask hides half of the scores, or whole rows have many tiles, long loops of little code take fewer cycles than those
// of each block.
TEST(Attention, StreamsInFewerCycles) {
    struct Case {
        std::string shape, causal;
        int64_t rows, softmax_unroll, stream;
    };
    for (const Case &c :
         {Case{"512x64,512x64,512x64", "true", 512, 8, 16}, Case{"256x64,256x64,256x64", "false", 256, 2, 32}}) {
        SCOPED_TRACE(c.shape);
        const Evaluator evaluator(find_operator(name).workload({{"shape", c.shape}, {"is-causal", c.causal}}),
                                  find_machine("ax01"));
        Point point = by_blocks(
            evaluator.workload(), evaluator.machine(),
            {{"rows", c.rows}, {"row_unroll", 64}, {"softmax_unroll", c.softmax_unroll}, {"weight_unroll", 32}, {"heads", 1}});
        const Evaluation by_blocks = evaluator.evaluate(point);
        point.set("stream", c.stream);
        const Evaluation streamed = evaluator.evaluate(point);
        ASSERT_EQ(by_blocks.status, Evaluation::Ok) << by_blocks.reason;
        ASSERT_EQ(streamed.status, Evaluation::Ok) << streamed.reason;
        EXPECT_LT(streamed.cycles, by_blocks.cycles);
    }
}

// Results leave a column of a block at a time beside the next one where loops run a different number of times in each turn:
// where all queries stream, whose reciprocals come from the scalar unit beside the turning of the values, and where whole rows
// of several heads go through each step together.
TEST(Attention, ColumnsOfResultsLeaveBesideTheNextOnes) {
    struct Case {
        std::string shape;
        Point point;
    };
    for (const Case &c : {Case{"512x64,512x64,512x64",
                               {{"rows", 512},
                                {"row_unroll", 64},
                                {"softmax_unroll", 8},
                                {"weight_unroll", 32},
                                {"heads", 1},
                                {"stream", 16},
                                {"sum_unroll", 0}}},
                          Case{"4x128x64,4x128x64,4x128x64",
                               {{"rows", 128},
                                {"row_unroll", 64},
                                {"softmax_unroll", 4},
                                {"weight_unroll", 32},
                                {"heads", 4},
                                {"stream", 0}}}}) {
        SCOPED_TRACE(c.shape);
        const Evaluation evaluation =
            Evaluator(find_operator(name).workload({{"shape", c.shape}, {"is-causal", "true"}}), find_machine("ax01"))
                .evaluate(c.point);
        ASSERT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        constexpr int64_t share = 50;  // of its cycles at most waits for transfers
        EXPECT_LT(evaluation.counters.at("stalls").at("dma").get<int64_t>() * share, evaluation.cycles);
    }
}

// Ends of small groups take more of the loop that makes and sums weights.
TEST(Attention, DraftsLargerGroupsFirst) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload =
        find_operator(name).workload({{"shape", "1024x64,1024x64,1024x64"}, {"is-causal", "true"}});
    Point point = {{"rows", 512}, {"row_unroll", 64}, {"softmax_unroll", 16}, {"weight_unroll", 32},
                   {"heads", 1},  {"stream", 0},      {"sum_unroll", 16}};
    const double small = workload->draft(machine, point);
    point.set("sum_unroll", 32);
    EXPECT_LT(workload->draft(machine, point), small);
}

// Rows of weights that are summed as weights of the array, of which a row of ones makes one row of sums: by groups of both
// sizes, where neither queries nor keys are whole tiles, with masks and without, of several heads together and of heads that
// share their keys, of one block of queries and of several.
TEST(Attention, SumsGroupsOfQueries) {
    struct Case {
        std::string shape;
        int64_t rows, row_unroll, heads, group;
        WorkloadArguments more;
    };
    const WorkloadArguments causal = {{"is-causal", "true"}}, shared = {{"enable-gqa", "true"}};
    const std::array<Machine, 2> machines = {find_machine("ax01"), find_machine("ax01-psum")};
    size_t number = 0;
    for (const Case &c :
         {Case{"320x33,320x33,320x64", 320, 64, 1, 32, {}}, Case{"320x33,320x33,320x32", 320, 64, 1, 32, causal},
          Case{"300x20,310x20,310x32", 64, 64, 1, 16, causal}, Case{"33x33,290x33,290x32", 64, 32, 1, 16, {}},
          Case{"40x20,257x20,257x32,40x257", 64, 32, 1, 32, {}}, Case{"3x100x33,3x321x33,3x321x32", 128, 64, 3, 32, {}},
          Case{"2x2x64x70,2x1x288x70,2x1x288x32", 64, 32, 2, 16, shared},
          Case{"2x320x2x33,2x320x2x33,2x320x2x32", 320, 64, 2, 32, {{"is-causal", "true"}, {"heads-inside", "qkvo"}}},
          Case{"64x33,288x33,288x32", 64, 64, 1, 16, {{"scale", "-0.3"}}}}) {
        const Machine &machine = machines[number++ % machines.size()];
        SCOPED_TRACE(fmt::format("{} on {}, {}", c.shape, machine.name, number));
        WorkloadArguments arguments = c.more;
        arguments["shape"] = c.shape;
        const std::shared_ptr<const Workload> workload = find_operator(name).workload(arguments);
        const Point point = by_blocks(*workload, machine,
                                      {{"rows", c.rows},
                                       {"row_unroll", c.row_unroll},
                                       {"softmax_unroll", 16},
                                       {"weight_unroll", 8},
                                       {"heads", c.heads},
                                       {"sum_unroll", c.group}});
        EXPECT_EQ(violation(workload->space(machine), point), "");
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
    }
}

// A column of ones takes as many sums as one of the values does, a group one. Rows that stay apart from turn to turn let its
// iterations overlap.
TEST(Attention, SumsGroupsInFewerCycles) {
    for (const char *causal : {"false", "true"}) {
        SCOPED_TRACE(causal);
        const Evaluator evaluator(find_operator(name).workload({{"shape", "512x64,512x64,512x64"}, {"is-causal", causal}}),
                                  find_machine("ax01"));
        Point point = {{"rows", 512}, {"row_unroll", 64}, {"softmax_unroll", 16}, {"weight_unroll", 32},
                       {"heads", 1},  {"stream", 0},      {"sum_unroll", 0}};
        const Evaluation by_column = evaluator.evaluate(point);
        point.set("sum_unroll", 32);
        const Evaluation by_groups = evaluator.evaluate(point);
        ASSERT_EQ(by_column.status, Evaluation::Ok) << by_column.reason;
        ASSERT_EQ(by_groups.status, Evaluation::Ok) << by_groups.reason;
        EXPECT_LT(by_groups.cycles, by_column.cycles);
    }
}

// Weights take the rows of their scores, so that twice as many queries go through each step together, whose code is fetched
// once for them, and the pads hold the scores of 64 queries and as many keys as leave no room for weights beside them.
TEST(Attention, WeightsTakeTheRowsOfScores) {
    const Machine machine = find_machine("ax01");
    Point point = {{"rows", 256}, {"row_unroll", 64}, {"softmax_unroll", 16}, {"weight_unroll", 32},
                   {"heads", 1},  {"stream", 0},      {"sum_unroll", 32}};
    for (const char *causal : {"false", "true"}) {
        SCOPED_TRACE(causal);
        const std::shared_ptr<const Workload> workload =
            find_operator(name).workload({{"shape", "1024x64,1024x64,1024x64"}, {"is-causal", causal}});
        const Evaluator evaluator(workload, machine);
        point.set("rows", 256);
        const Evaluation fewer = evaluator.evaluate(point);
        point.set("rows", 512);
        EXPECT_EQ(violation(workload->space(machine), point), "");
        const Evaluation more = evaluator.evaluate(point);
        ASSERT_EQ(fewer.status, Evaluation::Ok) << fewer.reason;
        ASSERT_EQ(more.status, Evaluation::Ok) << more.reason;
        EXPECT_LT(more.cycles, fewer.cycles);
    }
    const std::shared_ptr<const Workload> longer = find_operator(name).workload({{"shape", "64x64,4096x64,4096x64"}});
    point.set("rows", 64);
    EXPECT_EQ(violation(longer->space(machine), point), "");
    EXPECT_EQ(Evaluator(longer, machine).verify(point), "");
}

// Keys by blocks: the same definition, whatever the lengths, with a causal mask, an added one and keys that heads share;
// transfers of the next block beside this one where all blocks are alike.
TEST(Attention, JoinsBlocksOfKeys) {
    const Machine machine = find_machine("ax01");
    struct Case {
        std::string shape, key_block;
        WorkloadArguments more;
        Point point;
    };
    const auto point = [](int64_t rows, int64_t row_unroll, int64_t softmax_unroll) {
        return Point{
            {"rows", rows}, {"row_unroll", row_unroll}, {"softmax_unroll", softmax_unroll}, {"weight_unroll", 8}, {"heads", 1}};
    };
    const WorkloadArguments causal = {{"is-causal", "true"}}, shared = {{"enable-gqa", "true"}};
    for (const Case &c :
         {Case{"96x40,192x40,192x33", "64", {}, point(96, 32, 8)},
          Case{"70x33,161x33,161x20,70x161", "128", {}, point(72, 36, 4)}, Case{"1x20,97x20,97x20", "64", {}, point(1, 1, 1)},
          Case{"256x32,256x32,256x32", "64", causal, point(64, 64, 8)},
          Case{"300x20,310x20,310x33", "128", causal, point(128, 64, 4)},
          // So many blocks that their turns have no code of their own: the diagonal is in the last of them alone.
          Case{"810x20,810x20,810x20", "64", causal, point(64, 64, 8)},
          Case{"2x2x64x20,2x1x130x20,2x1x130x20", "64", shared, point(64, 64, 8)}}) {
        SCOPED_TRACE(c.shape);
        WorkloadArguments arguments = c.more;
        arguments["shape"] = c.shape;
        arguments["key-block"] = c.key_block;
        const std::shared_ptr<const Workload> workload = find_operator(name).workload(arguments);
        EXPECT_EQ(violation(workload->space(machine), c.point), "");
        EXPECT_EQ(violation(workload->space(machine), workload->naive_point(machine)), "");
        EXPECT_EQ(Evaluator(workload, machine).verify(c.point), "");
    }
}

// Rows of any length: where the pads do not hold all keys beside a block of queries, these come by blocks without being asked
// to.
TEST(Attention, TakesRowsThatThePadsDoNotHold) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", "2x64,9000x64,9000x64"}});
    EXPECT_EQ(Evaluator(workload, machine).verify(workload->naive_point(machine)), "");
    // The reference program has a place for all, too, where they are just held.
    struct Case {
        int64_t queries, keys;
        const char *causal;
    };
    for (const Case &c : {Case{31, 3000, "false"}, Case{31, 5600, "false"}, Case{3008, 3008, "true"}, Case{4096, 4096, "false"},
                          Case{4096, 4096, "true"}}) {
        SCOPED_TRACE(fmt::format("{} of {}, causal {}", c.queries, c.keys, c.causal));
        const std::shared_ptr<const Workload> held = find_operator(name).workload(
            {{"shape", fmt::format("{}x64,{}x64,{}x64", c.queries, c.keys, c.keys)}, {"is-causal", c.causal}});
        EXPECT_EQ(violation(held->space(machine), held->naive_point(machine)), "");
        codegen::CompileOptions unoptimized;
        unoptimized.optimize = false;
        EXPECT_NO_THROW(Evaluator(held, machine).compile(held->naive_point(machine), unoptimized));
    }
}

// Rows that see no key of a block, or none at all: what other blocks give them stays as it is.
TEST(Attention, JoinsBlocksOfWhichARowSeesNothing) {
    const Machine machine = find_machine("ax01");
    constexpr int64_t keys = 130, block = 64;
    const std::shared_ptr<const Workload> workload =
        find_operator(name).workload({{"shape", "4x8,130x8,130x8,4x130"}, {"key-block", "64"}});
    std::vector<TensorData> inputs = random_inputs(workload->inputs(), DataSet::Normal, 3);
    constexpr uint16_t minus_infinity = 0xFF80;
    const auto row = [&](int64_t i) { return inputs[3].begin() + i * keys; };
    std::fill(row(0), row(0) + block, minus_infinity);
    std::fill(row(1), row(2), minus_infinity);
    std::fill(row(2) + block, row(3), minus_infinity);
    const Point point = workload->naive_point(machine);
    const KernelRun run =
        run_kernel(workload->build(machine, point), Evaluator(workload, machine).compile(point), machine, inputs);
    ASSERT_TRUE(run.result.ok) << run.result.error;
    for (size_t d = 0; d < 8; d++) EXPECT_EQ(run.outputs[0][8 + d] & 0x7FFF, 0);
    EXPECT_LE(largest_error_ulps(run.outputs[0], workload->reference(inputs)[0]), workload->tolerance_ulps());
}

// Code of a step that serves several heads is fetched once for them, whether or not they share their keys.
TEST(Attention, TakesStepsOfSeveralHeadsTogether) {
    const Machine machine = find_machine("ax01");
    for (const char *shape : {"4x64x40,4x64x40,4x64x20", "4x64x40,1x64x40,1x64x20"}) {
        SCOPED_TRACE(shape);
        const std::shared_ptr<const Workload> workload =
            find_operator(name).workload({{"shape", shape}, {"enable-gqa", "true"}, {"is-causal", "true"}});
        const Evaluator evaluator(workload, machine);
        const auto of = [](int64_t heads) {
            return Point{{"rows", 64}, {"row_unroll", 64}, {"softmax_unroll", 8}, {"weight_unroll", 8}, {"heads", heads}};
        };
        const Evaluation one_by_one = evaluator.evaluate(of(1)), together = evaluator.evaluate(of(4));
        ASSERT_EQ(one_by_one.status, Evaluation::Ok) << one_by_one.reason;
        ASSERT_EQ(together.status, Evaluation::Ok) << together.reason;
        EXPECT_LT(together.cycles, one_by_one.cycles);
        EXPECT_EQ(evaluator.verify(of(4)), "");
    }
}

// Upstream's kernel of this size takes 1,181 packets.
TEST(Attention, KeepsScoresInRegistersOnTheFunctionalMachine) {
    const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", "32x32,32x32,32x32"}});
    const Evaluation evaluation = Evaluator(workload, find_machine("fsim")).evaluate({{"rows", 32}, {"pass", 16}});
    ASSERT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
    EXPECT_LE(evaluation.cycles, 450);
}

// A row whose keys are all hidden gives zeros, as PyTorch's does.
TEST(Attention, HiddenRowsGiveZero) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", "4x8,8x8,8x8,4x8"}});
    std::vector<TensorData> inputs = random_inputs(workload->inputs(), DataSet::Normal, 3);
    constexpr uint16_t minus_infinity = 0xFF80;
    std::fill(inputs[3].begin() + 8, inputs[3].begin() + 16, minus_infinity);
    const Point point = workload->naive_point(machine);
    const Evaluator evaluator(workload, machine);
    const KernelRun run = run_kernel(workload->build(machine, point), evaluator.compile(point), machine, inputs);
    ASSERT_TRUE(run.result.ok) << run.result.error;
    for (size_t d = 0; d < 8; d++) EXPECT_EQ(run.outputs[0][8 + d] & 0x7FFF, 0);
    EXPECT_LE(largest_error_ulps(run.outputs[0], workload->reference(inputs)[0]), workload->tolerance_ulps());
}

// [outer][a][b][inner] as [outer][b][a][inner].
TensorData exchanged(const TensorData &data, int64_t outer, int64_t a, int64_t b, int64_t inner) {
    TensorData result(data.size());
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < a; i++)
            for (int64_t j = 0; j < b; j++)
                std::copy_n(data.begin() + ((o * a + i) * b + j) * inner, inner,
                            result.begin() + ((o * b + j) * a + i) * inner);
    return result;
}

// The same bits wherever the heads lie.
TEST(Attention, HeadsMayLieInsideTheRows) {
    const int64_t batch = 2, heads = 4, key_heads = 2, queries = 9, keys = 40, depth = 33, width = 20;
    const auto shape = [batch](int64_t h, int64_t rows, int64_t length, bool inside) {
        return inside ? fmt::format("{}x{}x{}x{}", batch, rows, h, length) : fmt::format("{}x{}x{}x{}", batch, h, rows, length);
    };
    for (const char *machine_name : {"ax01", "fsim"}) {
        const Machine machine = find_machine(machine_name);
        const auto workload_of = [&](const std::string &inside) {
            const auto has = [&](char tensor) { return inside.find(tensor) != std::string::npos; };
            WorkloadArguments arguments = {
                {"enable-gqa", "true"},
                {"shape", shape(heads, queries, depth, has('q')) + "," + shape(key_heads, keys, depth, has('k')) + "," +
                              shape(key_heads, keys, width, has('v'))}};
            if (!inside.empty()) arguments["heads-inside"] = inside;
            return find_operator(name).workload(arguments);
        };
        const std::shared_ptr<const Workload> plain = workload_of("");
        const std::vector<TensorData> inputs = random_inputs(plain->inputs(), DataSet::Normal, 8);
        const auto result = [&](const std::shared_ptr<const Workload> &workload, const std::vector<TensorData> &given) {
            const Point point = workload->naive_point(machine);
            const KernelRun done =
                run_kernel(workload->build(machine, point), Evaluator(workload, machine).compile(point), machine, given);
            EXPECT_TRUE(done.result.ok) << done.result.error;
            EXPECT_LE(largest_error_ulps(done.outputs.at(0), workload->reference(given)[0]), workload->tolerance_ulps());
            return done.outputs.at(0);
        };
        const TensorData expected = result(plain, inputs), turned = exchanged(expected, batch, heads, queries, width);
        for (const std::string inside : {"qv", "ko"}) {
            SCOPED_TRACE(machine.name + " " + inside);
            std::vector<TensorData> given = inputs;
            if (inside.find('q') != std::string::npos) given[0] = exchanged(inputs[0], batch, heads, queries, depth);
            if (inside.find('k') != std::string::npos) given[1] = exchanged(inputs[1], batch, key_heads, keys, depth);
            if (inside.find('v') != std::string::npos) given[2] = exchanged(inputs[2], batch, key_heads, keys, width);
            EXPECT_EQ(result(workload_of(inside), given), inside.find('o') != std::string::npos ? turned : expected);
        }
    }
}

TEST(Attention, RefusesWhatDoesNotFit) {
    const auto refusal = [](const std::string &shape, WorkloadArguments arguments = {}) -> std::string {
        arguments["shape"] = shape;
        return error_of([&] { find_operator(name).workload(arguments); });
    };
    EXPECT_EQ(refusal("4x8,5x8,5x8", {{"scale", "big"}}), "scaled_dot_product_attention: scale must be a number, not \"big\"");
    EXPECT_EQ(refusal("4x8,5x9,5x8"), "scaled_dot_product_attention: query 4x8 and key 5x9 have different depths");
    EXPECT_EQ(refusal("4x8,5x8,5x8", {{"heads-inside", "q"}}),
              "scaled_dot_product_attention: there are no heads that could be inside the rows");
    EXPECT_EQ(refusal("2x4x8,2x5x8,2x5x8", {{"heads-inside", "qx"}}),
              "scaled_dot_product_attention: heads_inside names tensors of 'qkvo', not 'qx'");
    EXPECT_EQ(refusal("4x8,500x8,500x8", {{"key-block", "100"}}),
              "scaled_dot_product_attention: key_block must be a multiple of 64, not 100");
    EXPECT_EQ(refusal("4x8,500x8,500x8", {{"key-block", "128"}, {"is-causal", "true"}}),
              "scaled_dot_product_attention: with a causal mask keys come by blocks for at least 64 queries, and as many keys "
              "as queries");
    EXPECT_EQ(refusal("4x8,5x8,6x8"), "scaled_dot_product_attention: key 5x8 and value 6x8 have different lengths");
    EXPECT_EQ(refusal("3x4x8,2x5x8,2x5x8"),
              "scaled_dot_product_attention: query 3x4x8 and key 2x5x8 have different leading dimensions");
    EXPECT_EQ(refusal("3x4x8,2x5x8,2x5x8", {{"enable-gqa", "true"}}),
              "scaled_dot_product_attention: 3 query heads are not a multiple of 2 key heads");
    EXPECT_THAT(refusal("4x8,5x8,5x8,4x6"), testing::HasSubstr("is not of queries x keys, 4x5"));
    EXPECT_EQ(refusal("4x8,5x8,5x8,4x5", {{"is-causal", "true"}}),
              "scaled_dot_product_attention: a mask and is_causal exclude each other");
}

}  // namespace
}  // namespace atalla
