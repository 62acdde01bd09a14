// Reductions at random shapes and schedules on one machine, and what long sums lose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/long_sums.h"
#include "tests/generators/rows.h"

namespace atalla {
namespace {

TEST_F(Rows, Reductions) {
    for (int i = 0; i < rounds; i++)
        for (const char *name : {"sum", "mean", "amax", "amin", "var"}) {
            Shape shape;
            const int64_t rank = 1 + below(4), largest = rank == 1 ? 3000 : rank == 2 ? 150 : rank == 3 ? 40 : 12;
            for (int64_t d = 0; d < rank; d++) shape.push_back(size(largest));
            std::vector<int64_t> dims;
            for (int64_t d = 0; d < rank; d++)
                if (below(2) == 0) dims.push_back(below(2) == 0 ? d : d - rank);
            WorkloadArguments arguments = {{"shape", fmt::format("{}", fmt::join(shape, "x"))}};
            if (!dims.empty()) arguments["dim"] = fmt::format("{}", fmt::join(dims, ","));
            if (below(2) == 0) arguments.insert_or_assign("keepdim", std::string("true"));
            // With a single element there is nothing to divide by.
            if (name == std::string("var")) arguments.insert_or_assign("correction", std::string("0"));
            check(name, arguments, static_cast<uint64_t>(i));
        }
}

TEST(LongSums, AreMadeInGroupsWhereARowLosesMore) {
    for (const int64_t steps : {1, 64, 75, 80}) EXPECT_FALSE(long_sum(steps).in_groups()) << steps;
    for (const int64_t steps : {88, 128, 512}) EXPECT_LT(long_sum(steps).additions_in_a_row(), 50) << steps;
    EXPECT_LT(long_sum(40, 4).additions_in_a_row(), 50);
}

// A bf16 of 256 takes no ones any more.
TEST_F(Rows, LongSumsAcrossLanesAreWhole) {
    const auto sums = [&](const char *name, const char *shape, const char *dim, int64_t count) {
        return results(name, {{"shape", shape}, {"dim", dim}}, std::vector<double>(static_cast<size_t>(count), 1));
    };
    const auto within = [](double middle, double share) {
        return testing::Each(testing::AllOf(testing::Ge(middle * (1 - share)), testing::Le(middle * (1 + share))));
    };
    EXPECT_THAT(sums("sum", "4096x3", "0", int64_t{4096} * 3), testing::Each(4096));
    EXPECT_THAT(sums("mean", "2x2100x40", "1", int64_t{2} * 2100 * 40), within(1, 0.01));
    EXPECT_THAT(sums("sum", "600x96", "0", int64_t{600} * 96), within(600, 0.01));
    for (int i = 0; i < 4; i++)
        EXPECT_THAT(sums("sum", "700x96", "0", int64_t{700} * 96),
                    within(700, 0.01));  // in any parts, with rows that are not there
    // 13 at a time, 512 takes no more than 12 of them.
    EXPECT_THAT(sums("sum", "80x3x13x4", "0,2", int64_t{80} * 3 * 13 * 4), within(1040, 0.01));
    // 180 vectors of each row, which is 4,200 ones.
    EXPECT_THAT(sums("sum", "2x60x6x70", "1,3", int64_t{2} * 60 * 6 * 70), within(4200, 0.01));
    EXPECT_THAT(sums("mean", "2x60x6x70", "1,3", int64_t{2} * 60 * 6 * 70), within(1, 0.01));
    // In steps of eight elements: 1,018 steps, which no small number divides, and 79 planes of 67.
    EXPECT_THAT(sums("mean", "8144x3", "0", int64_t{8144} * 3), within(1, 0.01));
    EXPECT_THAT(sums("mean", "79x2x67x3", "0,2", int64_t{79} * 2 * 67 * 3), within(1, 0.01));
    EXPECT_THAT(sums("mean", "65152x3", "0", int64_t{65152} * 3), within(1, 0.02));
    EXPECT_THAT(sums("var", "529x2x4", "0,1", int64_t{529} * 2 * 4), testing::Each(testing::Lt(0.001)));
    EXPECT_THAT(sums("var", "3000x3", "0", int64_t{3000} * 3), testing::Each(testing::Lt(0.001)));
    if (!machine.timed()) return;  // such columns do not fit small pads
    EXPECT_THAT(sums("softmax", "4096x3", "0", int64_t{4096} * 3), within(1.0 / 4096, 0.01));
    EXPECT_THAT(sums("softmax", "8144x3", "0", int64_t{8144} * 3), within(1.0 / 8144, 0.01));
}

// Neither the planes nor the steps of each are made of equal groups: few runs, whose rows small pads hold.
TEST_F(Rows, SumsOfAwkwardNumbersHaveASchedule) {
    const auto workload = find_operator("var").workload({{"shape", "79x2x530x3"}, {"dim", "0,2"}});
    EXPECT_EQ(violation(workload->space(machine), workload->naive_point(machine)), "");
}

// Rows that end inside a vector lie by columns of vectors where many are in the pads: in blocks that are not whole, with a
// second axis that is reduced, and others kept.
TEST_F(Rows, ReductionsByColumnsOfVectors) {
    for (const char *name : {"sum", "mean", "amax", "var"})
        for (const auto &[shape, dims] : {std::pair{"90x49", "1"}, {"3x17x71", "2"}, {"2x33x3x45", "1,3"}}) {
            const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", shape}, {"dim", dims}});
            const Evaluator evaluator(workload, machine);
            for (const auto &[rows, unroll] : {std::pair{16, 1}, {16, 4}, {8, 8}}) {
                const Point point = {
                    {"rows", rows}, {"chunk", 0}, {"row_unroll", unroll}, {"vector_unroll", 1}, {"grouped", 0}};
                if (!violation(workload->space(machine), point).empty()) continue;
                SCOPED_TRACE(fmt::format("{} of {} over {}, {}", name, shape, dims, point.assignments()));
                EXPECT_EQ(evaluator.verify(point), "");
            }
        }
}

// Of several planes: tiles of 32 results and a smaller one, rows that end inside vectors, parts of them, and long sums in
// groups; rows of one vector; and of two or three, which lanes add first.
TEST_F(Rows, SumsOverPlanesAreSideBySide) {
    for (const char *name : {"sum", "mean", "var"})
        for (const auto &[shape, dims] : {std::pair{"2x5x70x45", "1,3"},
                                          {"3x4x33x64", "1,3"},
                                          {"40x6x7", "0,2"},
                                          {"2x30x37x96", "1,3"},
                                          {"1x3x32x32", "1,3"},
                                          {"70x32", "1"},
                                          {"28x8", "1"},
                                          {"70x49", "1"},
                                          {"96x64", "1"},
                                          {"90x81", "1"}}) {
            if (name == std::string("var") && dims == std::string("1")) continue;  // the scalar unit divides it
            const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", shape}, {"dim", dims}});
            const Evaluator evaluator(workload, machine);
            const Space space = workload->space(machine);
            const std::vector<int64_t> &rows = space.find("rows").values, &chunks = space.find("chunk").values,
                                       &steps = space.find("vector_unroll").values;
            int verified = 0;
            for (const Point &point :
                 {Point{{"rows", rows.front()}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 1}},
                  {{"rows", rows.back()}, {"chunk", 0}, {"row_unroll", 2}, {"vector_unroll", 1}},
                  {{"rows", rows.back()}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", steps.back()}},
                  {{"rows", rows.front()}, {"chunk", chunks.back()}, {"row_unroll", 1}, {"vector_unroll", 1}}})
                for (const int64_t weights : {8, 32}) {
                    Point all = point;
                    all.set("grouped", 1);
                    all.set("weight_unroll", weights);
                    if (!violation(space, all).empty()) continue;
                    SCOPED_TRACE(fmt::format("{} of {} over {}, {}", name, shape, dims, all.assignments()));
                    EXPECT_EQ(evaluator.verify(all), "");
                    verified++;
                }
            EXPECT_GE(verified, machine.timed() ? 4 : 1) << shape;
        }
}

// One row after the other they took more than twice as long; shares that are no power of two are rounded in float32.
TEST_F(Rows, SumsOfShortRowsAreSideBySide) {
    if (!machine.timed()) return;
    const auto workload = [](const char *name, const char *shape) {
        return find_operator(name).workload({{"shape", shape}, {"dim", "1"}});
    };
    const Point point = {{"rows", 512},        {"chunk", 0},   {"row_unroll", 1},
                         {"vector_unroll", 1}, {"grouped", 1}, {"weight_unroll", 32}};
    EXPECT_LT(Evaluator(workload("sum", "4096x3"), machine).evaluate(point).cycles, 4 * 4096);
    EXPECT_LT(Evaluator(workload("mean", "4096x32"), machine).evaluate(point).cycles, 4 * 4096);
    EXPECT_NE(violation(workload("mean", "4096x3")->space(machine), point), "");
    // Waiting for the transfers of a block costs less than rows of their own for each tile.
    const Evaluator short_rows(workload("sum", "300x21"), machine);
    Point blocks = {{"rows", 30}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 1}, {"grouped", 1}, {"weight_unroll", 8}},
          tiles = blocks;
    tiles.set("chunk", 1);
    EXPECT_LT(short_rows.evaluate(blocks).cycles, short_rows.evaluate(tiles).cycles);
    EXPECT_LT(short_rows.workload().draft(machine, blocks), short_rows.workload().draft(machine, tiles));
}

// All rows of a tile begin in the same pad where their vectors are whole turns of the pads, so that each vector is a step of a
// loop; four vectors are straight-line code.
TEST_F(Rows, DraftOfRowsThatAreWholeTurnsOfThePads) {
    if (!machine.timed()) return;
    const auto expect_faster = [&](const char *shape, const char *dims, int64_t fast, int64_t slow) {
        const Evaluator evaluator(find_operator("sum").workload({{"shape", shape}, {"dim", dims}}), machine);
        const auto point = [](int64_t vectors) {
            return Point{{"rows", 64},         {"chunk", 0}, {"row_unroll", 1}, {"grouped", 1}, {"vector_unroll", vectors},
                         {"weight_unroll", 32}};
        };
        EXPECT_LT(evaluator.evaluate(point(fast)).cycles, evaluator.evaluate(point(slow)).cycles) << shape;
        EXPECT_LT(evaluator.workload().draft(machine, point(fast)), evaluator.workload().draft(machine, point(slow))) << shape;
    };
    expect_faster("2x64x32x32", "0,2,3", 1, 4);
    expect_faster("4x64x128", "0,2", 4, 1);
}

// All rows come beside one loop over tiles, a column of vectors at a time. The share that bf16 does not have is two parts of
// one sign, so that infinities stay what they are, and in their row.
TEST_F(Rows, VectorsOfShortRowsAreAddedFirst) {
    constexpr int64_t rows = 96, length = 49;
    const std::shared_ptr<const Workload> workload =
        find_operator("mean").workload({{"shape", fmt::format("{}x{}", rows, length)}, {"dim", "1"}});
    const auto point = [](int64_t block) {
        return Point{{"rows", block},      {"chunk", 0},   {"row_unroll", 1},
                     {"vector_unroll", 1}, {"grouped", 1}, {"weight_unroll", 32}};
    };
    if (!violation(workload->space(machine), point(rows)).empty()) GTEST_SKIP() << "small pads";
    const Evaluator evaluator(workload, machine);
    EXPECT_EQ(evaluator.verify(point(rows)), "");
    EXPECT_LT(evaluator.evaluate(point(rows)).cycles, 26 * rows) << "more in blocks of 32";

    TensorData data(rows * length, bf16_truncate(0.5f));
    constexpr float infinity = std::numeric_limits<float>::infinity();
    data[3 * length + 40] = bf16_truncate(infinity);
    data[5 * length + 7] = bf16_truncate(-infinity);
    const KernelDefinition kernel = workload->build(machine, point(rows));
    const KernelRun run = run_kernel(kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine), machine, {data});
    ASSERT_TRUE(run.result.ok) << run.result.error;
    for (size_t row = 0; row < static_cast<size_t>(rows); row++)
        EXPECT_EQ(bf16_float(run.outputs.at(0)[row]), row == 3 ? infinity : row == 5 ? -infinity : 0.5f) << row;
}

