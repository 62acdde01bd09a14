// The database seen from its users: what is stored comes back, keys never mix, only verified trials win.
#include "db/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "db/sqlite.h"
#include "tests/db/fixtures.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::HasSubstr;
using testing_db::export_text;
using testing_db::key;
using testing_db::not_ok;
using testing_db::ok;

class DatabaseTest : public testing::Test {
protected:
    TemporaryFolder folder;
    Database database{folder / "new/folders/tuning.db"};
};

TEST_F(DatabaseTest, TrialsComeBack) {
    database.record_trial(key(), ok(8, 1234), "run-1");
    database.record_trial(key(), not_ok(4, Trial::Refused, "rule 51 at packet 3"));
    const std::vector<StoredTrial> trials = database.trials_of(key());
    ASSERT_EQ(trials.size(), 2u);
    EXPECT_EQ(trials[0].trial.point.text(), R"({"depth":2,"tile":4})") << "ordered by the text of the point";
    EXPECT_EQ(trials[0].trial.status, Trial::Refused);
    EXPECT_EQ(trials[0].trial.reason, "rule 51 at packet 3");
    EXPECT_TRUE(trials[0].trial.counters.is_null());
    const StoredTrial &good = trials[1];
    EXPECT_EQ(good.key, key());
    EXPECT_EQ(good.trial.status, Trial::Ok);
    EXPECT_EQ(good.trial.cycles, 1234);
    EXPECT_EQ(good.trial.counters, ok(8, 1234).counters);
    EXPECT_EQ(good.trial.seconds_lower, 0.0625);
    EXPECT_EQ(good.trial.seconds_simulate, 0.1);
    EXPECT_EQ(good.run, "run-1");
    EXPECT_EQ(good.verification, Verification::Unverified);
    EXPECT_GT(good.when, 1'600'000'000'000);
    EXPECT_EQ(database.find_trial(key(), good.trial.point)->trial.cycles, 1234);
    EXPECT_FALSE(database.find_trial(key(), {{"tile", 5}, {"depth", 2}}));
}

TEST_F(DatabaseTest, AnotherHandleSeesARowAtOnce) {
    const Database reader(folder / "new/folders/tuning.db", Database::Access::ReadOnly);
    database.record_trial(key(), ok(8, 1234));
    EXPECT_EQ(reader.trials_of(key()).size(), 1u);
}

TEST_F(DatabaseTest, EveryMemberOfTheKeyCounts) {
    database.record_trial(key(), ok(8, 1000));
    database.mark_verified(key(), ok(8, 1000).point);
    std::vector<TrialKey> others(4, key());
    others[0].op = "aten::bmm";
    others[1].workload = R"({"m":65})";
    others[2].machine = "machine-2";
    others[3].compiler = "compiler-2";
    for (const TrialKey &other : others) {
        EXPECT_TRUE(database.trials_of(other).empty());
        EXPECT_FALSE(database.winner(other));
        EXPECT_FALSE(database.find_trial(other, ok(8, 0).point));
    }
    EXPECT_TRUE(database.winner(key()));
}

TEST_F(DatabaseTest, OnlyVerifiedTrialsWin) {
    for (const int64_t tile : {1, 2, 3, 4, 5}) {
        database.record_trial(key(), ok(tile, tile == 5 ? 300 : 100 * tile));
    }
    EXPECT_FALSE(database.winner(key()));
    database.mark_verified(key(), ok(5, 0).point);
    database.mark_verified(key(), ok(3, 0).point);
    database.mark_differs(key(), ok(1, 0).point, "element 7 is 1.5, not 1.25");
    ASSERT_TRUE(database.winner(key()));
    EXPECT_EQ(database.winner(key())->trial.point, ok(3, 0).point) << "of 300 cycles twice, the first point by text";
    database.mark_verified(key(), ok(2, 0).point);
    EXPECT_EQ(database.winner(key())->trial.cycles, 200);
    database.mark_differs(key(), ok(2, 0).point, "found later");
    EXPECT_EQ(database.winner(key())->trial.cycles, 300) << "a difference outweighs an earlier verification";
    database.mark_verified(key(), ok(2, 0).point);
    EXPECT_EQ(database.find_trial(key(), ok(2, 0).point)->verification, Verification::Differs);
    EXPECT_EQ(database.find_trial(key(), ok(2, 0).point)->differs, "found later");
    EXPECT_THAT(error_of([&] {
                    database.mark_verified(key(), {{"tile", 77}});
                }),
                HasSubstr(R"(has no trial of aten::mm {"m":64} at tile=77 to mark)"));
}

