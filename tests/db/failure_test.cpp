// What can be wrong with a database file, and the sentence that says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "db/sqlite.h"
#include "tests/db/fixtures.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing_db::key;
using testing_db::ok;
using testing_db::start_child;
using testing_db::wait_for;

void write_file(const std::filesystem::path &file, const std::string &text) { std::ofstream(file, std::ios::binary) << text; }

// Rows over several pages, all in the main file.
void fill(const std::filesystem::path &file, int rows = 400) {
    Database database(file);
    for (int i = 0; i < rows; i++) {
        database.record_trial(key(), ok(i, 1000 + i));
    }
}

TEST(DatabaseFailure, NotADatabase) {
    TemporaryFolder folder;
    write_file(folder / "text",
               "This is a letter, long enough to be more than the header of a database file: " + std::string(200, '.'));
    EXPECT_EQ(error_of([&] { Database(folder / "text"); }),
              (folder / "text").string() + " is not a tuning database: the file is not in SQLite's format");
    EXPECT_THAT(error_of([&] { Database(folder / "text", Database::Access::ReadOnly); }), HasSubstr("not in SQLite's format"));
    // SQLite would take it for empty and write over it.
    write_file(folder / "short", "{");
    for (const auto access : {Database::Access::ReadWrite, Database::Access::ReadOnly}) {
        EXPECT_EQ(error_of([&] { Database(folder / "short", access); }),
                  (folder / "short").string() + " is not a tuning database: the file is not in SQLite's format");
    }
    EXPECT_EQ(std::filesystem::file_size(folder / "short"), 1u);
    EXPECT_THAT(error_of([&] { Database(folder.path()); }), HasSubstr("it is a folder"));
    ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
    EXPECT_EQ(error_of([&] { Database(folder / "pipe"); }),
              fmt::format("cannot open the database {}: it is a pipe or a device, not a file", (folder / "pipe").string()));
    EXPECT_THAT(error_of([&] { Database("/dev/full"); }), HasSubstr("it is a pipe or a device, not a file"));
}

TEST(DatabaseFailure, AVersionOrTablesThatNoProgramWrote) {
    TemporaryFolder folder;
    fill(folder / "x.db", 1);
    const auto change = [&](const std::string &sql) {
        sqlite::Connection(folder / "x.db", sqlite::Access::ReadWrite, 100).execute(sql);
    };
    change("PRAGMA user_version = -3");
    for (const auto access : {Database::Access::ReadWrite, Database::Access::ReadOnly}) {
        EXPECT_EQ(
            error_of([&] { Database(folder / "x.db", access); }),
            fmt::format("the database {} has version -3, which no atalla-tune writes: another program must have changed it; "
                        "move it away and merge your exports into a new one",
                        (folder / "x.db").string()));
    }
    change("PRAGMA user_version = 4; DROP VIEW proven_winner; DROP VIEW winner; DROP TABLE trial");
    EXPECT_EQ(
        error_of([&] { Database(folder / "x.db").select(); }),
        fmt::format("the database {} lacks what its version has (no such table: trial): another program must have changed it; "
                    "move it away and merge your exports into a new one",
                    (folder / "x.db").string()));
}

TEST(DatabaseFailure, MissingFileOrFolder) {
    TemporaryFolder folder;
    EXPECT_EQ(error_of([&] { Database(folder / "none.db", Database::Access::ReadOnly); }),
              fmt::format("there is no database at {}; name another with --db, or tune something first",
                          (folder / "none.db").string()));
    EXPECT_FALSE(std::filesystem::exists(folder / "none.db")) << "looking must not create";
    write_file(folder / "file", "x");
    EXPECT_THAT(error_of([&] { Database(folder / "file" / "x.db"); }), HasSubstr("cannot make the folder"));
}

TEST(DatabaseFailure, Locked) {
    TemporaryFolder folder;
    fill(folder / "x.db", 1);
    sqlite::Connection other(folder / "x.db", sqlite::Access::ReadWrite, 100);
    sqlite::Transaction transaction(other);
    Database database(folder / "x.db", Database::Access::ReadWrite, 100);
    EXPECT_EQ(database.trials_of(key()).size(), 1u) << "reading does not wait";
    EXPECT_EQ(error_of([&] { database.record_trial(key(), ok(2, 10)); }),
              fmt::format("the database {} is locked: another process has been writing to it for too long; wait for it to end, "
                          "or use a file of its own for each process and merge them",
                          (folder / "x.db").string()));
}

