// Rows of the tuning database as structures: reading them from a query, and storing them by the merge rule.
#pragma once

#include <optional>
#include <string>

#include "db/database.h"
#include "db/sqlite.h"

namespace atalla {

// "SELECT ... FROM trial JOIN ..." with the columns that read_trial expects; a WHERE clause may follow, which can name
// the tables trial, workload, machine and compiler.
extern const char *const select_trials;
StoredTrial read_trial(const sqlite::Statement &row);

// The same for the table run.
extern const char *const select_runs;
TuningRun read_run(const sqlite::Statement &row);

// The same for the table certificate.
extern const char *const select_certificates;
Certificate read_certificate(const sqlite::Statement &row);

// The condition that picks the rows of one key, with parameters op, workload, machine, compiler.
extern const char *const where_key;
// The condition of a TrialFilter; bind with bind_filter.
extern const char *const where_filter;
void bind_filter(sqlite::Statement &statement, const TrialFilter &filter);

enum class Stored { Added, Changed, Unchanged };

// Stores rows inside a transaction of the caller.
class RowWriter {
public:
    explicit RowWriter(sqlite::Connection &connection);

    // Joins the trial with the row that is there. If both are Ok with different cycles, says so in *conflict.
    Stored store(const StoredTrial &trial, std::string *conflict = nullptr);
    std::optional<StoredTrial> find(const TrialKey &key, const Point &point);
    void store(const TuningRun &run);
    void store(const Certificate &certificate);
    // Of two names the first in the alphabet stays.
    void name_machine(const std::string &fingerprint, const std::string &name);

private:
    struct Ids {
        int64_t workload, machine, compiler;
    };
    Ids ids(const TrialKey &key);

    sqlite::Statement add_workload_, add_machine_, add_compiler_, find_workload_, find_machine_, find_compiler_;
    sqlite::Statement find_trial_, write_trial_, find_run_, write_run_, find_certificate_, write_certificate_, name_machine_;
};

// Text as it can be stored and exported: invalid UTF-8 is replaced.
std::string valid_text(const std::string &text);

}  // namespace atalla
