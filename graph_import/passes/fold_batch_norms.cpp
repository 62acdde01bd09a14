// A batch norm after a convolution or linear layer scales and shifts its outputs: that becomes part of the weights.
#include <cmath>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

struct Affine {
    std::vector<double> scale, shift;
};

// What the norm does to each channel, if its parameters are constants.
std::optional<Affine> affine_of(const Graph &graph, const Node &norm, int64_t channels) {
    const auto values = [&](const char *name, double otherwise) -> std::optional<std::vector<double>> {
        if (norm.is_none(name)) return std::vector<double>(channels, otherwise);
        const HostTensor *data = graph.constant_data(norm.tensor(name));
        if (!data || data->elements() != channels) return std::nullopt;
        const HostTensor dense = dense_copy(*data);
        std::vector<double> result;
        for (int64_t i = 0; i < channels; i++) result.push_back(element_as_double(dense, i));
        return result;
    };
    const auto weight = values("weight", 1), bias = values("bias", 0), mean = values("running_mean", 0),
               variance = values("running_var", 1);
    if (!weight || !bias || !mean || !variance) return std::nullopt;
    const double eps = norm.number("eps");
    Affine affine;
    for (int64_t i = 0; i < channels; i++) {
        affine.scale.push_back((*weight)[i] / std::sqrt((*variance)[i] + eps));
        affine.shift.push_back((*bias)[i] - (*mean)[i] * affine.scale[i]);
    }
    return affine;
}

// The first dimension is the channel that is scaled.
HostTensor scaled(const HostTensor &weight, const std::vector<double> &scale) {
    HostTensor result = dense_copy(weight);
    const int64_t inner = result.elements() / static_cast<int64_t>(scale.size()), bytes = element_bytes(result.dtype);
    for (int64_t i = 0; i < result.elements(); i++) {
        store_double(mutable_data(result) + i * bytes, result.dtype, element_as_double(result, i) * scale[i / inner]);
    }
    return result;
}

bool takes_norm(const Node &node) {
    return node.target == "aten::conv2d" || node.target == "aten::conv1d" || node.target == "aten::conv2d.padding" ||
           node.target == "aten::linear";
}

}  // namespace

int fold_batch_norms(Graph &graph) {
    const auto uses = graph.uses();
    Rewriter rewriter(graph);
    return rewriter.sweep([&](Node &node) {
        if (node.target != "aten::batch_norm" || node.flag("training")) return;
        const ValueId input = node.tensor("input");
        const Node *producer = rewriter.producer(input);
        if (!producer || !takes_norm(*producer) || uses[input.index].size() != 1 || graph.is_output(input)) return;
        const HostTensor *weight = graph.constant_data(producer->tensor("weight"));
        const Sizes &sizes = graph.type(input).sizes;
        if (!weight || weight->sizes.size() < 2 || sizes.size() < 2) return;
        // A linear layer's channel is its last dimension, the norm's is the second.
        if (producer->target == "aten::linear" && sizes.size() != 2) return;
        const int64_t channels = weight->sizes[0];
        const auto affine = affine_of(graph, node, channels);
        if (!affine) return;
        HostTensor bias = make_tensor(weight->dtype, {channels});
        const HostTensor *old_bias = producer->is_none("bias") ? nullptr : graph.constant_data(producer->tensor("bias"));
        if (!producer->is_none("bias") && !old_bias) return;
        const HostTensor old = old_bias ? dense_copy(*old_bias) : bias;
        for (int64_t i = 0; i < channels; i++) {
            store_double(mutable_data(bias) + i * element_bytes(bias.dtype), bias.dtype,
                         element_as_double(old, i) * affine->scale[i] + affine->shift[i]);
        }
        std::vector<NamedArgument> arguments = producer->arguments;
        const std::string target = producer->target;
        const std::string name = graph.value(node.outputs[0]).name;
        const ValueId new_weight = graph.add_constant(name + "_weight", scaled(*weight, affine->scale));
        const ValueId new_bias = graph.add_constant(name + "_bias", std::move(bias));
        for (NamedArgument &argument : arguments) {
            if (argument.name == "weight") argument.value = new_weight;
            if (argument.name == "bias") argument.value = new_bias;
        }
        node = make_call(target, std::move(arguments), node);
        rewriter.count();
    });
}

}  // namespace atalla