// Rows that share vectors: of less than one vector, of two and more with and without vectors inside, tiles of 32 rows and of
// fewer, the last of which begins earlier.
TEST_F(Rows, PackedRowsAreSummedAsTheyLie) {
    if (!machine.timed()) GTEST_SKIP() << "elsewhere packets alone count";
    for (const char *name : {"sum", "mean"})
        for (const char *shape :
             {"70x4", "54x8", "300x12", "130x33", "160x49", "130x77", "70x100", "72x180", "96x196", "150x225", "40x300"}) {
            const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", shape}, {"dim", "1"}});
            const Evaluator evaluator(workload, machine);
            const Space space = workload->space(machine);
            ASSERT_EQ(space.parameters.size(), 2u) << shape << " is summed otherwise";
            for (const int64_t tiles : space.find("row_unroll").values)
                for (const int64_t steps : space.find("vector_unroll").values) {
                    const Point point = {{"row_unroll", tiles}, {"vector_unroll", steps}};
                    if (!violation(space, point).empty()) continue;
                    SCOPED_TRACE(fmt::format("{} of {}, {}", name, shape, point.assignments()));
                    EXPECT_EQ(evaluator.verify(point), "");
                }
        }
}

// A vector of the pads has 16 rows of two elements.
TEST_F(Rows, PackedRowsMayShareLoads) {
    const int64_t rows = 4096, loads = rows * machine.pad.read_ii / machine.pad.count;
    if (machine.timed()) {
        EXPECT_LT(find_operator("sum").workload({{"shape", "4096x2"}, {"dim", "1"}})->bound(machine).cycles, loads);
    }
}

