// What must hold for any program: every cycle is accounted for, and skipping over quiet cycles changes nothing.
#include <numeric>

#include "isa/disassembler.h"
#include "tests/timing/random_machine.h"
#include "tests/timing/random_program.h"
#include "tests/timing/rig.h"

namespace atalla {
namespace {

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
        uint64_t of_packets = 0;
        for (const StallCycles &of_packet : result.packet_stalls) {
            of_packets += sum(of_packet);
        }
        ASSERT_EQ(of_packets + result.counters.stalls[static_cast<size_t>(Stall::Drain)], sum(result.counters.stalls));

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

}  // namespace
}  // namespace atalla
