// What the schedules of windows over planes offer to bring and take away at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "generators/pool.h"

namespace atalla {

// Rows of blocks, of so many, that come from memory together; the last ones may share some with those before.
std::vector<int64_t> come_together(int64_t bands);
// Planes in the pads at a time, whole blocks of 32: what each block takes of the code is in the instruction cache for all of
// them.
std::vector<int64_t> planes_together(const PoolShape &shape);

}  // namespace atalla
