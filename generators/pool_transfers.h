// What the schedules of windows over planes offer to bring and take away at a time, and what that takes of the bus.
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
// Does no window reach from a plane into the next, so that these may be cut anywhere between rows of results?
bool continuous(const PoolShape &shape);
// The beats of the bus that `length` elements take which begin `first` behind each of some places `distance` elements apart:
// the mean over where in a beat they begin.
double mean_beats(int64_t distance, int64_t first, int64_t length);

}  // namespace atalla
