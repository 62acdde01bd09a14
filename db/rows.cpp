#include "db/rows.h"

#include <fmt/format.h>
#include <cmath>

#include "db/bounded_json.h"
#include "db/join.h"
#include "isa/error.h"

namespace atalla {

namespace {

constexpr const char *write_trial = R"sql(
INSERT INTO trial(workload, machine, compiler, point, status, cycles, reason, counters, seconds_lower, seconds_simulate,
                  verification, differs, run, made)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT(workload, machine, compiler, point) DO UPDATE SET
    status = ?5, cycles = ?6, reason = ?7, counters = ?8, seconds_lower = ?9, seconds_simulate = ?10,
    verification = ?11, differs = ?12, run = ?13, made = ?14
)sql";

constexpr const char *write_run = R"sql(
INSERT OR REPLACE INTO run(id, workload, machine, compiler, host, strategy, seed, bound_cycles, started, ended, outcome)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
)sql";

constexpr const char *write_certificate = R"sql(
INSERT OR REPLACE INTO certificate(workload, machine, compiler, bound_cycles, bound_by, least_cycles) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
)sql";

double finite(double seconds) { return std::isfinite(seconds) ? seconds : 0; }

// What a trial is after a trip through the database, so that joining it with its own row changes nothing.
StoredTrial normalized(StoredTrial stored) {
    Trial &trial = stored.trial;
    trial.cycles = trial.status == Trial::Ok || trial.status == Trial::TimedOut ? trial.cycles : 0;
    trial.reason = trial.status == Trial::Ok ? "" : valid_text(trial.reason);
    trial.counters = parse_bounded_json(trial.counters.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    trial.seconds_lower = finite(trial.seconds_lower);
    trial.seconds_simulate = finite(trial.seconds_simulate);
    stored.differs = stored.verification == Verification::Differs ? valid_text(stored.differs) : "";
    return stored;
}

bool equal(const StoredTrial &one, const StoredTrial &other) {
    const Trial &a = one.trial, &b = other.trial;
    return a.status == b.status && a.cycles == b.cycles && a.reason == b.reason && a.counters == b.counters &&
           a.seconds_lower == b.seconds_lower && a.seconds_simulate == b.seconds_simulate &&
           one.verification == other.verification && one.differs == other.differs && one.run == other.run &&
           one.when == other.when;
}

}  // namespace

const char *const select_trials = R"sql(
SELECT workload.op, workload.description, machine.fingerprint, compiler.fingerprint, trial.point, trial.status,
       trial.cycles, trial.reason, trial.counters, trial.seconds_lower, trial.seconds_simulate, trial.verification,
       trial.differs, trial.run, trial.made
FROM trial JOIN workload ON workload.id = trial.workload JOIN machine ON machine.id = trial.machine
JOIN compiler ON compiler.id = trial.compiler
)sql";

const char *const select_runs = R"sql(
SELECT workload.op, workload.description, machine.fingerprint, compiler.fingerprint, run.id, run.host, run.strategy,
       run.seed, run.bound_cycles, run.started, run.ended, run.outcome
FROM run JOIN workload ON workload.id = run.workload JOIN machine ON machine.id = run.machine
JOIN compiler ON compiler.id = run.compiler
)sql";

const char *const select_certificates = R"sql(
SELECT workload.op, workload.description, machine.fingerprint, compiler.fingerprint, certificate.bound_cycles,
       certificate.bound_by, certificate.least_cycles
FROM certificate JOIN workload ON workload.id = certificate.workload JOIN machine ON machine.id = certificate.machine
JOIN compiler ON compiler.id = certificate.compiler
)sql";

const char *const where_key =
    " WHERE workload.op = ?1 AND workload.description = ?2 AND machine.fingerprint = ?3 AND compiler.fingerprint = ?4 ";

const char *const where_filter =
    " WHERE (?1 = '' OR workload.op = ?1) AND (?2 = '' OR workload.description = ?2)"
    " AND (?3 = '' OR machine.fingerprint = ?3 OR machine.name = ?3) AND (?4 = '' OR compiler.fingerprint = ?4)"
    " AND (?5 = '' OR trial.status = ?5) ";

void bind_filter(sqlite::Statement &statement, const TrialFilter &filter) {
    statement.bind(filter.op, filter.workload, filter.machine, filter.compiler,
                   filter.status ? status_name(*filter.status) : "");
}

StoredTrial read_trial(const sqlite::Statement &row) {
    StoredTrial stored;
    stored.key = {row.text(0), row.text(1), row.text(2), row.text(3)};
    try {
        stored.trial.point = Point::parse(row.text(4));
        stored.trial.status = parse_status(row.text(5));
        stored.trial.counters = parse_bounded_json(row.text(8));
        stored.trial.cycles = row.integer(6);
        if (stored.trial.status == Trial::Ok && stored.trial.cycles <= 0)
            throw Error(fmt::format("it ran for {} cycles", stored.trial.cycles));
    } catch (const Error &error) {
        throw Error(fmt::format("a trial of {} {} in the database cannot be read, another program must have changed it: {}",
                                stored.key.op, stored.key.workload, error.what()));
    }
    stored.trial.reason = row.text(7);
    stored.trial.seconds_lower = row.real(9);
    stored.trial.seconds_simulate = row.real(10);
    stored.verification = static_cast<Verification>(row.integer(11));
    stored.differs = row.text(12);
    stored.run = row.text(13);
    stored.when = row.integer(14);
    return stored;
}

