// Versions: older files are brought up to date, newer and foreign ones are refused and left alone.
#include "db/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/db/fixtures.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using sqlite::Access;
using sqlite::Connection;
using testing::HasSubstr;
using testing_db::key;
using testing_db::ok;

std::string bytes_of(const std::filesystem::path &file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// The migrations up to a version, as an older program had them.
std::vector<Migration> up_to(size_t version) { return {migrations().begin(), migrations().begin() + version}; }

TEST(Schema, ANewFileHasTheCurrentVersion) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    EXPECT_EQ(database.stats().version, static_cast<int64_t>(migrations().size()));
    Connection connection(folder / "x.db", Access::ReadOnly, 100);
    EXPECT_EQ(connection.integer("PRAGMA application_id"), application_id);
    EXPECT_EQ(connection.text("PRAGMA journal_mode"), "wal");
    EXPECT_THAT(connection.text("SELECT value FROM meta WHERE key = 'content'").value_or(""), HasSubstr("atalla-tune"));
    EXPECT_EQ(connection.text("SELECT value FROM meta WHERE key = 'created'").value_or("").size(), 20u);
}

TEST(Schema, AnEmptyFileBecomesADatabase) {
    TemporaryFolder folder;
    std::ofstream(folder / "x.db").close();
    Database database(folder / "x.db");
    database.record_trial(key(), ok(1, 10));
    EXPECT_EQ(database.trials_of(key()).size(), 1u);
}

TEST(Schema, EveryOlderVersionIsBroughtUpToDate) {
    ASSERT_GE(migrations().size(), 2u);
    for (size_t version = 1; version < migrations().size(); version++) {
        TemporaryFolder folder;
        {
            Connection old(folder / "x.db", Access::ReadWrite, 100);
            migrate(old, up_to(version));
            old.execute(R"sql(
                INSERT INTO workload VALUES (1, 'aten::mm', '{"m":64}');
                INSERT INTO machine VALUES (1, 'machine-1', 'ax01');
                INSERT INTO compiler VALUES (1, 'compiler-1');
                INSERT INTO trial VALUES (1, 1, 1, 1, '{"depth":2,"tile":1}', 'ok', 77, '', 'null', 0.5, 0.5, 1, '', '', 5);
            )sql");
        }
        EXPECT_EQ(error_of([&] { Database(folder / "x.db", Database::Access::ReadOnly); }),
                  fmt::format("the database {} has version {} and this program reads version {}: open it once for writing, "
                              "which brings it up to date",
                              (folder / "x.db").string(), version, migrations().size()));
        Database database(folder / "x.db");
        EXPECT_EQ(database.stats().version, static_cast<int64_t>(migrations().size()));
        ASSERT_TRUE(database.winner(key()));
        EXPECT_EQ(database.winner(key())->trial.cycles, 77);
    }
}

TEST(Schema, AFailingMigrationChangesNothing) {
    TemporaryFolder folder;
    Connection connection(folder / "x.db", Access::ReadWrite, 100);
    migrate(connection, up_to(1));
    std::vector<Migration> steps = up_to(1);
    steps.push_back({"works", "CREATE TABLE extra(i INTEGER)"});
    steps.push_back({"does not", "CREATE TABLE other(i INTEGER); DROP TABLE no_such_table"});
    EXPECT_THAT(error_of([&] { migrate(connection, steps); }), HasSubstr("no such table: no_such_table"));
    EXPECT_EQ(connection.integer("PRAGMA user_version"), 1);
    EXPECT_EQ(connection.integer("SELECT count(*) FROM sqlite_master WHERE name IN ('extra', 'other')"), 0);
    EXPECT_FALSE(connection.in_transaction());
}

TEST(Schema, ANewerVersionIsRefused) {
    TemporaryFolder folder;
    { Database database(folder / "x.db"); }
    {
        Connection connection(folder / "x.db", Access::ReadWrite, 100);
        connection.execute("PRAGMA user_version = 99");
    }
    const std::string before = bytes_of(folder / "x.db");
    for (const auto access : {Database::Access::ReadWrite, Database::Access::ReadOnly}) {
        EXPECT_EQ(error_of([&] { Database(folder / "x.db", access); }),
                  fmt::format("the database {} has version 99, written by a newer atalla-tune; this one knows versions up to "
                              "{}: update it, or use another file",
                              (folder / "x.db").string(), migrations().size()));
    }
    EXPECT_EQ(bytes_of(folder / "x.db"), before);
}

TEST(Schema, ForeignDatabasesAreRefusedAndLeftAlone) {
    TemporaryFolder folder;
    { Connection(folder / "tables.db", Access::ReadWrite, 100).execute("CREATE TABLE bookmarks(url TEXT)"); }
    { Connection(folder / "id.db", Access::ReadWrite, 100).execute("PRAGMA application_id = 252006674"); }
    for (const char *name : {"tables.db", "id.db"}) {
        const std::string before = bytes_of(folder / name);
        EXPECT_EQ(error_of([&] { Database(folder / name); }),
                  (folder / name).string() + " is not a tuning database but the database of another program");
        EXPECT_EQ(bytes_of(folder / name), before) << name;
    }
}

TEST(Schema, ManyProcessesMayCreateItAtOnce) {
    TemporaryFolder folder;
    for (int round = 0; round < 5; round++) {
        const std::filesystem::path file = folder / fmt::format("{}.db", round);
        std::vector<pid_t> children;
        for (int child = 0; child < 6; child++) {
            children.push_back(testing_db::start_child([&] {
                Database database(file, Database::Access::ReadWrite, 20'000);
                database.record_trial(key(), ok(child, 100));
            }));
        }
        for (const pid_t child : children) {
            EXPECT_EQ(testing_db::wait_for(child), 0);
        }
        EXPECT_EQ(Database(file).trials_of(key()).size(), 6u);
    }
}

}  // namespace
}  // namespace atalla
