// The tuning loop: budgets, the database as checkpoint, failures, and the verification of winners.
#include "autotune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "db/sqlite.h"
#include "tests/autotune/synthetic.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using synthetic::Calls;
using synthetic::quiet;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_db::export_text;

class Tuner : public testing::Test {
protected:
    TemporaryFolder folder;
    Database database{folder / "x.db"};
    std::shared_ptr<Calls> calls = std::make_shared<Calls>();
    TuningTask task = synthetic::task(calls);
};

TEST_F(Tuner, StoresEveryTrialAndTheVerifiedWinner) {
    const TuneResult result = tune(task, &database, quiet(40));
    EXPECT_TRUE(result.found);
    EXPECT_TRUE(result.verified);
    EXPECT_THAT(result.notes, IsEmpty());
    EXPECT_EQ(result.lowered, 40);
    EXPECT_EQ(result.simulated, 40);
    EXPECT_EQ(result.from_cache, 0);
    EXPECT_EQ(result.stopped_because, "budget of 40 trials used");
    EXPECT_DOUBLE_EQ(result.bound_share, 1000.0 / result.cycles);
    EXPECT_EQ(calls->verified, 1);
    EXPECT_EQ(database.trials_of(task.key()).size(), 40u);
    ASSERT_TRUE(database.winner(task.key()));
    EXPECT_EQ(database.winner(task.key())->trial.point, result.best);
    EXPECT_EQ(database.winner(task.key())->trial.cycles, result.cycles);
    const std::vector<TuningRun> runs = database.runs_of(task.key());
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].outcome, "finished");
    EXPECT_EQ(runs[0].bound_cycles, 1000);
    EXPECT_EQ(runs[0].strategy, "draft");
    EXPECT_EQ(database.list()[0].machine_name, "ax01");
}

// Two of the three choices that are open gain, and more together.
TEST_F(Tuner, TriesTheChoicesOfTheCodeGeneratorForTheBestSchedule) {
    task.open_choices = [](const Point &) { return int64_t{0b10110}; };
    const auto evaluate = task.evaluate;
    task.evaluate = [&](const Point &point, int64_t limit) {
        Trial trial = evaluate(point, limit);
        const int64_t *choices = point.find(choices_parameter);
        const int64_t bits = choices == nullptr ? 0 : *choices;
        trial.cycles += (bits & 2 ? -30 : 0) + (bits & 4 ? -50 : 0) + (bits & 16 ? 40 : 0);
        return trial;
    };
    TuneOptions without = quiet(24);
    without.choices = false;
    const TuneResult schedule = tune(task, nullptr, without);
    EXPECT_FALSE(schedule.best.contains(choices_parameter));
    const TuneResult result = tune(task, &database, quiet(24));
    Point best = schedule.best;
    best.set(choices_parameter, 6);
    EXPECT_EQ(result.best, best);
    EXPECT_EQ(result.cycles, schedule.cycles - 80);
    EXPECT_EQ(result.with_choices, 3 + 1 + 1);
    EXPECT_EQ(result.lowered, 24 + 3 + 1 + 1) << "each, the two that gain together, and the third with them";
    EXPECT_TRUE(result.verified);
    EXPECT_EQ(database.winner(task.key())->trial.point, best);
    // It is stored as any other point.
    const TuneResult again = tune(task, &database, quiet(24));
    EXPECT_EQ(again.best, best);
    EXPECT_EQ(again.lowered, 0);
}

TEST_F(Tuner, TheSameCommandAgainEvaluatesNothing) {
    const TuneResult first = tune(task, &database, quiet(40));
    const TuneResult again = tune(task, &database, quiet(40));
    EXPECT_EQ(calls->evaluated, 40);
    EXPECT_EQ(calls->verified, 1);
    EXPECT_EQ(again.from_cache, 40);
    EXPECT_EQ(again.lowered, 0);
    EXPECT_TRUE(again.verified);
    EXPECT_EQ(again.best, first.best);
    const TuneResult more = tune(task, &database, quiet(60));
    EXPECT_EQ(more.lowered + more.from_cache, 60);
    EXPECT_GE(more.from_cache, 20);
    EXPECT_LE(more.cycles, first.cycles);
}

