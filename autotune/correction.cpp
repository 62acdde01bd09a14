#include "autotune/correction.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "isa/error.h"
#include "isa/machine_parameters.h"
#include "isa/read_file.h"
#include "isa/write_file.h"

namespace atalla {

namespace {

using nlohmann::json;

constexpr const char *format_name = "atalla draft correction";
constexpr int format_version = 1;
// Of the draft itself, as features.
constexpr const char *drafted_feature = "drafted", *over_bound_feature = "drafted/bound", *bound_feature = "bound";
constexpr const char *point_prefix = "point.";
// A point that takes e times as long as the best of its task counts that much less, as an exponent.
constexpr double focus = 1.5;

// Sizes differ by factors.
double scaled(double number) { return std::copysign(std::log1p(std::abs(number)), number); }

void flatten(const json &value, const std::string &name, Features &features) {
    if (value.is_number()) {
        features[name] = scaled(value.get<double>());
    } else if (value.is_boolean()) {
        features[name] = value.get<bool>() ? 1 : 0;
    } else if (value.is_string()) {
        features[name + "=" + value.get<std::string>()] = 1;
    } else if (value.is_object()) {
        for (const auto &[key, member] : value.items()) {
            flatten(member, name.empty() ? key : name + "." + key, features);
        }
    } else if (value.is_array()) {
        features[name + ".size"] = static_cast<double>(value.size());
        for (size_t i = 0; i < value.size(); i++) {
            flatten(value[i], fmt::format("{}.{}", name, i), features);
        }
    }
}

int64_t fastest(const MeasuredTask &task) {
    int64_t best = 0;
    for (const MeasuredPoint &point : task.points) {
        if (!point.at_least && (best == 0 || point.cycles < best)) {
            best = point.cycles;
        }
    }
    return best;
}

double median(std::vector<double> values) {
    if (values.empty()) {
        return 0;
    }
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Mean distance of the logarithms of prediction and measurement from their own mean: a factor common to a task changes no
// decision.
double spread(const MeasuredTask &task, const std::function<double(const MeasuredPoint &)> &predict) {
    std::vector<double> errors;
    for (const MeasuredPoint &point : task.points) {
        if (!point.at_least) {
            errors.push_back(std::log(static_cast<double>(point.cycles) / predict(point)));
        }
    }
    double mean = 0, distance = 0;
    for (const double error : errors) {
        mean += error / static_cast<double>(errors.size());
    }
    for (const double error : errors) {
        distance += std::abs(error - mean) / static_cast<double>(errors.size());
    }
    return distance;
}

double share_of_pick(const MeasuredTask &task, const std::function<double(const MeasuredPoint &)> &predict) {
    const auto pick =
        std::min_element(task.points.begin(), task.points.end(), [&](const MeasuredPoint &one, const MeasuredPoint &other) {
            return std::pair(predict(one), one.point) < std::pair(predict(other), other.point);
        });
    return static_cast<double>(fastest(task)) / static_cast<double>(pick->cycles);
}

bool usable(double drafted) { return drafted > 0 && std::isfinite(drafted); }

}  // namespace

// The features of a task's points, in the order of the names: those of the task once, those of the point in their places.
class Correction::Row {
public:
    Row(const Correction &correction, const Features &task) {
        const auto bound = task.find(bound_feature);
        log_bound_ = bound == task.end() ? 0 : bound->second;
        for (const std::string &name : correction.names_) {
            const auto value = task.find(name);
            if (name == drafted_feature) {
                drafted_ = fixed_.size();
            } else if (name == over_bound_feature) {
                over_bound_ = fixed_.size();
            } else if (name.starts_with(point_prefix)) {
                parameters_.emplace_back(fixed_.size(), name.substr(std::string_view(point_prefix).size()));
            }
            fixed_.push_back(value == task.end() ? 0 : value->second);
        }
    }