TEST(DatabaseFailure, AShortLockIsWaitedFor) {
    TemporaryFolder folder;
    fill(folder / "x.db", 1);
    sqlite::Connection other(folder / "x.db", sqlite::Access::ReadWrite, 100);
    auto transaction = std::make_unique<sqlite::Transaction>(other);
    std::thread release([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        transaction.reset();
    });
    Database database(folder / "x.db");
    EXPECT_EQ(error_of([&] { database.record_trial(key(), ok(2, 10)); }), "no error");
    release.join();
    EXPECT_EQ(database.trials_of(key()).size(), 2u);
}

TEST(DatabaseFailure, OpenedForReadingOnly) {
    TemporaryFolder folder;
    fill(folder / "x.db", 1);
    Database database(folder / "x.db", Database::Access::ReadOnly);
    EXPECT_EQ(database.trials_of(key()).size(), 1u);
    EXPECT_EQ(error_of([&] { database.record_trial(key(), ok(2, 10)); }),
              fmt::format("the database {} cannot be written: it was opened for reading only, or its file or folder is "
                          "write-protected",
                          (folder / "x.db").string()));
}

// Permissions do not bind the superuser, so the child becomes somebody else.
void drop_privileges() {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
        throw Error("cannot become an ordinary user");
    }
}

TEST(DatabaseFailure, WriteProtected) {
    TemporaryFolder folder;
    fill(folder / "x.db", 3);
    chmod(folder.path().c_str(), 0555);
    chmod((folder / "x.db").c_str(), 0444);
    const pid_t child = start_child([&] {
        drop_privileges();
        if (Database(folder / "x.db", Database::Access::ReadOnly).trials_of(key()).size() != 3) {
            throw Error("the rows cannot be read");
        }
        const std::string message = error_of([&] { Database(folder / "x.db"); });
        if (message.find("cannot be written: it was opened for reading only, or its file or folder is write-protected") ==
            std::string::npos) {
            throw Error("unexpected: " + message);
        }
        const std::string creation = error_of([&] { Database(folder / "new.db"); });
        if (creation.find("cannot open the database") == std::string::npos) {
            throw Error("unexpected: " + creation);
        }
    });
    EXPECT_EQ(wait_for(child), 0);
    chmod(folder.path().c_str(), 0755);
}

TEST(DatabaseFailure, DamagedPages) {
    TemporaryFolder folder;
    fill(folder / "x.db");
    const auto size = static_cast<int64_t>(std::filesystem::file_size(folder / "x.db"));
    int noticed = 0, rounds = 0;
    for (int64_t page = 4096; page + 4096 <= size; page += 4096 * 5) {
        std::filesystem::copy_file(folder / "x.db", folder / "y.db", std::filesystem::copy_options::overwrite_existing);
        std::fstream file(folder / "y.db", std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(page);
        file << std::string(4096, '\xA5');
        file.close();
        // Whatever page it is: an error or a bad integrity report, but never a crash and never silence.
        std::string integrity;
        const std::string message = error_of([&] {
            Database database(folder / "y.db");
            integrity = database.integrity();
            database.select();
        });
        noticed += message != "no error" || integrity != "ok";
        if (message != "no error") {
            EXPECT_THAT(message, AnyOf(HasSubstr("is damaged ("), HasSubstr("not in SQLite's format"))) << page;
        }
        rounds++;
    }
    EXPECT_GT(rounds, 5);
    EXPECT_EQ(noticed, rounds);
}

TEST(DatabaseFailure, RowsThatAnotherProgramChangedAreNamedAndLeftOut) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    for (int64_t value = 1; value <= 3; value++) {
        database.record_trial(key(), ok(value, 1000 + value));
    }
    {
        sqlite::Connection other(folder / "x.db", sqlite::Access::ReadWrite, 1000);
        other.execute("UPDATE trial SET point = '[1]' WHERE cycles = 1002");
    }
    EXPECT_EQ(database.trials_of(key()).size(), 2u);
    const std::vector<std::string> left_out = database.take_unreadable();
    ASSERT_EQ(left_out.size(), 1u);
    EXPECT_THAT(left_out[0], HasSubstr("a trial of aten::mm {\"m\":64} in the database cannot be read"));
    EXPECT_EQ(database.take_unreadable().size(), 0u);
    EXPECT_EQ(database.select().size(), 2u);
    ASSERT_EQ(database.damage().size(), 1u);
    EXPECT_THAT(database.damage()[0], HasSubstr("row 2: a trial of aten::mm"));
    database.record_trial(key(), ok(2, 1002));
    EXPECT_EQ(database.trials_of(key()).size(), 3u);
}