TEST_F(Tuner, ResumingEqualsNotHavingStopped) {
    const TuneResult whole = tune(task, nullptr, quiet(48));
    // The trials of an interrupted run, cut anywhere, also inside a batch.
    Database all(folder / "all.db");
    tune(task, &all, quiet(48));
    std::vector<StoredTrial> trials = all.trials_of(task.key());
    std::sort(trials.begin(), trials.end(), [](const auto &one, const auto &other) { return one.when < other.when; });
    for (const size_t cut : {1, 13, 30, 47}) {
        Database part(folder / fmt::format("{}.db", cut));
        for (size_t i = 0; i < cut; i++) {
            part.record_trial(task.key(), trials[i].trial);
        }
        const TuneResult resumed = tune(task, &part, quiet(48));
        EXPECT_EQ(resumed.best, whole.best);
        EXPECT_EQ(resumed.from_cache, static_cast<int64_t>(cut));
        EXPECT_EQ(resumed.lowered, 48 - static_cast<int64_t>(cut));
        EXPECT_EQ(part.trials_of(task.key()).size(), 48u);
    }
}

TEST_F(Tuner, TrialsOfOtherKeysAreNotServed) {
    tune(task, &database, quiet(20));
    TuningTask other = task;
    other.compiler_fingerprint = "compiler-2";
    const TuneResult result = tune(other, &database, quiet(20));
    EXPECT_EQ(result.from_cache, 0);
    EXPECT_EQ(calls->evaluated, 40);
}

TEST_F(Tuner, AStoredBetterPointWins) {
    // Found by an earlier run with another strategy; this run never proposes it.
    Trial better = task.evaluate(synthetic::sorted().front().second, 0);
    better.cycles = 7;
    database.record_trial(task.key(), better);
    task.draft = [&](const Point &point) { return point == better.point ? 1e9 : 1.0; };
    const TuneResult result = tune(task, &database, quiet(8));
    EXPECT_EQ(result.best, better.point);
    EXPECT_TRUE(result.verified);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("below the lower bound of 1000")));
}

TEST_F(Tuner, ARestrictedSpaceAnswersFromWithin) {
    TuneOptions options = quiet(0);
    options.strategy = Strategy::Exhaustive;
    tune(task, &database, options);
    const Point all_best = synthetic::sorted().front().second;
    const int64_t other_order = 1 - all_best["order"];
    task.space = restrict_to(task.space, {{"order", other_order}});
    const TuneResult result = tune(task, &database, options);
    EXPECT_EQ(result.best["order"], other_order);
    EXPECT_EQ(result.lowered, 0);
}

TEST_F(Tuner, StopsNearTheBound) {
    TuneOptions options = quiet(0);
    task.bound_cycles = synthetic::sorted().front().first;
    options.stop_at_bound_share = 0.8;
    options.strategy = Strategy::Exhaustive;
    const TuneResult result = tune(task, nullptr, options);
    EXPECT_GE(result.bound_share, 0.8);
    EXPECT_LT(result.lowered, 200);
    EXPECT_THAT(result.stopped_because, HasSubstr("of the bound, the aim was 80.0 %"));
}

TEST_F(Tuner, StopsAfterTheTime) {
    const auto evaluate = task.evaluate;
    task.evaluate = [evaluate](const Point &point, int64_t limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return evaluate(point, limit);
    };
    TuneOptions options = quiet(0);
    options.max_seconds = 0.8;
    options.strategy = Strategy::Exhaustive;
    const TuneResult result = tune(task, &database, options);
    EXPECT_GT(result.lowered, 0);
    EXPECT_LT(result.lowered, 400);
    EXPECT_EQ(result.stopped_because, "budget of 0.8 seconds used");
    EXPECT_TRUE(result.verified) << "what was found in time is verified";
    options.max_seconds = 1e-9;
    const TuneResult none = tune(task, nullptr, options);
    EXPECT_FALSE(none.found);
    EXPECT_THAT(none.notes, ElementsAre("no point was evaluated before the run ended"));
}

