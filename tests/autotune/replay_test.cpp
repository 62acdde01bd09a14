// A recorded sweep answers like the original.
#include "autotune/replay.h"

#include <gtest/gtest.h>

#include "tests/autotune/synthetic.h"

namespace atalla {
namespace {

using synthetic::quiet;
using testing_db::export_text;

TEST(Replay, SearchesAsTheOriginalDoes) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    const TuningTask original = synthetic::task();
    TuneOptions sweep = quiet(0);
    sweep.strategy = Strategy::Exhaustive;
    tune(original, &database, sweep);
    const std::string before = export_text(database);
    const TuningTask replayed = replay_task(database, original.key(), original.space, original.draft, 1000);
    for (const auto strategy : {Strategy::Draft, Strategy::Random}) {
        for (const int64_t trials : {1, 10, 50}) {
            TuneOptions options = quiet(trials);
            options.strategy = strategy;
            const TuneResult real = tune(original, nullptr, options), again = tune(replayed, nullptr, options);
            EXPECT_EQ(again.best, real.best);
            EXPECT_EQ(again.cycles, real.cycles);
            EXPECT_EQ(again.lowered, real.lowered);
        }
    }
    EXPECT_NE(replayed.key(), original.key());
    EXPECT_EQ(export_text(database), before);
}

TEST(Replay, WhatWasNotRecordedFails) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    const TuningTask original = synthetic::task();
    const Point known = synthetic::sorted()[0].second, unknown = synthetic::sorted()[1].second;
    database.record_trial(original.key(), original.evaluate(known, 0));
    database.mark_differs(original.key(), known, "element 3");
    const TuningTask replayed = replay_task(database, original.key(), original.space, original.draft);
    EXPECT_EQ(replayed.evaluate(known, 0).cycles, synthetic::sorted()[0].first);
    EXPECT_EQ(replayed.verify(known), "element 3");
    EXPECT_EQ(replayed.evaluate(unknown, 0).status, Trial::Failed);
    EXPECT_EQ(replayed.evaluate(unknown, 0).reason, "the recorded sweep has no trial of " + unknown.assignments());
}

}  // namespace
}  // namespace atalla