// Global average pooling: rows come at the rate of the bus, several transfers of a pad for a tile and those of the last one
// among them, and as columns of vectors took 9.7, 38 and 32 cycles each.
TEST_F(Rows, PackedRowsComeBesideTheLoop) {
    if (!machine.timed()) GTEST_SKIP() << "nothing comes beside anything";
    const auto cycles_of_row = [&](int64_t rows, int64_t length) {
        const Evaluator evaluator(find_operator("mean").workload({{"shape", fmt::format("{}x{}", rows, length)}, {"dim", "1"}}),
                                  machine);
        return static_cast<double>(evaluator.evaluate({{"row_unroll", 1}, {"vector_unroll", 1}}).cycles) /
               static_cast<double>(rows);
    };
    EXPECT_LT(cycles_of_row(1280, 49), 7.5);
    EXPECT_LT(cycles_of_row(672, 196), 27);
    EXPECT_LT(cycles_of_row(2364, 197), 21);
}

// What two rows share a vector of stays apart: an infinity or NaN is in the sum of its row alone.
TEST_F(Rows, PackedRowsKeepInfinitiesToThemselves) {
    if (!machine.timed()) GTEST_SKIP() << "elsewhere rows share no vectors";
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const auto &[rows, length] : {std::pair{int64_t{150}, int64_t{49}}, {100, 12}, {64, 196}, {72, 180}}) {
        const auto at = [length](int64_t row, int64_t element) { return static_cast<size_t>(row * length + element); };
        std::vector<double> elements(static_cast<size_t>(rows * length), 0.5);
        for (int64_t row = 1; row < rows; row += 3) {
            elements[at(row, row % 2 == 0 ? 0 : length - 1)] = row % 4 == 0 ? std::nan("") : infinity;
            elements[at(row, length / 2)] = row % 4 == 0 ? 1 : infinity;
        }
        const std::vector<double> means =
            results("mean", {{"shape", fmt::format("{}x{}", rows, length)}, {"dim", "1"}}, elements);
        for (int64_t row = 0; row < rows; row++) {
            const double mean = means[static_cast<size_t>(row)];
            if (row % 3 == 1 && row % 4 == 0)
                EXPECT_TRUE(std::isnan(mean)) << row << " of " << length;
            else
                EXPECT_EQ(mean, row % 3 == 1 ? infinity : 0.5) << row << " of " << length;
        }
    }
}

