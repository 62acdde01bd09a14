// Pipelined loops without code in front of them and behind them: while the first iterations begin and the last ones end, stages
// that have no iteration run idle and compute what nothing uses.
#pragma once

#include "codegen/blocks.h"
#include "codegen/modulo.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// Could a loop be one whose stages run idle? Its buffers then get guard rows for them, where the pads have room.
bool may_idle(const Kernel &kernel, const Loop &loop);

// Is it better that stages run idle, which takes the time of whole iterations, than to have code in front of the loop and
// behind it? That code is as many operations, which run beside others, but comes from memory first. `packets`: of the loop,
// which runs so many times.
bool idling_pays(const Machine &machine, double packets, double runs, double interval);

// May the stages of the loop that block `b` is run idle? Nothing but pointers may live from an iteration into the next or
// behind the loop; idle stores must be to guard rows or to rows of the same buffer that nothing names, idle loads from rows of
// the same buffer or guard rows; transfers, weights and memory no.
bool can_idle(const Kernel &kernel, const Blocks &blocks, size_t b, const ScheduleGraph &graph, const ModuloSchedule &schedule);

// Operations for the end of the block in front of the loop that set its pointers back by the iterations that their stage waits.
std::vector<Op> set_back(const ScheduleGraph &graph, const ModuloSchedule &schedule);

}  // namespace atalla::codegen