TuningRun read_run(const sqlite::Statement &row) {
    TuningRun run;
    run.key = {row.text(0), row.text(1), row.text(2), row.text(3)};
    run.id = row.text(4);
    run.host = row.text(5);
    run.strategy = row.text(6);
    run.seed = static_cast<uint64_t>(row.integer(7));
    run.bound_cycles = row.integer(8);
    run.started = row.integer(9);
    run.ended = row.integer(10);
    run.outcome = row.text(11);
    return run;
}

Certificate read_certificate(const sqlite::Statement &row) {
    return {{row.text(0), row.text(1), row.text(2), row.text(3)}, row.integer(4), row.text(5), row.integer(6)};
}

RowWriter::RowWriter(sqlite::Connection &connection)
    : add_workload_(connection, "INSERT OR IGNORE INTO workload(op, description) VALUES (?1, ?2)"),
      add_machine_(connection, "INSERT OR IGNORE INTO machine(fingerprint) VALUES (?1)"),
      add_compiler_(connection, "INSERT OR IGNORE INTO compiler(fingerprint) VALUES (?1)"),
      find_workload_(connection, "SELECT id FROM workload WHERE op = ?1 AND description = ?2"),
      find_machine_(connection, "SELECT id FROM machine WHERE fingerprint = ?1"),
      find_compiler_(connection, "SELECT id FROM compiler WHERE fingerprint = ?1"),
      find_trial_(connection, std::string(select_trials) + where_key + " AND trial.point = ?5"),
      write_trial_(connection, write_trial),
      find_run_(connection, std::string(select_runs) + " WHERE run.id = ?1"),
      write_run_(connection, write_run),
      find_certificate_(connection, std::string(select_certificates) + where_key),
      write_certificate_(connection, write_certificate),
      name_machine_(connection,
                    "UPDATE machine SET name = ?2 WHERE fingerprint = ?1 AND (name = '' OR ?2 < name) AND ?2 <> ''") {}

RowWriter::Ids RowWriter::ids(const TrialKey &key) {
    const auto id = [](sqlite::Statement &add, sqlite::Statement &find, const auto &...values) {
        find.bind(values...);
        if (!find.step()) {
            add.run(values...);
            find.bind(values...);
            find.step();
        }
        const int64_t result = find.integer(0);
        find.bind(values...);  // rewinds: an open cursor would keep the transaction from ending
        return result;
    };
    return {id(add_workload_, find_workload_, key.op, key.workload), id(add_machine_, find_machine_, key.machine),
            id(add_compiler_, find_compiler_, key.compiler)};
}

Stored RowWriter::store(const StoredTrial &trial, std::string *conflict) {
    StoredTrial row = normalized(trial);
    const std::string point = row.trial.point.text();
    const TrialKey &key = row.key;
    Stored outcome = Stored::Added;
    if (const std::optional<StoredTrial> found = find(key, row.trial.point)) {
        const StoredTrial &known = *found;
        if (conflict && in_conflict(known, row)) {
            *conflict = fmt::format("{} {} at {} on machine {}: {} and {} cycles", key.op, key.workload,
                                    row.trial.point.assignments(), key.machine, std::min(known.trial.cycles, row.trial.cycles),
                                    std::max(known.trial.cycles, row.trial.cycles));
        }
        row = join(known, row);
        outcome = equal(row, known) ? Stored::Unchanged : Stored::Changed;
    }
    if (outcome != Stored::Unchanged) {
        const Ids id = ids(key);
        write_trial_.run(id.workload, id.machine, id.compiler, point, status_name(row.trial.status), row.trial.cycles,
                         row.trial.reason, row.trial.counters.dump(), row.trial.seconds_lower, row.trial.seconds_simulate,
                         row.verification, row.differs, row.run, row.when);
    }
    return outcome;
}

std::optional<StoredTrial> RowWriter::find(const TrialKey &key, const Point &point) {
    const std::string text = point.text();
    find_trial_.bind(key.op, key.workload, key.machine, key.compiler, text);
    std::optional<StoredTrial> found;
    if (find_trial_.step()) {
        try {
            found = read_trial(find_trial_);
        } catch (const Error &) {
            // A damaged row is as good as none: what is stored now takes its place.
        }
    }
    find_trial_.bind(key.op, key.workload, key.machine, key.compiler, text);  // rewinds
    return found;
}

void RowWriter::store(const TuningRun &run) {
    TuningRun row = run;
    find_run_.bind(run.id);
    if (find_run_.step()) {
        row = join(read_run(find_run_), run);
    }
    find_run_.bind(run.id);
    const Ids id = ids(row.key);
    write_run_.run(row.id, id.workload, id.machine, id.compiler, row.host, row.strategy, row.seed, row.bound_cycles,
                   row.started, row.ended, row.outcome);
}

void RowWriter::store(const Certificate &certificate) {
    const TrialKey &key = certificate.key;
    Certificate row = certificate;
    row.bound_by = valid_text(row.bound_by);
    find_certificate_.bind(key.op, key.workload, key.machine, key.compiler);
    if (find_certificate_.step()) {
        row = join(read_certificate(find_certificate_), row);
    }
    find_certificate_.bind(key.op, key.workload, key.machine, key.compiler);
    const Ids id = ids(key);
    write_certificate_.run(id.workload, id.machine, id.compiler, row.bound_cycles, row.bound_by, row.least_cycles);
}

void RowWriter::name_machine(const std::string &fingerprint, const std::string &name) {
    add_machine_.run(fingerprint);
    name_machine_.run(fingerprint, valid_text(name));
}

std::string valid_text(const std::string &text) {
    const std::string quoted = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return nlohmann::json::parse(quoted).get<std::string>();
}

}  // namespace atalla
