#include "generators/lowered_cache.h"

#include <algorithm>

namespace atalla {

namespace {

// Neighbours of a good point are tried a few batches after it. A pipeline of GEMM takes some hundred kilobytes.
constexpr size_t most_kept = 24;

}  // namespace

codegen::LoweredPipeline LoweredCache::lower(const Point &point, const KernelDefinition &kernel) {
    Point lowered = point;
    for (const std::string &name : placing_) lowered.erase(name);
    lowered.erase(choices_parameter);
    {
        const std::scoped_lock lock(mutex_);
        const auto found =
            std::find_if(entries_.begin(), entries_.end(), [&](const Entry &entry) { return entry.lowered == lowered; });
        if (found != entries_.end()) {
            entries_.splice(entries_.begin(), entries_, found);
            codegen::LoweredPipeline pipeline = found->pipeline;
            pipeline.seconds = 0;
            return pipeline;
        }
    }
    // Outside the lock; if two threads lower the same, both are kept, and the older one leaves first.
    codegen::LoweredPipeline pipeline = codegen::lower(kernel.pipeline, kernel.arguments);
    const std::scoped_lock lock(mutex_);
    entries_.push_front({std::move(lowered), pipeline});
    if (entries_.size() > most_kept) entries_.pop_back();
    return pipeline;
}

void LoweredCache::clear() {
    const std::scoped_lock lock(mutex_);
    entries_.clear();
}

}  // namespace atalla
