// One tuning run in steps, so that several can share a budget.
#pragma once

#include <memory>

#include "autotune/outcomes.h"
#include "autotune/tuner.h"

namespace atalla {

// Of a budget in seconds, what is left for choices of the code generator.
constexpr double time_for_choices = 0.2;

// One that is destroyed without finish() is recorded as ended by an error.
class TuningSession {
public:
    // Error as tune().
    TuningSession(const TuningTask &task, Database *database, const TuneOptions &options);
    ~TuningSession();
    TuningSession(const TuningSession &) = delete;
    TuningSession &operator=(const TuningSession &) = delete;

    // Evaluates the next batch, of so many points at most (0: TuneOptions::batch). False at the end of the search: of its
    // budget, of its points, or by a signal.
    bool step(int64_t at_most = 0);
    // For the best schedule: each choice of the code generator that it leaves open, together those that gain, and the same for
    // what that finds until nothing does. Beyond the budget of trials, but not after the end of its time or a signal.
    // `most_seconds`, if not 0, is the time for them, whatever the budget has left.
    void try_choices(double most_seconds = 0);
    const Outcomes &outcomes() const;
    // Chooses and verifies the winner, and closes the run. The last call.
    TuneResult finish();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace atalla
