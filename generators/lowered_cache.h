// Pipelines that Halide has lowered, for points that are verified and for those that differ only in where rows lie in the pads:
// lowering takes much of a trial's time.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/lowered.h"
#include "generators/kernel_definition.h"
#include "schedules/point.h"

namespace atalla {

// The latest of one workload on one machine. Thread-safe.
class LoweredCache {
public:
    // `placing_parameters`: those of the workload.
    explicit LoweredCache(std::vector<std::string> placing_parameters) : placing_(std::move(placing_parameters)) {}
    // The lowered pipeline of `kernel`, which is what `point` builds. Takes no time for one that is kept.
    codegen::LoweredPipeline lower(const Point &point, const KernelDefinition &kernel);
    void clear();

private:
    struct Entry {
        Point lowered;  // without the parameters that only place rows, and choices of the code generator
        codegen::LoweredPipeline pipeline;
    };
    std::vector<std::string> placing_;
    std::mutex mutex_;
    std::list<Entry> entries_;  // the latest first
};

}  // namespace atalla
