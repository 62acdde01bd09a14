#include "runtime/user_kernel.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "isa/error.h"

namespace atalla {

namespace {

int64_t product(const std::vector<int64_t> &sizes) {
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    return n;
}

HostTensor scalar_double(double value) {
    HostTensor tensor = make_tensor(DType::Float64, {});
    store_double(mutable_data(tensor), tensor.dtype, value);
    return tensor;
}
HostTensor scalar_int(int64_t value, DType dtype = DType::Int64) {
    HostTensor tensor = make_tensor(dtype, {});
    store_int(mutable_data(tensor), tensor.dtype, value);
    return tensor;
}

// Calls visit(offset in elements from begin()) in row-major order.
template <class Visit>
void for_each_offset(const HostTensor &tensor, const Visit &visit) {
    const size_t rank = tensor.sizes.size();
    if (product(tensor.sizes) == 0) return;
    if (rank == 0) {
        visit(0);
        return;
    }
    std::vector<int64_t> index(rank, 0);
    int64_t base = 0;
    const int64_t inner = tensor.sizes.back(), step = tensor.strides.back();
    while (true) {
        for (int64_t i = 0; i < inner; i++) visit(base + i * step);
        size_t d = rank - 1;
        while (d > 0) {
            d--;
            index[d]++;
            base += tensor.strides[d];
            if (index[d] < tensor.sizes[d]) break;
            base -= index[d] * tensor.strides[d];
            index[d] = 0;
            if (d == 0) return;
        }
        if (rank == 1) return;
    }
}

}  // namespace

int64_t ResultType::elements() const { return product(sizes); }

UserCall::UserCall(const Node &node, std::function<const HostTensor &(ValueId)> operands, std::vector<ResultType> results)
    : node_(node), operands_(std::move(operands)), results_(std::move(results)) {}

const ResultType &UserCall::result(size_t index) const {
    if (index >= results_.size()) refuse(fmt::format("it has {} results, not {}", results_.size(), index + 1));
    return results_[index];
}

void UserCall::refuse(std::string_view why) const { throw Error(fmt::format("{}: {}", node_.target, why)); }

HostTensor UserCall::tensor(std::string_view name) const {
    const Argument *argument = node_.find(name);
    if (argument == nullptr) refuse(fmt::format("there is no argument '{}'", name));
    if (const auto *id = std::get_if<ValueId>(argument)) return operands_(*id);
    if (const auto *value = std::get_if<double>(argument)) return scalar_double(*value);
    if (const auto *value = std::get_if<bool>(argument)) return scalar_int(*value, DType::Bool);
    if (const auto *value = std::get_if<SymInt>(argument)) return scalar_int(value->value());
    refuse(fmt::format("argument '{}' is neither a tensor nor a number", name));
}

template <class T>
std::vector<T> values_of(const HostTensor &view) {
    std::vector<T> values;
    values.reserve(static_cast<size_t>(view.elements()));
    if (view.dtype == DType::Float32 && std::is_same_v<T, float>) {
        for_each_offset(view, [&](int64_t at) {
            float value;
            std::memcpy(&value, view.begin() + at * 4, sizeof value);
            values.push_back(static_cast<T>(value));
        });
    } else if constexpr (std::is_integral_v<T>) {
        for_each_offset(view, [&](int64_t at) { values.push_back(static_cast<T>(element_as_int(view, at))); });
    } else {
        for_each_offset(view, [&](int64_t at) { values.push_back(static_cast<T>(element_as_double(view, at))); });
    }
    return values;
}

template <class T>
HostTensor tensor_of_values(const ResultType &type, const std::vector<T> &values) {
    if (type.elements() != static_cast<int64_t>(values.size()))
        throw Error(fmt::format("{} values for a result of sizes [{}]", values.size(), fmt::join(type.sizes, ", ")));
    HostTensor result = make_tensor(type.dtype, type.sizes);
    std::byte *data = values.empty() ? nullptr : mutable_data(result);
    const int64_t bytes = element_bytes(type.dtype);
    if (type.dtype == DType::Float32 && std::is_same_v<T, float>) {
        if (!values.empty()) std::memcpy(data, values.data(), values.size() * sizeof(float));
        return result;
    }
    for (size_t i = 0; i < values.size(); i++) {
        std::byte *at = data + static_cast<int64_t>(i) * bytes;
        if (type.dtype == DType::Bool)
            store_int(at, type.dtype, values[i] != T(0));
        else if (is_floating(type.dtype))
            store_double(at, type.dtype, static_cast<double>(values[i]));
        else
            store_int(at, type.dtype, static_cast<int64_t>(values[i]));
    }
    return result;
}

template std::vector<float> values_of<float>(const HostTensor &);
template std::vector<double> values_of<double>(const HostTensor &);
template std::vector<int64_t> values_of<int64_t>(const HostTensor &);
template HostTensor tensor_of_values<float>(const ResultType &, const std::vector<float> &);
template HostTensor tensor_of_values<double>(const ResultType &, const std::vector<double> &);
template HostTensor tensor_of_values<int64_t>(const ResultType &, const std::vector<int64_t> &);

}  // namespace atalla
