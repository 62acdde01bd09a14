#include "autotune/operator_task.h"

namespace atalla {

namespace {

Trial::Status status_of(Evaluation::Status status) {
    switch (status) {
        case Evaluation::Ok:
            return Trial::Ok;
        case Evaluation::Refused:
            return Trial::Refused;
        case Evaluation::TimedOut:
            return Trial::TimedOut;
        case Evaluation::Failed:
            break;
    }
    return Trial::Failed;
}

}  // namespace

Trial trial_of(const Point &point, const Evaluation &evaluation) {
    Trial trial;
    trial.point = point;
    trial.status = status_of(evaluation.status);
    const bool counts = evaluation.status == Evaluation::Ok || evaluation.status == Evaluation::TimedOut;
    trial.cycles = counts ? evaluation.cycles : 0;
    trial.reason = evaluation.reason;
    trial.counters = evaluation.counters;
    trial.seconds_lower = evaluation.seconds_lower;
    trial.seconds_simulate = evaluation.seconds_simulate;
    return trial;
}

std::function<double(const Point &)> analytic_draft(std::shared_ptr<const Workload> workload, const Machine &machine) {
    return [workload = std::move(workload), machine](const Point &point) { return workload->draft(machine, point); };
}

std::function<double(const Point &)> shipped_draft(const Operator &op, std::shared_ptr<const Workload> workload,
                                                   const Machine &machine) {
    Features features = task_features(workload->text(), machine, workload->bound(machine).cycles);
    return corrected_draft(shipped_corrections(), op.name(), std::move(features), analytic_draft(std::move(workload), machine));
}

MeasuredTask measured_task(const TrialKey &key, const std::shared_ptr<const Workload> &workload, const Machine &machine,
                           const Database &database) {
    MeasuredTask task{task_features(workload->text(), machine, workload->bound(machine).cycles), {}};
    const Space space = workload->space(machine);
    for (const StoredTrial &stored : database.trials_of(key)) {
        const Trial &trial = stored.trial;
        const bool given_up = trial.status == Trial::TimedOut && trial.cycles > 0;
        if ((trial.status != Trial::Ok && !given_up) || stored.verification == Verification::Differs ||
            trial.point.contains(choices_parameter) || !violation(space, trial.point).empty()) {
            continue;
        }
        if (const double drafted = workload->draft(machine, trial.point); drafted > 0) {
            task.points.push_back({trial.point, drafted, trial.cycles, given_up});
        }
    }
    return task;
}

TuningTask tuning_task(const Operator &op, std::shared_ptr<const Evaluator> evaluator) {
    const Workload &workload = evaluator->workload();
    const Machine &machine = evaluator->machine();
    TuningTask task;
    task.op = op.name();
    task.workload = workload.text();
    task.title = workload.title();
    task.machine_name = machine.name;
    task.machine_fingerprint = machine.fingerprint();
    task.compiler_fingerprint = compiler_fingerprint();
    task.space = workload.space(machine);
    const Bound bound = workload.bound(machine);
    task.bound_cycles = bound.cycles;
    task.bound_by = bound.binding;
    task.draft = analytic_draft(std::shared_ptr<const Workload>(evaluator, &workload), machine);
    task.least_cycles = [evaluator](const Point &point) {
        return evaluator->workload().least_cycles(evaluator->machine(), point);
    };
    task.evaluate = [evaluator](const Point &point, int64_t cycle_limit) {
        return trial_of(point, evaluator->evaluate(point, cycle_limit));
    };
    task.open_choices = [evaluator](const Point &point) { return evaluator->open_choices(point).bits(); };
    task.verify = [evaluator](const Point &point) { return evaluator->verify(point); };
    task.rest = [evaluator] { evaluator->forget_tensors(); };
    return task;
}

}  // namespace atalla
