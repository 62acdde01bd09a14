#include "dashboard/site_json.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "dashboard/rank_test.h"
#include "schedules/bounds.h"

namespace atalla {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Workloads are canonical JSON; one that is not is shown as it is.
json workload_json(const std::string &text) {
    json value = json::parse(text, nullptr, false);
    return value.is_discarded() ? json(text) : value;
}

ordered_json history_json(const KernelRecord &kernel) {
    ordered_json entries = ordered_json::array();
    for (const HistoryEntry &entry : kernel.history())
        entries.push_back({{"when", entry.when},
                           {"compiler", entry.compiler},
                           {"cycles", entry.cycles},
                           {"bound", entry.bound_cycles},
                           {"trials", entry.trials},
                           {"verified", entry.verified}});
    return entries;
}

int64_t count_of(const KernelVersion &version, Trial::Status status) {
    return std::ranges::count(version.rows, status, &KernelVersion::Row::status);
}

const char *verification_name(Verification verification) {
    switch (verification) {
        case Verification::Verified:
            return "verified";
        case Verification::Differs:
            return "wrong";
        case Verification::Unverified:
            break;
    }
    return "";
}

ordered_json rows_json(const KernelVersion &version) {
    const int64_t first = version.rows.empty() ? 0 : version.rows.front().when;
    std::vector<int64_t> when, cycles;
    std::vector<int32_t> run;
    std::vector<int> status;
    for (const KernelVersion::Row &row : version.rows) {
        when.push_back(row.when - first);
        // The charts are of right results.
        cycles.push_back(row.verification == Verification::Differs ? 0 : row.cycles);
        run.push_back(row.run);
        status.push_back(row.status);
    }
    return {{"first", first}, {"when", when}, {"cycles", cycles}, {"run", run}, {"status", status}};
}

ordered_json version_json(const KernelVersion &version) {
    ordered_json runs = ordered_json::array();
    for (const TuningRun &run : version.runs)
        runs.push_back({{"id", run.id},
                        {"host", run.host},
                        {"strategy", run.strategy},
                        {"seed", run.seed},
                        {"started", run.started},
                        {"ended", run.ended},
                        {"outcome", run.outcome},
                        {"bound", run.bound_cycles}});
    ordered_json fastest = ordered_json::array();
    for (const KernelVersion::Measured &trial : version.fastest)
        fastest.push_back({{"cycles", trial.cycles},
                           {"point", trial.point.assignments()},
                           {"verification", verification_name(trial.verification)},
                           {"differs", trial.differs},
                           {"when", trial.when}});
    ordered_json failures = ordered_json::array();
    for (const auto &[kind, failure] : version.failures)
        failures.push_back({{"status", status_name(failure.status)},
                            {"reason", failure.reason},
                            {"count", failure.count},
                            {"point", failure.example.assignments()}});
    ordered_json winner;
    if (version.winner) {
        winner = {{"cycles", version.winner->trial.cycles},
                  {"values", json(version.winner->trial.point)},
                  {"point", version.winner->trial.point.assignments()},
                  {"verified", version.winner->verification == Verification::Verified},
                  {"counters", version.winner->trial.counters}};
    }
    return {{"compiler", version.compiler},
            {"bound", version.bound_cycles()},
            {"unoptimized", version.unoptimized_cycles},
            {"optimal_in_space",
             version.winner && version.certificate && version.certificate->optimal_in_space(version.winner->trial.cycles)},
            {"winner", winner},
            {"runs", runs},
            {"run_ids", version.run_ids},
            {"rows", rows_json(version)},
            {"fastest", fastest},
            {"failures", failures},
            {"seconds_lower", version.seconds_lower},
            {"seconds_simulate", version.seconds_simulate}};
}

ordered_json identity_json(const KernelRecord &kernel, const KernelNotes &notes) {
    return {{"id", kernel.id},
            {"op", kernel.op},
            {"workload", workload_json(kernel.workload)},
            {"title", notes.title},
            {"machine", kernel.machine},
            {"machine_name", kernel.machine_name.empty() ? kernel.machine : kernel.machine_name}};
}

// FLOP a cycle of adder, multiplier, exponentials and reduction side by side.
double lane_flops(const Machine &machine) {
    constexpr double units_of_all_lanes = 3;
    const auto interval = [](int64_t cycles) { return static_cast<double>(std::max<int64_t>(cycles, 1)); };
    const double operations = units_of_all_lanes / interval(machine.vec.ii) + 1 / interval(machine.vec.reduce_ii);
    return static_cast<double>(machine.vec.vl) * std::min(static_cast<double>(machine.issue.lane_ops), operations);
}

}  // namespace

ordered_json kernel_summary_json(const KernelRecord &kernel, const KernelNotes &notes) {
    const KernelVersion &current = kernel.current();
    ordered_json row = identity_json(kernel, notes);
    row["compiler"] = current.compiler;
    row["cycles"] = current.winner ? current.winner->trial.cycles : 0;
    row["bound"] = current.bound_cycles();
    row["verified"] = current.winner && current.winner->verification == Verification::Verified;
    row["trials"] = kernel.trials();
    row["failed"] = std::ssize(current.rows) - count_of(current, Trial::Ok);
    row["unfinished"] = kernel.unfinished;
    row["when"] = current.last_activity();
    row["history"] = history_json(kernel);
    return row;
}