    std::vector<double> of(const Point &point, double drafted) const {
        std::vector<double> row = fixed_;
        for (const auto &[at, name] : parameters_) {
            const int64_t *value = point.find(name);
            row[at] = value ? scaled(static_cast<double>(*value)) : 0;
        }
        row[drafted_] = std::log(drafted);
        row[over_bound_] = row[drafted_] - log_bound_;
        return row;
    }

private:
    std::vector<double> fixed_;
    std::vector<std::pair<size_t, std::string>> parameters_;
    size_t drafted_ = 0, over_bound_ = 0;
    double log_bound_ = 0;
};

Features task_features(const std::string &workload, const Machine &machine, int64_t bound_cycles) {
    Features features;
    flatten(json::parse(workload, nullptr, false), "", features);
    for (const ParameterEntry &parameter : parameter_table()) {
        features[std::string(parameter.key)] = static_cast<double>(parameter.get(machine));
    }
    features["timed"] = machine.timed();
    features[bound_feature] = bound_cycles > 0 ? std::log(static_cast<double>(bound_cycles)) : 0;
    return features;
}

Correction::Correction(const std::vector<MeasuredTask> &tasks) {
    choose_features(tasks);
    std::vector<TreeSample> samples;
    for (const MeasuredTask &task : tasks) {
        const auto best = static_cast<double>(fastest(task));
        const Row row(*this, task.features);
        for (const MeasuredPoint &point : task.points) {
            if (best > 0 && point.cycles > 0 && usable(point.drafted)) {
                samples.push_back({row.of(point.point, point.drafted),
                                   std::log(static_cast<double>(point.cycles) / point.drafted),
                                   std::pow(static_cast<double>(point.cycles) / best, -focus), point.at_least});
            }
        }
    }
    trees_ = BoostedTrees(samples, {});
}

void Correction::choose_features(const std::vector<MeasuredTask> &tasks) {
    std::map<std::string, std::vector<double>> columns;
    std::set<std::string> parameters;
    for (size_t i = 0; i < tasks.size(); i++) {
        for (const auto &[name, value] : tasks[i].features) {
            columns[name].resize(tasks.size());
            columns[name][i] = value;
        }
        for (const MeasuredPoint &point : tasks[i].points) {
            for (const auto &[name, value] : point.point.values()) {
                parameters.emplace(name);
            }
        }
    }
    // Of features that tell the same tasks apart, such as many parameters of two machines, one is enough.
    std::set<std::vector<size_t>> partitions;
    for (const auto &[name, column] : columns) {
        std::map<double, size_t> groups;
        std::vector<size_t> partition;
        for (const double value : column) {
            partition.push_back(groups.try_emplace(value, groups.size()).first->second);
        }
        if (groups.size() > 1 && (partitions.insert(partition).second || name == bound_feature)) {
            names_.push_back(name);
        }
    }
    for (const std::string &name : parameters) {
        names_.push_back(point_prefix + name);
    }
    names_.insert(names_.end(), {drafted_feature, over_bound_feature});
}

std::function<double(const Point &, double)> Correction::of(Features task) const {
    return [this, row = Row(*this, task)](const Point &point, double drafted) {
        return usable(drafted) ? std::exp(trees_.predict(row.of(point, drafted))) : 1;
    };
}

json Correction::json() const { return {{"features", names_}, {"trees", trees_.json()}}; }

Correction Correction::from_json(const nlohmann::json &json) {
    Correction correction;
    try {
        correction.names_ = json.at("features").get<std::vector<std::string>>();
        for (const char *name : {drafted_feature, over_bound_feature}) {
            if (std::ranges::find(correction.names_, name) == correction.names_.end()) {
                throw Error(fmt::format("the feature '{}' is missing", name));
            }
        }
        correction.trees_ = BoostedTrees::from_json(json.at("trees"), correction.names_.size());
    } catch (const nlohmann::json::exception &error) {
        throw Error(fmt::format("it has no features and trees: {}", error.what()));
    }
    return correction;
}

void write_corrections(const Corrections &corrections, const std::filesystem::path &file) {
    json operators = json::object();
    for (const auto &[op, correction] : corrections) {
        operators[op] = correction.json();
    }
    const std::filesystem::path unfinished = unfinished_of(file);
    std::ofstream out(unfinished);
    out << json{{"format", format_name}, {"version", format_version}, {"operators", operators}}.dump() << '\n';
    out.close();
    std::error_code failure;
    if (out) {
        std::filesystem::rename(unfinished, file, failure);
    }
    if (!out || failure) {
        discard_unfinished(file);
        throw Error(fmt::format("cannot write {}: is there such a folder, and space?", file.string()));
    }
}

Corrections read_corrections(const std::filesystem::path &file) {
    std::ifstream in = open_to_read(file);
    const json document = json::parse(in, nullptr, false);
    if (!document.is_object() || document.value("format", "") != format_name ||
        document.value("version", 0) != format_version || !document.contains("operators")) {
        throw Error(
            fmt::format("{} holds no corrections of version {}: `atalla learn` writes them", file.string(), format_version));
    }
    Corrections corrections;
    for (const auto &[op, one] : document.at("operators").items()) {
        try {
            corrections.emplace(op, Correction::from_json(one));
        } catch (const Error &error) {
            throw Error(fmt::format("{}: the correction of {} cannot be used: {}", file.string(), op, error.what()));
        }
    }
    return corrections;
}

const Corrections &shipped_corrections() {
    static const Corrections corrections = [] {
        if (const char *chosen = std::getenv("ATALLA_CORRECTIONS")) {
            return *chosen == '\0' ? Corrections() : read_corrections(chosen);
        }
        std::error_code ignored;
        const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
        const std::filesystem::path installed =
            program.parent_path().parent_path() / "share" / "atalla-tune" / "corrections.json";
        if (std::filesystem::exists(installed, ignored)) {
            return read_corrections(installed);
        }
        return std::filesystem::exists(ATALLA_CORRECTIONS_FILE, ignored) ? read_corrections(ATALLA_CORRECTIONS_FILE)
                                                                         : Corrections();
    }();
    return corrections;
}

std::function<double(const Point &)> corrected_draft(const Corrections &corrections, const std::string &op, Features task,
                                                     std::function<double(const Point &)> draft) {
    const auto found = corrections.find(op);
    if (found == corrections.end()) {
        return draft;
    }
    return [factor = found->second.of(std::move(task)), draft = std::move(draft)](const Point &point) {
        const double drafted = draft(point);
        return drafted * factor(point, drafted);
    };
}

CorrectionQuality judge_correction(const std::vector<MeasuredTask> &tasks, size_t folds) {
    CorrectionQuality quality;
    std::vector<double> shares_drafted, shares_corrected;
    quality.worst_drafted = quality.worst_corrected = 1;
    for (size_t fold = 0; fold < folds; fold++) {
        std::vector<MeasuredTask> known;
        std::vector<const MeasuredTask *> held_back;
        for (size_t i = 0; i < tasks.size(); i++) {
            if (i % folds == fold) {
                held_back.push_back(&tasks[i]);
            } else {
                known.push_back(tasks[i]);
            }
        }
        const Correction correction(known);
        for (const MeasuredTask *task : held_back) {
            if (task->points.size() < 2 || fastest(*task) == 0) {
                continue;
            }
            const auto factor = correction.of(task->features);
            const auto drafted = [](const MeasuredPoint &point) { return point.drafted; };
            const auto corrected = [&](const MeasuredPoint &point) {
                return point.drafted * factor(point.point, point.drafted);
            };
            quality.tasks++;
            quality.points += task->points.size();
            quality.error_drafted += spread(*task, drafted);
            quality.error_corrected += spread(*task, corrected);
            shares_drafted.push_back(share_of_pick(*task, drafted));
            shares_corrected.push_back(share_of_pick(*task, corrected));
        }
    }
    if (quality.tasks > 0) {
        quality.error_drafted /= static_cast<double>(quality.tasks);
        quality.error_corrected /= static_cast<double>(quality.tasks);
        quality.share_drafted = median(shares_drafted);
        quality.share_corrected = median(shares_corrected);
        quality.worst_drafted = *std::min_element(shares_drafted.begin(), shares_drafted.end());
        quality.worst_corrected = *std::min_element(shares_corrected.begin(), shares_corrected.end());
    }
    return quality;
}

}  // namespace atalla
