// Loops that stream tensors through the pads: copies without computation, and transfers spread over a hot loop.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "generators/vocabulary.h"
#include "isa/machine.h"
#include "simulator/timing/observer.h"
#include "tests/generators/dump_of.h"
#include "tests/generators/kernel_check.h"

namespace atalla {
namespace {

using namespace Halide;
using namespace vocabulary;

// Rows of `cols` elements through two slots of `step` rows, and nothing done with them.
KernelDefinition ring_copy(int cols, int rows, int step) {
    const ImageParam x = tensor("X", {cols, rows});
    const Var n("n"), m("m"), mo("mo"), mi("mi");
    Func staged("staged"), out("Y");
    staged(n, m) = x(n, m);
    out(n, m) = staged(n, m);
    out.bound(n, 0, cols).bound(m, 0, rows).split(m, mo, mi, step, TailStrategy::ShiftInwards);
    staged.compute_at(out, mo).hoist_storage_root().ring_buffer(2);
    in_pads({staged});
    whole_loops(out);
    fix_shape(out.output_buffer(), {cols, rows});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {x};
    kernel.inputs = {{"X", {cols, rows}}};
    kernel.outputs = {{"Y", {cols, rows}}};
    return kernel;
}

TEST(Streams, CopiesThroughSlotsAreRight) {
    std::mt19937 random(5);
    for (const auto &[cols, rows, step] : {std::tuple{32, 8, 2}, {64, 40, 8}, {96, 36, 4}, {128, 256, 64}}) {
        const KernelDefinition kernel = ring_copy(cols, rows, step);
        const std::vector<TensorData> inputs = {random_patterns(kernel.inputs[0], random)};
        for (const char *machine : {"ax01", "fsim"})
            for (bool optimize : {false, true}) {
                if (2 * step * cols / 32 > find_machine(machine).pad_rows()) continue;
                expect_equal(kernel, run_checked(kernel, find_machine(machine), optimize, inputs), inputs,
                             fmt::format("{}x{} by {} on {}, optimize {}", rows, cols, step, machine, optimize));
            }
    }
}

TEST(Streams, SpreadTransfersGiveTheSameBits) {
    const Machine machine = find_machine("ax01");
    const auto check = [&](const std::string &op, const std::string &shape, std::initializer_list<Point> points,
                           WorkloadArguments arguments = {}) {
        arguments["shape"] = shape;
        const std::shared_ptr<const Workload> workload = find_operator(op).workload(arguments);
        const Evaluator evaluator(workload, machine);
        for (const Point &point : points)
            EXPECT_EQ(evaluator.verify(point), "") << op << " " << shape << " at " << point.assignments();
    };
    // Parts of two pages, whose result leaves at once; parts of a block, whose result has several groups; two inputs; a last
    // block that begins earlier. Two rows of queries: their loop starts transfers beside few operations. The values are turned
    // by tiles, or by the part of one that there is.
    const Point two_rows = Point::parse("heads=4,row_unroll=1,rows=2,softmax_unroll=1,weight_unroll=8");
    for (const char *shape : {"4x2x48,4x32x48,4x32x48", "4x2x16,4x32x16,4x32x16", "4x2x20,4x32x20,4x32x20"})
        check("scaled_dot_product_attention", shape, {two_rows});
    check("relu", "32768",
          {{{"block", 4096}, {"unroll", 16}, {"pads", 4}, {"parts", 2}},
           {{"block", 8192}, {"unroll", 8}, {"pads", 4}, {"parts", 1}},
           {{"block", 4096}, {"unroll", 8}, {"pads", 2}, {"parts", 2}}});
    check("add", "32768,32768",
          {{{"block", 4096}, {"unroll", 8}, {"pads", 4}, {"parts", 2}},
           {{"block", 8192}, {"unroll", 8}, {"pads", 4}, {"parts", 1}}});
    check("relu", "20000", {{{"block", 8192}, {"unroll", 8}, {"pads", 4}, {"parts", 1}}});
    // Turns of a page each, of which every other pad is one ahead: an even number of them, and three of a block that begins
    // earlier.
    check("sum", "40x1024",
          {{{"rows", 8}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 1}, {"grouped", 1}},
           {{"rows", 12}, {"chunk", 0}, {"row_unroll", 1}, {"vector_unroll", 1}, {"grouped", 1}}},
          {{"dim", "1"}});
    // Groups of a result that leave in the turns of an innermost loop: one in each, or in the first ones alone.
    const WorkloadArguments turned = {{"dim0", "0"}, {"dim1", "1"}};
    for (const char *points : {"across=4,along=4,apart=0,unroll=32,whole=0", "across=2,along=8,apart=0,unroll=32,whole=0",
                               "across=8,along=4,apart=0,unroll=32,whole=0", "across=8,along=2,apart=0,unroll=32,whole=0"})
        check("transpose", "512x256", {Point::parse(points)}, turned);
}

// All rows are in the pads and one loop passes over them: what it reads first comes in front of it, what it makes last leaves
// behind it, all else beside it. Whole turns of the pads, neighbours of two transfers and of one, a last block of one transfer,
// two tensors.
TEST(Streams, RowsComeAndGoBesideTheLoopOverThem) {
    const auto point = [](int64_t rows, int64_t row_unroll, int64_t vectors, int64_t stored) {
        return Point{{"rows", rows}, {"row_unroll", row_unroll}, {"vector_unroll", vectors},
                     {"reduced", 0}, {"stored", stored},         {"grouped", 0},
                     {"skewed", 0}};
    };
    const struct {
        const char *op, *shape;
        Point point;
        size_t loads, results;  // that start beside the loop: one place in the code for each copy
    } cases[] = {{"softmax", "256x128", point(256, 8, 4, 0), 1, 1},
                 {"softmax", "160x128", point(160, 4, 4, 0), 1, 1},
                 {"softmax", "128x512", point(128, 1, 16, 1), 1, 1},
                 {"softmax", "256x96", point(256, 4, 3, 0), 1, 1},
                 {"layer_norm", "256x128,128,128", point(256, 4, 4, 0), 1, 1},
                 {"softmax", "32x128", point(32, 4, 4, 0), 0, 0}};
    for (const char *machine : {"ax01", "ax01-psum"})
        for (const auto &[op, shape, at, loads, results] : cases) {
            const Evaluator evaluator(find_operator(op).workload({{"shape", shape}}), find_machine(machine));
            EXPECT_EQ(evaluator.verify(at), "") << op << " " << shape << " on " << machine;
            const std::string text = dump_of("overlap", evaluator, at);
            const auto count = [&](const std::string &what) {
                size_t found = 0;
                for (size_t from = 0; (from = text.find(what, from)) != std::string::npos; from += what.size()) found++;
                return found;
            };
            const size_t pads = static_cast<size_t>(find_machine(machine).pad.count);
            EXPECT_EQ(count("| scpad.ld X_rows"), loads * pads) << op << " " << shape << "\n" << text;
            EXPECT_EQ(count("| scpad.st Y_rows"), results * pads) << op << " " << shape;
        }
}

// Rows that end inside a vector lie in columns: all columns of the first rows come in front of the loop, those of the next rows
// beside it, and so results leave. As many columns in each pad, the last of which is shorter; one pad with fewer; an odd number
// of rows in a tile; few rows, which do not stream.
TEST(Streams, ColumnsOfTheNextRowsComeBesideTheLoop) {
    const Machine machine = find_machine("ax01");
    struct Case {
        const char *op, *shape;
        int64_t rows, vectors, stored;
        bool streams;
    };
    for (const Case &c : {Case{"layer_norm", "64x1000,1000,1000", 64, 32, 1, true},
                          {"softmax", "128x577", 128, 19, 1, true},
                          {"softmax", "100x1000", 100, 32, 1, true},
                          {"softmax", "24x300", 24, 10, 0, false}}) {
        SCOPED_TRACE(fmt::format("{} {}", c.op, c.shape));
        const Evaluator evaluator(find_operator(c.op).workload({{"shape", c.shape}}), machine);
        const Point point = {{"rows", c.rows}, {"row_unroll", 1},    {"vector_unroll", c.vectors},
                             {"reduced", 0},   {"stored", c.stored}, {"grouped", 0},
                             {"skewed", 0}};
        EXPECT_EQ(evaluator.verify(point), "");
        const std::string text = dump_of("overlap", evaluator, point);
        EXPECT_EQ(text.find("| scpad.ld X_columns") != std::string::npos, c.streams);
        EXPECT_EQ(text.find("| scpad.st Y_rows") != std::string::npos, c.streams);
    }
}

// Rows of which a group comes in each turn: results leave a few turns later than they could, so that one starts when the last
// group has come.
TEST(Streams, AResultLeavesBehindTheLastGroupOfEachLoad) {
    const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
        {{"shape", "1x144x24x24,144x1x3x3"}, {"groups", "144"}, {"padding", "1"}, {"weight_layout", "packed"}});
    const Evaluator evaluator(workload, find_machine("ax01"));
    const Point point = Point::parse("channels=144,parts_apart=0,strip_rows=24,taps_unrolled=1");
    const std::string text = dump_of("overlap", evaluator, point);
    for (const char *transfer : {"| scpad.ld rows", "| scpad.ld matrices", "| scpad.st finished"})
        EXPECT_NE(text.find(transfer), std::string::npos) << transfer;
    EXPECT_EQ(evaluator.verify(point), "");
}