ordered_json kernel_detail_json(const KernelRecord &kernel, const KernelNotes &notes) {
    ordered_json page = identity_json(kernel, notes);
    page["words"] = notes.words;
    page["flops"] = notes.flops;
    page["bound_by"] = notes.bound_by;
    page["bound_terms"] = ordered_json::array();
    for (const auto &[name, cycles] : notes.bound_terms) page["bound_terms"].push_back({{"name", name}, {"cycles", cycles}});
    page["program"] = !notes.program.empty();
    page["history"] = history_json(kernel);
    page["versions"] = ordered_json::array();
    for (const KernelVersion &version : kernel.versions) page["versions"].push_back(version_json(version));
    return page;
}

ordered_json machine_json(const std::string &fingerprint, const std::string &name, const std::vector<Machine> &known) {
    ordered_json result = {{"fingerprint", fingerprint}, {"name", name.empty() ? fingerprint : name}, {"peak", nullptr}};
    for (const Machine &machine : known) {
        if (machine.fingerprint() != fingerprint) continue;
        // Rates of the array, of the lanes, and of DRAM over a long transfer.
        constexpr int64_t megabyte = 1 << 20;
        result["timed"] = machine.timed();
        result["peak"] = {
            {"array_flops", 2 * machine.sa.rows * machine.sa.cols},
            {"lane_flops", lane_flops(machine)},
            {"dram_bytes",
             machine.timed() ? static_cast<double>(megabyte) / static_cast<double>(dram_cycles(machine, megabyte)) : 0},
            {"beat", machine.sdma.beat},
            {"array_rows", machine.sa.rows},
            {"array_cols", machine.sa.cols}};
    }
    return result;
}

ordered_json models_json(const std::vector<SiteModel> &models) {
    ordered_json all = ordered_json::array();
    for (const SiteModel &model : models) {
        ordered_json layers = ordered_json::array();
        for (const SiteLayer &layer : model.layers)
            layers.push_back({{"name", layer.name},
                              {"count", layer.count},
                              {"op", layer.op},
                              {"workload", workload_json(layer.workload)},
                              {"problem", layer.problem}});
        all.push_back({{"name", model.name}, {"source", model.source}, {"layers", layers}});
    }
    return all;
}

namespace {

// A row for each metric that several runs have: its value in each of them, null where a run lacks it.
ordered_json benchmark_history_json(const std::vector<std::vector<BenchmarkResults>> &history) {
    struct Row {
        bool exact;
        std::map<size_t, double> values;  // by run
    };
    std::map<std::tuple<std::string, std::string, std::string>, Row> rows;  // by file, benchmark and metric
    ordered_json dates = ordered_json::array();
    for (size_t run = 0; run < history.size(); run++) {
        std::string date;
        for (const BenchmarkResults &file : history[run]) {
            date = std::max(date, file.date);
            for (const auto &[name, benchmark] : file.runs) {
                for (const auto &[counter, values] : benchmark.counters)
                    if (is_exact_counter(counter) && !values.empty())
                        rows.try_emplace({file.name, name, counter}, Row{true, {}}).first->second.values[run] =
                            *std::max_element(values.begin(), values.end());
                if (!benchmark.seconds.empty())
                    rows.try_emplace({file.name, name, "time"}, Row{false, {}}).first->second.values[run] =
                        median(benchmark.seconds);
            }
        }
        dates.push_back(date);
    }
    ordered_json json = {{"dates", dates}, {"rows", ordered_json::array()}};
    for (const auto &[key, row] : rows) {
        if (row.values.size() < 2) continue;
        ordered_json values = ordered_json::array();
        for (size_t run = 0; run < history.size(); run++)
            values.push_back(row.values.contains(run) ? ordered_json(row.values.at(run)) : ordered_json());
        json["rows"].push_back(
            {{"benchmark", std::get<1>(key)}, {"metric", std::get<2>(key)}, {"exact", row.exact}, {"values", values}});
    }
    return json;
}

}  // namespace

ordered_json benchmarks_json(const SiteBenchmarks &benchmarks, const CompareOptions &options) {
    ordered_json results = ordered_json::array();
    for (const BenchmarkResults &file : benchmarks.current) {
        ordered_json runs = ordered_json::array();
        for (const auto &[name, run] : file.runs) {
            ordered_json counters = ordered_json::object();
            for (const auto &[counter, values] : run.counters) counters[counter] = values.front();
            runs.push_back(
                {{"name", name}, {"seconds", run.seconds}, {"counters", counters}, {"label", run.label}, {"error", run.error}});
        }
        results.push_back({{"name", file.name}, {"date", file.date}, {"host", file.host}, {"runs", runs}});
    }
    ordered_json json = {{"results", results},
                         {"comparison", nullptr},
                         {"previous", ordered_json::array()},
                         {"history", benchmark_history_json(benchmarks.history)}};
    if (benchmarks.previous.empty()) return json;
    json["comparison"] = comparison_json(compare_benchmarks(benchmarks.previous, benchmarks.current, options), options);
    for (const BenchmarkResults &file : benchmarks.previous)
        json["previous"].push_back({{"name", file.name}, {"date", file.date}, {"host", file.host}});
    return json;
}

}  // namespace atalla
