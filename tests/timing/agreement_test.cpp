// The fast timing model against the reference, on random programs and machines that must meet everything there is to meet.
#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "isa/disassembler.h"
#include "isa/machine_parameters.h"
#include "simulator/reference/agreement.h"
#include "simulator/reference/reference.h"
#include "tests/timing/coverage.h"
#include "tests/timing/random_machine.h"
#include "tests/timing/random_program.h"

namespace atalla {
namespace {

constexpr uint32_t first_seed = 1001, programs = 2000;
constexpr RunOptions options{.step_limit = 2000};

struct Drawn {
    Machine machine;
    Program program;
};
Drawn draw(uint32_t seed) {
    std::mt19937 random(seed);
    Machine machine = random_machine(random);
    Program program = RandomProgram(seed, machine, seed % 4 == 0 ? 90 : 100).make();
    return {machine, program};
}

std::string text_of(const Program &program) {
    std::string text;
    for (const PlacedPacket &packet : program.packets) {
        text += fmt::format("{}: {}\n", packet.address, assembly_text(packet.packet));
    }
    return text;
}

// What of the machine is not as in ax01, so that a report can be run again.
std::string overrides_of(const Machine &machine) {
    const Machine usual = machine_with({});
    std::string text;
    for (const ParameterEntry &entry : parameter_table()) {
        if (entry.get(machine) != entry.get(usual)) {
            text += fmt::format(" {}={}", entry.key, entry.get(machine));
        }
    }
    return text;
}

TEST(Agreement, OnRandomProgramsAndMachines) {
    Coverage coverage;
    for (uint32_t seed = first_seed; seed < first_seed + programs; seed++) {
        const auto [machine, program] = draw(seed);
        RunOptions watched = options;
        Coverage::Watcher watcher(coverage, machine, program);
        watched.observer = &watcher;
        RunResult result;
        const std::string differs = disagreement(machine, program, watched, &result);
        if (!differs.empty()) {
            const Program small =
                shrink(program, [&, &m = machine](const Program &tried) { return !disagreement(m, tried, options).empty(); });
            FAIL() << "seed " << seed << ": " << differs << "\nsmallest: " << disagreement(machine, small, options)
                   << "\nax01 with" << overrides_of(machine) << "\n"
                   << text_of(small);
        }
        coverage.add(result);
    }
    std::fputs(coverage.text().c_str(), stdout);
    EXPECT_EQ(coverage.missing(), "");
}

// A model that is wrong by one cycle of one unit: what is left is the operation, what waits for it, and the halt.
TEST(Agreement, AMismatchIsShrunk) {
    const Machine machine = machine_with(one_fetch());
    Machine wrong = machine;
    wrong.vec.mul_L++;
    const auto differs = [&](const Program &program) {
        const RunResult one = run_program(program, machine, options), other = run_program(program, wrong, options);
        return one.ok && other.ok && one.counters.cycles != other.counters.cycles;
    };
    int shrunk = 0;
    for (uint32_t seed = 1; seed <= 300 && shrunk < 5; seed++) {
        const Program program = RandomProgram(seed, machine, 100).make();
        if (!differs(program)) {
            continue;
        }
        const Program small = shrink(program, differs);
        EXPECT_TRUE(differs(small));
        EXPECT_LE(small.packets.size(), 8u) << text_of(small);
        EXPECT_NE(text_of(small).find("mul.v"), std::string::npos) << text_of(small);
        shrunk++;
    }
    EXPECT_EQ(shrunk, 5);
}

TEST(Agreement, DisagreementsNameWhatDiffers) {
    const Machine machine = machine_with({});
    EXPECT_EQ(disagreement(machine, assemble("mul.vv v1, v2, v3, m0\nhalt.s\n")), "");
    EXPECT_EQ(disagreement(machine, assemble("divi.s x1, x2, 0\nhalt.s\n")), "") << "both refuse it";
}

}  // namespace
}  // namespace atalla