// Both sums of a variance, which took ten times as long one row after the other.
TEST_F(Rows, VariancesOverPlanesAreSideBySide) {
    if (!machine.timed()) return;
    const Point point = {{"rows", 25},         {"chunk", 0},   {"row_unroll", 1},
                         {"vector_unroll", 2}, {"grouped", 1}, {"weight_unroll", 32}};
    const auto cycles = [&](const char *name) {
        const Evaluation one =
            Evaluator(find_operator(name).workload({{"shape", "2x12x50x64"}, {"dim", "1,3"}}), machine).evaluate(point);
        EXPECT_EQ(one.reason, "") << name;
        return one.cycles;
    };
    EXPECT_LT(cycles("var"), 4 * cycles("sum"));
}

// 35 vectors are two parts of 18 with one of zeros, as weights of the array, one after the other or by columns of vectors.
TEST_F(Rows, LongRowsOfAnyLengthAreMadeOfEqualParts) {
    for (const char *name : {"sum", "mean", "var"})
        for (const auto &[shape, rows] : {std::pair{"5x1100", 1}, {"6x1120", 2}, {"40x1100", 40}}) {
            const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", shape}, {"dim", "1"}});
            const Evaluator evaluator(workload, machine);
            for (const int grouped : {0, 1}) {
                const Point point = {
                    {"rows", rows}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 1}, {"grouped", grouped}};
                if (!violation(workload->space(machine), point).empty()) continue;
                SCOPED_TRACE(fmt::format("{} of {}, {}", name, shape, point.assignments()));
                EXPECT_EQ(evaluator.verify(point), "");
            }
        }
    // In parts none of which is only vectors of zeros.
    for (const char *name : {"sum", "amax", "var"}) {
        const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", "2x11921"}, {"dim", "1"}});
        EXPECT_EQ(Evaluator(workload, machine).verify(workload->naive_point(machine)), "") << name;
    }
    if (!machine.timed()) return;
    const Evaluator evaluator(find_operator("sum").workload({{"shape", "5x1100"}, {"dim", "1"}}), machine);
    const Evaluation apart =
        evaluator.evaluate({{"rows", 1}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 2}, {"grouped", 0}});
    const Evaluation weights =
        evaluator.evaluate({{"rows", 1}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 1}, {"grouped", 1}});
    ASSERT_EQ(apart.reason + weights.reason, "");
    EXPECT_LT(weights.cycles, apart.cycles);
}

