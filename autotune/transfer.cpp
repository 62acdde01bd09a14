#include "autotune/transfer.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "autotune/draft.h"
#include "autotune/gaussian_process.h"
#include "isa/error.h"

namespace atalla {

namespace {

using nlohmann::json;

// Distances: of a value that is eight times as large, of another choice, and of an epilogue that one workload has alone.
const double octaves = std::log(8.0);
constexpr double choice_distance = 0.35, flag_distance = 0.5;
constexpr double prior_deviation = 0.2;
// What another schedule than the draft's must promise to save, as a logarithm.
constexpr double least_gain = 0.3;

double place_of(double number) { return std::copysign(std::log1p(std::abs(number)) / octaves, number); }

// The coordinates of a schedule for a workload: sizes by their logarithm, choices apart.
std::vector<double> coordinates(const Space &space, const json &workload, const Point &point) {
    std::vector<double> place;
    for (const Parameter &parameter : space.parameters) {
        const int64_t value = point.contains(parameter.name) ? point[parameter.name] : 0;
        if (parameter.choice) {
            for (const int64_t other : parameter.values) {
                place.push_back(value == other ? choice_distance : 0);
            }
        } else {
            place.push_back(place_of(static_cast<double>(value)));
        }
    }
    for (const json &member : workload) {
        place.push_back(member.is_number()                          ? place_of(member.get<double>())
                        : member.is_boolean() && member.get<bool>() ? flag_distance
                                                                    : 0);
    }
    return place;
}

struct Near {
    const TransferSource *source;
    double distance;
};

std::vector<Near> nearest(const std::string &workload, const std::vector<TransferSource> &sources, size_t most) {
    std::vector<Near> near;
    for (const TransferSource &source : sources) {
        const double distance = workload_distance(workload, source.workload);
        if (std::isfinite(distance) && !source.measured.empty()) {
            near.push_back({&source, distance});
        }
    }
    std::sort(near.begin(), near.end(), [](const Near &one, const Near &other) {
        return std::pair(one.distance, one.source->workload) < std::pair(other.distance, other.source->workload);
    });
    near.resize(std::min(near.size(), most));
    return near;
}

bool usable(double predicted) { return predicted > 0 && std::isfinite(predicted); }

std::optional<GaussianProcess> learned(const TuningTask &task, const std::vector<Near> &near, size_t each) {
    std::vector<std::vector<double>> points;
    std::vector<double> errors;
    for (const auto &[source, distance] : near) {
        std::vector<TransferSource::Measured> fastest = source->measured;
        std::sort(fastest.begin(), fastest.end(), [](const auto &one, const auto &other) {
            return std::pair(one.cycles, one.point) < std::pair(other.cycles, other.point);
        });
        fastest.resize(std::min(fastest.size(), each));
        const json workload = json::parse(source->workload);
        for (const TransferSource::Measured &one : fastest) {
            if (one.cycles > 0 && usable(one.predicted)) {
                points.push_back(coordinates(task.space, workload, one.point));
                errors.push_back(std::log(static_cast<double>(one.cycles) / one.predicted));
            }
        }
    }
    return points.empty()
               ? std::nullopt
               : std::optional<GaussianProcess>(std::in_place, std::move(points), std::move(errors), prior_deviation);
}

}  // namespace

double workload_distance(const std::string &one, const std::string &other) {
    const json a = json::parse(one, nullptr, false), b = json::parse(other, nullptr, false);
    if (!a.is_object() || !b.is_object() || a.size() != b.size()) {
        return INFINITY;
    }
    double square = 0;
    for (const auto &[name, value] : a.items()) {
        if (!b.contains(name) || b.at(name).type_name() != std::string(value.type_name())) {
            return INFINITY;
        }
        if (value.is_number()) {
            const double step = place_of(value.get<double>()) - place_of(b.at(name).get<double>());
            square += step * step;
        } else if (value.is_boolean()) {
            square += value == b.at(name) ? 0 : flag_distance * flag_distance;
        } else if (value != b.at(name)) {
            return INFINITY;
        }
    }
    return std::sqrt(square);
}

Transfer transfer_schedule(const TuningTask &task, const std::vector<TransferSource> &sources, const TransferOptions &options) {
    const DraftRanking ranking = rank_by_draft(task, options.draft_limit, options.candidates, options.seed, options.threads);
    if (ranking.points.empty()) {
        throw Error(fmt::format("{} has no schedule on machine {}: {}", task.name(), task.machine_name, why_empty(task.space)));
    }
    Transfer transfer;
    transfer.drafted = ranking.points.front().point;
    transfer.drafted_cycles = ranking.points.front().predicted;
    const std::vector<Near> near = nearest(task.workload, sources, options.neighbours);
    const std::optional<GaussianProcess> process = learned(task, near, options.measured_each);
    if (!process) {
        transfer.point = transfer.drafted;
        transfer.expected_cycles = transfer.drafted_cycles;
        return transfer;
    }
    const json workload = json::parse(task.workload);
    const auto size = static_cast<int64_t>(ranking.points.size());
    std::vector<GaussianProcess::Prediction> errors(ranking.points.size());
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < size; i++) {
        errors[static_cast<size_t>(i)] =
            process->predict(coordinates(task.space, workload, ranking.points[static_cast<size_t>(i)].point));
    }
    double least = INFINITY;
    for (size_t i = 0; i < errors.size(); i++) {
        const double drafted = usable(ranking.points[i].predicted) ? std::log(ranking.points[i].predicted) : 0;
        // Of equal hopes the surer one: there is no trial that could correct a wrong guess.
        const double expected = drafted + errors[i].mean + errors[i].deviation;
        if (i == 0 || expected < least) {
            // The draft's choice stays unless another promises clearly more.
            least = i == 0 ? expected - least_gain : expected;
            transfer.point = ranking.points[i].point;
            transfer.expected_cycles = std::exp(drafted + errors[i].mean);
            transfer.uncertainty = std::expm1(errors[i].deviation);
        }
    }
    for (const auto &[source, distance] : near) {
        transfer.from.push_back({source->workload, distance, std::min(source->measured.size(), options.measured_each)});
    }
    return transfer;
}

}  // namespace atalla
