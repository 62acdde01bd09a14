#include "model/prepare.h"

#include <algorithm>
#include <cmath>

#include "host/kernels.h"

namespace atalla {

namespace {

bool is_constant_value(const Graph &graph, ValueId id) { return id && graph.value(id).producer < 0 && graph.constant_data(id) != nullptr; }

std::vector<ValueId> all_operands(const Node &node) {
    std::vector<ValueId> operands;
    for_each_value(node, [&](ValueId id) { operands.push_back(id); });
    return operands;
}

// How often each value is used, by calls and as an output.
std::vector<int> use_counts(const Graph &graph) {
    std::vector<int> counts(graph.values.size(), 0);
    const auto count = [&](ValueId id) { counts[static_cast<size_t>(id.index)]++; };
    for (const Node &node : graph.nodes) for_each_value(node, count);
    for (const GraphOutput &output : graph.outputs) for_each_value(output.value, count);
    return counts;
}

HostTensor transposed(const HostTensor &tensor) {
    HostTensor result = tensor;
    std::swap(result.sizes[0], result.sizes[1]);
    std::swap(result.strides[0], result.strides[1]);
    return dense_copy(result);
}

std::vector<double> elements(const HostTensor &tensor) { return values_of<double>(tensor); }

}  // namespace

void fold_constants(Graph &graph) {
    bool changed = false;
    for (Node &node : graph.nodes) {
        const auto kernel = host_kernels().find(node.target);
        if (kernel == host_kernels().end() || node.outputs.empty()) continue;
        const std::vector<ValueId> operands = all_operands(node);
        bool constant = std::all_of(operands.begin(), operands.end(), [&](ValueId id) { return is_constant_value(graph, id); });
        std::vector<HostType> types;
        for (ValueId id : node.outputs) {
            constant = constant && id && graph.value(id).kind == Value::Kind::Tensor && is_constant(graph.type(id).sizes);
            if (constant) types.push_back({graph.type(id).dtype, constant_sizes(graph.type(id).sizes)});
        }
        if (!constant) continue;
        const HostCall call(node, [&](ValueId id) -> const HostTensor & { return *graph.constant_data(id); }, types);
        std::vector<HostTensor> results = kernel->second(call);
        const std::vector<ValueId> outputs = node.outputs;
        node.target.clear();
        for (size_t i = 0; i < outputs.size(); i++) graph.replace_uses(outputs[i], graph.add_constant(graph.value(outputs[i]).name, std::move(results[i])));
        changed = true;
    }
    if (changed) graph.renumber();
}

void fold_batch_norms(Graph &graph) {
    const std::vector<int> uses = use_counts(graph);
    bool changed = false;
    for (Node &norm : graph.nodes) {
        if (norm.target != "aten::_native_batch_norm_legit_no_training" && norm.target != "aten::batch_norm") continue;
        if (norm.target == "aten::batch_norm" && norm.flag("training")) continue;
        const ValueId input = norm.tensor("input");
        const int32_t producer = graph.value(input).producer;
        if (producer < 0 || uses[static_cast<size_t>(input.index)] != 1) continue;
        Node &convolution = graph.nodes[static_cast<size_t>(producer)];
        if (convolution.target != "aten::conv2d" && convolution.target != "aten::conv2d.padding" && convolution.target != "aten::conv1d") continue;
        const ValueId weight = convolution.tensor("weight"), bias = convolution.optional_tensor("bias");
        const ValueId mean = norm.optional_tensor("running_mean"), variance = norm.optional_tensor("running_var");
        const ValueId gain = norm.optional_tensor("weight"), shift = norm.optional_tensor("bias");
        bool constant = is_constant_value(graph, weight) && is_constant_value(graph, mean) && is_constant_value(graph, variance);
        for (ValueId id : {bias, gain, shift}) constant = constant && (!id || is_constant_value(graph, id));
        bool others_used = false;
        for (size_t i = 1; i < norm.outputs.size(); i++) others_used = others_used || (norm.outputs[i] && uses[static_cast<size_t>(norm.outputs[i].index)] != 0);
        if (!constant || others_used) continue;

        const HostTensor &w = *graph.constant_data(weight);
        const auto channels = static_cast<size_t>(w.sizes[0]);
        const auto vector = [&](ValueId id, double otherwise) { return id ? elements(*graph.constant_data(id)) : std::vector<double>(channels, otherwise); };
        const std::vector<double> m = vector(mean, 0), v = vector(variance, 1), g = vector(gain, 1), s = vector(shift, 0);
        std::vector<double> b = vector(bias, 0), values = elements(w);
        const double epsilon = norm.number("eps");
        for (size_t c = 0; c < channels; c++) {
            const double factor = g[c] / std::sqrt(v[c] + epsilon);
            for (size_t i = 0; i < values.size() / channels; i++) values[c * (values.size() / channels) + i] *= factor;
            b[c] = (b[c] - m[c]) * factor + s[c];
        }
        const std::string name = graph.value(input).name;
        const ValueId new_weight = graph.add_constant(name + "_weight", tensor_of_values(HostType{w.dtype, w.sizes}, values));
        const ValueId new_bias = graph.add_constant(name + "_bias", tensor_of_values(HostType{w.dtype, {w.sizes[0]}}, b));
        for (NamedArgument &argument : convolution.arguments) {
            if (argument.name == "weight") argument.value = new_weight;
            if (argument.name == "bias") argument.value = new_bias;
        }
        const ValueId result = norm.outputs[0];
        norm.target.clear();
        graph.replace_uses(result, input);
        changed = true;
    }
    if (changed) graph.renumber();
}

void arrange_weights(Graph &graph) {
    for (Node &node : graph.nodes) {
        const bool adds = node.target == "aten::addmm";
        if (!adds && node.target != "aten::mm" && node.target != "aten::matmul") continue;
        const Argument *second = node.find(node.target == "aten::matmul" ? "other" : "mat2");
        const auto *weight = second != nullptr ? std::get_if<ValueId>(second) : nullptr;
        if (weight == nullptr || !is_constant_value(graph, *weight) || graph.constant_data(*weight)->sizes.size() != 2) continue;
        const ValueId input = node.tensor(adds ? "mat1" : "self");
        if (graph.type(input).sizes.size() < 2) continue;
        Argument bias = std::monostate{};
        if (adds) {
            const ValueId self = node.optional_tensor("self");
            if (!self || graph.type(self).sizes.size() != 1 || node.number("beta") != 1 || node.number("alpha") != 1) continue;
            bias = self;
        }
        const ValueId arranged = graph.add_constant(graph.value(*weight).name + "_transposed", transposed(*graph.constant_data(*weight)));
        node.target = "aten::linear";
        node.arguments = {{"input", input}, {"weight", arranged}, {"bias", bias}};
    }
}

void remove_dead_nodes(Graph &graph) {
    std::vector<int> uses = use_counts(graph);
    bool changed = false;
    for (size_t n = graph.nodes.size(); n-- > 0;) {
        Node &node = graph.nodes[n];
        if (node.outputs.empty() || std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return id && uses[static_cast<size_t>(id.index)] != 0; })) continue;
        for_each_value(node, [&](ValueId id) { uses[static_cast<size_t>(id.index)]--; });
        node.target.clear();
        changed = true;
    }
    if (changed) graph.renumber();
}

void prepare(Graph &graph) {
    fold_constants(graph);
    fold_batch_norms(graph);
    arrange_weights(graph);
    remove_dead_nodes(graph);
}

}  // namespace atalla
