#include "model/padding_fusion.h"

#include <algorithm>

#include "generators/registry.h"
#include "graph_import/padding.h"
#include "model/aten_call.h"

namespace atalla {

std::optional<Fusion> padding_fusion(const Graph &graph, const std::vector<PlacedNode> &placed,
                                     const std::vector<std::vector<int32_t>> &uses, int32_t node) {
    const Node &convolution = graph.nodes[static_cast<size_t>(node)];
    const bool line = convolution.target == "aten::conv1d";
    if ((!line && convolution.target != "aten::conv2d") || placed[static_cast<size_t>(node)].place != PlacedNode::Device)
        return {};
    const ValueId image = convolution.tensor("input");
    const int32_t producer = graph.value(image).producer;
    if (producer < 0 || uses[static_cast<size_t>(image.index)].size() != 1 || graph.is_output(image)) return {};
    const Node &padding = graph.nodes[static_cast<size_t>(producer)];
    if (!is_padding(padding) || !pads_with_zeros(padding)) return {};
    const size_t dims = line ? 1 : 2;
    const std::vector<int64_t> added = padding_of(padding);
    if (added.empty() || added.size() > 2 * dims || std::ranges::any_of(added, [](int64_t n) { return n < 0; })) return {};

    std::vector<int64_t> sides = convolution.integers("padding");
    if (sides.size() == 1) sides.resize(dims, sides[0]);
    for (size_t d = 0; d < dims; d++) sides.push_back(sides[d]);
    for (size_t d = 0; 2 * d < added.size(); d++) {
        sides[dims - 1 - d] += added[2 * d];
        sides[2 * dims - 1 - d] += added[2 * d + 1];
    }
    NodeCall call = aten_call(graph, convolution);
    const ValueId source = padding.tensor("self");
    for (AtenArgument &argument : call.call.arguments) {
        if (argument.name == "input") argument.tensors[0].shape = constant_sizes(graph.type(source).sizes);
        if (argument.name == "padding") argument.value = sides;
    }
    std::replace(call.tensors.begin(), call.tensors.end(), image, source);
    const Resolution found = resolve(call.call);
    if (found.place != Resolution::Accelerator) return {};
    Fusion fusion{{producer, node}, {}};
    fusion.kernel.place = PlacedNode::Device;
    fusion.kernel.op = found.op;
    fusion.kernel.workload = found.workload;
    for (const size_t at : found.inputs) fusion.kernel.inputs.push_back(call.tensors.at(at));
    return fusion;
}

}  // namespace atalla
