#include "dashboard/benchmark_file.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "db/bounded_json.h"
#include "isa/error.h"

namespace atalla {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

double seconds_in(const std::string &unit) {
    if (unit == "ns") return 1e-9;
    if (unit == "us") return 1e-6;
    if (unit == "ms") return 1e-3;
    if (unit == "s") return 1;
    throw Error(fmt::format("has the time unit '{}'; there are ns, us, ms and s", unit));
}

// What Google Benchmark writes for every benchmark; any other number is a counter.
const std::set<std::string> &known_keys() {
    static const std::set<std::string> keys = {"name",
                                               "run_name",
                                               "run_type",
                                               "family_index",
                                               "per_family_instance_index",
                                               "repetitions",
                                               "repetition_index",
                                               "threads",
                                               "iterations",
                                               "real_time",
                                               "cpu_time",
                                               "time_unit",
                                               "label",
                                               "error_occurred",
                                               "error_message",
                                               "aggregate_name",
                                               "aggregate_unit",
                                               "skipped",
                                               "skip_message",
                                               "big_o",
                                               "rms"};
    return keys;
}

void add_entry(const json &entry, BenchmarkResults &results, bool &aggregates) {
    if (entry.value("run_type", "iteration") == "aggregate") {
        aggregates = true;
        return;
    }
    const auto name = entry.at("name").get<std::string>();
    BenchmarkRun &run = results.runs[entry.value("run_name", name)];
    if (entry.value("error_occurred", false)) {
        run.error = entry.value("error_message", "failed without a reason");
        return;
    }
    run.seconds.push_back(entry.at("real_time").get<double>() * seconds_in(entry.value("time_unit", "ns")));
    run.label = entry.value("label", run.label);
    for (const auto &[key, value] : entry.items())
        if (value.is_number() && !known_keys().contains(key)) run.counters[key].push_back(value.get<double>());
}

std::string text_of(const fs::path &file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    if (!in || fs::is_directory(file) || !(text << in.rdbuf()).good())
        throw Error(
            fmt::format("cannot read the benchmark results {}: name a JSON file that ./atalla bench wrote", file.string()));
    return text.str();
}

}  // namespace

BenchmarkResults read_benchmark_file(const fs::path &file) {
    BenchmarkResults results;
    results.name = file.stem().string();
    bool aggregates = false;
    try {
        const json content = parse_bounded_json(text_of(file));
        const json context = content.value("context", json::object());
        results.date = context.value("date", "");
        results.host = context.value("host_name", "");
        for (const json &entry : content.at("benchmarks")) add_entry(entry, results, aggregates);
    } catch (const json::exception &) {
        throw Error(
            fmt::format("{} is not a result of Google Benchmark: it needs \"benchmarks\", a list of objects with \"name\" and "
                        "\"real_time\"",
                        file.string()));
    } catch (const Error &error) {
        const std::string what = error.what();
        throw Error(what.starts_with("cannot read") ? what : fmt::format("{}: {}", file.string(), what));
    }
    if (results.runs.empty() && aggregates)
        throw Error(
            fmt::format("{} has only aggregates; run the benchmark without --benchmark_report_aggregates_only", file.string()));
    return results;
}

std::vector<BenchmarkResults> read_benchmarks(const fs::path &path) {
    if (!fs::is_directory(path)) return {read_benchmark_file(path)};
    std::vector<fs::path> files;
    std::error_code failure;
    for (const fs::directory_entry &entry : fs::directory_iterator(path, failure))
        if (entry.path().extension() == ".json" && entry.is_regular_file()) files.push_back(entry.path());
    if (failure) throw Error(fmt::format("cannot read the folder {}: {}", path.string(), failure.message()));
    if (files.empty())
        throw Error(fmt::format("there are no benchmark results (*.json) in {}; ./atalla bench writes them", path.string()));
    std::sort(files.begin(), files.end());
    std::vector<BenchmarkResults> all;
    for (const fs::path &file : files) all.push_back(read_benchmark_file(file));
    return all;
}

bool is_exact_counter(const std::string &name) {
    return name == "cycles" || name == "packets" || name.ends_with("_cycles") || name.ends_with("_packets");
}

}  // namespace atalla
