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
        call.fail("a mask has size " + std::to_string(mask.sizes[d]) + " where the tensor has " +
                  std::to_string(x.sizes[first + d]));
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
    Extents together;  // that the indices broadcast to
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
    HostTensor moved = x;  // the dimension first, as rows to pick from
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

Results index_add(const Call &call) {
    const HostTensor x = dense_copy(call.tensor("self")), source = call.tensor("source");
    const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size()));
    const Array<int64_t> index = load<int64_t>(call.tensor("index"));
    return with_compute_type(x.dtype, [&](auto zero) -> Results {
        using T = decltype(zero);
        Array<T> result = load<T>(x);
        const Array<T> added = load<T>(source);
        const T alpha = static_cast<T>(call->number("alpha"));
        const int64_t count = index.rank() == 0 ? 1 : index.size(0),
                      inner = product(Extents(x.sizes.begin() + std::min<int64_t>(d + 1, static_cast<int64_t>(x.sizes.size())),
                                              x.sizes.end()));
        const int64_t size = x.sizes.empty() ? 1 : x.sizes[static_cast<size_t>(d)];
        for (int64_t i = 0; i < static_cast<int64_t>(added.data.size()); i++) {
            const int64_t to = settled(index[i / inner % count], size, call);
            result[(i / (inner * count) * size + to) * inner + i % inner] += alpha * added[i];
        }
        return {store(result, x.dtype)};
    });
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

// What `src` has for each place is joined with what is there, or, without self, with each other.
Results scatter_reduce(const Call &call) {
    const HostTensor x = dense_copy(call.tensor("self")), index = call.tensor("index");
    const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size()));
    const std::vector<int64_t> offsets = element_offsets(call, x, d, index);
    const std::string how = call->string("reduce");
    const bool joined = call->flag("include_self");
    HostTensor part = call.tensor("src");
    part.sizes = index.sizes;
    return with_compute_type(x.dtype, [&](auto zero) -> Results {
        using T = decltype(zero);
        Array<T> result = load<T>(x);
        const Array<T> values = load<T>(part);
        std::vector<int64_t> counts(result.data.size(), joined ? 1 : 0);
        for (size_t i = 0; i < offsets.size(); i++) {
            T &to = result[offsets[i]];
            const T value = values.data[i];
            if (counts[static_cast<size_t>(offsets[i])]++ == 0)
                to = value;
            else if (how == "sum" || how == "mean")
                to += value;
            else if (how == "prod")
                to *= value;
            else if (how == "amax")
                to = to != to || to > value ? to : value;
            else if (how == "amin")
                to = to != to || to < value ? to : value;
            else
                call.fail("reduction '" + how + "' is not known");
        }
        for (size_t i = 0; how == "mean" && i < counts.size(); i++) {
            const T count = static_cast<T>(std::max<int64_t>(counts[i], 1));
            T &mean = result.data[i];
            if constexpr (std::is_integral_v<T>)
                mean = mean / count - (mean % count < 0);
            else
                mean /= count;
        }
        return {store(result, x.dtype)};
    });
}

// The source's elements, one after the other, where the mask is true.
Results masked_scatter(const Call &call) {
    const HostTensor mask = call.tensor("mask"), x = call.tensor("self"), source = dense_copy(call.tensor("source"));
    if (source.dtype != x.dtype) call.fail("source and self have different types");
    const Extents sizes = broadcast(x.sizes, mask.sizes);
    const Array<int64_t> chosen = load<int64_t>(mask, sizes);
    HostTensor result = dense_copy(expand(x, sizes));
    const int64_t bytes = element_bytes(x.dtype);
    std::byte *to = const_cast<std::byte *>(result.begin());
    int64_t next = 0;
    for (size_t i = 0; i < chosen.data.size(); i++) {
        if (!chosen.data[i]) continue;
        if (next == source.elements()) call.fail("the mask has more places than the source has elements");
        std::memcpy(to + static_cast<int64_t>(i) * bytes, source.begin() + next++ * bytes, bytes);
    }
    return {result};
}

// For each value how many of the sorted ones are below it, or, on the right, not above it. NaN is behind all.
Results search(const Call &call, const HostTensor &sorted, const HostTensor &values, bool right) {
    const DType dtype = promoted_dtype({sorted, values}, {false, false});
    const int64_t length = sorted.sizes.empty() ? 1 : sorted.sizes.back();
    return with_compute_type(dtype, [&](auto zero) -> Results {
        using T = decltype(zero);
        const Array<T> rows = load<T>(sorted), wanted = load<T>(values);
        const int64_t each =
            rows.data.size() == static_cast<size_t>(length) ? static_cast<int64_t>(wanted.data.size()) : values.sizes.back();
        Array<int64_t> found(values.sizes);
        for (int64_t i = 0; i < static_cast<int64_t>(wanted.data.size()); i++) {
            const T *row = rows.data.data() + i / std::max<int64_t>(each, 1) * length;
            const T value = wanted[i];
            found[i] =
                std::partition_point(row, row + length, [&](T one) { return right ? !(one > value) : !(one >= value); }) - row;
        }
        return {store(found, call.result_dtype())};
    });
}

