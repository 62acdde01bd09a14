// Matrix products at random shapes and schedules on one machine: bit for bit equal to the unoptimized program and to the
// host, close to float64, never faster than the bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/gemm_host.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "isa/instruction.h"
#include "isa/vectors.h"
#include "schedules/random.h"
#include "schedules/space.h"
#include "tests/generators/dump_of.h"
#include "tests/generators/sampled_point.h"
#include "tests/support/settings.h"

namespace atalla {
namespace {

constexpr int shapes = 110;

class Gemm : public testing::Test {
protected:
    const Machine machine = find_machine(test_machine());
    const Operator &op = find_operator("gemm");

    // Mostly small sizes, and the edges of whole vectors.
    static int64_t random_size(Random &random, int64_t largest) {
        constexpr std::array<int64_t, 8> edges = {1, 2, 31, 32, 33, 63, 64, 65};
        return random.below(3) == 0 ? std::min(largest, edges[random.below(edges.size())])
                                    : 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(largest)));
    }

    WorkloadArguments random_workload(Random &random) const {
        // What the two small pads of the functional machine hold.
        const int64_t largest = machine.timed() ? 130 : 70;
        WorkloadArguments arguments = {{"shape", fmt::format("{}x{}x{}", random_size(random, largest),
                                                             random_size(random, largest), random_size(random, largest))}};
        for (const char *flag : {"bias", "relu", "addend"})
            if (random.below(3) == 0) arguments[flag] = "true";
        if (random.below(4) == 0) arguments["alpha"] = "0.75";
        if (random.below(4) == 0) arguments["beta"] = "-1.5";
        if (random.below(3) == 0) arguments["b-layout"] = "kn";
        return arguments;
    }
};

TEST_F(Gemm, RandomShapesAndSchedules) {
    Random random(20240611);
    for (int i = 0; i < shapes; i++) {
        const WorkloadArguments arguments = random_workload(random);
        const std::shared_ptr<const Workload> workload = op.workload(arguments);
        const Evaluator evaluator(workload, machine, 1 + static_cast<uint64_t>(i));
        SCOPED_TRACE(workload->title());
        check_sampled_point(*workload, machine, evaluator, random);
    }
}

// All of B, transposed into the pads first with the k tiles of a row one behind the other, goes round them: one alone would not
// hold it.
TEST_F(Gemm, RowsOfATransposedBGoRoundThePads) {
    if (!machine.timed()) GTEST_SKIP() << "whose pads do not hold it";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "64x768x768"}, {"b-layout", "kn"}});
    Point point = workload->naive_point(machine);
    for (const auto &[name, value] : {std::pair{"rows", 32},
                                      {"sums_in_registers", 1},
                                      {"k_block", 24},
                                      {"slots", 2},
                                      {"m_outer", 1},
                                      {"b_resident", 1},
                                      {"b_row_major", 1},
                                      {"row_unroll", 1},
                                      {"weight_unroll", 32}})
        point.set(name, value);
    const Evaluator evaluator(workload, machine);
    const Evaluation evaluation = evaluator.evaluate(point);
    ASSERT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
    EXPECT_EQ(evaluator.verify(point), "");
}

// Sums over groups of k tiles and then over the groups: many groups, few, one, and a last one that is not full.
TEST_F(Gemm, BlockedSums) {
    Random random(41);
    for (const int64_t k : {20, 32, 70, 256, 300, 420, 512})
        for (int i = 0; i < 4; i++) {
            WorkloadArguments arguments = random_workload(random);
            arguments["sums"] = "blocked";
            arguments["k"] = std::to_string(k);
            const std::shared_ptr<const Workload> workload = op.workload(arguments);
            const Evaluator evaluator(workload, machine, 1 + static_cast<uint64_t>(i));
            SCOPED_TRACE(workload->title());
            check_sampled_point(*workload, machine, evaluator, random);
            EXPECT_EQ(op.parse(workload->text())->text(), workload->text());
        }
}

// Where blocks, rings of buffers and the loops over them have many turns.
TEST_F(Gemm, LargerShapesAndSchedules) {
    Random random(99);
    for (const char *shape : {"128x128x128", "96x64x256", "256x128x64", "1x300x200", "300x1x200", "20x96x1100"}) {
        const std::shared_ptr<const Workload> workload = op.workload({{"shape", shape}});
        const Evaluator evaluator(workload, machine);
        for (const Point &point : sample_distinct(workload->space(machine), 12, random)) {
            SCOPED_TRACE(fmt::format("{} at {}", workload->title(), point.assignments()));
            EXPECT_EQ(evaluator.verify(point), "");
        }
    }
}

