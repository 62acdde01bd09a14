// Which choices of the code generator suit a schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "schedules/point.h"

namespace atalla {

struct TunedPoint {
    Point point;
    int64_t cycles = 0;
};

struct ChoiceTrials {
    // The choices that change the program of a point, as choices_parameter has them.
    std::function<int64_t(const Point &)> open;
    // The cycles of each point; nothing for those that failed, or were given up after `limit` cycles.
    std::function<std::vector<std::optional<int64_t>>(const std::vector<Point> &, int64_t limit)> evaluate;
};

// Tries for a schedule each choice that it leaves open, then together those that gain, and the same for what that finds until
// nothing gains.
TunedPoint with_best_choices(TunedPoint schedule, const ChoiceTrials &trials);

}  // namespace atalla
