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

TuningTask tuning_task(const Operator &op, std::shared_ptr<const Evaluator> evaluator) {
    const Workload &workload = evaluator->workload();
    const Machine &machine = evaluator->machine();
    TuningTask task;
    task.op = op.name();
    task.workload = workload.text();
    task.machine_name = machine.name;
    task.machine_fingerprint = machine.fingerprint();
    task.compiler_fingerprint = compiler_fingerprint();
    task.space = workload.space(machine);
    task.bound_cycles = workload.bound(machine).cycles;
    task.draft = [evaluator](const Point &point) { return evaluator->workload().draft(evaluator->machine(), point); };
    task.evaluate = [evaluator](const Point &point, int64_t cycle_limit) {
        return trial_of(point, evaluator->evaluate(point, cycle_limit));
    };
    task.verify = [evaluator](const Point &point) { return evaluator->verify(point); };
    return task;
}

}  // namespace atalla
