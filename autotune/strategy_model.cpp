#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "autotune/gaussian_process.h"
#include "autotune/strategies.h"

namespace atalla {

namespace {

// Deviations below the mean that count for a candidate: how much the unknown is worth.
constexpr double optimism = 1.0;
// A point that many deviations above the best is given up, once enough were measured.
constexpr double certainty = 3.0;
// How far the draft is off before anything was measured, as a logarithm.
constexpr double prior_deviation = 0.1;
// A point that certainly fails counts as so much slower than it would be, as a logarithm. Points so far from a failure are
// half as likely to fail, and what is known without any trial speaks for a point as one at that distance would.
constexpr double failure_cost = 2;
constexpr double failure_reach = 0.25, trust_in_points = 0.25;
// Candidates that the process looks at, those of them that a batch is chosen from, and measurements it remembers.
constexpr size_t most_candidates = 3000, shortlist_size = 200, most_remembered = 160;

// Coordinates of a point in which equal distances mean about equal changes.
class Coordinates {
public:
    explicit Coordinates(const Space &space) {
        for (const Parameter &parameter : space.parameters) {
            if (parameter.values.size() > 1) {
                axes_.push_back(axis_of(parameter));
            }
        }
    }

    std::vector<double> of(const Point &point) const {
        std::vector<double> coordinates;
        for (const Axis &axis : axes_) {
            const int64_t value = point[axis.name];
            if (axis.choice) {
                for (const auto &[known, position] : axis.position) {
                    coordinates.push_back(known == value ? choice_distance : 0);
                }
            } else {
                const auto found = axis.position.find(value);
                coordinates.push_back(found == axis.position.end() ? 0 : found->second);
            }
        }
        return coordinates;
    }

private:
    struct Axis {
        std::string name;
        bool choice;
        std::map<int64_t, double> position;
    };
    // Two points that differ in one choice are as far apart as the ends of half an ordered parameter.
    static constexpr double choice_distance = 0.35;

    // Sizes differ by factors: their place is that of the logarithm, other numbers' that in the list.
    static Axis axis_of(const Parameter &parameter) {
        Axis axis{parameter.name, parameter.choice, {}};
        const auto [least, most] = std::minmax_element(parameter.values.begin(), parameter.values.end());
        for (size_t i = 0; i < parameter.values.size(); i++) {
            const double last = static_cast<double>(parameter.values.size() - 1);
            const double value = static_cast<double>(parameter.values[i]);
            axis.position[parameter.values[i]] = *least > 0
                                                     ? std::log(value / static_cast<double>(*least)) /
                                                           std::log(static_cast<double>(*most) / static_cast<double>(*least))
                                                     : static_cast<double>(i) / last;
        }
        return axis;
    }

    std::vector<Axis> axes_;
};

// How likely a point is to fail, by the nearest ones that failed and that ran.
class Feasibility {
public:
    Feasibility(const Coordinates &coordinates, const Outcomes &outcomes) {
        for (const Trial &trial : outcomes.trials()) {
            (runs(trial) ? ran_ : failed_).push_back(coordinates.of(trial.point));
        }
    }
    static bool runs(const Trial &trial) {
        return (trial.status == Trial::Ok || trial.status == Trial::TimedOut) && trial.cycles > 0;
    }

    double risk(const std::vector<double> &place) const {
        const double against = nearness(failed_, place);
        return against == 0 ? 0 : against / (against + nearness(ran_, place) + trust_in_points);
    }

private:
    static double nearness(const std::vector<std::vector<double>> &points, const std::vector<double> &place) {
        double nearest = 0;
        for (const std::vector<double> &point : points) {
            double square = 0;
            for (size_t i = 0; i < place.size(); i++) {
                square += (point[i] - place[i]) * (point[i] - place[i]);
            }
            nearest = std::max(nearest, std::exp2(-std::sqrt(square) / failure_reach));
        }
        return nearest;
    }

    std::vector<std::vector<double>> ran_, failed_;
};

class ModelProposer : public Proposer {
public:
    ModelProposer(const TuningTask &task, const TuneOptions &options, std::shared_ptr<const DraftRanking> ranking)
        : task_(task), options_(options), ranking_(std::move(ranking)), drafted_(ranking_->drafted), coordinates_(task.space) {}