// All of B stays in the pads; it comes from inside the hot loop of the first block of rows, which may be a short one over
// weights.
TEST_F(Gemm, OperandsThatStayInThePadsArriveWhole) {
    if (!machine.timed()) GTEST_SKIP() << "nothing stays in small pads";
    Random random(5);
    for (const char *shape : {"100x96x64", "70x160x96", "50x72x40", "40x67x64"}) {
        const std::shared_ptr<const Workload> workload = op.workload({{"shape", shape}});
        const Evaluator evaluator(workload, machine);
        for (const int64_t weight_unroll : {4, 8, 16, 32}) {
            const Space space = restrict_to(
                workload->space(machine), {{"b_resident", 1}, {"m_outer", 1}, {"slots", 2}, {"weight_unroll", weight_unroll}});
            for (const Point &point : sample_distinct(space, 6, random))
                EXPECT_EQ(evaluator.verify(point), "") << workload->title() << " at " << point.assignments();
        }
    }
}

TEST_F(Gemm, OperandsThatStayInThePadsAreTransposedWhole) {
    if (!machine.timed()) GTEST_SKIP() << "nothing stays in small pads";
    Random random(6);
    std::vector<std::shared_ptr<const Workload>> workloads;
    for (const char *shape : {"100x96x64", "32x64x70", "70x160x96", "50x72x40", "40x67x64"})
        workloads.push_back(op.workload({{"shape", shape}, {"b-layout", "kn"}}));
    // One B for each product, and one that several share.
    for (const char *shapes : {"3x70x64,3x64x96", "2x1x40x64,3x64x96"})
        workloads.push_back(find_operator("matmul").workload({{"shape", shapes}}));
    for (const std::shared_ptr<const Workload> &workload : workloads) {
        const Evaluator evaluator(workload, machine);
        const Space space = restrict_to(workload->space(machine), {{"b_resident", 1}});
        for (const Point &point : sample_distinct(space, 8, random))
            EXPECT_EQ(evaluator.verify(point), "") << workload->title() << " at " << point.assignments();
    }
}

// The last block of columns begins earlier, by a multiple of the pads: its rows of B still go round all of them.
TEST_F(Gemm, RowsOfBlocksThatBeginEarlierGoRoundThePads) {
    if (!machine.timed()) GTEST_SKIP() << "nothing stays in small pads";
    const Point point = Point::parse(
        "b_block=1,b_resident=1,b_row_major=0,blocks_unrolled=0,k_alike=0,k_block=2,k_ends_apart=0,m_outer=1,pads_split=0,row_"
        "pass=0,row_unroll=1,"
        "rows=50,slots=2,sums_in_registers=1,weight_unroll=32");
    const std::string text = dump_of("place", Evaluator(op.workload({{"shape", "100x72x64"}}), machine), point);
    EXPECT_NE(text.find("pads Bs: 144 rows, from row 52 of pad 0 1 2 3"), std::string::npos) << text;
}

// Where the last block begins in another pad, all rows of B are in one: 129 of 65 k tiles are too many for it.
TEST_F(Gemm, RowsOfOnePadFitIt) {
    if (!machine.timed()) GTEST_SKIP() << "nothing stays in small pads";
    const auto stays = [&](const char *shape) {
        return count(restrict_to(op.workload({{"shape", shape}})->space(machine), {{"b_resident", 1}}), 1) > 0;
    };
    EXPECT_FALSE(stays("146x129x2049"));
    EXPECT_TRUE(stays("146x129x1024"));
    EXPECT_TRUE(stays("146x132x2049"));
    // Rows that a norm makes one by one, too.
    const std::shared_ptr<const Workload> made = find_operator("mm(layer_norm(x), y)").workload({{"shape", "128x4096,4096x1"}});
    const Space space = made->space(machine);
    EXPECT_EQ(count(restrict_to(space, {{"prologue_rows", 1}, {"prologue_row_unroll", 1}}), 1), 0u);
    Random random(8);
    EXPECT_EQ(Evaluator(made, machine).evaluate(*sample(space, random)).reason, "");
}

// 4096 + 2^-13 - 4096: float32 loses the term in the middle, which is all of the result.
// The last block of columns begins earlier where they are no whole blocks. Its rows have their pads as those of the others do,
// where each block comes anew.
TEST_F(Gemm, RowsOfBlocksThatComeAnewMayStayInAPadInTurns) {
    if (!machine.timed()) GTEST_SKIP() << "pads take turns with every row";
    Random random(20);
    for (const char *shape : {"1x70x96", "5x333x64", "40x101x128"}) {
        const std::shared_ptr<const Workload> workload = op.workload({{"shape", shape}, {"bias", "true"}});
        const Space space = workload->space(machine);
        const Evaluator evaluator(workload, machine, 3);
        int checked = 0;
        for (int draws = 0; checked < 6 && draws < 2000; draws++) {
            const std::optional<Point> point = sample(space, random);
            if (!point || (*point)["b_block"] == 1) continue;
            SCOPED_TRACE(fmt::format("{} {}", shape, point->assignments()));
            EXPECT_EQ((*point)["b_resident"], 0);
            EXPECT_EQ(evaluator.verify(*point), "");
            checked++;
        }
        EXPECT_EQ(checked, 6) << shape;
    }
}

