#include "model/attention_fusion.h"

#include <algorithm>

#include "generators/registry.h"
#include "isa/error.h"
#include "model/aten_call.h"

namespace atalla {

namespace {

// Does the node exchange the two dimensions before the last?
bool exchanges_heads(const Node &node) {
    if (node.target != "aten::permute") return false;
    const std::vector<int64_t> dims = node.integers("dims");
    const auto rank = static_cast<int64_t>(dims.size());
    if (rank < 3) return false;
    for (int64_t d = 0; d < rank; d++) {
        const int64_t from = (dims[static_cast<size_t>(d)] + rank) % rank, wanted = d == rank - 3   ? rank - 2
                                                                                    : d == rank - 2 ? rank - 3
                                                                                                    : d;
        if (from != wanted) return false;
    }
    return true;
}

}  // namespace

std::vector<Fusion> attention_fusions(const Graph &graph, const std::vector<PlacedNode> &placed,
                                      const std::vector<std::vector<int32_t>> &uses, int32_t node) {
    const Node &attention = graph.nodes[static_cast<size_t>(node)];
    if (attention.target != "aten::scaled_dot_product_attention" || attention.outputs.size() != 1) return {};
    const auto is_transpose = [&](int32_t at) {
        return placed[static_cast<size_t>(at)].place == PlacedNode::Device &&
               exchanges_heads(graph.nodes[static_cast<size_t>(at)]);
    };
    const auto has_one_use = [&](ValueId id) {
        return uses[static_cast<size_t>(id.index)].size() == 1 && !graph.is_output(id);
    };
    NodeCall call = aten_call(graph, attention);
    Fusion fusion;
    std::string heads_inside;
    size_t position = 0;  // in call.tensors
    for (AtenArgument &argument : call.call.arguments) {
        const bool one_of_three = argument.name == "query" || argument.name == "key" || argument.name == "value";
        for (TensorMeta &tensor : argument.tensors) {
            ValueId &id = call.tensors[position++];
            const int32_t producer = graph.value(id).producer;
            if (!one_of_three || producer < 0 || !is_transpose(producer) || !has_one_use(id)) continue;
            fusion.nodes.push_back(producer);
            id = graph.nodes[static_cast<size_t>(producer)].tensor("self");
            tensor.shape = constant_sizes(graph.type(id).sizes);
            heads_inside += argument.name[0];
        }
    }
    fusion.nodes.push_back(node);
    const ValueId result = attention.outputs[0];
    if (has_one_use(result) && is_transpose(uses[static_cast<size_t>(result.index)][0])) {
        fusion.nodes.push_back(uses[static_cast<size_t>(result.index)][0]);
        heads_inside += 'o';
    }
    if (heads_inside.empty()) return {};
    call.call.arguments.push_back({"heads_inside", {}, heads_inside});
    const Resolution found = resolve(call.call);
    if (found.place != Resolution::Accelerator) return {};
    fusion.kernel.place = PlacedNode::Device;
    fusion.kernel.op = found.op;
    fusion.kernel.workload = found.workload;
    for (const size_t at : found.inputs) fusion.kernel.inputs.push_back(call.tensors.at(at));
    // One transpose may give several of the operands.
    std::sort(fusion.nodes.begin(), fusion.nodes.end());
    fusion.nodes.erase(std::unique(fusion.nodes.begin(), fusion.nodes.end()), fusion.nodes.end());
    return {std::move(fusion)};
}

}  // namespace atalla
