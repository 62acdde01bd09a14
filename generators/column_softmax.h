// Softmax along an axis that is not the last: lanes are elements behind the axis, and everything is computed lane by lane.
#pragma once

#include <memory>

#include "generators/declared_operator.h"

namespace atalla {

// [inner lanes] [length, the axis] [outer], innermost first, dense.
struct ColumnShape {
    int64_t inner = 1, length = 1, outer = 1;
};

// exp(x - max) / sum of it, or, as a logarithm, x - max - log(sum). Every operation is rounded to bf16; sums and maxima are
// made eight elements apart side by side, then these in pairs.
std::unique_ptr<Workload> column_softmax(const WorkloadRequest &request, const ColumnShape &shape, bool logarithm);

}  // namespace atalla
