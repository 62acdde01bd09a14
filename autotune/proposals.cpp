#include "autotune/proposals.h"

#include <fmt/format.h>
#include <algorithm>
#include <limits>

#include "autotune/strategies.h"
#include "isa/error.h"

namespace atalla {

namespace {

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

std::unique_ptr<Proposer> make_random(const TuningTask &task, const TuneOptions &options) {
    // Points of `start` may be drawn again and are skipped then.
    const uint64_t wanted = options.max_trials > 0 ? options.max_trials + options.start.size() : options.draft_limit;
    Random random(options.seed);
    std::vector<Point> points = sample_distinct(task.space, wanted, random);
    const bool whole = points.size() < wanted;
    return std::make_unique<ListProposer>(
        std::move(points), 0,
        whole ? "every point of the space was evaluated" : fmt::format("the sample of {} points was evaluated", wanted));
}

std::unique_ptr<Proposer> make_exhaustive(const TuningTask &task, const TuneOptions &options) {
    DraftRanking ranking = rank_by_draft(task, std::numeric_limits<uint64_t>::max() - 1, 0, options.seed, options.threads);
    std::vector<Point> points;
    for (PricedPoint &priced : ranking.points) {
        points.push_back(std::move(priced.point));
    }
    return std::make_unique<ListProposer>(std::move(points), ranking.drafted, "every point of the space was evaluated");
}

std::shared_ptr<const DraftRanking> ranking(const TuningTask &task, const TuneOptions &options) {
    const uint64_t keep = options.max_trials > 0 ? std::max<uint64_t>(keep_at_least, 4 * options.max_trials) : 0;
    return std::make_shared<DraftRanking>(rank_by_draft(task, options.draft_limit, keep, options.seed, options.threads));
}

}  // namespace

std::unique_ptr<Proposer> make_proposer(const TuningTask &task, const TuneOptions &options) {
    if (count(task.space, 1) == 0) {
        throw Error(fmt::format("{} has no schedule on machine {}: {}", task.name(), task.machine_name, why_empty(task.space)));
    }
    switch (options.strategy) {
        case Strategy::Random:
            return make_random(task, options);
        case Strategy::Exhaustive:
            return make_exhaustive(task, options);
        case Strategy::Climb:
            return make_climb(task, options);
        case Strategy::Evolve:
            return make_evolve(task, options);
        case Strategy::Draft:
            return make_draft(task, options, ranking(task, options));
        case Strategy::Model:
            break;
    }
    return make_model(task, options, ranking(task, options));
}

}  // namespace atalla