// Lanes make copies of single elements of any bits: zeros keep their sign, infinities and NaN their place.
TEST(Streams, CopiesOfSingleElementsAreRight) {
    std::mt19937 random(7);
    for (const char *machine : {"ax01", "fsim"})
        for (const auto &[shape, size] : {std::pair{"64x1", "64,96"}, {"6x1", "6,40"}, {"2x32x1", "2,32,64"}}) {
            const std::shared_ptr<const Workload> workload =
                find_operator("expand").workload({{"shape", shape}, {"size", size}});
            const KernelDefinition kernel =
                workload->build(find_machine(machine), workload->naive_point(find_machine(machine)));
            const TensorData column = random_patterns(kernel.inputs[0], random);
            TensorData wanted;
            for (const uint16_t bits : column)
                wanted.insert(wanted.end(), static_cast<size_t>(workload->outputs()[0].elements()) / column.size(), bits);
            for (bool optimize : {false, true})
                expect_equal(kernel, run_checked(kernel, find_machine(machine), optimize, {column}), {wanted},
                             fmt::format("{} to {} on {}", shape, size, machine));
        }
}

// The transfers of a program as they stand in it, l of loads and s of results, and | for a division, which takes time between
// them.
std::string transfers_of(const char *op, const WorkloadArguments &arguments, const char *machine, const char *point) {
    const Evaluator evaluator(find_operator(op).workload(arguments), find_machine(machine));
    const Point at = Point::parse(point);
    EXPECT_EQ(violation(evaluator.workload().space(find_machine(machine)), at), "") << point;
    EXPECT_EQ(evaluator.verify(at), "") << op << " at " << point << " on " << machine;
    const std::string text = dump_of("overlap", evaluator, at);
    std::string found;
    for (size_t i = 0; i < text.size(); i++) {
        if (text.compare(i, 6, "scpad.") == 0) found += text[i + 6];
        if (text.compare(i, 5, "div.s") == 0) found += '|';
    }
    return found;
}