TEST_F(Tuner, FailuresAreTrialsToo) {
    task.evaluate = [this](const Point &point, int64_t) -> Trial {
        calls->evaluated++;
        Trial trial;
        switch (point["tile_m"]) {
            case 1:
                throw std::runtime_error("the statement does not match");
            case 2:
                trial.status = Trial::Refused;
                trial.reason = "rule 51";
                return trial;
            case 4:
                trial.status = Trial::TimedOut;
                trial.reason = "step limit";
                return trial;
            case 8:
                trial.status = Trial::Ok;
                trial.cycles = 0;
                return trial;
            default:
                trial.status = Trial::Ok;
                trial.cycles = synthetic::cycles(point);
                return trial;
        }
    };
    TuneOptions options = quiet(0);
    options.strategy = Strategy::Exhaustive;
    const TuneResult result = tune(task, &database, options);
    EXPECT_EQ(result.cycles, synthetic::sorted().front().first);
    const DatabaseStats stats = database.stats();
    EXPECT_GT(stats.refused, 0);
    EXPECT_GT(stats.timed_out, 0);
    EXPECT_EQ(result.failed, stats.refused + stats.timed_out + stats.failed);
    std::set<std::string> reasons;
    for (const StoredTrial &stored : database.select({"", "", "", "", Trial::Failed})) {
        reasons.insert(stored.trial.reason);
    }
    EXPECT_THAT(reasons, ElementsAre("the evaluation reported success with 0 cycles", "the statement does not match"));
    const int before = calls->evaluated;
    tune(task, &database, options);
    EXPECT_EQ(calls->evaluated, before) << "failures are not tried again either";
}

// The task as it is when the simulator stops a program at the limit.
TuningTask limited(const std::shared_ptr<Calls> &calls) {
    TuningTask task = synthetic::task(calls);
    task.evaluate = [evaluate = task.evaluate](const Point &point, int64_t limit) {
        Trial trial = evaluate(point, limit);
        if (limit > 0 && trial.cycles > limit) {
            trial.status = Trial::TimedOut;
            trial.cycles = limit;
            trial.reason = "cycle limit";
        }
        return trial;
    };
    return task;
}

TEST_F(Tuner, SlowCandidatesAreGivenUpAndTheWinnerIsTheSame) {
    TuneOptions options = quiet(200);
    options.strategy = Strategy::Random;
    options.cut_off = 1.5;
    const TuneResult cut = tune(limited(calls), &database, options);
    options.cut_off = 0;
    const TuneResult whole = tune(task, nullptr, options);
    EXPECT_EQ(cut.cycles, whole.cycles);
    EXPECT_EQ(cut.best, whole.best);
    EXPECT_GT(cut.given_up, 0);
    EXPECT_EQ(cut.failed, 0);
    for (const StoredTrial &stored : database.trials_of(task.key())) {
        EXPECT_TRUE(stored.trial.status == Trial::Ok || stored.trial.cycles >= 1.5 * static_cast<double>(cut.cycles));
    }
}

TEST_F(Tuner, AProofVisitsEveryPointForAsLongAsTheBestTakes) {
    TuneOptions options = quiet(0);
    options.strategy = Strategy::Exhaustive;
    options.prove = true;
    const TuneResult proof = tune(limited(calls), &database, options);
    EXPECT_TRUE(proof.optimal_in_space);
    EXPECT_EQ(proof.cycles, synthetic::sorted().front().first);
    EXPECT_GT(proof.given_up, static_cast<int64_t>(synthetic::sorted().size()) / 2);
    const std::optional<Certificate> certificate = database.certificate(synthetic::task().key());
    ASSERT_TRUE(certificate);
    EXPECT_EQ(certificate->bound_cycles, synthetic::task().bound_cycles);
    EXPECT_TRUE(certificate->optimal_in_space(proof.cycles));
    // What is stored proves it again, a part of the space does not.
    const TuneResult again = tune(limited(calls), &database, quiet(1));
    EXPECT_TRUE(again.optimal_in_space);
    EXPECT_FALSE(tune(limited(calls), nullptr, quiet(40)).optimal_in_space);
}

