#include "db/database.h"

#include <fmt/format.h>
#include <unistd.h>
#include <chrono>
#include <istream>
#include <mutex>
#include <optional>
#include <ostream>
#include <random>
#include <utility>

#include "db/export.h"
#include "db/local_disk.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/sqlite.h"
#include "isa/error.h"

namespace atalla {

namespace {

int64_t milliseconds_now() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string new_run_id() {
    std::random_device device;
    return fmt::format("{:08x}{:08x}", device() & 0xffffffffu, device() & 0xffffffffu);
}

void add(MergeReport &report, RowWriter &writer, const StoredTrial &trial) {
    std::string conflict;
    const Stored stored = writer.store(trial, &conflict);
    report.read++;
    report.added += stored == Stored::Added;
    report.changed += stored == Stored::Changed;
    if (!conflict.empty()) {
        report.conflicts.push_back(conflict);
    }
}

}  // namespace

struct Database::Impl {
    mutable std::mutex mutex;
    mutable sqlite::Connection connection;

    Impl(const std::filesystem::path &file, sqlite::Access access, int busy) : connection(file, access, busy) {}

    // One transaction, all or nothing. The writer stays for the next one: preparing its statements takes longer than
    // storing a row. After an error it goes, since its cursors may be open.
    void write(const std::function<void(RowWriter &)> &rows) {
        try {
            if (!writer_) {
                writer_.emplace(connection);
            }
            sqlite::Transaction transaction(connection);
            rows(*writer_);
            transaction.commit();
        } catch (...) {
            writer_.reset();
            throw;
        }
    }