// Blocks of a nest that go back in memory where a loop around goes on are one stream, not columns: their loads start beside the
// nest, in few places of the code.
TEST(Streams, TilesThatGoBackInMemoryAreOneStream) {
    const WorkloadArguments turned = {{"shape", "197x768"}, {"dims", "1,0"}};
    EXPECT_LE(std::ranges::count(transfers_of("permute", turned, "ax01", "across=3,along=4,apart=1,unroll=32,whole=1"), 'l'),
              32);
}

// Engines that start at the same time end at the same time: half of the pads start some time behind the others. Short transfers
// and few of them have none of that, and neither has a machine without timing.
TEST(Streams, HalvesOfThePadsStartApart) {
    const WorkloadArguments slice = {{"shape", "256x512"}, {"dim", "0"}, {"start", "64"}, {"end", "192"}};
    EXPECT_EQ(transfers_of("slice", slice, "ax01", "rows=2048,pads=4,turn=1"), "ll|ll|ll|ll|ss|ss|ss|ss|");
    EXPECT_EQ(transfers_of("slice", slice, "fsim", "rows=16,pads=1,turn=0").find('|'), std::string::npos);
    // Of an expanded row the base registers stay where they are.
    EXPECT_NE(
        transfers_of("expand", {{"shape", "1x512"}, {"size", "128,512"}}, "ax01", "rows=2048,pads=4,turn=0").find("ss|ss|"),
        std::string::npos);
    EXPECT_EQ(transfers_of("slice", {{"shape", "64x512"}, {"dim", "0"}, {"start", "16"}, {"end", "48"}}, "ax01",
                           "rows=512,pads=4,turn=0")
                  .find('|'),
              std::string::npos);
}

