#include "model/channels_fusion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "generators/registry.h"
#include "isa/error.h"

namespace atalla {

namespace {

bool permutes(const Node &node, const std::vector<int64_t> &dims) {
    return node.target == "aten::permute" && node.integers("dims") == dims;
}

// [channels][1][y][x] as [y][x][channels].
HostTensor channels_last(const HostTensor &weight) {
    HostTensor turned = weight;
    turned.sizes = {weight.sizes[2], weight.sizes[3], weight.sizes[0]};
    turned.strides = {weight.strides[2], weight.strides[3], weight.strides[0]};
    return dense_copy(turned);
}

// What a workload was asked for, as words of a call.
std::map<std::string, std::string> words_of(const Workload &workload) {
    const nlohmann::json request = nlohmann::json::parse(workload.text());
    std::map<std::string, std::string> words;
    for (const auto &[name, value] : request.at("attributes").items()) {
        if (value.is_null()) continue;
        if (value.is_array())
            words[name] = fmt::format("{}", fmt::join(value.get<std::vector<int64_t>>(), ","));
        else
            words[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    return words;
}

class ChannelsFusions {
public:
    ChannelsFusions(Graph &graph, const std::vector<PlacedNode> &placed)
        : graph_(graph), placed_(placed), uses_(graph.uses()) {}

    // The fusion around a node, its weight as it stands in the graph. The transpose in front is not of it, unless nothing else
    // reads it.
    std::optional<Fusion> around(int32_t node) const {
        const Node &windows = graph_.nodes[static_cast<size_t>(node)];
        const PlacedNode &own = placed_[static_cast<size_t>(node)];
        const bool convolution = windows.target == "aten::conv2d";
        if ((!convolution && windows.target != "aten::max_pool2d" && windows.target != "aten::avg_pool2d") ||
            own.place != PlacedNode::Device)
            return {};
        const ValueId image = own.inputs.at(0), result = windows.outputs[0];
        const int32_t before = transpose_before(node);
        const ValueId places = before >= 0 ? graph_.nodes[static_cast<size_t>(before)].tensor("self") : places_of(image);
        if (!places || uses_of(result).size() != 1 || graph_.is_output(result)) return {};
        const int32_t behind = uses_of(result)[0];
        const Node &out = graph_.nodes[static_cast<size_t>(behind)];
        if (!permutes(out, {0, 2, 3, 1})) return {};

        Fusion fusion;
        if (before >= 0 && uses_of(image).size() == 1 && !graph_.is_output(image)) fusion.nodes.push_back(before);
        fusion.nodes.push_back(node);
        fusion.nodes.push_back(behind);
        PlacedNode &kernel = fusion.kernel;
        kernel.place = PlacedNode::Device;
        kernel.inputs = own.inputs;
        kernel.inputs[0] = places;
        std::map<std::string, std::string> words = words_of(*own.workload);
        TensorList tensors = {{"input", constant_sizes(graph_.type(kernel.inputs[0]).sizes)}};
        if (is_depthwise(node)) {
            const HostTensor &weight = *graph_.constant_data(own.inputs.at(1));
            kernel.op = &find_operator("conv_depthwise_nhwc");
            words = {{"stride", words.at("stride")},
                     {"padding", words.at("padding")}};  // which may be more than that of the node
            tensors.emplace_back("weight", Shape{weight.sizes[2], weight.sizes[3], weight.sizes[0]});
            if (kernel.inputs.size() > 2) tensors.emplace_back("bias", Shape{weight.sizes[0]});
        } else {
            kernel.op = own.op;
            words["layout"] = "nhwc";
            tensors.clear();
            for (size_t i = 0; i < kernel.inputs.size(); i++)
                tensors.emplace_back(kernel.op->tensors()[i].name, constant_sizes(graph_.type(kernel.inputs[i]).sizes));
        }
        try {
            kernel.workload = kernel.op->workload_of(tensors, words);
        } catch (const Error &) {
            return {};  // a kernel that it does not take
        }
        return fusion;
    }

    bool is_depthwise(int32_t node) const {
        const Node &convolution = graph_.nodes[static_cast<size_t>(node)];
        if (convolution.target != "aten::conv2d") return false;
        const HostTensor *weight = graph_.constant_data(placed_[static_cast<size_t>(node)].inputs.at(1));
        return weight != nullptr && weight->sizes.size() == 4 && weight->sizes[1] == 1 && weight->sizes[0] > 1 &&
               convolution.integer("groups") == weight->sizes[0];
    }

    // A transpose whose readers are all in fusions is of the first one.
    void take_transposes(std::vector<Fusion> &fusions) const {
        std::set<int32_t> taken;
        for (const Fusion &fusion : fusions) taken.insert(fusion.nodes.begin(), fusion.nodes.end());
        for (Fusion &fusion : fusions) {
            const int32_t before = transpose_before(fusion.nodes[fusion.nodes.size() - 2]);
            if (before < 0) continue;
            const ValueId image = graph_.nodes[static_cast<size_t>(before)].outputs[0];
            if (taken.contains(before) || graph_.is_output(image) ||
                !std::ranges::all_of(uses_of(image), [&](int32_t user) { return taken.contains(user); }))
                continue;
            fusion.nodes.insert(fusion.nodes.begin(), before);
            taken.insert(before);
        }
    }

private:
    const std::vector<int32_t> &uses_of(ValueId id) const { return uses_[static_cast<size_t>(id.index)]; }
    // The node that moves channels outside in front of another; -1 if none does.
    int32_t transpose_before(int32_t node) const {
        const int32_t producer = graph_.value(placed_[static_cast<size_t>(node)].inputs.at(0)).producer;
        return producer >= 0 && permutes(graph_.nodes[static_cast<size_t>(producer)], {0, 3, 1, 2}) ? producer : -1;
    }

    // An image with its channels innermost, which another node reads so; none if there is no such node before its second
    // reader.
    ValueId places_of(ValueId image) const {
        for (const int32_t user : uses_of(image))
            if (permutes(graph_.nodes[static_cast<size_t>(user)], {0, 2, 3, 1}))
                return graph_.nodes[static_cast<size_t>(user)].outputs[0];
        return {};
    }

    Graph &graph_;
    const std::vector<PlacedNode> &placed_;
    const std::vector<std::vector<int32_t>> uses_;
};

}  // namespace

std::vector<Fusion> find_channels_fusions(Graph &graph, const std::vector<PlacedNode> &placed, const FusionSavings &saves) {
    const ChannelsFusions found(graph, placed);
    std::vector<Fusion> fusions;
    for (int32_t node = 0; node < static_cast<int32_t>(graph.nodes.size()); node++) {
        std::optional<Fusion> fusion = found.around(node);
        if (fusion && saves(*fusion) > 0) fusions.push_back(std::move(*fusion));
    }
    found.take_transposes(fusions);
    for (Fusion &fusion : fusions) {
        if (!found.is_depthwise(fusion.nodes[fusion.nodes.size() - 2])) continue;
        ValueId &weight = fusion.kernel.inputs[1];
        weight = graph.add_constant(fmt::format("{}_arranged", graph.value(weight).name),
                                    channels_last(*graph.constant_data(weight)));
    }
    return fusions;
}

}  // namespace atalla