Results bucketize(const Call &call) {
    return search(call, call.tensor("boundaries"), call.tensor("self"), call->flag("right"));
}

Results searchsorted(const Call &call) {
    if (call.has("sorter")) call.fail("a sequence that is sorted by a tensor of indices is not computed on the host");
    return search(call, call.tensor("sorted_sequence"), call.tensor("self"),
                  call->flag("right") || (call.has("side") && call->string("side") == "right"));
}

// Sums, means or maxima of rows of a table, as many for each result as lie between two offsets.
Results embedding_bag(const Call &call) {
    if (call->outputs.size() > 1 && call->outputs[1]) call.fail("only the bags themselves are computed on the host");
    const HostTensor ids = call.tensor("indices"), starts = call.tensor("offsets");
    const int64_t mode = call->integer("mode"), skipped = call->optional_integer("padding_idx").value_or(-1);
    const Extents sizes = call.result_sizes();
    const int64_t width = sizes.at(1), bags = sizes.at(0);
    if (ids.sizes.size() != 1) call.fail("indices of one dimension are expected");
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        using T = decltype(zero);
        const HostTensor weight = call.tensor("weight");
        const Array<T> table = load<T>(weight);
        const Array<int64_t> index = load<int64_t>(ids), offset = load<int64_t>(starts);
        Array<T> factors;
        if (call.has("per_sample_weights")) factors = load<T>(call.tensor("per_sample_weights"));
        Array<T> result(sizes);
        for (int64_t bag = 0; bag < bags; bag++) {
            const int64_t end = bag + 1 < offset.size(0) ? offset[bag + 1] : index.size(0);
            if (offset[bag] < 0 || offset[bag] > end || end > index.size(0))
                call.fail("the offsets of the bags do not ascend within the indices");
            std::vector<double> row(static_cast<size_t>(width), 0);
            int64_t count = 0;
            for (int64_t i = offset[bag]; i < end; i++) {
                const int64_t id = settled(index[i], table.size(0), call);
                if (id == skipped) continue;
                for (int64_t c = 0; c < width; c++) {
                    const double value = static_cast<double>(table[id * width + c]) *
                                         (factors.data.empty() ? 1 : static_cast<double>(factors[i]));
                    double &to = row[static_cast<size_t>(c)];
                    to = mode != 2 ? to + value : count == 0 || value > to || value != value ? value : to;
                }
                count++;
            }
            for (int64_t c = 0; c < width; c++)
                result[bag * width + c] =
                    static_cast<T>(mode == 1 ? row[static_cast<size_t>(c)] / static_cast<double>(std::max<int64_t>(count, 1))
                                             : row[static_cast<size_t>(c)]);
        }
        return Results(call->outputs.size(), store(result, call.result_dtype()));
    });
}

// Each index as often as it says, or each part of a tensor.
Results repeat_by_counts(const Call &call) {
    const bool indices = call->find("self") == nullptr;
    const Array<int64_t> counts = load<int64_t>(call.tensor("repeats"));
    std::vector<int64_t> places;
    for (int64_t i = 0; i < static_cast<int64_t>(counts.data.size()); i++) {
        if (counts[i] < 0) call.fail("repeats cannot be negative");
        places.insert(places.end(), static_cast<size_t>(counts[i]), i);
    }
    Array<int64_t> index(Extents{static_cast<int64_t>(places.size())});
    index.data = places;
    if (indices) return {store(index, call.result_dtype())};
    HostTensor x = call.tensor("self");
    if (!call.has("dim")) {
        x = dense_copy(x);
        x.sizes = {x.elements()};
        x.strides = {1};
    }
    const int64_t d = call.has("dim") ? call.dimension("dim", static_cast<int64_t>(x.sizes.size())) : 0;
    if (counts.data.size() == 1) {
        index = Array<int64_t>(Extents{x.sizes[d] * counts[0]});
        for (int64_t i = 0; i < index.size(0); i++) index[i] = i / counts[0];
    }
    Extents sizes = x.sizes;
    sizes[d] = index.size(0);
    return {along(call, x, d, store(index, DType::Int64), sizes)};
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
    kernels["aten::index_add"] = index_add;
    kernels["aten::index_select"] = index_select;
    kernels["aten::embedding"] = embedding;
    kernels["aten::gather"] = gather;
    kernels["aten::scatter.src"] = kernels["aten::scatter.value"] = scatter(false);
    kernels["aten::scatter_add"] = scatter(true);
    kernels["aten::scatter_reduce.two"] = scatter_reduce;
    kernels["aten::masked_scatter"] = masked_scatter;
    kernels["aten::bucketize.Tensor"] = kernels["aten::bucketize.Scalar"] = bucketize;
    kernels["aten::searchsorted.Tensor"] = kernels["aten::searchsorted.Scalar"] = searchsorted;
    for (const char *name : {"aten::embedding_bag", "aten::embedding_bag.padding_idx", "aten::_embedding_bag",
                             "aten::_embedding_bag_forward_only"})
        kernels[name] = embedding_bag;
    kernels["aten::repeat_interleave.Tensor"] = kernels["aten::repeat_interleave.self_Tensor"] = repeat_by_counts;
    kernels["aten::one_hot"] = one_hot;
}

}  // namespace atalla::interpreter
