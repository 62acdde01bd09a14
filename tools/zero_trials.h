// A schedule at once: no program is compiled or simulated, the database's neighbours and the analytic draft decide.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "autotune/transfer.h"
#include "db/database.h"
#include "generators/operator.h"

namespace atalla {

struct ZeroTrials {
    Transfer transfer;
    double seconds = 0;
    int64_t stale = 0;  // workloads that were only tuned by another compiler or on another machine: not learned from
};

// Learns from what the database has of the operator on this machine by this compiler, of other workloads than this.
ZeroTrials schedule_without_trials(const Operator &op, const std::shared_ptr<const Workload> &workload, const Machine &machine,
                                   const Database &database);

nlohmann::ordered_json zero_trials_json(const ZeroTrials &zero, const Operator &op, const Workload &workload,
                                        const Machine &machine);
// With `explain`: from whom the schedule comes.
std::string zero_trials_text(const ZeroTrials &zero, const Operator &op, const Workload &workload, const Machine &machine,
                             bool explain);

}  // namespace atalla
