// The packets of a loop while the array waits between the last row and the next weights.
#pragma once

#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// Of a scheduled loop that loads weights: what stands between its last row and its first weights goes into fewer packets, which
// the distance between the two has time for, however few they are. Steps behind the last row go beside rows, and the packets in
// front of the weights are put together.
void merge_between_rows_and_weights(const Kernel &kernel, ScheduleGraph &graph);

}  // namespace atalla::codegen
