#include <algorithm>
#include <set>

#include "autotune/strategies.h"

namespace atalla {

namespace {

constexpr size_t population_size = 12;  // parents, the fastest so far
constexpr size_t first_generation = 16;
// Attempts to make a child that is valid and new before a random point takes its place.
constexpr int attempts = 20;
constexpr uint64_t mutated_of_four = 2;  // children that also move one step

class EvolveProposer : public Proposer {
public:
    EvolveProposer(const TuningTask &task, const TuneOptions &options) : task_(task), random_(options.seed) {
        fresh_ = sample_distinct(task.space, options.draft_limit, random_);
    }

    std::vector<Point> propose(size_t n, const Outcomes &outcomes) override {
        const std::vector<const Trial *> parents = fastest(outcomes);
        std::vector<Point> batch;
        std::set<Point> chosen;
        const auto take = [&](const Point &point) {
            const bool fresh = !outcomes.tried(point) && chosen.insert(point).second;
            if (fresh) {
                batch.push_back(point);
            }
            return fresh;
        };
        while (batch.size() < n) {
            bool born = false;
            for (int attempt = 0; attempt < attempts && !born && outcomes.size() >= first_generation && parents.size() > 1;
                 attempt++) {
                const Point point = child(parents);
                born = violation(task_.space, point).empty() && take(point);
            }
            while (!born && next_ < fresh_.size()) {
                born = take(fresh_[next_++]);
            }
            if (!born) {
                break;
            }
        }
        return batch;
    }
    std::string ended() const override { return "every point of the sample was evaluated"; }

private:
    static std::vector<const Trial *> fastest(const Outcomes &outcomes) {
        std::vector<const Trial *> trials;
        for (const Trial &trial : outcomes.trials()) {
            if (trial.status == Trial::Ok) {
                trials.push_back(&trial);
            }
        }
        std::sort(trials.begin(), trials.end(), [](const Trial *one, const Trial *other) {
            return std::pair(one->cycles, one->point) < std::pair(other->cycles, other->point);
        });
        trials.resize(std::min(trials.size(), population_size));
        return trials;
    }

    // Each parameter from one of two parents, the faster ones chosen more often; then perhaps a step aside.
    Point child(const std::vector<const Trial *> &parents) {
        const auto pick = [&] { return parents[std::min(random_.below(parents.size()), random_.below(parents.size()))]; };
        const Trial *mother = pick(), *father = pick();
        Point point = mother->point;
        for (const Parameter &parameter : task_.space.parameters) {
            if (random_.below(2) == 0) {
                point.set(parameter.name, father->point[parameter.name]);
            }
        }
        if (random_.below(4) < mutated_of_four) {
            const Parameter &parameter = task_.space.parameters[random_.below(task_.space.parameters.size())];
            point.set(parameter.name, parameter.values[random_.below(parameter.values.size())]);
        }
        return point;
    }

    const TuningTask &task_;
    Random random_;
    std::vector<Point> fresh_;
    size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Proposer> make_evolve(const TuningTask &task, const TuneOptions &options) {
    return std::make_unique<EvolveProposer>(task, options);
}

}  // namespace atalla
