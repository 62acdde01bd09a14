// ATen's matrix products at random shapes and schedules on one machine: bit for bit equal to the unoptimized program, close to
// float64, never faster than the bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "simulator/numerics.h"
#include "tests/generators/dump_of.h"
#include "tests/generators/refusal.h"
#include "tests/generators/sampled_point.h"
#include "tests/support/error_of.h"
#include "tests/support/settings.h"

namespace atalla {
namespace {

class Matmul : public testing::Test {
protected:
    const Machine machine = find_machine(test_machine());
    Random random{20260101};

    int64_t size(int64_t largest) {
        constexpr std::array<int64_t, 6> edges = {1, 2, 31, 32, 33, 65};
        return random.below(2) == 0 ? std::min(largest, edges[random.below(edges.size())])
                                    : 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(largest)));
    }
    int64_t few() { return 1 + static_cast<int64_t>(random.below(3)); }
    bool often() { return random.below(2) == 0; }

    void check(const std::string &name, const WorkloadArguments &arguments, uint64_t seed) {
        SCOPED_TRACE(fmt::format("{} of {}", name, arguments.at("shape")));
        const Operator &op = find_operator(name);
        const std::shared_ptr<const Workload> workload = op.workload(arguments);
        EXPECT_EQ(op.parse(workload->text())->text(), workload->text());
        const Evaluator evaluator(workload, machine, seed);
        const std::optional<Point> point = check_sampled_point(*workload, machine, evaluator, random);
        if (!point || seed % 4 != 0) return;
        // The host stands in for the unoptimized program where that takes too long.
        const std::vector<TensorData> &inputs = evaluator.inputs(DataSet::Normal);
        const KernelDefinition kernel = workload->build(machine, *point);
        const KernelRun run = run_kernel(kernel, evaluator.compile(*point), machine, inputs);
        ASSERT_TRUE(run.result.ok);
        EXPECT_EQ(difference(kernel.outputs[0], run.outputs[0], workload->host_result(machine, inputs)[0]), "");
    }
};

TEST_F(Matmul, RandomShapesAndSchedules) {
    constexpr int rounds = 8;
    const int64_t largest = machine.timed() ? 80 : 40;
    for (int i = 0; i < rounds; i++) {
        const int64_t m = size(largest), n = size(largest), k = size(largest), b = few(), c = few();
        const auto seed = static_cast<uint64_t>(i);
        check("mm", {{"shape", fmt::format("{}x{},{}x{}", m, k, k, n)}}, seed);
        check(
            "addmm",
            {{"shape", fmt::format("{},{}x{},{}x{}", often() ? fmt::format("{}", n) : fmt::format("{}x{}", m, n), m, k, k, n)},
             {"beta", "0.5"},
             {"alpha", "2"}},
            seed);
        check("bmm", {{"shape", fmt::format("{}x{}x{},{}x{}x{}", b, m, k, b, k, n)}}, seed);
        check("baddbmm", {{"shape", fmt::format("{}x{},{}x{}x{},{}x{}x{}", m, n, b, m, k, b, k, n)}}, seed);
        check("linear", {{"shape", fmt::format("{}x{}x{},{}x{}{}", b, m, k, n, k, often() ? fmt::format(",{}", n) : "")}},
              seed);
        check("matmul", {{"shape", fmt::format("{}x1x{}x{},{}x{}x{}", b, m, k, c, k, n)}}, seed);
        check("matmul", {{"shape", fmt::format("{}{},{}x{}x{}", often() ? fmt::format("{}x", m) : "", k, c, k, n)}}, seed);
        check("matmul", {{"shape", fmt::format("{}x{}x{},{}", c, m, k, k)}}, seed);
    }
}

