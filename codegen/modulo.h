// Modulo scheduling of an innermost loop's block, without renaming: no value lives longer than the interval.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "codegen/chains.h"
#include "codegen/passes.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// Iterations of a loop that may be under way at a time: more would cost more code before and after it than they gain. Where
// what an iteration makes waits in the pads, so that no register limits how long, more of them hide more latency.
int most_stages(const std::vector<const Op *> &ops);
int most_stages(const Loop &loop);
// Of a loop with branches out of line, which the code before and after it leaves out: as many iterations less take them. Only
// for rows that wait for the array is it worth as many as without, and where there are iterations enough.
int most_stages_with_sides(const std::vector<const Op *> &ops, int64_t iterations, bool in_nest);
int most_stages_with_sides(const Loop &loop);

// x = x + y, where x is used for nothing else in the loop and y only here: it may run an iteration late, with y = -0 standing
// in for the iteration before the first.
struct DeferredSum {
    Op op;
    int cycle = 0;  // in the iteration that makes y, so at least the interval
};

// Vectors that an iteration makes.
int64_t values_of(const Kernel &kernel, const std::vector<Op> &ops);
// The most that OverlapIterations::Short lets overlap.
int64_t most_short_values(const Machine &machine);

struct ModuloSchedule {
    int interval = 0;                   // cycles from an iteration to the next
    std::vector<DeferredSum> deferred;  // in order; their cycles in the graph are those of the next iteration
    // Iterations under way at a time. Above 1 the loop runs `stages - 1` times less, and the first iterations begin before it
    // and the last ones end behind it with these operations, in an order that straight-line code may have.
    int stages = 1;
    std::vector<int> stage;  // of each operation of the graph, where iterations overlap
    std::vector<Op> prologue, epilogue;
    // The loop is the visit of a nest: the epilogue runs with the code in front of the loop, one turn of the nest later.
    bool later = false;
    bool evicting = false;  // found by iterative modulo scheduling
};

// Can these operations, the end of a loop's last iteration, run where the nest comes to the front of that loop again?
using RunsLater = std::function<bool(const std::vector<Op> &epilogue)>;

// Gives every operation of the graph a cycle below the interval; nothing if no interval up to about twice the resource bound
// fits. `loop` is the loop of which the graph is the body; `shared_masks` are the masks that live in other blocks too.
// `overlap` says which iterations may overlap.
std::optional<ModuloSchedule> modulo_schedule(const Kernel &kernel, ScheduleGraph &graph, const LoopInfo &loop,
                                              const std::set<Reg> &shared_masks, OverlapIterations overlap,
                                              const RunsLater &runs_later);

// The same of rows that are alike (chains.h) at one distance from each other, or of one row alone: each operation is placed
// once for all rows, lanes and scalars before the loads that they read; loads that rows have of their own behind all else.
// Nothing if rows are not alike or no distance up to half more than the resource bound fits.
std::optional<ModuloSchedule> evenly_spaced_schedule(Kernel &kernel, ScheduleGraph &graph, const LoopInfo &loop,
                                                     const std::set<Reg> &shared_masks, OverlapIterations overlap,
                                                     RowLoads loads);

// Code in front of a loop begins its first iterations, so that operations of its first stages are ahead of its variable: what
// rows they touch in terms of it. Rows of different stages are told apart then.
void name_rows_by_loop(const Kernel &kernel, ScheduleGraph &graph, const ModuloSchedule &schedule, int loop);

}  // namespace atalla::codegen