TEST(GemmReference, PeaksCountWhatCancelsWithinABlock) {
    GemmShape shape;
    shape.m = shape.n = 1;
    shape.k = 3;
    const Reference reference = gemm_reference(shape, {{0x4580, 0x3900, 0xC580}, {0x3F80, 0x3F80, 0x3F80}});
    EXPECT_EQ(reference.values.at(0), 0x1p-13);
    EXPECT_LE(largest_error_ulps({0}, reference), 1);
}

TEST(GemmShape, GroupsOfBlockedSumsHaveFewTilesBeyondTheLast) {
    GemmShape shape;
    shape.m = shape.n = 1;
    for (int64_t tiles = 1; tiles <= 400; tiles++) {
        shape.k = tiles * lanes - 5;
        shape.blocked_sums = false;
        EXPECT_EQ(shape.k_tiles(), tiles);
        EXPECT_EQ(shape.sum_groups(), 1);
        shape.blocked_sums = true;
        const int64_t rounds = shape.sum_group() + shape.sum_groups();
        EXPECT_LE(rounds * rounds, std::max<int64_t>(9 * tiles, 16)) << tiles;
        EXPECT_GE(shape.k_tiles(), tiles);
        EXPECT_LE(shape.k_tiles(), tiles + std::max<int64_t>(1, tiles / 8)) << tiles;
    }
}

// Root mean square of the differences from float64, for terms of either sign and for positive ones, where a long sum outgrows
// its terms.
TEST_F(Gemm, BlockedSumsKeepMoreDigits) {
    const auto error = [&](const char *sums, bool positive) {
        const std::unique_ptr<Workload> workload = op.workload({{"shape", "32x32x8192"}, {"sums", sums}});
        std::vector<TensorData> inputs = random_inputs(workload->inputs(), DataSet::Normal, 3);
        constexpr uint16_t without_sign = 0x7FFF;
        if (positive)
            for (TensorData &input : inputs)
                for (uint16_t &element : input) element &= without_sign;
        const std::vector<double> exact = workload->reference(inputs)[0].values;
        const TensorData result = workload->host_result(machine, inputs)[0];
        double squares = 0;
        for (size_t i = 0; i < exact.size(); i++) squares += std::pow(static_cast<double>(bf16_float(result[i])) - exact[i], 2);
        return std::sqrt(squares);
    };
    EXPECT_LT(2 * error("blocked", false), error("ascending", false));
    EXPECT_LT(8 * error("blocked", true), error("ascending", true));
}

// The last rows of a loop that turns run one turn of the nest later: not where other weights are loaded before.
TEST_F(Gemm, RowsThatRunLaterFindTheirWeights) {
    if (!machine.timed()) GTEST_SKIP() << "no loop turns on a functional machine";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "128x128x128"}, {"b-layout", "kn"}});
    const Point point = Point::parse(
        "b_block=1,b_resident=0,b_row_major=0,blocks_unrolled=0,k_block=4,k_ends_apart=0,m_outer=0,pads_split=0,row_pass=0,row_"
        "unroll=1,"
        "rows=43,slots=2,sums_in_registers=1,weight_unroll=32");
    EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
}

// A row of the identity follows the other into the array in each cycle, which takes more than one pad.
TEST_F(Gemm, RowsOfTheIdentityGoRoundThePads) {
    if (!machine.timed() || lanes % machine.pad.count != 0) GTEST_SKIP() << "rows that are made, or in one pad";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "64x64x64"}, {"b-layout", "kn"}});
    const Point point = Point::parse(
        "b_block=1,b_resident=0,b_row_major=0,blocks_unrolled=0,k_alike=0,k_block=2,k_ends_apart=0,m_outer=1,pads_split=0,row_"
        "pass=0,row_unroll=1,"
        "rows=64,slots=2,sums_in_registers=1,weight_unroll=32");
    const std::string text = dump_of("pack", Evaluator(workload, machine), point);
    for (int64_t row = 0; row < lanes; row++)
        EXPECT_NE(text.find(fmt::format("identity[{}] pad {}", row, row % machine.pad.count)), std::string::npos) << row;
}

// Where the adder has no cycle to spare, each of its operations finds one in which its packet leaves it the register banks: a
// row of a large block costs no more than one of a smaller block.
TEST_F(Gemm, AVisitOfManyRowsKeepsTheAdderBusy) {
    if (machine.name != "ax01") GTEST_SKIP() << "a machine whose adder forms the sums";
    const auto cycles_a_row = [&](int rows) {
        const Point point = Point::parse(
            "b_block=1,b_resident=0,b_row_major=0,blocks_unrolled=0,k_alike=0,k_block=24,k_ends_apart=0,m_outer=1,pads_split=0,"
            "row_pass=0,row_unroll=1,slots=2,sums_in_registers=1,weight_unroll=32,rows=" +
            std::to_string(rows));
        const Evaluator evaluator(op.workload({{"shape", fmt::format("{}x64x768", rows)}}), machine);
        EXPECT_EQ(evaluator.verify(point), "");
        return static_cast<double>(evaluator.evaluate(point).cycles) / rows;
    };
    EXPECT_LT(cycles_a_row(128), 1.03 * cycles_a_row(120));
}

