// From an imported graph to a loadable: places nodes, chooses kernels, plans memory, stitches, writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph_import/graph.h"
#include "graph_import/passes.h"
#include "model/kernels.h"
#include "model/placement.h"
#include "model/plan.h"
#include "runtime/loadable_generated.h"

namespace atalla {

struct CompileModelOptions {
    PlacementOptions placement;
    KernelOptions kernels;
    PassOptions passes;
    // A specialization for each; empty: for the sizes that the model was exported with.
    std::vector<Bindings> sizes;
    std::string name;  // of the model; empty: the graph's
    // Calls may be smaller than a specialization, which is filled up; Error for sizes of which that is not exact.
    bool fill = false;
    bool fuse = true;            // nodes that one kernel computes in fewer cycles are one
    bool price_programs = true;  // where one kernel and several are close the program decides; false: each run alone
    bool one_by_one = false;     // every kernel is a run of its own: what one program is compared with
};

struct CompiledModel {
    std::vector<uint8_t> bytes;         // the loadable
    loadable::ModelT tables;            // the same before it was written, without the constants' bytes
    std::vector<ChosenKernel> kernels;  // that the program calls
    std::vector<ModelPlan> plans;       // of the specializations
    std::vector<std::string> notes;     // what a user should be told
};

// The sizes that the model was exported with, or the least allowed.
Bindings example_sizes(const Graph &graph);

// Error that lists all unsupported operators; for weights that the archive lacks; for sizes outside the model's ranges or
// guards; if memory cannot hold the model; if the loadable would pass 2 GiB.
CompiledModel compile_model(const Graph &graph, const Machine &machine, const CompileModelOptions &options = {});

}  // namespace atalla
