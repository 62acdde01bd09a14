// Many tuning tasks that share one budget: the next batch goes where it is expected to save most.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotune/tuner.h"

namespace atalla {

struct ScheduledTask {
    std::string name;          // for the progress view
    int64_t count = 1;         // how often the model runs it
    int64_t least_cycles = 1;  // about what it costs at least, such as its bound: the most expensive goes first
    // Called when the task's turn first comes.
    std::function<std::unique_ptr<TuningTask>()> make;
};

struct ScheduleOptions {
    TuneOptions each;        // max_trials: of one task at most; its time, progress and signals are those below
    int64_t max_trials = 0;  // of all tasks together, 0: no limit
    double max_seconds = 0;  // of all, 0: no limit
    ProgressMode progress = ProgressMode::Automatic;
};

struct ScheduledResult {
    TuneResult result;         // found is false if the task never had a turn
    std::string problem;       // why it could not be tuned; empty otherwise
    int64_t first_cycles = 0;  // of the first point that ran: what the draft alone would have given; 0: none ran
    int64_t batches = 0;
};

struct ScheduleResult {
    std::vector<ScheduledResult> tasks;  // in the order given
    bool interrupted = false;
    int64_t trials = 0;
    double seconds = 0;
    // Over the tasks that were tuned, each times its count: cycles of the first points and of the winners.
    int64_t first_cycles = 0, cycles = 0;
};

// Tunes all of them. A task that fails is reported and does not stop the rest; an error of the database does. With equal
// arguments and stored trials the result is the same (but for max_seconds and signals). `done`, which may be empty, is called
// with the index of each task as soon as its winner is verified.
ScheduleResult tune_all(const std::vector<ScheduledTask> &tasks, Database *database, const ScheduleOptions &options,
                        const std::function<void(size_t, const ScheduledResult &)> &done = {});

// Cycles that the next batch of a task is expected to save: half of what its last one saved, and a part of the distance to
// the bound that shrinks with every batch.
double expected_gain(int64_t cycles, int64_t cycles_before, int64_t bound, int64_t batches);

}  // namespace atalla
