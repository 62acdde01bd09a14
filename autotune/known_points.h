// What the trials of a run, those stored before it and the bounds of points say about a space: which points may still be
// faster.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotune/outcomes.h"
#include "autotune/task.h"
#include "db/database.h"

namespace atalla {

class KnownPoints {
public:
    using Rejected = std::vector<std::pair<Point, std::string>>;

    // Both must outlive it; `outcomes` are the run's.
    KnownPoints(const TuningTask &task, const Outcomes &outcomes) : task_(task), outcomes_(outcomes) {}

    // A trial that was stored before the run.
    void remember(StoredTrial stored);
    // nullptr: none of this point.
    const StoredTrial *stored(const Point &point) const;
    // The stored trial of a point, unless it was given up before `limit` cycles (0: its end), too early to be an answer.
    const Trial *answer(const Point &point, int64_t limit) const;

    // Whether no program of the point takes less than `cycles`.
    bool ruled_out(const Point &point, int64_t cycles) const {
        return task_.least_cycles && task_.least_cycles(point) >= cycles;
    }
    // Every point that the run has not tried and that may take less than its best; nothing if there are more than `most`, or
    // too many to look at.
    std::optional<std::vector<Point>> may_be_faster(size_t most) const;
    // Trials of the task's space that ran, those of this run and the stored ones, each once, fastest first.
    std::vector<Trial> fastest_first() const;
    // How many points cannot take less than `cycles` by their bounds alone, if trials and bounds together say so of every point
    // of the space; nothing otherwise. Points that were `rejected` do not count, however fast.
    std::optional<int64_t> nothing_is_faster(int64_t cycles, const Rejected &rejected) const;

private:
    const TuningTask &task_;
    const Outcomes &outcomes_;
    std::map<Point, StoredTrial> stored_;
};

}  // namespace atalla
