// Speed of the simulator: packets a second of the functional engine and cycles a second of the timing engine, on the
// conformance kernels where they are beside the source tree, and on a matrix product of its own; how long the data of a
// large product take to get in; and what a batch gains from more threads. Upstream's Python simulator stands beside it, and
// what is asked at least and aimed for.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>

#include "isa/assembler.h"
#include "isa/in_file.h"
#include "simulator/batch.h"
#include "simulator/simulator.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

// Packets a second of upstream's functional simulator on one core of 2.5 GHz, as its authors measured.
constexpr double upstream_packets = 18'000;

// 32 weights, then rows of a pad through the array, lanes and back: the operations of a tiled kernel in their proportions.
constexpr const char *matrix_product = R"(
            addi.s x2, x0, 31
            addi.s x3, x0, 1600
            addi.s x10, x0, 0
    outer:  addi.s x1, x0, 0
    weights:{ vreg.ld v1, x0, x1, 31, 0 }
            { lw.vi v0, v1, 0, 0 ; blt.s x1, x2, weights, 1 }
            addi.s x1, x0, 0
    rows:   { vreg.ld v2, x0, x1, 31, 0 ; vreg.ld v3, x0, x1, 31, 1 }
            gemm.vv v4, v2, v0, 0
            add.vv v5, v4, v3, 0
            { vreg.st v5, x0, x1, 31, 1 ; blt.s x1, x2, rows, 1 }
            blt.s x10, x3, outer, 1
            halt.s
)";

// The conformance kernels by name; none if they are not beside the source tree.
std::map<std::string, Program> kernels() {
    const std::filesystem::path archive = source_path("../shared/atalla/vectors/vectors.tar.xz");
    std::map<std::string, Program> programs;
    if (!std::filesystem::exists(archive)) {
        return programs;
    }
    std::string folder = (std::filesystem::temp_directory_path() / "atalla-bench-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
        return programs;
    }
    const std::string unpack = "tar -xf '" + archive.string() + "' -C '" + folder + "' a40-kernels";
    if (std::system(unpack.c_str()) == 0) {
        for (const auto &entry : std::filesystem::directory_iterator(folder + "/a40-kernels")) {
            if (entry.path().extension() == ".in") {
                programs[entry.path().stem().string()] = read_in(entry.path());
            }
        }
    }
    std::filesystem::remove_all(folder);
    return programs;
}

void run(benchmark::State &state, const std::string &machine, const Program &program) {
    const Machine described = find_machine(machine);
    Simulator simulator(described);
    simulator.load(program);
    uint64_t packets = 0, cycles = 0;
    for (auto _ : state) {
        const RunResult result = simulator.run();
        if (!result.ok) {
            return state.SkipWithError(result.error.c_str());
        }
        packets += result.counters.packets;
        cycles += result.counters.cycles;
    }
    const bool timed = described.timed();
    state.counters["packets/s"] = benchmark::Counter(static_cast<double>(packets), benchmark::Counter::kIsRate);
    state.counters["upstream_packets/s"] = upstream_packets;
    state.counters["cycles/s"] = benchmark::Counter(static_cast<double>(cycles), benchmark::Counter::kIsRate);
    state.counters[timed ? "least_cycles/s" : "least_packets/s"] = timed ? 3e6 : 5e6;
    state.counters[timed ? "aimed_cycles/s" : "aimed_packets/s"] = timed ? 10e6 : 20e6;
}

// A machine, and the three tensors of 1024 x 1024 x 1024 in its memory: 6 MB.
void start_up(benchmark::State &state, const std::string &machine) {
    constexpr uint64_t tensor_bytes = 2 * 1024 * 1024;
    const Machine described = find_machine(machine);
    const Program program = assemble("halt.s\n");
    const std::vector<uint8_t> tensor(tensor_bytes, 0x3F);
    for (auto _ : state) {
        Simulator simulator(described);
        simulator.load(program);
        for (uint64_t number = 0; number < 3; number++) {
            simulator.write_memory(0x1000 + number * tensor_bytes, tensor);
        }
        benchmark::DoNotOptimize(simulator.run().ok);
    }
}

// Runs of the matrix product on one and on two threads, by the clock on the wall: programs a second, and what the second thread
// brings. `rounds`: how long a program is.
void batch(benchmark::State &state, int programs, int rounds) {
    const Machine machine = find_machine("ax01");
    std::string text = matrix_product;
    text.replace(text.find("1600"), 4, std::to_string(rounds));
    const Program program = assemble(text);
    const std::vector<BatchJob> jobs(static_cast<size_t>(programs), {&machine, &program});
    const auto seconds = [&](int threads) {
        const auto start = std::chrono::steady_clock::now();
        benchmark::DoNotOptimize(run_batch(jobs, {}, threads).size());
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    // The fastest of all runs: what else the host does is not the simulator's.
    double best[2] = {1e30, 1e30};
    for (auto _ : state) {
        for (const int threads : {1, 2}) {
            best[threads - 1] = std::min(best[threads - 1], seconds(threads));
        }
    }
    state.counters["programs/s"] = programs / best[0];
    state.counters["programs/s_on_2"] = programs / best[1];
    state.counters["speedup_on_2"] = best[0] / best[1];
}

// The reference timing model, for comparison.
void reference_model(benchmark::State &state) {
    Simulator simulator(find_machine("ax01"));
    simulator.load(
        assemble("addi.s x2, x0, 999\nloop: mul.vv v1, v2, v3, 0\nadd.vv v4, v2, v3, 0\nblt.s x1, x2, loop, 1\nhalt.s\n"));
    uint64_t cycles = 0;
    for (auto _ : state) {
        cycles += simulator.run({.model = TimingModel::Reference}).counters.cycles;
    }
    state.counters["cycles/s"] = benchmark::Counter(static_cast<double>(cycles), benchmark::Counter::kIsRate);
}

void add(const std::string &name, const std::string &machine, const Program &program) {
    benchmark::RegisterBenchmark((name + "/" + machine).c_str(),
                                 [machine, program](benchmark::State &state) { run(state, machine, program); });
}

}  // namespace
}  // namespace atalla

int main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    for (const char *machine : {"fsim", "ax01"}) {
        atalla::add("matrix_product", machine, atalla::assemble(atalla::matrix_product));
    }
    for (const char *machine : {"fsim", "ax01"}) {
        benchmark::RegisterBenchmark((std::string("start_up_1024_cubed/") + machine).c_str(), [machine](
                                                                                                  benchmark::State &state) {
            atalla::start_up(state, machine);
        })->Unit(benchmark::kMillisecond);
    }
    for (const auto &[name, programs, rounds] : {std::tuple{"batch/long", 32, 1600}, std::tuple{"batch/short", 512, 20}}) {
        benchmark::RegisterBenchmark(name,
                                     [programs, rounds](benchmark::State &state) { atalla::batch(state, programs, rounds); })
            ->Iterations(10)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
    }
    benchmark::RegisterBenchmark("reference_model/ax01", atalla::reference_model);
    // The kernels are written for upstream's simulator: they do not keep the timing rules of hardware.
    for (const auto &[name, program] : atalla::kernels()) {
        atalla::add(name, "fsim", program);
    }
    benchmark::RunSpecifiedBenchmarks();
}
