#include <algorithm>
#include <set>

#include "autotune/strategies.h"
#include "autotune/structures.h"

namespace atalla {

namespace {

// The draft strategy spends this part of the trials on its best predictions before it refines around what was measured. One
// proposal of so many is, before that, of a structure that was not tried, and from then on one of the predictions.
constexpr double explore_share = 0.5;
constexpr size_t structure_every = 4, explore_every = 4;
// And one is what a process that learns from the measurements holds for the best, all the time.
constexpr size_t learned_every = 2;
// Trials explored before refining where no number of trials is set.
constexpr int64_t explore_unlimited = 64;
// The draft may end a search if it ordered pairs of measurements rightly so much more often than wrongly (Kendall's tau).
// Best-first measurements lie close together, so a poor draft takes long to get there.
constexpr double trusted_tau = 0.4;
constexpr size_t compared_trials = 256;  // the latest ones: the comparison is quadratic

// Of kernels this short a number of trials is used up: the draft knows least what code costs that comes from memory once, and a
// trial of them takes little time.
constexpr int64_t too_short_to_judge = 10000;

// What the measurements so far say about the draft.
class Calibration {
public:
    Calibration(const TuningTask &task, const Outcomes &outcomes) : best_(outcomes.best()) {
        const std::vector<Trial> &trials = outcomes.trials();
        for (size_t i = trials.size() - std::min(trials.size(), compared_trials); i < trials.size(); i++) {
            const double predicted = task.draft ? task.draft(trials[i].point) : 0;
            if (trials[i].status == Trial::Ok && predicted > 0) {
                measured_.push_back({predicted, static_cast<double>(trials[i].cycles)});
            }
        }
        trusted_ = measured_.size() >= trusted_after && tau() >= trusted_tau;
        least_ratio_ = trusted_ ? extrapolated_ratio() : 0;
    }

    // Whether a point cannot win: even the smallest ratio of measured to predicted cycles that is plausible leaves it
    // behind the best.
    bool hopeless(double predicted) const { return trusted_ && predicted * least_ratio_ >= static_cast<double>(best_->cycles); }

private:
    struct Measured {
        double predicted, cycles;
    };

    double tau() const {
        int64_t agreement = 0, pairs = 0;
        for (size_t one = 0; one < measured_.size(); one++) {
            for (size_t other = 0; other < one; other++) {
                const double order =
                    (measured_[one].predicted - measured_[other].predicted) * (measured_[one].cycles - measured_[other].cycles);
                agreement += (order > 0) - (order < 0);
                pairs++;
            }
        }
        return static_cast<double>(agreement) / static_cast<double>(pairs);
    }

    // As far below the smallest ratio seen as that is below the median: what was measured was chosen for its low
    // prediction, so the ratios seen are the large ones.
    double extrapolated_ratio() const {
        std::vector<double> ratios;
        for (const Measured &one : measured_) {
            ratios.push_back(one.cycles / one.predicted);
        }
        std::sort(ratios.begin(), ratios.end());
        return ratios.front() * ratios.front() / ratios[ratios.size() / 2];
    }

    const Trial *best_;
    std::vector<Measured> measured_;
    bool trusted_ = false;
    double least_ratio_ = 0;
};

// Best predictions first, beside structures that were not tried; then hill climbing from the best measured point, beside a
// trickle of further predictions.
class DraftProposer : public Proposer {
public:
    DraftProposer(const TuningTask &task, const TuneOptions &options, std::shared_ptr<const DraftRanking> ranking)
        : task_(task),
          options_(options),
          ranking_(std::move(ranking)),
          drafted_(ranking_->drafted),
          structures_(task.space, *ranking_),
          model_(make_model(task, options, ranking_)),
          explore_(options.max_trials > 0 ? static_cast<int64_t>(options.max_trials * explore_share) : explore_unlimited) {}

