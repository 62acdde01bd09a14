// Calls whose operands are all constants are computed on the host.
#include <map>
#include <optional>

#include "graph_import/interpret.h"
#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"
#include "isa/error.h"

namespace atalla {

namespace {

// A result may be larger than what it is computed from, but not by much beyond this: `zeros(1 << 20, 1 << 10)` stays a call.
constexpr int64_t largest_result = int64_t{4} << 20;  // bytes

bool is_random_or_empty(std::string_view target) {
    return target.starts_with("aten::empty") || target.starts_with("aten::new_empty") || target.find("rand") != target.npos ||
           target.find("bernoulli") != target.npos || target == "aten::dropout" || target.find("normal") != target.npos;
}

// Sizes of results, all constant; none if they are not, or too large.
bool is_small(const Graph &graph, const Node &node) {
    int64_t bytes = 0;
    for (ValueId output : node.outputs) {
        if (!output || graph.value(output).kind != Value::Kind::Tensor) return false;
        const TensorType &type = graph.type(output);
        if (!is_constant(type.sizes)) return false;
        bytes += element_count(type.sizes).value() * element_bytes(type.dtype);
    }
    return bytes <= largest_result;
}

// References, so that a large parameter is not looked up for each use.
std::map<ValueId, HostTensor> constants_of(const Graph &graph) {
    std::map<ValueId, HostTensor> constants;
    for (const GraphInput &input : graph.inputs) {
        if (input.kind == GraphInput::Kind::User || !input.value) continue;
        if (const HostTensor *data = graph.constant_data(input.value)) constants.emplace(input.value, *data);
    }
    return constants;
}

}  // namespace

int fold_constant_calls(Graph &graph) {
    std::map<ValueId, HostTensor> constants = constants_of(graph);
    const auto uses = graph.uses();
    std::vector<std::pair<ValueId, HostTensor>> made;
    Rewriter rewriter(graph);
    rewriter.sweep([&](Node &node) {
        bool constant = !node.outputs.empty() && can_interpret(node.target) && !is_random_or_empty(node.target);
        for_each_value(node, [&](ValueId id) { constant = constant && constants.contains(id); });
        if (!constant || !is_small(graph, node)) return;
        std::vector<HostTensor> results;
        try {
            results = interpret_node(graph, node, [&](ValueId id) -> const HostTensor & { return constants.at(id); });
        } catch (const Error &) {
            return;  // an argument that is not constant, or a variant that the host does not have: it stays a call
        }
        for (size_t i = 0; i < results.size(); i++) {
            constants[node.outputs[i]] = results[i];
            made.emplace_back(node.outputs[i], results[i]);
        }
        node.target.clear();
        rewriter.count();
    });
    // Only what the remaining calls use becomes a constant of the graph.
    std::vector<bool> used(graph.values.size());
    for (const Node &node : graph.nodes) for_each_value(node, [&](ValueId id) { used[id.index] = true; });
    for (auto &[id, data] : made) {
        if (!used[id.index] && !graph.is_output(id)) continue;
        GraphInput input;
        input.kind = GraphInput::Kind::Constant;
        input.value = id;
        input.name = graph.value(id).name;
        input.data = dense_copy(data);
        TensorType &type = graph.value(id).type;
        type.strides.assign(input.data->strides.begin(), input.data->strides.end());
        type.offset = 0;
        graph.inputs.push_back(std::move(input));
    }
    return static_cast<int>(made.size());
}

}  // namespace atalla
