// What the matcher makes of single idioms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "codegen/copy_nest.h"
#include "codegen/index.h"
#include "codegen/match.h"
#include "generators/host_jit.h"
#include "generators/vocabulary.h"
#include "isa/machine.h"
#include "tests/generators/kernel_check.h"
#include "tests/generators/pipelines.h"

namespace atalla {
namespace {

using namespace Halide;
using namespace vocabulary;
using codegen::Kernel;

Kernel match(const KernelDefinition &kernel, const std::string &machine = "ax01", bool optimize = true) {
    silence_halide();
    static std::map<std::string, Machine> machines;
    const auto it = machines.try_emplace(machine, find_machine(machine)).first;
    const Module module =
        Pipeline(kernel.pipeline)
            .compile_to_module(kernel.arguments, "kernel", Target("x86-64-linux-no_asserts-no_bounds_query-no_runtime"));
    return codegen::match(module.functions().front(), it->second, optimize);
}

int count(const codegen::Body &body, const std::function<bool(const codegen::Node &)> &which) {
    int found = 0;
    for (const codegen::Node &node : body) {
        found += which(node);
        if (node.loop) found += count(node.loop->body, which);
    }
    return found;
}
int count(const Kernel &kernel, Opcode opcode) {
    return count(kernel.body, [&](const codegen::Node &node) { return node.op && node.op->opcode == opcode; });
}
int count_loops(const Kernel &kernel) {
    return count(kernel.body, [](const codegen::Node &node) { return node.loop != nullptr; });
}

// Rows of an allocation that are filled once, before everything else.
int64_t fills(const Kernel &kernel, const std::string &allocation) {
    int64_t rows = 0;
    const std::function<void(const codegen::Body &, int64_t)> add = [&](const codegen::Body &body, int64_t times) {
        for (const codegen::Node &node : body) {
            if (node.op && node.op->opcode == Opcode::vreg_st &&
                kernel.allocations[node.op->access->allocation].name == allocation)
                rows += times;
            if (node.loop && node.loop->fill) add(node.loop->body, node.loop->extent);
        }
    };
    add(kernel.body, 1);
    return rows;
}

// Y = f(X) on one tile of [rows][cols].
KernelDefinition one_tile(int cols, int rows, const std::function<Expr(Func, Var, Var)> &f,
                          const std::function<void(Func, Var, Var)> &schedule = {}) {
    ImageParam x = tensor("X", {cols, rows});
    Var n("n"), m("m");
    Func xs("xs"), ys("ys"), out("Y");
    xs(n, m) = cols % 32 == 0 ? Expr(x(n, m)) : select(n < cols, x(min(n, cols - 1), m), undef<BFloat>());
    ys(n, m) = f(xs, n, m);
    out(n, m) = ys(n, m);
    const int padded = (cols + 31) / 32 * 32;
    out.bound(n, 0, cols).bound(m, 0, rows);
    xs.compute_root().bound(n, 0, padded);
    ys.compute_root().bound(n, 0, padded).vectorize(n, 32);
    if (schedule) schedule(ys, n, m);
    in_pads({xs, ys});
    whole_loops(out);
    fix_shape(out.output_buffer(), {cols, rows});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {x};
    kernel.inputs = {{"X", {cols, rows}}};
    kernel.outputs = {{"Y", {cols, rows}}};
    return kernel;
}

void expect_host_answer(const KernelDefinition &kernel, const std::vector<std::string> &machines = {"ax01", "fsim"}) {
    std::mt19937 random(5);
    std::vector<TensorData> inputs;
    for (const TensorSpec &tensor : kernel.inputs) inputs.push_back(random_patterns(tensor, random));
    const std::vector<TensorData> expected = run_on_host(kernel, inputs);
    for (const std::string &machine : machines)
        for (bool optimize : {false, true})
            expect_equal(kernel, run_checked(kernel, find_machine(machine), optimize, inputs), expected, machine);
}

// What does not divide may be the same number of times the divisor in every iteration.
TEST(Matcher, QuotientsOfWhatStaysBelowTheDivisorAreLinear) {
    using codegen::LinearForm;
    Kernel kernel;
    kernel.loops.push_back({"m", 5, -1, {}});
    kernel.loops.push_back({"n", 32, 0, {}});
    codegen::IndexScope scope(kernel);
    for (int loop : {0, 1}) scope.bind(kernel.loops[static_cast<size_t>(loop)].name, scope.loop_variable(loop));
    const Expr m = Internal::Variable::make(Int(32), "m"), n = Internal::Variable::make(Int(32), "n");
    EXPECT_EQ(scope.linear((m * 128 + n + 224) / 64), (LinearForm{3, {{0, 2}}}));
    EXPECT_EQ(scope.linear((m * 128 + n - 32) / 64), (LinearForm{-1, {{0, 2}}}));
    EXPECT_EQ(scope.linear((m * 128 + n * 2) / 64), (LinearForm{0, {{0, 2}}}));
    EXPECT_FALSE(kernel.atoms[static_cast<size_t>(scope.linear((m * 128 + n + 33) / 64).terms.begin()->first)].is_loop);
}

TEST(Matcher, OneLoadForOneRow) {
    const KernelDefinition kernel =
        one_tile(32, 4, [](Func x, Var n, Var m) { return strict_float(x(n, m) * x(n, m) + x(n, m)); });
    const Kernel matched = match(kernel);
    EXPECT_EQ(count(matched, Opcode::vreg_ld), 1);
    EXPECT_EQ(count(matched, Opcode::mul_vv), 1);
    EXPECT_EQ(count(matched, Opcode::add_vv), 1);
}

TEST(Matcher, SharesValuesBetweenStatements) {
    const KernelDefinition kernel = one_tile(32, 4, [](Func x, Var n, Var m) {
        const Expr e = machine_exp(x(n, m));
        return strict_float(e * e + machine_exp(x(n, m)));
    });
    EXPECT_EQ(count(match(kernel), Opcode::expi_vi), 1);
}

// Conditions of a row that is known decide a choice, or leave it to those of lanes.
TEST(Matcher, ConditionsThatLoopsOutsideDecide) {
    const auto kernel = [](bool both) {
        return one_tile(
            32, 4,
            [&](Func x, Var n, Var m) {
                return select(both ? m % 2 == 0 && n < 5 + m : m % 2 == 0 || n < 5 + m, x(n, m),
                              strict_float(x(n, m) + x(n, m)));
            },
            [](Func ys, Var, Var m) { ys.rename(m, Var("m_unroll")); });
    };
    for (const bool both : {false, true}) {
        EXPECT_EQ(count(match(kernel(both)), Opcode::mv_stm), 2) << "a mask for every other row";
        expect_host_answer(kernel(both));
    }
}

// A row's number that rounds down in straight code changes with the loop around it as it does in its first turn.
TEST(Matcher, DivisionsOfKnownRests) {
    const auto kernel = [] {
        return one_tile(
            32, 16, [](Func x, Var n, Var m) { return strict_float(x(n, m / 2) + x(n, m)); },
            [](Func ys, Var n, Var m) {
                ys.split(m, Var("p_unroll"), m, 8)
                    .split(m, m, Var("m_unroll"), 2)
                    .reorder(n, Var("m_unroll"), Var("p_unroll"), m);
            });
    };
    const Kernel matched = match(kernel());
    for (const auto &atom : matched.atoms) EXPECT_EQ(atom.expr.as<Internal::Div>(), nullptr) << atom.text;
    expect_host_answer(kernel());
}

// Each row with those before it added; with the row itself, or else the first one with none.
KernelDefinition running_sums(bool with_itself) {
    constexpr int rows = 9;
    ImageParam x = tensor("X", {32, rows});
    Var n("n"), m("m");
    Func xs("xs"), ys("ys"), zs("zs"), out("Y");
    RDom before(0, rows, "before_varying");
    before.where(before.x < m + (with_itself ? 1 : 0));
    define(xs, {n, m}, x(n, m));
    define(ys, {n, m}, bf16(-0.0f));
    ys(n, m) = strict_float(ys(n, m) + xs(n, before));
    zs(n, m) = ys(n, m);
    out(n, m) = zs(n, m);
    out.bound(n, 0, 32).bound(m, 0, rows);
    xs.compute_root().bound(n, 0, 32);
    zs.compute_root().bound(n, 0, 32).vectorize(n, 32);
    // Inside the loop over rows, which Halide would shorten to those that have a sum.
    ys.compute_at(zs, m).vectorize(n, 32).update().reorder(n, before.x, m).vectorize(n, 32);
    in_pads({xs, ys, zs});
    whole_loops(out);
    fix_shape(out.output_buffer(), {32, rows});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {x};
    kernel.inputs = {{"X", {32, rows}}};
    kernel.outputs = {{"Y", {32, rows}}};
    return kernel;
}

TEST(Matcher, LoopsRunADifferentNumberOfTimes) {
    for (const bool with_itself : {true, false}) {
        SCOPED_TRACE(with_itself);
        const KernelDefinition kernel = running_sums(with_itself);
        const Kernel matched = match(kernel);
        EXPECT_EQ(std::count_if(matched.loops.begin(), matched.loops.end(),
                                [](const codegen::LoopInfo &loop) { return loop.varies(); }),
                  1);
        EXPECT_EQ(count(matched.body, [](const codegen::Node &node) { return node.branch != nullptr; }), with_itself ? 0 : 1);
        expect_host_answer(kernel);
    }
}

// The sum of all rows, over a domain of this name.
KernelDefinition sum_of_rows(const std::string &domain) {
    constexpr int rows = 9;
    ImageParam x = tensor("X", {32, rows});
    Var n("n"), m("m");
    Func xs("xs"), ys("ys"), zs("zs"), out("Y");
    RDom all(0, rows, domain);
    define(xs, {n, m}, x(n, m));
    define(ys, {n, m}, bf16(0.0f));
    ys(n, m) = strict_float(ys(n, m) + xs(n, all));
    zs(n, m) = ys(n, m);
    out(n, m) = zs(n, m);
    out.bound(n, 0, 32).bound(m, 0, 1);
    xs.compute_root().bound(n, 0, 32);
    zs.compute_root().bound(n, 0, 32).vectorize(n, 32);
    ys.compute_at(zs, m).vectorize(n, 32).update().reorder(n, all.x, m).vectorize(n, 32);
    in_registers({ys});
    in_pads({xs, zs});
    whole_loops(out);
    fix_shape(out.output_buffer(), {32, 1});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {x};
    kernel.inputs = {{"X", {32, rows}}};
    kernel.outputs = {{"Y", {32, 1}}};
    return kernel;
}

TEST(Matcher, KeepsTheFirstIterationOfLoopsAlike) {
    const auto loops_of = [](const Kernel &kernel, int64_t extent) {
        return std::count_if(kernel.loops.begin(), kernel.loops.end(),
                             [&](const codegen::LoopInfo &loop) { return loop.extent == extent; });
    };
    const KernelDefinition apart = sum_of_rows("rows"), alike = sum_of_rows("rows_alike");
    EXPECT_EQ(loops_of(match(apart), 8), 1);
    EXPECT_EQ(loops_of(match(alike), 8), 0);
    EXPECT_EQ(loops_of(match(alike), 9), loops_of(match(apart), 9) + 1) << "beside the loop that stages the rows";
    expect_host_answer(apart);
    expect_host_answer(alike);
}

// Two sums that begin with one vector need no copies of it: their first additions read it.
TEST(Matcher, StartsSeveralSumsWithOneVector) {
    constexpr int rows = 9, sums = 2;
    ImageParam x = tensor("X", {32, rows});
    Var n("n"), m("m");
    Func xs("xs"), ys("ys"), zs("zs"), out("Y");
    RDom all(0, rows - 1, "rows");
    define(xs, {n, m}, x(n, m));
    define(ys, {n, m}, xs(n, 0));
    ys(n, m) = strict_float(ys(n, m) + xs(n, all + m));
    zs(n, m) = ys(n, m);
    out(n, m) = zs(n, m);
    out.bound(n, 0, 32).bound(m, 0, sums);
    xs.compute_root().bound(n, 0, 32);
    zs.compute_root().bound(n, 0, 32).bound(m, 0, sums).vectorize(n, 32);
    ys.compute_root().bound(n, 0, 32).bound(m, 0, sums).vectorize(n, 32).update().reorder(n, m, all.x).vectorize(n, 32);
    in_registers({ys});
    in_pads({xs, zs});
    whole_loops(out);
    fix_shape(out.output_buffer(), {32, sums});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {x};
    kernel.inputs = {{"X", {32, rows}}};
    kernel.outputs = {{"Y", {32, sums}}};
    EXPECT_EQ(count(match(kernel), Opcode::sub_vv), 0);
    expect_host_answer(kernel);
}

TEST(Matcher, AddsTheNegativeZeroNowhere) {
    const KernelDefinition kernel = one_tile(32, 4, [](Func x, Var n, Var m) { return strict_float(x(n, m) + bf16(-0.0f)); });
    EXPECT_EQ(count(match(kernel), Opcode::add_vv) + count(match(kernel), Opcode::add_vs), 0);
    expect_host_answer(kernel);
}

TEST(Matcher, DividesByPowersOfTwo) {
    for (float divisor : {2.0f, -0.5f, 0x1p100f, 0x1p-126f})
        expect_host_answer(one_tile(40, 3, [&](Func x, Var n, Var m) { return strict_float(x(n, m) / bf16(divisor)); }));
}

TEST(Matcher, ExtremaOfZerosAndNan) {
    for (bool largest : {false, true})
        expect_host_answer(one_tile(64, 8, [&](Func x, Var n, Var m) {
            const Expr other = x(n, 7 - m);
            return strict_float(largest ? max(x(n, m), other) : min(x(n, m), other));
        }));
}

TEST(Matcher, EveryComparison) {
    const std::vector<std::function<Expr(Expr, Expr)>> comparisons = {
        [](Expr a, Expr b) { return strict_float(a < b); },
        [](Expr a, Expr b) { return strict_float(a <= b); },
        [](Expr a, Expr b) { return strict_float(a > b); },
        [](Expr a, Expr b) { return strict_float(a >= b); },
        [](Expr a, Expr b) { return strict_float(a == b); },
        [](Expr a, Expr b) { return strict_float(a != b); },
        [](Expr a, Expr b) { return strict_float(a < b) && !strict_float(a == bf16(-1.0f)); },
        [](Expr a, Expr b) { return strict_float(a < b) || strict_float(b <= bf16(0.0f)); },
        [](Expr a, Expr b) { return strict_float(a == a) && strict_float(a <= b); },
        [](Expr a, Expr b) { return strict_float(a <= b) && !strict_float(b < bf16(0.0f)) && strict_float(b == b); },
        [](Expr a, Expr) { return strict_float(bf16(0.5f) < a); }};
    for (const auto &compare : comparisons)
        expect_host_answer(
            one_tile(32, 8, [&](Func x, Var n, Var m) { return select(compare(x(n, m), x(n, 7 - m)), x(n, m), bf16(2.0f)); }));
}

TEST(Matcher, ExchangesTheValuesInsteadOfInvertingTheMask) {
    const KernelDefinition kernel = one_tile(32, 8, [](Func x, Var n, Var m) {
        const Expr a = x(n, m), b = x(n, 7 - m);
        return select(strict_float(a == a) && strict_float(a <= b), a, b);
    });
    EXPECT_EQ(count(match(kernel), Opcode::xor_s), 0);
    EXPECT_EQ(count(match(kernel), Opcode::mv_stm), 1);
}

TEST(Matcher, ReadsAMaskWhereItWasCombined) {
    const KernelDefinition kernel = one_tile(32, 8, [](Func x, Var n, Var m) {
        const Expr a = x(n, m), b = x(n, 7 - m);
        return select(strict_float(a < b) || strict_float(b < bf16(-1.0f)) || strict_float(bf16(2.0f) < b), a, b);
    });
    EXPECT_EQ(count(match(kernel), Opcode::mv_mts), 3) << "the three comparisons alone";
    EXPECT_EQ(count(match(kernel), Opcode::mv_stm), 1);
}

TEST(Matcher, LanesByTheirNumber) {
    // A tail of each length, and lanes from a number on.
    for (int limit : {1, 31, 32, 33, 50, 64})
        expect_host_answer(one_tile(64, 3, [&](Func x, Var n, Var m) { return select(n < limit, x(n, m), bf16(0.0f)); }));
    expect_host_answer(one_tile(64, 3, [&](Func x, Var n, Var m) { return select(n >= 40 || m < 1, x(n, m), bf16(7.0f)); }));
    // A number that depends on a loop.
    expect_host_answer(one_tile(96, 40, [&](Func x, Var n, Var m) { return select(n < 2 * m + 5, x(n, m), bf16(1.0f)); }),
                       {"ax01"});
    expect_host_answer(one_tile(96, 40, [&](Func x, Var n, Var m) { return select(m <= n, x(n, m), bf16(1.0f)); }), {"ax01"});
}

// Rows of straight-line code that all lanes of a condition hold for, or none, choose without a mask, and so do all that several
// conditions hold for together; the others share one. Zeros behind what is loaded come with it.
TEST(Matcher, LanesThatAreKnownTakeMasksWhereTheyDiffer) {
    const struct {
        int limit;
        float behind;
        int merges, masks, parts;
    } cases[] = {{100, 1.0f, 1, 1, 0}, {100, -0.0f, 1, 1, 0}, {100, 0.0f, 0, 0, 1}, {96, 0.0f, 0, 0, 0}};
    for (const auto &[limit, behind, merges, masks, parts] : cases) {
        const KernelDefinition kernel = one_tile(
            128, 3, [&](Func x, Var n, Var m) { return select(n < limit && n >= 0, x(n, m), bf16(behind)); },
            [](Func ys, Var n, Var) { ys.rename(n, Var("n_unroll")); });
        const Kernel matched = match(kernel);
        EXPECT_EQ(count(matched.body, [](const codegen::Node &node) { return node.op && node.op->keeps_dst; }), merges);
        EXPECT_EQ(count(matched, Opcode::mv_stm), masks);
        EXPECT_EQ(
            count(matched.body,
                  [](const codegen::Node &node) { return node.op && node.op->opcode == Opcode::vreg_ld && node.op->imm < 31; }),
            parts);
        expect_host_answer(kernel);
    }
}

// One shift makes a mask whose number of lanes is below 32, or above 0, wherever in the loop; others take two.
TEST(Matcher, LanesByTheirNumberTakeFewShifts) {
    const auto shifts = [](const auto &condition, int rows) {
        return count(
            match(one_tile(32, rows, [&](Func x, Var n, Var m) { return select(condition(n, m), x(n, m), bf16(1.0f)); })),
            Opcode::sll_s);
    };
    const auto up_to = [](Var n, Var m) { return n <= m; };
    const auto below = [](Var n, Var m) { return n < m; };
    EXPECT_EQ(shifts(up_to, 32), 1);
    EXPECT_EQ(shifts(below, 32), 1);
    EXPECT_EQ(shifts(below, 33), 2);
    EXPECT_EQ(shifts(up_to, 33), 1) << "all lanes at the end, one at least";
    for (const int rows : {32, 33}) {
        expect_host_answer(one_tile(32, rows, [&](Func x, Var n, Var m) { return select(up_to(n, m), x(n, m), bf16(1.0f)); }),
                           {"ax01"});
        expect_host_answer(one_tile(32, rows, [&](Func x, Var n, Var m) { return select(below(n, m), x(n, m), bf16(1.0f)); }),
                           {"ax01"});
    }
}

TEST(Matcher, SingleValuesFromThePads) {
    expect_host_answer(one_tile(64, 4, [&](Func x, Var n, Var m) { return strict_float(x(n, m) * x(37, m)); }));
}

// Values that change places from iteration to iteration, in registers all the time.
TEST(Matcher, CarriedRegistersThatExchangeValues) {
    constexpr int cols = 64, rows = 8;
    ImageParam x = tensor("X", {cols, rows});
    Var n("n"), m("m");
    Func xs("xs"), pair("pair"), ys("ys"), out("Y");
    RDom r(0, rows, "r");
    xs(n, m) = x(n, m);
    pair(n) = Tuple(xs(n, 0), bf16(1.0f));
    pair(n) = Tuple(pair(n)[1], strict_float(pair(n)[0] * bf16(0.5f) + xs(n, r)));
    ys(n, m) = select(m == 0, pair(n)[0], pair(n)[1]);
    out(n, m) = ys(n, m);
    out.bound(n, 0, cols).bound(m, 0, 2);
    xs.compute_root();
    ys.compute_root().vectorize(n, 32).unroll(m).reorder(m, n);
    pair.compute_at(ys, n).vectorize(n, 32).update().reorder(n, r).vectorize(n, 32);
    in_pads({xs, ys});
    in_registers({pair});
    whole_loops(out);
    fix_shape(out.output_buffer(), {cols, 2});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {x};
    kernel.inputs = {{"X", {cols, rows}}};
    kernel.outputs = {{"Y", {cols, 2}}};
    expect_host_answer(kernel);
}

TEST(Matcher, FillsOnlyWhatTheCopyLeaves) {
    // 32 x 32 elements: nothing is left to fill. One column less: the last lane of every row.
    EXPECT_EQ(fills(match(pipelines::product({4, 32, 32, 4})), "Bs"), 0);
    const Kernel matched = match(pipelines::product({4, 32, 31, 4}));
    EXPECT_EQ(fills(matched, "As"), 4);
    EXPECT_EQ(fills(matched, "Bs"), 32);
}

TEST(Matcher, FillsBeforeEachCopyWhereTilesDiffer) {
    // The last blocks of channels are narrower than the others.
    pipelines::Image image{4, 3, 40, 70};
    const KernelDefinition kernel = pipelines::convolution(image);
    const Kernel matched = match(kernel);
    EXPECT_GT(fills(matched, "pixels"), 0);
    EXPECT_EQ(fills(matched, "taps"), 32) << "and again before copies that bring less than others";
    std::mt19937 random(9);
    std::vector<TensorData> inputs;
    for (const TensorSpec &tensor : kernel.inputs) inputs.push_back(random_tensor(tensor, random));
    const std::vector<TensorData> expected = run_on_host(kernel, inputs);
    for (bool optimize : {false, true})
        expect_equal(kernel, run_checked(kernel, find_machine("ax01"), optimize, inputs), expected, "ax01");
}

// Each row and the one behind it, which is zeros behind the last: there the copy runs in the first iteration alone.
TEST(Matcher, FillsWhereTheCopyRunsInTheFirstIterationAlone) {
    constexpr int cols = 8, rows = 4;
    ImageParam x = tensor("X", {cols, rows});
    Var n("n"), m("m"), step("step");
    Func row("row"), sums("sums"), finished("finished"), out("Y");
    RDom r(0, 2, "r");
    row(n, m, step) = bf16(0.0f);
    row(n, m, step) = select(n < cols && m + step < rows, x(min(n, cols - 1), clamp(m + step, 0, rows - 1)), undef<BFloat>());
    define(sums, {n, m}, bf16(0.0f));
    sums(n, m) = strict_float(sums(n, m) + row(n, m, r));
    finished(n, m) = sums(n, m);
    out(n, m) = finished(n, m);
    out.bound(n, 0, cols).bound(m, 0, rows);
    finished.compute_at(out, m).bound_extent(n, 32).vectorize(n, 32);
    sums.compute_at(out, m).bound_extent(n, 32).vectorize(n, 32).update().reorder(n, r.x, m).vectorize(n, 32);
    row.compute_at(sums, r.x).bound_extent(n, 32).vectorize(n, 32);
    in_registers({sums});
    in_pads({row, finished});
    whole_loops(out);
    fix_shape(out.output_buffer(), {cols, rows});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {x};
    kernel.inputs = {{"X", {cols, rows}}};
    kernel.outputs = {{"Y", {cols, rows}}};
    expect_host_answer(kernel);
}

// Boxes of a copy that follow each other at one distance are one, up to the first that is another or elsewhere.
TEST(Matcher, JoinsBoxesAtOneDistance) {
    const codegen::Box::Dim channels = {4, 19, 605};
    std::vector<codegen::Box> boxes;
    for (int i = 0; i < 18; i++) boxes.push_back({i, i * 32, 32, {channels}});
    boxes.push_back({18, 576, 29, {channels}});
    boxes.push_back({30, 0, 8, {}});
    boxes.push_back({31, 8, 8, {}});
    boxes.push_back({33, 16, 8, {}});
    codegen::join_boxes(boxes);
    ASSERT_EQ(boxes.size(), 4u);
    ASSERT_EQ(boxes[0].dims.size(), 2u);
    EXPECT_EQ(boxes[0].dims[1].extent, 18);
    EXPECT_EQ(boxes[0].dims[1].row_stride, 1);
    EXPECT_EQ(boxes[0].dims[1].mem_stride, 32);
    EXPECT_EQ(boxes[1].cols, 29);
    EXPECT_EQ(boxes[1].dims.size(), 1u);
    ASSERT_EQ(boxes[2].dims.size(), 1u);
    EXPECT_EQ(boxes[2].dims[0].extent, 2);
    EXPECT_EQ(boxes[3].row, 33);
}

TEST(Matcher, CutsLoopsWhereInnerBoundsChange) {
    // Without its tail the loop over the blocks of columns would be one.
    EXPECT_GT(count_loops(match(pipelines::convolution({4, 3, 32, 96}))), 0);
    EXPECT_GT(count_loops(match(pipelines::convolution({4, 3, 32, 97}))),
              count_loops(match(pipelines::convolution({4, 3, 32, 96}))));
}

TEST(Matcher, LoadsEachWeightTileOnce) {
    const Kernel matched = match(pipelines::product({64, 32, 64, 64}));
    EXPECT_EQ(count(matched, Opcode::lw_vi), 1) << "a loop";
    EXPECT_EQ(count(matched, Opcode::gemm_vv), 1);
}

TEST(Matcher, PartialSumsEnterTheArrayWhereItHasAnInput) {
    EXPECT_EQ(count(match(pipelines::product({4, 32, 96, 4, true}), "ax01-psum"), Opcode::add_vv), 0);
    EXPECT_GT(count(match(pipelines::product({4, 32, 96, 4, true}), "ax01"), Opcode::add_vv), 0);
}

TEST(Matcher, FunctionalMachineSpendsItsFirstWeights) {
    const Kernel matched = match(pipelines::product({1, 8, 20, 1}), "fsim");
    const auto is_zero_push = [](const codegen::Node &node) {
        return node.op && node.op->opcode == Opcode::lw_vi && node.op->src[0] == codegen::zero_vector;
    };
    EXPECT_EQ(std::count_if(matched.body.begin(), matched.body.end(), is_zero_push), 32);
}

}  // namespace
}  // namespace atalla
