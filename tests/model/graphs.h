// Small graphs made by hand, and models of them run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/compile_model.h"
#include "runtime/context.h"

namespace atalla {

inline HostTensor random_tensor(std::vector<int64_t> sizes, unsigned seed, float scale) {
    const ResultType type{DType::Float32, std::move(sizes)};
    std::vector<float> values(static_cast<size_t>(type.elements()));
    uint32_t state = seed * 2654435761u + 1;
    for (float &value : values) {
        state = state * 1664525u + 1013904223u;
        value = (static_cast<float>(state >> 8) / 8388608.0f - 1) * scale;
    }
    return tensor_of_values(type, values);
}

inline TensorType type_of(const std::vector<int64_t> &sizes) {
    TensorType type;
    for (int64_t size : sizes) type.sizes.emplace_back(size);
    for (int64_t stride : dense_strides(sizes)) type.strides.emplace_back(stride);
    return type;
}

inline ValueId add_input(Graph &graph, const std::string &name, std::vector<int64_t> sizes, GraphInput::Kind kind,
                         std::optional<HostTensor> data = {}) {
    const ValueId id = graph.add_value(name, type_of(sizes));
    GraphInput input;
    input.kind = kind;
    input.value = id;
    input.name = name;
    input.data = std::move(data);
    graph.inputs.push_back(std::move(input));
    return id;
}

inline ValueId add_node(Graph &graph, const std::string &target, std::vector<NamedArgument> arguments,
                        std::vector<int64_t> sizes) {
    const ValueId id = graph.add_value("v", type_of(sizes));
    Node node;
    node.target = target;
    node.arguments = std::move(arguments);
    node.outputs = {id};
    graph.value(id).producer = static_cast<int32_t>(graph.nodes.size());
    graph.nodes.push_back(std::move(node));
    return id;
}

inline HostTensor run(const CompiledModel &compiled, const HostTensor &x, ContextCounters *counters = nullptr) {
    Context context(Model::from_bytes(compiled.bytes, "chain.atl"));
    context.set_input(0, x);
    context.run();
    if (counters != nullptr) *counters = context.counters();
    return context.output(0);
}

}  // namespace atalla