    std::vector<Point> propose(size_t n, const Outcomes &outcomes) override {
        std::vector<Candidate> candidates = candidates_for(outcomes);
        GaussianProcess process = learned(outcomes);
        estimate(candidates, process, Feasibility(coordinates_, outcomes));
        if (options_.trust_draft && outcomes.best() && outcomes.size() >= trusted_after) {
            const double best = std::log(static_cast<double>(outcomes.best()->cycles));
            std::erase_if(candidates, [&](const Candidate &one) { return one.mean - certainty * one.deviation > best; });
        }
        std::vector<Point> batch;
        const size_t shortlist = std::min(candidates.size(), std::max(shortlist_size, n));
        std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(shortlist), candidates.end());
        candidates.resize(shortlist);
        while (batch.size() < n && !candidates.empty()) {
            const auto best = std::min_element(candidates.begin(), candidates.end());
            batch.push_back(best->point);
            if (batch.size() < n) {
                process.believe(best->coordinates);
                candidates.erase(best);
                for (Candidate &other : candidates) {
                    other.deviation = process.predict(other.coordinates).deviation;
                }
            }
        }
        exhausted_ = ranking_->whole_space && outcomes.size() + batch.size() >= static_cast<size_t>(ranking_->drafted);
        return batch;
    }
    std::string ended() const override {
        return exhausted_ ? "every point of the space was evaluated" : "no point that is left is expected to win";
    }
    int64_t drafted() const override { return drafted_; }
    std::optional<Point> best_of_model() const override { return ranking_->best(); }

private:
    struct Candidate {
        Point point;
        double drafted;  // logarithm of the predicted cycles
        uint64_t tie;
        std::vector<double> coordinates;
        double mean = 0, deviation = 0;
        double promise() const { return mean - optimism * deviation; }
        bool operator<(const Candidate &other) const {
            return promise() != other.promise() ? promise() < other.promise() : tie < other.tie;
        }
    };

    // The best predictions that were not tried, and what is around the best measured point.
    std::vector<Candidate> candidates_for(const Outcomes &outcomes) {
        std::vector<Candidate> candidates;
        std::set<Point> seen;
        const auto add = [&](const PricedPoint &priced) {
            if (!outcomes.tried(priced.point) && seen.insert(priced.point).second) {
                candidates.push_back({priced.point, log_of(priced.predicted), priced.tie, coordinates_.of(priced.point)});
            }
        };
        if (outcomes.best()) {
            for (const PricedPoint &priced : around(outcomes.best()->point)) {
                add(priced);
            }
        }
        for (const PricedPoint &priced : ranking_->points) {
            if (candidates.size() >= most_candidates) {
                break;
            }
            add(priced);
        }
        return candidates;
    }

    GaussianProcess learned(const Outcomes &outcomes) const {
        std::vector<const Trial *> known;
        for (const Trial &trial : outcomes.trials()) {
            if (Feasibility::runs(trial)) {
                known.push_back(&trial);
            }
        }
        if (known.size() > most_remembered) {
            const auto goodness = [](const Trial *trial) { return std::pair(trial->status, trial->cycles); };
            std::nth_element(known.begin(), known.begin() + most_remembered, known.end(),
                             [&](const Trial *one, const Trial *other) { return goodness(one) < goodness(other); });
            known.resize(most_remembered);
        }
        std::vector<std::vector<double>> points;
        std::vector<double> errors;
        for (const Trial *trial : known) {
            // One that was given up took longer than it ran, which is as much as the search needs to know.
            points.push_back(coordinates_.of(trial->point));
            errors.push_back(std::log(static_cast<double>(trial->cycles)) -
                             log_of(task_.draft ? task_.draft(trial->point) : 0));
        }
        return {std::move(points), std::move(errors), prior_deviation};
    }

    static void estimate(std::vector<Candidate> &candidates, const GaussianProcess &process, const Feasibility &feasibility) {
        const auto size = static_cast<int64_t>(candidates.size());
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < size; i++) {
            Candidate &candidate = candidates[static_cast<size_t>(i)];
            const GaussianProcess::Prediction error = process.predict(candidate.coordinates);
            candidate.mean = candidate.drafted + error.mean + failure_cost * feasibility.risk(candidate.coordinates);
            candidate.deviation = error.deviation;
        }
    }

    static double log_of(double predicted) { return predicted > 0 && std::isfinite(predicted) ? std::log(predicted) : 0; }

    const std::vector<PricedPoint> &around(const Point &centre) {
        if (centre != centre_) {
            const std::vector<Point> points = neighbours(task_.space, centre, 2);
            near_ = price(task_, points, options_.seed, options_.threads);
            centre_ = centre;
            drafted_ += static_cast<int64_t>(points.size());
        }
        return near_;
    }

    const TuningTask &task_;
    TuneOptions options_;
    std::shared_ptr<const DraftRanking> ranking_;
    int64_t drafted_;
    Coordinates coordinates_;
    bool exhausted_ = false;
    Point centre_;
    std::vector<PricedPoint> near_;
};

}  // namespace

std::unique_ptr<Proposer> make_model(const TuningTask &task, const TuneOptions &options,
                                     std::shared_ptr<const DraftRanking> ranking) {
    return std::make_unique<ModelProposer>(task, options, std::move(ranking));
}

}  // namespace atalla