TEST_F(Tuner, ASpaceThatTheBudgetCoversIsProven) {
    const auto size = static_cast<int64_t>(synthetic::sorted().size());
    for (const Strategy strategy : {Strategy::Model, Strategy::Draft, Strategy::Climb}) {
        TuneOptions options = quiet(size);
        options.strategy = strategy;
        const TuneResult proof = tune(limited(calls), nullptr, options);
        EXPECT_TRUE(proof.optimal_in_space) << strategy_name(strategy);
        EXPECT_EQ(proof.cycles, synthetic::sorted().front().first);
        EXPECT_EQ(proof.simulated, size) << "each point once";
    }
    const TuneResult part = tune(limited(calls), nullptr, quiet(size / 2));
    EXPECT_FALSE(part.optimal_in_space);
    EXPECT_TRUE(part.model_optimum_tried);
    EXPECT_FALSE(tune(limited(calls), nullptr,
                      [&] {
                          TuneOptions options = quiet(8);
                          options.strategy = Strategy::Random;
                          return options;
                      }())
                     .model_optimum_tried);
}

// A bound of each point that is a part of what it takes.
TuningTask bounded(const std::shared_ptr<synthetic::Calls> &calls, double part) {
    TuningTask task = limited(calls);
    task.least_cycles = [part](const Point &point) {
        return static_cast<int64_t>(part * static_cast<double>(synthetic::cycles(point)));
    };
    return task;
}

TEST_F(Tuner, AProofLeavesOutWhatItsOwnBoundRulesOut) {
    TuneOptions options = quiet(0);
    options.strategy = Strategy::Exhaustive;
    options.prove = true;
    const auto size = static_cast<int64_t>(synthetic::sorted().size());
    const TuneResult proof = tune(bounded(calls, 0.9), &database, options);
    EXPECT_TRUE(proof.optimal_in_space);
    EXPECT_EQ(proof.cycles, synthetic::sorted().front().first);
    const double limit = static_cast<double>(proof.cycles) / 0.9;
    const auto points = synthetic::sorted();
    const auto may_be_faster =
        std::count_if(points.begin(), points.end(), [&](const auto &one) { return static_cast<double>(one.first) < limit; });
    EXPECT_LT(proof.lowered, size / 2);
    EXPECT_GE(proof.lowered, may_be_faster);
    EXPECT_EQ(proof.ruled_out, size - proof.lowered);
    EXPECT_TRUE(database.certificate(synthetic::task().key())->optimal_in_space(proof.cycles));
    // Without the bounds what is stored proves nothing.
    EXPECT_FALSE(tune(limited(calls), &database, quiet(1)).optimal_in_space);
}

TEST_F(Tuner, ASearchProvesWhereFewPointsAreLeft) {
    const TuneResult proof = tune(bounded(calls, 0.97), nullptr, quiet(64));
    EXPECT_TRUE(proof.optimal_in_space);
    EXPECT_EQ(proof.cycles, synthetic::sorted().front().first);
    EXPECT_LT(proof.lowered, 64);
    EXPECT_EQ(proof.ruled_out, static_cast<int64_t>(synthetic::sorted().size()) - proof.lowered);
    EXPECT_EQ(proof.stopped_because, "no point that is left can be faster");
    EXPECT_FALSE(tune(limited(calls), nullptr, quiet(64)).optimal_in_space);
}

TEST_F(Tuner, WhatWasGivenUpTooEarlyIsDoneAgain) {
    const Point point = synthetic::sorted().back().second;
    Trial given_up;
    given_up.point = point;
    given_up.status = Trial::TimedOut;
    given_up.cycles = 10;
    database.record_trial(task.key(), given_up);
    TuneOptions options = quiet(0);
    options.strategy = Strategy::Exhaustive;
    tune(limited(calls), &database, options);
    EXPECT_EQ(database.find_trial(task.key(), point)->trial.status, Trial::Ok);
    EXPECT_EQ(database.find_trial(task.key(), point)->trial.cycles, synthetic::sorted().back().first);
}

TEST_F(Tuner, NothingRuns) {
    task.evaluate = [](const Point &, int64_t) -> Trial { throw Error("no lowering today"); };
    const TuneResult result = tune(task, &database, quiet(16));
    EXPECT_FALSE(result.found);
    EXPECT_EQ(result.failed, 48);
    EXPECT_THAT(result.notes, ElementsAre(testing::AllOf(HasSubstr("none of 48 points ran; the first, "),
                                                         HasSubstr("was failed: no lowering today"))));
}

