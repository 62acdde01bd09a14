#include "tools/tuned.h"

#include <chrono>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "autotune/operator_task.h"
#include "db/default_path.h"
#include "isa/error.h"

namespace atalla {

namespace {

// The unoptimized program takes seconds for a large shape, so its trial is kept beside the others.
std::optional<int64_t> stored_naive_cycles(const Evaluator &evaluator, const TrialKey &key, Database &database) {
    const Point point = evaluator.unoptimized_point();
    if (const std::optional<StoredTrial> stored = database.find_trial(key, point); stored && stored->trial.status == Trial::Ok)
        return stored->trial.cycles;
    const std::optional<Evaluation> naive = evaluator.unoptimized();
    if (!naive || naive->status != Evaluation::Ok) return std::nullopt;
    database.record_trial(key, trial_of(point, *naive));
    return naive->cycles;
}

}  // namespace

Tuned prepare(const Operator &op, std::shared_ptr<const Workload> workload, const Machine &machine) {
    Tuned tuned;
    tuned.op = &op;
    tuned.evaluator = std::make_shared<const Evaluator>(std::move(workload), machine);
    tuned.bound = tuned.evaluator->workload().bound(machine);
    return tuned;
}

void complete(Tuned &tuned, TuneResult result, Database &database) {
    const Evaluator &evaluator = *tuned.evaluator;
    tuned.result = std::move(result);
    if (!tuned.result.found) {
        if (tuned.result.interrupted) throw Error("interrupted before a schedule was tried; the same command begins again");
        std::vector<std::string> reasons = tuned.result.notes;
        for (const auto &[at, differs] : tuned.result.rejected)
            reasons.push_back(fmt::format("at {}: {}", at.assignments(), differs));
        throw Error(fmt::format("{} {} on {}: no schedule found; {}", tuned.op->name(), evaluator.workload().title(),
                                evaluator.machine().name, fmt::join(reasons, "; ")));
    }
    const TrialKey key = tuning_task(*tuned.op, tuned.evaluator).key();
    tuned.naive_cycles = stored_naive_cycles(evaluator, key, database);
    if (const std::optional<StoredTrial> stored = database.find_trial(key, tuned.result.best))
        tuned.counters = stored->trial.counters;
}

Tuned tune_workload(const Operator &op, std::shared_ptr<const Workload> workload, const Machine &machine, Database &database,
                    TuneOptions options) {
    Tuned tuned = prepare(op, std::move(workload), machine);
    const TuningTask task = tuning_task(op, tuned.evaluator);
    options.start = known_good_points(database, task);
    TuneResult result = tune(task, &database, options);
    if (!options.start.empty())
        result.notes.push_back(
            fmt::format("{} stored winner{} of another compiler or machine {} stale: tried first, measured again",
                        options.start.size(), options.start.size() == 1 ? "" : "s", options.start.size() == 1 ? "is" : "are"));
    complete(tuned, std::move(result), database);
    return tuned;
}

Point winning_point(const Operator &op, std::shared_ptr<const Workload> workload, const Machine &machine,
                    const std::filesystem::path &file, bool quiet) {
    Database database(file.empty() ? default_database_path() : file);
    const TrialKey key = {op.name(), workload->text(), machine.fingerprint(), compiler_fingerprint()};
    if (const std::optional<StoredTrial> stored = database.winner(key)) return stored->trial.point;
    if (!quiet)
        std::cerr << fmt::format("{} has no verified schedule for {} {} on {}: tuning first\n", database.file().string(),
                                 op.name(), workload->title(), machine.name);
    TuneOptions how;
    if (quiet) how.progress = ProgressMode::Quiet;
    const Tuned tuned = tune_workload(op, std::move(workload), machine, database, how);
    if (tuned.result.interrupted) throw Error("interrupted; the same command goes on from here");
    if (!tuned.result.verified) throw Error("no schedule could be verified, so nothing is run; atalla-tune shows why");
    return tuned.result.best;
}

Tuned measure_point(const Operator &op, std::shared_ptr<const Workload> workload, const Machine &machine, const Point &point) {
    const auto start = std::chrono::steady_clock::now();
    Tuned tuned;
    tuned.op = &op;
    tuned.evaluator = std::make_shared<const Evaluator>(std::move(workload), machine);
    if (const std::string wrong = violation(tuned.evaluator->workload().space(machine), point); !wrong.empty())
        throw Error(wrong);
    tuned.bound = tuned.evaluator->workload().bound(machine);
    const Evaluation evaluation = tuned.evaluator->evaluate(point);
    if (evaluation.status != Evaluation::Ok)
        throw Error(fmt::format("{} {} on {} at {}: {}", op.name(), tuned.evaluator->workload().title(), machine.name,
                                point.assignments(), evaluation.reason));
    if (const std::string differs = tuned.evaluator->verify(point); !differs.empty()) {
        tuned.result.rejected.emplace_back(point, differs);
        throw Error(fmt::format("{} {} on {} at {} gives wrong results: {}", op.name(), tuned.evaluator->workload().title(),
                                machine.name, point.assignments(), differs));
    }
    tuned.result.found = tuned.result.verified = true;
    tuned.result.best = point;
    tuned.result.cycles = evaluation.cycles;
    tuned.result.bound_share = static_cast<double>(tuned.bound.cycles) / static_cast<double>(evaluation.cycles);
    tuned.result.lowered = tuned.result.simulated = 1;
    tuned.result.stopped_because = "the point was given";
    tuned.counters = evaluation.counters;
    if (const std::optional<Evaluation> naive = tuned.evaluator->unoptimized()) tuned.naive_cycles = naive->cycles;
    tuned.result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return tuned;
}

}  // namespace atalla
