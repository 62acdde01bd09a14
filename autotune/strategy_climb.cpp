#include <algorithm>
#include <optional>
#include <set>

#include "autotune/strategies.h"

namespace atalla {

namespace {

// Tries the neighbours of where it stands in random order, moves to any that is faster, and starts anew at a local optimum.
class ClimbProposer : public Proposer {
public:
    ClimbProposer(const TuningTask &task, const TuneOptions &options) : task_(task), random_(options.seed) {
        starts_ = sample_distinct(task.space, options.draft_limit, random_);
    }

    std::vector<Point> propose(size_t n, const Outcomes &outcomes) override {
        for (; seen_ < outcomes.size(); seen_++) {
            const Trial &trial = outcomes.trials()[seen_];
            if (trial.status == Trial::Ok && (!here_ || trial.cycles < here_->cycles)) {
                here_ = {trial.point, trial.cycles};
                around_.reset();
            }
        }
        std::vector<Point> batch;
        std::set<Point> chosen;
        const auto take = [&](const Point &point) {
            if (!outcomes.tried(point) && chosen.insert(point).second) {
                batch.push_back(point);
            }
        };
        if (here_) {
            if (!around_) {
                around_ = neighbours(task_.space, here_->point, 1);
                random_.shuffle(*around_);
            }
            for (const Point &point : *around_) {
                if (batch.size() < n) {
                    take(point);
                }
            }
        }
        if (batch.empty()) {
            here_.reset();
            around_.reset();
            for (; next_start_ < starts_.size() && batch.empty(); next_start_++) {
                take(starts_[next_start_]);
            }
        }
        return batch;
    }
    std::string ended() const override { return "every starting point led to a local optimum"; }

private:
    struct Place {
        Point point;
        int64_t cycles;
    };

    const TuningTask &task_;
    Random random_;
    std::vector<Point> starts_;
    size_t next_start_ = 0, seen_ = 0;
    std::optional<Place> here_;
    std::optional<std::vector<Point>> around_;
};

}  // namespace

std::unique_ptr<Proposer> make_climb(const TuningTask &task, const TuneOptions &options) {
    return std::make_unique<ClimbProposer>(task, options);
}

}  // namespace atalla