// Rows all in the pads, whose loads start from inside the loop and the last of which is waited for there: whole vectors, rows
// that end inside one and so have their ends apart, and extrema whose marks are weights.
// A mean stands between two visits of the array: rows of one visit each overlap where all means come first, and parts of longer
// ones in straight-line code.
TEST_F(Rows, RowsOfVariancesOverlap) {
    if (!machine.timed()) GTEST_SKIP() << "nothing overlaps";
    const auto cycles = [&](int64_t rows, int64_t length, int64_t block) {
        const Evaluator evaluator(find_operator("var").workload({{"shape", fmt::format("{}x{}", rows, length)}, {"dim", "1"}}),
                                  machine);
        const Point point = {{"rows", block}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 1}, {"grouped", 1}};
        EXPECT_EQ(evaluator.verify(point), "") << length;
        return evaluator.evaluate(point).cycles;
    };
    EXPECT_LT(cycles(64, 1024, 16) - cycles(32, 1024, 16), 32 * 300) << "349 and more one after the other";
    EXPECT_LT(cycles(16, 3000, 8) - cycles(8, 3000, 8), 8 * 1250);
}

TEST_F(Rows, LoadsOfAllRowsStartBesideTheLoop) {
    if (!machine.timed()) return;
    const auto evaluate = [&](const char *name, const char *shape, int64_t rows, int64_t vectors) {
        const Evaluator evaluator(find_operator(name).workload({{"shape", shape}, {"dim", "1"}}), machine);
        const Point point = {{"rows", rows}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", vectors}, {"grouped", 1}};
        EXPECT_EQ(evaluator.verify(point), "") << name << " of " << shape;
        return evaluator.evaluate(point).cycles;
    };
    EXPECT_LT(evaluate("sum", "160x1024", 160, 1), evaluate("sum", "160x1024", 32, 1));
    EXPECT_LT(evaluate("amax", "160x1024", 160, 2), evaluate("amax", "160x1024", 32, 2));
    EXPECT_LT(evaluate("sum", "40x3000", 40, 1), evaluate("sum", "40x3000", 4, 1));
    evaluate("mean", "37x1500", 37, 1);
    evaluate("amin", "40x3000", 40, 6);
}

// What finds NaN in rows of an extremum as weights of the array, in one part or several that are not equal, or of several
// planes.
TEST_F(Rows, MarksOfExtremaAreWeights) {
    for (const char *name : {"amax", "amin"})
        for (const auto &[shape, dims, rows] : {std::tuple{"9x768", "1", 9},
                                                {"6x1000", "1", 2},
                                                {"40x1000", "1", 40},
                                                {"5x2200", "1", 5},
                                                {"2x12x6x64", "1,3", 6},
                                                {"4x16x32x32", "1,3", 8},
                                                {"2x9x8x90", "1,3", 4},
                                                {"5x5x7x170", "1,3", 4}}) {
            const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", shape}, {"dim", dims}});
            const Evaluator evaluator(workload, machine);
            const Space space = workload->space(machine);
            for (const int64_t vectors : space.find("vector_unroll").values)
                for (const int64_t unroll : {1, 2}) {
                    const Point point = {
                        {"rows", rows}, {"chunk", 0}, {"row_unroll", unroll}, {"vector_unroll", vectors}, {"grouped", 1}};
                    if (!violation(space, point).empty()) continue;
                    SCOPED_TRACE(fmt::format("{} of {}, {}", name, shape, point.assignments()));
                    EXPECT_EQ(evaluator.verify(point), "");
                }
        }
}

// Extrema that pass NaN over until the array has found one: it is in the results of its own lanes alone, an
// infinity is none, and rows without one are looked at once.
TEST_F(Rows, ExtremaLookAgainForNan) {
    if (!machine.timed()) GTEST_SKIP() << "elsewhere lanes keep NaN themselves";
    for (const char *name : {"amax", "amin"})
        for (const auto &[shape, dims] : {std::pair{"64x64", "0"},
                                          {"40x96", "0"},
                                          {"3x70x64", "1"},
                                          {"4x2x33x64", "0,2"},
                                          {"50x75", "0"},
                                          {"3x4096", "1"},
                                          {"5x8300", "1"}}) {
            const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", shape}, {"dim", dims}});
            const Evaluator evaluator(workload, machine);
            const Space space = workload->space(machine);
            int points = 0;
            for (const int64_t rows : space.find("rows").values)
                for (const int64_t vectors : space.find("vector_unroll").values) {
                    const Point point = {{"rows", rows}, {"chunk", 0},      {"row_unroll", 1}, {"vector_unroll", vectors},
                                         {"grouped", 0}, {"second_look", 1}};
                    if (!violation(space, point).empty()) continue;
                    points++;
                    SCOPED_TRACE(fmt::format("{} of {}, {}", name, shape, point.assignments()));
                    EXPECT_EQ(evaluator.verify(point), "");
                }
            EXPECT_GT(points, 0) << shape;
        }
}

// A loop over rows whose code out of line stands inside it, so that its branch back does not reach its beginning.
TEST_F(Rows, LoopsOverCodeOutOfLineReachBack) {
    if (!machine.timed()) return;
    const std::shared_ptr<const Workload> workload = find_operator("sum").workload({{"shape", "40x3000"}, {"dim", "1"}});
    EXPECT_EQ(Evaluator(workload, machine)
                  .verify({{"rows", 8}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 1}, {"grouped", 0}}),
              "");
}

