#include "autotune/verify.h"

#include <fmt/format.h>
#include <algorithm>
#include <exception>

#include "schedules/random.h"

namespace atalla {

std::string compare_trials(const Trial &stored, const Trial &now) {
    if (stored.status == Trial::TimedOut) {
        return now.status == Trial::Ok && now.cycles < stored.cycles
                   ? fmt::format("cycles: stored more than {}, now {}", stored.cycles, now.cycles)
                   : "";
    }
    if (stored.status != now.status) {
        return fmt::format("status: stored {}, now {}{}{}", status_name(stored.status), status_name(now.status),
                           now.reason.empty() ? "" : ": ", now.reason);
    }
    if (stored.cycles != now.cycles) {
        return fmt::format("cycles: stored {}, now {}", stored.cycles, now.cycles);
    }
    if (stored.counters.is_object() && now.counters.is_object()) {
        for (const auto &[name, value] : stored.counters.items()) {
            if (now.counters.contains(name) && now.counters.at(name) != value) {
                return fmt::format("{}: stored {}, now {}", name, value.dump(), now.counters.at(name).dump());
            }
        }
    }
    return "";
}

VerifyReport verify_database(const Database &database, const Reevaluate &reevaluate, const VerifyOptions &options,
                             const std::function<void(int64_t, int64_t)> &progress) {
    std::vector<StoredTrial> trials;
    if (options.winners_only) {
        for (KeySummary &key : database.list(options.filter)) {
            if (key.winner) {
                trials.push_back(std::move(*key.winner));
            }
        }
    } else {
        trials = database.select(options.filter);
    }
    if (options.sample > 0 && trials.size() > static_cast<size_t>(options.sample)) {
        Random random(options.seed);
        random.shuffle(trials);
        trials.resize(options.sample);
    }
    VerifyReport report;
    const auto total = static_cast<int64_t>(trials.size());
    for (int64_t done = 0; done < total; done++) {
        const StoredTrial &stored = trials[done];
        std::string what;
        bool skipped = false;
        try {
            const std::optional<Trial> now = reevaluate(stored);
            skipped = !now;
            what = now ? compare_trials(stored.trial, *now) : "";
        } catch (const std::exception &error) {
            what = fmt::format("the evaluation failed: {}", error.what());
        }
        report.skipped += skipped;
        report.checked += !skipped;
        report.equal += !skipped && what.empty();
        if (!what.empty()) {
            report.mismatches.push_back({stored, what});
        }
        if (progress) {
            progress(done + 1, total);
        }
    }
    return report;
}

std::string VerifyReport::text() const {
    std::string text = fmt::format("{} checked, {} equal, {} different, {} not reproducible here\n", checked, equal,
                                   mismatches.size(), skipped);
    for (const VerifyMismatch &mismatch : mismatches) {
        text += fmt::format("  {} {} at {}: {}\n", mismatch.stored.key.op, mismatch.stored.key.workload,
                            mismatch.stored.trial.point.assignments(), mismatch.what);
    }
    return text;
}

}  // namespace atalla