TEST_F(Tuner, GoesOnUntilAPointRuns) {
    std::atomic<int> tried = 0;
    task.evaluate = [&](const Point &point, int64_t limit) -> Trial {
        if (tried++ < 10) throw Error("out of registers");
        return synthetic::task().evaluate(point, limit);
    };
    const TuneResult result = tune(task, &database, quiet(4));
    EXPECT_TRUE(result.found);
    EXPECT_GE(result.failed, 10);
    EXPECT_LE(result.lowered, 4 + 2 * 8);
    EXPECT_EQ(result.stopped_because, "budget of 4 trials used");
}

TEST_F(Tuner, AWrongWinnerIsMarkedAndTheNextTried) {
    const auto best = synthetic::sorted();
    task.verify = [&](const Point &point) -> std::string {
        calls->verified++;
        if (point == best[1].second) {
            throw std::runtime_error("reference missing");
        }
        return point == best[0].second ? "element 3 is 1.5, not 1.25" : "";
    };
    TuneOptions options = quiet(0);
    options.strategy = Strategy::Exhaustive;
    const TuneResult result = tune(task, &database, options);
    EXPECT_EQ(result.best, best[2].second);
    EXPECT_TRUE(result.verified);
    EXPECT_THAT(result.rejected,
                ElementsAre(std::pair(best[0].second, std::string("element 3 is 1.5, not 1.25")),
                            std::pair(best[1].second, std::string("the verification failed: reference missing"))));
    EXPECT_EQ(database.find_trial(task.key(), best[0].second)->verification, Verification::Differs);
    EXPECT_EQ(database.winner(task.key())->trial.point, best[2].second);
    const TuneResult again = tune(task, &database, options);
    EXPECT_EQ(calls->verified, 3) << "neither the wrong nor the right one is verified again";
    EXPECT_EQ(again.best, best[2].second);
    EXPECT_EQ(again.rejected.size(), 2u);
}

TEST_F(Tuner, ManyWrongWinnersEndTheVerification) {
    task.verify = [&](const Point &) {
        calls->verified++;
        return std::string("wrong");
    };
    TuneOptions options = quiet(20);
    options.verify_attempts = 3;
    const TuneResult result = tune(task, &database, options);
    EXPECT_EQ(calls->verified, 3);
    EXPECT_TRUE(result.found);
    EXPECT_FALSE(result.verified);
    EXPECT_EQ(result.rejected.size(), 3u);
    EXPECT_THAT(result.notes, ElementsAre("the 3 fastest points gave wrong results, and the next was not verified"));
    EXPECT_FALSE(database.winner(task.key()));
    options.verify_attempts = 100;
    const TuneResult all = tune(task, &database, options);
    EXPECT_FALSE(all.found);
    EXPECT_THAT(all.notes, ElementsAre("all 20 points that ran gave wrong results"));
}

TEST_F(Tuner, WithoutVerificationThereIsNoWinner) {
    task.verify = nullptr;
    const TuneResult result = tune(task, &database, quiet(10));
    EXPECT_TRUE(result.found);
    EXPECT_FALSE(result.verified);
    EXPECT_FALSE(database.winner(task.key()));
    EXPECT_THAT(result.notes, ElementsAre("the best point is not verified and not stored as a winner"));
}

TEST_F(Tuner, StartingPointsComeFirst) {
    const Point good = synthetic::sorted()[5].second;
    Point outside = good;
    outside.set("unroll", 3);
    TuneOptions options = quiet(1);
    options.start = {outside, good, good, synthetic::sorted()[9].second};
    const TuneResult result = tune(task, &database, options);
    EXPECT_EQ(result.best, good);
    EXPECT_EQ(result.lowered, 1) << "within the budget, and each once";
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("unroll = 3 is not one of the values 1, 2, 4, 8")));
}

