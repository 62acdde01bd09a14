#include "model/workloads.h"

#include <map>

#include "graph_import/passes.h"
#include "model/compile_model.h"
#include "model/fusion.h"
#include "model/placement.h"

namespace atalla {

std::vector<ModelWorkload> model_workloads(const Graph &model) {
    const Bindings sizes = example_sizes(model);
    Graph graph = sizes.empty() ? clone(model) : specialize(model, sizes);
    run_passes(graph);
    std::vector<PlacedNode> placed = place_nodes(graph);
    for (const Fusion &fusion : find_fusions(graph, placed)) apply(fusion, placed);
    std::vector<ModelWorkload> workloads;
    std::map<std::pair<const Operator *, std::string>, size_t> known;
    for (size_t node = 0; node < placed.size(); node++) {
        if (placed[node].place != PlacedNode::Device) continue;
        const auto [found, added] = known.try_emplace({placed[node].op, placed[node].workload->text()}, workloads.size());
        if (added) workloads.push_back({placed[node].op, placed[node].workload, graph.nodes[node].target, 1});
        else workloads[found->second].count++;
    }
    return workloads;
}

}  // namespace atalla