    // All machines and runs, for export and merge; the caller holds a snapshot.
    void visit_machines(const std::function<void(const MachineName &)> &visit) const {
        sqlite::Statement rows(connection, "SELECT fingerprint, name FROM machine ORDER BY fingerprint");
        while (rows.step()) {
            visit({rows.text(0), rows.text(1)});
        }
    }
    void visit_runs(const std::function<void(const TuningRun &)> &visit) const {
        sqlite::Statement rows(connection, std::string(select_runs) + " ORDER BY run.id");
        while (rows.step()) {
            visit(read_run(rows));
        }
    }
    void visit_certificates(const std::function<void(const Certificate &)> &visit) const {
        sqlite::Statement rows(connection, std::string(select_certificates) +
                                               " ORDER BY workload.op, workload.description, machine.fingerprint, compiler.fingerprint");
        while (rows.step()) {
            visit(read_certificate(rows));
        }
    }
    void visit_trials(const TrialFilter &filter, const std::function<void(const StoredTrial &)> &visit) const {
        sqlite::Statement rows(connection, std::string(select_trials) + where_filter +
                                               " ORDER BY workload.op, workload.description, machine.fingerprint,"
                                               " compiler.fingerprint, trial.point");
        bind_filter(rows, filter);
        while (rows.step()) {
            if (const std::optional<StoredTrial> trial = readable(rows)) {
                visit(*trial);
            }
        }
    }
    // A row that another program damaged is noted and left out: it must not keep the others from being used.
    std::optional<StoredTrial> readable(const sqlite::Statement &row) const {
        try {
            return read_trial(row);
        } catch (const Error &error) {
            unreadable.push_back(error.what());
            return std::nullopt;
        }
    }
    mutable std::vector<std::string> unreadable;
    // What the view says of this key, by the index of the verified trials instead of a pass over all of them.
    std::optional<StoredTrial> winner(const TrialKey &key) const {
        sqlite::Statement row(connection, std::string(select_trials) + where_key +
                                              " AND trial.status = 'ok' AND trial.verification = 1"
                                              " ORDER BY trial.cycles, trial.point");
        row.bind(key.op, key.workload, key.machine, key.compiler);
        while (row.step()) {
            if (std::optional<StoredTrial> trial = readable(row)) {
                return trial;
            }
        }
        return std::nullopt;
    }
    void verification(const TrialKey &key, const Point &point, Verification verification, const std::string &differs) {
        const std::scoped_lock lock(mutex);
        write([&](RowWriter &writer) {
            std::optional<StoredTrial> known = writer.find(key, point);
            if (!known) {
                throw Error(fmt::format("the database {} has no trial of {} {} at {} to mark", connection.file().string(),
                                        key.op, key.workload, point.assignments()));
            }
            known->verification = verification;
            known->differs = differs;
            writer.store(*known);
        });
    }

private:
    std::optional<RowWriter> writer_;
};

Database::Database(const std::filesystem::path &file, Access access, int busy_milliseconds) {
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    if (std::filesystem::is_directory(file)) {
        throw Error(fmt::format("cannot open the database {}: it is a folder", file.string()));
    }
    if (access == Access::ReadOnly && !std::filesystem::exists(file)) {
        throw Error(fmt::format("there is no database at {}; name another with --db, or tune something first", file.string()));
    }
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (failure && !std::filesystem::is_directory(folder)) {
        throw Error(fmt::format("cannot make the folder {} for the database: {}", folder.string(), failure.message()));
    }
    require_local_disk(folder);
    const bool write = access == Access::ReadWrite;
    impl_ = std::make_unique<Impl>(file, write ? sqlite::Access::ReadWrite : sqlite::Access::ReadOnly, busy_milliseconds);
    sqlite::Connection &connection = impl_->connection;
    const auto latest = static_cast<int64_t>(migrations().size());
    const int64_t version = checked_version(connection, latest);
    if (write) {
        configure(connection, busy_milliseconds);
        migrate(connection, migrations());
    } else if (version < latest) {
        throw Error(
            fmt::format("the database {} has version {} and this program reads version {}: open it once for writing, "
                        "which brings it up to date",
                        file.string(), version, latest));
    }
}

Database::~Database() = default;
Database::Database(Database &&) noexcept = default;
Database &Database::operator=(Database &&) noexcept = default;

const std::filesystem::path &Database::file() const { return impl_->connection.file(); }

std::string Database::begin_run(const TuningRun &run) {
    const std::scoped_lock lock(impl_->mutex);
    TuningRun row = run;
    row.id = run.id.empty() ? new_run_id() : run.id;
    row.host = run.host.empty() ? host_name() : run.host;
    row.started = run.started ? run.started : milliseconds_now();
    row.outcome = run.outcome.empty() ? "running" : run.outcome;
    impl_->write([&](RowWriter &writer) { writer.store(row); });
    return row.id;
}

void Database::end_run(const std::string &id, const std::string &outcome) {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Statement statement(impl_->connection, "UPDATE run SET ended = ?2, outcome = ?3 WHERE id = ?1");
    statement.run(id, milliseconds_now(), outcome);
}

std::vector<TuningRun> Database::runs_of(const TrialKey &key) const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Statement rows(impl_->connection, std::string(select_runs) + where_key + " ORDER BY run.started, run.id");
    rows.bind(key.op, key.workload, key.machine, key.compiler);
    std::vector<TuningRun> runs;
    while (rows.step()) {
        runs.push_back(read_run(rows));
    }
    return runs;
}

void Database::name_machine(const std::string &fingerprint, const std::string &name) {
    const std::scoped_lock lock(impl_->mutex);
    impl_->write([&](RowWriter &writer) { writer.name_machine(fingerprint, name); });
}

void Database::record_trial(const TrialKey &key, const Trial &trial, const std::string &run) {
    const std::scoped_lock lock(impl_->mutex);
    impl_->write([&](RowWriter &writer) { writer.store({key, trial, Verification::Unverified, "", run, milliseconds_now()}); });
}

void Database::record_certificate(const Certificate &certificate) {
    const std::scoped_lock lock(impl_->mutex);
    impl_->write([&](RowWriter &writer) { writer.store(certificate); });
}

std::optional<Certificate> Database::certificate(const TrialKey &key) const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Statement row(impl_->connection, std::string(select_certificates) + where_key);
    row.bind(key.op, key.workload, key.machine, key.compiler);
    return row.step() ? std::optional(read_certificate(row)) : std::nullopt;
}

std::vector<StoredTrial> Database::trials_of(const TrialKey &key) const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Statement rows(impl_->connection, std::string(select_trials) + where_key + " ORDER BY trial.point");
    rows.bind(key.op, key.workload, key.machine, key.compiler);
    std::vector<StoredTrial> trials;
    while (rows.step()) {
        if (std::optional<StoredTrial> trial = impl_->readable(rows)) {
            trials.push_back(std::move(*trial));
        }
    }
    return trials;
}

