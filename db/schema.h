// The tables of the tuning database, and the steps that bring an older file to the current version.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/sqlite.h"

namespace atalla {

// Step i (from 0) turns version i into version i + 1. A published step never changes; new ones are appended.
struct Migration {
    std::string summary;
    std::string sql;
};
const std::vector<Migration> &migrations();

// SQLite's application id of a tuning database, "Atla" in ASCII: tells our files from those of other programs.
constexpr int64_t application_id = 0x41746C61;

// The version of an open file; 0 for an empty one. Error if it is another program's database, or newer than `latest`.
int64_t checked_version(sqlite::Connection &connection, int64_t latest);

// Applies the missing steps in one transaction. Safe if several processes try at once.
void migrate(sqlite::Connection &connection, const std::vector<Migration> &steps);

// Sets the write-ahead log and the durability that the database promises. Waits for other processes that do the same.
void configure(sqlite::Connection &connection, int busy_milliseconds);

}  // namespace atalla
