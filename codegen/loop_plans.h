// What is planned for innermost loops, kept while code is packed again with other options: most of the time of packing is the
// search for the plans of long loops.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "codegen/chains.h"
#include "codegen/modulo.h"
#include "codegen/passes.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

struct LoopPlan {
    std::optional<ModuloSchedule> schedule;  // nothing: left to list scheduling
    ScheduleGraph graph;                     // with the cycles of the schedule
    std::optional<AlikeRows> rows;           // the loop's operations where its rows follow each other evenly
};

struct LoopPlans {
    using Key = std::tuple<size_t, OverlapIterations, bool>;  // the block, which iterations may overlap, may the loop turn?
    std::map<Key, LoopPlan> of_loop;
};

}  // namespace atalla::codegen
