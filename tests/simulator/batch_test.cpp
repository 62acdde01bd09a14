// Many programs at once: the same results in the same order, whatever the number of threads.
#include "simulator/batch.h"

#include <gtest/gtest.h>

#include "isa/assembler.h"
#include "isa/error.h"
#include "simulator/profile/trace.h"
#include "tests/isa/test_paths.h"
#include "tests/timing/random_program.h"

namespace atalla {
namespace {

TEST(Batch, DoesNotDependOnTheNumberOfThreads) {
    const Machine ax01 = load_machine(source_path("machines/ax01.json")),
                  psum = load_machine(source_path("machines/ax01-psum.json"));
    std::vector<Program> programs;
    for (uint32_t seed = 1; seed <= 24; seed++) {
        programs.push_back(RandomProgram(seed, ax01, 100).make());
    }
    std::vector<BatchJob> jobs;
    for (size_t at = 0; at < programs.size(); at++) {
        jobs.push_back({at % 2 == 0 ? &ax01 : &psum, &programs[at]});
    }
    const std::vector<RunResult> one = run_batch(jobs, {.step_limit = 3000}, 1),
                                 four = run_batch(jobs, {.step_limit = 3000}, 4);
    ASSERT_EQ(one.size(), jobs.size());
    for (size_t at = 0; at < jobs.size(); at++) {
        EXPECT_EQ(one[at].error, four[at].error);
        EXPECT_EQ(one[at].counters, four[at].counters);
        Simulator alone(*jobs[at].machine);
        alone.load(programs[at]);
        EXPECT_EQ(alone.run({.step_limit = 3000}).counters, one[at].counters);
    }
}

TEST(Batch, AProgramThatCannotBeLoadedIsAResult) {
    const Machine machine = load_machine(source_path("machines/ax01.json"));
    Program good = assemble("halt.s\n"), bad = good;
    bad.data[0xFFFFFFF0] = 1;
    const std::vector<BatchJob> jobs = {{&machine, &bad}, {&machine, &good}};
    const std::vector<RunResult> results = run_batch(jobs);
    EXPECT_FALSE(results[0].ok);
    EXPECT_NE(results[0].error.find("do not fit the data memory"), std::string::npos) << results[0].error;
    EXPECT_TRUE(results[1].ok);
}

// The machine of a thread is used again: nothing of the program before is left.
TEST(Batch, ProgramsDoNotSeeEachOther) {
    const Program writes = assemble("addi.s x1, x0, 256\naddi.s x2, x0, 1\nsw.s x2, x1, 0\nlw.s x3, x1, 0\nhalt.s\n");
    // Divides by what the other left, or by zero.
    const Program divides = assemble("addi.s x1, x0, 256\nlw.s x2, x1, 0\ndiv.s x3, x1, x2\nhalt.s\n");
    for (const char *name : {"ax01", "fsim"}) {
        const Machine machine = load_machine(source_path("machines/" + std::string(name) + ".json"));
        const std::vector<RunResult> results =
            run_batch(std::vector<BatchJob>{{&machine, &writes}, {&machine, &divides}}, {}, 1);
        EXPECT_TRUE(results[0].ok) << results[0].error;
        EXPECT_NE(results[1].error.find("division by zero"), std::string::npos) << results[1].error;
    }
}

TEST(Batch, TakesNoObserver) {
    const Machine machine = load_machine(source_path("machines/ax01.json"));
    Recorder recorder(machine, {});
    EXPECT_THROW(run_batch({}, {.observer = &recorder}), Error);
}

}  // namespace
}  // namespace atalla
