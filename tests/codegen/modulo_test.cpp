// Iterative modulo scheduling: a loop of lane operations that placing each operation once gives a longer interval than its
// units need.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen/modulo.h"
#include "codegen/resources.h"
#include "codegen/tighten.h"
#include "isa/vectors.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

// Rows of a polynomial whose negative arguments take another value, made by operations in their lanes alone.
struct FullAdder : Fixture, testing::Test {
    static constexpr int64_t iterations = 64;
    static constexpr int rows = 4, terms = 2;

    FullAdder() {
        counted_loop(iterations);
        in = allocation("in", rows * iterations);
        out = allocation("out", rows * iterations);
        bound = vector("bound");
        for (int row = 0; row < rows; row++) add_row(row);
    }

    void add_row(int row) {
        const Reg x = vector("x"), negative = mask("negative"), small = mask("small"), result = vector("result");
        ops.push_back(moving(load(x, in, row)));
        ops.push_back(op(Opcode::mlt_mvv, negative, {x, bound}));
        Reg sum = x;
        for (int term = 0; term < terms; term++) {
            const Reg product = vector("product"), next = vector("sum");
            ops.push_back(op(Opcode::mul_vv, product, {sum, x}));
            ops.push_back(op(Opcode::add_vv, next, {product, bound}));
            sum = next;
        }
        ops.push_back(op(Opcode::sub_vv, result, {sum, x}));
        ops.push_back(op(Opcode::mlt_mvv, small, {sum, bound}));
        ops.push_back(masked(Opcode::sub_vv, result, {x, bound}, negative));
        ops.push_back(masked(Opcode::sub_vv, result, {bound, x}, small));
        ops.push_back(moving(store(result, out, row)));
    }
    static Op moving(Op access) {
        access.access->row.terms = {{0, rows}};
        return access;
    }

    Reg bound;
    int in = 0, out = 0;
    std::vector<Op> ops;
};

TEST_F(FullAdder, GetsAnIntervalNearItsBound) {
    ScheduleGraph graph(kernel, ops, 0);
    const std::vector<Edge> edges = graph.edges;
    const std::optional<ModuloSchedule> schedule = modulo_schedule(kernel, graph, kernel.loops[0], {}, OverlapIterations::Long,
                                                                   [](const std::vector<Op> &) { return false; });
    ASSERT_TRUE(schedule);
    const int bound_of_units = resource_bound(kernel, ops);
    EXPECT_LE(schedule->interval, bound_of_units + bound_of_units / 16);
    ASSERT_EQ(schedule->stage.size(), ops.size());
    const auto cycle = [&](int i) { return graph.cycle[i] + schedule->stage[i] * schedule->interval; };
    for (const Edge &edge : edges)
        EXPECT_GE(cycle(edge.to) + edge.distance * schedule->interval, cycle(edge.from) + edge.latency)
            << fmt::format("operation {} behind operation {}", edge.to, edge.from);
}

TEST_F(FullAdder, TakesFewerPacketsInTheSameIntervalOnceTightened) {
    ScheduleGraph graph(kernel, ops, 0);
    const std::optional<ModuloSchedule> schedule = modulo_schedule(kernel, graph, kernel.loops[0], {}, OverlapIterations::Long,
                                                                   [](const std::vector<Op> &) { return false; });
    ASSERT_TRUE(schedule);
    const size_t before = gather(graph).size();
    tighten_loop(kernel, graph, schedule->interval);
    EXPECT_LT(gather(graph).size(), before);
    for (const OpGroup &packet : gather(graph)) EXPECT_LE(static_cast<int64_t>(packet.size()), machine.issue.slots);
    for (const Edge &edge : graph.edges)
        EXPECT_GE(graph.cycle[edge.to] + edge.distance * schedule->interval, graph.cycle[edge.from] + edge.latency)
            << fmt::format("operation {} behind operation {}", edge.to, edge.from);
    EXPECT_LT(*std::max_element(graph.cycle.begin(), graph.cycle.end()), schedule->interval);
}

// The code in front of the loop begins as many iterations as are under way, less one: the first stage is so far ahead, the last
// one is not.
TEST_F(FullAdder, NamesRowsByTheVariableOfTheLoop) {
    ScheduleGraph graph(kernel, ops, 0);
    const std::optional<ModuloSchedule> schedule = modulo_schedule(kernel, graph, kernel.loops[0], {}, OverlapIterations::Long,
                                                                   [](const std::vector<Op> &) { return false; });
    ASSERT_TRUE(schedule);
    ASSERT_GT(schedule->stages, 1);
    const ScheduleGraph before = graph;
    name_rows_by_loop(kernel, graph, *schedule, 0);
    std::set<int> ahead;
    for (size_t i = 0; i < ops.size(); i++) {
        if (!ops[i].access) continue;
        const int iterations_ahead = schedule->stages - 1 - schedule->stage[i];
        ahead.insert(iterations_ahead);
        EXPECT_EQ(graph.ops[i].access->row.constant, before.ops[i].access->row.constant + iterations_ahead * rows);
        EXPECT_EQ(graph.ops[i].access->row.terms, before.ops[i].access->row.terms);
    }
    EXPECT_TRUE(ahead.count(0));
    EXPECT_GT(ahead.size(), 1u);
}

