// Addresses of rows in the pads: each access finds its row, whatever its pointer is made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "codegen/compile.h"
#include "codegen/index.h"
#include "generators/host_jit.h"
#include "generators/vocabulary.h"
#include "isa/machine.h"
#include "tests/generators/dump_of.h"
#include "tests/generators/kernel_check.h"

namespace atalla {
namespace {

using namespace Halide;
using namespace vocabulary;

// Y of X, both [rows][cols].
KernelDefinition rows_to_rows(Func out, const ImageParam &x, int cols, int rows) {
    whole_loops(out);
    fix_shape(out.output_buffer(), {cols, rows});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments.push_back(x);
    kernel.inputs = {{"X", {cols, rows}}};
    kernel.outputs = {{"Y", {cols, rows}}};
    return kernel;
}

// Y = X + 1, with all rows of X in the pads and straight code for a block; the last one of rows begins earlier than its number
// says.
KernelDefinition blocks_of_resident_rows(int rows, int block) {
    constexpr int cols = 32;
    Var n("n"), m("m"), mo("mo"), mi("mi");
    ImageParam x = tensor("X", {cols, rows});
    Func all("all"), sums("sums"), out("Y");
    all(n, m) = x(n, m);
    sums(n, m) = strict_float(all(n, m) + bf16(1.0f));
    out(n, m) = sums(n, m);
    out.bound(n, 0, cols).bound(m, 0, rows).split(m, mo, mi, block, TailStrategy::ShiftInwards);
    all.compute_root();
    sums.compute_at(out, mo).vectorize(n, 32).unroll(m);
    in_pads({all, sums});
    return rows_to_rows(out, x, cols, rows);
}

// A pointer that is made of the block's first row is below the buffer, which may begin at row 0 of its pad.
TEST(Addresses, OfBlocksThatBeginEarlier) {
    for (const auto &[rows, block] : {std::pair(19, 2), std::pair(18, 4), std::pair(7, 5)}) {
        const KernelDefinition kernel = blocks_of_resident_rows(rows, block);
        std::mt19937 random(1);
        const std::vector<TensorData> inputs = {random_patterns(kernel.inputs.front(), random)},
                                      expected = run_on_host(kernel, inputs);
        for (const char *machine : {"ax01", "fsim"})
            for (const bool optimize : {false, true})
                expect_equal(kernel, run_checked(kernel, find_machine(machine), optimize, inputs), expected,
                             fmt::format("{} rows on {}, optimize {}", rows, machine, optimize));
    }
}

// Y = X + 1 of groups of `step` rows, where turn i of the loop makes those from row 3 i / 2 on: its last row is made again by
// the next turn where that is one row further.
KernelDefinition rows_at_different_steps(int turns) {
    constexpr int cols = 32, step = 2;
    const int rows = 3 * (turns - 1) / 2 + step;
    Var n("n"), m("m");
    ImageParam x = tensor("X", {cols, rows});
    Func all("all"), sums("sums"), out("Y");
    all(n, m) = x(n, m);
    sums(n, m) = undef<BFloat>();
    const RDom r(0, step, 0, turns, "r");
    const Expr row = r.y * 3 / 2 + r.x;
    sums(n, row) = strict_float(all(n, row) + bf16(1.0f));
    out(n, m) = sums(n, m);
    out.bound(n, 0, cols).bound(m, 0, rows);
    all.compute_root().bound_extent(m, rows);
    sums.compute_root().bound_extent(m, rows).update().vectorize(n, 32).rename(r.x, RVar("r_unroll"));
    in_pads({all, sums});
    return rows_to_rows(out, x, cols, rows);
}

// Such addresses are computed in each turn, of which several are under way: a turn takes little more than its operations.
TEST(Addresses, OfRowsAtDifferentSteps) {
    const Machine machine = find_machine("ax01");
    const auto cycles = [&](int turns) {
        const KernelDefinition kernel = rows_at_different_steps(turns);
        std::mt19937 random(1);
        const std::vector<TensorData> inputs = {random_patterns(kernel.inputs.front(), random)};
        for (const bool optimize : {false, true})
            expect_equal(kernel, run_checked(kernel, machine, optimize, inputs), run_on_host(kernel, inputs),
                         fmt::format("{} turns, optimize {}", turns, optimize));
        const codegen::CompiledKernel compiled = codegen::compile(kernel.pipeline, kernel.arguments, machine, {});
        return run_kernel(kernel, compiled, machine, inputs).result.counters.cycles;
    };
    constexpr int few = 40, more = 200, most_of_a_turn = 40;
    EXPECT_LT(cycles(few + more), cycles(few) + most_of_a_turn * more);
}

// What a division leaves and its quotient are a walk through all rows, where they go on by as much, or one with a jump behind
// each part.
TEST(Addresses, OfAPartOfEachRowAreStepsAndJumps) {
    codegen::Kernel kernel;
    kernel.loops.push_back({"i", 21, -1, kernel.scalar("i")});
    codegen::IndexScope scope(kernel);
    scope.bind("i", scope.loop_variable(0));
    const Halide::Expr i = Internal::Variable::make(Int(32), "i"), part = i % 7, row = i / 7;
    EXPECT_EQ(joined(kernel, scope.linear(part * 4 + row * 28 + 3)), scope.linear(i * 4 + 3));
    EXPECT_EQ(joined(kernel, scope.linear(part * 8 + row * 100)), scope.linear(i * 8 + row * 44));
    for (const Halide::Expr &other : {part * 8 + i / 3 * 100, part * 8, row * 28})
        EXPECT_EQ(joined(kernel, scope.linear(other)), scope.linear(other)) << other;
}

// Y = X + 1 of all but the last columns of each row of X, as one loop over both.
KernelDefinition parts_of_rows(int cols, int rows, int unroll) {
    constexpr int lanes = 32, beyond = 8;
    Var n("n"), x("x"), y("y"), xu("x_unroll"), xy("xy");
    ImageParam image = tensor("X", {lanes, cols + beyond, rows});
    Func all("all"), sums("sums"), out("Y");
    all(n, x, y) = image(n, x, y);
    sums(n, x, y) = strict_float(all(n, x, y) + bf16(1.0f));
    out(n, x, y) = sums(n, x, y);
    out.bound(n, 0, lanes).bound(x, 0, cols).bound(y, 0, rows);
    all.compute_root().bound_extent(x, cols + beyond);
    sums.compute_root()
        .bound_extent(x, cols)
        .bound_extent(y, rows)
        .vectorize(n, 32)
        .split(x, x, xu, unroll)
        .reorder(n, xu, x, y);
    sums.fuse(x, y, xy);
    in_pads({all, sums});
    whole_loops(out);
    fix_shape(out.output_buffer(), {lanes, cols, rows});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments.push_back(image);
    kernel.inputs = {{"X", {lanes, cols + beyond, rows}}};
    kernel.outputs = {{"Y", {lanes, cols, rows}}};
    return kernel;
}

TEST(Addresses, OfPartsOfRowsThatAreOneLoop) {
    for (const char *machine : {"ax01", "fsim"})
        for (const auto &[cols, rows, unroll] : {std::tuple(12, 7, 4), std::tuple(6, 2, 2), std::tuple(8, 5, 8)}) {
            if (find_machine(machine).pad_rows() * find_machine(machine).pad.count < 2 * (cols + 8) * rows) continue;
            const KernelDefinition kernel = parts_of_rows(cols, rows, unroll);
            std::mt19937 random(1);
            const std::vector<TensorData> inputs = {random_patterns(kernel.inputs.front(), random)};
            for (const bool optimize : {false, true})
                expect_equal(kernel, run_checked(kernel, find_machine(machine), optimize, inputs), run_on_host(kernel, inputs),
                             fmt::format("{}x{} in {} on {}, optimize {}", cols, rows, unroll, machine, optimize));
        }
}

// Y = X + 1, tile by tile; the last column of tiles begins earlier than its number says, which takes a minimum to find.
KernelDefinition tiles(int cols, int rows) {
    Var n("n"), m("m"), no("no"), mo("mo"), ni("ni"), mi("mi");
    ImageParam x = tensor("X", {cols, rows});
    Func tile("tile"), sums("sums"), out("Y");
    tile(n, m) = x(n, m);
    sums(n, m) = strict_float(tile(n, m) + bf16(1.0f));
    out(n, m) = sums(n, m);
    out.bound(n, 0, cols)
        .bound(m, 0, rows)
        .split(n, no, ni, 32, TailStrategy::ShiftInwards)
        .split(m, mo, mi, 4)
        .reorder(ni, mi, mo, no);
    tile.compute_at(out, mo).vectorize(n, 32);
    sums.compute_at(out, mo).vectorize(n, 32);
    in_pads({tile, sums});
    return rows_to_rows(out, x, cols, rows);
}

// Where packets are all that counts, the loop over rows computes nothing that the column alone decides.
TEST(Addresses, OfOuterLoopsStandInFrontOfInnerOnes) {
    const KernelDefinition kernel = tiles(80, 40);
    const std::string text = dump_of("addresses", kernel, find_machine("fsim"));
    const size_t columns = text.find("for Y.no"), rows = text.find("for Y.mo", columns);
    ASSERT_NE(rows, std::string::npos) << text;
    EXPECT_THAT(text.substr(columns, rows - columns), testing::HasSubstr("srai.s")) << text;
    const std::string inner = text.substr(rows);
    EXPECT_THAT(inner, testing::HasSubstr("scpad.ld"));
    EXPECT_THAT(inner, testing::Not(testing::HasSubstr("srai.s")));

    std::mt19937 random(1);
    const std::vector<TensorData> inputs = {random_patterns(kernel.inputs.front(), random)},
                                  expected = run_on_host(kernel, inputs);
    for (const bool optimize : {false, true})
        expect_equal(kernel, run_checked(kernel, find_machine("fsim"), optimize, inputs), expected,
                     fmt::format("optimize {}", optimize));
}

// Y[i][m] = X[4m + 96 (i / 7) + 4 (i % 7)] + 1: in straight code, places of seven rows that lie apart, from a row on that
// moves.
KernelDefinition places_of_rows(int turns) {
    constexpr int cols = 32, places = 49;
    const int rows = 4 * turns + 96 * 7;
    Var n("n"), i("i"), m("m");
    ImageParam x = tensor("X", {cols, rows});
    Func all("all"), sums("sums"), out("Y");
    all(n, m) = x(n, m);
    sums(n, i, m) = strict_float(all(n, 4 * m + i / 7 * 96 + i % 7 * 4) + bf16(1.0f));
    out(n, i, m) = sums(n, i, m);
    out.bound(n, 0, cols).bound(i, 0, places).bound(m, 0, turns);
    all.compute_root().bound(m, 0, rows).vectorize(n, cols);
    sums.compute_at(out, m).vectorize(n, cols).unroll(i);
    in_pads({all, sums});
    whole_loops(out);
    fix_shape(out.output_buffer(), {cols, places, turns});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments.push_back(x);
    kernel.inputs = {{"X", {cols, rows}}};
    kernel.outputs = {{"Y", {cols, places, turns}}};
    return kernel;
}

// Each of 49 distances would be a register; seven pointers share seven of them, twice for the banks.
TEST(Addresses, OfManyPlacesShareDistances) {
    const KernelDefinition kernel = places_of_rows(5);
    std::istringstream lines(dump_of("addresses", kernel, find_machine("ax01")));
    std::set<std::string> registers;
    for (std::string line; std::getline(lines, line);) {
        std::smatch read;
        if (std::regex_search(line, read, std::regex("vreg\\.ld [^,]+, ([^, ]+), ([^, ]+)")))
            registers.insert({read[1], read[2]});
    }
    EXPECT_GE(registers.size(), 14);
    EXPECT_LE(registers.size(), 28);

    std::mt19937 random(1);
    const std::vector<TensorData> inputs = {random_patterns(kernel.inputs.front(), random)},
                                  expected = run_on_host(kernel, inputs);
    for (const bool optimize : {false, true})
        expect_equal(kernel, run_checked(kernel, find_machine("ax01"), optimize, inputs), expected,
                     fmt::format("optimize {}", optimize));
}

}  // namespace
}  // namespace atalla
