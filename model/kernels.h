// The routines of a model: for each workload the best schedule that is known, compiled once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotune/tuner.h"
#include "db/database.h"
#include "generators/evaluate.h"
#include "stitch/stitch.h"

namespace atalla {

struct KernelOptions {
    Database *database = nullptr;   // null: no winners
    bool tune = false;              // what has no winner, and keep it
    TuneOptions how;                // with `tune`
};

struct ChosenKernel {
    Routine routine;
    Point point;
    std::string from;            // "winner", "tuned", "draft", "naive"
    int64_t bound_cycles = 0;
};

class KernelSet {
public:
    KernelSet(const Machine &machine, KernelOptions options) : machine_(machine), options_(std::move(options)) {}

    // The index of the workload's kernel; it is made when it is first asked for. Error if no schedule of it compiles.
    size_t add(const Operator &op, const std::shared_ptr<const Workload> &workload);
    const std::vector<ChosenKernel> &kernels() const { return kernels_; }

private:
    ChosenKernel choose(const Operator &op, const std::shared_ptr<const Workload> &workload) const;

    Machine machine_;
    KernelOptions options_;
    std::map<std::string, size_t> known_;   // by operator and workload text
    std::vector<ChosenKernel> kernels_;
};

}  // namespace atalla
