#include "model/placement.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/registry.h"
#include "graph_import/infinities.h"
#include "graph_import/interpret.h"
#include "isa/error.h"
#include "model/aten_call.h"

namespace atalla {

namespace {

bool contains(const std::vector<std::string> &list, const std::string &name) {
    return std::find(list.begin(), list.end(), name) != list.end();
}

int64_t elements(const Graph &graph, ValueId id) {
    int64_t n = 1;
    for (int64_t size : constant_sizes(graph.type(id).sizes)) n *= size;
    return n;
}

// Why a workload cannot stand for a node; empty if it can.
std::string misfit(const Graph &graph, const Node &node, const PlacedNode &placed) {
    const std::vector<TensorSpec> inputs = placed.workload->inputs(), outputs = placed.workload->outputs();
    if (inputs.size() != placed.inputs.size() || outputs.size() != node.outputs.size())
        return "its kernel takes another number of tensors";
    for (size_t i = 0; i < inputs.size(); i++)
        if (inputs[i].elements() != elements(graph, placed.inputs[i]))
            return fmt::format("its kernel takes another size of {}", inputs[i].name);
    for (size_t i = 0; i < outputs.size(); i++)
        if (outputs[i].elements() != elements(graph, node.outputs[i]) || !is_floating(graph.type(node.outputs[i]).dtype))
            return "its result is not one of the kernel";
    for (const std::vector<ValueId> *list : {&placed.inputs, &node.outputs})
        for (ValueId id : *list) {
            const DType dtype = graph.type(id).dtype;
            if (dtype != DType::Float32 && dtype != DType::BFloat16 && dtype != DType::Float16)
                return fmt::format("it computes with {}", dtype_name(dtype));
        }
    return "";
}

bool is_assertion(const Node &node) {
    return node.target.starts_with("aten::_assert") || node.target.starts_with("aten::sym_constrain");
}

// Sizes as numbers are constants of the graph by now.
bool is_scalar_only(const Graph &graph, const Node &node) {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId id) { return !id || graph.value(id).kind != Value::Kind::Tensor; });
}

PlacedNode on_host(const Node &node, std::string reason, const PlacementOptions &options) {
    PlacedNode placed;
    placed.reason = std::move(reason);
    const bool interpreted = can_interpret(node.target) && !node.target.starts_with("higher_order::");
    placed.place = interpreted || contains(options.registered, node.target) ? PlacedNode::Host : PlacedNode::Unsupported;
    return placed;
}

// What options and the graph's values add to a node's own arguments, for an operator that takes it.
std::map<std::string, std::string> added_arguments(const Operator &op, const NodeCall &call,
                                                   const std::vector<bool> &infinities, const PlacementOptions &options) {
    std::map<std::string, std::string> added;
    if (options.blocked_sums && takes_argument(op, "sums")) added["sums"] = "blocked";
    if (takes_argument(op, "exact"))
        added["exact"] =
            std::ranges::any_of(call.tensors, [&](ValueId id) { return infinities[static_cast<size_t>(id.index)]; }) ? "true"
                                                                                                                     : "false";
    return added;
}

PlacedNode place(const Graph &graph, const Node &node, const std::vector<bool> &infinities, const PlacementOptions &options) {
    PlacedNode placed;
    if (is_assertion(node) || is_scalar_only(graph, node)) {
        placed.place = PlacedNode::Dropped;
        return placed;
    }
    if (contains(options.on_host, node.target)) return on_host(node, "asked to run on the host", options);
    NodeCall call = aten_call(graph, node);
    Resolution found = resolve(call.call);
    if (found.place == Resolution::Accelerator) placed.added = added_arguments(*found.op, call, infinities, options);
    if (!placed.added.empty()) {
        for (const auto &[name, word] : placed.added) {
            const nlohmann::json value = nlohmann::json::parse(word, nullptr, false);
            call.call.arguments.push_back({name, {}, value.is_discarded() ? nlohmann::json(word) : value});
        }
        found = resolve(call.call);
    }
    if (found.place == Resolution::View) {
        placed = on_host(node, "a view", options);
        if (node.outputs.size() == 1 && !call.tensors.empty() &&
            elements(graph, node.outputs[0]) == elements(graph, call.tensors[0]) &&
            is_floating(graph.type(node.outputs[0]).dtype) && is_floating(graph.type(call.tensors[0]).dtype)) {
            placed.place = PlacedNode::View;
            placed.inputs = {call.tensors[0]};
        }
        return placed;
    }
    if (found.place == Resolution::Dropped) {
        placed.place = PlacedNode::Dropped;
        return placed;
    }
    if (found.place != Resolution::Accelerator) return on_host(node, found.reason, options);
    placed.op = found.op;
    placed.workload = found.workload;
    for (size_t position : found.inputs) placed.inputs.push_back(call.tensors.at(position));
    if (const std::string wrong = misfit(graph, node, placed); !wrong.empty()) return on_host(node, wrong, options);
    placed.place = PlacedNode::Device;
    return placed;
}

}  // namespace

std::vector<PlacedNode> place_nodes(const Graph &graph, const PlacementOptions &options) {
    const std::vector<bool> infinities = intended_infinities(graph);
    std::vector<PlacedNode> placed;
    for (const Node &node : graph.nodes) {
        try {
            placed.push_back(place(graph, node, infinities, options));
        } catch (const Error &error) {
            placed.push_back(on_host(node, error.what(), options));
        }
    }
    return placed;
}

void require_placed(const Graph &graph, const std::vector<PlacedNode> &placed) {
    struct Finding {
        int calls = 0;
        std::string module, reason;
    };
    std::map<std::string, Finding> findings;
    for (size_t n = 0; n < placed.size(); n++) {
        if (placed[n].place != PlacedNode::Unsupported) continue;
        Finding &finding = findings[graph.nodes[n].target];
        if (finding.calls++ == 0) finding = {1, graph.nodes[n].module, placed[n].reason};
    }
    if (findings.empty()) return;
    std::string list;
    for (const auto &[target, f] : findings)
        list += fmt::format("\n  {} ({} call{}{}): {}", target, f.calls, f.calls == 1 ? "" : "s",
                            f.module.empty() ? "" : ", first in " + f.module, f.reason);
    throw Error(fmt::format(
        "neither the accelerator nor the host has {} of the model's operators; decompose them with "
        "run_decompositions(get_decompositions([...])), or register host kernels and name them with --host-kernel:{}",
        findings.size(), list));
}

}  // namespace atalla
