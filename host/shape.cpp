// Operators that rearrange: views where the strides allow it, copies where not.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "host/kernels.h"

namespace atalla {

namespace {

HostTensor reshaped(const HostTensor &tensor, const std::vector<int64_t> &sizes) {
    HostTensor result = tensor.is_dense() ? tensor : dense_copy(tensor);
    result.sizes = sizes;
    result.strides = dense_strides(sizes);
    return result;
}

// Elements of one tensor into a part of another of the same dtype; both have the sizes of `from`.
void copy_into(HostTensor &to, const std::vector<int64_t> &strides, int64_t offset, const HostTensor &from) {
    const HostTensor source = from.is_dense() ? from : dense_copy(from);
    const int64_t bytes = element_bytes(to.dtype);
    std::byte *target = mutable_data(to);
    std::vector<int64_t> index(source.sizes.size(), 0);
    const int64_t n = source.elements();
    for (int64_t i = 0; i < n; i++) {
        int64_t at = offset;
        for (size_t d = 0; d < index.size(); d++) at += index[d] * strides[d];
        std::memcpy(target + at * bytes, source.begin() + i * bytes, static_cast<size_t>(bytes));
        for (size_t d = index.size(); d-- > 0;) {
            if (++index[d] < source.sizes[d]) break;
            index[d] = 0;
        }
    }
}

HostTensor converted(const HostTensor &tensor, const HostType &type) {
    if (tensor.dtype == type.dtype) return tensor;
    if (is_floating(type.dtype) || (type.dtype == DType::Bool && is_floating(tensor.dtype)))
        return tensor_of_values(type, values_of<double>(tensor));
    if (is_floating(tensor.dtype)) return tensor_of_values(type, values_of<double>(tensor));
    return tensor_of_values(type, values_of<int64_t>(tensor));
}

HostTensor permuted(const HostTensor &tensor, const std::vector<int64_t> &dims) {
    HostTensor result = tensor;
    for (size_t d = 0; d < dims.size(); d++) {
        const auto from = static_cast<size_t>(dims[d] < 0 ? dims[d] + static_cast<int64_t>(dims.size()) : dims[d]);
        result.sizes[d] = tensor.sizes.at(from);
        result.strides[d] = tensor.strides.at(from);
    }
    return result;
}

int64_t clamp_index(int64_t index, int64_t size) { return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size); }

// What slice.Tensor means: start, length and step along a dimension.
HostTensor sliced(const HostCall &call, const HostTensor &self, int64_t dim) {
    const int64_t size = self.sizes[static_cast<size_t>(dim)], step = call.integer("step", 1);
    if (step < 1) call.refuse(fmt::format("step {}", step));
    const int64_t start = clamp_index(call.integer("start", 0), size), end = clamp_index(call.integer("end", INT64_MAX), size);
    HostTensor result = self;
    result.sizes[static_cast<size_t>(dim)] = end > start ? (end - start + step - 1) / step : 0;
    result.offset += start * self.strides[static_cast<size_t>(dim)];
    result.strides[static_cast<size_t>(dim)] *= step;
    return result;
}

HostTensor part(const HostTensor &self, int64_t dim, int64_t start, int64_t length) {
    HostTensor result = self;
    result.sizes[static_cast<size_t>(dim)] = length;
    result.offset += start * self.strides[static_cast<size_t>(dim)];
    return result;
}

HostTensor without_dimension(HostTensor tensor, int64_t dim) {
    tensor.sizes.erase(tensor.sizes.begin() + dim);
    tensor.strides.erase(tensor.strides.begin() + dim);
    return tensor;
}

void add_views(HostKernels &kernels) {
    for (const char *name : {"view", "_unsafe_view", "reshape", "flatten.using_ints", "unflatten.int", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims",
                             "unsqueeze_copy", "view_copy"})
        kernels[std::string("aten::") + name] = [](const HostCall &call) { return std::vector{reshaped(call.tensor_of({"self", "input"}), call.result().sizes)}; };
    for (const char *name : {"clone", "contiguous", "alias", "detach", "detach_", "lift_fresh_copy", "dropout", "_to_copy", "to.dtype", "to.device", "to.dtype_layout",
                             "type_as", "view.dtype", "native_dropout"})
        kernels[std::string("aten::") + name] = [](const HostCall &call) { return std::vector{converted(call.tensor_of({"self", "input"}), call.result())}; };
    for (const char *name : {"expand", "expand_as"})
        kernels[std::string("aten::") + name] = [](const HostCall &call) { return std::vector{broadcast(call.tensor("self"), call.result().sizes)}; };
    kernels["aten::permute"] = [](const HostCall &call) { return std::vector{permuted(call.tensor("self"), call.integers("dims"))}; };
    for (const char *name : {"aten::transpose.int", "aten::t", "aten::mT", "aten::numpy_T", "aten::swapaxes"})
        kernels[name] = [](const HostCall &call) {
            HostTensor self = call.tensor("self");
            if (self.sizes.size() < 2) return std::vector{self};
            const auto a = static_cast<size_t>(call.dimension("dim0", self.sizes.size(), -2)), b = static_cast<size_t>(call.dimension("dim1", self.sizes.size(), -1));
            std::swap(self.sizes[a], self.sizes[b]);
            std::swap(self.strides[a], self.strides[b]);
            return std::vector{self};
        };
    kernels["aten::slice.Tensor"] = [](const HostCall &call) {
        const HostTensor self = call.tensor("self");
        return std::vector{sliced(call, self, call.dimension("dim", self.sizes.size(), 0))};
    };
    kernels["aten::select.int"] = [](const HostCall &call) {
        const HostTensor self = call.tensor("self");
        const int64_t dim = call.dimension("dim", self.sizes.size()), size = self.sizes[static_cast<size_t>(dim)], index = call.integer("index", 0);
        if (index < -size || index >= size) call.refuse(fmt::format("index {} of a dimension of size {}", index, size));
        return std::vector{without_dimension(part(self, dim, index < 0 ? index + size : index, 1), dim)};
    };
    kernels["aten::unbind.int"] = [](const HostCall &call) {
        const HostTensor self = call.tensor("self");
        const int64_t dim = call.dimension("dim", self.sizes.size(), 0);
        std::vector<HostTensor> results;
        for (int64_t i = 0; i < self.sizes[static_cast<size_t>(dim)]; i++) results.push_back(without_dimension(part(self, dim, i, 1), dim));
        return results;
    };
    for (const char *name : {"aten::split.Tensor", "aten::split_with_sizes", "aten::chunk", "aten::split.sizes"})
        kernels[name] = [](const HostCall &call) {
            const HostTensor self = call.tensor("self");
            const int64_t dim = call.dimension("dim", self.sizes.size(), 0);
            std::vector<HostTensor> results;
            int64_t start = 0;
            for (size_t i = 0; i < call.results(); i++) {
                const int64_t length = call.result(i).sizes[static_cast<size_t>(dim)];
                results.push_back(part(self, dim, start, length));
                start += length;
            }
            return results;
        };
}

void add_copies(HostKernels &kernels) {
    for (const char *name : {"aten::cat", "aten::stack", "aten::concat"})
        kernels[name] = [](const HostCall &call) {
            HostTensor result = make_tensor(call.result().dtype, call.result().sizes);
            const bool stacked = call.node().target == "aten::stack";
            const int64_t dim = call.dimension("dim", result.sizes.size(), 0);
            int64_t at = 0;
            for (const std::optional<HostTensor> &given : call.tensors("tensors")) {
                HostTensor tensor = converted(*given, {result.dtype, given->sizes});
                if (stacked) tensor = reshaped(tensor, [&] {
                    std::vector<int64_t> sizes = tensor.sizes;
                    sizes.insert(sizes.begin() + dim, 1);
                    return sizes;
                }());
                if (tensor.sizes.size() != result.sizes.size()) continue;   // an empty one-dimensional tensor
                copy_into(result, result.strides, at * result.strides[static_cast<size_t>(dim)], tensor);
                at += tensor.sizes[static_cast<size_t>(dim)];
            }
            return std::vector{result};
        };
    kernels["aten::repeat"] = [](const HostCall &call) {
        const HostTensor self = call.tensor("self");
        HostTensor result = make_tensor(call.result().dtype, call.result().sizes);
        // As [r0, s0, r1, s1, ...], where the r are of stride 0.
        HostTensor wide = self;
        wide.sizes.clear();
        wide.strides.clear();
        const size_t missing = result.sizes.size() - self.sizes.size();
        for (size_t d = 0; d < result.sizes.size(); d++) {
            const int64_t size = d < missing ? 1 : self.sizes[d - missing];
            wide.sizes.insert(wide.sizes.end(), {size == 0 ? 0 : result.sizes[d] / size, size});
            wide.strides.insert(wide.strides.end(), {0, d < missing ? 0 : self.strides[d - missing]});
        }
        return std::vector{reshaped(dense_copy(wide), result.sizes)};
    };
    kernels["aten::flip"] = [](const HostCall &call) {
        const HostTensor self = dense_copy(call.tensor("self"));
        HostTensor result = make_tensor(self.dtype, self.sizes);
        std::vector<int64_t> strides = result.strides;
        int64_t offset = 0;
        for (int64_t dim : call.dimensions("dims", self.sizes.size())) {
            const auto d = static_cast<size_t>(dim);
            offset += (self.sizes[d] - 1) * strides[d];
            strides[d] = -strides[d];
        }
        if (self.elements() > 0) copy_into(result, strides, offset, self);
        return std::vector{result};
    };
    kernels["aten::roll"] = [](const HostCall &call) {
        HostTensor self = call.tensor("self");
        const std::vector<int64_t> shifts = call.integers("shifts"), dims = call.integers("dims");
        const std::vector<int64_t> sizes = self.sizes;
        if (dims.empty()) self = reshaped(self, {self.elements()});
        for (size_t s = 0; s < shifts.size(); s++) {
            const int64_t given = dims.empty() ? 0 : dims[s], dim = given < 0 ? given + static_cast<int64_t>(self.sizes.size()) : given;
            const int64_t size = self.sizes[static_cast<size_t>(dim)];
            if (size == 0) continue;
            const int64_t shift = ((shifts[s] % size) + size) % size;
            HostTensor result = make_tensor(self.dtype, self.sizes);
            copy_into(result, result.strides, shift * result.strides[static_cast<size_t>(dim)], part(self, dim, 0, size - shift));
            copy_into(result, result.strides, 0, part(self, dim, size - shift, shift));
            self = result;
        }
        return std::vector{reshaped(self, sizes)};
    };
    for (const char *name : {"aten::pad", "aten::constant_pad_nd"})
        kernels[name] = [](const HostCall &call) {
            if (call.has("mode") && call.node().string("mode") != "constant") call.refuse("only constant padding is there");
            HostTensor self = call.tensor("self");
            HostTensor result = tensor_of_values(call.result(), std::vector<double>(static_cast<size_t>(call.result().elements()), call.number("value", 0)));
            const std::vector<int64_t> pad = call.integers("pad");
            int64_t offset = 0;
            for (size_t p = 0; p + 1 < pad.size(); p += 2) {
                const size_t d = self.sizes.size() - 1 - p / 2;
                const int64_t before = pad[p], after = pad[p + 1];
                const int64_t cut = std::max<int64_t>(-before, 0);
                self = part(self, static_cast<int64_t>(d), cut, self.sizes[d] - cut - std::max<int64_t>(-after, 0));
                offset += std::max<int64_t>(before, 0) * result.strides[d];
            }
            if (self.elements() > 0) copy_into(result, result.strides, offset, self);
            return std::vector{result};
        };
    for (const char *name : {"aten::slice_scatter", "aten::select_scatter", "aten::copy", "aten::copy_"})
        kernels[name] = [](const HostCall &call) {
            HostTensor result = dense_copy(call.tensor("self"));
            HostTensor source = call.tensor("src");
            HostTensor place = result;
            if (call.node().target == "aten::slice_scatter") place = sliced(call, result, call.dimension("dim", result.sizes.size(), 0));
            if (call.node().target == "aten::select_scatter") {
                const int64_t dim = call.dimension("dim", result.sizes.size()), index = call.integer("index", 0);
                place = without_dimension(part(result, dim, index < 0 ? index + result.sizes[static_cast<size_t>(dim)] : index, 1), dim);
            }
            source = converted(broadcast(source, place.sizes), {result.dtype, place.sizes});
            const std::vector<int64_t> strides = place.strides;
            const int64_t offset = place.offset;
            place = {};   // `result` must be the only one of its storage
            HostTensor fresh = dense_copy(result);
            if (source.elements() > 0) copy_into(fresh, strides, offset, source);
            return std::vector{fresh};
        };
    for (const char *name : {"aten::tril", "aten::triu"})
        kernels[name] = [](const HostCall &call) {
            std::vector<double> values = values_of<double>(call.tensor("self"));
            const std::vector<int64_t> &sizes = call.result().sizes;
            const int64_t columns = sizes.back(), rows = sizes[sizes.size() - 2], diagonal = call.integer("diagonal", 0);
            const bool lower = call.node().target == "aten::tril";
            for (size_t i = 0; i < values.size(); i++) {
                const int64_t column = static_cast<int64_t>(i) % columns, row = static_cast<int64_t>(i) / columns % rows;
                if (lower ? column - row > diagonal : column - row < diagonal) values[i] = 0;
            }
            return std::vector{tensor_of_values(call.result(), values)};
        };
}

}  // namespace

void add_shape_kernels(HostKernels &kernels) {
    add_views(kernels);
    add_copies(kernels);
}

}  // namespace atalla