// Numbers of rows that are all a kernel reads come once, in front of the blocks that leave; those of more rows than one
// transfer brings, and those beside other operands, or of blocks that begin in another lane, come with each block.
TEST(Streams, NumbersOfRowsComeOnce) {
    const auto loads = [](const char *op, const WorkloadArguments &arguments, const char *point) {
        return std::ranges::count(transfers_of(op, arguments, "ax01", point), 'l');
    };
    EXPECT_EQ(loads("expand", {{"shape", "256x1"}, {"size", "256,512"}}, "block=32,numbers=1,pads=4,parts=1,unroll=16"), 1);
    EXPECT_EQ(loads("expand", {{"shape", "2048x1"}, {"size", "2048,64"}}, "block=512,numbers=1,pads=4,parts=1,unroll=16"), 2);
    EXPECT_EQ(loads("expand", {{"shape", "80x1"}, {"size", "80,512"}}, "block=32,numbers=0,pads=4,parts=1,unroll=16"), 2);
    EXPECT_GT(loads("mul", {{"shape", "256x512,256x1"}}, "block=32,numbers=1,pads=4,parts=1,unroll=16"), 1);
}

// Pieces that all come whole do so before any leaves. What is left of whole turns of the pads is a piece of its own, and what
// one transfer moves, as the 256 elements behind the rows of 1024 and those that come from the end, is in one pad.
TEST(Streams, PiecesThatComeWholeComeFirst) {
    const WorkloadArguments roll = {{"shape", "256x256"}, {"shifts", "3"}, {"dims", "0"}};
    EXPECT_EQ(transfers_of("roll", roll, "ax01", "rows=2048,pads=4,turn=64"), "ll|ll|ll|ll|llllllllllss|ss|ss|ss|ssssssssss");
    EXPECT_EQ(transfers_of("roll", roll, "ax01", "rows=2048,pads=4,turn=32"), "ll|ll|llllllss|ss|ssssss");
    // Some that come whole, and some that do not; numbers of rows that no turn divides, several tensors, a constant.
    for (const char *point : {"rows=256,pads=4,turn=32", "rows=128,pads=2,turn=0"}) transfers_of("roll", roll, "ax01", point);
    for (const char *point : {"rows=1024,pads=4,turn=64", "rows=512,pads=4,turn=32", "rows=64,pads=4,turn=0"})
        transfers_of("cat", {{"shape", "100x256,37x256"}}, "ax01", point);
    for (const char *point : {"rows=512,pads=4,turn=32", "rows=256,pads=2,turn=0"})
        transfers_of("pad", {{"shape", "61x256"}, {"pad", "0,0,2,3"}}, "ax01", point);
}