// A that stays in the pads comes once, however many blocks of columns pass.
TEST_F(Gemm, RowsOfAThatStayComeOnce) {
    if (!machine.timed() || 64 % machine.pad.count != 0) GTEST_SKIP() << "A does not stay";
    for (const std::string layout : {"nk", "kn"}) {
        Point point = Point::parse(
            "a_resident=1,b_block=1,b_resident=0,b_row_major=0,blocks_unrolled=0,k_alike=0,k_block=20,k_ends_apart=0,m_outer=0,"
            "pads_split=0,row_pass=0,row_unroll=1,rows=64,slots=2,sums_in_registers=1,weight_unroll=32");
        if (layout == "kn") point.set("b_turned", 0);
        const std::shared_ptr<const Workload> workload = op.workload({{"shape", "128x96x640"}, {"b-layout", layout}});
        EXPECT_EQ(violation(workload->space(machine), point), "") << layout;
        const Evaluator evaluator(workload, machine);
        EXPECT_EQ(evaluator.verify(point), "") << layout;
        const std::string text = dump_of("overlap", evaluator, point);
        const size_t nest = text.find("for C_out.no");
        ASSERT_NE(nest, std::string::npos) << text;
        EXPECT_EQ(text.find("scpad.ld As", nest), std::string::npos) << text;
    }
}

// The point of a product whose B is [k][n] that takes all rows together.
Point of_all_rows(int64_t m, int64_t k, const std::string &others) {
    return Point::parse(
        fmt::format("b_block=1,b_row_major=0,blocks_unrolled=0,k_alike=0,k_block={},k_ends_apart=0,m_outer=1,"
                    "pads_split=0,row_pass=0,row_unroll=1,rows={},slots=2,sums_in_registers=1,weight_unroll=32,{}",
                    ceil_div(k, lanes), m, others));
}

// Odd sizes, tails of each dimension and epilogues where the loop over k tiles transposes those of B.
TEST_F(Gemm, TilesOfBAreTransposedInsideTheProduct) {
    if (!machine.timed()) GTEST_SKIP() << "tiles pass through registers on a functional machine";
    Random random(20261129);
    for (int i = 0; i < 24; i++) {
        WorkloadArguments arguments = random_workload(random);
        arguments["shape"] =
            fmt::format("{}x{}x{}", random_size(random, 72), random_size(random, 100), random_size(random, 200));
        arguments["b-layout"] = "kn";
        const std::shared_ptr<const Workload> workload = op.workload(arguments);
        Space space = workload->space(machine);
        for (Parameter &parameter : space.parameters)
            if (parameter.name == "b_turned") parameter.values = {1};
        const std::optional<Point> point = sample(space, random);
        if (!point) continue;  // its code would leave the instruction cache
        SCOPED_TRACE(workload->title() + " " + point->assignments());
        const Evaluator evaluator(workload, machine, 1 + static_cast<uint64_t>(i));
        const Evaluation evaluation = evaluator.evaluate(*point);
        EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        EXPECT_GE(evaluation.cycles, workload->least_cycles(machine, *point));
        EXPECT_EQ(evaluator.verify(*point), "");
    }
}

// It wins where the array adds the sums, whose visits are short; it is no point where its code would leave the cache.
TEST_F(Gemm, TheDraftPricesTilesThatAreTransposedInside) {
    if (machine.name != "ax01" && machine.name != "ax01-psum") GTEST_SKIP() << "an instruction cache";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "112x256x256"}, {"b-layout", "kn"}});
    const Point inside = of_all_rows(112, 256, "b_resident=0,b_turned=1"),
                before = of_all_rows(112, 256, "b_resident=0,b_turned=0");
    if (!machine.sa.psum_in) {
        EXPECT_NE(violation(workload->space(machine), inside).find("'turned inside'"), std::string::npos);
        return;
    }
    ASSERT_EQ(violation(workload->space(machine), inside), "");
    const Evaluator evaluator(workload, machine);
    EXPECT_LT(evaluator.evaluate(inside).cycles, evaluator.evaluate(before).cycles);
    EXPECT_LT(workload->draft(machine, inside), workload->draft(machine, before));
}

// A loop of many long iterations overlaps them only where that gains more than the code that fills it takes to come anew in
// each turn around it: a k tile takes as long in a loop of 24 as in one of 23.
TEST_F(Gemm, LongLoopsDoNotOverlapWhereTheirFillingLeavesTheCache) {
    if (machine.name != "ax01") GTEST_SKIP() << "an instruction cache and an adder";
    const auto cycles_a_tile = [&](int64_t k_tiles) {
        const int64_t k = k_tiles * lanes;
        const Evaluator evaluator(op.workload({{"shape", fmt::format("50x160x{}", k)}, {"b-layout", "kn"}}), machine);
        const Evaluation evaluation = evaluator.evaluate(of_all_rows(50, k, "b_resident=0,b_turned=1"));
        EXPECT_EQ(evaluation.reason, "");
        return static_cast<double>(evaluation.cycles) / static_cast<double>(k_tiles);
    };
    EXPECT_LT(cycles_a_tile(24), 1.05 * cycles_a_tile(23));
}

