// Export, import and merge.
#include <fmt/format.h>
#include <istream>
#include <mutex>
#include <ostream>

#include "db/database_impl.h"
#include "db/export.h"

namespace atalla {

namespace {

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

}  // namespace atalla
