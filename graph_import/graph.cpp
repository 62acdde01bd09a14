#include "graph_import/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "isa/error.h"

namespace atalla {

ValueId Graph::add_value(std::string_view wanted, TensorType type) {
    const auto taken = [this](std::string_view candidate) {
        return std::any_of(values.begin(), values.end(), [&](const Value &value) { return value.name == candidate; });
    };
    std::string chosen(wanted);
    for (int i = 1; taken(chosen); i++) chosen = fmt::format("{}_{}", wanted, i);
    values.push_back({std::move(chosen), Value::Kind::Tensor, std::move(type), 0, -1});
    return ValueId{static_cast<int32_t>(values.size()) - 1};
}

ValueId Graph::add_constant(std::string_view wanted, HostTensor data) {
    TensorType type{data.dtype, {}, {}, data.offset};
    type.sizes.assign(data.sizes.begin(), data.sizes.end());
    type.strides.assign(data.strides.begin(), data.strides.end());
    const ValueId id = add_value(wanted, std::move(type));
    GraphInput input;
    input.kind = GraphInput::Kind::Constant;
    input.value = id;
    input.name = value(id).name;
    input.data = std::move(data);
    inputs.push_back(std::move(input));
    return id;
}

int Graph::input_of(ValueId id) const {
    for (size_t i = 0; i < inputs.size(); i++) {
        if (id && inputs[i].value == id) return static_cast<int>(i);
    }
    return -1;
}

const HostTensor *Graph::constant_data(ValueId id) const {
    if (!id || value(id).producer >= 0) return nullptr;
    const int input = input_of(id);
    if (input < 0 || !inputs[input].data) return nullptr;
    for (const GraphOutput &output : outputs) {
        if (output.kind == GraphOutput::Kind::Mutation && output.target == input) return nullptr;
    }
    return &*inputs[input].data;
}

std::vector<std::vector<int32_t>> Graph::uses() const {
    std::vector<std::vector<int32_t>> result(values.size());
    for (size_t i = 0; i < nodes.size(); i++) {
        for_each_value(nodes[i], [&](ValueId id) {
            auto &users = result[id.index];
            if (users.empty() || users.back() != static_cast<int32_t>(i)) users.push_back(static_cast<int32_t>(i));
        });
    }
    return result;
}

bool Graph::is_output(ValueId id) const {
    return std::any_of(outputs.begin(), outputs.end(), [&](const GraphOutput &output) {
        const auto *value = std::get_if<ValueId>(&output.value);
        return value && *value == id;
    });
}

void Graph::replace_uses(ValueId from, ValueId to) {
    const auto replace = [&](ValueId &id) {
        if (id == from) id = to;
    };
    for (Node &node : nodes) {
        for (NamedArgument &argument : node.arguments) for_each_value(argument.value, replace);
    }
    for (GraphOutput &output : outputs) for_each_value(output.value, replace);
}

void Graph::renumber() {
    std::erase_if(nodes, [](const Node &node) { return node.target.empty(); });
    for (Value &value : values) value.producer = -1;
    for (size_t i = 0; i < nodes.size(); i++) {
        for (ValueId output : nodes[i].outputs) {
            if (output) value(output).producer = static_cast<int32_t>(i);
        }
    }
}

void for_each_value(const Argument &argument, const std::function<void(ValueId)> &visit) {
    if (const auto *id = std::get_if<ValueId>(&argument)) {
        if (*id) visit(*id);
    } else if (const auto *ids = std::get_if<std::vector<ValueId>>(&argument)) {
        for (ValueId id : *ids) {
            if (id) visit(id);
        }
    }
}

void for_each_value(Argument &argument, const std::function<void(ValueId &)> &visit) {
    if (auto *id = std::get_if<ValueId>(&argument)) {
        if (*id) visit(*id);
    } else if (auto *ids = std::get_if<std::vector<ValueId>>(&argument)) {
        for (ValueId &id : *ids) {
            if (id) visit(id);
        }
    }
}

void for_each_value(const Node &node, const std::function<void(ValueId)> &visit) {
    for (const NamedArgument &argument : node.arguments) for_each_value(argument.value, visit);
}

namespace {

[[noreturn]] void broken(const Graph &graph, const std::string &what) {
    throw Error(fmt::format("graph {}: {}", graph.name, what));
}

std::string shown(const Graph &graph, ValueId id) {
    return id.index < static_cast<int32_t>(graph.values.size()) ? graph.value(id).name : fmt::format("#{}", id.index);
}

}  // namespace

void verify(const Graph &graph) {
    std::set<std::string_view> names;
    for (const Value &value : graph.values) {
        if (value.name.empty()) broken(graph, "a value has no name");
        if (!names.insert(value.name).second) broken(graph, fmt::format("two values are called {}", value.name));
        if (value.kind == Value::Kind::Tensor && value.type.sizes.size() != value.type.strides.size()) {
            broken(graph, fmt::format("{} has {} sizes but {} strides", value.name, value.type.sizes.size(),
                                      value.type.strides.size()));
        }
    }
    std::vector<bool> known(graph.values.size());
    const auto require_known = [&](ValueId id, const std::string &user) {
        if (id.index >= static_cast<int32_t>(known.size()) || !known[id.index]) {
            broken(graph, fmt::format("{} uses {} before it is computed", user, shown(graph, id)));
        }
    };
    const auto define = [&](ValueId id, int32_t producer, const std::string &where) {
        if (id.index >= static_cast<int32_t>(known.size()))
            broken(graph, fmt::format("{} defines a value that is not there", where));
        if (known[id.index]) broken(graph, fmt::format("{} is defined twice, the second time by {}", shown(graph, id), where));
        if (graph.value(id).producer != producer) broken(graph, fmt::format("the producer of {} is wrong", shown(graph, id)));
        known[id.index] = true;
    };
    for (const GraphInput &input : graph.inputs) {
        if (input.value) {
            define(input.value, -1, "input " + input.name);
        } else if (input.kind != GraphInput::Kind::Fixed) {
            broken(graph, fmt::format("input {} has no value", input.name));
        }
        if (input.data) {
            require_inside(*input.data, input.name);
            const TensorType &type = graph.type(input.value);
            if (type.dtype != input.data->dtype || !is_constant(type.sizes) ||
                constant_sizes(type.sizes) != input.data->sizes) {
                broken(graph, fmt::format("the data of {} is not what the graph says of it", input.name));
            }
        }
    }
    for (size_t i = 0; i < graph.nodes.size(); i++) {
        const Node &node = graph.nodes[i];
        if (node.target.empty()) broken(graph, "a node has no target");
        for_each_value(node, [&](ValueId id) { require_known(id, node.target); });
        for (ValueId output : node.outputs) {
            if (output) define(output, static_cast<int32_t>(i), node.target);
        }
        for (const NamedArgument &argument : node.arguments) {
            if (const auto *subgraph = std::get_if<std::shared_ptr<Graph>>(&argument.value)) verify(**subgraph);
        }
    }
    for (const GraphOutput &output : graph.outputs) {
        for_each_value(output.value, [&](ValueId id) { require_known(id, "output " + output.name); });
        if (output.kind == GraphOutput::Kind::Mutation &&
            (output.target < 0 || output.target >= static_cast<int32_t>(graph.inputs.size()))) {
            broken(graph, fmt::format("output {} mutates an input that is not there", output.name));
        }
    }
}

Graph clone(const Graph &graph) {
    Graph copy = graph;
    for (Node &node : copy.nodes) {
        for (NamedArgument &argument : node.arguments) {
            if (auto *subgraph = std::get_if<std::shared_ptr<Graph>>(&argument.value)) {
                *subgraph = std::make_shared<Graph>(clone(**subgraph));
            }
        }
    }
    return copy;
}

namespace {

void substitute(Sizes &sizes, const Bindings &bindings) {
    for (SymInt &size : sizes) size = size.substitute(bindings);
}

void substitute(Argument &argument, const Bindings &bindings);

void substitute(Graph &graph, const Bindings &bindings) {
    for (Value &value : graph.values) {
        substitute(value.type.sizes, bindings);
        substitute(value.type.strides, bindings);
        value.type.offset = value.type.offset.substitute(bindings);
        value.symbolic = value.symbolic.substitute(bindings);
    }
    for (Node &node : graph.nodes) {
        for (NamedArgument &argument : node.arguments) substitute(argument.value, bindings);
    }
    for (GraphOutput &output : graph.outputs) substitute(output.value, bindings);
}

void substitute(Argument &argument, const Bindings &bindings) {
    if (auto *size = std::get_if<SymInt>(&argument)) *size = size->substitute(bindings);
    if (auto *sizes = std::get_if<Sizes>(&argument)) substitute(*sizes, bindings);
    if (auto *subgraph = std::get_if<std::shared_ptr<Graph>>(&argument)) substitute(**subgraph, bindings);
}

}  // namespace

Graph specialize(const Graph &graph, const Bindings &bindings) {
    Graph result = clone(graph);
    substitute(result, bindings);
    for (const auto &[name, value] : bindings) result.symbols.erase(name);
    return result;
}

}  // namespace atalla