    std::vector<Point> propose(size_t n, const Outcomes &outcomes) override {
        const Calibration calibration(task_, outcomes);
        const bool judges = options_.trust_draft &&
                            !(options_.max_trials > 0 && outcomes.best() && outcomes.best()->cycles < too_short_to_judge);
        const auto may_win = [&](const PricedPoint &priced) { return !judges || !calibration.hopeless(priced.predicted); };
        std::vector<Point> proposals;
        std::set<Point> chosen;
        const auto take = [&](const Point &point) {
            if (!outcomes.tried(point) && chosen.insert(point).second) {
                proposals.push_back(point);
            }
        };
        const auto take_ranks = [&](const std::vector<size_t> &ranks, size_t up_to) {
            for (size_t i = 0; i < ranks.size() && proposals.size() < up_to; i++) {
                if (may_win(ranking_->points[ranks[i]])) {
                    take(ranking_->points[ranks[i]].point);
                }
            }
        };
        const std::vector<size_t> by_prediction = structures_.corrected(task_, outcomes);
        const auto explore = [&](size_t up_to) { take_ranks(by_prediction, up_to); };
        const auto refine = [&](size_t up_to) {
            const Neighbourhood &near = around(outcomes.best()->point);
            for (size_t i = 0; i < near.points.size() && proposals.size() < up_to; i++) {
                // One step is always tried: it leads out of where a wrong draft has led to.
                if (i < near.one_step || may_win(near.points[i])) {
                    take(near.points[i].point);
                }
            }
        };
        const bool refining = outcomes.best() && static_cast<int64_t>(outcomes.size()) >= explore_;
        // Of the proposals up to these, one of so many.
        const auto due = [&](size_t every) { return (outcomes.size() + n) / every - outcomes.size() / every; };
        if (outcomes.best()) {
            for (const Point &point : model_->propose(due(learned_every), outcomes)) {
                take(point);
            }
        }
        if (refining) {
            explore(std::min(n, proposals.size() + due(explore_every)));
        } else {
            explore(n - due(structure_every));
            take_ranks(structures_.unlike(outcomes, proposals, n - proposals.size()), n);
        }
        if (refining || (outcomes.best() && proposals.empty())) {
            refine(n);
        }
        explore(n);
        exhausted_ = ranking_->whole_space && ranking_->points.size() == static_cast<size_t>(ranking_->drafted) &&
                     outcomes.size() >= ranking_->points.size();
        return proposals;
    }

    std::string ended() const override {
        return exhausted_ ? "every point of the space was evaluated"
                          : "no point that is left can win by its prediction, and none around the best one is faster";
    }
    int64_t drafted() const override { return drafted_; }
    std::optional<Point> best_of_model() const override { return ranking_->best(); }

private:
    // By prediction, the neighbours that are one step away first.
    struct Neighbourhood {
        Point centre;
        std::vector<PricedPoint> points;
        size_t one_step = 0;
    };

    const Neighbourhood &around(const Point &centre) {
        if (centre != near_.centre) {
            const std::vector<Point> points = neighbours(task_.space, centre, 2);
            near_ = {centre, price(task_, points, options_.seed, options_.threads), neighbours(task_.space, centre, 1).size()};
            drafted_ += static_cast<int64_t>(points.size());
            const auto two_steps = near_.points.begin() + static_cast<int64_t>(near_.one_step);
            std::sort(near_.points.begin(), two_steps);
            std::sort(two_steps, near_.points.end());
        }
        return near_;
    }

    const TuningTask &task_;
    TuneOptions options_;
    std::shared_ptr<const DraftRanking> ranking_;
    int64_t drafted_;
    Structures structures_;
    std::unique_ptr<Proposer> model_;
    int64_t explore_;
    bool exhausted_ = false;
    Neighbourhood near_;
};

}  // namespace

std::unique_ptr<Proposer> make_draft(const TuningTask &task, const TuneOptions &options,
                                     std::shared_ptr<const DraftRanking> ranking) {
    return std::make_unique<DraftProposer>(task, options, std::move(ranking));
}

}  // namespace atalla
