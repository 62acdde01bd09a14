#include "model/workloads.h"

#include <algorithm>

#include "graph_import/passes.h"
#include "model/arrangement.h"
#include "model/channels_fusion.h"
#include "model/compile_model.h"
#include "model/fusion.h"

namespace atalla {

namespace {

class Workloads {
public:
    void add(const PlacedNode &node, const std::string &target) {
        if (node.place != PlacedNode::Device) return;
        const auto same = [&](const ModelWorkload &one) {
            return one.op == node.op && one.workload->text() == node.workload->text();
        };
        if (const auto found = std::ranges::find_if(list, same); found != list.end())
            found->count++;
        else
            list.push_back({node.op, node.workload, target, 1});
    }
    void add(const Graph &graph, const Fusion &fusion) {
        add(fusion.kernel, graph.nodes[static_cast<size_t>(fusion.nodes.back())].target);
    }

    std::vector<ModelWorkload> list;
};

// Of a graph whose passes have run.
std::vector<ModelWorkload> workloads_of(Graph graph, const Machine &machine, const PlacementOptions &placement) {
    std::vector<PlacedNode> placed = place_nodes(graph, placement);
    Workloads workloads;
    for (size_t node = 0; node < placed.size(); node++) workloads.add(placed[node], graph.nodes[node].target);
    std::vector<Fusion> early = find_padding_fusions(graph, placed);
    for (const Fusion &fusion : early) apply(fusion, placed);
    const auto all = [](const Fusion &) { return int64_t{1}; };
    for (const Fusion &fusion : find_channels_fusions(graph, placed, all)) {
        apply(fusion, placed);
        early.push_back(fusion);
    }
    for (const Fusion &fusion : early) workloads.add(graph, fusion);
    arrange_constants(graph, placed, machine, [&](const PlacedNode &node, const Arrangement &arrangement) {
        PlacedNode arranged = node;
        arranged.workload = arrangement.workload;
        workloads.add(arranged, node.op->name());
        return false;
    });
    for (const Fusion &fusion : find_fusions(graph, placed)) workloads.add(graph, fusion);
    return std::move(workloads.list);
}

}  // namespace

std::vector<ModelWorkload> model_workloads(const Graph &model, const Machine &machine, const PlacementOptions &placement) {
    const Bindings sizes = example_sizes(model);
    std::vector<ModelWorkload> all;
    for (const std::set<std::string> &skipped : image_layouts()) {
        Graph graph = sizes.empty() ? clone(model) : specialize(model, sizes);
        PassOptions options;
        options.skipped = skipped;
        run_passes(graph, options);
        for (ModelWorkload &one : workloads_of(std::move(graph), machine, placement)) {
            const auto same = [&](const ModelWorkload &other) {
                return one.op == other.op && one.workload->text() == other.workload->text();
            };
            if (std::ranges::none_of(all, same)) all.push_back(std::move(one));
        }
    }
    return all;
}

}  // namespace atalla