// With few k tiles it decides which blocks are best that the sums of one run with the first k tile of the next.
TEST_F(Gemm, TheDraftOfFewKTilesPrefersNestsThatTurn) {
    if (!machine.timed() || machine.sa.psum_in) GTEST_SKIP() << "no sums that run later";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "512x512x128"}});
    const Point turned = Point::parse(
        "b_block=8,b_resident=1,b_row_major=1,blocks_unrolled=0,k_block=4,k_ends_apart=0,m_outer=1,pads_split=0,row_pass=0,row_"
        "unroll=1,"
        "rows=103,slots=2,sums_in_registers=1,weight_unroll=32");
    const Point in_pads = Point::parse(
        "b_block=1,b_resident=0,b_row_major=1,blocks_unrolled=0,k_block=4,k_ends_apart=1,m_outer=1,pads_split=0,row_pass=0,row_"
        "unroll=32,"
        "rows=512,slots=2,sums_in_registers=0,weight_unroll=32");
    EXPECT_LT(workload->draft(machine, turned), workload->draft(machine, in_pads));
}

// Tiles that are transposed in a nest add a loop to it, with which large blocks leave the instruction cache.
TEST_F(Gemm, TheDraftKnowsTheCodeThatTransposes) {
    if (machine.name != "ax01") GTEST_SKIP() << "an instruction cache and an adder";
    const std::shared_ptr<const Workload> workload =
        op.workload({{"shape", "128x3072x768"}, {"b-layout", "kn"}, {"bias", "true"}});
    const std::string common =
        "b_block=1,b_resident=0,b_row_major=0,blocks_unrolled=0,k_alike=0,k_block=24,k_ends_apart=0,pads_split=0,row_pass=0,"
        "row_unroll=1,slots=2,sums_in_registers=1,weight_unroll=32,";
    EXPECT_LT(workload->draft(machine, Point::parse(common + "a_resident=1,m_outer=0,rows=64")),
              workload->draft(machine, Point::parse(common + "a_resident=0,m_outer=1,rows=128")));
}

// Rows of B that pads take from pages of one bank group, or of one bank, would come at a fraction of the rate: pads begin in
// later pages, which is more code, so that none are faster than those that need not.
TEST_F(Gemm, TheDraftKnowsWhichRowsOfBShareABankGroup) {
    if (machine.name != "ax01") GTEST_SKIP() << "the banks of one machine";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "1x128x2048"}});
    // Rows of half a page: pads that are a page apart, two and four.
    double fewer_cycles = 0, less = 0;
    for (const int rows_to_a_pad : {2, 4, 8}) {
        const Point point = Point::parse(
            "b_resident=0,b_row_major=1,blocks_unrolled=0,k_alike=0,k_block=64,k_ends_apart=0,m_outer=1,pads_split=0,row_pass="
            "0,"
            "row_unroll=1,rows=1,slots=2,sums_in_registers=1,weight_unroll=32,b_block=" +
            std::to_string(rows_to_a_pad));
        const Evaluation evaluation = Evaluator(workload, machine).evaluate(point);
        ASSERT_EQ(evaluation.reason, "");
        EXPECT_LT(0.98 * fewer_cycles, static_cast<double>(evaluation.cycles)) << rows_to_a_pad;
        EXPECT_LT(less, workload->draft(machine, point)) << rows_to_a_pad;
        fewer_cycles = static_cast<double>(evaluation.cycles);
        less = workload->draft(machine, point);
        // With a single group all rows are in it.
        Machine one_group = machine;
        one_group.dram.groups = 1;
        EXPECT_GT(workload->draft(one_group, point), 0) << rows_to_a_pad;
    }
}

// Whole rows of k are more than the pads hold: blocks of k tiles pass outside those of columns, whose sums wait in the pads, or
// inside.
TEST_F(Gemm, SumsOfAllColumnsWaitForFurtherKTiles) {
    if (!machine.timed()) GTEST_SKIP() << "k tiles pass inside a block on a functional machine";
    Random random(20261129);
    for (const WorkloadArguments &arguments : {WorkloadArguments{{"shape", "128x64x3328"}, {"bias", "true"}},
                                               WorkloadArguments{{"shape", "68x96x7168"}, {"addend", "true"}, {"relu", "true"}},
                                               WorkloadArguments{{"shape", "1x96x16384"}}}) {
        const std::shared_ptr<const Workload> workload = op.workload(arguments);
        const Evaluator evaluator(workload, machine);
        const Space space = workload->space(machine);
        int outside = 0;
        for (int tries = 0; outside < 4 && tries < 10000; tries++) {
            const std::optional<Point> point = sample(space, random);
            if (!point || (*point)["k_outer"] == 0) continue;
            SCOPED_TRACE(workload->title() + " " + point->text());
            EXPECT_EQ(evaluator.verify(*point), "");
            outside++;
        }
        EXPECT_EQ(outside, 4) << workload->title();
    }
}