// Started together, each would last as long as all of them.
TEST_F(FullAdder, TransfersOfSeveralPadsStartAtEvenDistances) {
    const int pads = static_cast<int>(machine.pad.count);
    for (int pad = 0; pad < pads; pad++)
        for (Op &step : transfer(pad)) ops.push_back(step);
    ScheduleGraph graph(kernel, ops, 0);
    const std::optional<ModuloSchedule> schedule = modulo_schedule(kernel, graph, kernel.loops[0], {}, OverlapIterations::Long,
                                                                   [](const std::vector<Op> &) { return false; });
    ASSERT_TRUE(schedule);
    for (const Edge &edge : graph.edges)
        EXPECT_GE(graph.cycle[edge.to] + edge.distance * schedule->interval, graph.cycle[edge.from] + edge.latency)
            << fmt::format("operation {} behind operation {}", edge.to, edge.from);
    std::vector<int> starts;
    for (size_t i = 0; i < graph.ops.size(); i++)
        if (graph.ops[i].opcode == Opcode::scpad_ld) starts.push_back(graph.cycle[i]);
    std::ranges::sort(starts);
    ASSERT_EQ(starts.size(), static_cast<size_t>(pads));
    for (size_t i = 1; i < starts.size(); i++)
        EXPECT_GE(starts[i] - starts[i - 1], schedule->interval / pads / 2) << "of " << schedule->interval << " cycles";
}

// Rows that lanes make are weights of the array, whose product with a row of ones is added up: weights that load as soon as
// each is made, and not one right after the other, would take the array for as long as lanes take for all of them, and for the
// distance to the next ones. Operations displace each other for a place near the pace of the adder.
TEST(Modulo, LoadsWeightsThatLanesMakeOneRightAfterTheOther) {
    Fixture f;
    constexpr int64_t iterations = 64;
    constexpr int rows = 16;
    f.counted_loop(iterations);
    const int in = f.allocation("in", rows * iterations), most = f.allocation("most", rows * iterations),
              out = f.allocation("out", rows * iterations), sums = f.allocation("sums", iterations);
    const Reg scale = f.vector("scale"), ones = f.vector("ones"), dot = f.vector("dot"), before = f.vector("before"),
              sum = f.vector("sum");
    std::vector<Op> ops, weights;
    for (int row = 0; row < rows; row++) {
        const Reg x = f.vector("x"), largest = f.vector("largest"), distance = f.vector("distance"),
                  scaled = f.vector("scaled"), made = f.vector("made");
        for (const Op &step : {f.load(x, in, row), f.load(largest, most, row), f.op(Opcode::sub_vv, distance, {x, largest}),
                               f.op(Opcode::mul_vv, scaled, {distance, scale}), f.op(Opcode::expi_vi, made, {scaled}),
                               f.store(made, out, row)}) {
            ops.push_back(step);
            if (step.access) ops.back().access->row.terms = {{0, rows}};
        }
        weights.push_back(f.op(Opcode::lw_vi, {}, {made}));
    }
    ops.insert(ops.end(), weights.begin(), weights.end());
    ops.push_back(f.op(Opcode::gemm_vv, dot, {ones, zero_vector}));
    for (const Op &step : {f.load(before, sums, 0), f.op(Opcode::add_vv, sum, {before, dot}), f.store(sum, sums, 0)}) {
        ops.push_back(step);
        if (step.access) ops.back().access->row.terms = {{0, 1}};
    }
    ScheduleGraph graph(f.kernel, ops, 0);
    const std::vector<Edge> edges = graph.edges;
    const std::optional<ModuloSchedule> schedule = modulo_schedule(
        f.kernel, graph, f.kernel.loops[0], {}, OverlapIterations::Long, [](const std::vector<Op> &) { return false; });
    ASSERT_TRUE(schedule);
    ASSERT_EQ(schedule->stage.size(), ops.size());
    const int bound_of_units = resource_bound(f.kernel, ops);
    EXPECT_LE(schedule->interval, bound_of_units + bound_of_units / 6);
    const auto cycle = [&](int i) { return graph.cycle[i] + schedule->stage[i] * schedule->interval; };
    for (const Edge &edge : edges)
        EXPECT_GE(cycle(edge.to) + edge.distance * schedule->interval, cycle(edge.from) + edge.latency)
            << fmt::format("operation {} behind operation {}", edge.to, edge.from);
}

