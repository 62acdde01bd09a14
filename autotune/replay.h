// A recorded sweep as a tuning task: questions about search quality are answered without a simulator.
#pragma once

#include <functional>

#include "autotune/task.h"
#include "db/database.h"

namespace atalla {

// The task whose evaluation looks its trials up in the database (all read now) instead of simulating. A point that was
// not recorded is a Failed trial that says so. Its fingerprints are marked, so that tuning it with a database never
// mixes with real trials. The verification repeats what is stored.
TuningTask replay_task(const Database &database, const TrialKey &key, const Space &space,
                       std::function<double(const Point &)> draft, int64_t bound_cycles = 0);

}  // namespace atalla
