#include "graph_import/plain_export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr std::string_view remedy = "save exported.run_decompositions({}) instead of exported";

// "aten::add_.Tensor", but not "aten::__and__.Tensor".
bool is_in_place(std::string_view target) {
    const size_t colons = target.find("::");
    if (colons == target.npos || target.starts_with("higher_order::")) return false;
    std::string_view name = target.substr(colons + 2);
    name = name.substr(0, name.find('.'));
    return name.ends_with('_') && !name.ends_with("__");
}

// Batch norm in training mode updates its running statistics.
bool trains(const Node &node) {
    if (node.target != "aten::batch_norm") return false;
    const Argument *training = node.find("training");
    const bool *flag = training ? std::get_if<bool>(training) : nullptr;
    return flag && *flag;
}

void refuse_mutation(const Graph &graph, const std::string &name) {
    std::map<std::string, int> found;
    for (const Node &node : graph.nodes) {
        if (is_in_place(node.target)) found[node.target]++;
        if (trains(node)) found[node.target + " in training mode"]++;
        if (node.target == "higher_order::wrap_with_autocast") {
            throw Error(fmt::format("{}: a plain export with an autocast block, whose conversions are not written down; {}",
                                    name, remedy));
        }
        for (const NamedArgument &argument : node.arguments) {
            if (const auto *subgraph = std::get_if<std::shared_ptr<Graph>>(&argument.value)) refuse_mutation(**subgraph, name);
        }
    }
    if (found.empty()) return;
    std::vector<std::string> list;
    for (const auto &[target, count] : found) list.push_back(count > 1 ? fmt::format("{} x {}", count, target) : target);
    throw Error(fmt::format("{}: a plain export that changes tensors in place ({}); {}", name, fmt::join(list, ", "), remedy));
}

// The subgraph's nodes in place of the call, its inputs replaced by the operands.
void inline_call(Graph &graph, const Node &call, std::vector<Node> &nodes, std::map<ValueId, ValueId> &replaced) {
    const Graph *body = nullptr;
    std::vector<Argument> operands;
    for (const NamedArgument &argument : call.arguments) {
        if (const auto *subgraph = std::get_if<std::shared_ptr<Graph>>(&argument.value)) {
            body = subgraph->get();
        } else if (body) {
            operands.push_back(argument.value);
        }
    }
    if (!body || body->inputs.size() != operands.size() || body->outputs.size() != call.outputs.size()) {
        throw Error(fmt::format("{}: its operands are not those of its graph", call.target));
    }
    std::map<ValueId, ValueId> renamed;
    for (size_t i = 0; i < operands.size(); i++) {
        const auto *operand = std::get_if<ValueId>(&operands[i]);
        if (operand && body->inputs[i].value) renamed[body->inputs[i].value] = *operand;
    }
    const auto rename = [&](ValueId &id) {
        const auto found = renamed.find(id);
        if (found == renamed.end()) throw Error(fmt::format("{}: its graph uses a value that it is not given", call.target));
        id = found->second;
    };
    for (Node node : body->nodes) {
        for (NamedArgument &argument : node.arguments) for_each_value(argument.value, rename);
        for (ValueId &output : node.outputs) {
            if (!output) continue;
            const Value &value = body->value(output);
            const ValueId id = graph.add_value(value.name, value.type);
            graph.value(id).kind = value.kind;
            graph.value(id).symbolic = value.symbolic;
            renamed[output] = id;
            output = id;
        }
        nodes.push_back(std::move(node));
    }
    for (size_t i = 0; i < call.outputs.size(); i++) {
        const auto *result = std::get_if<ValueId>(&body->outputs[i].value);
        if (!call.outputs[i] || !result) continue;
        ValueId id = *result;
        rename(id);
        replaced[call.outputs[i]] = id;
    }
}

bool inline_blocks(Graph &graph) {
    const auto is_block = [](const Node &node) { return node.target == "higher_order::wrap_with_set_grad_enabled"; };
    if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_block)) return false;
    std::vector<Node> nodes;
    std::map<ValueId, ValueId> replaced;
    const auto replace = [&](ValueId &id) {
        const auto found = replaced.find(id);
        if (found != replaced.end()) id = found->second;
    };
    for (Node &node : graph.nodes) {
        for (NamedArgument &argument : node.arguments) for_each_value(argument.value, replace);
        if (is_block(node)) {
            inline_call(graph, node, nodes, replaced);
        } else {
            nodes.push_back(std::move(node));
        }
    }
    for (GraphOutput &output : graph.outputs) for_each_value(output.value, replace);
    graph.nodes = std::move(nodes);
    graph.renumber();
    return true;
}

}  // namespace

void settle_plain_export(Graph &graph, const std::string &name) {
    for (Node &node : graph.nodes) {
        if (node.target == "aten::detach_") node.target = "aten::detach";
    }
    refuse_mutation(graph, name);
    while (inline_blocks(graph)) {
    }
}

}  // namespace atalla
