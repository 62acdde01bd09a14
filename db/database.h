// The tuning database: every trial a row the moment it ends, winners that were verified, merges that commute.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/certificate.h"
#include "db/trial.h"

namespace atalla {

enum class Verification { Differs = -1, Unverified = 0, Verified = 1 };

// A trial as the database holds it.
struct StoredTrial {
    TrialKey key;
    Trial trial;
    Verification verification = Verification::Unverified;
    std::string differs;  // what the verification found, if it differs
    std::string run;      // TuningRun::id of the run that made it
    int64_t when = 0;     // milliseconds since 1970, UTC
};

// One call of the tuner.
struct TuningRun {
    std::string id;  // 16 random hex digits
    TrialKey key;
    std::string host;
    std::string strategy;
    uint64_t seed = 0;
    int64_t bound_cycles = 0;  // 0: unknown
    int64_t started = 0;       // milliseconds since 1970, UTC
    int64_t ended = 0;         // 0: under way, or killed
    std::string outcome;       // "running", "finished", "interrupted", "error"
};

// Which rows a command means; an empty member admits everything.
struct TrialFilter {
    std::string op;        // exact
    std::string workload;  // exact
    std::string machine;   // name or fingerprint
    std::string compiler;  // fingerprint
    std::optional<Trial::Status> status;

    bool admits_all() const { return op.empty() && workload.empty() && machine.empty() && compiler.empty() && !status; }
};

// One key with what is known about it, for listings.
struct KeySummary {
    TrialKey key;
    std::string machine_name;
    int64_t trials = 0, ok = 0, verified = 0;
    int64_t best_cycles = 0;            // of all Ok trials that do not differ, 0: none
    std::optional<StoredTrial> winner;  // fastest verified
    int64_t bound_cycles = 0;           // of the latest run that knew it, 0: unknown
    std::optional<Certificate> certificate;
    bool unfinished = false;  // its latest run was interrupted, or neither finished nor failed
};

struct DatabaseStats {
    int64_t version = 0;
    int64_t machines = 0, compilers = 0, workloads = 0, runs = 0, trials = 0, winners = 0;
    int64_t ok = 0, failed = 0, refused = 0, timed_out = 0, differs = 0;
    int64_t bytes = 0;  // of the file, without the write-ahead log
    double seconds_lower = 0, seconds_simulate = 0;
};

struct MergeReport {
    int64_t read = 0;     // trials in the source
    int64_t added = 0;    // new here
    int64_t changed = 0;  // known here, but the source knew better (a verification, an Ok for a timeout)
    // Both sides were Ok with different cycles. Simulation is exact, so the fingerprints fail to tell two things apart;
    // the slower measurement is kept.
    std::vector<std::string> conflicts;
};

// Thread-safe. One file on a local disk, in write-ahead-log mode: readers and one writer at a time, other writers wait.
// A row is on disk for every other process when the call that wrote it returns, and survives the death of this one.
class Database {
public:
    enum class Access { ReadWrite, ReadOnly };

    // Opens the file; ReadWrite creates it (and its folders) and brings an older one to the current version. Error if it
    // is on a network file system, not a database, another program's, damaged, newer than this program, or cannot be
    // opened. A read-only open needs the current version.
    explicit Database(const std::filesystem::path &file, Access access = Access::ReadWrite, int busy_milliseconds = 60'000);
    ~Database();
    Database(Database &&) noexcept;
    Database &operator=(Database &&) noexcept;

    const std::filesystem::path &file() const;

    // Runs. begin_run fills in id, host, started and outcome if they are empty, and returns the id.
    std::string begin_run(const TuningRun &run);
    void end_run(const std::string &id, const std::string &outcome);
    std::vector<TuningRun> runs_of(const TrialKey &key) const;  // by start, then id

    // Gives a machine fingerprint the name that listings show.
    void name_machine(const std::string &fingerprint, const std::string &name);

    // Stores a trial. If the point is already there, the two are joined by the merge rule (see merge), so that
    // recording twice changes nothing.
    void record_trial(const TrialKey &key, const Trial &trial, const std::string &run = {});
    // Ordered by the text of the point.
    std::vector<StoredTrial> trials_of(const TrialKey &key) const;
    std::optional<StoredTrial> find_trial(const TrialKey &key, const Point &point) const;

    // Joins what is proven with what is known: of two lower bounds the larger holds, and of two proofs.
    void record_certificate(const Certificate &certificate);
    std::optional<Certificate> certificate(const TrialKey &key) const;

    // Records that the program of this point gave the right bits, or what differed. Error if the trial is not stored.
    void mark_verified(const TrialKey &key, const Point &point);
    void mark_differs(const TrialKey &key, const Point &point, const std::string &what);
    // The fastest verified trial (of equal ones the first by text).
    std::optional<StoredTrial> winner(const TrialKey &key) const;
    // Verified winners of the same operator and workload on any machine with any compiler: points worth starting from,
    // never results. Without those of `key` itself; fastest first.
    std::vector<StoredTrial> related_winners(const TrialKey &key) const;

    // All keys that the filter admits, in their order.
    std::vector<KeySummary> list(const TrialFilter &filter = {}) const;
    // All trials that the filter admits, by key and point.
    std::vector<StoredTrial> select(const TrialFilter &filter = {}) const;
    // Calls `visit` for each such trial without holding all of them; it must not use this database.
    void for_each(const TrialFilter &filter, const std::function<void(const StoredTrial &)> &visit) const;

    // Canonical text, one JSON object a line, sorted, without anything that depends on the order of insertion: equal
    // contents give equal bytes. With `results_only` without what another run on another host would have differently (runs,
    // dates, host times): equal results give equal bytes.
    void export_to(std::ostream &out, const TrialFilter &filter = {}, bool results_only = false) const;
    // Gives freed space back to the file system. Returns the bytes.
    int64_t vacuum();
    // What was left out since the last call because it could not be read: a damaged row does not keep the others from use.
    std::vector<std::string> take_unreadable();
    // Rows that cannot be read, each as a sentence that names it, and the damage that SQLite finds.
    std::vector<std::string> damage() const;
    // Reads what export_to wrote. All or nothing: Error names the line that is wrong and the database is unchanged.
    MergeReport import_from(std::istream &in, const std::string &name);
    // Takes over everything from another database, which is only read. The join of two rows of the same key and point is
    // commutative, associative and idempotent, so that merges in any order give the same export.
    MergeReport merge(const Database &other);

    // Deletes the admitted trials, and runs, workloads, machines and compilers that nothing refers to any more.
    // Returns the number of trials deleted.
    int64_t prune(const TrialFilter &filter);

    DatabaseStats stats() const;
    // SQLite's own check of every page and index: "ok", or what is damaged.
    std::string integrity() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace atalla
