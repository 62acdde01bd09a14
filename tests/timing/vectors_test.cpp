// The timing vectors: every program takes exactly the recorded number of cycles on both hardware machines.
#include <gtest/gtest.h>

#include <sstream>

#include "isa/in_file.h"
#include "tests/timing/rig.h"

namespace atalla {
namespace {

class TimingVectors : public testing::TestWithParam<Advance> {};

TEST_P(TimingVectors, TakeTheRecordedCycles) {
    const TemporaryFolder folder;
    const auto programs = unpack_vectors("timing-vectors.tar.xz", ".in", folder);
    if (programs.empty()) {
        GTEST_SKIP() << "the timing vectors are not beside the source tree";
    }
    EXPECT_EQ(programs.size(), 25u);
    for (const std::filesystem::path &file : programs) {
        const Program program = read_in(file);
        std::istringstream recorded(read_text(std::filesystem::path(file).replace_extension(".cycles")));
        int machines = 0;
        uint64_t cycles = 0;
        for (std::string machine; recorded >> machine >> cycles; machines++) {
            const RunResult result = run_program(program, machine_with({}, machine), {}, GetParam());
            EXPECT_TRUE(result.ok) << file.filename() << ": " << result.error;
            EXPECT_EQ(result.counters.cycles, cycles) << file.filename() << " on " << machine;
        }
        EXPECT_EQ(machines, 2) << file.filename();
    }
}

INSTANTIATE_TEST_SUITE_P(Both, TimingVectors, testing::Values(Advance::Skip, Advance::EveryCycle),
                         [](const auto &how) { return how.param == Advance::Skip ? "Skip" : "EveryCycle"; });

}  // namespace
}  // namespace atalla
