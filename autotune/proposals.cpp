#include "autotune/proposals.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <set>

#include "autotune/draft.h"
#include "isa/error.h"

namespace atalla {

namespace {

// The draft strategy spends this part of the trials on its best predictions before it refines around what was measured,
// and while refining still gives every fourth proposal to the predictions.
constexpr double explore_share = 0.5;
constexpr size_t explore_every = 4;
// Trials explored before refining where no number of trials is set.
constexpr int64_t explore_unlimited = 64;
// A prediction counts as unable to win if even the smallest ratio of measured to predicted cycles seen so far, less this
// part, leaves it behind the best; asked only after so many trials.
constexpr double hopeless_margin = 0.15;
constexpr size_t hopeless_after = 8;
// Predictions kept in order, at least.
constexpr uint64_t keep_at_least = 4096;

// Points in an order that is fixed at the start.
class ListProposer : public Proposer {
public:
    ListProposer(std::vector<Point> points, int64_t drafted, std::string ended)
        : points_(std::move(points)), drafted_(drafted), ended_(std::move(ended)) {}

    std::vector<Point> propose(size_t n, const Outcomes &outcomes) override {
        std::vector<Point> proposals;
        for (; next_ < points_.size() && proposals.size() < n; next_++) {
            if (!outcomes.tried(points_[next_])) {
                proposals.push_back(points_[next_]);
            }
        }
        return proposals;
    }
    std::string ended() const override { return ended_; }
    int64_t drafted() const override { return drafted_; }

private:
    std::vector<Point> points_;
    int64_t drafted_;
    std::string ended_;
    size_t next_ = 0;
};

// What the measurements so far say about the draft.
class Calibration {
public:
    Calibration(const TuningTask &task, const Outcomes &outcomes) : best_(outcomes.best()) {
        for (const Trial &trial : outcomes.trials()) {
            const double predicted = task.draft ? task.draft(trial.point) : 0;
            if (trial.status == Trial::Ok && predicted > 0) {
                least_ratio_ = std::min(least_ratio_, static_cast<double>(trial.cycles) / predicted);
                measured_++;
            }
        }
    }
    bool hopeless(double predicted) const {
        return measured_ >= hopeless_after &&
               predicted * least_ratio_ * (1 - hopeless_margin) >= static_cast<double>(best_->cycles);
    }

private:
    const Trial *best_;
    double least_ratio_ = std::numeric_limits<double>::infinity();
    size_t measured_ = 0;
};

// Best predictions first, then hill climbing from the best measured point, beside a trickle of further predictions.
class DraftProposer : public Proposer {
public:
    DraftProposer(const TuningTask &task, const TuneOptions &options, DraftRanking ranking)
        : task_(task), options_(options), ranking_(std::move(ranking)), drafted_(ranking_.drafted),
          explore_(options.max_trials > 0 ? static_cast<int64_t>(options.max_trials * explore_share) : explore_unlimited) {}

    std::vector<Point> propose(size_t n, const Outcomes &outcomes) override {
        const Calibration calibration(task_, outcomes);
        std::vector<Point> proposals;
        std::set<Point> chosen;
        const auto take = [&](const PricedPoint &priced) {
            if (!outcomes.tried(priced.point) && !calibration.hopeless(priced.predicted) &&
                chosen.insert(priced.point).second) {
                proposals.push_back(priced.point);
            }
        };
        const auto explore = [&](size_t up_to) {
            for (; next_ < ranking_.points.size() && proposals.size() < up_to; next_++) {
                take(ranking_.points[next_]);
            }
        };
        const auto refine = [&](size_t up_to) {
            for (const PricedPoint &priced : around(outcomes.best()->point)) {
                if (proposals.size() == up_to) {
                    break;
                }
                take(priced);
            }
        };
        const bool refining = outcomes.best() && static_cast<int64_t>(outcomes.size()) >= explore_;
        explore(refining ? n / explore_every : n);
        if (refining || (outcomes.best() && proposals.empty())) {
            refine(n);
        }
        explore(n);
        exhausted_ = ranking_.whole_space && ranking_.points.size() == static_cast<size_t>(ranking_.drafted) &&
                     outcomes.size() >= ranking_.points.size();
        return proposals;
    }

    std::string ended() const override {
        return exhausted_ ? "every point of the space was evaluated"
                          : "no point that is left can win by its prediction, and none around the best one is faster";
    }
    int64_t drafted() const override { return drafted_; }

private:
    // Neighbours by prediction, those one step away first.
    const std::vector<PricedPoint> &around(const Point &centre) {
        if (centre != centre_) {
            centre_ = centre;
            const std::vector<Point> all = neighbours(task_.space, centre, 2);
            const size_t one_step = neighbours(task_.space, centre, 1).size();
            around_ = price(task_, all, options_.seed, options_.threads);
            drafted_ += static_cast<int64_t>(all.size());
            std::sort(around_.begin(), around_.begin() + static_cast<int64_t>(one_step));
            std::sort(around_.begin() + static_cast<int64_t>(one_step), around_.end());
        }
        return around_;
    }

    const TuningTask &task_;
    TuneOptions options_;
    DraftRanking ranking_;
    int64_t drafted_;
    int64_t explore_;
    size_t next_ = 0;
    bool exhausted_ = false;
    Point centre_;
    std::vector<PricedPoint> around_;
};

std::unique_ptr<Proposer> make_random(const TuningTask &task, const TuneOptions &options) {
    // Points of `start` may be drawn again and are skipped then.
    const uint64_t wanted = options.max_trials > 0 ? options.max_trials + options.start.size() : options.draft_limit;
    Random random(options.seed);
    std::vector<Point> points = sample_distinct(task.space, wanted, random);
    const bool whole = points.size() < wanted;
    return std::make_unique<ListProposer>(std::move(points), 0,
                                          whole ? "every point of the space was evaluated"
                                                : fmt::format("the sample of {} points was evaluated", wanted));
}

std::unique_ptr<Proposer> make_exhaustive(const TuningTask &task, const TuneOptions &options) {
    DraftRanking ranking = rank_by_draft(task, std::numeric_limits<uint64_t>::max() - 1, 0, options.seed, options.threads);
    std::vector<Point> points;
    for (PricedPoint &priced : ranking.points) {
        points.push_back(std::move(priced.point));
    }
    return std::make_unique<ListProposer>(std::move(points), ranking.drafted, "every point of the space was evaluated");
}

std::unique_ptr<Proposer> make_draft(const TuningTask &task, const TuneOptions &options) {
    const uint64_t keep = options.max_trials > 0 ? std::max<uint64_t>(keep_at_least, 4 * options.max_trials) : 0;
    return std::make_unique<DraftProposer>(
        task, options, rank_by_draft(task, options.draft_limit, keep, options.seed, options.threads));
}

}  // namespace

std::unique_ptr<Proposer> make_proposer(const TuningTask &task, const TuneOptions &options) {
    if (count(task.space, 1) == 0) {
        throw Error(fmt::format("the schedule space of {} {} has no valid point: its constraints contradict each other for "
                                "this workload on machine {}", task.op, task.workload, task.machine_name));
    }
    switch (options.strategy) {
        case Strategy::Random: return make_random(task, options);
        case Strategy::Exhaustive: return make_exhaustive(task, options);
        case Strategy::Draft: break;
    }
    return make_draft(task, options);
}

}  // namespace atalla
