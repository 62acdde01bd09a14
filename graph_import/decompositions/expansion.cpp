#include "graph_import/decompositions/expansion.h"

#include <fmt/format.h>

namespace atalla {

Expansion::Expansion(Graph &graph, Rewriter &rewriter, Node &node)
    : node(node),
      result(graph.type(node.outputs.at(0))),
      graph_(graph),
      rewriter_(rewriter),
      replaced_(node),
      name_(graph.value(node.outputs.at(0)).name) {}

ValueId Expansion::call(const std::string &target, std::vector<NamedArgument> arguments, TensorType type) {
    return rewriter_.insert(make_call(target, std::move(arguments), node), fmt::format("{}_part", name_), std::move(type));
}

ValueId Expansion::call(const std::string &target, std::vector<NamedArgument> arguments, Sizes sizes) {
    return call(target, std::move(arguments), dense_type(result.dtype, std::move(sizes)));
}

void Expansion::last(const std::string &target, std::vector<NamedArgument> arguments) {
    replaced_ = make_call(target, std::move(arguments), node);
}

int64_t Expansion::listed(const char *name, size_t at) const {
    const std::vector<int64_t> values = node.integers(name);
    return values.size() == 1 ? values[0] : values.at(at);
}

ValueId Expansion::view(ValueId x, const Sizes &to) {
    return sizes(x) == to ? x : call("aten::view", {{"self", x}, {"size", to}}, to);
}

ValueId Expansion::permute(ValueId x, const std::vector<int64_t> &dims) {
    Sizes to;
    for (int64_t dim : dims) to.push_back(sizes(x)[static_cast<size_t>(dim)]);
    return call("aten::permute", {{"self", x}, {"dims", Sizes(dims.begin(), dims.end())}}, to);
}

ValueId Expansion::expand(ValueId x, const Sizes &to) {
    return sizes(x) == to ? x : call("aten::expand", {{"self", x}, {"size", to}}, to);
}

ValueId Expansion::indices(const std::string &name, std::vector<int64_t> sizes) {
    HostTensor data = make_tensor(DType::Int64, std::move(sizes));
    for (int64_t i = 0; i < data.elements(); i++)
        store_double(mutable_data(data) + i * element_bytes(DType::Int64), DType::Int64, static_cast<double>(i));
    return graph_.add_constant(fmt::format("{}_{}", name_, name), std::move(data));
}

ValueId Expansion::constant(const std::string &name, std::vector<int64_t> sizes, const std::vector<double> &values,
                            DType dtype) {
    HostTensor data = make_tensor(dtype, std::move(sizes));
    for (size_t i = 0; i < values.size(); i++)
        store_double(mutable_data(data) + static_cast<int64_t>(i) * element_bytes(dtype), dtype, values[i]);
    return graph_.add_constant(fmt::format("{}_{}", name_, name), std::move(data));
}

}  // namespace atalla
