// Bounds against the optimum that exhaustive search finds on machines of a few elements: never above, and equal somewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "schedules/bounds.h"
#include "tests/schedules/tiny_search.h"

namespace atalla {
namespace {

using tiny::Problem;

// Two-element vectors, a 2 x 2 array, one pad, one vector a beat, and no latency anywhere.
Machine tiny_machine() {
    Machine machine;
    machine.name = "tiny";
    machine.issue = {4, 20, 4, 4, 2, 1, 1, 2, 1, 1};
    machine.regs = {2, 4, 2, 1, 1, 1, false, false, false};
    machine.wb = {1, 1};
    machine.ex3 = {0, 1};
    machine.ex5 = {0, 0, 1};
    machine.dcache = {8, 1, 4, 4, 1, 0, 0};
    machine.vec = {2, 1, 0, 0, 0, 0, 0, 1, 0, 1};
    machine.pad = {1, 64, 4, 1, 0, 1, 0, 1, 1};
    machine.vlsu = {1, 0, 1, 1};
    machine.sdma = {2, 2, 1, 4, 1, 1, 0, 1};
    machine.bus = {1};
    machine.dram = {1, 1, 1, 0, 0, 64, 1, 1, 16, 1 << 20, 0, 0};
    machine.sa = {2, 2, 0, 1000, 0, 1, 2, 100, false};
    return machine;
}

Bound bound_of(const Machine &machine, const Problem &problem) {
    return gemm_bound(machine, problem.m, problem.n, problem.k_blocks * machine.sa.rows,
                      {.programs = problem.tiled ? Programs::Tiled : Programs::Any, .cold = false});
}

int64_t largest(const Bound &bound, const std::set<std::string> &names) {
    int64_t value = 0;
    for (const auto &[name, term] : bound.terms) {
        value = names.contains(name) ? std::max(value, term) : value;
    }
    return value;
}

// Compares the named terms with an optimum; remembers those that it attains.
struct Comparison {
    std::set<std::string> attained;

    void check(const Bound &bound, const std::set<std::string> &names, int64_t optimum) {
        for (const auto &[name, value] : bound.terms) {
            if (names.contains(name)) {
                EXPECT_LE(value, optimum) << "term " << name;
                if (value == optimum) {
                    attained.insert(name);
                }
            }
        }
    }

