// The figures of the microarchitecture reference, and properties that every bound must have.
#include "schedules/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "isa/error.h"
#include "schedules/sums_bound.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const Machine ax01 = find_machine("ax01");
const Machine ax01_psum = find_machine("ax01-psum");
const Machine fsim = find_machine("fsim");

int64_t term(const Bound &bound, const std::string &name) {
    for (const auto &[term, value] : bound.terms) {
        if (term == name) {
            return value;
        }
    }
    ADD_FAILURE() << "no term " << name;
    return -1;
}

Bound cube(const Machine &machine, int64_t size, Programs programs = Programs::Tiled) {
    return gemm_bound(machine, size, size, size, {.programs = programs});
}

// What the resources need, without the ways in and out: the figures of the reference.
Bound steady(const Machine &machine, int64_t m, int64_t n, int64_t k, GemmBoundOptions options = {}) {
    options.cold = false;
    return gemm_bound(machine, m, n, k, options);
}
Bound steady_cube(const Machine &machine, int64_t size, Programs programs = Programs::Tiled) {
    return steady(machine, size, size, size, {.programs = programs});
}

// Section 13: array with gap, accumulate, DRAM, and the largest of them without and with partial sums.
struct Row {
    int64_t size, array_no_gap, array, accumulate, dram, bound, bound_psum;
};
constexpr Row table[] = {
    {32, 110, 110, 0, 192, 192, 192},
    {64, 430, 523, 384, 768, 768, 768},
    {128, 2'606, 3'071, 4'608, 3'072, 4'608, 3'072},
    {256, 18'478, 20'431, 43'008, 12'288, 43'008, 20'431},
    {512, 139'310, 147'215, 368'640, 49'152, 368'640, 147'215},
    {1024, 1'081'390, 1'113'103, 3'047'424, 196'608, 3'047'424, 1'113'103},
};

TEST(GemmBound, ReproducesTheTable) {
    Machine no_refresh = ax01;
    no_refresh.dram.refresh = 0;
    Machine double_buffered = ax01;
    double_buffered.sa.weight_buffers = 2;
    for (const Row &row : table) {
        SCOPED_TRACE(row.size);
        const Bound bound = steady_cube(ax01, row.size), psum = steady_cube(ax01_psum, row.size);
        EXPECT_EQ(bound.cycles, row.bound);
        EXPECT_EQ(term(bound, "array"), row.array);
        EXPECT_EQ(term(steady_cube(double_buffered, row.size), "array"), row.array_no_gap);
        EXPECT_EQ(term(bound, "accumulate"), row.accumulate);
        EXPECT_EQ(term(steady_cube(no_refresh, row.size), "dram"), row.dram);
        EXPECT_EQ(term(psum, "accumulate"), 0);
        // The table leaves credits, registers and refresh out of the last column.
        EXPECT_EQ(std::max({term(psum, "array"), term(psum, "accumulate"), row.dram}), row.bound_psum);
        EXPECT_GE(psum.cycles, row.bound_psum);
    }
}

TEST(GemmBound, CountsRegistersWithPartialSums) {
    // Section 13.1, rounded there: 155,600 and 1,245,000.
    EXPECT_EQ(steady_cube(ax01_psum, 512).cycles, 155'648);
    EXPECT_EQ(steady_cube(ax01_psum, 1024).cycles, 1'245'184);
    EXPECT_EQ(steady_cube(ax01_psum, 1024).binding, "visits");
    EXPECT_EQ(visit_cycles(ax01_psum, 512, 512, 512, 1), 155'648);
    EXPECT_EQ(visit_cycles(ax01_psum, 1024, 1024, 1024, 2), 1'245'184);
    EXPECT_EQ(visit_cycles(ax01_psum, 1024, 1024, 1024, 3), 1'306'624);
    EXPECT_EQ(visit_cycles(ax01_psum, 1024, 1024, 1024, 6), 1'490'944);

    Machine no_credits = ax01_psum;
    no_credits.sa.credits = no_credits.sa.L;
    EXPECT_NEAR(visit_cycles(no_credits, 512, 512, 512, 1), 147'600, 50);
    EXPECT_NEAR(visit_cycles(no_credits, 1024, 1024, 1024, 2), 1'181'000, 500);
    EXPECT_NEAR(visit_cycles(no_credits, 1024, 1024, 1024, 3), 1'242'000, 500);
    EXPECT_NEAR(visit_cycles(no_credits, 1024, 1024, 1024, 6), 1'436'000, 500);
}

// Measured in the reference model (section 13.2): bounds must lie below, and are known to be as close as this.
TEST(GemmBound, LiesBelowMeasuredPrograms) {
    EXPECT_LE(cube(ax01, 512).cycles, 386'706);
    EXPECT_GE(static_cast<double>(cube(ax01, 512).cycles) / 386'706, 0.953);
    EXPECT_LE(cube(ax01_psum, 512).cycles, 205'164);
}

TEST(GemmBound, OfAnyProgramIsWeaker) {
    EXPECT_EQ(steady_cube(ax01, 64, Programs::Any).cycles, 768);
    EXPECT_EQ(steady_cube(ax01_psum, 512, Programs::Any).cycles, 155'594);
    // Weights that change half a tile at a time save loads where each weight is needed twice (docs/bounds.md).
    EXPECT_EQ(steady_cube(ax01_psum, 1024, Programs::Any).cycles, 1'202'425);
    // EX3 and the reduction tree can do 1/32 of an add.vv's work at their pace.
    EXPECT_NEAR(steady_cube(ax01, 512, Programs::Any).cycles, 368'640 / (1 + 3 * (1.0 / 3 + 1.0 / 20) / 32), 10);
    for (const Machine *machine : {&ax01, &ax01_psum, &fsim}) {
        for (int64_t m : {1, 2, 31, 32, 33, 48, 197, 1000}) {
            for (int64_t n : {1, 7, 32, 64, 100, 768}) {
                for (int64_t k : {1, 2, 16, 32, 33, 34, 64, 100, 768}) {
                    SCOPED_TRACE(testing::Message() << machine->name << " " << m << " x " << n << " x " << k);
                    const Bound any = gemm_bound(*machine, m, n, k, {.programs = Programs::Any});
                    const Bound tiled = gemm_bound(*machine, m, n, k);
                    EXPECT_LE(any.cycles, tiled.cycles);
                    for (const auto &[name, value] : any.terms) {
                        EXPECT_GE(value, 0) << name;
                    }
                }
            }
        }
    }
}

TEST(GemmBound, CyclesAreTheLargestTerm) {
    for (int64_t size : {1, 5, 32, 64, 100, 128, 512}) {
        for (const Machine *machine : {&ax01, &ax01_psum, &fsim}) {
            const Bound bound = cube(*machine, size);
            int64_t largest = 0;
            for (const auto &[name, value] : bound.terms) {
                largest = std::max(largest, value);
            }
            EXPECT_EQ(bound.cycles, largest);
            EXPECT_EQ(term(bound, bound.binding), largest);
        }
    }
    EXPECT_EQ(cube(ax01, 1).binding, "latency");
    EXPECT_EQ(cube(ax01, 64).binding, "dram");
    EXPECT_EQ(cube(ax01, 128).binding, "accumulate");
}

TEST(GemmBound, GrowsWithTheProblem) {
    for (const Machine *machine : {&ax01, &ax01_psum, &fsim}) {
        for (Programs programs : {Programs::Tiled, Programs::Any}) {
            for (int64_t m = 1; m <= 300; m += 13) {
                for (int64_t n : {1, 30, 31, 32, 63, 64, 200}) {
                    for (int64_t k : {1, 15, 31, 32, 33, 64, 127, 300}) {
                        SCOPED_TRACE(testing::Message() << machine->name << " " << m << " x " << n << " x " << k);
                        const auto at = [&](int64_t dm, int64_t dn, int64_t dk, int64_t batch = 1) {
                            return gemm_bound(*machine, m + dm, n + dn, k + dk, {.batch = batch, .programs = programs}).cycles;
                        };
                        const int64_t here = at(0, 0, 0);
                        EXPECT_LE(here, at(1, 0, 0));
                        EXPECT_LE(here, at(0, 1, 0));
                        EXPECT_LE(here, at(0, 0, 1));
                        EXPECT_LE(here, at(0, 0, 0, 2));
                        EXPECT_EQ(here, gemm_bound(*machine, n, m, k, {.programs = programs}).cycles);
                    }
                }
            }
        }
    }
}

TEST(GemmBound, DoesNotFallWhenTheMachineGetsSlower) {
    struct Change {
        const char *key;
        int64_t by;
    };
    for (const auto &[key, by] : {Change{"vec.ii", 1},
                                  {"pad.read_ii", 1},
                                  {"dram.refresh", 100},
                                  {"dram.cas", 1},
                                  {"dram.cas_same_group", 2},
                                  {"dram.complete", 1},
                                  {"sa.L", 1},
                                  {"sa.credits", -1},
                                  {"sa.switch_spacing", 1},
                                  {"pad.count", -1},
                                  {"sdma.setup", 1},
                                  {"issue.slots", -1}}) {
        for (const Machine &machine : {ax01, ax01_psum}) {
            const auto parameters = machine_parameters(source_path("machines/ax01.json").string());
            const auto found = std::ranges::find(parameters, key, &MachineParameter::key);
            ASSERT_NE(found, parameters.end()) << key;
            Machine slower = machine;
            set_parameter(slower, key, found->value + by);
            for (int64_t size : {1, 32, 64, 128, 256, 512, 1024, 4096}) {
                EXPECT_GE(cube(slower, size).cycles, cube(machine, size).cycles) << key << " " << size;
            }
        }
    }
}

TEST(GemmBound, TakesTheBetterStationaryOperand) {
    // A single row of A as weights is one load a K block, B as weights is n. DRAM decides, then the array.
    const Bound psum = steady(ax01_psum, 1, 1024, 1024);
    EXPECT_EQ(psum.binding, "dram");
    EXPECT_EQ(term(psum, "array"), 32 + 32 * 1024 + 31 * 31 + 46);
    // Without partial sums each of those 1024 rows would need its additions, although only one lane is of use.
    const Bound bound = steady(ax01, 1, 1024, 1024);
    EXPECT_EQ(bound.binding, "dram");
    EXPECT_EQ(term(bound, "array"), 32 * 1024 + 32 * 32 + 31 * 1023 + 46);
    EXPECT_EQ(term(bound, "accumulate"), 3 * 32 * 31);
}

TEST(GemmBound, CountsTailsOnlyAsFarAsTheyGo) {
    // 33 columns: two tiles, the second of one vector. 40 deep: two K blocks.
    const Bound bound = steady(ax01, 100, 33, 40);
    EXPECT_EQ(term(bound, "array"), 2 * (2 * 100 + 33) + 3 * 31 + 46);
    EXPECT_EQ(term(bound, "accumulate"), 3 * 100 * 2);
    // Any program may put the products of both K blocks of 16 columns into one set of weights.
    const Bound any = steady(ax01, 100, 16, 64, {.programs = Programs::Any});
    EXPECT_EQ(term(any, "array"), 2 * (16 * 3 + 4 + 16) + 46);
}

TEST(GemmBound, CountsTheAddend) {
    const Bound plain = gemm_bound(ax01, 256, 256, 256);
    const Bound bias = gemm_bound(ax01, 256, 256, 256, {.addend = 256});
    const Bound matrix = gemm_bound(ax01, 256, 256, 256, {.addend = 256 * 256});
    EXPECT_EQ(bias.cycles, plain.cycles + 3 * 256 * 8);
    EXPECT_EQ(matrix.cycles, bias.cycles);
    EXPECT_GE(term(matrix, "dram"), term(plain, "dram") + 256 * 256 / 16);
    // A partial-sum input takes the addend in for nothing.
    EXPECT_EQ(gemm_bound(ax01_psum, 256, 256, 256, {.addend = 256}).cycles, cube(ax01_psum, 256).cycles);
}

TEST(GemmBound, AddsUpABatch) {
    const Bound one = steady(ax01, 128, 128, 64), twelve = steady(ax01, 128, 128, 64, {.batch = 12});
    EXPECT_EQ(term(twelve, "accumulate"), 12 * term(one, "accumulate"));
    EXPECT_EQ(term(twelve, "array") - 46 + 31, 12 * (term(one, "array") - 46 + 31));
    EXPECT_GE(term(twelve, "dram"), 12 * term(one, "dram"));
}

TEST(GemmBound, CountsTrafficBeyondTheScratchpads) {
    EXPECT_EQ(term(cube(ax01, 1024), "out of core"), 0);
    const int64_t out_of_core = term(cube(ax01, 4096), "out of core");
    EXPECT_GT(out_of_core, term(cube(ax01, 4096), "dram"));
    // 2 mnk / sqrt(S) - 2S elements, S a little over the 2^20 of the pads.
    const double elements = 2.0 * 4096 * 4096 * 4096 / 1024 - 2.0 * (1 << 20);
    EXPECT_LT(out_of_core, elements / 16 * 1.05);
    EXPECT_GT(out_of_core, elements / 16 * 0.95);
}

TEST(GemmBound, CountsPacketsOnTheFunctionalMachine) {
    const Bound bound = cube(fsim, 512);
    EXPECT_EQ(bound.cycles, 16 * 16 * (512 + 32));
    EXPECT_EQ(bound.binding, "array");
    Machine no_psum = fsim;
    no_psum.sa.psum_in = false;
    EXPECT_EQ(term(cube(no_psum, 512), "accumulate"), 512 * 16 * 15);
    EXPECT_GE(gemm_bound(fsim, 1, 1, 1, {.programs = Programs::Any}).cycles, 1);
}

// The chain by the cycle numbers of section 17: first packet at 34, an address 3, DMA and vreg.ld 46, lw.vi 1, gemm.vv 49,
// vreg.st and DMA 40; through scalar registers 42 in and 14 out.
TEST(GemmBound, CountsTheShortestChain) {
    EXPECT_EQ(term(cube(ax01, 1), "latency"), 34 + 3 + 46 + 1 + 49 + 40);
    EXPECT_EQ(term(cube(ax01, 2, Programs::Any), "latency"), 34 + 42 + 1 + 49 + 14);
    EXPECT_EQ(term(cube(ax01, 1, Programs::Any), "latency"), 34 + 35 + 11);
}

// The first beat at 34 + 3 + 8 = 45, 38 to a vector, 49 for a row, 8 for a sum, 40 to the end.
TEST(GemmBound, ColdStartAddsTheWayInAndOut) {
    // All beats, and the arrival of the last.
    EXPECT_EQ(cube(ax01, 64).cycles, 45 + 768 + 22);
    EXPECT_EQ(cube(ax01, 64).steady, 768);
    // 33 vectors of 64 bytes before the first row, then rows, loads and gaps, then the last row's result and its sum.
    EXPECT_EQ(term(cube(ax01_psum, 64), "array"), 45 + 66 - 1 + 38 + 4 * 64 + 3 * 32 + 3 * 31 - 1 + 49 + 40);
    EXPECT_EQ(term(cube(ax01, 64), "array"), term(cube(ax01_psum, 64), "array") + 8);
    // Two tiles and a row of A, 132 beats, before the first sum, or two tiles' loads with the gap between them.
    EXPECT_EQ(term(cube(ax01, 128), "accumulate"), 45 + 132 - 1 + 38 + 49 + 3 * 1535 + 8 + 40);
    // All operands, 512 beats; the last may be half a row of A that must still pass through two tiles.
    EXPECT_EQ(term(cube(ax01, 64), "last operand"), 45 + 512 - 1 + 38 + 32 + 32 + 49 + 8 + 40);
    EXPECT_EQ(cube(ax01_psum, 512).steady, 155'648);
    EXPECT_EQ(term(cube(ax01_psum, 512), "visits"), 45 + 66 - 1 + 38 - 32 + 155'648 - 31 - 1 + 49 + 40);
    // Nothing of it on a machine where a packet is a cycle.
    EXPECT_EQ(cube(fsim, 64).cycles, cube(fsim, 64).steady);
}

TEST(GemmBound, RefusesWhatIsNoGemm) {
    EXPECT_THAT([] { gemm_bound(ax01, 0, 1, 1); }, ThrowsMessage<Error>(HasSubstr("needs m >= 1, not 0")));
    EXPECT_THAT([] { gemm_bound(ax01, 1, 1, -3); }, ThrowsMessage<Error>(HasSubstr("needs k >= 1, not -3")));
    EXPECT_THAT([] { gemm_bound(ax01, 1, 1, 1, {.batch = 0}); }, ThrowsMessage<Error>(HasSubstr("needs batch >= 1")));
    EXPECT_THAT([] { gemm_bound(ax01, 1, 1, 1, {.addend = -1}); }, ThrowsMessage<Error>(HasSubstr("-1 elements")));
    EXPECT_THAT([] { gemm_bound(ax01, INT64_MAX, INT64_MAX, 2); }, ThrowsMessage<Error>(HasSubstr("multiplications")));
    EXPECT_THAT([] { visit_cycles(ax01, 4, 4, 4, 5); }, ThrowsMessage<Error>(HasSubstr("4 rows cannot pass")));
    EXPECT_THAT([] { largest_of({}); }, ThrowsMessage<Error>(HasSubstr("at least one term")));
}

TEST(GemmBound, HoldsTheLargestProblemWithoutOverflow) {
    for (const Machine *machine : {&ax01, &ax01_psum, &fsim}) {
        for (Programs programs : {Programs::Tiled, Programs::Any}) {
            const int64_t most = 100'000'000'000'000;
            EXPECT_GT(gemm_bound(*machine, most, 1, 1, {.addend = most, .programs = programs}).cycles, 0);
            EXPECT_GT(gemm_bound(*machine, 1, 1, most, {.programs = programs}).cycles, 0);
            EXPECT_GT(gemm_bound(*machine, 40'000, 50'000, 50'000, {.programs = programs}).cycles, most / 1024);
        }
    }
}

TEST(Helpers, DramLosesRefreshesAndNothingBefore) {
    EXPECT_EQ(dram_cycles(ax01, 0), 0);
    EXPECT_EQ(dram_cycles(ax01, 1), 1);
    EXPECT_EQ(dram_cycles(ax01, 32), 1);
    EXPECT_EQ(dram_cycles(ax01, 33), 2);
    EXPECT_EQ(dram_cycles(ax01, 6240 * 32), 6240);
    EXPECT_EQ(dram_cycles(ax01, 6241 * 32), 6240 + 288 + 10 + 1);
    // Long streams: 288 cycles of refresh and 10 to open a row in every 6240, the 30.5 bytes a cycle of section 13.
    const int64_t bytes = int64_t{1} << 32;
    EXPECT_NEAR(static_cast<double>(bytes) / static_cast<double>(dram_cycles(ax01, bytes)), 30.5, 0.05);
    EXPECT_EQ(dram_cycles(fsim, 2048 * 10 + 1), 11);
}

// Column commands placed by hand, every cycle and group tried (rules 36 to 38).
TEST(Helpers, DramIsTheExactOptimumOfItsRules) {
    Machine machine = ax01;
    for (const auto &[groups, cas, same, interval, refresh, open] :
         {std::tuple{2, 1, 2, 12, 3, 2}, {2, 1, 3, 11, 4, 1}, {1, 1, 2, 10, 2, 3}, {2, 2, 3, 13, 1, 0}, {2, 1, 2, 9, 0, 5}}) {
        machine.dram.groups = groups;
        machine.dram.cas = cas;
        machine.dram.cas_same_group = same;
        machine.dram.refresh_interval = interval;
        machine.dram.refresh = refresh;
        machine.dram.open_closed = open;
        // most[wait of the bus][wait of group 0][wait of group 1]: most commands so far.
        using Waits = std::array<int, 3>;
        std::map<Waits, int64_t> most{{{0, 0, 0}, 0}};
        int64_t reached = 0;
        for (int64_t cycle = 0; cycle < 80; cycle++) {
            const bool open_now = cycle < interval || refresh == 0 || cycle % interval >= refresh + open;
            std::map<Waits, int64_t> next;
            for (const auto &[waits, count] : most) {
                const auto pass = [&](Waits later, int64_t commands) {
                    for (int &wait : later) {
                        wait = std::max(0, wait - 1);
                    }
                    auto &best = next[later];
                    best = std::max(best, commands);
                };
                pass(waits, count);
                for (int group = 0; open_now && waits[0] == 0 && group < groups; group++) {
                    if (waits[1 + group] == 0) {
                        Waits busy = waits;
                        busy[0] = cas;
                        busy[1 + group] = same;
                        pass(busy, count + 1);
                    }
                }
            }
            most = std::move(next);
            const int64_t best = std::ranges::max_element(most, {}, [](const auto &entry) { return entry.second; })->second;
            for (; reached < best; reached++) {
                EXPECT_EQ(dram_cycles(machine, 32 * (reached + 1)), cycle + 1) << "beat " << reached + 1;
            }
        }
        EXPECT_GT(reached, 15);
    }
}

TEST(Helpers, ColdKernelsWaitForTheirFirstOperandAndTheirLastBeat) {
    KernelWork work;
    work.bytes = 32 * 1000;
    EXPECT_EQ(kernel_bound(ax01, work).cycles, 35 + 1000 + 22);
    EXPECT_EQ(kernel_bound(ax01, work).steady, 1000);
    work.lanes.adds = 1000;
    EXPECT_EQ(kernel_bound(ax01, work).cycles, 34 + 35 + 3000);
    EXPECT_EQ(kernel_bound(ax01, work).binding, "lanes");
    work.reads = false;
    EXPECT_EQ(kernel_bound(ax01, work).cycles, 3000);
    EXPECT_EQ(kernel_bound(fsim, work).cycles, kernel_bound(fsim, work).steady);
}

// With partial sums the array takes the share of them that makes the longer of both times least; without, the adder takes all.
TEST(Helpers, AdderAndArrayShareSums) {
    for (const int64_t sums : {0, 1, 2, 30, 61, 62, 63, 64, 500, 10000})
        for (const int64_t other : {0, 5, 200}) {
            KernelWork work;
            work.lanes.muls = 7;
            work.array_rows = other;
            work.array_tiles = 1;
            const int64_t issue = (sums + 7 + other + ax01.issue.slots - 1) / ax01.issue.slots;
            const auto with = [&](const Machine &machine, int64_t of_array) {
                return std::max(
                    {issue, lane_cycles(machine, {sums - of_array, 7}), array_cycles(machine, other + of_array, 0, 1)});
            };
            int64_t least = with(ax01_psum, 0);
            for (int64_t of_array = 1; of_array <= sums; of_array++) least = std::min(least, with(ax01_psum, of_array));
            EXPECT_EQ(sums_bound(ax01_psum, work, sums).steady, least) << sums << " beside " << other;
            EXPECT_EQ(sums_bound(ax01, work, sums).steady, with(ax01, 0)) << sums << " beside " << other;
        }
}

TEST(Helpers, LanesCountEachUnit) {
    EXPECT_EQ(lane_cycles(ax01, {}), 0);
    EXPECT_EQ(lane_cycles(ax01, {.adds = 10, .muls = 7}), 30);
    EXPECT_EQ(lane_cycles(ax01, {.muls = 10, .exps = 11}), 33);
    EXPECT_EQ(lane_cycles(ax01, {.adds = 10, .reductions = 2}), 40);
    // Two lane operations a packet.
    Machine fast = ax01;
    fast.vec.ii = 1;
    EXPECT_EQ(lane_cycles(fast, {.adds = 10, .muls = 10, .exps = 10}), 15);
    EXPECT_EQ(lane_cycles(fsim, {.adds = 10, .muls = 4}), 10);
    EXPECT_EQ(lane_cycles(fsim, {.adds = 10, .muls = 10, .exps = 10}), 15);
}

TEST(Helpers, PadsServeOneRowEach) {
    EXPECT_EQ(pad_cycles(ax01, 0), 0);
    EXPECT_EQ(pad_cycles(ax01, 4), 3);
    EXPECT_EQ(pad_cycles(ax01, 5), 6);
    EXPECT_EQ(pad_cycles(ax01, 400), 300);
    EXPECT_EQ(pad_cycles(fsim, 400), 200);
}

TEST(Helpers, ArrayCountsOperationsGapsAndTheLastResult) {
    EXPECT_EQ(array_cycles(ax01, 0, 0, 0), 0);
    EXPECT_EQ(array_cycles(ax01, 100, 64, 2), 100 + 64 + 31 + 46);
    EXPECT_EQ(array_cycles(fsim, 100, 64, 2), 164);
}

}  // namespace
}  // namespace atalla
