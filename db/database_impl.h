// What the parts of Database share: the connection, its lock, and the queries that several of them make.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "db/database.h"
#include "db/export.h"
#include "db/rows.h"
#include "db/sqlite.h"
#include "isa/error.h"

namespace atalla {

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
        sqlite::Statement rows(connection,
                               std::string(select_certificates) +
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
    std::vector<StoredTrial> all_readable(sqlite::Statement &rows) const {
        std::vector<StoredTrial> trials;
        while (rows.step())
            if (std::optional<StoredTrial> trial = readable(rows)) trials.push_back(std::move(*trial));
        return trials;
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

}  // namespace atalla
