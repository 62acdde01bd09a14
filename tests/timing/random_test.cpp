// What must hold for any program: every cycle is accounted for, and skipping over quiet cycles changes nothing.
#include <numeric>

#include "isa/disassembler.h"
#include "tests/timing/random_program.h"
#include "tests/timing/reference.h"
#include "tests/timing/rig.h"

namespace atalla {
namespace {

// Machines on which other things get in each other's way than on the shipped ones.
Machine random_machine(std::mt19937 &random) {
    const auto pick = [&random](int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    Machine machine = machine_with({}, pick(0, 1) == 0 ? "ax01" : "ax01-psum");
    if (pick(0, 2) == 0) {
        return machine;
    }
    const std::map<std::string, std::pair<int64_t, int64_t>> ranges = {
        {"pad.queue", {1, 8}},
        {"vlsu.load_queue", {1, 8}},
        {"vlsu.store_queue", {1, 8}},
        {"sdma.outstanding", {1, 20}},
        {"sdma.store_rows_ahead", {1, 8}},
        {"sa.credits", {1, 50}},
        {"sa.dst_queue", {1, 20}},
        {"sa.switch_spacing", {0, 1}},
        {"wb.writes_per_bank", {1, 2}},
        {"wb.offer_to_use", {1, 4}},
        {"ex1.ii", {1, 3}},
        {"vec.ii", {1, 5}},
        {"pad.read_ii", {1, 6}},
        {"pad.write_ii", {1, 6}},
        {"pad.accept_per_cycle", {1, 2}},
        {"dram.row_hit_cap", {1, 20}},
        {"dram.refresh_interval", {400, 900}},
        {"bus.launches", {1, 3}},
        {"branch.penalty", {0, 6}},
        {"vlsu.present", {1, 5}},
        {"sdma.setup", {1, 12}},
        {"sdma.row_ii", {1, 5}},
        {"dram.cas_same_group", {1, 5}},
        {"vec.mul_L", {0, 20}},
    };
    for (const auto &[key, range] : ranges) {
        if (pick(0, 2) == 0) {
            set_parameter(machine, key, pick(range.first, range.second));
        }
    }
    machine.icache.bytes = int64_t{256} << pick(0, 5);
    machine.dcache.bytes = int64_t{256} << pick(0, 4);
    check_machine(machine);
    return machine;
}

std::string text_of(const Program &program) {
    std::string text;
    for (const PlacedPacket &packet : program.packets) {
        text += std::to_string(packet.address) + ": " + assembly_text(packet.packet) + "\n";
    }
    return text;
}

uint64_t sum(const auto &values) { return std::accumulate(values.begin(), values.end(), uint64_t{0}); }

TEST(RandomPrograms, SkippingChangesNothingAndCyclesAddUp) {
    int finished = 0, refused = 0;
    std::map<std::string, int> rules;
    std::array<uint64_t, stall_causes> stalls{};
    for (uint32_t seed = 1; seed <= 600; seed++) {
        std::mt19937 random(seed);
        const Machine machine = random_machine(random);
        const Program program = RandomProgram(seed, machine, seed % 4 == 0 ? 90 : 100).make();
        const RunOptions options{.step_limit = 20000, .per_packet = true};
        const RunResult result = run_program(program, machine, options);
        const RunResult stepped = run_program(program, machine, options, Advance::EveryCycle);

        ASSERT_EQ(result.error, stepped.error) << "seed " << seed << "\n" << text_of(program);
        ASSERT_EQ(result.counters.cycles, stepped.counters.cycles) << "seed " << seed << "\n" << text_of(program);
        ASSERT_EQ(result.counters, stepped.counters) << "seed " << seed;
        ASSERT_EQ(result.packet_issues, stepped.packet_issues);
        ASSERT_EQ(result.packet_stalls, stepped.packet_stalls);
        ASSERT_EQ(result.counters.packets + sum(result.counters.stalls), result.counters.cycles) << "seed " << seed;
        ASSERT_EQ(sum(result.packet_issues), result.counters.packets);
        ASSERT_EQ(sum(result.packet_stalls) + result.counters.stalls[static_cast<size_t>(Stall::Drain)],
                  sum(result.counters.stalls));

        result.ok ? finished++ : refused++;
        rules[result.rule]++;
        for (size_t cause = 0; cause < stalls.size(); cause++) {
            stalls[cause] += result.counters.stalls[cause];
        }
    }
    // The programs are worth something only if most of them run, and if they meet every cause of a stall and the rules.
    EXPECT_GE(finished, 400) << refused;
    for (size_t cause = 0; cause < stalls.size(); cause++) {
        EXPECT_GT(stalls[cause], 0u) << stall_name(static_cast<Stall>(cause));
    }
    for (const char *rule : {"51", "52", "53"}) {
        EXPECT_GT(rules[rule], 0) << rule;
    }
}

// The engine against the rules written down literally.
TEST(RandomPrograms, AgreeWithTheReference) {
    for (uint32_t seed = 1001; seed <= 1400; seed++) {
        std::mt19937 random(seed);
        const Machine machine = random_machine(random);
        const Program program = RandomProgram(seed, machine, seed % 4 == 0 ? 90 : 100).make();
        const RunResult result = run_program(program, machine, {.step_limit = 3000});
        const auto state = std::make_unique<MachineState>(machine);
        const Reference::Outcome expected = Reference(machine, program, *state).run(3000);

        ASSERT_EQ(result.rule, expected.rule) << "seed " << seed << ": " << result.error << "\n" << text_of(program);
        ASSERT_EQ(static_cast<int64_t>(result.counters.cycles), expected.cycles) << "seed " << seed << "\n" << text_of(program);
        ASSERT_EQ(result.counters.stalls, expected.stalls) << "seed " << seed;
        ASSERT_EQ(result.counters.packets, expected.packets) << "seed " << seed;
    }
}

}  // namespace
}  // namespace atalla
