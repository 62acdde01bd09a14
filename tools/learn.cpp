// atalla-learn: trains the corrections of the analytic drafts from the tuning database.
#include <algorithm>
#include <cmath>
#include <iostream>

#include <fmt/format.h>

#include "autotune/operator_task.h"
#include "autotune/sweep.h"
#include "db/default_path.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "tools/run_tool.h"

namespace {

using atalla::Error;

struct Options {
    std::vector<std::filesystem::path> databases;
    std::vector<std::filesystem::path> sweeps;
    std::filesystem::path output;
    std::string op, compiler;
    size_t folds = 5;
    bool json = false;
};

using TasksByOperator = std::map<std::string, std::vector<atalla::MeasuredTask>>;

// What was measured on machines that are known by name.
void read_tasks(const std::filesystem::path &file, const Options &options, TasksByOperator &tasks) {
    const atalla::Database database(file, atalla::Database::Access::ReadOnly);
    std::vector<atalla::Machine> machines;
    for (const std::string &name : atalla::shipped_machines()) machines.push_back(atalla::find_machine(name));
    for (const atalla::KeySummary &key :
         database.list({options.op, {}, {}, options.compiler == "any" ? "" : options.compiler, {}})) {
        const auto machine = std::ranges::find(machines, key.key.machine, &atalla::Machine::fingerprint);
        if (machine == machines.end()) continue;
        try {
            const atalla::Operator &op = atalla::find_operator(key.key.op);
            atalla::MeasuredTask task = atalla::measured_task(key.key, op.parse(key.key.workload), *machine, database);
            if (task.points.size() > 1) tasks[key.key.op].push_back(std::move(task));
        } catch (const Error &error) {
            std::cerr << fmt::format("left out: {} {}: {}\n", key.key.op, key.key.workload, error.what());
        }
    }
}

nlohmann::ordered_json quality_json(const std::string &op, const atalla::CorrectionQuality &quality) {
    return {{"op", op},
            {"workloads", quality.tasks},
            {"trials", quality.points},
            {"error_drafted", quality.error_drafted},
            {"error_corrected", quality.error_corrected},
            {"share_drafted", quality.share_drafted},
            {"share_corrected", quality.share_corrected},
            {"worst_drafted", quality.worst_drafted},
            {"worst_corrected", quality.worst_corrected},
            {"kept", quality.wins()}};
}

void print(const std::string &op, const atalla::CorrectionQuality &quality) {
    std::cout << fmt::format("{}: {} trials of {} workloads, judged on those that were not learned from\n", op, quality.points,
                             quality.tasks)
              << fmt::format("  {:<42}draft {:6.1f} %  corrected {:6.1f} %\n", "mean error of a prediction",
                             100 * std::expm1(quality.error_drafted), 100 * std::expm1(quality.error_corrected))
              << fmt::format("  {:<42}draft {:6.1f} %  corrected {:6.1f} %\n", "speed of the best prediction, median",
                             100 * quality.share_drafted, 100 * quality.share_corrected)
              << fmt::format("  {:<42}draft {:6.1f} %  corrected {:6.1f} %\n", "worst", 100 * quality.worst_drafted,
                             100 * quality.worst_corrected)
              << (quality.wins() ? "  kept\n" : "  not kept: the draft alone is as good\n");
}

void learn(const Options &options) {
    TasksByOperator tasks;
    for (const std::filesystem::path &file : options.databases) read_tasks(file, options, tasks);
    atalla::Corrections corrections;
    for (const auto &[op, measured] : tasks) {
        if (measured.size() < 2 * options.folds) {
            std::cerr << fmt::format("{}: {} workloads with trials are too few to learn from, {} are needed\n", op,
                                     measured.size(), 2 * options.folds);
            continue;
        }
        const atalla::CorrectionQuality quality = atalla::judge_correction(measured, options.folds);
        if (options.json)
            std::cout << quality_json(op, quality).dump() << std::endl;
        else
            print(op, quality);
        if (quality.wins()) corrections.emplace(op, atalla::Correction(measured));
    }
    if (corrections.empty())
        throw Error(
            "there is nothing to correct: tune more workloads, also with --strategy random, whose trials say more about the "
            "draft than the best alone");
    if (options.output.empty()) return;
    atalla::write_corrections(corrections, options.output);
    if (!options.json)
        std::cout << fmt::format("{} written; ATALLA_CORRECTIONS={} makes the tools use it\n", options.output.string(),
                                 options.output.string());
}

// Recorded sweeps keep what was predicted: anew where the draft has changed since, with nothing simulated.
void draft_again(const std::filesystem::path &file) {
    atalla::TuningCache sweep = atalla::read_sweep(file);
    const std::shared_ptr<const atalla::Workload> workload = atalla::find_operator(sweep.key.op).parse(sweep.key.workload);
    const atalla::Machine machine = atalla::find_machine(sweep.machine_name);
    const auto draft = atalla::analytic_draft(workload, machine);
    const atalla::Space space = workload->space(machine);
    sweep.bound_cycles = workload->bound(machine).cycles;
    for (atalla::TuningCache::Row &row : sweep.rows) {
        if (const std::string wrong = atalla::violation(space, row.trial.point); !wrong.empty())
            throw Error(fmt::format("{}: the sweep is of another schedule space, record it anew: {}", file.string(), wrong));
        row.predicted = draft(row.trial.point);
    }
    atalla::write_sweep(sweep, file);
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app(
        "Learns from the tuning database how the analytic drafts are wrong, and prints by how much on workloads that it did "
        "not learn from.",
        "atalla-learn");
    app.footer(
        "Examples:\n"
        "  atalla-learn\n"
        "  atalla-learn --op gemm --db trials.db -o corrections.json\n"
        "  ATALLA_CORRECTIONS=corrections.json atalla-tune --shape 300x200x100 --trials 0");
    Options options;
    app.add_option("--db", options.databases,
                   "Database files (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    app.add_option("--op", options.op, "Only this operator");
    app.add_option("--compiler", options.compiler, "Trials of this compiler fingerprint, or of any (default: of this one)");
    app.add_option("--folds", options.folds, "Parts of the workloads, each judged by what the others teach")
        ->capture_default_str()
        ->check(CLI::Range(2, 20));
    app.add_option("-o,--output", options.output, "Write the corrections that win to this file");
    app.add_option("--redraft", options.sweeps,
                   "Only price the points of these recorded sweeps anew, as the present draft does")
        ->type_name("SWEEP");
    app.add_flag("--json", options.json, "Print one JSON object an operator");
    return atalla::run_tool(app, argc, argv, [&] {
        for (const std::filesystem::path &sweep : options.sweeps) draft_again(sweep);
        if (!options.sweeps.empty()) return;
        if (options.databases.empty()) options.databases.push_back(atalla::default_database_path());
        if (options.compiler.empty()) options.compiler = atalla::compiler_fingerprint();
        learn(options);
    });
}
