// The conformance vectors: every program ends in the state that upstream's functional simulator recorded, byte for byte.
#include <gtest/gtest.h>

#include <sstream>

#include "isa/in_file.h"
#include "simulator/a48.h"
#include "simulator/expect_file.h"
#include "simulator/simulator.h"
#include "tests/isa/test_paths.h"

namespace atalla {
namespace {

struct Recorded {
    std::filesystem::path program;
    std::string expected;
};

class Vectors : public testing::Test {
protected:
    void SetUp() override {
        programs_ = unpack_vectors("vectors/vectors.tar.xz", ".in", folder_);
        if (programs_.empty()) {
            GTEST_SKIP() << "the conformance vectors are not beside the source tree";
        }
    }

    // Runs `run(program)`, which gives the dump, for all programs of the folders whose name starts with `prefix`.
    template <class Run>
    void check(const std::string &prefix, size_t count, Run run) {
        size_t found = 0;
        for (const std::filesystem::path &program : programs_) {
            if (!program.parent_path().filename().string().starts_with(prefix)) {
                continue;
            }
            found++;
            const std::filesystem::path expect = std::filesystem::path(program).replace_extension(".expect");
            const std::string expected = read_text(expect), actual = run(program);
            if (actual == expected) {
                continue;
            }
            std::istringstream text(actual);
            for (const std::string &difference : differences(read_expect(expect), read_expect(text, "dump"))) {
                ADD_FAILURE() << program.filename() << ": " << difference;
            }
            EXPECT_EQ(actual, expected);
        }
        EXPECT_EQ(found, count);
    }

    TemporaryFolder folder_;
    std::vector<std::filesystem::path> programs_;
};

std::string run_a40(const std::filesystem::path &program) {
    Simulator simulator(find_machine("fsim"));
    simulator.load(read_in(program));
    const RunResult result = simulator.run();
    EXPECT_TRUE(result.ok) << program << ": " << result.error;
    return simulator.dump_state(result);
}

TEST_F(Vectors, A40Random) { check("a40-random", 200, run_a40); }
TEST_F(Vectors, A40Scalar) { check("a40-scalar", 40, run_a40); }
TEST_F(Vectors, A40Kernels) { check("a40-kernels", 12, run_a40); }
TEST_F(Vectors, A48Random) {
    check("a48-random", 40, [](const std::filesystem::path &program) {
        EXPECT_TRUE(a48::is_a48_file(program));
        a48::Simulator simulator(a48::read_in(program));
        const RunResult result = simulator.run();
        EXPECT_TRUE(result.ok) << program << ": " << result.error;
        return simulator.dump_state(result);
    });
}
TEST_F(Vectors, A40IsNotTakenForA48) {
    check("a40", 252, [](const std::filesystem::path &program) {
        EXPECT_FALSE(a48::is_a48_file(program)) << program;
        return read_text(std::filesystem::path(program).replace_extension(".expect"));
    });
}

// State files are read and written without loss.
TEST_F(Vectors, DumpsRoundTrip) {
    check("", 292, [](const std::filesystem::path &program) {
        return read_expect(std::filesystem::path(program).replace_extension(".expect")).text();
    });
}

}  // namespace
}  // namespace atalla
