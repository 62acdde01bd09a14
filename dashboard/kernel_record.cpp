#include "dashboard/kernel_record.h"

#include <algorithm>

#include <fmt/format.h>

namespace atalla {

namespace {

constexpr size_t fastest_kept = 50;
constexpr size_t failures_kept = 50;

bool faster(const KernelVersion::Measured &one, const KernelVersion::Measured &other) {
    return one.cycles != other.cycles ? one.cycles < other.cycles : one.point < other.point;
}

bool better_winner(const StoredTrial &one, const StoredTrial &other) {
    if (one.verification != other.verification) return one.verification > other.verification;
    return one.trial.cycles != other.trial.cycles ? one.trial.cycles < other.trial.cycles : one.trial.point < other.trial.point;
}

}  // namespace

void KernelVersion::add(const StoredTrial &trial) {
    if (trial.trial.point.contains(unoptimized_mark)) {
        unoptimized_cycles = trial.trial.cycles;
        return;
    }
    auto run = std::find(run_ids.rbegin(), run_ids.rend(), trial.run);
    if (run == run_ids.rend()) {
        run_ids.push_back(trial.run);
        run = run_ids.rbegin();
    }
    const auto index = static_cast<int32_t>(std::distance(run, run_ids.rend()) - 1);
    const bool ok = trial.trial.status == Trial::Ok;
    rows.push_back({trial.when, ok ? trial.trial.cycles : 0, index, trial.trial.status, trial.verification});
    seconds_lower += trial.trial.seconds_lower;
    seconds_simulate += trial.trial.seconds_simulate;
    if (!ok) {
        const std::string kind = fmt::format("{}: {}", status_name(trial.trial.status), trial.trial.reason);
        const auto known = failures.find(kind);
        if (known != failures.end()) {
            known->second.count++;
        } else if (failures.size() < failures_kept) {
            failures[kind] = {trial.trial.status, trial.trial.reason, trial.trial.point, 1};
        }
        return;
    }
    if (trial.verification != Verification::Differs && (!winner || better_winner(trial, *winner))) winner = trial;
    if (fastest.size() < fastest_kept || trial.trial.cycles <= fastest.back().cycles) {
        Measured measured = {trial.trial.cycles, trial.trial.point, trial.verification, trial.differs, trial.when};
        const auto place = std::upper_bound(fastest.begin(), fastest.end(), measured, faster);
        fastest.insert(place, std::move(measured));
        if (fastest.size() > fastest_kept) fastest.pop_back();
    }
}

void KernelVersion::finish(std::vector<TuningRun> known_runs) {
    runs = std::move(known_runs);
    std::stable_sort(rows.begin(), rows.end(), [](const Row &one, const Row &other) { return one.when < other.when; });
}

int64_t KernelVersion::last_activity() const {
    int64_t last = rows.empty() ? 0 : rows.back().when;
    for (const TuningRun &run : runs) last = std::max({last, run.started, run.ended});
    return last;
}

int64_t KernelVersion::bound_cycles() const {
    const auto known = std::find_if(runs.rbegin(), runs.rend(), [](const TuningRun &run) { return run.bound_cycles > 0; });
    return known == runs.rend() ? 0 : known->bound_cycles;
}

std::vector<HistoryEntry> KernelVersion::history() const {
    struct Measured {
        int64_t first = 0, trials = 0, best = 0, best_verified = 0;
    };
    std::vector<Measured> measured(run_ids.size());
    for (const Row &row : rows) {
        Measured &run = measured[row.run];
        if (run.trials++ == 0) run.first = row.when;
        if (row.cycles == 0 || row.verification == Verification::Differs) continue;
        const auto take = [&](int64_t &best) { best = best == 0 ? row.cycles : std::min(best, row.cycles); };
        take(run.best);
        if (row.verification == Verification::Verified) take(run.best_verified);
    }
    std::vector<std::pair<int64_t, size_t>> order;
    for (size_t run = 0; run < run_ids.size(); run++) {
        if (run_ids[run].empty() && run_ids.size() > 1) continue;
        const auto known = std::ranges::find(runs, run_ids[run], &TuningRun::id);
        order.emplace_back(known == runs.end() ? measured[run].first : known->started, run);
    }
    std::sort(order.begin(), order.end());
    std::vector<HistoryEntry> history;
    Measured sum;
    for (const auto &[when, run] : order) {
        const auto join = [](int64_t &best, int64_t other) { best = best == 0 || (other != 0 && other < best) ? other : best; };
        join(sum.best, measured[run].best);
        join(sum.best_verified, measured[run].best_verified);
        sum.trials += measured[run].trials;
        const bool verified = sum.best_verified > 0;
        if (sum.best > 0)
            history.push_back(
                {when, compiler, run_ids[run], verified ? sum.best_verified : sum.best, bound_cycles(), sum.trials, verified});
    }
    return history;
}

std::vector<HistoryEntry> KernelRecord::history() const {
    std::vector<HistoryEntry> all;
    for (const KernelVersion &version : versions)
        for (HistoryEntry &entry : version.history()) all.push_back(std::move(entry));
    std::stable_sort(all.begin(), all.end(),
                     [](const HistoryEntry &one, const HistoryEntry &other) { return one.when < other.when; });
    return all;
}

size_t KernelRecord::trials() const {
    size_t count = 0;
    for (const KernelVersion &version : versions) count += version.rows.size();
    return count;
}

void for_each_kernel(const Database &database, const std::vector<KeySummary> &keys,
                     const std::function<void(KernelRecord &)> &visit) {
    // Machine names and runs are asked for beforehand: a visitor of rows must not use the database.
    std::map<TrialKey, std::vector<TuningRun>> runs;
    std::map<std::string, std::string> names;
    std::map<TrialKey, std::optional<Certificate>> certificates;
    for (const KeySummary &key : keys) {
        certificates[key.key] = key.certificate;
        runs[key.key] = database.runs_of(key.key);
        names[key.key.machine] = key.machine_name;
    }
    std::optional<KernelRecord> record;
    std::optional<TrialKey> key;
    const auto finish_version = [&] {
        record->versions.back().finish(std::move(runs[*key]));
        record->versions.back().certificate = certificates[*key];
    };
    const auto finish_record = [&] {
        if (!record) return;
        finish_version();
        std::stable_sort(
            record->versions.begin(), record->versions.end(),
            [](const KernelVersion &one, const KernelVersion &other) { return one.last_activity() < other.last_activity(); });
        const std::vector<TuningRun> &last_runs = record->current().runs;
        record->unfinished =
            !last_runs.empty() && (last_runs.back().outcome == "running" || last_runs.back().outcome == "interrupted");
        visit(*record);
    };
    database.for_each({}, [&](const StoredTrial &trial) {
        if (!key || *key != trial.key) {
            const bool same = key && std::tie(key->op, key->workload, key->machine) ==
                                         std::tie(trial.key.op, trial.key.workload, trial.key.machine);
            if (same) {
                finish_version();
            } else {
                finish_record();
                record.emplace();
                record->op = trial.key.op;
                record->workload = trial.key.workload;
                record->machine = trial.key.machine;
                record->machine_name = names[trial.key.machine];
                record->id = kernel_id(record->op, record->workload, record->machine);
            }
            record->versions.emplace_back().compiler = trial.key.compiler;
            key = trial.key;
        }
        record->versions.back().add(trial);
    });
    finish_record();
}

std::string kernel_id(const std::string &op, const std::string &workload, const std::string &machine) {
    // FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv
    uint64_t hash = 0xcbf29ce484222325u;
    for (const std::string *part : {&op, &workload, &machine}) {
        for (const char character : *part) hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3u;
        hash = (hash ^ 0xff) * 0x100000001b3u;
    }
    return fmt::format("{:016x}", hash);
}

}  // namespace atalla
