// The trials of a tuning run in the order in which they were proposed: what a strategy decides from.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "db/trial.h"

namespace atalla {

class Outcomes {
public:
    void add(Trial trial) {
        tried_.insert(trial.point);
        trials_.push_back(std::move(trial));
        const Trial &added = trials_.back();
        if (added.status == Trial::Ok && (!best_ || std::pair(added.cycles, added.point) < best_key())) {
            best_ = trials_.size() - 1;
        }
    }

    size_t size() const { return trials_.size(); }
    const std::vector<Trial> &trials() const { return trials_; }
    bool tried(const Point &point) const { return tried_.contains(point); }
    // The fastest Ok trial, of equal ones the first by point; nullptr if there is none.
    const Trial *best() const { return best_ ? &trials_[*best_] : nullptr; }

private:
    std::pair<int64_t, Point> best_key() const { return {trials_[*best_].cycles, trials_[*best_].point}; }

    std::vector<Trial> trials_;
    std::set<Point> tried_;
    std::optional<size_t> best_;
};

}  // namespace atalla