std::optional<StoredTrial> Database::find_trial(const TrialKey &key, const Point &point) const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Statement row(impl_->connection, std::string(select_trials) + where_key + " AND trial.point = ?5");
    row.bind(key.op, key.workload, key.machine, key.compiler, point.text());
    return row.step() ? impl_->readable(row) : std::nullopt;
}

void Database::mark_verified(const TrialKey &key, const Point &point) {
    impl_->verification(key, point, Verification::Verified, "");
}

void Database::mark_differs(const TrialKey &key, const Point &point, const std::string &what) {
    impl_->verification(key, point, Verification::Differs, what);
}

std::optional<StoredTrial> Database::winner(const TrialKey &key) const {
    const std::scoped_lock lock(impl_->mutex);
    return impl_->winner(key);
}

std::vector<StoredTrial> Database::related_winners(const TrialKey &key) const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Statement rows(impl_->connection,
                           std::string(select_trials) +
                               " WHERE workload.op = ?1 AND workload.description = ?2 AND NOT (machine.fingerprint = ?3 AND"
                               " compiler.fingerprint = ?4) AND trial.id = (SELECT best.id FROM trial AS best WHERE"
                               " best.workload = trial.workload AND best.machine = trial.machine AND best.compiler = trial.compiler"
                               " AND best.status = 'ok' AND best.verification = 1 ORDER BY best.cycles, best.point LIMIT 1)"
                               " AND trial.status = 'ok' AND trial.verification = 1"
                               " ORDER BY trial.cycles, machine.fingerprint, compiler.fingerprint");
    rows.bind(key.op, key.workload, key.machine, key.compiler);
    std::vector<StoredTrial> trials;
    while (rows.step()) {
        if (std::optional<StoredTrial> trial = impl_->readable(rows)) {
            trials.push_back(std::move(*trial));
        }
    }
    return trials;
}

std::vector<KeySummary> Database::list(const TrialFilter &filter) const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Transaction snapshot(impl_->connection, sqlite::Transaction::Kind::Read);
    sqlite::Statement rows(impl_->connection,
                           std::string("SELECT workload.op, workload.description, machine.fingerprint, compiler.fingerprint,"
                                       " machine.name, count(*), sum(status = 'ok'), sum(verification = 1),"
                                       " coalesce(min(CASE WHEN status = 'ok' AND verification >= 0 THEN cycles END), 0),"
                                       " workload.id, machine.id, compiler.id"
                                       " FROM trial JOIN workload ON workload.id = trial.workload"
                                       " JOIN machine ON machine.id = trial.machine"
                                       " JOIN compiler ON compiler.id = trial.compiler") +
                               where_filter +
                               " GROUP BY workload.id, machine.id, compiler.id ORDER BY workload.op, workload.description,"
                               " machine.fingerprint, compiler.fingerprint");
    sqlite::Statement bound(impl_->connection,
                            "SELECT bound_cycles FROM run WHERE workload = ?1 AND machine = ?2 AND compiler = ?3 AND"
                            " bound_cycles > 0 ORDER BY started DESC, id DESC LIMIT 1");
    sqlite::Statement outcome(impl_->connection,
                              "SELECT outcome FROM run WHERE workload = ?1 AND machine = ?2 AND compiler = ?3"
                              " ORDER BY started DESC, id DESC LIMIT 1");
    sqlite::Statement certificate(impl_->connection, std::string(select_certificates) +
                                                         " WHERE workload.id = ?1 AND machine.id = ?2 AND compiler.id = ?3");
    bind_filter(rows, filter);
    std::vector<KeySummary> keys;
    while (rows.step()) {
        KeySummary key;
        key.key = {rows.text(0), rows.text(1), rows.text(2), rows.text(3)};
        key.machine_name = rows.text(4);
        key.trials = rows.integer(5);
        key.ok = rows.integer(6);
        key.verified = rows.integer(7);
        key.best_cycles = rows.integer(8);
        key.winner = impl_->winner(key.key);
        bound.bind(rows.integer(9), rows.integer(10), rows.integer(11));
        key.bound_cycles = bound.step() ? bound.integer(0) : 0;
        certificate.bind(rows.integer(9), rows.integer(10), rows.integer(11));
        if (certificate.step()) {
            key.certificate = read_certificate(certificate);
        }
        outcome.bind(rows.integer(9), rows.integer(10), rows.integer(11));
        if (outcome.step()) {
            const std::string how = outcome.text(0);
            key.unfinished = how == "running" || how == "interrupted";
        }
        keys.push_back(std::move(key));
    }
    return keys;
}

