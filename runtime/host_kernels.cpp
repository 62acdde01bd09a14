#include "runtime/host_kernels.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <span>

#include <HalideRuntime.h>

#include "host_kernels_generated.h"

namespace atalla {

namespace {

using Sizes64 = std::vector<int64_t>;
using Operands = std::function<const HostTensor &(ValueId)>;
using Result = std::optional<std::vector<HostTensor>>;

constexpr size_t rank = 4;  // of element-wise kernels

// A tensor as the kernels take it: innermost dimension first, 32-bit sizes. They are compiled for element types and look at
// neither the type nor flags.
class Buffer {
public:
    Buffer(const std::byte *data, std::span<const int64_t> sizes, std::span<const int64_t> strides, size_t dimensions) {
        for (size_t d = 0; d < dimensions; d++) {
            const bool there = d < sizes.size();
            const size_t from = sizes.size() - 1 - d;
            dims_[d] = halide_dimension_t(0, there ? static_cast<int32_t>(sizes[from]) : 1,
                                          there ? static_cast<int32_t>(strides[from]) : 0);
        }
        buffer_.host = reinterpret_cast<uint8_t *>(const_cast<std::byte *>(data));
        buffer_.dimensions = static_cast<int32_t>(dimensions);
        buffer_.dim = dims_;
    }
    Buffer(const Buffer &) = delete;
    operator halide_buffer_t *() { return &buffer_; }

private:
    halide_dimension_t dims_[rank + 1] = {};
    halide_buffer_t buffer_ = {};
};

int64_t product(std::span<const int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Strides, in elements, with which a tensor repeats itself to these sizes. Nothing if it does not.
std::optional<Sizes64> repeated(const HostTensor &tensor, const Sizes64 &sizes) {
    if (tensor.sizes.size() > sizes.size()) return std::nullopt;
    Sizes64 strides(sizes.size(), 0);
    const size_t missing = sizes.size() - tensor.sizes.size();
    for (size_t d = 0; d < tensor.sizes.size(); d++) {
        if (tensor.sizes[d] == 1) continue;
        if (tensor.sizes[d] != sizes[missing + d]) return std::nullopt;
        strides[missing + d] = tensor.strides[d];
    }
    return strides;
}

// What a call gives, and its arguments by name; none where the argument is no tensor of that type.
struct Call {
    const Node &node;
    const Operands &operands;
    const ResultType &type;

    const HostTensor *tensor(std::string_view name, DType dtype) const {
        const HostTensor *found = tensor(name);
        return found != nullptr && found->dtype == dtype ? found : nullptr;
    }
    const HostTensor *tensor(std::string_view name) const {
        const Argument *argument = node.find(name);
        const auto *id = argument == nullptr ? nullptr : std::get_if<ValueId>(argument);
        return id != nullptr && *id ? &operands(*id) : nullptr;
    }
    HostTensor made() const { return make_tensor(type.dtype, type.sizes); }
};

// Calls run(operands..., result) for tensors that repeat themselves to the result's sizes.
template <class Run>
Result elementwise(const Call &call, const std::vector<const HostTensor *> &tensors, const Run &run) {
    if (call.type.sizes.size() > rank) return std::nullopt;
    std::vector<Sizes64> strides;
    for (const HostTensor *tensor : tensors) {
        if (tensor == nullptr) return std::nullopt;
        const std::optional<Sizes64> found = repeated(*tensor, call.type.sizes);
        if (!found) return std::nullopt;
        strides.push_back(*found);
    }
    HostTensor result = call.made();
    if (result.elements() == 0) return std::vector{result};
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (size_t i = 0; i < tensors.size(); i++)
        buffers.push_back(std::make_unique<Buffer>(tensors[i]->begin(), call.type.sizes, strides[i], rank));
    run(buffers, Buffer(mutable_data(result), result.sizes, result.strides, rank));
    return std::vector{result};
}

using Unary = int (*)(halide_buffer_t *, halide_buffer_t *);
using Binary = int (*)(halide_buffer_t *, halide_buffer_t *, halide_buffer_t *);

Result binary(const Call &call, DType dtype, Binary kernel) {
    if (call.type.dtype != DType::Bool) return std::nullopt;
    return elementwise(call, {call.tensor("self", dtype), call.tensor("other", dtype)},
                       [&](const auto &from, Buffer &&to) { kernel(*from[0], *from[1], to); });
}

Result unary(const Call &call, DType dtype, Unary kernel) {
    return elementwise(call, {call.tensor("self", dtype)}, [&](const auto &from, Buffer &&to) { kernel(*from[0], to); });
}

Result convert(const Call &call) {
    static const std::map<std::pair<DType, DType>, Unary> conversions = {
        {{DType::Int64, DType::Bool}, atalla_host_bool_of_int64},
        {{DType::Bool, DType::Int64}, atalla_host_int64_of_bool},
        {{DType::Int64, DType::Float32}, atalla_host_float_of_int64},
        {{DType::Bool, DType::Float32}, atalla_host_float_of_bool}};
    const HostTensor *x = call.tensor("self");
    if (x == nullptr) return std::nullopt;
    const auto found = conversions.find({x->dtype, call.type.dtype});
    return found == conversions.end() ? std::nullopt : unary(call, x->dtype, found->second);
}

Result where_number(const Call &call) {
    if (call.type.dtype != DType::Float32) return std::nullopt;
    return elementwise(call, {call.tensor("condition", DType::Bool)}, [&](const auto &from, Buffer &&to) {
        atalla_host_where_number(*from[0], static_cast<float>(call.node.number("self")),
                                 static_cast<float>(call.node.number("other")), to);
    });
}

// The sizes of a dense tensor around a dimension: what is in one of its rows, the rows, and how often.
struct Around {
    int64_t inner = 1, rows = 1, outer = 1;
};
std::optional<Around> around(const HostTensor &tensor, int64_t dimension) {
    const auto dimensions = static_cast<int64_t>(tensor.sizes.size());
    const int64_t d = dimension < 0 ? dimension + dimensions : dimension;
    if (d < 0 || d >= dimensions) return std::nullopt;
    const std::span<const int64_t> sizes = tensor.sizes;
    return Around{product(sizes.subspan(static_cast<size_t>(d) + 1)), sizes[static_cast<size_t>(d)],
                  product(sizes.first(static_cast<size_t>(d)))};
}

// Three dense dimensions, outermost first.
std::unique_ptr<Buffer> dense(const std::byte *data, const Sizes64 &sizes) {
    return std::make_unique<Buffer>(data, sizes, dense_strides(sizes), sizes.size());
}

Result any(const Call &call) {
    const HostTensor *given = call.tensor("self", DType::Bool);
    if (given == nullptr || call.type.dtype != DType::Bool || call.node.integers("dim").size() > 1) return std::nullopt;
    const HostTensor x = given->is_dense() ? *given : dense_copy(*given);
    const std::optional<Around> a = around(x, call.node.integer("dim"));
    HostTensor result = call.made();
    if (!a || a->inner * a->outer != result.elements()) return std::nullopt;
    atalla_host_any(*dense(x.begin(), {a->outer, a->rows, a->inner}), *dense(mutable_data(result), {a->outer, a->inner}));
    return std::vector{result};
}

bool are_indices(const HostTensor *index, int64_t size) {
    if (index == nullptr || index->dtype != DType::Int64) return false;
    const HostTensor flat = index->is_dense() ? *index : dense_copy(*index);
    const auto *values = reinterpret_cast<const int64_t *>(flat.begin());
    return std::all_of(values, values + flat.elements(), [&](int64_t i) { return i >= 0 && i < size; });
}

// x[first, second] of the first two dimensions.
Result pick(const Call &call, const HostTensor *given, const HostTensor &first, const HostTensor &second) {
    if (given == nullptr || given->sizes.size() < 2 || given->dtype != call.type.dtype) return std::nullopt;
    if (!are_indices(&first, given->sizes[0]) || !are_indices(&second, given->sizes[1])) return std::nullopt;
    const HostTensor x = given->is_dense() ? *given : dense_copy(*given);
    const int64_t bytes = product(std::span(x.sizes).subspan(2)) * element_bytes(x.dtype);
    const size_t kept = x.sizes.size() - 2;
    if (call.type.sizes.size() < kept || call.type.sizes.size() - kept > rank) return std::nullopt;
    const Sizes64 sizes(call.type.sizes.begin(), call.type.sizes.end() - static_cast<int64_t>(kept));
    const std::optional<Sizes64> a = repeated(first, sizes), b = repeated(second, sizes);
    if (!a || !b) return std::nullopt;
    HostTensor result = call.made();
    if (result.elements() == 0) return std::vector{result};
    Sizes64 out = sizes;
    out.insert(out.begin(), rank - sizes.size(), 1);
    out.push_back(bytes);
    Buffer rows(first.begin(), sizes, *a, rank), columns(second.begin(), sizes, *b, rank);
    atalla_host_pick(*dense(x.begin(), {x.sizes[0], x.sizes[1], bytes}), rows, columns, *dense(mutable_data(result), out));
    return std::vector{result};
}

// A table's row is what stands behind its only place in the dimension before.
Result embedding(const Call &call) {
    const HostTensor *weight = call.tensor("weight"), *indices = call.tensor("indices");
    if (weight == nullptr || indices == nullptr || weight->sizes.size() != 2) return std::nullopt;
    HostTensor table = *weight;
    table.sizes.insert(table.sizes.begin() + 1, 1);
    table.strides.insert(table.strides.begin() + 1, 0);
    return pick(call, &table, *indices, make_tensor(DType::Int64, {}));
}

Result index(const Call &call) {
    const std::vector<ValueId> indices = call.node.tensors("indices");
    if (indices.size() != 2 || !indices[0] || !indices[1]) return std::nullopt;
    return pick(call, call.tensor("self"), call.operands(indices[0]), call.operands(indices[1]));
}

Result index_copy(const Call &call) {
    const HostTensor *given = call.tensor("self"), *source = call.tensor("source"), *index = call.tensor("index");
    if (given == nullptr || source == nullptr || source->dtype != given->dtype || source->sizes.size() != given->sizes.size())
        return std::nullopt;
    const HostTensor x = given->is_dense() ? *given : dense_copy(*given),
                     rows = source->is_dense() ? *source : dense_copy(*source);
    const std::optional<Around> a = around(x, call.node.integer("dim")), b = around(rows, call.node.integer("dim"));
    if (!a || !b || !are_indices(index, a->rows) || b->rows != index->elements() || a->inner != b->inner ||
        a->outer != b->outer)
        return std::nullopt;
    HostTensor result = call.made();
    const int64_t bytes = a->inner * element_bytes(x.dtype);
    const HostTensor flat = index->is_dense() ? *index : dense_copy(*index);
    atalla_host_put_rows(*dense(x.begin(), {a->outer, a->rows, bytes}), *dense(flat.begin(), {b->rows}),
                         *dense(rows.begin(), {a->outer, b->rows, bytes}),
                         *dense(mutable_data(result), {a->outer, a->rows, bytes}));
    return std::vector{result};
}

using Kernel = std::function<Result(const Call &)>;

const std::map<std::string, Kernel, std::less<>> &kernels() {
    const auto compare = [](Binary kernel) { return [=](const Call &call) { return binary(call, DType::Int64, kernel); }; };
    const auto logic = [](Binary kernel) { return [=](const Call &call) { return binary(call, DType::Bool, kernel); }; };
    const auto negation = [](const Call &call) { return unary(call, DType::Bool, atalla_host_not); };
    static const std::map<std::string, Kernel, std::less<>> table = {{"aten::lt.Tensor", compare(atalla_host_lt)},
                                                                     {"aten::le.Tensor", compare(atalla_host_le)},
                                                                     {"aten::gt.Tensor", compare(atalla_host_gt)},
                                                                     {"aten::ge.Tensor", compare(atalla_host_ge)},
                                                                     {"aten::eq.Tensor", compare(atalla_host_eq)},
                                                                     {"aten::ne.Tensor", compare(atalla_host_ne)},
                                                                     {"aten::__and__.Tensor", logic(atalla_host_and)},
                                                                     {"aten::bitwise_and.Tensor", logic(atalla_host_and)},
                                                                     {"aten::logical_and", logic(atalla_host_and)},
                                                                     {"aten::__or__.Tensor", logic(atalla_host_or)},
                                                                     {"aten::bitwise_or.Tensor", logic(atalla_host_or)},
                                                                     {"aten::logical_or", logic(atalla_host_or)},
                                                                     {"aten::bitwise_not", negation},
                                                                     {"aten::logical_not", negation},
                                                                     {"aten::_to_copy", convert},
                                                                     {"aten::where.Scalar", where_number},
                                                                     {"aten::any.dim", any},
                                                                     {"aten::embedding", embedding},
                                                                     {"aten::index.Tensor", index},
                                                                     {"aten::index_copy", index_copy}};
    return table;
}

bool fits(const HostTensor &tensor) {
    constexpr int64_t most_bytes = INT32_MAX;  // of what the kernels count with
    return tensor.elements() * element_bytes(tensor.dtype) <= most_bytes;
}

}  // namespace

Result run_host_kernel(const Node &node, const Operands &operands, const std::vector<ResultType> &results) {
    const auto found = kernels().find(node.target);
    if (found == kernels().end() || results.size() != 1) return std::nullopt;
    bool small = results[0].elements() * element_bytes(results[0].dtype) <= INT32_MAX;
    for_each_value(node, [&](ValueId id) { small = small && fits(operands(id)); });
    return small ? found->second({node, operands, results[0]}) : std::nullopt;
}

}  // namespace atalla
