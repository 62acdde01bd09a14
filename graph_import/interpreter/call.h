// A call as the host's kernels see it: operands with values, arguments that are constants, the types of the results.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph_import/graph.h"
#include "graph_import/interpreter/array.h"

namespace atalla::interpreter {

class Call {
public:
    using Lookup = std::function<const HostTensor &(ValueId)>;
    Call(const Graph &graph, const Node &node, Lookup lookup) : graph_(graph), node_(node), lookup_(std::move(lookup)) {}

    const Node *operator->() const { return &node_; }
    const Node &operator*() const { return node_; }
    bool has(std::string_view name) const { return !node_.is_none(name); }
    // A number where a tensor is asked for gives a tensor without dimensions.
    HostTensor tensor(std::string_view name) const;
    std::vector<HostTensor> tensors(std::string_view name) const;
    const HostTensor &operator[](ValueId id) const { return lookup_(id); }
    bool is_number(std::string_view name) const;
    // The type of a result as the graph has it.
    DType result_dtype(size_t index = 0) const;
    Extents result_sizes(size_t index = 0) const;
    // A dimension counted from the end if negative. Error if the tensor has no such dimension.
    int64_t dimension(std::string_view name, int64_t rank) const;
    // Dimensions in ascending order; all of them if none is given.
    Extents dimensions(std::string_view name, int64_t rank) const;
    [[noreturn]] void fail(const std::string &what) const;

private:
    const Graph &graph_;
    const Node &node_;
    Lookup lookup_;
};

using Results = std::vector<HostTensor>;
using Kernel = std::function<Results(const Call &)>;
using Kernels = std::unordered_map<std::string, Kernel>;

// By target, "aten::add.Tensor".
const Kernels &kernels();

// The families, each in a file of its own.
void add_elementwise_kernels(Kernels &kernels);
void add_creation_kernels(Kernels &kernels);
void add_view_kernels(Kernels &kernels);
void add_indexing_kernels(Kernels &kernels);
void add_reduction_kernels(Kernels &kernels);
void add_product_kernels(Kernels &kernels);
void add_window_kernels(Kernels &kernels);
void add_norm_kernels(Kernels &kernels);
void add_sampler_kernels(Kernels &kernels);

// Tensors one after another along a dimension, as this element type.
HostTensor concatenated(const std::vector<HostTensor> &parts, int64_t d, DType dtype);

// The element type that PyTorch's promotion gives operands: each a tensor, or a number where `number` says so.
DType promoted_dtype(const std::vector<HostTensor> &operands, const std::vector<bool> &number);

}  // namespace atalla::interpreter
