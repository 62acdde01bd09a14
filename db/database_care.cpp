// What keeps a database in order: deleting, counting, checking, giving space back.
#include <fmt/format.h>
#include <mutex>
#include <utility>

#include "db/database_impl.h"
#include "db/schema.h"

namespace atalla {

int64_t Database::prune(const TrialFilter &filter) {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Connection &connection = impl_->connection;
    sqlite::Transaction transaction(connection);
    sqlite::Statement trials(connection, std::string("DELETE FROM trial WHERE id IN (SELECT trial.id FROM trial"
                                                     " JOIN workload ON workload.id = trial.workload"
                                                     " JOIN machine ON machine.id = trial.machine"
                                                     " JOIN compiler ON compiler.id = trial.compiler") +
                                             where_filter + ")");
    bind_filter(trials, filter);
    while (trials.step()) {
    }
    const int64_t deleted = connection.changes();
    connection.execute(R"sql(
        DELETE FROM run WHERE NOT EXISTS (SELECT 1 FROM trial WHERE trial.workload = run.workload
            AND trial.machine = run.machine AND trial.compiler = run.compiler);
        DELETE FROM certificate WHERE NOT EXISTS (SELECT 1 FROM trial WHERE trial.workload = certificate.workload
            AND trial.machine = certificate.machine AND trial.compiler = certificate.compiler);
        DELETE FROM workload WHERE id NOT IN (SELECT workload FROM trial);
        DELETE FROM machine WHERE id NOT IN (SELECT machine FROM trial);
        DELETE FROM compiler WHERE id NOT IN (SELECT compiler FROM trial);
    )sql");
    transaction.commit();
    return deleted;
}

DatabaseStats Database::stats() const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Connection &connection = impl_->connection;
    sqlite::Transaction snapshot(connection, sqlite::Transaction::Kind::Read);
    const auto number = [&](const std::string &sql) { return connection.integer(sql).value_or(0); };
    DatabaseStats stats;
    stats.version = number("PRAGMA user_version");
    stats.machines = number("SELECT count(*) FROM machine");
    stats.compilers = number("SELECT count(*) FROM compiler");
    stats.workloads = number("SELECT count(*) FROM workload");
    stats.runs = number("SELECT count(*) FROM run");
    stats.trials = number("SELECT count(*) FROM trial");
    stats.winners = number("SELECT count(*) FROM winner");
    stats.ok = number("SELECT count(*) FROM trial WHERE status = 'ok'");
    stats.failed = number("SELECT count(*) FROM trial WHERE status = 'failed'");
    stats.refused = number("SELECT count(*) FROM trial WHERE status = 'refused'");
    stats.timed_out = number("SELECT count(*) FROM trial WHERE status = 'timed-out'");
    stats.differs = number("SELECT count(*) FROM trial WHERE verification = -1");
    stats.bytes = number("PRAGMA page_count") * number("PRAGMA page_size");
    sqlite::Statement seconds(connection, "SELECT total(seconds_lower), total(seconds_simulate) FROM trial");
    seconds.step();
    stats.seconds_lower = seconds.real(0);
    stats.seconds_simulate = seconds.real(1);
    return stats;
}

int64_t Database::vacuum() {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Connection &connection = impl_->connection;
    const auto bytes = [&] {
        return connection.integer("PRAGMA page_count").value_or(0) * connection.integer("PRAGMA page_size").value_or(0);
    };
    const int64_t before = bytes();
    connection.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
    return before - bytes();
}

std::vector<std::string> Database::damage() const {
    std::vector<std::string> found;
    if (const std::string what = integrity(); what != "ok") {
        found.push_back(what);
    }
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Statement rows(impl_->connection, std::string(select_trials) + " ORDER BY trial.id");
    sqlite::Statement ids(impl_->connection, "SELECT id FROM trial ORDER BY id");
    try {
        while (rows.step() && ids.step()) {
            try {
                read_trial(rows);
            } catch (const Error &error) {
                found.push_back(fmt::format("row {}: {}", ids.integer(0), error.what()));
            }
        }
    } catch (const Error &error) {
        found.push_back(error.what());
    }
    return found;
}

std::vector<std::string> Database::take_unreadable() {
    const std::scoped_lock lock(impl_->mutex);
    return std::exchange(impl_->unreadable, {});
}

std::string Database::integrity() const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Statement rows(impl_->connection, "PRAGMA integrity_check(5)");
    std::string result;
    while (rows.step()) {
        result += (result.empty() ? "" : "; ") + rows.text(0);
    }
    return result;
}

}  // namespace atalla
