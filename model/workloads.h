// The tuning workloads of a model: what its nodes ask of the accelerator.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generators/operator.h"
#include "graph_import/graph.h"
#include "model/placement.h"

namespace atalla {

struct ModelWorkload {
    const Operator *op = nullptr;
    std::shared_ptr<const Workload> workload;
    std::string node;   // the first that asks for it
    int64_t count = 1;  // nodes that do
};

// Each distinct workload once, in the order of the nodes, at the sizes that the model was exported with; then the kernels that
// could stand for several nodes or read constants in another order on the machine, and those of images with channels innermost:
// which are faster is known when all are tuned. Nodes that run on the host, or nowhere, are none.
std::vector<ModelWorkload> model_workloads(const Graph &graph, const Machine &machine, const PlacementOptions &options = {});

}  // namespace atalla
