// A learned correction of the operators' analytic drafts: trained from the tuning database, shipped as data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autotune/boosted_trees.h"
#include "isa/machine.h"
#include "schedules/point.h"

namespace atalla {

// Numbers that describe a workload on a machine, by name: "m" (logarithms of sizes), "b=nk", "sa.psum_in".
using Features = std::map<std::string, double>;
// `workload` is canonical JSON. `bound_cycles` 0: unknown.
Features task_features(const std::string &workload, const Machine &machine, int64_t bound_cycles);

// A measured point of a workload.
struct MeasuredPoint {
    Point point;
    double drafted = 0;  // by the analytic draft, more than 0
    int64_t cycles = 0;
    bool at_least = false;  // given up after `cycles`
};
struct MeasuredTask {
    Features features;  // task_features()
    std::vector<MeasuredPoint> points;
};

// By what the draft of an operator is wrong.
class Correction {
public:
    Correction() = default;
    // Points near the best of their task count most.
    explicit Correction(const std::vector<MeasuredTask> &tasks);

    // The factor for a point of one task: predicted = drafted * factor.
    std::function<double(const Point &, double drafted)> of(Features task) const;

    nlohmann::json json() const;
    static Correction from_json(const nlohmann::json &json);  // Error if it is not one

private:
    class Row;
    void choose_features(const std::vector<MeasuredTask> &tasks);

    std::vector<std::string> names_;
    BoostedTrees trees_;
};

// Corrections by operator name: the file that `atalla learn` writes.
using Corrections = std::map<std::string, Correction>;
void write_corrections(const Corrections &corrections, const std::filesystem::path &file);
Corrections read_corrections(const std::filesystem::path &file);  // Error naming the file

// Those that ship, or those of the file in $ATALLA_CORRECTIONS; none if that is empty. Read once.
const Corrections &shipped_corrections();

// `draft` with the correction of the operator, if there is one.
std::function<double(const Point &)> corrected_draft(const Corrections &corrections, const std::string &op, Features task,
                                                     std::function<double(const Point &)> draft);

// How good predictions are on tasks that they were not learned from: trained on the others, `folds` times.
struct CorrectionQuality {
    size_t tasks = 0, points = 0;                   // judged: tasks with several points that ran
    double error_drafted = 0, error_corrected = 0;  // mean absolute, of the logarithm, about a task's own mean
    // Cycles of the fastest point of a task over those of the point with the best prediction.
    double share_drafted = 0, share_corrected = 0;  // median
    double worst_drafted = 0, worst_corrected = 0;
    bool wins() const { return error_corrected < error_drafted && share_corrected >= share_drafted; }
};
CorrectionQuality judge_correction(const std::vector<MeasuredTask> &tasks, size_t folds);

}  // namespace atalla
