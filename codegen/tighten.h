// Fewer packets for a scheduled block: every packet costs room in the instruction cache, and time where it runs once or a few
// times.
#pragma once

#include "codegen/resources.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// Loads move to where their values are needed, and the operations of packets that others have room for join those. No operation
// comes nearer to one that it waits for than that takes.
void tighten(const Kernel &kernel, ScheduleGraph &graph, ResourceTable &table);
// As few packets as may be, however long they wait for each other: of code whose packets are said to take so many cycles. The
// lanes do not keep their pace.
void tighten_most(const Kernel &kernel, ScheduleGraph &graph, int packet_cycles);
// Of a loop's modulo schedule: operations of packets that others have room for join those, and the interval stays.
void tighten_loop(const Kernel &kernel, ScheduleGraph &graph, int interval);

}  // namespace atalla::codegen