TEST_F(Gemm, TheDraftPricesBlocksOfKTilesThatNothingComesBeside) {
    if (machine.name != "ax01") GTEST_SKIP() << "fitted to one machine";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "64x256x11008"}});
    const auto draft = [&](const char *order) {
        return workload->draft(machine, Point::parse(std::string("a_resident=0,b_block=8,b_resident=0,b_row_major=1,"
                                                                 "blocks_unrolled=0,k_alike=0,k_block=86,k_ends_apart=0,"
                                                                 "m_outer=1,pads_split=0,row_pass=0,row_unroll=1,rows=64,"
                                                                 "slots=2,sums_in_registers=1,weight_unroll=32,") +
                                                     order));
    };
    const double outside = draft("k_outer=1"), inside = draft("k_outer=0");
    EXPECT_LT(outside, inside);
    const auto bound = static_cast<double>(workload->bound(machine).cycles);
    EXPECT_GT(outside, bound);
}

// All columns pass for each k tile, their sums wait in the pads, and B comes beside the visits.
TEST_F(Gemm, ColumnsPassForEachKTileBesideB) {
    if (!machine.timed()) GTEST_SKIP() << "nothing comes beside anything on a functional machine";
    const auto schedule = [&](const Workload &workload, int64_t streamed) {
        Point point = workload.naive_point(machine);
        for (const auto &[name, value] : {std::pair{"sums_in_registers", int64_t{1}},
                                          {"weight_unroll", int64_t{lanes}},
                                          {"row_unroll", int64_t{1}},
                                          {"streamed", streamed}})
            point.set(name, value);
        return point;
    };
    for (const WorkloadArguments &arguments :
         {WorkloadArguments{{"shape", "9x960x160"}, {"bias", "true"}},
          WorkloadArguments{{"shape", "9x320x160"}, {"bias", "true"}, {"relu", "true"}},
          WorkloadArguments{{"shape", "1x128x64"}, {"bias", "true"}}, WorkloadArguments{{"shape", "4x64x640"}},
          WorkloadArguments{{"shape", "32x96x96"}, {"relu", "true"}, {"alpha", "0.5"}}}) {
        const std::shared_ptr<const Workload> workload = op.workload(arguments);
        Point point = schedule(*workload, 1);
        point.set("rows", workload->outputs()[0].extents[1]);
        SCOPED_TRACE(workload->title() + " " + point.text());
        EXPECT_EQ(violation(workload->space(machine), point), "");
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
    }
    // Two transfers of half of the pads for each group, and the loop over visits at the pace of the array: less than with
    // blocks of columns, whose operands and results are waited for.
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "9x960x160"}, {"bias", "true"}});
    Point streamed = schedule(*workload, 1), blocks = schedule(*workload, 0);
    for (Point *point : {&streamed, &blocks}) point->set("rows", 9);
    constexpr double less = 0.9;
    const Evaluator evaluator(workload, machine);
    const auto cycles = static_cast<double>(evaluator.evaluate(streamed).cycles);
    EXPECT_LT(cycles, less * static_cast<double>(evaluator.evaluate(blocks).cycles));
    EXPECT_NEAR(workload->draft(machine, streamed), cycles, (1 - less) * cycles);
}

// B stays in the pads, its blocks of columns stream in during the first block of rows: ahead, also where a block is a tile in
// each pad.
TEST_F(Gemm, TilesThatStayComeAheadInAllPads) {
    if (!machine.timed()) GTEST_SKIP() << "nothing runs ahead on a functional machine";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "128x128x128"}});
    const Point point = Point::parse(
        "b_block=8,b_resident=1,b_row_major=1,blocks_unrolled=0,k_block=4,k_ends_apart=0,m_outer=1,pads_split=0,row_pass=0,row_"
        "unroll=1,"
        "rows=64,slots=2,sums_in_registers=1,weight_unroll=32");
    const Evaluator evaluator(workload, machine);
    EXPECT_EQ(evaluator.verify(point), "");
    const std::string text = dump_of("overlap", evaluator, point);
    EXPECT_NE(text.find("scpad.ld Bs_dma"), std::string::npos) << text;
    EXPECT_EQ(text.find("if first"), std::string::npos) << "a load that is waited for where it starts:\n" << text;
}

// A hot loop of one iteration has none for loads of loops around it beside its own: these start elsewhere.
TEST_F(Gemm, LoadsForWhichALoopHasNoIterationStartElsewhere) {
    if (!machine.timed()) GTEST_SKIP() << "nothing runs ahead on a functional machine";
    const Point point = Point::parse(
        "b_block=1,b_resident=1,b_row_major=0,blocks_unrolled=0,k_alike=0,k_block=1,k_ends_apart=0,m_outer=1,pads_split=0,row_"
        "pass=0,row_unroll=1,"
        "rows=5,slots=2,sums_in_registers=1,weight_unroll=4");
    EXPECT_EQ(Evaluator(op.workload({{"shape", "78x64x22"}, {"addend", "true"}}), machine).verify(point), "");
}

