// Prices points by the task's analytic draft, in parallel and in an order that does not depend on the threads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autotune/task.h"

namespace atalla {

struct PricedPoint {
    double predicted = 0;  // cycles; infinite if the draft gave no number
    uint64_t tie = 0;      // a random rank among equal predictions, from the seed
    Point point;
    bool operator<(const PricedPoint &other) const {
        return predicted != other.predicted ? predicted < other.predicted : tie < other.tie;
    }
};

// Prices each point; without a draft all cost the same. Error naming the point if the draft throws.
std::vector<PricedPoint> price(const TuningTask &task, const std::vector<Point> &points, uint64_t seed, int threads);

struct DraftRanking {
    std::vector<PricedPoint> points;  // best first
    int64_t drafted = 0;              // how many were priced to find them
    bool whole_space = false;         // otherwise a sample of it
    // The first, if it was compared with all others.
    std::optional<Point> best() const {
        return whole_space && !points.empty() ? std::optional(points.front().point) : std::nullopt;
    }
};

// The best `keep` points (0: all) of the space, or of a random sample of `limit` if the space is larger.
DraftRanking rank_by_draft(const TuningTask &task, uint64_t limit, uint64_t keep, uint64_t seed, int threads);

}  // namespace atalla
