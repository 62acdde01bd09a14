// Results of benchmarks as Google Benchmark writes them in JSON.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace atalla {

// One benchmark of a program with all its repetitions.
struct BenchmarkRun {
    std::vector<double> seconds;                          // wall-clock time of an iteration, a value for each repetition
    std::map<std::string, std::vector<double>> counters;  // by name, a value for each repetition
    std::string label;
    std::string error;  // what the benchmark said, if it failed
};

struct BenchmarkResults {
    std::string name;  // of the file, without its extension: "gemm"
    std::string date;  // as the file has it, ISO 8601
    std::string host;
    std::map<std::string, BenchmarkRun> runs;  // by benchmark, "gemm/64x64x64/ax01"
};

// Error if the file cannot be read, is not such JSON, or has aggregates without the repetitions they are of.
BenchmarkResults read_benchmark_file(const std::filesystem::path &file);
// A file, or every *.json of a folder, by name. Error if there is none.
std::vector<BenchmarkResults> read_benchmarks(const std::filesystem::path &path);

// Whether a counter is a result of simulation, which repeats exactly, rather than of the host: cycles and packets, alone
// or behind an underscore (`naive_cycles`). Less is better.
bool is_exact_counter(const std::string &name);

}  // namespace atalla