// Notes the transfers of a run in the order in which they start.
class Transfers : public timing::Observer {
public:
    struct Transfer {
        bool load;
        uint32_t pad;
        timing::Cycle cycle;
    };
    std::vector<Transfer> all;
    void operation(const timing::Issued &issued) override {
        const Opcode opcode = issued.instruction->op;
        if (opcode == Opcode::scpad_ld || opcode == Opcode::scpad_st)
            all.push_back({opcode == Opcode::scpad_ld, issued.pad, issued.cycle});
    }
    void waits(int32_t, Stall, timing::Cycle, timing::Cycle) override {}
    void issues(int32_t, timing::Cycle, const MachineState &) override {}
    void result(timing::Source, timing::Cycle) override {}
    void access(timing::Cycle, timing::Cycle, bool, bool) override {}
    void pad_starts(uint32_t, bool, bool, uint32_t, int32_t, timing::Cycle, timing::Cycle, timing::Cycle) override {}
    void transfer_ends(uint32_t, int32_t, timing::Cycle, timing::Cycle) override {}
    void opens_row(uint32_t, int64_t, timing::Cycle, timing::Cycle) override {}
    void serves_beat(uint32_t, uint32_t, bool, int, timing::Cycle, timing::Cycle) override {}
    void halted(timing::Cycle, timing::Cycle) override {}
};

// The transfers of a kernel in the order in which they start.
std::vector<Transfers::Transfer> started_transfers(const std::shared_ptr<const Workload> &workload, const Machine &machine,
                                                   const Point &point) {
    const KernelDefinition kernel = workload->build(machine, point);
    std::vector<TensorData> inputs;
    for (const TensorSpec &input : kernel.inputs) inputs.emplace_back(static_cast<size_t>(input.elements()));
    Transfers transfers;
    RunOptions watched;
    watched.observer = &transfers;
    const KernelRun run =
        run_kernel(kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine, kernel.compile_options()), machine,
                   inputs, watched);
    EXPECT_TRUE(run.result.ok) << run.result.error;
    return transfers.all;
}

// All elements are in the pads, in halves of pages: loads come in front of all results, two pads at a time, where transfers
// take longer than the lanes; results leave between loads where they do not.
TEST(Streams, LoadsComeBeforeResultsWhereTransfersTakeLonger) {
    const Machine machine = find_machine("ax01");
    for (const auto &[op, shape, longer] :
         {std::tuple{"relu", "65536", true}, {"add", "32768,32768", true}, {"gelu", "65536", false}}) {
        const std::shared_ptr<const Workload> workload = find_operator(op).workload({{"shape", shape}});
        const Point point = {{"block", workload->outputs()[0].elements()}, {"unroll", 16}, {"pads", 4}, {"parts", 3}};
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "") << op;
        const std::vector<Transfers::Transfer> all = started_transfers(workload, machine, point);
        const auto is_result = [](const Transfers::Transfer &t) { return !t.load; };
        const auto first_result = std::ranges::find_if(all, is_result);
        EXPECT_EQ(std::all_of(first_result, all.end(), is_result), longer) << op;
        if (!longer) continue;
        // The second group of loads still comes in front of the loop, behind it are the last results.
        const size_t pads = machine.pad.count, front = 2 * pads * workload->inputs().size();
        ASSERT_GT(all.size(), front + pads);
        for (size_t i = front; i + pads < all.size(); i += 2) {
            EXPECT_EQ(all[i].load, all[i + 1].load) << op << " " << i;
            EXPECT_EQ(all[i].pad + 2, all[i + 1].pad) << op << " " << i;
        }
    }
}

