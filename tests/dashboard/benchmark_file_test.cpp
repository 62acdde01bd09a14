// Reading Google Benchmark's JSON, and what is said about files that are none.
#include "dashboard/benchmark_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/db/fixtures.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class BenchmarkFile : public testing::Test {
protected:
    std::filesystem::path write(const std::string &name, const std::string &text) const {
        std::ofstream(folder / name) << text;
        return folder / name;
    }
    TemporaryFolder folder;
};

constexpr const char *results = R"({
  "context": {"date": "2026-01-02T03:04:05+00:00", "host_name": "box"},
  "benchmarks": [
    {"name": "gemm/64", "run_name": "gemm/64", "run_type": "iteration", "repetition_index": 0, "iterations": 1,
     "real_time": 2.5, "cpu_time": 2.4, "time_unit": "ms", "cycles": 6653.0, "label": "rows=64"},
    {"name": "gemm/64", "run_name": "gemm/64", "run_type": "iteration", "repetition_index": 1, "iterations": 1,
     "real_time": 3.5, "cpu_time": 2.4, "time_unit": "ms", "cycles": 6653.0},
    {"name": "gemm/64_mean", "run_name": "gemm/64", "run_type": "aggregate", "aggregate_name": "mean",
     "real_time": 3.0, "cpu_time": 2.4, "time_unit": "ms", "cycles": 6653.0},
    {"name": "broken", "run_name": "broken", "run_type": "iteration", "error_occurred": true, "error_message": "no schedule",
     "real_time": 0, "cpu_time": 0, "time_unit": "s"}
  ]})";

TEST_F(BenchmarkFile, HasARunForEachBenchmark) {
    const BenchmarkResults read = read_benchmark_file(write("gemm.json", results));
    EXPECT_EQ(read.name, "gemm");
    EXPECT_EQ(read.host, "box");
    EXPECT_EQ(read.date, "2026-01-02T03:04:05+00:00");
    ASSERT_EQ(read.runs.size(), 2u);
    const BenchmarkRun &run = read.runs.at("gemm/64");
    EXPECT_THAT(run.seconds, ElementsAre(2.5e-3, 3.5e-3));
    EXPECT_THAT(run.counters.at("cycles"), ElementsAre(6653, 6653));
    EXPECT_EQ(run.counters.size(), 1u);
    EXPECT_EQ(run.label, "rows=64");
    EXPECT_EQ(read.runs.at("broken").error, "no schedule");
}

TEST_F(BenchmarkFile, AFolderGivesItsFilesByName) {
    write("b.json", results);
    write("a.json", results);
    write("notes.txt", "not a result");
    std::filesystem::create_directory(folder / "previous.json");
    const std::vector<BenchmarkResults> all = read_benchmarks(folder.path());
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].name, "a");
    EXPECT_EQ(all[1].name, "b");
}

TEST_F(BenchmarkFile, ErrorsSayWhatToDo) {
    const auto error = [&](const std::string &text) {
        const std::filesystem::path file = write("x.json", text);
        return error_of([&] { read_benchmark_file(file); });
    };
    EXPECT_THAT(error("{"), HasSubstr("x.json"));
    EXPECT_THAT(error("[1]"), HasSubstr("is not a result of Google Benchmark: it needs \"benchmarks\""));
    EXPECT_THAT(error(R"({"benchmarks": [{"name": "a"}]})"), HasSubstr("is not a result of Google Benchmark"));
    EXPECT_THAT(error(R"({"benchmarks": [{"name": "a", "real_time": 1, "time_unit": "h"}]})"),
                HasSubstr("has the time unit 'h'; there are ns, us, ms and s"));
    EXPECT_THAT(error(R"({"benchmarks": [{"name": "a_mean", "run_type": "aggregate", "real_time": 1}]})"),
                HasSubstr("has only aggregates; run the benchmark without --benchmark_report_aggregates_only"));
    EXPECT_THAT(error_of([&] { read_benchmarks(folder / "absent.json"); }), HasSubstr("cannot read the benchmark results"));
    std::filesystem::create_directory(folder / "empty");
    EXPECT_THAT(error_of([&] { read_benchmarks(folder / "empty"); }), HasSubstr("there are no benchmark results (*.json) in"));
}

TEST(ExactCounters, AreCyclesAndPackets) {
    for (const char *name : {"cycles", "packets", "naive_cycles", "total_packets"}) EXPECT_TRUE(is_exact_counter(name)) << name;
    for (const char *name : {"cycles/s", "bound_share", "lower_ms", "megacycles", "trials"})
        EXPECT_FALSE(is_exact_counter(name)) << name;
}

}  // namespace
}  // namespace atalla
