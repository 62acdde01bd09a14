#include "model/depthwise_fusion.h"

#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "generators/registry.h"
#include "isa/error.h"

namespace atalla {

namespace {

bool permutes(const Node &node, const std::vector<int64_t> &dims) { return node.target == "aten::permute" && node.integers("dims") == dims; }

// [channels][1][y][x] as [y][x][channels].
HostTensor channels_last(const HostTensor &weight) {
    HostTensor turned = weight;
    turned.sizes = {weight.sizes[2], weight.sizes[3], weight.sizes[0]};
    turned.strides = {weight.strides[2], weight.strides[3], weight.strides[0]};
    return dense_copy(turned);
}

// The fusion around a convolution, with its weight as it stands in the graph.
std::optional<Fusion> around(const Graph &graph, const std::vector<PlacedNode> &placed, const std::vector<std::vector<int32_t>> &uses, int32_t node) {
    const Node &convolution = graph.nodes[static_cast<size_t>(node)];
    const PlacedNode &own = placed[static_cast<size_t>(node)];
    if (convolution.target != "aten::conv2d" || own.place != PlacedNode::Device) return {};
    const HostTensor *weight = graph.constant_data(own.inputs.at(1));
    const ValueId image = own.inputs.at(0), result = convolution.outputs[0];
    if (weight == nullptr || weight->sizes.size() != 4 || weight->sizes[1] != 1 || weight->sizes[0] == 1 || convolution.integer("groups") != weight->sizes[0]) return {};
    const auto read_once = [&](ValueId id) { return uses[static_cast<size_t>(id.index)].size() == 1 && !graph.is_output(id); };
    const int32_t before = graph.value(image).producer;
    if (before < 0 || !read_once(image) || !read_once(result)) return {};
    const int32_t behind = uses[static_cast<size_t>(result.index)][0];
    const Node &in = graph.nodes[static_cast<size_t>(before)], &out = graph.nodes[static_cast<size_t>(behind)];
    if (!permutes(in, {0, 3, 1, 2}) || !permutes(out, {0, 2, 3, 1})) return {};

    // Its padding may be more than that of the node.
    const nlohmann::json attributes = nlohmann::json::parse(own.workload->text()).at("attributes");
    const auto words = [&](const char *name) { return fmt::format("{}", fmt::join(attributes.at(name).get<std::vector<int64_t>>(), ",")); };
    Fusion fusion{{before, node, behind}, {}};
    PlacedNode &kernel = fusion.kernel;
    kernel.place = PlacedNode::Device;
    kernel.op = &find_operator("conv_depthwise_nhwc");
    kernel.inputs = own.inputs;
    kernel.inputs[0] = in.tensor("self");
    TensorList tensors = {{"input", constant_sizes(graph.type(kernel.inputs[0]).sizes)}, {"weight", {weight->sizes[2], weight->sizes[3], weight->sizes[0]}}};
    if (kernel.inputs.size() > 2) tensors.emplace_back("bias", Shape{weight->sizes[0]});
    try {
        kernel.workload = kernel.op->workload_of(tensors, {{"stride", words("stride")}, {"padding", words("padding")}});
    } catch (const Error &) {
        return {};   // a kernel that it does not take
    }
    return fusion;
}

}  // namespace

std::vector<Fusion> find_depthwise_fusions(Graph &graph, const std::vector<PlacedNode> &placed, const FusionSavings &saves) {
    const auto uses = graph.uses();
    std::vector<Fusion> fusions;
    for (int32_t node = 0; node < static_cast<int32_t>(graph.nodes.size()); node++) {
        std::optional<Fusion> fusion = around(graph, placed, uses, node);
        if (!fusion || saves(*fusion) <= 0) continue;
        ValueId &weight = fusion->kernel.inputs[1];
        weight = graph.add_constant(fmt::format("{}_arranged", graph.value(weight).name), channels_last(*graph.constant_data(weight)));
        fusions.push_back(std::move(*fusion));
    }
    return fusions;
}

}  // namespace atalla
