// Operators whose operands are indices.
#include <optional>

#include "graph_import/interpreter/call.h"

namespace atalla::interpreter {

namespace {

int64_t settled(int64_t index, int64_t size, const Call &call) {
    if (index < -size || index >= size) {
        call.fail("index " + std::to_string(index) + " is outside a dimension of size " + std::to_string(size));
    }
    return index < 0 ? index + size : index;
}

// Where index.Tensor's rules put elements: the sizes of the result, and for each of its elements the offset in `x`.
struct IndexPlan {
    Extents sizes;
    std::vector<int64_t> offsets;
};

// An index for each dimension, or none.
using Indices = std::vector<std::optional<HostTensor>>;

bool is_mask(const HostTensor &index) { return index.dtype == DType::Bool || index.dtype == DType::UInt8; }

// A mask stands for as many dimensions as it has: it is the places where it is true, an index for each of these dimensions.
void add_mask(Indices &indices, const HostTensor &mask, const Call &call, const HostTensor &x) {
    const size_t first = indices.size();
    if (first + mask.sizes.size() > x.sizes.size()) call.fail("more indices than dimensions");
    for (size_t d = 0; d < mask.sizes.size(); d++) {
        if (mask.sizes[d] == x.sizes[first + d]) continue;
        call.fail("a mask has size " + std::to_string(mask.sizes[d]) + " where the tensor has " + std::to_string(x.sizes[first + d]));
    }
    const Array<int64_t> wanted = load<int64_t>(mask);
    const int64_t count = std::count_if(wanted.data.begin(), wanted.data.end(), [](int64_t flag) { return flag != 0; });
    std::vector<Array<int64_t>> places(mask.sizes.size(), Array<int64_t>({count}));
    int64_t next = 0;
    for (size_t i = 0; i < wanted.data.size(); i++) {
        if (!wanted.data[i]) continue;
        int64_t rest = static_cast<int64_t>(i);
        for (size_t d = mask.sizes.size(); d-- > 0; rest /= mask.sizes[d]) places[d][next] = rest % mask.sizes[d];
        next++;
    }
    for (const Array<int64_t> &place : places) indices.push_back(store(place, DType::Int64));
}

Indices given_indices(const Call &call, const HostTensor &x) {
    Indices indices;
    for (ValueId id : call->tensors("indices")) {
        if (!id) {
            indices.emplace_back();
        } else if (is_mask(call[id])) {
            add_mask(indices, call[id], call, x);
        } else {
            indices.push_back(call[id]);
        }
    }
    if (indices.size() > x.sizes.size()) call.fail("more indices than dimensions");
    indices.resize(x.sizes.size());
    return indices;
}

IndexPlan plan_index(const Call &call, const HostTensor &x) {
    const Indices given = given_indices(call, x);
    Extents together;          // that the indices broadcast to
    std::vector<size_t> indexed, kept;
    for (size_t d = 0; d < given.size(); d++) {
        if (given[d]) {
            together = broadcast(together, given[d]->sizes);
            indexed.push_back(d);
        } else {
            kept.push_back(d);
        }
    }
    if (indexed.empty()) call.fail("no index");
    // Adjacent indices keep their place; separated ones move to the front.
    const bool adjacent = indexed.back() - indexed.front() + 1 == indexed.size();
    const size_t before = adjacent ? indexed.front() : 0;

    const int64_t count = product(together);
    std::vector<int64_t> chosen(count, 0);
    for (size_t d : indexed) {
        const Array<int64_t> index = load<int64_t>(*given[d], together);
        for (int64_t i = 0; i < count; i++) chosen[i] += settled(index[i], x.sizes[d], call) * x.strides[d];
    }
    // One dimension that stands for all of the indices, then those that stay.
    IndexPlan plan;
    Extents sizes, strides;
    const auto keep = [&](size_t d) {
        plan.sizes.push_back(x.sizes[d]);
        sizes.push_back(x.sizes[d]);
        strides.push_back(x.strides[d]);
    };
    for (size_t d : kept) {
        if (d < before) keep(d);
    }
    plan.sizes.insert(plan.sizes.end(), together.begin(), together.end());
    const size_t index_dimension = sizes.size();
    for (size_t d : kept) {
        if (d >= before) keep(d);
    }
    const Extents outer(sizes.begin(), sizes.begin() + static_cast<int64_t>(index_dimension));
    const Extents outer_strides(strides.begin(), strides.begin() + static_cast<int64_t>(index_dimension));
    const Extents inner(sizes.begin() + static_cast<int64_t>(index_dimension), sizes.end());
    const Extents inner_strides(strides.begin() + static_cast<int64_t>(index_dimension), strides.end());
    plan.offsets.reserve(product(plan.sizes));
    for_each_offset(outer, outer_strides, [&](int64_t a) {
        for (int64_t b : chosen) for_each_offset(inner, inner_strides, [&](int64_t c) { plan.offsets.push_back(a + b + c); });
    });
    return plan;
}

HostTensor gathered(const HostTensor &x, const Extents &sizes, const std::vector<int64_t> &offsets) {
    HostTensor result = make_tensor(x.dtype, sizes);
    const int64_t bytes = element_bytes(x.dtype);
    std::byte *to = mutable_data(result);
    for (int64_t offset : offsets) {
        std::memcpy(to, x.begin() + offset * bytes, bytes);
        to += bytes;
    }
    return result;
}

Results index(const Call &call) {
    const HostTensor x = call.tensor("self");
    for (ValueId id : call->tensors("indices")) {
        if (id && is_mask(call[id])) call.fail("a mask as index gives a size that depends on data");
    }
    const IndexPlan plan = plan_index(call, x);
    return {gathered(x, plan.sizes, plan.offsets)};
}

Results index_put(const Call &call) {
    const HostTensor x = dense_copy(call.tensor("self"));
    const IndexPlan plan = plan_index(call, x);
    const bool accumulate = call->flag("accumulate");
    return with_compute_type(x.dtype, [&](auto zero) -> Results {
        using T = decltype(zero);
        Array<T> result = load<T>(x);
        const Array<T> values = load<T>(call.tensor("values"), plan.sizes);
        for (size_t i = 0; i < plan.offsets.size(); i++) {
            T &to = result[plan.offsets[i]];
            to = accumulate ? to + values.data[i] : values.data[i];
        }
        return {store(result, x.dtype)};
    });
}

// The offsets of x[..., index, ...] for a list of indices along one dimension.
HostTensor along(const Call &call, const HostTensor &x, int64_t d, const HostTensor &index, const Extents &result_sizes) {
    const Array<int64_t> indices = load<int64_t>(index);
    HostTensor moved = x;   // the dimension first, as rows to pick from
    moved.sizes.erase(moved.sizes.begin() + d);
    moved.strides.erase(moved.strides.begin() + d);
    const Extents outer(moved.sizes.begin(), moved.sizes.begin() + d), inner(moved.sizes.begin() + d, moved.sizes.end());
    const Extents outer_strides(moved.strides.begin(), moved.strides.begin() + d);
    const Extents inner_strides(moved.strides.begin() + d, moved.strides.end());
    std::vector<int64_t> offsets;
    for_each_offset(outer, outer_strides, [&](int64_t a) {
        for (int64_t i : indices.data) {
            const int64_t row = settled(i, x.sizes[d], call) * x.strides[d];
            for_each_offset(inner, inner_strides, [&](int64_t c) { offsets.push_back(a + row + c); });
        }
    });
    return gathered(x, result_sizes, offsets);
}

Results index_copy(const Call &call) {
    const HostTensor x = dense_copy(call.tensor("self"));
    const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size()));
    const Array<int64_t> index = load<int64_t>(call.tensor("index"));
    const HostTensor source = call.tensor("source");
    const int64_t bytes = element_bytes(x.dtype);
    if (source.dtype != x.dtype) call.fail("source and self have different types");
    for (size_t i = 0; i < index.data.size(); i++) {
        HostTensor to = x, from = source;
        to.offset += settled(index.data[i], x.sizes[d], call) * x.strides[d];
        from.offset += static_cast<int64_t>(i) * source.strides[d];
        to.sizes[d] = from.sizes[d] = 1;
        const HostTensor values = dense_copy(from);
        int64_t next = 0;
        for_each_offset(to.sizes, to.strides, [&](int64_t offset) {
            std::memcpy(const_cast<std::byte *>(to.begin()) + offset * bytes, values.begin() + next++ * bytes, bytes);
        });
    }
    return {x};
}