// A visit of the array whose sums the adder makes, in the interval that the adder needs: what overlapping iterations would add
// to the code in front of it and behind it gains nothing.
TEST(Modulo, DoesNotOverlapVisitsThatGainNothing) {
    Fixture f;
    constexpr int64_t iterations = 32;
    constexpr int rows = 60;
    f.counted_loop(iterations);
    const int in = f.allocation("in", rows * iterations), weights = f.allocation("weights", lanes * iterations);
    std::vector<Op> ops;
    const auto read = [&](const char *name, int allocation, int row, int64_t step) {
        const Reg r = f.vector(name);
        ops.push_back(f.load(r, allocation, row));
        ops.back().access->row.terms = {{0, step}};
        ops.back().pad = row % static_cast<int>(f.machine.pad.count);
        return r;
    };
    for (int w = 0; w < lanes; w++) {
        const Reg weight = read("weight", weights, w, lanes);
        ops.push_back(f.op(Opcode::lw_vi, {}, {weight}));
    }
    for (int row = 0; row < rows; row++) {
        const Reg x = read("x", in, row, rows), dot = f.vector("dot"), sum = f.vector("sum");
        ops.push_back(f.op(Opcode::gemm_vv, dot, {x, zero_vector}));
        ops.push_back(f.op(Opcode::add_vv, sum, {sum, dot}));
    }
    ScheduleGraph graph(f.kernel, ops, 0);
    const std::optional<ModuloSchedule> schedule = modulo_schedule(
        f.kernel, graph, f.kernel.loops[0], {}, OverlapIterations::Long, [](const std::vector<Op> &) { return false; });
    ASSERT_TRUE(schedule);
    EXPECT_EQ(schedule->interval, resource_bound(f.kernel, ops));
    EXPECT_EQ(schedule->interval, rows * f.machine.vec.ii) << "of the adder";
    EXPECT_EQ(schedule->stages, 1);
}

// Reciprocals follow each other at the latency of their unit and what it takes to begin anew.
// Sums that wait in the pads are loaded when the rows of the array that are added to them are there, or a little earlier: later
// ones would hold the rows' registers, and so the interval.
TEST(Modulo, LoadsASumWithTheRowThatIsAddedToIt) {
    Fixture f;
    constexpr int64_t iterations = 30;
    constexpr int rows = 9;
    f.counted_loop(iterations);
    const int in = f.allocation("in", rows), weights = f.allocation("weights", lanes * iterations),
              sums = f.allocation("sums", rows * iterations);
    std::vector<Op> ops;
    const auto in_turn = [&](Op access, int row, int64_t step) {
        if (step > 0) access.access->row.terms = {{0, step}};
        access.pad = row % static_cast<int>(f.machine.pad.count);
        ops.push_back(access);
    };
    for (int w = 0; w < lanes; w++) {
        const Reg weight = f.vector("weight");
        in_turn(f.load(weight, weights, w), w, lanes);
        ops.push_back(f.op(Opcode::lw_vi, {}, {weight}));
    }
    for (int row = 0; row < rows; row++) {
        const Reg x = f.vector("x"), dot = f.vector("dot"), before = f.vector("before"), sum = f.vector("sum");
        in_turn(f.load(x, in, row), row, 0);
        in_turn(f.load(before, sums, row), row, rows);
        ops.push_back(f.op(Opcode::gemm_vv, dot, {x, zero_vector}));
        ops.push_back(f.op(Opcode::add_vv, sum, {before, dot}));
        in_turn(f.store(sum, sums, row), row, rows);
    }
    ScheduleGraph graph(f.kernel, ops, 0);
    const std::optional<ModuloSchedule> schedule = modulo_schedule(
        f.kernel, graph, f.kernel.loops[0], {}, OverlapIterations::Long, [](const std::vector<Op> &) { return false; });
    ASSERT_TRUE(schedule);
    EXPECT_EQ(schedule->interval, resource_bound(f.kernel, ops));
}

TEST(ResourceBound, CountsHowLongSlowUnitsAreBusy) {
    Fixture f;
    const auto &ex2 = f.machine.ex2;
    constexpr int reciprocals = 16;
    std::vector<Op> ops;
    for (int i = 0; i < reciprocals; i++)
        ops.push_back(f.op(Opcode::rcp_bf, f.kernel.scalar("inverse"), {f.kernel.scalar("sum")}));
    EXPECT_EQ(resource_bound(f.kernel, ops), reciprocals * (ex2.rcp_sqrt_L + ex2.ii_after_L));
}

}  // namespace
}  // namespace atalla::codegen