TEST_F(DatabaseTest, AFailedTrialNeverWins) {
    database.record_trial(key(), not_ok(1, Trial::Failed, "no"));
    database.mark_verified(key(), not_ok(1, Trial::Failed, "").point);
    EXPECT_FALSE(database.winner(key()));
}

TEST_F(DatabaseTest, RecordingTwiceChangesNothing) {
    database.record_trial(key(), ok(8, 1000), "run-1");
    database.mark_verified(key(), ok(8, 0).point);
    const std::string before = export_text(database);
    database.record_trial(key(), ok(8, 1000), "run-2");
    database.record_trial(key(), not_ok(8, Trial::TimedOut, "slow host"), "run-3");
    EXPECT_EQ(export_text(database), before);
}

TEST_F(DatabaseTest, ASuccessReplacesATimeout) {
    database.record_trial(key(), not_ok(8, Trial::TimedOut, "step limit"));
    database.record_trial(key(), ok(8, 1000));
    ASSERT_EQ(database.trials_of(key()).size(), 1u);
    EXPECT_EQ(database.trials_of(key())[0].trial.status, Trial::Ok);
    EXPECT_EQ(database.trials_of(key())[0].trial.reason, "");
}

TEST_F(DatabaseTest, OddTextIsKeptOrRepaired) {
    Trial trial = not_ok(1, Trial::Failed, std::string("quote ' and \"\nNUL \0 broken \xff end", 32));
    trial.seconds_lower = std::nan("");
    trial.counters = {{"note", "\xfe"}};
    database.record_trial({"op'; DROP TABLE trial; --", "not json", "m", "c"}, trial);
    const std::vector<StoredTrial> trials = database.select();
    ASSERT_EQ(trials.size(), 1u);
    EXPECT_EQ(trials[0].key.op, "op'; DROP TABLE trial; --");
    EXPECT_EQ(trials[0].trial.reason, std::string("quote ' and \"\nNUL \0 broken \xef\xbf\xbd end", 34));
    EXPECT_EQ(trials[0].trial.seconds_lower, 0);
    std::istringstream text(export_text(database));
    Database copy(folder / "copy.db");
    copy.import_from(text, "text");
    EXPECT_EQ(export_text(copy), export_text(database));
}

TEST_F(DatabaseTest, RunsTellWhetherTheyEnded) {
    TuningRun run;
    run.key = key();
    run.strategy = "draft";
    run.seed = UINT64_MAX;
    run.bound_cycles = 500;
    run.started = 1000;
    const std::string first = database.begin_run(run);
    EXPECT_EQ(first.size(), 16u);
    database.record_trial(key(), ok(1, 1000), first);
    EXPECT_TRUE(database.list()[0].unfinished) << "as it stays if the process is killed";
    database.end_run(first, "finished");
    EXPECT_FALSE(database.list()[0].unfinished);
    run.started = 2000;
    run.bound_cycles = 600;
    const std::string second = database.begin_run(run);
    database.end_run(second, "interrupted");
    EXPECT_NE(first, second);
    EXPECT_TRUE(database.list()[0].unfinished);
    EXPECT_EQ(database.list()[0].bound_cycles, 600) << "of the latest run";
    const std::vector<TuningRun> runs = database.runs_of(key());
    ASSERT_EQ(runs.size(), 2u);
    EXPECT_EQ(runs[0].id, first);
    EXPECT_EQ(runs[0].seed, UINT64_MAX);
    EXPECT_EQ(runs[0].outcome, "finished");
    EXPECT_FALSE(runs[0].host.empty());
    EXPECT_GT(runs[0].ended, 1'600'000'000'000);
    EXPECT_TRUE(database.runs_of(key("{}")).empty());
    EXPECT_THAT(error_of([&] { database.end_run(first, "no such outcome"); }), HasSubstr("CHECK constraint failed"));
}