// The same of a nest of blocks that the array turns, whose places in memory are those of several loops: of one tensor, of
// several, and with a last block that has a nest of its own.
TEST(Streams, LoadsOfANestComeBeforeItsResults) {
    const Machine machine = find_machine("ax01");
    struct Case {
        const char *shape, *point;
    };
    for (const Case &c : {Case{"256x256", "across=4,along=4,apart=0,unroll=32,whole=1"},
                          {"256x384", "across=4,along=2,apart=0,unroll=32,whole=1"},
                          {"2x128x256", "across=4,along=4,apart=0,unroll=32,whole=1"},
                          {"400x128", "across=3,along=4,apart=1,unroll=32,whole=1"},
                          {"128x400", "across=4,along=4,apart=1,unroll=32,whole=1"}}) {
        const std::shared_ptr<const Workload> workload =
            find_operator("transpose").workload({{"shape", c.shape}, {"dim0", "-1"}, {"dim1", "-2"}});
        const Point point = Point::parse(c.point);
        ASSERT_EQ(violation(workload->space(machine), point), "") << c.shape;
        EXPECT_EQ(Evaluator(workload, machine).verify(point), "") << c.shape;
        if (point["apart"] == 1) continue;
        const std::vector<Transfers::Transfer> all = started_transfers(workload, machine, point);
        const auto is_result = [](const Transfers::Transfer &t) { return !t.load; };
        EXPECT_TRUE(std::all_of(std::ranges::find_if(all, is_result), all.end(), is_result)) << c.shape;
        EXPECT_GT(all.back().cycle - std::ranges::find_if(all, is_result)->cycle, all.back().cycle / 4)
            << c.shape << ": results leave beside the loop";
    }
}

// Of a row whose passes are loops one after the other, the row before leaves beside the first and the next one comes beside the
// second, where both would take longer than either.
TEST(Streams, ResultsLeaveBesideALoopInFrontOfTheOneThatLoadsStartIn) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload = find_operator("softmax").workload({{"shape", "4x16000"}});
    const Point point = {{"rows", 1},   {"row_unroll", 1}, {"vector_unroll", 4}, {"reduced", 0},
                         {"stored", 0}, {"grouped", 1},    {"skewed", 0}};
    EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
    const std::vector<Transfers::Transfer> all = started_transfers(workload, machine, point);
    const auto is_result = [](const Transfers::Transfer &t) { return !t.load; };
    const auto first_result = std::ranges::find_if(all, is_result), load = std::find_if_not(first_result, all.end(), is_result),
               next_result = std::find_if(load, all.end(), is_result);
    ASSERT_NE(next_result, all.end());
    const auto since_first = [&](auto at) { return std::prev(at)->cycle - first_result->cycle; };
    EXPECT_LT(since_first(load) * 5, since_first(next_result) * 3);
}

// The rows of a product come in a loop of transfers, and so does the first block of its weights: the second loop does not wait
// for the first.
TEST(Streams, WeightsStartBehindTheLastTransferOfRows) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload =
        find_operator("gemm").workload({{"shape", "32x688x256"}, {"b-layout", "nk"}});
    const Point point = Point::parse(
        "b_block=1,b_resident=0,b_row_major=0,blocks_unrolled=0,k_block=8,k_ends_apart=0,m_outer=1,pads_split=0,row_pass=0,row_"
        "unroll=1,"
        "rows=32,slots=2,sums_in_registers=1,weight_unroll=32");
    const Evaluator evaluator(workload, machine);
    EXPECT_EQ(evaluator.verify(point), "");
    const std::string text = dump_of("overlap", evaluator, point);
    const size_t rows = text.find("for As.copy"), weights = text.find("for Bs.copy"), wait = text.find("or.s x0, As_dma");
    ASSERT_TRUE(rows != std::string::npos && weights != std::string::npos && wait != std::string::npos);
    EXPECT_LT(rows, weights);
    EXPECT_LT(weights, wait);
}

}  // namespace
}  // namespace atalla
