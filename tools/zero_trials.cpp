#include "tools/zero_trials.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "autotune/operator_task.h"
#include "isa/error.h"

namespace atalla {

namespace {

struct Neighbour {
    double distance;
    TrialKey key;
};

// The nearest first; those of other machines and compilers are counted only.
std::vector<Neighbour> neighbours_of(const TrialKey &key, const Database &database, int64_t &stale) {
    std::vector<Neighbour> near;
    for (const KeySummary &other : database.list({key.op, {}, {}, {}, {}})) {
        const double distance = workload_distance(key.workload, other.key.workload);
        if (!std::isfinite(distance) || distance == 0 || other.ok == 0) continue;
        if (other.key.machine != key.machine || other.key.compiler != key.compiler)
            stale++;
        else
            near.push_back({distance, other.key});
    }
    std::sort(near.begin(), near.end(), [](const Neighbour &one, const Neighbour &other) {
        return std::pair(one.distance, one.key.workload) < std::pair(other.distance, other.key.workload);
    });
    return near;
}

TransferSource source_of(const Operator &op, const TrialKey &key, const Machine &machine, const Database &database) {
    const std::shared_ptr<const Workload> workload = op.parse(key.workload);
    const Space space = workload->space(machine);
    const auto draft = shipped_draft(op, workload, machine);
    TransferSource source{key.workload, {}};
    for (const StoredTrial &stored : database.trials_of(key))
        if (stored.trial.status == Trial::Ok && stored.verification != Verification::Differs &&
            violation(space, stored.trial.point).empty())
            source.measured.push_back({stored.trial.point, stored.trial.cycles, draft(stored.trial.point)});
    return source;
}

}  // namespace

ZeroTrials schedule_without_trials(const Operator &op, const std::shared_ptr<const Workload> &workload, const Machine &machine,
                                   const Database &database) {
    const auto start = std::chrono::steady_clock::now();
    TuningTask task;
    task.op = op.name();
    task.workload = workload->text();
    task.machine_name = machine.name;
    task.machine_fingerprint = machine.fingerprint();
    task.compiler_fingerprint = compiler_fingerprint();
    task.space = workload->space(machine);
    task.draft = shipped_draft(op, workload, machine);
    ZeroTrials zero;
    const TransferOptions options;
    std::vector<TransferSource> sources;
    for (const Neighbour &near : neighbours_of(task.key(), database, zero.stale)) {
        if (sources.size() == options.neighbours) break;
        sources.push_back(source_of(op, near.key, machine, database));
    }
    zero.transfer = transfer_schedule(task, sources, options);
    zero.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return zero;
}

nlohmann::ordered_json zero_trials_json(const ZeroTrials &zero, const Operator &op, const Workload &workload,
                                        const Machine &machine) {
    const Transfer &transfer = zero.transfer;
    nlohmann::ordered_json json = {{"op", op.name()},
                                   {"shape", workload.shape()},
                                   {"machine", machine.name},
                                   {"schedule", nlohmann::json(transfer.point)},
                                   {"schedule_words", workload.words(machine, transfer.point)},
                                   {"expected_cycles", std::llround(transfer.expected_cycles)},
                                   {"uncertainty", transfer.uncertainty},
                                   {"bound_cycles", workload.bound(machine).cycles},
                                   {"simulated", 0},
                                   {"verified", false},
                                   {"seconds", zero.seconds},
                                   {"stale_neighbours", zero.stale},
                                   {"from", nlohmann::json::array()}};
    for (const Transfer::From &from : transfer.from)
        json["from"].push_back(
            {{"workload", nlohmann::json::parse(from.workload)}, {"distance", from.distance}, {"trials", from.measured}});
    return json;
}

std::string zero_trials_text(const ZeroTrials &zero, const Operator &op, const Workload &workload, const Machine &machine,
                             bool explain) {
    const Transfer &transfer = zero.transfer;
    std::string text = fmt::format("{} {} on {}, without a trial\n", op.name(), workload.title(), machine.name);
    const auto row = [&](const char *name, const std::string &value) { text += fmt::format("  {:<16}{}\n", name, value); };
    row("expected", fmt::format("{:.0f} {}, give or take {:.0f} %; not simulated, not verified", transfer.expected_cycles,
                                machine.timed() ? "cycles" : "packets", 100 * transfer.uncertainty));
    row("schedule", workload.words(machine, transfer.point));
    row("point", transfer.point.assignments());
    row("time", fmt::format("{:.2f} s", zero.seconds));
    if (!explain) return text;
    if (transfer.from.empty())
        row("from", "the analytic draft alone: no other shape of this operator was tuned on this machine by this compiler");
    for (const Transfer::From &from : transfer.from)
        row("from", fmt::format("{} trials of {}, distance {:.2f}", from.measured, from.workload, from.distance));
    if (!transfer.from.empty() && transfer.point != transfer.drafted)
        row("instead of", fmt::format("{}, the draft's choice", transfer.drafted.assignments()));
    if (zero.stale > 0) row("not used", fmt::format("{} neighbours that another compiler or machine has measured", zero.stale));
    return text;
}

}  // namespace atalla
