// Drafts of pointwise operators and data movement: the order in which the simulator has schedules, too.
#include <gtest/gtest.h>

#include "generators/evaluate.h"
#include "generators/registry.h"

namespace atalla {
namespace {

// Of two schedules the one that takes less time, by the simulator, takes less by the draft.
void expect_drafted_faster(const char *op, const WorkloadArguments &arguments, const Point &fast, const Point &slow) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload = find_operator(op).workload(arguments);
    const Evaluation one = Evaluator(workload, machine).evaluate(fast), other = Evaluator(workload, machine).evaluate(slow);
    ASSERT_EQ(one.reason + other.reason, "") << op;
    EXPECT_LT(one.cycles, other.cycles) << op;
    EXPECT_LT(workload->draft(machine, fast), workload->draft(machine, slow)) << op;
}

// Long rows that end inside vectors take transfers of their own for their ends in every pad that they go round.
TEST(Pointwise, DraftOfRowsThatEndInsideVectors) {
    for (const auto &[op, shape, block] : std::vector<std::tuple<const char *, const char *, int64_t>>{
             {"batch_norm", "4x64x28x28,64,64,64,64", 64}, {"add", "512x300,300", 24}}) {
        const Point in_parts = {{"block", block}, {"unroll", 16}, {"pads", 4}, {"parts", 1}},
                    around = {{"block", block}, {"unroll", 16}, {"pads", 4}, {"parts", 0}};
        const auto workload = find_operator(op).workload({{"shape", shape}});
        EXPECT_LT(workload->draft(find_machine("ax01"), in_parts), workload->draft(find_machine("ax01"), around))
            << op << " " << shape;
    }
}

// Transfers of a run that the pads hold as a whole are beside its loop.
TEST(Pointwise, DraftOfALoneBlockOfJoinedRows) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload =
        find_operator("batch_norm").workload({{"shape", "1x256x14x14,256,256,256,256"}});
    const Point lone = Point::parse("block=256,joined=1,numbers=0,pads=4,parts=1,unroll=28"),
                several = Point::parse("block=32,joined=1,numbers=0,pads=2,parts=1,unroll=14");
    EXPECT_LT(Evaluator(workload, machine).evaluate(lone).cycles, Evaluator(workload, machine).evaluate(several).cycles);
    EXPECT_LT(workload->draft(machine, lone), workload->draft(machine, several));
}

// Long rows whose vectors go round the pads are straight-line code; blocks that lie in parts start a loop in each row, or leave
// the cache.
TEST(Pointwise, DraftOfLongRows) {
    const auto workload = find_operator("add").workload({{"shape", "512x768,1x768"}});
    const auto draft = [&](int64_t parts, int64_t unroll) {
        return workload->draft(find_machine("ax01"), {{"block", 20}, {"unroll", unroll}, {"pads", 4}, {"parts", parts}});
    };
    EXPECT_LT(draft(0, 32), draft(1, 32));
    EXPECT_LT(draft(0, 32), draft(1, 4));
    EXPECT_LT(draft(0, 32), draft(0, 8));
}

// Transfers by what they are made of: a pad's rows that end inside vectors are several, rows of different pages open these, and
// pads whose rows lie in one bank group share half of the bus.
TEST(Pointwise, DraftOfTransfers) {
    const auto point = [](int64_t block, int64_t unroll, int64_t parts, int64_t numbers) {
        return Point{{"block", block}, {"unroll", unroll}, {"pads", 4}, {"parts", parts}, {"numbers", numbers}};
    };
    expect_drafted_faster("mul", {{"shape", "1x100x100,1x100x1"}}, point(100, 16, 0, 0), point(64, 32, 1, 1));
    expect_drafted_faster("batch_norm", {{"shape", "256x100,100,100,100,100"}},
                          {{"block", 256}, {"unroll", 16}, {"pads", 4}, {"parts", 0}},
                          {{"block", 64}, {"unroll", 16}, {"pads", 4}, {"parts", 1}});
    Point joined = point(16, 16, 1, 0), apart = point(16, 32, 1, 1);
    joined.set("joined", 1);
    apart.set("joined", 0);
    expect_drafted_faster("mul", {{"shape", "16x1x1,16x64x64"}}, joined, apart);
    // Planes of all pads are one loop over their rows.
    expect_drafted_faster("mul", {{"shape", "1x128x50x64,1x1x50x64"}},
                          {{"block", 80}, {"unroll", 4}, {"pads", 4}, {"parts", 1}},
                          {{"block", 40}, {"unroll", 16}, {"pads", 4}, {"parts", 1}});
}

// Copies of a row come once. Rows far from each other leave each from a pad, not a vector of each after the other.
TEST(Movement, DraftOfTransfers) {
    const auto point = [](int64_t rows, int64_t pads, int64_t turn) {
        return Point{{"rows", rows}, {"pads", pads}, {"turn", turn}};
    };
    expect_drafted_faster("expand", {{"shape", "1x12x1x197"}, {"size", "1,12,197,197"}}, point(32, 4, 1), point(128, 4, 0));
    expect_drafted_faster("expand", {{"shape", "1x197"}, {"size", "100,197"}}, point(32, 4, 1), point(1024, 4, 0));
    expect_drafted_faster("expand", {{"shape", "1x512"}, {"size", "256,512"}}, point(128, 4, 32), point(4096, 4, 0));
    expect_drafted_faster("select", {{"shape", "64x197x50"}, {"dim", "1"}, {"index", "0"}}, point(64, 2, 32), point(64, 4, 0));
}

// A nest of the last blocks alone has a start of its own, which few blocks are not worth.
TEST(Movement, DraftOfBlocksThatAreTurned) {
    const auto point = [](int64_t along, int64_t apart) {
        return Point{{"across", 1}, {"along", along}, {"apart", apart}, {"unroll", 32}, {"whole", 0}};
    };
    expect_drafted_faster("transpose", {{"shape", "50x400"}, {"dim0", "0"}, {"dim1", "1"}}, point(1, 0), point(4, 1));
}

// The elements of a block come once; those that others share, only with what shares them: one block is faster than many.
TEST(Pointwise, DraftOfOneBlock) {
    const auto expect_faster = [&](const char *op, const char *shape, const Point &whole, const Point &part) {
        expect_drafted_faster(op, {{"shape", shape}}, whole, part);
    };
    const auto point = [](int64_t block) { return Point{{"block", block}, {"unroll", 32}, {"pads", 4}, {"parts", 0}}; };
    const auto of_numbers = [](int64_t block) {
        return Point{{"block", block}, {"unroll", 32}, {"pads", 4}, {"parts", 0}, {"numbers", 0}};
    };
    expect_faster("mul", "1x128x12x64,1x128x1x64", point(1536), point(96));
    expect_faster("add", "64x1024,1024", point(64), point(8));
    expect_faster("mul", "64x768,64x1", of_numbers(64), of_numbers(8));
}

}  // namespace
}  // namespace atalla