TEST_F(Matmul, SumsInGroups) {
    constexpr int rounds = 3;
    for (int i = 0; i < rounds; i++) {
        const int64_t m = size(40), n = size(40), k = 128 + size(200), b = few();
        const auto seed = static_cast<uint64_t>(4 * i);
        check("linear", {{"shape", fmt::format("{}x{},{}x{},{}", m, k, n, k, n)}, {"sums", "blocked"}}, seed);
        check("baddbmm",
              {{"shape", fmt::format("{}x{},{}x{}x{},{}x{}x{}", m, n, b, m, k, b, k, n)}, {"sums", "blocked"}, {"beta", "2"}},
              seed);
        check("silu(mul(linear(x, w, sums=blocked), y))", {{"shape", fmt::format("{}x{},{}x{},{}x{}", m, k, n, k, m, n)}},
              seed);
    }
}

TEST(MatmulOperators, HaveGroupsWhereSumsAreLong) {
    const Operator &linear = find_operator("linear");
    const auto text = [&](const char *shape) { return linear.workload({{"shape", shape}, {"sums", "blocked"}})->title(); };
    EXPECT_THAT(text("4x1024,8x1024"), testing::HasSubstr("blocked"));
    EXPECT_EQ(error_of([&] {
                  linear.workload({{"shape", "4x64,8x64"}, {"sums", "pairwise"}});
              }),
              "linear: sums must be ascending or blocked, not 'pairwise'");
    EXPECT_EQ(linear.workload({{"shape", "4x0,8x0"}, {"sums", "blocked"}})->reference({{}, {}})[0].values,
              std::vector<double>(32, 0.0));
}

TEST(MatmulOperators, RefuseWhatDoesNotFit) {
    EXPECT_EQ(refusal("mm", {{"shape", "3x4,5x6"}}), "mm: shapes 3x4 and 5x6 cannot be multiplied");
    EXPECT_EQ(refusal("mm", {{"shape", "3,5x6"}}), "mm: both operands must have 2 dimensions, not 1 and 2");
    EXPECT_EQ(refusal("bmm", {{"shape", "2x3x4,3x4x5"}}), "bmm: batches of 2 and 3 products do not match");
    EXPECT_EQ(refusal("linear", {{"shape", "3x4,6x5"}}),
              "linear: shapes 3x4 and 6x5 cannot be multiplied: the input has 4 features, the weight 5");
    EXPECT_EQ(refusal("linear", {{"shape", "3x4,6x4,5"}}), "linear: the bias must have 6 elements, not the shape 5");
    EXPECT_THAT(refusal("matmul", {{"shape", "2x3x4,3x4x5"}}), testing::HasSubstr("do not broadcast"));
    EXPECT_EQ(refusal("matmul", {{"shape", "3x4,5"}}),
              "matmul: shapes 3x4 and 5 cannot be multiplied: 4 columns against 5 rows");
    EXPECT_EQ(refusal("addmm", {{"shape", "5,2x0,0x5"}}),
              "addmm: the product has no terms, so the result is what is added to it: expand that instead");
    EXPECT_EQ(refusal("addmm", {{"shape", "3x1,3x4,4x5"}}),
              "addmm: an input of 3x1 would be broadcast along the columns, which is not supported; expand it first");
}

// Square operands fit in any order: the one of PyTorch counts.
TEST(MatmulOperators, AddTheirFirstTensorAsPyTorchDoes) {
    for (const std::string op : {"addmm", "relu(addmm(input, a, b))"}) {
        const std::unique_ptr<Workload> workload = find_operator(op).workload({{"shape", "2x2,2x2,2x2"}});
        const TensorData input(4, bf16_truncate(100.0f)),
            a = {bf16_truncate(1), bf16_truncate(2), bf16_truncate(3), bf16_truncate(4)},
            b = {bf16_truncate(5), bf16_truncate(6), bf16_truncate(7), bf16_truncate(8)};
        EXPECT_EQ(workload->reference({input, a, b})[0].values, (std::vector<double>{119, 122, 143, 150})) << op;
    }
}

