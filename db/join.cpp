#include "db/join.h"

#include <algorithm>
#include <tuple>

namespace atalla {

namespace {

int preference(Trial::Status status) {
    switch (status) {
        case Trial::Ok:
            return 0;
        case Trial::Refused:
            return 1;
        case Trial::Failed:
            return 2;
        case Trial::TimedOut:
            return 3;
    }
    return 4;
}

// Smaller is preferred. The members after `when` only make the order total.
auto order(const StoredTrial &stored) {
    const Trial &trial = stored.trial;
    return std::make_tuple(preference(trial.status), -trial.cycles, stored.when, stored.run, trial.reason,
                           trial.counters.dump(), trial.seconds_lower, trial.seconds_simulate);
}

// The text of the smaller one decides between two that differ.
auto certainty(const StoredTrial &stored) { return std::make_pair(static_cast<int>(stored.verification), stored.differs); }

auto order(const TuningRun &run) {
    return std::make_tuple(-run.ended, run.outcome, run.key, run.host, run.strategy, run.seed, run.bound_cycles, run.started);
}

}  // namespace

StoredTrial join(const StoredTrial &one, const StoredTrial &other) {
    StoredTrial result = order(one) <= order(other) ? one : other;
    const StoredTrial &surer = certainty(one) <= certainty(other) ? one : other;
    const bool either_differs = surer.verification == Verification::Differs;
    result.verification = either_differs ? surer.verification : std::max(one.verification, other.verification);
    result.differs = either_differs ? surer.differs : "";
    return result;
}

Certificate join(const Certificate &one, const Certificate &other) {
    // Of equal bounds the first term in the alphabet.
    const auto strength = [](const Certificate &certificate) {
        return std::make_pair(-certificate.bound_cycles, certificate.bound_by);
    };
    Certificate result = strength(one) <= strength(other) ? one : other;
    result.least_cycles = std::max(one.least_cycles, other.least_cycles);
    return result;
}

TuningRun join(const TuningRun &one, const TuningRun &other) { return order(one) <= order(other) ? one : other; }

bool in_conflict(const StoredTrial &one, const StoredTrial &other) {
    return one.trial.status == Trial::Ok && other.trial.status == Trial::Ok && one.trial.cycles != other.trial.cycles;
}

}  // namespace atalla