TEST_F(DatabaseTest, ListSummarizesEveryKey) {
    database.record_trial(key("{\"m\":2}"), ok(1, 1000));
    database.record_trial(key("{\"m\":1}"), ok(1, 700));
    database.record_trial(key("{\"m\":1}"), ok(2, 800));
    database.record_trial(key("{\"m\":1}"), not_ok(3, Trial::Failed, "no"));
    database.mark_differs(key("{\"m\":1}"), ok(1, 0).point, "wrong");
    database.mark_verified(key("{\"m\":1}"), ok(2, 0).point);
    database.name_machine("machine-1", "ax01");
    const std::vector<KeySummary> keys = database.list();
    ASSERT_EQ(keys.size(), 2u);
    EXPECT_EQ(keys[0].key.workload, "{\"m\":1}");
    EXPECT_EQ(keys[0].machine_name, "ax01");
    EXPECT_EQ(keys[0].trials, 3);
    EXPECT_EQ(keys[0].ok, 2);
    EXPECT_EQ(keys[0].verified, 1);
    EXPECT_EQ(keys[0].best_cycles, 800) << "the wrong one does not count";
    ASSERT_TRUE(keys[0].winner);
    EXPECT_EQ(keys[0].winner->trial.cycles, 800);
    EXPECT_FALSE(keys[1].winner);
    EXPECT_EQ(keys[1].best_cycles, 1000);
}

TEST_F(DatabaseTest, FiltersSelect) {
    TrialKey other = key("{\"m\":2}");
    other.machine = "machine-2";
    database.record_trial(key("{\"m\":1}"), ok(1, 10));
    database.record_trial(key("{\"m\":1}"), not_ok(2, Trial::Failed, "no"));
    database.record_trial(other, ok(1, 20));
    database.name_machine("machine-2", "ax02");
    const auto selected = [&](const TrialFilter &filter) { return database.select(filter).size(); };
    EXPECT_EQ(selected({}), 3u);
    EXPECT_EQ(selected({"aten::mm", "", "", "", {}}), 3u);
    EXPECT_EQ(selected({"aten", "", "", "", {}}), 0u);
    EXPECT_EQ(selected({"", "{\"m\":1}", "", "", {}}), 2u);
    EXPECT_EQ(selected({"", "", "ax02", "", {}}), 1u);
    EXPECT_EQ(selected({"", "", "machine-1", "", {}}), 2u);
    EXPECT_EQ(selected({"", "", "", "compiler-1", Trial::Ok}), 2u);
    EXPECT_EQ(selected({"", "", "", "", Trial::Failed}), 1u);
    EXPECT_EQ(selected({"", "", "", "", Trial::Refused}), 0u);
}

TEST_F(DatabaseTest, PruneTakesWhatNothingRefersTo) {
    TrialKey other = key("{\"m\":2}");
    other.machine = "machine-2";
    for (const TrialKey &each : {key("{\"m\":1}"), other}) {
        TuningRun run;
        run.key = each;
        const std::string id = database.begin_run(run);
        database.record_trial(each, ok(1, 10), id);
        database.record_trial(each, not_ok(2, Trial::TimedOut, "slow"), id);
    }
    EXPECT_EQ(database.prune({"", "", "", "", Trial::TimedOut}), 2);
    EXPECT_EQ(database.stats().trials, 2);
    EXPECT_EQ(database.stats().runs, 2);
    EXPECT_EQ(database.prune({"", "", "machine-2", "", {}}), 1);
    const DatabaseStats stats = database.stats();
    EXPECT_EQ(stats.trials, 1);
    EXPECT_EQ(stats.runs, 1);
    EXPECT_EQ(stats.workloads, 1);
    EXPECT_EQ(stats.machines, 1);
    EXPECT_EQ(database.prune({}), 1);
    EXPECT_EQ(database.stats().machines + database.stats().compilers + database.stats().workloads, 0);
    EXPECT_EQ(database.prune({}), 0);
}

