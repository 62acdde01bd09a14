// Verification of a stored database: exact comparison, samples, and what cannot be reproduced.
#include "autotune/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/db/fixtures.h"

namespace atalla {
namespace {

using testing::HasSubstr;
using testing_db::key;
using testing_db::not_ok;
using testing_db::ok;

class VerifyDatabase : public testing::Test {
protected:
    VerifyDatabase() {
        for (int64_t tile = 1; tile <= 20; tile++) {
            database.record_trial(key(), ok(tile, 100 * tile));
        }
        database.record_trial(key(), not_ok(21, Trial::Refused, "rule 51 at packet 3"));
        database.record_trial(key(), not_ok(22, Trial::TimedOut, "step limit"));
        database.mark_verified(key(), ok(5, 0).point);
    }

    TemporaryFolder folder;
    Database database{folder / "x.db"};
    // What the stored trials say, as a simulator that has not changed would.
    Reevaluate truth = [](const StoredTrial &stored) {
        const int64_t tile = stored.trial.point["tile"];
        return tile > 20 ? not_ok(tile, Trial::Refused, "worded differently") : ok(tile, 100 * tile);
    };
};

TEST_F(VerifyDatabase, AnHonestDatabasePasses) {
    std::vector<int64_t> seen;
    const VerifyReport report = verify_database(database, truth, {}, [&](int64_t done, int64_t total) {
        EXPECT_EQ(total, 22);
        seen.push_back(done);
    });
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report.checked, 22);
    EXPECT_EQ(report.equal, 22);
    EXPECT_EQ(seen.size(), 22u);
    EXPECT_EQ(report.text(), "22 checked, 22 equal, 0 different, 0 not reproducible here\n");
}

TEST_F(VerifyDatabase, OneCycleIsADifference) {
    const VerifyReport report = verify_database(database, [&](const StoredTrial &stored) {
        std::optional<Trial> now = truth(stored);
        now->cycles += stored.trial.point["tile"] == 7;
        return now;
    });
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.equal, 21);
    EXPECT_EQ(report.text(),
              "22 checked, 21 equal, 1 different, 0 not reproducible here\n"
              "  aten::mm {\"m\":64} at depth=2,tile=7: cycles: stored 700, now 701\n");
}

TEST_F(VerifyDatabase, SamplesAreOfTheSeed) {
    const auto sample = [&](uint64_t seed) {
        std::set<Point> points;
        VerifyOptions options;
        options.sample = 6;
        options.seed = seed;
        const VerifyReport report = verify_database(
            database,
            [&](const StoredTrial &stored) {
                points.insert(stored.trial.point);
                return truth(stored);
            },
            options);
        EXPECT_EQ(report.checked, 6);
        EXPECT_EQ(points.size(), 6u);
        return points;
    };
    EXPECT_EQ(sample(1), sample(1));
    EXPECT_NE(sample(1), sample(2));
}

TEST_F(VerifyDatabase, WinnersOnlyAndFilters) {
    VerifyOptions winners;
    winners.winners_only = true;
    const VerifyReport report = verify_database(
        database,
        [&](const StoredTrial &stored) {
            EXPECT_EQ(stored.trial.point["tile"], 5);
            return truth(stored);
        },
        winners);
    EXPECT_EQ(report.checked, 1);
    VerifyOptions refused;
    refused.filter.status = Trial::Refused;
    EXPECT_EQ(verify_database(database, truth, refused).checked, 1);
}

TEST_F(VerifyDatabase, WhatCannotBeReproducedIsCounted) {
    const VerifyReport report = verify_database(database, [&](const StoredTrial &stored) -> std::optional<Trial> {
        const int64_t tile = stored.trial.point["tile"];
        if (tile == 1) {
            throw Error("no such operator");
        }
        return tile <= 10 ? std::nullopt : truth(stored);
    });
    EXPECT_EQ(report.skipped, 9);
    EXPECT_EQ(report.checked, 13);
    ASSERT_EQ(report.mismatches.size(), 1u);
    EXPECT_EQ(report.mismatches[0].what, "the evaluation failed: no such operator");
}

TEST(CompareTrials, StatusCyclesAndCounters) {
    const Trial stored = ok(1, 100);
    EXPECT_EQ(compare_trials(stored, stored), "");
    Trial now = stored;
    now.seconds_lower = 99;
    EXPECT_EQ(compare_trials(stored, now), "");
    now.counters["packets"] = 51;
    EXPECT_EQ(compare_trials(stored, now), "packets: stored 50, now 51");
    now.counters.erase("packets");
    now.counters["new counter"] = 1;
    EXPECT_EQ(compare_trials(stored, now), "") << "counters that only one of them has are not compared";
    EXPECT_EQ(compare_trials(stored, not_ok(1, Trial::Refused, "rule 51")), "status: stored ok, now refused: rule 51");
    EXPECT_EQ(compare_trials(not_ok(1, Trial::Refused, "a"), not_ok(1, Trial::Refused, "b")), "");
    EXPECT_EQ(compare_trials(not_ok(1, Trial::TimedOut, ""), stored), "");
}

}  // namespace
}  // namespace atalla
