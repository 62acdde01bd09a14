#include "autotune/sweep.h"

#include <fmt/format.h>
#include <zlib.h>
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "autotune/session.h"
#include "isa/error.h"
#include "isa/write_file.h"

namespace atalla {

namespace {

constexpr int64_t most_bytes = int64_t{1} << 28;  // of a sweep's text: a guard against files that are something else

// What the sweep says of a point. Points have the names of the sweep's parameters.
struct Recorded {
    Trial trial;
    double predicted;
};
using Records = std::map<Point, Recorded>;

std::shared_ptr<const Records> records_of(const TuningCache &sweep) {
    auto records = std::make_shared<Records>();
    for (const TuningCache::Row &row : sweep.rows) {
        records->insert({row.trial.point, {row.trial, row.predicted}});
    }
    return records;
}

// Cycles of all points ascending, a failure as the slowest.
std::vector<double> sorted_cycles(const TuningCache &sweep) {
    int64_t slowest = 0;
    for (const TuningCache::Row &row : sweep.rows) {
        slowest = std::max(slowest, row.trial.status == Trial::Ok ? row.trial.cycles : 0);
    }
    std::vector<double> cycles;
    for (const TuningCache::Row &row : sweep.rows) {
        cycles.push_back(static_cast<double>(row.trial.status == Trial::Ok ? row.trial.cycles : slowest));
    }
    std::sort(cycles.begin(), cycles.end());
    return cycles;
}

}  // namespace

TuningCache read_sweep(const std::filesystem::path &file) {
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> in(gzopen(file.c_str(), "rb"), gzclose);
    if (!in || std::filesystem::is_directory(file)) {
        throw Error(fmt::format("cannot read the sweep {}", file.string()));
    }
    std::string text;
    std::vector<char> part(1 << 20);
    int bytes;
    while ((bytes = gzread(in.get(), part.data(), static_cast<unsigned>(part.size()))) > 0) {
        text.append(part.data(), static_cast<size_t>(bytes));
        if (static_cast<int64_t>(text.size()) > most_bytes) {
            throw Error(fmt::format("{} is larger than a sweep can be", file.string()));
        }
    }
    if (bytes < 0) {
        throw Error(fmt::format("{} is damaged: {}", file.string(), gzerror(in.get(), &bytes)));
    }
    return parse_tuning_cache(text, file.string());
}

void write_sweep(const TuningCache &sweep, const std::filesystem::path &file) {
    std::ostringstream text;
    write_tuning_cache(sweep, text);
    const std::filesystem::path unfinished = unfinished_of(file);
    // "T" writes without compression.
    const gzFile out = gzopen(unfinished.c_str(), file.extension() == ".gz" ? "wb9" : "wbT");
    const bool written = out && gzwrite(out, text.view().data(), static_cast<unsigned>(text.view().size())) > 0;
    if (!out || (gzclose(out) != Z_OK) || !written) {
        discard_unfinished(file);
        throw Error(fmt::format("cannot write the sweep {}", file.string()));
    }
    std::filesystem::rename(unfinished, file);
}

TuningCache recorded_sweep(const Database &database, const TuningTask &task) {
    TuningCache sweep = tuning_cache(database, task.key());
    sweep.machine_name = task.machine_name;
    sweep.bound_cycles = task.bound_cycles;
    sweep.parameters.clear();
    for (const Parameter &parameter : task.space.parameters) {
        sweep.parameters.push_back({parameter.name, parameter.values, parameter.choice});
    }
    std::erase_if(sweep.rows, [&](const TuningCache::Row &row) {
        return row.trial.point.contains(choices_parameter) || !violation(task.space, row.trial.point).empty();
    });
    for (TuningCache::Row &row : sweep.rows) {
        row.predicted = task.draft ? task.draft(row.trial.point) : 0;
    }
    return sweep;
}

TuningTask sweep_task(const TuningCache &sweep, const Corrections &corrections) {
    const std::shared_ptr<const Records> records = records_of(sweep);
    TuningTask task;
    task.op = sweep.key.op;
    task.workload = sweep.key.workload;
    task.machine_name = "replay";
    task.machine_fingerprint = "replay:" + sweep.key.machine;
    task.compiler_fingerprint = "replay:" + sweep.key.compiler;
    task.bound_cycles = sweep.bound_cycles;
    std::vector<std::string> names;
    for (const TuningCache::Parameter &parameter : sweep.parameters) {
        task.space.parameters.push_back({parameter.name, "recorded", parameter.values, parameter.choice});
        names.push_back(parameter.name);
    }
    task.space.constraint("recorded", names, "Only recorded points can be replayed.",
                          [records](const Point &point) { return records->contains(point); });
    const auto drafted = [records](const Point &point) {
        const auto found = records->find(point);
        return found == records->end() ? 0 : found->second.predicted;
    };
    task.draft = drafted;
    if (corrections.contains(task.op)) {
        task.draft = corrected_draft(
            corrections, task.op, task_features(task.workload, find_machine(sweep.machine_name), sweep.bound_cycles), drafted);
    }
    task.evaluate = [records](const Point &point, int64_t limit) {
        Trial trial = records->at(point).trial;
        if (trial.status == Trial::Ok && limit > 0 && trial.cycles > limit) {
            trial.status = Trial::TimedOut;
            trial.cycles = limit;
            trial.reason = "over the limit";
        }
        return trial;
    };
    return task;
}

std::vector<double> random_baseline(const TuningCache &sweep, int64_t trials) {
    const std::vector<double> cycles = sorted_cycles(sweep);
    const auto size = static_cast<int64_t>(cycles.size());
    std::vector<double> expected;
    for (int64_t drawn = 1; drawn <= std::min(trials, size); drawn++) {
        // The chance that the i-th fastest is the fastest of the sample, from that of the one before.
        double chance = static_cast<double>(drawn) / static_cast<double>(size), sum = 0;
        for (int64_t i = 0; i + drawn <= size; i++) {
            sum += chance * cycles[static_cast<size_t>(i)];
            if (i + 1 < size) {
                chance *= static_cast<double>(size - drawn - i) / static_cast<double>(size - 1 - i);
            }
        }
        expected.push_back(sum);
    }
    return expected;
}

SearchScore score_search(const TuningCache &sweep, TuneOptions options, int64_t trials, const Corrections &corrections) {
    options.max_trials = trials;
    options.progress = ProgressMode::Quiet;
    options.handle_signals = false;
    const TuningTask task = sweep_task(sweep, corrections);
    TuningSession session(task, nullptr, options);
    while (session.step()) {
    }
    const std::vector<double> baseline = random_baseline(sweep, trials), cycles = sorted_cycles(sweep);
    const double optimum = cycles.front();
    SearchScore result;
    double best = cycles.back(), sum = 0;
    size_t counted = 0;
    const std::vector<Trial> &run = session.outcomes().trials();
    for (size_t trial = 0; trial < baseline.size(); trial++) {
        // A search that ended early stays where it is.
        if (trial < run.size() && run[trial].status == Trial::Ok && static_cast<double>(run[trial].cycles) < best) {
            best = static_cast<double>(run[trial].cycles);
            result.first_best = static_cast<int64_t>(trial) + 1;
        }
        if (baseline[trial] > optimum) {
            sum += (baseline[trial] - best) / (baseline[trial] - optimum);
            counted++;
        }
    }
    result.score = counted > 0 ? sum / static_cast<double>(counted) : 1;
    result.excess = best / optimum - 1;
    return result;
}

}  // namespace atalla