    // A search that need not go on once the bound has proved right.
    void check_dataflow(const Machine &machine, const Problem &problem, const std::set<std::string> &names, bool dram) {
        const Bound bound = bound_of(machine, problem);
        check(bound, names, tiny::dataflow_optimum(machine, problem, dram, largest(bound, names)));
    }
};

std::string describe(const Problem &problem) {
    return std::to_string(problem.m) + " x " + std::to_string(problem.n) + " x " + std::to_string(problem.k_blocks) +
           (problem.tiled ? " blocks, tiled" : " blocks");
}

TEST(SearchedBound, ArrayOfAnyProgram) {
    Machine machine = tiny_machine();
    machine.regs.vector = 1000;  // the array alone
    machine.sa.L = 3;
    Comparison comparison;
    for (int64_t credits : {2, 3}) {
        for (int64_t spacing : {0, 1, 2, 3}) {
            machine.sa.credits = credits;
            machine.sa.switch_spacing = spacing;
            for (const Problem &problem :
                 {Problem{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {3, 2, 1}, {3, 3, 1}, {4, 2, 1}, {1, 3, 2}, {2, 2, 2}}) {
                SCOPED_TRACE(describe(problem) + ", spacing " + std::to_string(spacing));
                comparison.check(bound_of(machine, problem), {"array", "visits"}, tiny::array_optimum(machine, problem));
            }
        }
    }
    EXPECT_EQ(comparison.attained, (std::set<std::string>{"array", "visits"}));
}

TEST(SearchedBound, ArrayOfTiledPrograms) {
    Machine machine = tiny_machine();
    machine.regs.vector = 1000;
    machine.sa.L = 3;
    Comparison comparison;
    for (int64_t credits : {2, 3}) {
        for (int64_t spacing : {2, 3}) {
            machine.sa.credits = credits;
            machine.sa.switch_spacing = spacing;
            for (int visits : {1, 2}) {
                for (Problem problem : {Problem{2, 2, 1}, {3, 2, 1}, {3, 3, 1}, {4, 3, 1}, {5, 2, 1}, {2, 2, 2}, {3, 2, 2}}) {
                    problem.tiled = true;
                    problem.visits = visits;
                    SCOPED_TRACE(describe(problem) + ", " + std::to_string(visits) + " visits");
                    const int64_t optimum = tiny::array_optimum(machine, problem);
                    comparison.check(bound_of(machine, problem), {"array", "visits"}, optimum);
                    EXPECT_LE(visit_cycles(machine, problem.m, problem.n, problem.k_blocks * machine.sa.rows, visits), optimum);
                }
            }
        }
    }
    EXPECT_EQ(comparison.attained, (std::set<std::string>{"array", "visits"}));
}

TEST(SearchedBound, WholeMachineAnyProgram) {
    Comparison comparison;
    for (bool psum : {false, true}) {
        for (int64_t interval : {1, 2}) {
            Machine machine = tiny_machine();
            machine.sa.psum_in = psum;
            machine.pad.read_ii = machine.pad.write_ii = machine.vec.ii = interval;
            for (const Problem &problem : {Problem{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {1, 3, 1}}) {
                SCOPED_TRACE(describe(problem) + ", interval " + std::to_string(interval));
                comparison.check_dataflow(machine, problem, {"dram", "array", "visits", "accumulate"}, true);
            }
        }
    }
    EXPECT_TRUE(comparison.attained.contains("dram"));
}

TEST(SearchedBound, RegistersAndSumsOfAnyProgram) {
    for (bool psum : {false, true}) {
        Machine machine = tiny_machine();
        machine.sa.psum_in = psum;
        machine.regs.vector = 3;
        for (int64_t interval : {1, 4}) {
            machine.pad.read_ii = machine.pad.write_ii = interval;
            machine.vec.ii = interval;
            for (const Problem &problem : {Problem{1, 1, 2}, {2, 1, 2}}) {
                SCOPED_TRACE(describe(problem) + ", interval " + std::to_string(interval));
                Comparison().check_dataflow(machine, problem, {"array", "visits", "accumulate"}, false);
            }
        }
    }
}

TEST(SearchedBound, WholeMachineTiledPrograms) {
    Comparison comparison;
    for (bool psum : {false, true}) {
        for (int64_t registers : {3, 4}) {
            for (int64_t interval : {1, 2}) {
                Machine machine = tiny_machine();
                machine.sa.psum_in = psum;
                machine.regs.vector = registers;
                machine.pad.read_ii = machine.pad.write_ii = interval;
                machine.vec.ii = 2 * interval;
                for (Problem problem : {Problem{2, 2, 1}, {2, 1, 2}, {2, 2, 2}}) {
                    problem.tiled = true;
                    SCOPED_TRACE(describe(problem) + ", interval " + std::to_string(interval));
                    comparison.check_dataflow(machine, problem, {"dram", "array", "visits", "accumulate", "pads"}, true);
                }
            }
        }
    }
    EXPECT_TRUE(comparison.attained.contains("pads"));
}

// Rows enough that operands and sums do not stay in the registers, and pads slow enough that this decides.
TEST(SearchedBound, RegistersOfTiledPrograms) {
    Machine machine = tiny_machine();
    machine.sa.psum_in = true;
    machine.regs.vector = 3;
    machine.sa.switch_spacing = 1;
    for (int64_t interval : {2, 3, 4}) {
        machine.pad.read_ii = machine.pad.write_ii = interval;
        Machine many_registers = machine;
        many_registers.regs.vector = 100;
        for (int visits : {1, 2}) {
            const Problem problem{3, 2, 2, true, visits};
            SCOPED_TRACE(describe(problem) + ", interval " + std::to_string(interval));
            const auto term = [&](const Machine &of) { return visit_cycles(of, problem.m, problem.n, 4, visits); };
            EXPECT_GT(tiny::dataflow_optimum(machine, problem, false, term(machine) - 1), term(machine) - 1);
            EXPECT_EQ(term(machine) > term(many_registers), visits == 1);
        }
    }
}

// Cold runs: the ways in and out around every resource's work. Several latencies, since each term is attained where another
// part of the machine is quick.
TEST(SearchedBound, ColdStart) {
    Comparison comparison;
    for (bool psum : {false, true}) {
        for (int64_t slow : {0, 3, 7}) {
            for (int64_t gap : {1, 4, 9}) {
                Machine machine = tiny_machine();
                machine.sa.psum_in = psum;
                machine.dram.open_closed = 2;
                machine.dram.complete = 1 + slow;
                machine.sa.L = 2 + slow;
                machine.sa.switch_spacing = gap;
                machine.vec.add_L = 1;
                machine.vec.ii = gap;
                machine.pad.read_L = 2;
                machine.regs.vector = 1000;
                for (Problem problem : {Problem{1, 1, 1}, {2, 2, 1}, {1, 4, 1}, {1, 2, 2}, {3, 2, 1}, {2, 1, 2}, {1, 1, 3}}) {
                    problem.tiled = true;
                    SCOPED_TRACE(describe(problem) + ", slow " + std::to_string(slow) + ", gap " + std::to_string(gap));
                    const Bound bound = gemm_bound(machine, problem.m, problem.n, problem.k_blocks * machine.sa.rows);
                    comparison.check(bound, {"dram", "latency", "array", "accumulate", "last operand"},
                                     tiny::cold_optimum(machine, problem));
                }
            }
        }
    }
    // The last beat of all leaves with a result that was waited for, so that "dram" alone is never the whole truth here.
    EXPECT_EQ(comparison.attained, (std::set<std::string>{"latency", "array", "accumulate", "last operand"}));
}

}  // namespace
}  // namespace atalla
