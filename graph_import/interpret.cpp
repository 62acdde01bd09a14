#include "graph_import/interpret.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph_import/guards.h"
#include "graph_import/interpreter/call.h"
#include "isa/error.h"

namespace atalla {

namespace {

// Calls whose results are integers that the symbols already give, or that check what the import already knows.
bool is_bookkeeping(const Graph &graph, const Node &node) {
    for (ValueId output : node.outputs) {
        if (output && !(graph.value(output).kind == Value::Kind::Int && graph.value(output).symbolic.is_constant()))
            return false;
    }
    return true;
}

bool is_assertion(std::string_view target) {
    return target.starts_with("aten::_assert_") || target.starts_with("aten::sym_constrain_range");
}

class Run {
public:
    explicit Run(const Graph &graph) : graph_(graph), values_(graph.values.size()) {}

    void set(ValueId id, HostTensor tensor) { values_[id.index] = std::move(tensor); }

    const HostTensor &get(ValueId id) const {
        if (!values_[id.index]) throw Error(fmt::format("{} has no value", graph_.value(id).name));
        return *values_[id.index];
    }

    void nodes() {
        for (const Node &node : graph_.nodes) {
            if (is_bookkeeping(graph_, node)) continue;
            const std::vector<HostTensor> results =
                node.target == "higher_order::cond"
                    ? conditional(node)
                    : interpret_node(graph_, node, [this](ValueId id) -> const HostTensor & { return get(id); });
            for (size_t i = 0; i < node.outputs.size(); i++) {
                if (node.outputs[i]) set(node.outputs[i], results.at(i));
            }
        }
    }

private:
    std::vector<HostTensor> conditional(const Node &node) {
        const auto *predicate = std::get_if<ValueId>(&node.arguments.at(0).value);
        if (!predicate) throw Error("higher_order::cond: its condition is no tensor");
        const size_t branch = element_as_int(get(*predicate), 0) ? 1 : 2;
        const auto *body = std::get_if<std::shared_ptr<Graph>>(&node.arguments.at(branch).value);
        const auto *operands = std::get_if<std::vector<ValueId>>(&node.arguments.at(3).value);
        if (!body || !operands || operands->size() != (*body)->inputs.size()) {
            throw Error("higher_order::cond: its operands are not those of its graphs");
        }
        Run run(**body);
        for (size_t i = 0; i < operands->size(); i++) run.set((*body)->inputs[i].value, get((*operands)[i]));
        run.nodes();
        std::vector<HostTensor> results;
        for (const GraphOutput &output : (*body)->outputs) results.push_back(run.get(std::get<ValueId>(output.value)));
        return results;
    }

    const Graph &graph_;
    std::vector<std::optional<HostTensor>> values_;
};

void require_type(const Graph &graph, const Node &node, size_t index, const HostTensor &result) {
    const TensorType &type = graph.type(node.outputs[index]);
    if (result.dtype == type.dtype && is_constant(type.sizes) && constant_sizes(type.sizes) == result.sizes) return;
    throw Error(fmt::format("{}: computed {}[{}] where the graph says {}{}", node.target, dtype_name(result.dtype),
                            fmt::join(result.sizes, ", "), dtype_name(type.dtype), text(type.sizes)));
}

}  // namespace

bool can_interpret(std::string_view target) {
    return interpreter::kernels().contains(std::string(target)) || target == "aten::sym_size.int" ||
           target.starts_with("_operator.") || target == "higher_order::cond" || is_assertion(target);
}

std::vector<HostTensor> interpret_node(const Graph &graph, const Node &node,
                                       const std::function<const HostTensor &(ValueId)> &operands) {
    const auto kernel = interpreter::kernels().find(node.target);
    if (kernel == interpreter::kernels().end())
        throw Error(fmt::format("{}: the host has no kernel of this operator", node.target));
    std::vector<HostTensor> results;
    try {
        results = kernel->second(interpreter::Call(graph, node, operands));
    } catch (const Error &error) {
        const std::string what = error.what();
        throw Error(what.starts_with(node.target) ? what : fmt::format("{}: {}", node.target, what));
    }
    if (results.size() != node.outputs.size()) {
        throw Error(
            fmt::format("{}: computed {} results where the graph has {}", node.target, results.size(), node.outputs.size()));
    }
    for (size_t i = 0; i < results.size(); i++) {
        if (node.outputs[i]) require_type(graph, node, i, results[i]);
    }
    return results;
}

Interpretation interpret(const Graph &dynamic, const std::vector<HostTensor> &user_inputs,
                         const std::map<int32_t, HostTensor> &state) {
    std::vector<std::vector<int64_t>> sizes;
    for (const HostTensor &input : user_inputs) sizes.push_back(input.sizes);
    const Bindings bindings = bind_symbols(dynamic, sizes);
    std::optional<Graph> special;
    if (!bindings.empty()) special = specialize(dynamic, bindings);
    const Graph &graph = special ? *special : dynamic;

    Run run(graph);
    size_t next = 0;
    for (size_t i = 0; i < graph.inputs.size(); i++) {
        const GraphInput &input = graph.inputs[i];
        if (input.kind == GraphInput::Kind::Fixed) continue;
        if (input.kind == GraphInput::Kind::User) {
            const HostTensor &given = user_inputs.at(next++);
            if (given.dtype != graph.type(input.value).dtype) {
                throw Error(fmt::format("input {} is {}; the model takes {}", input.name, dtype_name(given.dtype),
                                        dtype_name(graph.type(input.value).dtype)));
            }
            run.set(input.value, given);
        } else if (const auto kept = state.find(static_cast<int32_t>(i)); kept != state.end()) {
            run.set(input.value, kept->second);
        } else if (input.data) {
            run.set(input.value, *input.data);
        }
    }
    run.nodes();
    Interpretation result;
    for (const GraphOutput &output : graph.outputs) {
        const auto *id = std::get_if<ValueId>(&output.value);
        const bool tensor = id && *id && graph.value(*id).kind == Value::Kind::Tensor;
        if (output.kind == GraphOutput::Kind::Mutation) {
            if (tensor) result.mutated[output.target] = run.get(*id);
        } else {
            result.outputs.push_back(tensor ? std::optional(run.get(*id)) : std::nullopt);
        }
    }
    return result;
}

}  // namespace atalla