TEST_F(Tuner, KnownGoodPointsAreThoseOfOtherCompilers) {
    TuningTask before = task;
    before.compiler_fingerprint = "compiler-0";
    const TuneResult old = tune(before, &database, quiet(40));
    EXPECT_THAT(known_good_points(database, task), ElementsAre(old.best));
    EXPECT_THAT(known_good_points(database, before), IsEmpty());
    task.space = restrict_to(task.space, {{"order", 1 - old.best["order"]}});
    EXPECT_THAT(known_good_points(database, task), IsEmpty()) << "not in this space";
}

TEST_F(Tuner, ADatabaseThatCannotBeWrittenEndsTheRun) {
    Database locked(folder / "x.db", Database::Access::ReadWrite, 50);
    int evaluations = 0;
    std::unique_ptr<sqlite::Connection> other;
    std::unique_ptr<sqlite::Transaction> transaction;
    task.evaluate = [&](const Point &point, int64_t) {
        if (++evaluations == 5) {
            other = std::make_unique<sqlite::Connection>(folder / "x.db", sqlite::Access::ReadWrite, 50);
            transaction = std::make_unique<sqlite::Transaction>(*other);
        }
        Trial trial;
        trial.status = Trial::Ok;
        trial.cycles = synthetic::cycles(point);
        return trial;
    };
    TuneOptions options = quiet(40);
    options.threads = 1;
    EXPECT_THAT(error_of([&] { tune(task, &locked, options); }), HasSubstr("is locked"));
    transaction.reset();
    EXPECT_EQ(evaluations, 5) << "nothing is evaluated that cannot be kept";
    EXPECT_EQ(database.trials_of(task.key()).size(), 4u);
    EXPECT_TRUE(database.list()[0].unfinished);
}

TEST_F(Tuner, AWriteProtectedDatabaseEndsTheRunAtOnce) {
    Database readonly(folder / "x.db", Database::Access::ReadOnly);
    EXPECT_THAT(error_of([&] { tune(task, &readonly, quiet(10)); }), HasSubstr("cannot be written"));
    EXPECT_EQ(calls->evaluated, 0);
}

TEST_F(Tuner, IncompleteTasksAreRefused) {
    const auto refusal = [&](const std::function<void(TuningTask &)> &change) {
        TuningTask changed = task;
        change(changed);
        return error_of([&] { tune(changed, nullptr, quiet(4)); });
    };
    EXPECT_THAT(refusal([](TuningTask &t) { t.op.clear(); }), HasSubstr("has no operator or no workload"));
    EXPECT_THAT(refusal([](TuningTask &t) { t.machine_fingerprint.clear(); }), HasSubstr("fingerprint"));
    EXPECT_THAT(refusal([](TuningTask &t) { t.compiler_fingerprint.clear(); }), HasSubstr("fingerprint"));
    EXPECT_THAT(refusal([](TuningTask &t) { t.evaluate = nullptr; }), HasSubstr("no evaluation"));
    EXPECT_THAT(refusal([](TuningTask &t) { t.space.parameter("tile_m", "", {1}); }), HasSubstr("two parameters 'tile_m'"));
    const auto never = [](const Point &) { return false; };
    EXPECT_EQ(refusal([&](TuningTask &t) { t.space.constraint("room", {"order"}, "A tile fits the pads.", never); }),
              "aten::mm {\"m\":64} has no schedule on machine ax01: each point of its space violates the constraint 'room': A "
              "tile fits the pads.");
    EXPECT_THAT(refusal([&](TuningTask &t) {
                    t.title = "64 rows";
                    t.space.constraint("room", {"order"}, "A tile fits the pads.", never);
                }),
                HasSubstr("aten::mm 64 rows has no schedule on machine ax01: each point"));
    EXPECT_THAT(refusal([&](TuningTask &t) {
                    t.space.constraint("room", {"order"}, "A tile fits the pads.", never)
                        .constraint("never", {"order"}, "Nothing does.", never);
                }),
                HasSubstr("the constraints of its space contradict each other"));
    TuneOptions options = quiet(-1);
    EXPECT_THAT(error_of([&] { tune(task, nullptr, options); }), HasSubstr("a budget is negative"));
    options = quiet(4);
    options.batch = 0;
    EXPECT_THAT(error_of([&] { tune(task, nullptr, options); }), HasSubstr("batch must be at least 1"));
}

}  // namespace
}  // namespace atalla
