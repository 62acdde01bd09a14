// The tuning database with a million trials: how long a look-up of a winner and the recording of a trial take.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "db/database.h"
#include "db/sqlite.h"

namespace atalla {
namespace {

constexpr int64_t workloads = 1000, trials_each = 1000;

TrialKey key(int64_t workload) { return {"gemm", fmt::format(R"({{"m":{}}})", workload), "machine-1", "compiler-1"}; }

// Written by SQL, since a million recorded trials take minutes.
class MillionTrials {
public:
    MillionTrials() : file_(std::filesystem::temp_directory_path() / fmt::format("atalla-bench-{}.db", getpid())) {
        { const Database created(file_); }
        sqlite::Connection connection(file_, sqlite::Access::ReadWrite, 1000);
        connection.execute(
            "BEGIN; INSERT INTO machine(fingerprint, name) VALUES ('machine-1', 'ax01');"
            "INSERT INTO compiler(fingerprint) VALUES ('compiler-1')");
        connection.execute(
            fmt::format("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
                        " INSERT INTO workload(op, description) SELECT 'gemm', '{{\"m\":' || i || '}}' FROM n",
                        workloads - 1));
        connection.execute(
            fmt::format("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
                        " INSERT INTO trial(workload, machine, compiler, point, status, cycles, reason, counters, "
                        "seconds_lower, seconds_simulate,"
                        " verification, differs, run, made) SELECT workload.id, 1, 1, '{{\"rows\":' || i || '}}', 'ok', 1000 + "
                        "(i * 7919) % 4001, '',"
                        " '{{\"cycles\":1}}', 0.1, 0.1, i % 50 = 0, '', '', 0 FROM workload, n",
                        trials_each - 1));
        connection.execute("COMMIT");
    }
    ~MillionTrials() {
        for (const char *suffix : {"", "-wal", "-shm"}) {
            std::filesystem::remove(file_.string() + suffix);
        }
    }
    const std::filesystem::path &file() const { return file_; }

private:
    std::filesystem::path file_;
};

const MillionTrials &million() {
    static const MillionTrials trials;
    return trials;
}

void winner(benchmark::State &state) {
    const Database database(million().file());
    int64_t workload = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(database.winner(key(workload)).value().trial.cycles);
        workload = (workload + 37) % workloads;
    }
}

void related_winners(benchmark::State &state) {
    const Database database(million().file());
    TrialKey other = key(500);
    other.compiler = "another";
    for (auto _ : state) {
        benchmark::DoNotOptimize(database.related_winners(other).size());
    }
}

void record(benchmark::State &state) {
    Database database(million().file());
    Trial trial;
    trial.status = Trial::Ok;
    int64_t point = trials_each;
    for (auto _ : state) {
        trial.point = {{"rows", point++}};
        trial.cycles = point;
        database.record_trial(key(1), trial);
    }
}

BENCHMARK(winner)->Unit(benchmark::kMicrosecond);
BENCHMARK(related_winners)->Unit(benchmark::kMicrosecond);
BENCHMARK(record)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace atalla

BENCHMARK_MAIN();
