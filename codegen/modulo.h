// Modulo scheduling of an innermost loop's block, without unrolling: no value lives longer than the interval.
#pragma once

#include <optional>
#include <vector>

#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// x = x + y, where x is used for nothing else in the loop and y only here: it may run an iteration late, with y = -0 standing
// in for the iteration before the first.
struct DeferredSum {
    Op op;
    int cycle = 0;     // in the iteration that makes y, so at least the interval
};

struct ModuloSchedule {
    int interval = 0;                      // cycles from an iteration to the next
    std::vector<DeferredSum> deferred;     // in order; their cycles in the graph are those of the next iteration
};

// Gives every operation of the graph a cycle below the interval; nothing if no interval up to about twice the resource bound
// fits.
std::optional<ModuloSchedule> modulo_schedule(const Kernel &kernel, ScheduleGraph &graph);

}  // namespace atalla::codegen
