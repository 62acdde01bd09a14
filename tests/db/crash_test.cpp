// Processes that are killed or write at the same time: nothing acknowledged is lost, nothing half-done is seen.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "schedules/random.h"
#include "tests/db/fixtures.h"

namespace atalla {
namespace {

using testing_db::export_text;
using testing_db::key;
using testing_db::ok;
using testing_db::start_child;
using testing_db::wait_for;

void sleep_milliseconds(uint64_t milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

TEST(Crash, NoAcknowledgedTrialIsLost) {
    TemporaryFolder folder;
    Random random(3);
    int64_t next = 0;
    for (int round = 0; round < 12; round++) {
        int acknowledgements[2];
        ASSERT_EQ(pipe(acknowledgements), 0);
        const pid_t child = start_child([&] {
            Database database(folder / "x.db");
            for (int64_t i = next;; i++) {
                database.record_trial(key(), ok(i, 1000 + i));
                database.mark_verified(key(), ok(i, 0).point);
                if (write(acknowledgements[1], &i, sizeof i) != sizeof i) {
                    return;
                }
            }
        });
        close(acknowledgements[1]);
        int64_t last = next - 1, value = 0;
        ASSERT_EQ(read(acknowledgements[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
        sleep_milliseconds(random.below(40));
        kill(child, SIGKILL);
        EXPECT_EQ(wait_for(child), -SIGKILL);
        while (read(acknowledgements[0], &value, sizeof value) == static_cast<ssize_t>(sizeof value)) {
            last = value;
        }
        close(acknowledgements[0]);

        const Database database(folder / "x.db");
        EXPECT_EQ(database.integrity(), "ok");
        const std::vector<StoredTrial> trials = database.trials_of(key());
        ASSERT_GE(trials.size(), static_cast<size_t>(last + 1));
        ASSERT_LE(trials.size(), static_cast<size_t>(last + 2)) << "one may be written but not acknowledged yet";
        for (int64_t i = 0; i <= last; i++) {
            const std::optional<StoredTrial> trial = database.find_trial(key(), ok(i, 0).point);
            ASSERT_TRUE(trial) << i;
            ASSERT_EQ(trial->trial.cycles, 1000 + i);
            ASSERT_EQ(trial->verification, Verification::Verified);
        }
        next = last + 1;
    }
    EXPECT_GT(next, 12);
}

TEST(Crash, AMergeIsAllOrNothing) {
    TemporaryFolder folder;
    constexpr size_t rows = 3000;
    {
        Database source(folder / "source.db");
        std::ostringstream text;
        Database small(folder / "small.db");
        small.record_trial(key(), ok(0, 10));
        std::istringstream lines(export_text(small));
        std::string header, line;
        std::getline(lines, header);
        while (std::getline(lines, line) && line.find("\"kind\":\"trial\"") == std::string::npos) {
        }
        text << header << '\n';
        const size_t at = line.find("\"tile\":0");
        for (size_t i = 0; i < rows; i++) {
            text << line.substr(0, at) << fmt::format("\"tile\":{}", i) << line.substr(at + 8) << '\n';
        }
        std::istringstream in(text.str());
        ASSERT_EQ(source.import_from(in, "text").added, static_cast<int64_t>(rows));
    }
    Random random(4);
    int none = 0;
    for (int round = 0; round < 10; round++) {
        const std::filesystem::path file = folder / fmt::format("{}.db", round);
        { Database created(file); }
        const pid_t child = start_child([&] { Database(file).merge(Database(folder / "source.db")); });
        sleep_milliseconds(5 + random.below(30));
        kill(child, SIGKILL);
        wait_for(child);
        Database database(file);
        const size_t there = database.trials_of(key()).size();
        EXPECT_TRUE(there == 0 || there == rows) << there;
        none += there == 0;
        EXPECT_EQ(database.integrity(), "ok");
        database.merge(Database(folder / "source.db"));
        EXPECT_EQ(database.trials_of(key()).size(), rows);
    }
    EXPECT_GT(none, 0) << "no kill came in time: the test shows nothing";
}

TEST(Concurrency, ProcessesMayWriteTheSameFile) {
    TemporaryFolder folder;
    constexpr int processes = 4, each = 80;
    std::vector<pid_t> children;
    for (int process = 0; process < processes; process++) {
        children.push_back(start_child([&] {
            Database database(folder / "x.db");
            for (int i = 0; i < each; i++) {
                // Half of the rows are those of the next process too.
                const int64_t row = process * each / 2 + i;
                database.record_trial(key(), ok(row, 1000 + row));
                if (i % 10 == 0 && database.trials_of(key()).empty()) {
                    throw Error("a row that was written is not seen");
                }
            }
        }));
    }
    for (const pid_t child : children) {
        EXPECT_EQ(wait_for(child), 0);
    }
    const Database database(folder / "x.db");
    EXPECT_EQ(database.trials_of(key()).size(), static_cast<size_t>((processes + 1) * each / 2));
    EXPECT_EQ(database.integrity(), "ok");
}

TEST(Concurrency, TwoMergesIntoEachOtherMeet) {
    TemporaryFolder folder;
    {
        Database one(folder / "1.db"), two(folder / "2.db");
        for (int i = 0; i < 200; i++) {
            one.record_trial(key(), ok(i, 1000));
            two.record_trial(key(), ok(i + 100, 1000));
        }
    }
    const pid_t forth = start_child([&] { Database(folder / "1.db").merge(Database(folder / "2.db")); });
    const pid_t back = start_child([&] { Database(folder / "2.db").merge(Database(folder / "1.db")); });
    EXPECT_EQ(wait_for(forth), 0);
    EXPECT_EQ(wait_for(back), 0);
    EXPECT_EQ(export_text(Database(folder / "1.db")), export_text(Database(folder / "2.db")));
}

}  // namespace
}  // namespace atalla
