// Tuning processes that are interrupted, killed, or share a database. All tuning happens in children.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/autotune/synthetic.h"

namespace atalla {
namespace {

using synthetic::quiet;
using testing_db::start_child;
using testing_db::wait_for;

constexpr int64_t trials = 60;

// Trials that take long enough for a signal to come in between, however fast the host.
TuningTask slow_task() {
    TuningTask task = synthetic::task();
    const auto evaluate = task.evaluate;
    task.evaluate = [evaluate](const Point &point, int64_t limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(15));
        return evaluate(point, limit);
    };
    return task;
}

pid_t start_tuning(const std::filesystem::path &file, const std::function<void(const TuneResult &)> &check = {}) {
    return start_child([&] {
        Database database(file);
        TuneOptions options = quiet(trials);
        options.threads = 2;
        const TuneResult result = tune(slow_task(), &database, options);
        if (check) {
            check(result);
        }
    });
}

size_t trials_in(const std::filesystem::path &file) {
    return std::filesystem::exists(file) ? Database(file).trials_of(slow_task().key()).size() : 0;
}

void wait_for_trials(const std::filesystem::path &file, size_t wanted) {
    for (int patience = 0; patience < 4000 && trials_in(file) < wanted; patience++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

std::optional<StoredTrial> undisturbed_winner(const TemporaryFolder &folder) {
    EXPECT_EQ(wait_for(start_tuning(folder / "undisturbed.db")), 0);
    return Database(folder / "undisturbed.db").winner(slow_task().key());
}

std::string last_outcome(const std::filesystem::path &file) { return Database(file).runs_of(slow_task().key()).back().outcome; }

void demand(bool holds, const std::string &what) {
    if (!holds) {
        throw Error(what);
    }
}

TEST(Process, AKilledRunResumesWithNothingLost) {
    TemporaryFolder folder;
    const std::optional<StoredTrial> expected = undisturbed_winner(folder);
    ASSERT_TRUE(expected);
    const std::filesystem::path file = folder / "x.db";
    size_t before = 0;
    for (const size_t until : {5, 20, 40}) {
        const pid_t child = start_tuning(file);
        wait_for_trials(file, until);
        kill(child, SIGKILL);
        EXPECT_EQ(wait_for(child), -SIGKILL);
        EXPECT_GE(trials_in(file), until);
        EXPECT_LT(trials_in(file), static_cast<size_t>(trials));
        EXPECT_GE(trials_in(file), before);
        EXPECT_EQ(last_outcome(file), "running");
        before = trials_in(file);
    }
    const auto cached = static_cast<int64_t>(trials_in(file));
    EXPECT_EQ(wait_for(start_tuning(file,
                                    [&](const TuneResult &result) {
                                        demand(result.from_cache == cached, "trials were lost or done again");
                                        demand(result.lowered == trials - cached, "more was evaluated than was missing");
                                        demand(result.verified, "the winner is not verified");
                                    })),
              0);
    EXPECT_EQ(Database(file).winner(slow_task().key())->trial.point, expected->trial.point);
    EXPECT_EQ(trials_in(file), static_cast<size_t>(trials)) << "a resumed run tries the points of an undisturbed one";
    EXPECT_EQ(last_outcome(file), "finished");
}

void interrupt_and_check(int signal) {
    TemporaryFolder folder;
    const std::optional<StoredTrial> expected = undisturbed_winner(folder);
    ASSERT_TRUE(expected);
    const std::filesystem::path file = folder / "x.db";
    const pid_t child = start_tuning(file, [](const TuneResult &result) {
        demand(result.interrupted, "the signal was not noticed");
        demand(result.found && result.verified, "the best so far is not returned verified");
        demand(result.lowered > 0 && result.lowered < trials, "the run did not end early");
        demand(result.stopped_because == "interrupted; the same command goes on from here", result.stopped_because);
    });
    wait_for_trials(file, 12);
    kill(child, signal);
    EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ(last_outcome(file), "interrupted");
    EXPECT_TRUE(Database(file).winner(slow_task().key()));
    EXPECT_TRUE(Database(file).list()[0].unfinished);
    EXPECT_EQ(wait_for(start_tuning(file)), 0);
    EXPECT_EQ(Database(file).winner(slow_task().key())->trial.point, expected->trial.point);
    EXPECT_EQ(trials_in(file), static_cast<size_t>(trials));
    EXPECT_FALSE(Database(file).list()[0].unfinished);
}

TEST(Process, ControlCReturnsTheBestSoFar) { interrupt_and_check(SIGINT); }

TEST(Process, TerminationReturnsTheBestSoFar) { interrupt_and_check(SIGTERM); }

TEST(Process, ASecondControlCKills) {
    TemporaryFolder folder;
    const pid_t child = start_child([&] {
        Database database(folder / "x.db");
        TuningTask task = slow_task();
        task.evaluate = [&](const Point &, int64_t) -> Trial {
            database.record_trial(task.key(), testing_db::ok(1, 10));  // says that an evaluation is under way
            std::this_thread::sleep_for(std::chrono::seconds(60));
            return {};
        };
        tune(task, &database, quiet(4));
    });
    wait_for_trials(folder / "x.db", 1);
    kill(child, SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "the first one must wait for the trials under way";
    kill(child, SIGINT);
    EXPECT_EQ(wait_for(child), -SIGINT);
}

TEST(Process, TwoRunsMayShareADatabase) {
    TemporaryFolder folder;
    const std::optional<StoredTrial> expected = undisturbed_winner(folder);
    ASSERT_TRUE(expected);
    const std::filesystem::path file = folder / "x.db";
    const pid_t one = start_tuning(file), other = start_tuning(file);
    EXPECT_EQ(wait_for(one), 0);
    EXPECT_EQ(wait_for(other), 0);
    EXPECT_EQ(trials_in(file), static_cast<size_t>(trials));
    EXPECT_EQ(Database(file).winner(slow_task().key())->trial.point, expected->trial.point);
    EXPECT_EQ(Database(file).integrity(), "ok");
    EXPECT_EQ(Database(file).runs_of(slow_task().key()).size(), 2u);
}

}  // namespace
}  // namespace atalla
