// Where buffers lie in an arena, so that those alive at the same time do not overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace atalla {

struct Buffer {
    int64_t bytes = 0;
    int32_t first = 0, last = 0;  // times at which it is alive, both included
    int64_t offset = -1;          // from the planner
};

struct Arena {
    int64_t bytes = 0;  // that the offsets need
    int64_t bound = 0;  // bytes alive at the same time at most, rounded up to the alignment: no plan is smaller
};

// Where a buffer of so many bytes may start: the first such offset from the given one on, a multiple of the alignment.
using ArenaStart = std::function<int64_t(int64_t offset, int64_t bytes)>;

// Largest first, each at the lowest offset that is free during its life, or at the first from there on where it may start.
Arena plan_arena(std::vector<Buffer> &buffers, int64_t alignment, const ArenaStart &start = {});

}  // namespace atalla
