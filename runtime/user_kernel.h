// A host kernel of the caller, and the call that it gets: a node, what its operands hold, and what its results are to be.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

struct ResultType {
    DType dtype = DType::Float32;
    std::vector<int64_t> sizes;
    int64_t elements() const;
};

class UserCall {
public:
    // `operands` gives the data of every value that the node refers to. Errors of the kernels name the operator.
    UserCall(const Node &node, std::function<const HostTensor &(ValueId)> operands, std::vector<ResultType> results);

    const Node &node() const { return node_; }
    const ResultType &result(size_t index = 0) const;
    size_t results() const { return results_.size(); }

    // A number counts as a tensor without dimensions. Error if the argument is missing or is neither.
    HostTensor tensor(std::string_view name) const;

private:
    [[noreturn]] void refuse(std::string_view why) const;

    const Node &node_;
    std::function<const HostTensor &(ValueId)> operands_;
    std::vector<ResultType> results_;
};

// ---- elements as plain vectors, for kernels that compute

// Values in row-major order. T is float, double or int64_t.
template <class T>
std::vector<T> values_of(const HostTensor &tensor);
// A dense tensor of these values, converted as PyTorch does: rounded to nearest, bool is "not zero".
template <class T>
HostTensor tensor_of_values(const ResultType &type, const std::vector<T> &values);

// Results in the order of the node's outputs, of the types that the call says. Throws Error.
using UserKernel = std::function<std::vector<HostTensor>(const UserCall &)>;
using UserKernels = std::map<std::string, UserKernel, std::less<>>;  // by target, "mylib::op"

}  // namespace atalla
