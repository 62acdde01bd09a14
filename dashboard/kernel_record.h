// What the dashboard shows of a kernel, an operator at a shape on a machine, gathered from the rows of the database.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "db/database.h"

namespace atalla {

// The best cycles known after a run of the tuner under one compiler.
struct HistoryEntry {
    int64_t when = 0;  // start of the run, milliseconds since 1970
    std::string compiler;
    std::string run;
    int64_t cycles = 0;
    int64_t bound_cycles = 0;  // 0: unknown
    int64_t trials = 0;        // tried under this compiler until then
    bool verified = false;
};

// The trials under one compiler: of all what the charts need, of the fastest and of one failure of each kind the point, of
// the winner everything.
struct KernelVersion {
    struct Row {
        int64_t when;
        int64_t cycles;  // 0 unless Ok
        int32_t run;     // index into `run_ids`
        Trial::Status status;
        Verification verification;
    };
    struct Measured {
        int64_t cycles;
        Point point;
        Verification verification;
        std::string differs;
        int64_t when;
    };
    struct Failure {
        Trial::Status status;
        std::string reason;
        Point example;
        int64_t count = 0;
    };
    std::string compiler;
    std::vector<Row> rows;
    std::vector<std::string> run_ids;
    std::vector<Measured> fastest;            // by cycles, then point
    std::optional<StoredTrial> winner;        // fastest verified, or else the fastest that is not known to be wrong
    int64_t unoptimized_cycles = 0;           // of the reference program, 0: not measured
    std::map<std::string, Failure> failures;  // by status and reason
    std::vector<TuningRun> runs;
    std::optional<Certificate> certificate;  // what is proven of the winner
    double seconds_lower = 0, seconds_simulate = 0;

    void add(const StoredTrial &trial);
    // Sorts rows by time and takes the runs of this version.
    void finish(std::vector<TuningRun> known_runs);
    int64_t last_activity() const;
    int64_t bound_cycles() const;
    // An entry for each run that measured something, in the order of their starts. Trials outside of runs count in none,
    // unless there is nothing else.
    std::vector<HistoryEntry> history() const;
};

struct KernelRecord {
    std::string id;  // 16 hex digits of operator, workload and machine: the address of its page
    std::string op, workload, machine, machine_name;
    std::vector<KernelVersion> versions;  // latest activity last
    bool unfinished = false;              // the latest run did not finish

    const KernelVersion &current() const { return versions.back(); }
    std::vector<HistoryEntry> history() const;
    size_t trials() const;
};

// Kernels whose rows the database has, by operator, workload and machine; `visit` gets one after the other, so that one
// at a time is in memory. `keys` is what database.list() says.
void for_each_kernel(const Database &database, const std::vector<KeySummary> &keys,
                     const std::function<void(KernelRecord &)> &visit);

// The address of a kernel's page.
std::string kernel_id(const std::string &op, const std::string &workload, const std::string &machine);

}  // namespace atalla
