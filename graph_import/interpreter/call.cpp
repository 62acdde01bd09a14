#include "graph_import/interpreter/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "isa/error.h"

namespace atalla::interpreter {

namespace {

HostTensor number_tensor(const Argument &argument) {
    if (const auto *integer = std::get_if<SymInt>(&argument)) {
        HostTensor tensor = make_tensor(DType::Int64, {});
        store_int(mutable_data(tensor), DType::Int64, integer->value());
        return tensor;
    }
    const auto *flag = std::get_if<bool>(&argument);
    const DType dtype = flag ? DType::Bool : DType::Float64;
    HostTensor tensor = make_tensor(dtype, {});
    store_double(mutable_data(tensor), dtype, flag ? *flag : std::get<double>(argument));
    return tensor;
}

int category(DType dtype) { return dtype == DType::Bool ? 0 : is_floating(dtype) ? 2 : 1; }

DType promote(DType a, DType b) {
    if (a == b) return a;
    if (category(a) != category(b)) return category(a) > category(b) ? a : b;
    if (category(a) == 2 && element_bytes(a) == element_bytes(b)) return DType::Float32;  // float16 and bfloat16
    if (element_bytes(a) == element_bytes(b)) return DType::Int16;                        // uint8 and int8
    const DType large = element_bytes(a) > element_bytes(b) ? a : b;
    return large;
}

}  // namespace

bool Call::is_number(std::string_view name) const {
    const Argument *argument = node_.find(name);
    return argument && (std::holds_alternative<SymInt>(*argument) || std::holds_alternative<double>(*argument) ||
                        std::holds_alternative<bool>(*argument));
}

HostTensor Call::tensor(std::string_view name) const {
    return is_number(name) ? number_tensor(*node_.find(name)) : lookup_(node_.tensor(name));
}

std::vector<HostTensor> Call::tensors(std::string_view name) const {
    std::vector<HostTensor> result;
    for (ValueId id : node_.tensors(name)) {
        if (!id) fail("a hole in a list of tensors");
        result.push_back(lookup_(id));
    }
    return result;
}

DType Call::result_dtype(size_t index) const {
    if (index >= node_.outputs.size() || !node_.outputs[index]) fail("a result is missing");
    return graph_.type(node_.outputs[index]).dtype;
}

Extents Call::result_sizes(size_t index) const {
    if (index >= node_.outputs.size() || !node_.outputs[index]) fail("a result is missing");
    return constant_sizes(graph_.type(node_.outputs[index]).sizes);
}

int64_t Call::dimension(std::string_view name, int64_t rank) const {
    const int64_t given = node_.integer(name);
    const int64_t dimensions = std::max<int64_t>(rank, 1);
    if (given < -dimensions || given >= dimensions) fail(fmt::format("dimension {} of a tensor that has {}", given, rank));
    return given < 0 ? given + dimensions : given;
}

Extents Call::dimensions(std::string_view name, int64_t rank) const {
    std::set<int64_t> result;
    if (has(name)) {
        for (int64_t given : node_.integers(name)) {
            if (given < -std::max<int64_t>(rank, 1) || given >= std::max<int64_t>(rank, 1)) {
                fail(fmt::format("dimension {} of a tensor that has {}", given, rank));
            }
            if (rank > 0) result.insert(given < 0 ? given + rank : given);
        }
    }
    if (result.empty()) {
        for (int64_t d = 0; d < rank; d++) result.insert(d);
    }
    return Extents(result.begin(), result.end());
}

void Call::fail(const std::string &what) const { throw Error(fmt::format("{}: {}", node_.target, what)); }

DType promoted_dtype(const std::vector<HostTensor> &operands, const std::vector<bool> &number) {
    // Tensors with dimensions decide; one without, and then a number, counts only if it is of a higher category.
    DType result = DType::Bool;
    bool any = false;
    for (int priority = 0; priority < 3; priority++) {
        DType own = DType::Bool;
        bool some = false;
        for (size_t i = 0; i < operands.size(); i++) {
            const int belongs = number[i] ? 2 : operands[i].sizes.empty() ? 1 : 0;
            if (belongs != priority) continue;
            const DType dtype = number[i] && operands[i].dtype == DType::Float64 ? DType::Float32 : operands[i].dtype;
            own = some ? promote(own, dtype) : dtype;
            some = true;
        }
        if (!some) continue;
        if (!any || category(own) > category(result)) result = any ? promote(result, own) : own;
        any = true;
    }
    return result;
}

Extents broadcast(const Extents &a, const Extents &b) {
    Extents result(std::max(a.size(), b.size()), 1);
    for (size_t i = 0; i < result.size(); i++) {
        const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) {
            throw Error(fmt::format("sizes [{}] and [{}] do not broadcast", fmt::join(a, ", "), fmt::join(b, ", ")));
        }
        result[result.size() - 1 - i] = x == 1 ? y : x;
    }
    return result;
}

HostTensor expand(const HostTensor &tensor, const Extents &sizes) {
    HostTensor result = tensor;
    result.sizes = sizes;
    result.strides.assign(sizes.size(), 0);
    const size_t added = sizes.size() - std::min(sizes.size(), tensor.sizes.size());
    if (tensor.sizes.size() > sizes.size()) throw Error("a tensor cannot be expanded to fewer dimensions");
    for (size_t i = 0; i < tensor.sizes.size(); i++) {
        if (tensor.sizes[i] == sizes[added + i]) {
            result.strides[added + i] = tensor.strides[i];
        } else if (tensor.sizes[i] != 1) {
            throw Error(
                fmt::format("sizes [{}] cannot be expanded to [{}]", fmt::join(tensor.sizes, ", "), fmt::join(sizes, ", ")));
        }
    }
    return result;
}

const Kernels &kernels() {
    static const Kernels all = [] {
        Kernels table;
        add_elementwise_kernels(table);
        add_creation_kernels(table);
        add_view_kernels(table);
        add_indexing_kernels(table);
        add_reduction_kernels(table);
        add_product_kernels(table);
        add_window_kernels(table);
        add_norm_kernels(table);
        add_sampler_kernels(table);
        return table;
    }();
    return all;
}

}  // namespace atalla::interpreter
