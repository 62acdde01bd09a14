// Speed of the simulator on the kernels of the registry: simulated cycles a second on the hardware machines, packets a second
// on fsim. A kernel is the best of the points that the draft puts first; its data are in memory before the clock starts.
#include <benchmark/benchmark.h>

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "autotune/operator_task.h"
#include "autotune/tuner.h"
#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "tools/emit.h"

namespace atalla {
namespace {

struct Kernel {
    const char *op, *shape;
    bool fits_fsim = true;  // whose two pads are small
};
constexpr Kernel kernels[] = {
    {"gemm", "128x128x128"},
    {"gemm", "256x256x256"},
    {"gemm", "512x512x512"},
    {"layer_norm", "128x512,512,512"},
    {"softmax", "128x512"},
    {"relu", "256x512"},
    {"add", "256x512,256x512"},
    {"scaled_dot_product_attention", "1x1x128x64,1x1x128x64,1x1x128x64", false},
    {"conv2d", "1x64x14x14,64x64x3x3", false},
    {"gelu", "256x512"},
};

Program kernel_program(const Kernel &kernel, const Machine &machine) {
    const std::shared_ptr<const Workload> workload = find_operator(kernel.op).workload({{"shape", kernel.shape}});
    const auto evaluator = std::make_shared<const Evaluator>(workload, machine);
    TuneOptions options;
    options.max_trials = 4;  // the first need not compile
    options.progress = ProgressMode::Quiet;
    const TuneResult result = tune(tuning_task(find_operator(kernel.op), evaluator), nullptr, options);
    if (!result.found) throw Error(fmt::format("no schedule of {} {} runs on {}", kernel.op, kernel.shape, machine.name));
    KernelDefinition tensors;
    tensors.inputs = workload->inputs();
    tensors.outputs = workload->outputs();
    return program_with_data(tensors, evaluator->compile(result.best), machine, evaluator->inputs(DataSet::Normal));
}

void simulate(benchmark::State &state, const Kernel &kernel, const char *machine_name) {
    try {
        const Machine machine = find_machine(machine_name);
        Simulator simulator(machine);
        simulator.load(kernel_program(kernel, machine));
        double packets = 0, cycles = 0;
        for (auto _ : state) {
            const RunResult result = simulator.run();
            if (!result.ok) return state.SkipWithError(result.error.c_str());
            packets += static_cast<double>(result.counters.packets);
            cycles += static_cast<double>(result.counters.cycles);
        }
        state.counters["packets/s"] = benchmark::Counter(packets, benchmark::Counter::kIsRate);
        if (machine.timed()) state.counters["cycles/s"] = benchmark::Counter(cycles, benchmark::Counter::kIsRate);
    } catch (const std::exception &error) {
        state.SkipWithError(error.what());
    }
}

}  // namespace
}  // namespace atalla

int main(int argc, char **argv) {
    using namespace atalla;
    for (const char *machine : {"ax01", "ax01-psum", "fsim"})
        for (const Kernel &kernel : kernels) {
            if (!kernel.fits_fsim && std::string_view(machine) == "fsim") continue;
            const std::string name = std::string(kernel.op) + "/" + kernel.shape + "/" + machine;
            benchmark::RegisterBenchmark(name.c_str(), [&kernel, machine](benchmark::State &state) {
                simulate(state, kernel, machine);
            })->Unit(benchmark::kMillisecond);
        }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
