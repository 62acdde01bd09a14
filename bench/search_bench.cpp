// How well the search strategies search: replays of the exhaustive sweeps in bench/sweeps, without a simulator.
// score: 0 as a random search, 1 the optimum at once (autotune/sweep.h), mean and deviation over sweeps and seeds;
// excess_...: of the best found over the optimum, in percent.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>

#include "autotune/sweep.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

constexpr int64_t trials = 32;
constexpr uint64_t seeds = 10;

std::vector<TuningCache> sweeps() {
    std::vector<std::filesystem::path> files;
    for (const auto &entry : std::filesystem::directory_iterator(source_path("bench/sweeps"))) {
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    std::vector<TuningCache> all;
    for (const std::filesystem::path &file : files) {
        all.push_back(read_sweep(file));
    }
    return all;
}

void search(benchmark::State &state, Strategy strategy, bool corrected, const std::vector<TuningCache> &all) {
    for (auto _ : state) {
        std::vector<double> scores, excesses;
        std::string worst;
        for (const TuningCache &sweep : all) {
            for (uint64_t seed = 1; seed <= seeds; seed++) {
                TuneOptions options;
                options.strategy = strategy;
                options.seed = seed;
                const SearchScore one = score_search(sweep, options, trials, corrected ? shipped_corrections() : Corrections());
                scores.push_back(one.score);
                if (excesses.empty() || 100 * one.excess > *std::max_element(excesses.begin(), excesses.end())) {
                    worst = sweep.machine_name + " " + sweep.key.workload;
                }
                excesses.push_back(100 * one.excess);
            }
        }
        double mean = 0, square = 0;
        for (const double score : scores) {
            mean += score / static_cast<double>(scores.size());
        }
        for (const double score : scores) {
            square += (score - mean) * (score - mean) / static_cast<double>(scores.size());
        }
        std::sort(excesses.begin(), excesses.end());
        state.counters["score"] = mean;
        state.counters["spread"] = std::sqrt(square);
        state.counters["excess_median"] = excesses[excesses.size() / 2];
        state.counters["excess_90th"] = excesses[excesses.size() * 9 / 10];
        state.counters["excess_worst"] = excesses.back();
        state.SetLabel(std::to_string(all.size()) + " sweeps, " + std::to_string(trials) + " trials; worst: " + worst);
    }
}

}  // namespace
}  // namespace atalla

int main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 1;
    }
    const std::vector<atalla::TuningCache> all = atalla::sweeps();
    using atalla::Strategy;
    const auto add = [&](Strategy strategy, bool corrected) {
        const std::string name = std::string("search/") + atalla::strategy_name(strategy) + (corrected ? "" : "/uncorrected");
        benchmark::RegisterBenchmark(name.c_str(), atalla::search, strategy, corrected, all)
            ->Iterations(1)
            ->Unit(benchmark::kMillisecond);
    };
    // The others do not look at the draft.
    for (const Strategy strategy : {Strategy::Model, Strategy::Draft}) {
        add(strategy, true);
        add(strategy, false);
    }
    for (const Strategy strategy : {Strategy::Random, Strategy::Climb, Strategy::Evolve}) {
        add(strategy, false);
    }
    benchmark::RunSpecifiedBenchmarks();
}
