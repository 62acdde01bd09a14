// The layer over SQLite: values survive the trip, transactions are all or nothing.
#include "db/sqlite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/db/fixtures.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using sqlite::Access;
using sqlite::Connection;
using sqlite::Statement;
using sqlite::Transaction;
using testing::HasSubstr;

TEST(Sqlite, ValuesSurvive) {
    TemporaryFolder folder;
    Connection connection(folder / "x", Access::ReadWrite, 100);
    connection.execute("CREATE TABLE t(i INTEGER, r REAL, s TEXT, n TEXT)");
    const std::string text("a\0b'\xc3\xa4", 6);
    Statement insert(connection, "INSERT INTO t VALUES (?1, ?2, ?3, ?4)");
    insert.run(INT64_MIN, 0.1, text, nullptr);
    insert.run(INT64_MAX, -std::numeric_limits<double>::denorm_min(), "", std::string_view());
    Statement rows(connection, "SELECT * FROM t ORDER BY i");
    ASSERT_TRUE(rows.step());
    EXPECT_EQ(rows.integer(0), INT64_MIN);
    EXPECT_EQ(rows.real(1), 0.1);
    EXPECT_EQ(rows.text(2), text);
    EXPECT_TRUE(rows.is_null(3));
    ASSERT_TRUE(rows.step());
    EXPECT_EQ(rows.integer(0), INT64_MAX);
    EXPECT_EQ(rows.real(1), -std::numeric_limits<double>::denorm_min());
    EXPECT_EQ(rows.text(2), "");
    EXPECT_FALSE(rows.is_null(3)) << "an empty text is not NULL";
    EXPECT_FALSE(rows.step());
}

TEST(Sqlite, TransactionsRollBackUnlessCommitted) {
    TemporaryFolder folder;
    Connection connection(folder / "x", Access::ReadWrite, 100);
    connection.execute("CREATE TABLE t(i INTEGER)");
    {
        Transaction transaction(connection);
        connection.execute("INSERT INTO t VALUES (1)");
    }
    EXPECT_EQ(connection.integer("SELECT count(*) FROM t"), 0);
    {
        Transaction transaction(connection);
        connection.execute("INSERT INTO t VALUES (1)");
        EXPECT_EQ(connection.changes(), 1);
        transaction.commit();
    }
    EXPECT_EQ(connection.integer("SELECT count(*) FROM t"), 1);
    EXPECT_EQ(connection.integer("SELECT i FROM t WHERE i = 2"), std::nullopt);
}

TEST(Sqlite, AReadTransactionIsASnapshot) {
    TemporaryFolder folder;
    Connection writer(folder / "x", Access::ReadWrite, 100), reader(folder / "x", Access::ReadWrite, 100);
    writer.execute("PRAGMA journal_mode = WAL; CREATE TABLE t(i INTEGER)");
    Transaction snapshot(reader, Transaction::Kind::Read);
    EXPECT_EQ(reader.integer("SELECT count(*) FROM t"), 0);
    writer.execute("INSERT INTO t VALUES (1)");
    EXPECT_EQ(reader.integer("SELECT count(*) FROM t"), 0);
    snapshot.commit();
    EXPECT_EQ(reader.integer("SELECT count(*) FROM t"), 1);
}

TEST(Sqlite, MistakesAreErrors) {
    TemporaryFolder folder;
    Connection connection(folder / "x", Access::ReadWrite, 100);
    EXPECT_THAT(error_of([&] { connection.execute("SELEKT"); }), HasSubstr("near \"SELEKT\": syntax error"));
    Statement statement(connection, "SELECT ?1 + ?2");
    EXPECT_EQ(error_of([&] { statement.run(1); }), "a statement with 2 parameters was given 1 values: SELECT ?1 + ?2");
}

TEST(Sqlite, AFullFileSaysSo) {
    TemporaryFolder folder;
    Connection connection(folder / "x", Access::ReadWrite, 100);
    connection.execute("PRAGMA max_page_count = 8; CREATE TABLE t(s TEXT)");
    Statement insert(connection, "INSERT INTO t VALUES (?1)");
    const std::string message = error_of([&] {
        for (int i = 0; i < 1000; i++) {
            insert.run(std::string(1000, 'x'));
        }
    });
    EXPECT_EQ(message, "no space left to write the database " + (folder / "x").string() +
                           "; everything recorded before is kept: free some space and run the same command again");
    EXPECT_GT(connection.integer("SELECT count(*) FROM t"), 5);
}

}  // namespace
}  // namespace atalla
