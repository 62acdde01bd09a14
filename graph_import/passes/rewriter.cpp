#include "graph_import/passes/rewriter.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph_import/schema.h"
#include "isa/error.h"

namespace atalla {

bool is_element_wise(std::string_view target) {
    static const std::set<std::string_view> element_wise = {
        "aten::relu",     "aten::gelu",        "aten::silu",      "aten::tanh",  "aten::sigmoid", "aten::neg",
        "aten::exp",      "aten::abs",         "aten::square",    "aten::rsqrt", "aten::sqrt",    "aten::cos",
        "aten::sin",      "aten::_to_copy",    "aten::erf",       "aten::mish",  "aten::relu6",   "aten::hardswish",
        "aten::hardtanh", "aten::hardsigmoid", "aten::leaky_relu"};
    return element_wise.contains(target);
}

Node make_call(std::string target, std::vector<NamedArgument> given, const Node &origin) {
    Node node;
    node.module = origin.module;
    node.module_type = origin.module_type;
    node.outputs = origin.outputs;
    const Schema *schema = find_schema(target);
    if (!schema) throw Error(fmt::format("{}: there is no such operator", target));
    size_t used = 0;
    for (const SchemaArgument &argument : schema->arguments) {
        const auto found = std::find_if(given.begin(), given.end(), [&](const auto &g) { return g.name == argument.name; });
        if (found != given.end()) {
            node.arguments.push_back(*found);
            used++;
        } else if (argument.otherwise) {
            node.arguments.push_back({argument.name, *argument.otherwise});
        } else {
            throw Error(fmt::format("{}: argument {} is missing", target, argument.name));
        }
    }
    if (used != given.size()) throw Error(fmt::format("{}: an argument that it does not have", target));
    node.target = std::move(target);
    return node;
}

Node call_on(ValueId self, const Node &node, const Node &origin) {
    std::vector<NamedArgument> arguments = node.arguments;
    for (NamedArgument &argument : arguments)
        if (argument.name == "self") argument.value = self;
    return make_call(node.target, std::move(arguments), origin);
}

Rewriter::Rewriter(Graph &graph) : graph_(graph) {}

void Rewriter::replace(ValueId from, ValueId to) {
    replaced_[from] = to;
    changes_++;
}

ValueId Rewriter::insert(Node node, const std::string &name, TensorType type) {
    const ValueId id = graph_.add_value(name, std::move(type));
    node.outputs = {id};
    push(std::move(node));
    return id;
}

const Node *Rewriter::producer(ValueId id) const {
    const int32_t index = id ? graph_.value(id).producer : -1;
    return index < 0 || index >= static_cast<int32_t>(graph_.nodes.size()) ? nullptr : &graph_.nodes[index];
}

void Rewriter::resolve(Node &node) {
    for (NamedArgument &argument : node.arguments) {
        for_each_value(argument.value, [&](ValueId &id) {
            for (auto found = replaced_.find(id); found != replaced_.end(); found = replaced_.find(id)) id = found->second;
        });
    }
}

void Rewriter::push(Node node) {
    for (ValueId output : node.outputs) {
        if (output) graph_.value(output).producer = static_cast<int32_t>(graph_.nodes.size());
    }
    graph_.nodes.push_back(std::move(node));
}

void Rewriter::finish() {
    for (GraphOutput &output : graph_.outputs) {
        for_each_value(output.value, [&](ValueId &id) {
            for (auto found = replaced_.find(id); found != replaced_.end(); found = replaced_.find(id)) id = found->second;
        });
    }
    graph_.renumber();
}

bool same_type(const TensorType &a, const TensorType &b) { return a.dtype == b.dtype && a.sizes == b.sizes; }

Sizes broadcast(Sizes a, Sizes b) {
    if (a.size() < b.size()) std::swap(a, b);
    for (size_t i = 0; i < b.size(); i++)
        if (SymInt &size = a[a.size() - 1 - i]; size == SymInt(1)) size = b[b.size() - 1 - i];
    return a;
}

TensorType dense_type(DType dtype, Sizes sizes) {
    TensorType type{dtype, std::move(sizes), {}, 0};
    type.strides.resize(type.sizes.size());
    SymInt stride = 1;
    for (size_t i = type.sizes.size(); i-- > 0;) {
        type.strides[i] = stride;
        stride = stride * type.sizes[i];
    }
    return type;
}

std::vector<int64_t> permutation(const Node &node) { return node.integers("dims"); }

}  // namespace atalla