// A result without a second slot has the time of the next block, whose loads come ahead: that waits for it where it stores its
// own.
TEST_F(Gemm, ResultsOfOneSlotLeaveWhileTheNextBlockIsComputed) {
    if (!machine.timed()) GTEST_SKIP() << "nothing runs ahead on a functional machine";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "96x96x96"}});
    const Point point = Point::parse(
        "b_block=8,b_resident=0,b_row_major=1,blocks_unrolled=0,k_alike=1,k_block=3,k_ends_apart=0,m_outer=1,pads_split=0,row_"
        "pass=0,row_unroll=1,"
        "rows=96,slots=2,sums_in_registers=1,weight_unroll=32");
    const Evaluator evaluator(workload, machine);
    EXPECT_EQ(evaluator.verify(point), "");
    const std::string text = dump_of("overlap", evaluator, point);
    const size_t starts = text.find("scpad.st"), last_row = text.rfind("vreg.st", starts),
                 register_at = text.find(' ', starts) + 1;
    ASSERT_NE(starts, std::string::npos) << text;
    const std::string wait = fmt::format("or.s x0, {}", text.substr(register_at, text.find(',', register_at) - register_at));
    const size_t nest = text.find("for C_out.no"), waits = text.find(wait, nest), first_row = text.find("vreg.st", nest);
    EXPECT_LT(waits, first_row) << "the next block's rows meet those that leave:\n" << text;
    EXPECT_LT(first_row, last_row);
    EXPECT_LT(last_row, starts);
    EXPECT_NE(text.find(wait, starts), std::string::npos) << "the last result must have left at the end:\n" << text;
}

// A loop over two k tiles is over while operands of the next block come: the result leaves behind it and has the time up to its
// next one, which stores to the other slot.
TEST_F(Gemm, ResultsLeaveBehindALoopThatIsOverSoon) {
    if (!machine.timed()) GTEST_SKIP() << "results do not leave later on a functional machine";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "36x192x96"}, {"bias", "true"}});
    const Point point = Point::parse(
        "b_block=8,b_resident=0,b_row_major=1,blocks_unrolled=0,k_alike=0,k_block=3,k_ends_apart=0,m_outer=1,pads_split=0,row_"
        "pass=0,row_unroll=1,rows=36,slots=2,sums_in_registers=1,weight_unroll=32");
    const Evaluator evaluator(workload, machine);
    EXPECT_EQ(evaluator.verify(point), "");
    codegen::CompileOptions options;
    options.dump_after = "overlap";
    std::string text;
    options.dump = [&](const std::string &, const std::string &dumped) { text = dumped; };
    evaluator.compile(point, options);
    const size_t starts = text.find("scpad.st"), line = text.rfind('\n', starts) + 1;
    ASSERT_NE(starts, std::string::npos) << text;
    EXPECT_EQ(text.substr(line, starts - line).find('|'), std::string::npos) << "it leaves from inside the loop:\n" << text;
    EXPECT_EQ(text.find("gemm.vv", starts), std::string::npos) << "rows of the block are behind it:\n" << text;
    const size_t register_at = text.find(' ', starts) + 1;
    const std::string wait = fmt::format("or.s x0, {}", text.substr(register_at, text.find(',', register_at) - register_at));
    EXPECT_GT(text.find(wait), text.rfind("gemm.vv", starts)) << "rows of the other slot wait for it:\n" << text;
    EXPECT_LT(text.rfind(wait, starts), starts) << "the one before must have left:\n" << text;
}

// Sums wait in the pads while the next block's are formed, and rows of operands and results are those of the block before: of
// odd blocks, two blocks, products that follow each other, and columns whose last block begins earlier.
TEST_F(Gemm, EpiloguesRunBesideTheProductOfTheNextBlock) {
    if (!machine.timed()) GTEST_SKIP() << "nothing runs beside anything on a functional machine";
    struct Case {
        const char *op, *shape, *point;
    };
    for (const Case &c : {
             Case{"gelu(linear(x, w, b))", "66x160,70x160,70", "rows=33,k_block=5,k_alike=1,m_outer=1,b_resident=0"},
             Case{"gelu(linear(x, w))", "66x160,96x160", "rows=33,k_block=5,k_alike=0,m_outer=1,b_resident=0"},
             Case{"mul(silu(linear(x, w, b)), y)", "40x128,64x128,64,40x64",
                  "rows=20,k_block=4,k_alike=1,m_outer=0,b_resident=0"},
             Case{"mul(gelu(linear(x, w)), c)", "48x130,64x130,48x1", "rows=48,k_block=5,k_alike=1,m_outer=1,b_resident=0"},
             Case{"gelu(bmm(x, y))", "3x40x128,3x128x64", "rows=20,k_block=4,k_alike=1,m_outer=1,b_resident=0,b_turned=0"},
             Case{"gelu(mm(x, y), approximate=tanh)", "40x128,128x64",
                  "rows=40,k_block=4,k_alike=0,m_outer=1,b_resident=0,b_turned=0"},
         }) {
        SCOPED_TRACE(fmt::format("{} {} {}", c.op, c.shape, c.point));
        const std::shared_ptr<const Workload> workload = find_operator(c.op).workload({{"shape", c.shape}});
        const Point point =
            Point::parse(fmt::format("{},deferred=1,b_block=1,b_row_major=0,blocks_unrolled=0,k_ends_apart=0,"
                                     "pads_split=0,row_pass=0,row_unroll=1,slots=2,sums_in_registers=1,"
                                     "weight_unroll=32",
                                     c.point));
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
    }
}