// 94 vectors are 16 times five and 14, which no straight-line code divides; with two more behind them it does.
TEST_F(Rows, ExtremaOfLongRowsAreMadeManyAtATime) {
    for (const char *name : {"amax", "amin"})
        for (const auto &[shape, dims] : {std::pair{"3x3000", "1"}, {"2x600", "1"}, {"2x3x5x50", "1,3"}}) {
            const std::shared_ptr<const Workload> workload = find_operator(name).workload({{"shape", shape}, {"dim", dims}});
            const Point point = {{"rows", 1}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 1}, {"grouped", 0}};
            if (!violation(workload->space(machine), point).empty()) continue;  // small pads
            SCOPED_TRACE(fmt::format("{} of {} over {}", name, shape, dims));
            EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
        }
    const Space space = find_operator("amax").workload({{"shape", "3x3000"}, {"dim", "1"}})->space(machine);
    EXPECT_THAT(space.find("vector_unroll").values, testing::IsSupersetOf({1, 2, 6}));
}

// Global average pooling: transfers bring vectors of many rows.
TEST_F(Rows, MeansOfImagesWaitForFewTransfers) {
    if (!machine.timed()) return;
    const Evaluator evaluator(find_operator("mean").workload({{"shape", "64x15x15"}, {"dim", "1,2"}}), machine);
    const Evaluation few =
        evaluator.evaluate({{"rows", 4}, {"chunk", 0}, {"row_unroll", 2}, {"vector_unroll", 8}, {"grouped", 0}});
    const Evaluation many =
        evaluator.evaluate({{"rows", 32}, {"chunk", 0}, {"row_unroll", 2}, {"vector_unroll", 8}, {"grouped", 0}});
    ASSERT_EQ(few.status, Evaluation::Ok) << few.reason;
    ASSERT_EQ(many.status, Evaluation::Ok) << many.reason;
    EXPECT_LT(many.cycles, few.cycles * 2 / 3);
}

