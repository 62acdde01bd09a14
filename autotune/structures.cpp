#include "autotune/structures.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace atalla {

namespace {

// What is predicted to take so many times the cycles of the best prediction promises nothing: drafts that misjudge one
// structure more than another are off by that much.
constexpr double promising = 1.6;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

Structures::Structures(const Space &space, const DraftRanking &ranking) : ranking_(ranking) {
    for (const Parameter &parameter : space.parameters) {
        if (parameter.choice && parameter.values.size() > 1) {
            names_.push_back(parameter.name);
        }
    }
    for (size_t rank = 0; rank < ranking.points.size(); rank++) {
        const auto [found, added] = numbers_.emplace(choices_of(ranking.points[rank].point), first_.size());
        if (added) {
            first_.push_back(rank);
        }
        of_rank_.push_back(found->second);
    }
}

std::vector<size_t> Structures::unlike(const Outcomes &outcomes, const std::vector<Point> &proposed, size_t n) const {
    std::vector<size_t> distances(first_.size(), std::numeric_limits<size_t>::max());
    const auto know = [&](const Choices &known) {
        for (const auto &[choices, number] : numbers_) {
            if (number < distances.size()) {
                distances[number] = std::min(distances[number], differences(choices, known));
            }
        }
    };
    for (const Trial &trial : outcomes.trials()) {
        know(choices_of(trial.point));
    }
    for (const Point &point : proposed) {
        know(choices_of(point));
    }
    // Structures are numbered in the order of their best predictions.
    const auto promises = [&](size_t rank) {
        return ranking_.points[rank].predicted <= promising * ranking_.points.front().predicted;
    };
    distances.resize(static_cast<size_t>(std::partition_point(first_.begin(), first_.end(), promises) - first_.begin()));
    std::vector<size_t> ranks;
    while (ranks.size() < n) {
        const auto most = std::max_element(distances.begin(), distances.end());
        if (most == distances.end() || *most == 0) {
            break;
        }
        ranks.push_back(first_[static_cast<size_t>(most - distances.begin())]);
        know(choices_of(ranking_.points[ranks.back()].point));
    }
    return ranks;
}

std::vector<size_t> Structures::corrected(const TuningTask &task, const Outcomes &outcomes) const {
    std::vector<double> of_all;
    std::vector<std::vector<double>> of_each(first_.size());
    for (const Trial &trial : outcomes.trials()) {
        const double predicted = task.draft ? task.draft(trial.point) : 0;
        const auto structure = numbers_.find(choices_of(trial.point));
        // One that was given up took longer than it ran, which is as much as the search needs to know.
        if ((trial.status == Trial::Ok || trial.status == Trial::TimedOut) && predicted > 0) {
            of_all.push_back(static_cast<double>(trial.cycles) / predicted);
            if (structure != numbers_.end()) {
                of_each[structure->second].push_back(of_all.back());
            }
        }
    }
    const double usual = of_all.empty() ? 1 : median(of_all);
    std::vector<double> factors;
    for (const std::vector<double> &ratios : of_each) {
        factors.push_back(ratios.empty() ? usual : median(ratios));
    }
    std::vector<size_t> ranks(of_rank_.size());
    std::iota(ranks.begin(), ranks.end(), size_t{0});
    const auto cycles = [&](size_t rank) { return ranking_.points[rank].predicted * factors[of_rank_[rank]]; };
    std::stable_sort(ranks.begin(), ranks.end(), [&](size_t one, size_t other) { return cycles(one) < cycles(other); });
    return ranks;
}

Structures::Choices Structures::choices_of(const Point &point) const {
    Choices choices;
    for (const std::string &name : names_) {
        choices.push_back(point[name]);
    }
    return choices;
}

size_t Structures::differences(const Choices &one, const Choices &other) {
    size_t count = 0;
    for (size_t i = 0; i < one.size(); i++) {
        count += one[i] != other[i];
    }
    return count;
}

}  // namespace atalla
