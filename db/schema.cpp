#include "db/schema.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <chrono>
#include <optional>
#include <thread>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr const char *tables = R"sql(
CREATE TABLE meta(
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES
    ('content', 'tuning trials of atalla-tune; docs/database.md describes the tables'),
    ('created', strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));

CREATE TABLE machine(
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE compiler(
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE workload(
    id INTEGER PRIMARY KEY,
    op TEXT NOT NULL,
    description TEXT NOT NULL,
    UNIQUE(op, description)
) STRICT;

CREATE TABLE run(
    id TEXT PRIMARY KEY,
    workload INTEGER NOT NULL REFERENCES workload(id),
    machine INTEGER NOT NULL REFERENCES machine(id),
    compiler INTEGER NOT NULL REFERENCES compiler(id),
    host TEXT NOT NULL,
    strategy TEXT NOT NULL,
    seed INTEGER NOT NULL,
    bound_cycles INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK(outcome IN ('running', 'finished', 'interrupted', 'error'))
) STRICT;
CREATE INDEX run_of_key ON run(workload, machine, compiler, started);

CREATE TABLE trial(
    id INTEGER PRIMARY KEY,
    workload INTEGER NOT NULL REFERENCES workload(id),
    machine INTEGER NOT NULL REFERENCES machine(id),
    compiler INTEGER NOT NULL REFERENCES compiler(id),
    point TEXT NOT NULL CHECK(json_valid(point)),
    status TEXT NOT NULL CHECK(status IN ('ok', 'failed', 'refused', 'timed-out')),
    cycles INTEGER NOT NULL,
    reason TEXT NOT NULL,
    counters TEXT NOT NULL CHECK(json_valid(counters)),
    seconds_lower REAL NOT NULL,
    seconds_simulate REAL NOT NULL,
    verification INTEGER NOT NULL CHECK(verification IN (-1, 0, 1)),
    differs TEXT NOT NULL,
    run TEXT NOT NULL,
    made INTEGER NOT NULL,
    UNIQUE(workload, machine, compiler, point)
) STRICT;
)sql";

constexpr const char *winner_view = R"sql(
CREATE INDEX trial_verified ON trial(workload, machine, compiler, cycles, point)
    WHERE status = 'ok' AND verification = 1;

CREATE VIEW winner AS
SELECT trial.id AS trial, trial.workload AS workload, trial.machine AS machine, trial.compiler AS compiler,
       workload.op AS op, workload.description AS description, machine.name AS machine_name,
       machine.fingerprint AS machine_fingerprint, compiler.fingerprint AS compiler_fingerprint,
       trial.point AS point, trial.cycles AS cycles
FROM (SELECT *, row_number() OVER (PARTITION BY workload, machine, compiler ORDER BY cycles, point) AS place
      FROM trial WHERE status = 'ok' AND verification = 1) AS trial
JOIN workload ON workload.id = trial.workload
JOIN machine ON machine.id = trial.machine
JOIN compiler ON compiler.id = trial.compiler
WHERE place = 1;
)sql";

// What is proven of a key, and each winner with it.
constexpr const char *certificates = R"sql(
CREATE TABLE certificate(
    workload INTEGER NOT NULL REFERENCES workload(id),
    machine INTEGER NOT NULL REFERENCES machine(id),
    compiler INTEGER NOT NULL REFERENCES compiler(id),
    bound_cycles INTEGER NOT NULL CHECK(bound_cycles >= 0),
    bound_by TEXT NOT NULL,
    least_cycles INTEGER NOT NULL CHECK(least_cycles >= 0),
    PRIMARY KEY(workload, machine, compiler)
) STRICT, WITHOUT ROWID;

CREATE VIEW proven_winner AS
SELECT winner.*, certificate.bound_cycles, certificate.bound_by,
       CASE WHEN certificate.bound_cycles > 0 THEN 1.0 * winner.cycles / certificate.bound_cycles - 1 END AS gap,
       coalesce(certificate.least_cycles > 0 AND winner.cycles <= certificate.least_cycles, 0) AS optimal_in_space
