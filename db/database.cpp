#include "db/database.h"

#include <fmt/format.h>
#include <unistd.h>
#include <chrono>
#include <fstream>
#include <random>
#include <string_view>
#include <utility>

#include "db/database_impl.h"
#include "db/local_disk.h"
#include "db/schema.h"

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

}  // namespace

Database::Database(const std::filesystem::path &file, Access access, int busy_milliseconds) {
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    if (std::filesystem::is_directory(file)) {
        throw Error(fmt::format("cannot open the database {}: it is a folder", file.string()));
    }
    if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file)) {
        throw Error(fmt::format("cannot open the database {}: it is a pipe or a device, not a file", file.string()));
    }
    // SQLite takes a file that is shorter than a page for an empty database and writes over it. One of no bytes is.
    constexpr std::string_view magic = "SQLite format 3";
    if (std::error_code unknown; std::filesystem::file_size(file, unknown) > 0 && !unknown) {
        std::string head(magic.size(), ' ');
        std::ifstream(file, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
        if (head != magic && ::access(file.c_str(), R_OK) == 0) {
            throw Error(fmt::format("{} is not a tuning database: the file is not in SQLite's format", file.string()));
        }
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
    return impl_->all_readable(rows);
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
    sqlite::Statement rows(
        impl_->connection,
        std::string(select_trials) +
            " WHERE workload.op = ?1 AND workload.description = ?2 AND NOT (machine.fingerprint = ?3 AND"
            " compiler.fingerprint = ?4) AND trial.id = (SELECT best.id FROM trial AS best WHERE"
            " best.workload = trial.workload AND best.machine = trial.machine AND best.compiler = trial.compiler"
            " AND best.status = 'ok' AND best.verification = 1 AND best.cycles > 0 ORDER BY best.cycles, best.point LIMIT 1)"
            " AND trial.status = 'ok' AND trial.verification = 1"
            " ORDER BY trial.cycles, machine.fingerprint, compiler.fingerprint");
    rows.bind(key.op, key.workload, key.machine, key.compiler);
    return impl_->all_readable(rows);
}

std::vector<KeySummary> Database::list(const TrialFilter &filter) const {
    const std::scoped_lock lock(impl_->mutex);
    sqlite::Transaction snapshot(impl_->connection, sqlite::Transaction::Kind::Read);
    sqlite::Statement rows(
        impl_->connection,
        std::string("SELECT workload.op, workload.description, machine.fingerprint, compiler.fingerprint,"
                    " machine.name, count(*), sum(status = 'ok'), sum(verification = 1),"
                    " coalesce(min(CASE WHEN status = 'ok' AND verification >= 0 AND cycles > 0 THEN cycles END), 0),"
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

}  // namespace atalla
