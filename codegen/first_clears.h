// Sums of a loop around the array that its first iteration clears, under a mask that is empty later.
#pragma once

#include <optional>
#include <vector>

#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// The operations of such a loop without its clears and without what empties their mask.
std::vector<Op> without_first_clears(const Kernel &kernel, const std::vector<Op> &ops);

// The loop's whole operations with the cycles that `scheduled` has for those: clears go into packets that have room for them,
// between the rows that add to their sums, one to a packet. Nothing where one of them finds no room.
std::optional<ScheduleGraph> with_first_clears(const Kernel &kernel, const ScheduleGraph &scheduled, const std::vector<Op> &ops,
                                               int loop, int interval);

}  // namespace atalla::codegen
