// Maxima of windows over planes in two steps: along the rows of an image, where the array has just turned a block of one and
// all its elements are in registers, and then along columns, where the results go back through the array.
#pragma once

#include "generators/pool.h"

namespace atalla {

// Do the windows of a row fit blocks of 32 elements, and 32 planes the pads?
bool row_maxima_fit(const PoolShape &shape, const Machine &machine);
Space row_maxima_space(const PoolShape &shape, const Machine &machine);
Point row_maxima_naive_point(const PoolShape &shape, const Machine &machine);
double row_maxima_draft(const PoolShape &shape, const Machine &machine, const Point &point);
KernelDefinition row_maxima_kernel(const PoolShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
