// Re-simulates stored trials and compares exactly: the proof that a database still tells the truth.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "db/database.h"

namespace atalla {

// Evaluates a stored trial's point again under its key. Nothing if this program cannot (another compiler or machine).
using Reevaluate = std::function<std::optional<Trial>(const StoredTrial &)>;

struct VerifyOptions {
    TrialFilter filter;
    int64_t sample = 0;  // trials to check, drawn without repetition; 0: all
    uint64_t seed = 1;
    bool winners_only = false;
};

struct VerifyMismatch {
    StoredTrial stored;
    std::string what;  // "cycles: stored 1200, now 1210"
};

struct VerifyReport {
    int64_t checked = 0;
    int64_t equal = 0;
    int64_t skipped = 0;  // not reproducible here
    std::vector<VerifyMismatch> mismatches;
    bool ok() const { return mismatches.empty(); }
    // For people: totals, then one line a mismatch.
    std::string text() const;
};

// What differs between a stored trial and a new one of the same point: status, cycles, each counter that both have.
// Host times and the wording of reasons may differ. Empty if equal. A stored timeout equals anything
// that is not faster than the cycles for which it ran.
std::string compare_trials(const Trial &stored, const Trial &now);

// `progress` is called after each trial with (done, total); it may be empty. An exception of `reevaluate` is a mismatch.
VerifyReport verify_database(const Database &database, const Reevaluate &reevaluate, const VerifyOptions &options = {},
                             const std::function<void(int64_t, int64_t)> &progress = {});

}  // namespace atalla
