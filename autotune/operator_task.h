// An operator's workload as a tuning task.
#pragma once

#include <functional>
#include <memory>

#include "autotune/correction.h"
#include "autotune/task.h"
#include "db/database.h"
#include "generators/evaluate.h"

namespace atalla {

Trial trial_of(const Point &point, const Evaluation &evaluation);

// The analytic draft of a workload, as it is and with the correction that ships.
std::function<double(const Point &)> analytic_draft(std::shared_ptr<const Workload> workload, const Machine &machine);
std::function<double(const Point &)> shipped_draft(const Operator &op, std::shared_ptr<const Workload> workload,
                                                   const Machine &machine);

// What the database knows of the points of a workload, for Correction.
MeasuredTask measured_task(const TrialKey &key, const std::shared_ptr<const Workload> &workload, const Machine &machine,
                           const Database &database);

// The task shares the evaluator. Its draft is the analytic one: the correction helps where nothing is measured, not a search.
TuningTask tuning_task(const Operator &op, std::shared_ptr<const Evaluator> evaluator);

}  // namespace atalla
