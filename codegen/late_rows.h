// Results of the array that would wait for the old value in their register.
#pragma once

#include <optional>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// The operations of a scheduled block with other registers for those rows through the array that were scheduled late because
// their register was still in use, and moves into it; nothing if there are none.
std::optional<std::vector<Op>> rename_late_rows(Kernel &kernel, const ScheduleGraph &graph);

}  // namespace atalla::codegen
