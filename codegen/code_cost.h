// What code costs: the cycles that its packets wait for each other, and those that each takes to come from memory.
#pragma once

#include "codegen/blocks.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// Cycles that a packet adds when its code runs for the first time: the instruction cache fetches nothing ahead. 0 on functional
// machines.
double fetch_cycles(const Machine &machine);

// How often a block runs, conditions being true: the product of the extents of the loops around it.
int64_t executions(const Kernel &kernel, const Blocks &blocks, size_t block);

// Cycles from the first packet of scheduled straight-line code to the last, in order, each once what it reads is there and
// its lane units are free. `pace`: cycles from a packet to the next, 1 where caches hit.
int64_t issue_cycles(const Machine &machine, const ScheduleGraph &graph, int64_t pace = 1);

}  // namespace atalla::codegen
