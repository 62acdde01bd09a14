#include "autotune/replay.h"

#include <map>
#include <memory>

namespace atalla {

TuningTask replay_task(const Database &database, const TrialKey &key, const Space &space,
                       std::function<double(const Point &)> draft, int64_t bound_cycles) {
    const auto recorded = std::make_shared<std::map<Point, StoredTrial>>();
    for (StoredTrial &stored : database.trials_of(key)) {
        recorded->emplace(stored.trial.point, std::move(stored));
    }
    TuningTask task;
    task.op = key.op;
    task.workload = key.workload;
    task.machine_name = "replay";
    task.machine_fingerprint = "replay:" + key.machine;
    task.compiler_fingerprint = "replay:" + key.compiler;
    task.space = space;
    task.draft = std::move(draft);
    task.bound_cycles = bound_cycles;
    task.evaluate = [recorded](const Point &point, int64_t) {
        const auto found = recorded->find(point);
        if (found != recorded->end()) {
            return found->second.trial;
        }
        Trial missing;
        missing.point = point;
        missing.reason = "the recorded sweep has no trial of " + point.assignments();
        return missing;
    };
    task.verify = [recorded](const Point &point) {
        const auto found = recorded->find(point);
        return found != recorded->end() ? found->second.differs : "not recorded";
    };
    return task;
}

}  // namespace atalla