std::vector<StoredTrial> Database::select(const TrialFilter &filter) const {
    std::vector<StoredTrial> trials;
    for_each(filter, [&](const StoredTrial &trial) { trials.push_back(trial); });
    return trials;
}

void Database::for_each(const TrialFilter &filter, const std::function<void(const StoredTrial &)> &visit) const {
    const std::scoped_lock lock(impl_->mutex);
    impl_->visit_trials(filter, visit);
}

void Database::export_to(std::ostream &out, const TrialFilter &filter, bool results_only) const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Transaction snapshot(impl_->connection, sqlite::Transaction::Kind::Read);
    const bool everything = filter.admits_all();
    const auto admits = [&](const TrialKey &key) {
        return (filter.op.empty() || filter.op == key.op) && (filter.workload.empty() || filter.workload == key.workload) &&
               (filter.compiler.empty() || filter.compiler == key.compiler);
    };
    out << export_header() << '\n';
    impl_->visit_machines([&](const MachineName &row) {
        if (filter.machine.empty() || filter.machine == row.name || filter.machine == row.fingerprint) {
            out << export_line(row) << '\n';
        }
    });
    if (!results_only) {
        impl_->visit_runs([&](const TuningRun &row) {
            if (everything || admits(row.key)) {
                out << export_line(row) << '\n';
            }
        });
    }
    impl_->visit_certificates([&](const Certificate &row) {
        if (everything || (admits(row.key) && filter.machine.empty())) {
            out << export_line(row) << '\n';
        }
    });
    impl_->visit_trials(filter, [&](StoredTrial row) {
        if (results_only) {
            row.run.clear();
            row.when = 0;
            row.trial.seconds_lower = row.trial.seconds_simulate = 0;
        }
        out << export_line(row) << '\n';
    });
}

MergeReport Database::import_from(std::istream &in, const std::string &name) {
    const std::scoped_lock lock(impl_->mutex);
    MergeReport report;
    int64_t number = 1;
    try {
        impl_->write([&](RowWriter &writer) {
            std::string line;
            std::getline(in, line);
            check_header(line);
            while (std::getline(in, line)) {
                number++;
                const auto row = parse_line(line);
                if (const auto *machine = std::get_if<MachineName>(&row)) {
                    writer.name_machine(machine->fingerprint, machine->name);
                } else if (const auto *run = std::get_if<TuningRun>(&row)) {
                    writer.store(*run);
                } else if (const auto *certificate = std::get_if<Certificate>(&row)) {
                    writer.store(*certificate);
                } else {
                    add(report, writer, std::get<StoredTrial>(row));
                }
            }
        });
    } catch (const Error &error) {
        throw Error(fmt::format("{}:{}: {}; nothing was taken over", name, number, error.what()));
    }
    return report;
}

MergeReport Database::merge(const Database &other) {
    if (impl_ == other.impl_) {
        throw Error(fmt::format("the database {} cannot be merged with itself", file().string()));
    }
    const std::scoped_lock lock(impl_->mutex, other.impl_->mutex);
    sqlite::Transaction snapshot(other.impl_->connection, sqlite::Transaction::Kind::Read);
    MergeReport report;
    impl_->write([&](RowWriter &writer) {
        other.impl_->visit_machines([&](const MachineName &row) { writer.name_machine(row.fingerprint, row.name); });
        other.impl_->visit_runs([&](const TuningRun &row) { writer.store(row); });
        other.impl_->visit_certificates([&](const Certificate &row) { writer.store(row); });
        other.impl_->visit_trials({}, [&](const StoredTrial &row) { add(report, writer, row); });
    });
    return report;
}

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
    const auto bytes = [&] { return connection.integer("PRAGMA page_count").value_or(0) * connection.integer("PRAGMA page_size").value_or(0); };
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
