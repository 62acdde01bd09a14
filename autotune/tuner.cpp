#include "autotune/tuner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <map>

#include "autotune/session.h"
#include "db/database.h"
#include "isa/error.h"

namespace atalla {

namespace {

constexpr std::array<const char *, 6> strategy_names = {"model", "draft", "random", "exhaustive", "climb", "evolve"};

}  // namespace

const char *strategy_name(Strategy strategy) { return strategy_names.at(static_cast<size_t>(strategy)); }

Strategy parse_strategy(std::string_view name) {
    for (size_t strategy = 0; strategy < strategy_names.size(); strategy++) {
        if (name == strategy_names[strategy]) {
            return static_cast<Strategy>(strategy);
        }
    }
    const std::string near = nearest_name(name, {strategy_names.begin(), strategy_names.end()});
    throw Error(fmt::format("'{}' is not a search strategy ({}){}", name, fmt::join(strategy_names, ", "),
                            near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

TuneOptions options_for_effort(std::string_view effort) {
    static const std::map<std::string, int64_t, std::less<>> trials = {
        {"draft", 1}, {"quick", 16}, {"normal", 64}, {"thorough", 512}, {"exhaustive", 0}};
    const auto found = trials.find(effort);
    if (found == trials.end()) {
        const std::string near = nearest_name(effort, {"draft", "quick", "normal", "thorough", "exhaustive"});
        throw Error(fmt::format("'{}' is not an effort (draft, quick, normal, thorough, exhaustive){}", effort,
                                near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    }
    TuneOptions options;
    options.max_trials = found->second;
    if (effort == "exhaustive") {
        options.strategy = Strategy::Exhaustive;
    }
    options.trust_draft = effort != "thorough";
    return options;
}

TuneResult tune(const TuningTask &task, Database *database, const TuneOptions &options) {
    TuningSession session(task, database, options);
    while (session.step()) {
    }
    session.try_choices();
    return session.finish();
}

std::vector<Point> known_good_points(const Database &database, const TuningTask &task) {
    std::vector<Point> points;
    for (const StoredTrial &winner : database.related_winners(task.key())) {
        const Point &point = winner.trial.point;
        if (violation(task.space, point).empty() && std::find(points.begin(), points.end(), point) == points.end()) {
            points.push_back(point);
        }
    }
    return points;
}

}  // namespace atalla
