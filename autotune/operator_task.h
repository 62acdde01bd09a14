// An operator's workload as a tuning task.
#pragma once

#include <memory>

#include "autotune/task.h"
#include "db/trial.h"
#include "generators/evaluate.h"

namespace atalla {

Trial trial_of(const Point &point, const Evaluation &evaluation);

// The task shares the evaluator.
TuningTask tuning_task(const Operator &op, std::shared_ptr<const Evaluator> evaluator);

}  // namespace atalla
