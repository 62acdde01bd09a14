#include "autotune/choices_search.h"

#include <algorithm>
#include <set>
#include <utility>

namespace atalla {

namespace {

Point with_choices(Point point, int64_t choices) {
    point.set(choices_parameter, choices_of(point) | choices);
    return point;
}

}  // namespace

TunedPoint with_best_choices(TunedPoint best, const ChoiceTrials &trials) {
    std::set<Point> tried;
    for (int64_t before = 0; best.cycles != before;) {
        before = best.cycles;
        const Point schedule = best.point;
        const int64_t open = trials.open(schedule) & ~choices_of(schedule);
        std::vector<Point> alone;
        for (int64_t choice = 1; choice <= open; choice *= 2) {
            Point point = with_choices(schedule, choice);
            if ((open & choice) != 0 && tried.insert(point).second) {
                alone.push_back(std::move(point));
            }
        }
        const std::vector<std::optional<int64_t>> cycles = trials.evaluate(alone, before);
        std::vector<std::pair<int64_t, Point>> gaining;
        for (size_t i = 0; i < alone.size(); i++) {
            if (cycles[i] && *cycles[i] < before) {
                gaining.emplace_back(*cycles[i], alone[i]);
            }
        }
        std::sort(gaining.begin(), gaining.end());
        for (size_t i = 0; i < gaining.size(); i++) {
            const Point point = with_choices(best.point, choices_of(gaining[i].second));
            const std::optional<int64_t> together = i == 0 ? gaining[i].first : trials.evaluate({point}, best.cycles).front();
            tried.insert(point);
            if (together && *together < best.cycles) {
                best = {point, *together};
            }
        }
    }
    return best;
}

}  // namespace atalla
