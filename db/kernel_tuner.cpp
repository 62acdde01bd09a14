#include "db/kernel_tuner.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <sstream>

#include "db/bounded_json.h"
#include "db/export.h"
#include "isa/error.h"

namespace atalla {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char *schema_version = "1.0.0";

using Names = std::vector<std::string>;

Names names_of(const Point &point) {
    Names names;
    for (const auto &[name, value] : point.values()) {
        names.emplace_back(name);
    }
    return names;
}

// Kernel Tuner's words for configurations that have no time.
const char *failure_name(Trial::Status status) {
    return status == Trial::Failed ? "CompilationFailedConfig" : "RuntimeFailedConfig";
}

std::string time_text(int64_t milliseconds) {
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}+00:00", fmt::gmtime(static_cast<std::time_t>(milliseconds / 1000)),
                       milliseconds % 1000);
}

std::string row_key(const TuningCache &cache, const Point &point) {
    std::vector<int64_t> values;
    for (const TuningCache::Parameter &parameter : cache.parameters) {
        values.push_back(point[parameter.name]);
    }
    return fmt::format("{}", fmt::join(values, ","));
}

ordered_json row_json(const TuningCache &cache, const TuningCache::Row &row) {
    ordered_json line;
    for (const TuningCache::Parameter &parameter : cache.parameters) {
        line[parameter.name] = row.trial.point[parameter.name];
    }
    const bool ok = row.trial.status == Trial::Ok;
    line["time"] = ok ? ordered_json(row.trial.cycles) : ordered_json(failure_name(row.trial.status));
    line["compile_time"] = row.trial.seconds_lower * 1000;
    line["verification_time"] = 0;
    line["benchmark_time"] = row.trial.seconds_simulate * 1000;
    line["strategy_time"] = 0;
    line["framework_time"] = 0;
    line["timestamp"] = time_text(row.when);
    line["when"] = row.when;
    line["status"] = status_name(row.trial.status);
    if (!ok) {
        line["cycles"] = row.trial.cycles;
        line["reason"] = row.trial.reason;
    }
    if (row.predicted > 0) {
        line["predicted"] = row.predicted;
    }
    return line;
}

TuningCache::Row parse_row(const TuningCache &cache, const json &line) {
    TuningCache::Row row;
    for (const TuningCache::Parameter &parameter : cache.parameters) {
        row.trial.point.set(parameter.name, line.at(parameter.name).get<int64_t>());
    }
    row.trial.status = parse_status(line.at("status").get<std::string>());
    const bool ok = row.trial.status == Trial::Ok;
    row.trial.cycles = line.at(ok ? "time" : "cycles").get<int64_t>();
    if (ok && row.trial.cycles <= 0) {
        throw Error(fmt::format("a trial that is ok took {} cycles", row.trial.cycles));
    }
    row.trial.reason = ok ? "" : line.at("reason").get<std::string>();
    row.trial.seconds_lower = line.at("compile_time").get<double>() / 1000;
    row.trial.seconds_simulate = line.at("benchmark_time").get<double>() / 1000;
    row.predicted = line.value("predicted", 0.0);
    row.when = line.at("when").get<int64_t>();
    return row;
}

}  // namespace

TuningCache tuning_cache(const Database &database, const TrialKey &key) {
    const std::vector<StoredTrial> trials = database.trials_of(key);
    std::map<Names, size_t> frequency;
    for (const StoredTrial &stored : trials) {
        frequency[names_of(stored.trial.point)]++;
    }
    const auto usual = std::max_element(frequency.begin(), frequency.end(),
                                        [](const auto &one, const auto &other) { return one.second < other.second; });
    if (usual == frequency.end()) {
        throw Error(
            fmt::format("the database {} has no trial of {} {} to export", database.file().string(), key.op, key.workload));
    }
    TuningCache cache;
    cache.key = key;
    for (const KeySummary &summary : database.list({key.op, key.workload, key.machine, key.compiler, {}})) {
        cache.machine_name = summary.machine_name;
        cache.bound_cycles = summary.bound_cycles;
    }
    std::map<std::string, std::set<int64_t>> values;
    for (const StoredTrial &stored : trials) {
        if (names_of(stored.trial.point) != usual->first) {
            continue;
        }
        for (const auto &[name, value] : stored.trial.point.values()) {
            values[std::string(name)].insert(value);
        }
        cache.rows.push_back({stored.trial, 0, stored.when});
    }
    for (const auto &[name, used] : values) {
        cache.parameters.push_back({name, {used.begin(), used.end()}, false});
    }
    return cache;
}

