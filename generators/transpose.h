// Dimensions in an order in which neighbours of the result are none in the input: blocks of 32 x 32 elements turned by the
// array.
#pragma once

#include <memory>

#include "generators/movement.h"

namespace atalla {

// Can the array turn this box, the only one of its result: the whole of one dense tensor in another order, whose innermost
// dimension is not the result's? Its dims are in the result's order, innermost first, those of one element left out.
bool is_transpose(const MovedBox &box, int64_t elements);

// `by_element` moves the same one element at a time: for machines whose pads hold no blocks. The array gives finite numbers as
// they are; an infinity or NaN makes NaN of the 32 elements of its row in the block, and zeros lose their sign.
std::unique_ptr<Workload> transpose_workload(const WorkloadRequest &request, const Shape &result, const MovedBox &box,
                                             std::unique_ptr<Workload> by_element);

}  // namespace atalla