// A call of a graph, whose tensors stand in the schema's order.
TEST(MatmulOperators, TakeCalls) {
    AtenCall call{"aten::addmm.default",
                  {{"self", {{{5}}}, nullptr}, {"mat1", {{{3, 4}}}, nullptr}, {"mat2", {{{4, 5}}}, nullptr}}};
    const Resolution found = resolve(call);
    ASSERT_EQ(found.place, Resolution::Accelerator) << found.reason;
    EXPECT_EQ(found.op->name(), "addmm");
    EXPECT_EQ(found.inputs, (std::vector<size_t>{0, 1, 2}));
}

// Products of a batch begin once: which blocks are best is decided by what each of them takes.
TEST_F(Matmul, TheDraftOfABatchStartsOnce) {
    if (machine.name != "ax01") GTEST_SKIP() << "the cycles of one machine";
    const std::string common =
        "b_block=1,b_row_major=0,blocks_unrolled=0,k_alike=0,k_block=2,k_ends_apart=0,pads_split=0,row_pass=0,row_unroll=1,"
        "slots=2,"
        "sums_in_registers=1,weight_unroll=32,";
    const auto prefers = [&](const WorkloadArguments &arguments, const std::string &better, const std::string &worse) {
        const std::shared_ptr<const Workload> workload = find_operator("bmm").workload(arguments);
        const Evaluator evaluator(workload, machine);
        const Point fast = Point::parse(common + better), slow = Point::parse(common + worse);
        EXPECT_LT(evaluator.evaluate(fast).cycles, evaluator.evaluate(slow).cycles) << better;
        EXPECT_LT(workload->draft(machine, fast), workload->draft(machine, slow)) << better;
    };
    prefers({{"shape", "12x128x64,12x64x128"}}, "b_resident=1,b_turned=0,m_outer=1,rows=64",
            "b_resident=1,b_turned=0,m_outer=1,rows=43");
    prefers({{"shape", "32x49x49,32x49x32"}}, "b_resident=0,b_turned=1,m_outer=0,rows=49",
            "b_resident=0,b_turned=0,m_outer=0,rows=25");
}

// One or two k tiles whose loops over rows make results: what is unrolled too far leaves the instruction cache, and too little
// waits for the array.
TEST_F(Matmul, TheDraftOfFewKTilesKnowsItsLoops) {
    if (machine.name != "ax01") GTEST_SKIP() << "the cycles of one machine";
    const auto prefers = [&](const std::string &op, const std::string &shape, const std::string &common,
                             const std::string &better, const std::string &worse) {
        const std::shared_ptr<const Workload> workload = find_operator(op).workload({{"shape", shape}});
        const Evaluator evaluator(workload, machine);
        const Point fast = Point::parse(common + better), slow = Point::parse(common + worse);
        EXPECT_LT(evaluator.evaluate(fast).cycles, evaluator.evaluate(slow).cycles) << op << " " << better;
        EXPECT_LT(workload->draft(machine, fast), workload->draft(machine, slow)) << op << " " << better;
    };
    const std::string in_pads =
        "b_block=1,b_row_major=0,blocks_unrolled=0,k_alike=0,k_ends_apart=1,m_outer=0,pads_split=0,row_pass=0,slots=2,"
        "sums_in_registers=0,b_resident=0,";
    const std::string relu6 = "hardtanh(linear(x, w, b), max_val=6, min_val=0)";
    prefers(relu6, "576x16,96x16,96", in_pads + "k_block=1,rows=192,weight_unroll=16,", "row_unroll=16", "row_unroll=32");
    prefers(relu6, "576x16,96x16,96", in_pads + "k_block=1,rows=192,weight_unroll=16,", "row_unroll=16", "row_unroll=4");
    for (const char *a : {"", "a_resident=1,"})
        prefers("relu(linear(x, w, b))", "3136x64,64x64,64", in_pads + a + "k_block=2,weight_unroll=32,",
                "rows=448,row_unroll=32", "rows=224,row_unroll=16");
}