void write_tuning_cache(const TuningCache &cache, std::ostream &out) {
    ordered_json head;
    head["schema_version"] = schema_version;
    head["device_name"] = cache.machine_name.empty() ? cache.key.machine : cache.machine_name;
    head["kernel_name"] = cache.key.op;
    head["problem_size"] = json::array();
    head["tune_params_keys"] = json::array();
    head["tune_params"] = json::object();
    json choices = json::array();
    for (const TuningCache::Parameter &parameter : cache.parameters) {
        head["tune_params_keys"].push_back(parameter.name);
        head["tune_params"][parameter.name] = parameter.values;
        if (parameter.choice) {
            choices.push_back(parameter.name);
        }
    }
    head["objective"] = "time";
    head["atalla"] = {{"unit", "cycles"},
                      {"op", cache.key.op},
                      {"workload", cache.key.workload},
                      {"machine", cache.key.machine},
                      {"machine_name", cache.machine_name},
                      {"compiler", cache.key.compiler},
                      {"bound_cycles", cache.bound_cycles},
                      {"choices", choices}};
    // One line a configuration, as Kernel Tuner appends them.
    std::string text = head.dump(1);
    text.erase(text.rfind('\n'));
    out << text << ",\n\"cache\": {";
    const char *separator = "\n";
    for (const TuningCache::Row &row : cache.rows) {
        out << separator << json(row_key(cache, row.trial.point)).dump() << ": "
            << row_json(cache, row).dump(-1, ' ', false, json::error_handler_t::replace);
        separator = ",\n";
    }
    out << "\n}\n}\n";
}

TuningCache parse_tuning_cache(std::string_view text, const std::string &name) {
    TuningCache cache;
    try {
        const json file = parse_bounded_json(text);
        if (!file.is_object() || file.value("schema_version", json()) != schema_version) {
            throw Error(fmt::format("not a cache of Kernel Tuner with schema version {}", schema_version));
        }
        if (!file.contains("atalla")) {
            throw Error(
                "the cache was not written by atalla-tune: it has no fingerprints, without which its trials could be "
                "mistaken for others");
        }
        const json &own = file.at("atalla");
        cache.key = {own.at("op").get<std::string>(), own.at("workload").get<std::string>(),
                     own.at("machine").get<std::string>(), own.at("compiler").get<std::string>()};
        cache.machine_name = own.at("machine_name").get<std::string>();
        cache.bound_cycles = own.at("bound_cycles").get<int64_t>();
        const auto choices = own.at("choices").get<std::vector<std::string>>();
        for (const json &parameter : file.at("tune_params_keys")) {
            const auto key = parameter.get<std::string>();
            if (!is_parameter_name(key)) {
                throw Error(fmt::format("{} is not the name of a parameter", parameter.dump()));
            }
            cache.parameters.push_back({key, file.at("tune_params").at(key).get<std::vector<int64_t>>(),
                                        std::find(choices.begin(), choices.end(), key) != choices.end()});
        }
        for (const auto &[key, line] : file.at("cache").items()) {
            try {
                cache.rows.push_back(parse_row(cache, line));
            } catch (const std::exception &error) {
                throw Error(fmt::format("configuration {}: {}", key, error.what()));
            }
        }
    } catch (const std::exception &error) {
        throw Error(fmt::format("{}: {}", name, error.what()));
    }
    return cache;
}

MergeReport import_tuning_cache(Database &database, const TuningCache &cache) {
    std::stringstream lines;
    lines << export_header() << '\n' << export_line(MachineName{cache.key.machine, cache.machine_name}) << '\n';
    for (const TuningCache::Row &row : cache.rows) {
        lines << export_line(StoredTrial{cache.key, row.trial, Verification::Unverified, "", "", row.when}) << '\n';
    }
    return database.import_from(lines, "the cache");
}

}  // namespace atalla
