// What tuning costs: a candidate that is lowered and generated, schedules a second with the simulator, the default kernel of
// `./atalla tune --op gemm` from an empty database to its verified winner. Beside it what is asked at most and aimed for.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "autotune/operator_task.h"
#include "autotune/tuner.h"
#include "generators/evaluate.h"
#include "generators/registry.h"

namespace atalla {
namespace {

std::shared_ptr<const Evaluator> product(const char *shape) {
    return std::make_shared<const Evaluator>(find_operator("gemm").workload({{"shape", shape}}), find_machine("ax01"));
}

// How many schedules a second are lowered, generated and simulated on all cores; without the verification of the winner.
void trials(benchmark::State &state) {
    const auto evaluator = product("128x128x128");
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
    const auto evaluator = product("512x512x512");
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
    state.counters["most_ms"] = 50;
    state.counters["aimed_ms"] = 25;
}

void whole_search(benchmark::State &state) {
    TuneOptions options;
    options.progress = ProgressMode::Quiet;
    for (auto _ : state)
        if (!tune(tuning_task(find_operator("gemm"), product("512x512x512")), nullptr, options).verified)
            state.SkipWithError("no verified schedule");
    state.counters["most_s"] = 10;
    state.counters["aimed_s"] = 2;
}

}  // namespace
}  // namespace atalla

int main(int argc, char **argv) {
    using namespace atalla;
    benchmark::RegisterBenchmark("lower_and_generate/512x512x512/ax01", lower_and_generate)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("trials/128x128x128/ax01", trials)->Unit(benchmark::kSecond)->UseRealTime();
    benchmark::RegisterBenchmark("search/512x512x512/ax01", whole_search)->Unit(benchmark::kSecond)->UseRealTime();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
