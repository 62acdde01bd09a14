// A call of an operator on the host: its node, what its operands hold, and what its results are to be.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

struct HostType {
    DType dtype = DType::Float32;
    std::vector<int64_t> sizes;
    int64_t elements() const;
};

class HostCall {
public:
    // `operands` gives the data of every value that the node refers to. Errors of the kernels name the operator.
    HostCall(const Node &node, std::function<const HostTensor &(ValueId)> operands, std::vector<HostType> results);

    const Node &node() const { return node_; }
    const HostType &result(size_t index = 0) const;
    size_t results() const { return results_.size(); }

    // A number counts as a tensor without dimensions. Error if the argument is missing or is neither.
    HostTensor tensor(std::string_view name) const;
    // The first of several names that the node has: overloads differ in them.
    HostTensor tensor_of(std::initializer_list<std::string_view> names) const;
    std::optional<HostTensor> optional_tensor(std::string_view name) const;
    std::vector<std::optional<HostTensor>> tensors(std::string_view name) const;
    // Is there such an argument that is not None?
    bool has(std::string_view name) const;
    // The argument, or `otherwise` where it is missing or None.
    int64_t integer(std::string_view name, int64_t otherwise) const;
    double number(std::string_view name, double otherwise) const;
    bool flag(std::string_view name, bool otherwise) const;
    std::vector<int64_t> integers(std::string_view name) const;   // empty where missing
    // A dimension of a tensor of this rank, counted from the end if negative. Error if it is out of range.
    int64_t dimension(std::string_view name, size_t rank, int64_t otherwise = -1) const;
    // The same for a list; all dimensions where it is missing or empty.
    std::vector<int64_t> dimensions(std::string_view name, size_t rank) const;

    [[noreturn]] void refuse(std::string_view why) const;

private:
    const Node &node_;
    std::function<const HostTensor &(ValueId)> operands_;
    std::vector<HostType> results_;
};

// ---- elements as plain vectors, for kernels that compute

// Values in row-major order of `sizes`, to which the tensor is broadcast. T is float, double or int64_t.
template <class T>
std::vector<T> values_of(const HostTensor &tensor, const std::vector<int64_t> &sizes);
template <class T>
std::vector<T> values_of(const HostTensor &tensor) { return values_of<T>(tensor, tensor.sizes); }
// A dense tensor of these values, converted as PyTorch does: rounded to nearest, bool is "not zero".
template <class T>
HostTensor tensor_of_values(const HostType &type, const std::vector<T> &values);

// A view of the same storage. Error if a stride or size does not fit it.
HostTensor broadcast(const HostTensor &tensor, const std::vector<int64_t> &sizes);

// Rows of a reduction or a scan: [outer][length][inner] around one dimension.
struct AxisSplit {
    int64_t outer = 1, length = 1, inner = 1;
    AxisSplit(const std::vector<int64_t> &sizes, int64_t dim);
};

}  // namespace atalla
