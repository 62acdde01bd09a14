// Compares two sets of benchmark results: simulated counts exactly, host times by a rank test over repetitions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "dashboard/benchmark_file.h"

namespace atalla {

struct CompareOptions {
    double alpha = 0.01;         // host times differ if the rank test's p is at most this
    double least_change = 0.05;  // and their ratio is at least this far from 1
    bool host_times = true;      // judge them at all
};

enum class Verdict {
    Equal,   // the same count; or host times between which no difference was found
    Faster,  // fewer, less
    Slower,
    Undecided,  // host times with too few repetitions for the test to find anything
    Added,      // only new
    Removed,    // only old
    Failed,     // the new run ended with an error where the old one did not
};
const char *verdict_name(Verdict verdict);

struct ComparedMetric {
    std::string benchmark;  // "gemm/64x64x64/ax01"
    std::string metric;     // "cycles", "time"
    bool exact = false;     // a simulated count, otherwise seconds on a host
    Verdict verdict = Verdict::Equal;
    double before = 0, after = 0;  // counts: the largest of all repetitions; times: medians
    double ratio = 1;              // after over before; of times the test's estimate
    std::optional<double> p;       // of the rank test
    size_t repetitions_before = 0, repetitions_after = 0;
    std::string note;  // why undecided, what failed, counts that vary between repetitions
};

struct Comparison {
    std::vector<ComparedMetric> metrics;  // by file, benchmark, counts before times
    size_t count(Verdict verdict) const;
    // Slower or failed.
    bool regressed() const;
};

// Files are matched by name, unless each side has one only. Old files without a new one are left out: a run of some
// benchmarks is compared in these.
Comparison compare_benchmarks(const std::vector<BenchmarkResults> &before, const std::vector<BenchmarkResults> &after,
                              const CompareOptions &options = {});

nlohmann::ordered_json comparison_json(const Comparison &comparison, const CompareOptions &options);
// For people: what changed, worst first, and totals. With `all` what did not change, too.
std::string comparison_text(const Comparison &comparison, const CompareOptions &options, bool all);

}  // namespace atalla