FROM winner LEFT JOIN certificate ON certificate.workload = winner.workload AND certificate.machine = winner.machine
    AND certificate.compiler = winner.compiler;
)sql";

// The same view: a trial that took no cycles is a damaged row, and no winner. Views that name it stay as they are.
constexpr const char *winners_that_ran = R"sql(
DROP VIEW winner;

CREATE VIEW winner AS
SELECT trial.id AS trial, trial.workload AS workload, trial.machine AS machine, trial.compiler AS compiler,
       workload.op AS op, workload.description AS description, machine.name AS machine_name,
       machine.fingerprint AS machine_fingerprint, compiler.fingerprint AS compiler_fingerprint,
       trial.point AS point, trial.cycles AS cycles
FROM (SELECT *, row_number() OVER (PARTITION BY workload, machine, compiler ORDER BY cycles, point) AS place
      FROM trial WHERE status = 'ok' AND verification = 1 AND cycles > 0) AS trial
JOIN workload ON workload.id = trial.workload
JOIN machine ON machine.id = trial.machine
JOIN compiler ON compiler.id = trial.compiler
WHERE place = 1;
)sql";

}  // namespace

const std::vector<Migration> &migrations() {
    static const std::vector<Migration> steps = {
        {"tables", tables},
        {"view of the verified winners", winner_view},
        {"what is proven of winners", certificates},
        {"winners took cycles", winners_that_ran},
    };
    return steps;
}

int64_t checked_version(sqlite::Connection &connection, int64_t latest) {
    // One snapshot: between two reads another process may create the tables.
    std::optional<sqlite::Transaction> snapshot;
    if (!connection.in_transaction()) {
        snapshot.emplace(connection, sqlite::Transaction::Kind::Read);
    }
    const int64_t version = connection.integer("PRAGMA user_version").value_or(0);
    const int64_t owner = connection.integer("PRAGMA application_id").value_or(0);
    const int64_t objects = connection.integer("SELECT count(*) FROM sqlite_master").value_or(0);
    const std::string name = connection.file().string();
    if (owner != application_id && (owner != 0 || objects != 0)) {
        throw Error(fmt::format("{} is not a tuning database but the database of another program", name));
    }
    if (version < 0) {
        throw Error(
            fmt::format("the database {} has version {}, which no atalla-tune writes: another program must have changed it; "
                        "move it away and merge your exports into a new one",
                        name, version));
    }
    if (version > latest) {
        throw Error(
            fmt::format("the database {} has version {}, written by a newer atalla-tune; this one knows versions up "
                        "to {}: update it, or use another file",
                        name, version, latest));
    }
    return version;
}

void migrate(sqlite::Connection &connection, const std::vector<Migration> &steps) {
    const auto latest = static_cast<int64_t>(steps.size());
    if (checked_version(connection, latest) == latest) {
        return;
    }
    sqlite::Transaction transaction(connection);
    // Another process may have been here between the check and the lock.
    for (int64_t version = checked_version(connection, latest); version < latest; version++) {
        if (version == 0) {
            connection.execute(fmt::format("PRAGMA application_id = {}", application_id));
        }
        connection.execute(steps[version].sql);
        connection.execute(fmt::format("PRAGMA user_version = {}", version + 1));
    }
    transaction.commit();
}

void configure(sqlite::Connection &connection, int busy_milliseconds) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(busy_milliseconds);
    // SQLite does not call its busy handler while the journal mode changes, so the waiting is done here.
    int code;
    while ((code = sqlite3_exec(connection.handle(), "PRAGMA journal_mode = WAL", nullptr, nullptr, nullptr)) != SQLITE_OK) {
        if ((code & 0xff) != SQLITE_BUSY || Clock::now() >= deadline) {
            connection.fail(code);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    connection.execute("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
}

}  // namespace atalla