// The last block of columns, which is not whole, is as the others where results of all columns leave together: one loop.
TEST_F(Matmul, ResultsOfAllColumnsLeaveTogether) {
    if (!machine.timed()) GTEST_SKIP() << "nothing runs ahead on a functional machine";
    const auto verifies = [&](const std::string &op, const std::string &shape, const std::string &point) {
        const Evaluator evaluator(find_operator(op).workload({{"shape", shape}}), machine);
        EXPECT_EQ(evaluator.verify(Point::parse("b_block=1,b_resident=1,b_row_major=0,b_turned=0,blocks_unrolled=0,c_whole=1,"
                                                "k_alike=0,m_outer=1,pads_split=0,row_pass=0,weight_unroll=32," +
                                                point)),
                  "")
            << op << " " << shape << " " << point;
    };
    const std::string registers = "k_ends_apart=0,row_unroll=1,sums_in_registers=1,", pads = "sums_in_registers=0,";
    verifies("bmm", "3x37x40,3x40x70", registers + "k_block=2,rows=19,slots=2");
    verifies("bmm", "3x40x40,3x40x70", pads + "k_block=2,k_ends_apart=1,row_unroll=20,rows=20,slots=2");
    verifies("bmm", "2x37x130,2x130x70", pads + "k_block=5,k_ends_apart=1,row_unroll=20,rows=40,slots=2");
    verifies("bmm", "2x37x33,2x33x64", pads + "k_block=2,k_ends_apart=0,row_unroll=20,rows=40,slots=2");
    verifies("mm", "50x48,48x40", registers + "k_block=2,rows=25,slots=2");
    verifies("mm", "77x64,64x77", registers + "k_block=2,rows=77,slots=1");
    verifies("addmm", "70,37x32,32x70", pads + "k_block=1,k_ends_apart=1,row_unroll=40,rows=40,slots=2");
    verifies("addmm", "70,37x96,96x70", registers + "k_block=3,rows=37,slots=2");

    const Evaluator evaluator(find_operator("bmm").workload({{"shape", "3x37x64,3x64x70"}}), machine);
    const std::string text =
        dump_of("match", evaluator,
                Point::parse("b_block=1,b_resident=1,b_row_major=0,b_turned=0,blocks_unrolled=0,c_whole=1,k_alike=0,"
                             "m_outer=1,pads_split=0,row_pass=0,weight_unroll=32,slots=2,k_block=2,rows=37," +
                             registers));
    EXPECT_NE(text.find("for Es.kt in [0, 3)"), std::string::npos) << text;
}

// Rows of a pad that take two transfers a block of columns: those of one kind leave from the loop over rows of the first k
// tile, the others from that of the last one, and so do rows of A come from the first while a result leaves from the last.
TEST_F(Matmul, ResultsAndLoadsShareTheLoopsOfATurn) {
    if (!machine.timed()) GTEST_SKIP() << "nothing runs ahead on a functional machine";
    const auto starts = [&](int64_t m, const std::string &transfer) {
        const Evaluator evaluator(find_operator("bmm").workload({{"shape", fmt::format("3x{}x64,3x64x70", m)}}), machine);
        const Point point = Point::parse(
            fmt::format("b_block=1,b_resident=1,b_row_major=0,b_turned=0,blocks_unrolled=0,c_whole=1,k_alike=0,k_block=2,"
                        "k_ends_apart=1,m_outer=1,pads_split=0,row_pass=0,row_unroll=20,rows={},slots=2,sums_in_registers=0,"
                        "weight_unroll=32",
                        m));
        EXPECT_EQ(evaluator.verify(point), "") << m;
        const std::string text = dump_of("overlap", evaluator, point);
        const size_t first = text.find("for C.m in"), last = text.find("for Es.m in", first), end = text.find("Es_made", last);
        const std::string side = "| " + transfer;
        const size_t in_first = text.find(side, first), in_last = text.find(side, last);
        return std::pair(in_first < last, in_last < end);
    };
    EXPECT_EQ(starts(140, "scpad.st Es_dma"), std::pair(true, true));
    EXPECT_EQ(starts(100, "scpad.st Es_dma"), std::pair(false, true));
    EXPECT_EQ(starts(100, "scpad.ld As_dma"), std::pair(true, false));
}