TEST_F(DatabaseTest, RelatedWinnersAreOfOtherConditions) {
    TrialKey machine = key(), compiler = key(), workload = key("{}");
    machine.machine = "machine-2";
    compiler.compiler = "compiler-0";
    int64_t cycles = 100;
    for (const TrialKey &each : {key(), machine, compiler, workload}) {
        database.record_trial(each, ok(cycles, cycles));
        database.record_trial(each, ok(cycles + 1, cycles + 1));
        database.record_trial(each, ok(cycles - 1, cycles - 1));
        database.mark_verified(each, ok(cycles, 0).point);
        database.mark_verified(each, ok(cycles + 1, 0).point);
        cycles += 100;
    }
    const std::vector<StoredTrial> related = database.related_winners(key());
    ASSERT_EQ(related.size(), 2u);
    EXPECT_EQ(related[0].key, machine);
    EXPECT_EQ(related[0].trial.cycles, 200);
    EXPECT_EQ(related[1].key, compiler);
}

TEST_F(DatabaseTest, TheWinnerViewAgreesWithTheFunction) {
    for (const int64_t tile : {1, 2, 3}) {
        database.record_trial(key(), ok(tile, 100 * tile));
        database.record_trial(key("{}"), ok(tile, 500 - 100 * tile));
        database.mark_verified(key(), ok(tile, 0).point);
        database.mark_verified(key("{}"), ok(tile, 0).point);
    }
    sqlite::Connection connection(database.file(), sqlite::Access::ReadOnly, 100);
    sqlite::Statement rows(connection,
                           "SELECT op, description, machine_fingerprint, compiler_fingerprint, point, cycles"
                           " FROM winner ORDER BY description");
    for (const TrialKey &each : {key(), key("{}")}) {
        ASSERT_TRUE(rows.step());
        const StoredTrial winner = database.winner(each).value();
        EXPECT_EQ((TrialKey{rows.text(0), rows.text(1), rows.text(2), rows.text(3)}), each);
        EXPECT_EQ(rows.text(4), winner.trial.point.text());
        EXPECT_EQ(rows.integer(5), winner.trial.cycles);
    }
    EXPECT_FALSE(rows.step());
}

TEST_F(DatabaseTest, StatsAddUp) {
    database.record_trial(key(), ok(1, 10));
    database.record_trial(key(), ok(2, 10));
    database.record_trial(key(), not_ok(3, Trial::Failed, "a"));
    database.record_trial(key(), not_ok(4, Trial::Refused, "b"));
    database.record_trial(key(), not_ok(5, Trial::TimedOut, "c"));
    database.mark_verified(key(), ok(1, 0).point);
    database.mark_differs(key(), ok(2, 0).point, "x");
    const DatabaseStats stats = database.stats();
    EXPECT_EQ(stats.trials, 5);
    EXPECT_EQ(stats.ok, 2);
    EXPECT_EQ(stats.failed, 1);
    EXPECT_EQ(stats.refused, 1);
    EXPECT_EQ(stats.timed_out, 1);
    EXPECT_EQ(stats.winners, 1);
    EXPECT_EQ(stats.differs, 1);
    EXPECT_DOUBLE_EQ(stats.seconds_lower, 0.125);
    EXPECT_DOUBLE_EQ(stats.seconds_simulate, 0.2);
    EXPECT_GT(stats.bytes, 0);
    EXPECT_EQ(database.integrity(), "ok");
}

TEST_F(DatabaseTest, ThreadsMayShareIt) {
    constexpr int threads = 6, each = 60;
    std::vector<std::thread> workers;
    for (int worker = 0; worker < threads; worker++) {
        workers.emplace_back([&, worker] {
            for (int i = 0; i < each; i++) {
                database.record_trial(key(), ok(worker * each + i, 1000 + i));
                database.winner(key());
            }
        });
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    EXPECT_EQ(database.trials_of(key()).size(), static_cast<size_t>(threads * each));
}

TEST_F(DatabaseTest, ItCanBeMoved) {
    database.record_trial(key(), ok(1, 10));
    Database moved = std::move(database);
    EXPECT_EQ(moved.trials_of(key()).size(), 1u);
    database = Database(folder / "other.db");
    EXPECT_EQ(database.trials_of(key()).size(), 0u);
}

TEST(Status, NamesGoBothWays) {
    for (const auto status : {Trial::Ok, Trial::Failed, Trial::Refused, Trial::TimedOut}) {
        EXPECT_EQ(parse_status(status_name(status)), status);
    }
    EXPECT_EQ(error_of([] { parse_status("refusd"); }),
              "'refusd' is not the status of a trial (ok, failed, refused, timed-out); did you mean 'refused'?");
}

}  // namespace
}  // namespace atalla