// The last block of results begins earlier where it would end inside a vector, so that all bring theirs ahead.
TEST_F(Rows, BlocksThatEndInsideAVectorAreLikeOthers) {
    const auto evaluate = [&](const char *op, const std::string &shape, const char *dims, int64_t rows, int64_t chunk) {
        const Evaluator evaluator(find_operator(op).workload({{"shape", shape}, {"dim", dims}}), machine);
        Point point = evaluator.workload().naive_point(machine);
        point.set("rows", rows);
        point.set("chunk", chunk);
        if (!violation(evaluator.workload().space(machine), point).empty()) return int64_t{0};  // small pads
        EXPECT_EQ(evaluator.verify(point), "") << op << " of " << shape;
        return evaluator.evaluate(point).cycles;
    };
    for (const char *op : {"sum", "var", "amax"}) {
        evaluate(op, "77x77", "0", 1, 0);      // rows that are not there, and the last block begins earlier
        evaluate(op, "3x20x100", "1", 2, 0);   // two vectors a block
        evaluate(op, "2x16x3x50", "1", 1, 1);  // parts of results
        if (machine.timed()) {
            EXPECT_LT(evaluate(op, "200x300", "0", 1, 0), evaluate(op, "200x320", "0", 1, 0) * 6 / 5) << op;
        }
    }
}

// Rows of many vectors are weights of the array first; short ones are whole rows in straight-line code that overlaps.
TEST_F(Rows, DraftPrefersWhatIsFaster) {
    if (!machine.timed()) return;
    const auto point = [](int64_t rows, int64_t row_unroll, int64_t vector_unroll, int64_t grouped) {
        return Point{
            {"rows", rows}, {"chunk", 0}, {"row_unroll", row_unroll}, {"vector_unroll", vector_unroll}, {"grouped", grouped}};
    };
    const auto expect_faster = [&](const char *op, const char *shape, const Point &fast, const Point &slow,
                                   const char *dims = "1") {
        const std::shared_ptr<const Workload> workload = find_operator(op).workload({{"shape", shape}, {"dim", dims}});
        const Evaluation first = Evaluator(workload, machine).evaluate(fast),
                         second = Evaluator(workload, machine).evaluate(slow);
        ASSERT_EQ(first.reason + second.reason, "") << shape;
        EXPECT_LT(first.cycles, second.cycles) << shape;
        EXPECT_LT(workload->draft(machine, fast), workload->draft(machine, slow)) << shape;
    };
    expect_faster("sum", "64x768", point(16, 1, 1, 1), point(64, 8, 8, 0));
    expect_faster("sum", "64x197", point(64, 4, 7, 0), point(64, 8, 1, 0));
    expect_faster("sum", "64x311", point(64, 2, 10, 0), point(32, 8, 5, 0));
    expect_faster("var", "16x2048", point(8, 1, 1, 1), point(8, 1, 8, 0));
    // Across lanes a vector of results at a time, in little straight-line code.
    expect_faster("amax", "4x128x64", point(1, 1, 1, 0), point(1, 1, 4, 0), "1");
    expect_faster("amax", "128x256", point(1, 1, 2, 0), point(4, 1, 1, 0), "0");
    expect_faster("amin", "256x128", point(4, 1, 1, 0), point(2, 1, 1, 0), "0");
    // Of several planes: straight-line code of the vectors of a row, and of all weights of a tile.
    const auto of_planes = [&](int64_t rows, int64_t vector_unroll, int64_t weights) {
        Point all = point(rows, 1, vector_unroll, 1);
        all.set("weight_unroll", weights);
        return all;
    };
    expect_faster("sum", "2x12x50x64", of_planes(32, 2, 32), of_planes(32, 1, 32), "1,3");
    expect_faster("sum", "4x16x128x32", of_planes(128, 1, 32), of_planes(32, 1, 8), "1,3");
    expect_faster("sum", "2x10x40x50", of_planes(20, 2, 32), of_planes(32, 2, 32), "1,3");
}

}  // namespace
}  // namespace atalla