// B as [k][n] is transposed in front of the first of a block's k tiles, whose code is its own like that of the last.
TEST_F(Matmul, KTilesApartTakeTransposedTiles) {
    if (!machine.timed()) GTEST_SKIP() << "the pads hold no transposed tiles";
    for (const char *blocks :
         {"b_resident=0,m_outer=1,rows=20", "b_resident=0,m_outer=0,rows=20", "b_resident=1,m_outer=1,rows=40"})
        for (const char *shape : {"3x40x64,3x64x64", "2x40x96,2x96x33"}) {
            const Evaluator evaluator(find_operator("bmm").workload({{"shape", shape}}), machine);
            const Point point = Point::parse(fmt::format(
                "b_block=1,b_row_major=0,b_turned=0,blocks_unrolled=0,k_alike=0,k_block={},k_ends_apart=1,pads_split="
                "0,row_pass=0,row_unroll=20,slots=2,sums_in_registers=0,weight_unroll=16,{}",
                shape[0] == '3' ? 2 : 3, blocks));
            EXPECT_EQ(evaluator.verify(point), "") << shape << " " << blocks;
        }
}

// A single block of rows that are no whole rounds of the pads is unrolled as one that is: its last loops compute a few rows
// more.
TEST_F(Matmul, LoopsOverRowsGoOnToWholeRounds) {
    if (!machine.timed()) GTEST_SKIP() << "blocks of a functional machine are whole rounds";
    for (const char *op : {"mm", "linear"}) {
        const std::string shape = op == std::string("mm") ? "37x70,70x50" : "37x70,50x70";
        const std::shared_ptr<const Workload> workload = find_operator(op).workload({{"shape", shape}});
        const Space space = workload->space(machine);
        Point point = workload->naive_point(machine);
        for (const auto &[name, value] : std::map<std::string, int64_t>{{"rows", 40}, {"row_unroll", 20}, {"k_ends_apart", 1}})
            point.set(name, value);
        EXPECT_EQ(violation(space, point), "") << op;
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "") << op;
        point.set("sums_in_registers", 1);
        point.set("k_ends_apart", 0);
        point.set("row_unroll", 1);
        EXPECT_NE(violation(space, point), "") << op << ": the same as with the rows that there are";
    }
}

// Packets are put between the results' transfers of a block and its end, behind which code out of line returns.
TEST_F(Matmul, ReturnsBehindThePacketThatBranches) {
    if (machine.name != "ax01-psum") GTEST_SKIP() << "the code of one machine";
    const Evaluator evaluator(find_operator("baddbmm").workload({{"shape", "3x70,3x3x32,3x32x70"}}), machine);
    const Point point = Point::parse(
        "b_block=1,b_resident=0,b_row_major=0,b_turned=1,blocks_unrolled=0,k_alike=0,k_block=1,k_ends_apart=0,m_outer=1,"
        "pads_split=0,row_pass=0,row_unroll=1,rows=3,slots=2,sums_in_registers=1,weight_unroll=32");
    EXPECT_EQ(evaluator.evaluate(point).status, Evaluation::Ok);
    EXPECT_EQ(evaluator.verify(point), "");
}

// The sums over the k tiles, a bias and what is behind the product share the adder.
TEST(MatmulOperators, BoundAllAdditions) {
    const Machine machine = find_machine("ax01");
    const auto bound = [&](const char *op, const char *shape) {
        return find_operator(op).workload({{"shape", shape}})->bound(machine);
    };
    constexpr int64_t rows = 576 * 3, compares = 2;
    const int64_t ii = static_cast<int64_t>(machine.vec.ii);
    const char *relu6 = "hardtanh(linear(x, w, b), max_val=6, min_val=0)";
    EXPECT_EQ(bound(relu6, "576x16,96x16,96").steady, ii * rows * (1 + compares));
    EXPECT_EQ(bound(relu6, "576x96,96x96,96").steady, ii * rows * (1 + 2 + compares));
    EXPECT_EQ(bound("gemm", "576x96x96").steady, ii * rows * 2);
}

}  // namespace
}  // namespace atalla
