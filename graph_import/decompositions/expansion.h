// Operators as calls of others: what the accelerator has no kernel for, said with operators that it has.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "graph_import/graph.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

// The calls that take the place of one node: all but the last are put before it, and the last one has its results.
class Expansion {
public:
    Expansion(Graph &graph, Rewriter &rewriter, Node &node);

    // The node as it was; a copy, so that names and types last while values are added.
    const Node node;
    const TensorType result;  // the type of its first result

    const Sizes &sizes(ValueId id) const { return graph_.type(id).sizes; }
    DType dtype(ValueId id) const { return graph_.type(id).dtype; }
    ValueId tensor(std::string_view name) const { return node.tensor(name); }
    // Of an argument with a number for each axis, or one for all.
    int64_t listed(const char *name, size_t at) const;
    // From the front, of a tensor of this rank.
    static size_t dimension(int64_t dim, size_t rank) {
        return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
    }

    // A call whose result has the element type of the node's.
    ValueId call(const std::string &target, std::vector<NamedArgument> arguments, Sizes sizes);
    // The same with a result of another type.
    ValueId call(const std::string &target, std::vector<NamedArgument> arguments, TensorType type);
    void last(const std::string &target, std::vector<NamedArgument> arguments);

    // Of one tensor, element by element.
    ValueId each(const std::string &target, ValueId x) { return call(target, {{"self", x}}, sizes(x)); }
    // Two tensors that broadcast.
    ValueId both(const std::string &target, ValueId a, ValueId b) {
        return call(target, {{"self", a}, {"other", b}}, broadcast(a, b));
    }
    ValueId view(ValueId x, const Sizes &to);
    ValueId permute(ValueId x, const std::vector<int64_t> &dims);
    ValueId expand(ValueId x, const Sizes &to);
    void last_view(ValueId x) { last("aten::view", {{"self", x}, {"size", result.sizes}}); }

    // 0, 1, 2, ... in 64 bits.
    ValueId indices(const std::string &name, std::vector<int64_t> sizes);
    // A tensor of constants, in the node's element type.
    ValueId constant(const std::string &name, std::vector<int64_t> sizes, const std::vector<double> &values) {
        return constant(name, std::move(sizes), values, result.dtype);
    }
    // The same of booleans.
    ValueId mask(const std::string &name, std::vector<int64_t> sizes, const std::vector<double> &values) {
        return constant(name, std::move(sizes), values, DType::Bool);
    }
    const HostTensor *constant_data(ValueId id) const { return graph_.constant_data(id); }

    Sizes broadcast(ValueId a, ValueId b) const { return atalla::broadcast(sizes(a), sizes(b)); }

private:
    ValueId constant(const std::string &name, std::vector<int64_t> sizes, const std::vector<double> &values, DType dtype);

    Graph &graph_;
    Rewriter &rewriter_;
    Node &replaced_;
    std::string name_;
};

// Puts calls in the place of a node, or leaves it and is false.
using Decomposition = bool (*)(Expansion &);
using Decompositions = std::map<std::string_view, Decomposition>;

// Of results in floating types. One function a file.
void add_element_wise_decompositions(Decompositions &all);
void add_reduction_decompositions(Decompositions &all);
void add_arrangement_decompositions(Decompositions &all);
void add_resampling_decompositions(Decompositions &all);
void add_transposed_convolution(Decompositions &all);
void add_einsum(Decompositions &all);
void add_grouped_products(Decompositions &all);
void add_convolution_in_depth(Decompositions &all);
void add_volume_decompositions(Decompositions &all);
void add_column_decompositions(Decompositions &all);
void add_transformer_layer(Decompositions &all);

}  // namespace atalla
