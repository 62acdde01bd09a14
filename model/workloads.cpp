#include "model/workloads.h"

#include <map>

#include "graph_import/passes.h"
#include "model/arrangement.h"
#include "model/compile_model.h"
#include "model/fusion.h"
#include "model/placement.h"

namespace atalla {

std::vector<ModelWorkload> model_workloads(const Graph &model, const Machine &machine) {
    const Bindings sizes = example_sizes(model);
    Graph graph = sizes.empty() ? clone(model) : specialize(model, sizes);
    run_passes(graph);
    std::vector<PlacedNode> placed = place_nodes(graph);
    std::vector<ModelWorkload> workloads;
    std::map<std::pair<const Operator *, std::string>, size_t> known;
    const auto add = [&](const PlacedNode &node, const std::string &target) {
        if (node.place != PlacedNode::Device) return;
        const auto [found, added] = known.try_emplace({node.op, node.workload->text()}, workloads.size());
        if (added) workloads.push_back({node.op, node.workload, target, 1});
        else workloads[found->second].count++;
    };
    for (size_t node = 0; node < placed.size(); node++) add(placed[node], graph.nodes[node].target);
    for (const Fusion &fusion : find_padding_fusions(graph, placed)) {
        add(fusion.kernel, graph.nodes[static_cast<size_t>(fusion.nodes.back())].target);
        apply(fusion, placed);
    }
    arrange_constants(graph, placed, machine, [&](const PlacedNode &node, const Arrangement &arrangement) {
        PlacedNode arranged = node;
        arranged.workload = arrangement.workload;
        add(arranged, node.op->name());
        return false;
    });
    for (const Fusion &fusion : find_fusions(graph, placed)) add(fusion.kernel, graph.nodes[static_cast<size_t>(fusion.nodes.back())].target);
    return workloads;
}

}  // namespace atalla
