// Recorded sweeps as tuning tasks, and the score of a strategy on them: no simulator needed.
#pragma once

#include <filesystem>
#include <vector>

#include "autotune/correction.h"
#include "autotune/task.h"
#include "autotune/tuner.h"
#include "db/kernel_tuner.h"

namespace atalla {

// A sweep in Kernel Tuner's cache format, as plain text or compressed by gzip. Error naming the file.
TuningCache read_sweep(const std::filesystem::path &file);
// Compressed if the name ends in .gz. The file appears complete or not at all.
void write_sweep(const TuningCache &sweep, const std::filesystem::path &file);

// What the database has recorded of a task, with the parameters of its space and the predictions of its draft.
TuningCache recorded_sweep(const Database &database, const TuningTask &task);

// The task whose space is exactly the recorded points, with what was predicted and measured for them, the former corrected.
// Its fingerprints are marked, so that tuning it with a database never mixes with real trials.
TuningTask sweep_task(const TuningCache &sweep, const Corrections &corrections = {});

// How one run of a strategy went.
struct SearchScore {
    // 0: as good as a random sample of equal size is expected to be, 1: the optimum from the first trial on; the mean over
    // the trials up to `trials`. The field's measure (Willemsen et al., A methodology for comparing optimization algorithms
    // for auto-tuning, 2024), with trials as time.
    double score = 0;
    double excess = 0;       // of the best after `trials` over the optimum: 0.03 is 3 % more cycles
    int64_t first_best = 0;  // trials until the final best was met
};

// Runs the strategy of `options` for `trials` trials of a sweep.
SearchScore score_search(const TuningCache &sweep, TuneOptions options, int64_t trials, const Corrections &corrections = {});

// Expected least cycles of a random sample without repetition of 1, 2, ... `trials` points. Trials that are not Ok count as
// the slowest that is.
std::vector<double> random_baseline(const TuningCache &sweep, int64_t trials);

}  // namespace atalla
