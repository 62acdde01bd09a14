// Fewer packets for a scheduled straight block: every packet costs room in the instruction cache, and time where it runs once.
#pragma once

#include "codegen/resources.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// Loads move to where their values are needed, and the operations of packets that others have room for join those. No operation
// comes nearer to one that it waits for than that takes.
void tighten(const Kernel &kernel, ScheduleGraph &graph, ResourceTable &table);

}  // namespace atalla::codegen
