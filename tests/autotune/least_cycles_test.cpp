// Bounds of single schedules against everything that is recorded.
#include <gtest/gtest.h>

#include "autotune/sweep.h"
#include "generators/registry.h"
#include "isa/machine.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

// A bound that a point could beat would make a proof wrong.
TEST(LeastCycles, NoRecordedPointIsFasterThanItsOwnBound) {
    size_t points = 0, raised = 0;
    for (const auto &entry : std::filesystem::directory_iterator(source_path("bench/sweeps"))) {
        const TuningCache sweep = read_sweep(entry.path());
        const std::unique_ptr<Workload> workload = find_operator(sweep.key.op).parse(sweep.key.workload);
        const Machine machine = find_machine(sweep.machine_name);
        for (const TuningCache::Row &row : sweep.rows) {
            if (row.trial.status == Trial::Ok) {
                const int64_t least = workload->least_cycles(machine, row.trial.point);
                EXPECT_GE(row.trial.cycles, least) << entry.path().filename() << " at " << row.trial.point.assignments();
                points++;
                raised += least > sweep.bound_cycles;
            }
        }
    }
    EXPECT_GT(points, 1000u);
    EXPECT_GT(raised, points / 4) << "the points' own bounds say no more than the workload's";
}

}  // namespace
}  // namespace atalla