// The offset in `x` of each element of `index`, which replaces the element's own coordinate in dimension d.
std::vector<int64_t> element_offsets(const Call &call, const HostTensor &x, int64_t d, const HostTensor &index) {
    const Array<int64_t> indices = load<int64_t>(index);
    std::vector<int64_t> offsets;
    Extents strides = x.strides;
    if (!strides.empty()) strides[d] = 0;
    size_t next = 0;
    for_each_offset(index.sizes, strides, [&](int64_t offset) {
        const int64_t along = settled(indices.data[next++], x.sizes.empty() ? 1 : x.sizes[d], call);
        offsets.push_back(offset + (x.sizes.empty() ? 0 : along * x.strides[d]));
    });
    return offsets;
}

Results gather(const Call &call) {
    const HostTensor x = call.tensor("self"), index = call.tensor("index");
    const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size()));
    return {gathered(x, index.sizes, element_offsets(call, x, d, index))};
}

Kernel scatter(bool add) {
    return [add](const Call &call) -> Results {
        const HostTensor x = dense_copy(call.tensor("self")), index = call.tensor("index");
        const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size()));
        const std::vector<int64_t> offsets = element_offsets(call, x, d, index);
        return with_compute_type(x.dtype, [&](auto zero) -> Results {
            using T = decltype(zero);
            Array<T> result = load<T>(x);
            Array<T> values;
            if (call->find("src")) {
                HostTensor part = call.tensor("src");
                part.sizes = index.sizes;
                values = load<T>(part);
            } else {
                values = Array<T>(index.sizes, load<T>(call.tensor("value"))[0]);
            }
            for (size_t i = 0; i < offsets.size(); i++) {
                result[offsets[i]] = add ? result[offsets[i]] + values.data[i] : values.data[i];
            }
            return {store(result, x.dtype)};
        });
    };
}

