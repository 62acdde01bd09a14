// Tunes a workload with everything around it: the database, the points worth starting from, the naive program beside it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "autotune/tuner.h"
#include "db/database.h"
#include "generators/evaluate.h"

namespace atalla {

struct Tuned {
    const Operator *op = nullptr;
    std::shared_ptr<const Evaluator> evaluator;
    TuneResult result;
    Bound bound;
    std::optional<int64_t> naive_cycles;  // nothing for workloads too large for it
    nlohmann::json counters;              // of the best point
};

// Before a search: the evaluator and the bound.
Tuned prepare(const Operator &op, std::shared_ptr<const Workload> workload, const Machine &machine);
// After it: `result` with what the database knows of the winner. Error if nothing was found.
void complete(Tuned &tuned, TuneResult result, Database &database);

// Error if nothing was found.
Tuned tune_workload(const Operator &op, std::shared_ptr<const Workload> workload, const Machine &machine, Database &database,
                    TuneOptions options);

// The stored winner; without one, that of a tuning run with the settings that atalla-tune starts with, said on standard
// error. `database` may be empty: the default file. Error if nothing could be verified.
Point winning_point(const Operator &op, std::shared_ptr<const Workload> workload, const Machine &machine,
                    const std::filesystem::path &database, bool quiet);

// One point instead of a search: nothing is stored. Error with the reason if it does not run.
Tuned measure_point(const Operator &op, std::shared_ptr<const Workload> workload, const Machine &machine, const Point &point);

}  // namespace atalla
