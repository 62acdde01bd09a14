// Matrix products: cycles of the tuned schedule beside the bound and upstream's figure, and the time of tuning, lowering
// and generating.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "autotune/operator_task.h"
#include "autotune/tuner.h"
#include "generators/evaluate.h"
#include "generators/registry.h"

namespace atalla {
namespace {

struct Case {
    const char *shape, *machine;
    double upstream = 0;  // cycles, on fsim packets; 0: no figure
};

// Upstream: the best of its simulator's schedules (64 to 1024) and its packet count on fsim; microarchitecture reference
// 12.2, 12.3 and 13. Its array accumulates, so the figures stand beside ax01-psum.
constexpr Case cases[] = {
    {"64x64x64", "ax01"},         {"128x128x128", "ax01"},         {"256x256x256", "ax01"},
    {"512x512x512", "ax01"},      {"1024x1024x1024", "ax01"},      {"197x768x768", "ax01"},
    {"100x70x50", "ax01"},        {"1x4096x4096", "ax01"},         {"4096x1x64", "ax01"},
    {"33x33x33", "ax01"},         {"64x64x64", "ax01-psum", 4983}, {"128x128x128", "ax01-psum", 37887},
    {"256x256x256", "ax01-psum"}, {"512x512x512", "ax01-psum"},    {"1024x1024x1024", "ax01-psum", 11.17e6},
    {"197x768x768", "ax01-psum"}, {"100x70x50", "ax01-psum"},      {"1x4096x4096", "ax01-psum"},
    {"4096x1x64", "ax01-psum"},   {"33x33x33", "ax01-psum"},       {"64x64x64", "fsim", 3078},
};

std::shared_ptr<const Evaluator> evaluator_of(const Case &one) {
    return std::make_shared<const Evaluator>(find_operator("gemm").workload({{"shape", one.shape}}), find_machine(one.machine));
}

// One run without a database is the measurement: simulated cycles repeat exactly.
void tuned(benchmark::State &state, const Case &one) {
    for (auto _ : state) {
        const std::shared_ptr<const Evaluator> evaluator = evaluator_of(one);
        TuneOptions options;
        options.progress = ProgressMode::Quiet;
        const TuneResult result = tune(tuning_task(find_operator("gemm"), evaluator), nullptr, options);
        if (!result.found) {
            state.SkipWithError(result.notes.empty() ? "no schedule found" : result.notes.front().c_str());
            continue;
        }
        const auto cycles = static_cast<double>(result.cycles),
                   bound = static_cast<double>(evaluator->workload().bound(evaluator->machine()).cycles);
        state.counters["cycles"] = cycles;
        state.counters["bound"] = bound;
        state.counters["bound_share"] = bound / cycles;
        state.counters["upstream"] = one.upstream;
        state.counters["verified"] = result.verified;
        state.counters["trials"] = static_cast<double>(result.lowered);
        state.SetLabel(result.best.assignments());
    }
}

// How many schedules a second are lowered, generated and simulated on all cores; without the verification of the winner.
void trials(benchmark::State &state) {
    const auto evaluator = evaluator_of({"128x128x128", "ax01"});
    TuningTask task = tuning_task(find_operator("gemm"), evaluator);
    task.verify = nullptr;
    TuneOptions options;
    options.max_trials = 128;
    options.progress = ProgressMode::Quiet;
    double evaluated = 0;
    for (auto _ : state) evaluated += static_cast<double>(tune(task, nullptr, options).lowered);
    state.counters["trials/s"] = benchmark::Counter(evaluated, benchmark::Counter::kIsRate);
}

// Lowering and generating the default shape's best point by the draft: what one more candidate costs.
void lower_and_generate(benchmark::State &state) {
    const auto evaluator = evaluator_of({"512x512x512", "ax01"});
    const TuningTask task = tuning_task(find_operator("gemm"), evaluator);
    TuneOptions options;
    options.max_trials = 1;
    options.progress = ProgressMode::Quiet;
    const TuneResult result = tune(task, nullptr, options);
    double lower = 0, generate = 0;
    for (auto _ : state) {
        const codegen::CompiledKernel compiled = evaluator->compile(result.best);
        lower += compiled.lower_seconds;
        generate += compiled.generate_seconds;
    }
    state.counters["lower_ms"] = benchmark::Counter(1e3 * lower, benchmark::Counter::kAvgIterations);
    state.counters["generate_ms"] = benchmark::Counter(1e3 * generate, benchmark::Counter::kAvgIterations);
}

}  // namespace
}  // namespace atalla

int main(int argc, char **argv) {
    using namespace atalla;
    benchmark::RegisterBenchmark("lower_and_generate/512x512x512/ax01", lower_and_generate)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("trials/128x128x128/ax01", trials)->Unit(benchmark::kSecond)->UseRealTime();
    for (const Case &one : cases)
        benchmark::RegisterBenchmark((std::string("gemm/") + one.shape + "/" + one.machine).c_str(),
                                     [&one](benchmark::State &state) { tuned(state, one); })
            ->Iterations(1)
            ->Unit(benchmark::kSecond)
            ->UseRealTime();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
