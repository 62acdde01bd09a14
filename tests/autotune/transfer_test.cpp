// Schedules without a trial.
#include "autotune/transfer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autotune/session.h"
#include "autotune/sweep.h"
#include "tests/autotune/synthetic.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

using testing::SizeIs;

TEST(WorkloadDistance, CountsSizesAndRefusesOtherComputations) {
    const std::string base = R"({"k":64,"m":64,"type":"bf16","bias":false})";
    EXPECT_EQ(workload_distance(base, base), 0);
    const double near = workload_distance(base, R"({"k":64,"m":128,"type":"bf16","bias":false})");
    const double far = workload_distance(base, R"({"k":64,"m":512,"type":"bf16","bias":false})");
    EXPECT_GT(near, 0);
    EXPECT_GT(far, near);
    EXPECT_EQ(far, workload_distance(R"({"k":64,"m":512,"type":"bf16","bias":false})", base));
    EXPECT_TRUE(std::isfinite(workload_distance(base, R"({"k":64,"m":64,"type":"bf16","bias":true})")));
    EXPECT_TRUE(std::isinf(workload_distance(base, R"({"k":64,"m":64,"type":"fp32","bias":false})")));
    EXPECT_TRUE(std::isinf(workload_distance(base, R"({"k":64,"m":64})")));
    EXPECT_TRUE(std::isinf(workload_distance(base, "not JSON")));
}

// A draft that does not see how bad unrolling by eight is for a larger workload.
double blind_draft(const Point &p) { return static_cast<double>(synthetic::cycles(p)) / (p["unroll"] == 8 ? 3 : 1); }

TransferSource neighbour(const std::string &workload, size_t trials) {
    TransferSource source{workload, {}};
    for (const auto &[cycles, point] : synthetic::sorted()) {
        if (source.measured.size() < trials || point["unroll"] == 8) {
            source.measured.push_back({point, cycles, blind_draft(point)});
        }
    }
    return source;
}

TEST(Transfer, NeighboursCorrectTheDraft) {
    TuningTask task = synthetic::task();
    task.draft = blind_draft;
    const Transfer alone = transfer_schedule(task, {});
    EXPECT_EQ(alone.point["unroll"], 8);
    EXPECT_EQ(alone.point, alone.drafted);
    EXPECT_THAT(alone.from, SizeIs(0));
    TransferOptions options;
    options.measured_each = 1000;
    const Transfer taught =
        transfer_schedule(task, {neighbour(R"({"m":128})", 100), neighbour(R"({"name":"another"})", 100)}, options);
    ASSERT_THAT(taught.from, SizeIs(1)) << "the other is another computation";
    EXPECT_EQ(taught.from[0].workload, R"({"m":128})");
    EXPECT_NE(taught.point["unroll"], 8);
    EXPECT_LE(static_cast<double>(synthetic::cycles(taught.point)),
              1.05 * static_cast<double>(synthetic::sorted().front().first));
    EXPECT_GT(taught.uncertainty, 0);
}

TEST(Transfer, TheNearestAreLearnedFrom) {
    std::vector<TransferSource> sources;
    for (const int m : {4096, 32, 128, 1024, 256}) {
        sources.push_back(neighbour(fmt::format(R"({{"m":{}}})", m), 20));
    }
    TransferOptions options;
    options.neighbours = 3;
    const Transfer transfer = transfer_schedule(synthetic::task(), sources, options);
    ASSERT_THAT(transfer.from, SizeIs(3));
    EXPECT_EQ(transfer.from[2].workload, R"({"m":256})");
}

// On the recorded sweeps, a third held back. The draft was fitted to products like these, so neighbours have little to add;
// where they do speak they must not do harm.
TEST(Transfer, IsFastOnShapesThatItHasNotSeen) {
    std::vector<TuningCache> sweeps;
    std::vector<TransferSource> sources;
    std::vector<std::filesystem::path> files;
    for (const auto &entry : std::filesystem::directory_iterator(source_path("bench/sweeps"))) {
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path &file : files) {
        const TuningCache sweep = read_sweep(file);
        const TuningTask task = sweep_task(sweep);
        TuneOptions options = synthetic::quiet(32);
        options.handle_signals = false;
        TuningSession session(task, nullptr, options);
        while (session.step()) {
        }
        TransferSource source{sweep.key.workload, {}};
        for (const Trial &trial : session.outcomes().trials()) {
            if (trial.status == Trial::Ok) {
                source.measured.push_back({trial.point, trial.cycles, task.draft(trial.point)});
            }
        }
        sources.push_back(std::move(source));
        sweeps.push_back(sweep);
    }
    std::vector<double> taught, drafted;
    for (size_t held_back = 0; held_back < sweeps.size(); held_back++) {
        std::vector<TransferSource> known;
        for (size_t other = 0; other < sweeps.size(); other++) {
            const TrialKey &one = sweeps[other].key, &held = sweeps[held_back].key;
            if (other % 3 != held_back % 3 && one.op == held.op && one.machine == held.machine) {
                known.push_back(sources[other]);
            }
        }
        std::map<Point, double> speed;
        int64_t best = INT64_MAX;
        for (const TuningCache::Row &row : sweeps[held_back].rows) {
            if (row.trial.status == Trial::Ok) {
                best = std::min(best, row.trial.cycles);
            }
            // One that was given up takes longer than it ran: this is the most that its speed can be.
            if (row.trial.cycles > 0) {
                speed[row.trial.point] = 1.0 / static_cast<double>(row.trial.cycles);
            }
        }
        const Transfer transfer = transfer_schedule(sweep_task(sweeps[held_back]), known);
        taught.push_back(speed[transfer.point] * static_cast<double>(best));
        drafted.push_back(speed[transfer.drafted] * static_cast<double>(best));
        EXPECT_GE(taught.back(), 0.9 * drafted.back())
            << sweeps[held_back].machine_name << ' ' << sweeps[held_back].key.workload;
    }
    std::sort(taught.begin(), taught.end());
    std::sort(drafted.begin(), drafted.end());
    RecordProperty("median",
                   fmt::format("{:.3f}, the draft alone {:.3f}", taught[taught.size() / 2], drafted[drafted.size() / 2]));
    RecordProperty("worst", fmt::format("{:.3f}, the draft alone {:.3f}", taught.front(), drafted.front()));
    EXPECT_GE(taught[taught.size() / 2], 0.95);
    EXPECT_GE(taught[taught.size() / 2], drafted[drafted.size() / 2]);
}

}  // namespace
}  // namespace atalla
