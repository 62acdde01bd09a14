#include "autotune/known_points.h"

namespace atalla {

namespace {

// Points of a space that are looked at between two batches, to see whether few are left: some milliseconds.
constexpr size_t most_looked_at = 20'000;

bool was_given_up(const Trial &trial) { return trial.status == Trial::TimedOut && trial.cycles > 0; }

// Whether the trial says that its point does not take less than `cycles`.
bool settles(const Trial &trial, int64_t cycles) {
    return trial.status == Trial::Ok || was_given_up(trial) ? trial.cycles >= cycles : true;
}

}  // namespace

void KnownPoints::remember(StoredTrial stored) { stored_.emplace(stored.trial.point, std::move(stored)); }

const StoredTrial *KnownPoints::stored(const Point &point) const {
    const auto found = stored_.find(point);
    return found == stored_.end() ? nullptr : &found->second;
}

const Trial *KnownPoints::answer(const Point &point, int64_t limit) const {
    const StoredTrial *known = stored(point);
    const bool too_early = known && was_given_up(known->trial) && (limit == 0 || known->trial.cycles < limit);
    return known && !too_early ? &known->trial : nullptr;
}

std::optional<std::vector<Point>> KnownPoints::may_be_faster(size_t most) const {
    const int64_t cycles = outcomes_.best()->cycles;
    std::vector<Point> left;
    if (task_.bound_cycles == cycles) {
        return left;
    }
    size_t seen = 0;
    const bool all = for_each(task_.space, [&](const Point &point) {
        if (!outcomes_.tried(point) && !ruled_out(point, cycles)) {
            left.push_back(point);
        }
        return left.size() <= most && ++seen <= most_looked_at;
    });
    return all ? std::optional(left) : std::nullopt;
}

std::vector<Trial> KnownPoints::fastest_first() const {
    std::map<std::pair<int64_t, Point>, Trial> order;
    const auto add = [&](const Trial &trial) {
        if (trial.status == Trial::Ok) {
            order.emplace(std::pair(trial.cycles, trial.point), trial);
        }
    };
    for (const Trial &trial : outcomes_.trials()) {
        add(trial);
    }
    for (const auto &[point, stored] : stored_) {
        // A run over a part of the space must not answer with a point outside it.
        if (violation(task_.space, point).empty()) {
            add(stored.trial);
        }
    }
    std::vector<Trial> trials;
    for (auto &[key, trial] : order) {
        trials.push_back(std::move(trial));
    }
    return trials;
}

std::optional<int64_t> KnownPoints::nothing_is_faster(int64_t cycles, const Rejected &rejected) const {
    if (task_.bound_cycles == cycles) {
        return 0;
    }
    std::map<Point, bool> known;
    for (const auto &[point, stored] : stored_) {
        known[point] = settles(stored.trial, cycles);
    }
    for (const Trial &trial : outcomes_.trials()) {
        known[trial.point] = settles(trial, cycles) || known[trial.point];
    }
    // A point that is faster but wrong is no answer.
    for (const auto &[point, differs] : rejected) {
        known[point] = true;
    }
    int64_t by_bound = 0;
    // The walk ends at the first point of which nothing is known.
    const bool all = for_each(task_.space, [&](const Point &point) {
        const auto found = known.find(point);
        if (found != known.end() && found->second) {
            return true;
        }
        by_bound++;
        return ruled_out(point, cycles);
    });
    return all ? std::optional(by_bound) : std::nullopt;
}

}  // namespace atalla
