// Tasks that share a budget.
#include "autotune/scheduler.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/autotune/synthetic.h"

namespace atalla {
namespace {

using testing::HasSubstr;

ScheduleOptions quiet(int64_t trials) {
    ScheduleOptions options;
    options.each = synthetic::quiet(0);
    options.max_trials = trials;
    options.progress = ProgressMode::Quiet;
    return options;
}

// A synthetic task of its own key, whose draft is off by up to `error`.
ScheduledTask task(const std::string &name, int64_t count, double error, int64_t least = 1000) {
    return {name, count, least, [=] {
                auto made = std::make_unique<TuningTask>(synthetic::task(std::make_shared<synthetic::Calls>(), error));
                made->workload = "{\"name\":\"" + name + "\"}";
                return made;
            }};
}

TEST(Scheduler, SharesTheBudgetAndVerifiesEveryWinner) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    std::vector<size_t> finished;
    const ScheduleResult result = tune_all({task("a", 1, 0.5), task("b", 5, 0.5), task("c", 1, 0.5)}, &database, quiet(96),
                                           [&](size_t index, const ScheduledResult &) { finished.push_back(index); });
    EXPECT_EQ(result.trials, 96);
    EXPECT_THAT(finished, testing::ElementsAre(0, 1, 2));
    int64_t cycles = 0;
    for (size_t i = 0; i < 3; i++) {
        EXPECT_TRUE(result.tasks[i].result.verified);
        EXPECT_NE(result.tasks[i].result.stopped_because, "");
        EXPECT_LE(result.tasks[i].result.seconds, result.seconds);
        EXPECT_GE(result.tasks[i].first_cycles, result.tasks[i].result.cycles);
        cycles += (i == 1 ? 5 : 1) * result.tasks[i].result.cycles;
    }
    EXPECT_EQ(result.cycles, cycles);
    EXPECT_GE(result.first_cycles, result.cycles);
    EXPECT_EQ(database.list().size(), 3u);
}

TEST(Scheduler, ATaskRestsAfterEachOfItsBatches) {
    std::map<std::string, int64_t> rests;
    const auto resting = [&](const std::string &name) {
        ScheduledTask made = task(name, 1, 0.5);
        made.make = [&rests, name, make = made.make] {
            std::unique_ptr<TuningTask> one = make();
            one->rest = [&rests, name] { rests[name]++; };
            return one;
        };
        return made;
    };
    const ScheduleResult result = tune_all({resting("a"), resting("b")}, nullptr, quiet(64));
    EXPECT_GT(result.tasks[0].batches, 1);
    EXPECT_EQ(rests["a"], result.tasks[0].batches);
    EXPECT_EQ(rests["b"], result.tasks[1].batches);
}

TEST(Scheduler, TrialsGoWhereTheyCount) {
    // Equal tasks, but one occurs a hundred times as often.
    const ScheduleResult result = tune_all({task("rare", 1, 0.9), task("often", 100, 0.9)}, nullptr, quiet(160));
    EXPECT_GT(result.tasks[1].result.lowered, 2 * result.tasks[0].result.lowered);
    EXPECT_GT(result.tasks[0].result.lowered, 0);
}

TEST(Scheduler, ASmallBudgetReachesTheMostExpensiveFirst) {
    const ScheduleResult all =
        tune_all({task("a", 1, 0.3, 10), task("b", 1, 0.3, 1000), task("c", 1, 0.3, 100)}, nullptr, quiet(3));
    for (const ScheduledResult &one : all.tasks) {
        EXPECT_EQ(one.result.lowered, 1);
    }
    const ScheduleResult some =
        tune_all({task("a", 1, 0.3, 10), task("b", 1, 0.3, 1000), task("c", 1, 0.3, 100)}, nullptr, quiet(2));
    EXPECT_EQ(some.tasks[0].batches, 0);
    EXPECT_EQ(some.tasks[1].result.lowered, 1);
    EXPECT_EQ(some.tasks[2].result.lowered, 1);
}

TEST(Scheduler, GoesOnWhereItWasStopped) {
    TemporaryFolder folder;
    const std::vector<ScheduledTask> tasks = {task("a", 3, 0.5), task("b", 1, 0.5)};
    Database whole(folder / "whole.db"), parts(folder / "parts.db");
    const ScheduleResult undisturbed = tune_all(tasks, &whole, quiet(80));
    tune_all(tasks, &parts, quiet(30));
    const ScheduleResult resumed = tune_all(tasks, &parts, quiet(80));
    EXPECT_EQ(resumed.cycles, undisturbed.cycles);
    EXPECT_GT(resumed.tasks[0].result.from_cache + resumed.tasks[1].result.from_cache, 20);
    const ScheduleResult again = tune_all(tasks, &parts, quiet(80));
    EXPECT_EQ(again.tasks[0].result.lowered + again.tasks[1].result.lowered, 0);
}

TEST(Scheduler, OneThatCannotBeMadeDoesNotStopTheRest) {
    ScheduledTask broken = task("broken", 1, 0.3);
    broken.make = []() -> std::unique_ptr<TuningTask> { throw Error("no such size"); };
    const ScheduleResult result = tune_all({broken, task("a", 1, 0.3)}, nullptr, quiet(40));
    EXPECT_THAT(result.tasks[0].problem, HasSubstr("no such size"));
    EXPECT_FALSE(result.tasks[0].result.found);
    EXPECT_TRUE(result.tasks[1].result.found);
}

TEST(Scheduler, ExpectedGainFollowsProgressAndDistance) {
    EXPECT_GT(expected_gain(1000, 1500, 900, 2), expected_gain(1000, 1000, 900, 2));
    EXPECT_GT(expected_gain(2000, 2000, 900, 2), expected_gain(1000, 1000, 900, 2));
    EXPECT_GT(expected_gain(1000, 1000, 900, 2), expected_gain(1000, 1000, 900, 3));
    EXPECT_EQ(expected_gain(900, 900, 900, 2), 0);
}

}  // namespace
}  // namespace atalla
