// Where buffers lie in an arena, so that those alive at the same time do not overlap.
#pragma once

#include <cstdint>
#include <vector>

namespace atalla {

struct Buffer {
    int64_t bytes = 0;
    int32_t first = 0, last = 0;   // times at which it is alive, both included
    int64_t offset = -1;           // from the planner
};

struct Arena {
    int64_t bytes = 0;   // that the offsets need
    int64_t bound = 0;   // bytes alive at the same time at most, rounded up to the alignment: no plan is smaller
};

// Largest first, each at the lowest offset that is free during its life.
Arena plan_arena(std::vector<Buffer> &buffers, int64_t alignment);

}  // namespace atalla