// The epilogue of a nest's last block stands behind it once more: its vectors are not those of the blocks before.
TEST_F(Gemm, LargeTilesWithLongEpiloguesFitTheRegisters) {
    if (!machine.timed()) GTEST_SKIP() << "results do not leave later on a functional machine";
    const auto verify = [&](const WorkloadArguments &arguments, int rows) {
        const Point point = Point::parse(
            "b_block=1,b_resident=0,b_row_major=0,blocks_unrolled=0,k_block=4,k_ends_apart=0,m_outer=1,pads_split=0,row_pass=0,"
            "row_unroll=1,"
            "slots=2,sums_in_registers=1,weight_unroll=16,rows=" +
            std::to_string(rows));
        return Evaluator(op.workload(arguments), machine).verify(point);
    };
    EXPECT_EQ(verify({{"shape", "64x64x108"}, {"bias", "true"}, {"relu", "true"}, {"addend", "true"}}, 64), "");
    EXPECT_EQ(verify({{"shape", "128x64x108"}, {"bias", "true"}, {"relu", "true"}}, 128), "");
}

// Loops longer than a branch reaches, with transfers out of line.
TEST_F(Gemm, ProgramsOfLongLoopsCanBeEncoded) {
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "128x96x256"}});
    const Evaluator evaluator(workload, machine);
    Random random(11);
    size_t longest = 0;
    for (const Point &point : sample_distinct(workload->space(machine), 10, random)) {
        SCOPED_TRACE(point.assignments());
        std::optional<codegen::CompiledKernel> kernel;
        try {
            kernel = evaluator.compile(point);
        } catch (const Error &) {  // too many registers
            continue;
        }
        longest = std::max(longest, kernel->program.packets.size());
        for (const PlacedPacket &placed : kernel->program.packets)
            for (const Instruction &instruction : placed.packet) EXPECT_NO_THROW(encode(instruction));
    }
    EXPECT_GT(longest, 200u);
}

// A branch in the middle of a block of straight code reaches neither end of it: the way to the transfers goes through the
// block.
TEST_F(Gemm, BranchesReachOutOfLongStraightCode) {
    if (!machine.timed()) GTEST_SKIP() << "no transfer runs out of line on a functional machine";
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", "160x96x64"}});
    const Point point = Point::parse(
        "b_block=8,b_resident=0,b_row_major=1,blocks_unrolled=0,k_block=2,k_ends_apart=0,m_outer=1,pads_split=0,row_pass=0,row_"
        "unroll=1,"
        "rows=56,slots=2,sums_in_registers=1,weight_unroll=32");
    const Evaluator evaluator(workload, machine);
    EXPECT_EQ(evaluator.verify(point), "");
    EXPECT_EQ(evaluator.evaluate(point).status, Evaluation::Ok);
}

// The unoptimized program is what others are compared with, so it is compared with loops that share nothing with it.
TEST_F(Gemm, TheNaiveProgramEqualsTheHost) {
    Random random(7);
    for (int i = 0; i < 25; i++) {
        const std::shared_ptr<const Workload> workload = op.workload(random_workload(random));
        const Point point = workload->naive_point(machine);
        SCOPED_TRACE(fmt::format("{} at {}", workload->title(), point.assignments()));
        const KernelDefinition kernel = workload->build(machine, point);
        const Evaluator evaluator(workload, machine);
        codegen::CompileOptions options;
        options.optimize = false;
        const codegen::CompiledKernel compiled = evaluator.compile(point, options);
        for (DataSet set : {DataSet::Normal, DataSet::Special}) {
            const std::vector<TensorData> inputs = random_inputs(workload->inputs(), set, 100 + static_cast<uint64_t>(i));
            const KernelRun run = run_kernel(kernel, compiled, machine, inputs);
            ASSERT_TRUE(run.result.ok) << run.result.error;
            EXPECT_TRUE(run.outside_untouched);
            EXPECT_EQ(difference(kernel.outputs[0], run.outputs[0], workload->host_result(machine, inputs)[0]), "");
        }
    }
}

}  // namespace
}  // namespace atalla
