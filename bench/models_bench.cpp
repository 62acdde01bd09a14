// What a user waits for: BERT of 2 and 12 layers from its archive to a loadable with all winners known, and opening the
// loadable.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <unistd.h>

#include "db/database.h"
#include "graph_import/import.h"
#include "isa/error.h"
#include "model/compile_model.h"
#include "model/workloads.h"
#include "runtime/model.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

// A folder that goes with the program.
class Folder {
public:
    Folder() : path_(std::filesystem::temp_directory_path() / fmt::format("atalla-bench-models-{}", getpid())) {
        std::filesystem::create_directories(path_);
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::filesystem::path operator/(const std::string &name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

const Folder &folder() {
    static const Folder one;
    return one;
}

// PyTorch writes the archive. Error without the packages of requirements-test.txt.
std::filesystem::path archive(int64_t layers) {
    const std::filesystem::path file = folder() / fmt::format("bert_{}.pt2", layers);
    if (std::filesystem::exists(file)) return file;
    const std::string command = fmt::format("'{}' '{}' bert_{} '{}' >&2", ATALLA_BENCH_PYTHON,
                                            source_path("tests/models/zoo.py").string(), layers, file.string());
    if (std::system(command.c_str()) != 0)
        throw Error(
            "the models are exported with the packages of requirements-test.txt: build/env/bin/pip install -r "
            "requirements-test.txt");
    return file;
}

// Winners of a model's kernels: the schedules that the draft likes best, taken as verified.
void warm(Database &database, const Graph &graph, const Machine &machine) {
    KernelOptions how;
    how.measured = 1;
    KernelSet kernels(machine, how);
    for (const ModelWorkload &one : model_workloads(graph, machine)) {
        try {
            Trial trial;
            trial.status = Trial::Ok;
            trial.cycles = kernels.cycles(*one.op, one.workload);
            trial.point = kernels.kernels()[kernels.add(*one.op, one.workload)].point;
            const TrialKey key = {one.op->name(), one.workload->text(), machine.fingerprint(), compiler_fingerprint()};
            database.record_trial(key, trial);
            database.mark_verified(key, trial.point);
        } catch (const Error &) {  // a kernel of several nodes that does not compile: they stay apart
        }
    }
}

Database &database() {
    static Database one(folder() / "winners.db");
    return one;
}

CompiledModel compiled(int64_t layers, const Machine &machine) {
    const ImportedModel imported = import_model(archive(layers));
    CompileModelOptions options;
    options.kernels.database = &database();
    return compile_model(imported.graph, machine, options);
}

void compile_bert(benchmark::State &state) {
    try {
        const Machine machine = find_machine("ax01");
        warm(database(), import_model(archive(state.range(0))).graph, machine);
        size_t bytes = 0;
        for (auto _ : state) bytes = compiled(state.range(0), machine).bytes.size();
        state.counters["bytes"] = static_cast<double>(bytes);
    } catch (const Error &error) {
        state.SkipWithError(error.what());
    }
}

void load_bert(benchmark::State &state) {
    try {
        const std::filesystem::path file = folder() / "bert.atl";
        {
            const CompiledModel model = compiled(state.range(0), find_machine("ax01"));
            std::ofstream(file, std::ios::binary)
                .write(reinterpret_cast<const char *>(model.bytes.data()), static_cast<std::streamsize>(model.bytes.size()));
        }
        for (auto _ : state) benchmark::DoNotOptimize(Model::load(file));
        state.counters["bytes"] = static_cast<double>(std::filesystem::file_size(file));
    } catch (const Error &error) {
        state.SkipWithError(error.what());
    }
}

BENCHMARK(compile_bert)->Arg(2)->Arg(12)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(load_bert)->Arg(12)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace atalla

BENCHMARK_MAIN();