TEST(DatabaseFailure, RowsThatAnotherProgramChanged) {
    TemporaryFolder folder;
    fill(folder / "x.db", 1);
    const auto with = [&](const std::string &change) {
        std::filesystem::copy_file(folder / "x.db", folder / "y.db", std::filesystem::copy_options::overwrite_existing);
        sqlite::Connection(folder / "y.db", sqlite::Access::ReadWrite, 100)
            .execute("PRAGMA ignore_check_constraints = ON; UPDATE trial SET " + change);
        Database database(folder / "y.db");
        EXPECT_EQ(database.select().size(), 0u);
        return database.take_unreadable().at(0);
    };
    const std::string start =
        R"(a trial of aten::mm {"m":64} in the database cannot be read, another program must have changed it: )";
    EXPECT_EQ(with("status = 'odd'"), start + "'odd' is not the status of a trial (ok, failed, refused, timed-out)");
    EXPECT_THAT(with("point = '{\"tile\":'"), HasSubstr(start + "a point is not valid JSON"));
    EXPECT_THAT(with("point = '{\"tile\":1.5}'"), HasSubstr("'tile' of a point is 1.5"));
    EXPECT_THAT(with("counters = 'x'"), HasSubstr(start + "not JSON"));
    EXPECT_EQ(with("cycles = -5"), start + "it ran for -5 cycles");
    EXPECT_EQ(with("cycles = 0"), start + "it ran for 0 cycles");
}

TEST(DatabaseFailure, ARowThatTookNoTimeNeverWins) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    for (int64_t value = 1; value <= 2; value++) {
        database.record_trial(key(), ok(value, 1000 + value));
        database.mark_verified(key(), ok(value, 0).point);
    }
    sqlite::Connection other(folder / "x.db", sqlite::Access::ReadWrite, 1000);
    other.execute("UPDATE trial SET cycles = -5 WHERE cycles = 1001");
    ASSERT_TRUE(database.winner(key()).has_value());
    EXPECT_EQ(database.winner(key())->trial.cycles, 1002);
    EXPECT_EQ(database.list({}).at(0).best_cycles, 1002);
    EXPECT_EQ(other.integer("SELECT cycles FROM winner"), 1002);
    EXPECT_EQ(other.integer("SELECT cycles FROM proven_winner"), 1002);
}

TEST(DatabaseFailure, Truncated) {
    TemporaryFolder folder;
    fill(folder / "x.db");
    for (const int64_t size : {50, 100, 4096, 5000, 20'000}) {
        std::filesystem::copy_file(folder / "x.db", folder / "y.db", std::filesystem::copy_options::overwrite_existing);
        std::filesystem::resize_file(folder / "y.db", size);
        const std::string message = error_of([&] {
            Database database(folder / "y.db");
            if (database.integrity() != "ok") {
                throw Error("is damaged (integrity)");
            }
        });
        EXPECT_THAT(message, AnyOf(HasSubstr("is damaged ("), HasSubstr("not in SQLite's format"))) << size;
    }
}

// A limit on file sizes stands in for the full disk: it stops the write in the same place.
TEST(DatabaseFailure, AFullDiskKeepsWhatWasAcknowledged) {
    TemporaryFolder folder;
    fill(folder / "x.db", 10);
    int to_parent[2];
    ASSERT_EQ(pipe(to_parent), 0);
    const pid_t child = start_child([&] {
        signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{1024 * 1024, 1024 * 1024};
        setrlimit(RLIMIT_FSIZE, &limit);
        Database database(folder / "x.db");
        int64_t acknowledged = 10;
        const std::string message = error_of([&] {
            for (; acknowledged < 100'000; acknowledged++) {
                database.record_trial(key(), ok(acknowledged, 1000));
            }
        });
        if (message.find("the disk is full, over a limit, or broken; everything recorded before is kept") ==
            std::string::npos) {
            throw Error("unexpected: " + message);
        }
        if (database.trials_of(key()).size() != static_cast<size_t>(acknowledged)) {
            throw Error("reading after the failure gives other rows");
        }
        if (write(to_parent[1], &acknowledged, sizeof acknowledged) != sizeof acknowledged) {
            throw Error("cannot answer");
        }
    });
    close(to_parent[1]);
    EXPECT_EQ(wait_for(child), 0);
    int64_t acknowledged = 0;
    ASSERT_EQ(read(to_parent[0], &acknowledged, sizeof acknowledged), static_cast<ssize_t>(sizeof acknowledged));
    close(to_parent[0]);
    EXPECT_GT(acknowledged, 50);
    Database database(folder / "x.db");
    EXPECT_EQ(database.integrity(), "ok");
    EXPECT_EQ(database.trials_of(key()).size(), static_cast<size_t>(acknowledged));
    database.record_trial(key(), ok(-1, 5));
    EXPECT_EQ(database.trials_of(key()).size(), static_cast<size_t>(acknowledged) + 1);
}

}  // namespace
}  // namespace atalla