Results embedding(const Call &call) {
    const HostTensor weight = call.tensor("weight"), indices = call.tensor("indices");
    const HostTensor flat = dense_copy(indices);
    Extents sizes = indices.sizes;
    sizes.push_back(weight.sizes.at(1));
    return {along(call, weight, 0, flat, sizes)};
}

Results index_select(const Call &call) {
    const HostTensor x = call.tensor("self"), index = call.tensor("index");
    const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size()));
    Extents sizes = x.sizes;
    sizes[d] = index.elements();
    return {along(call, x, d, index, sizes)};
}

Results one_hot(const Call &call) {
    const HostTensor x = call.tensor("self");
    const Extents sizes = call.result_sizes();
    const Array<int64_t> classes = load<int64_t>(x);
    Array<int64_t> result(sizes);
    for (size_t i = 0; i < classes.data.size(); i++) {
        result[static_cast<int64_t>(i) * sizes.back() + settled(classes.data[i], sizes.back(), call)] = 1;
    }
    return {store(result, DType::Int64)};
}

}  // namespace

void add_indexing_kernels(Kernels &kernels) {
    kernels["aten::index.Tensor"] = kernels["aten::_unsafe_index.Tensor"] = index;
    kernels["aten::index_put"] = index_put;
    kernels["aten::index_copy"] = index_copy;
    kernels["aten::index_select"] = index_select;
    kernels["aten::embedding"] = embedding;
    kernels["aten::gather"] = gather;
    kernels["aten::scatter.src"] = kernels["aten::scatter.value"] = scatter(false);
    kernels["aten::scatter_add"] = scatter(true);
    kernels["aten::one_hot"] = one_hot;
}

}  // namespace atalla::interpreter
