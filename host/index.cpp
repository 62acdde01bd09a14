// Elements chosen by integer tensors.
#include <cstring>

#include <fmt/format.h>

#include "host/kernels.h"

namespace atalla {

namespace {

int64_t wrapped(const HostCall &call, int64_t index, int64_t size) {
    if (index < -size || index >= size) call.refuse(fmt::format("index {} is out of range of a dimension of size {}", index, size));
    return index < 0 ? index + size : index;
}

// result[..., i, ...] = self[..., indices[i], ...], the indices' dimensions in the place of `dim`.
HostTensor select_rows(const HostCall &call, const HostTensor &from, int64_t dim, const HostTensor &indices) {
    const HostTensor self = from.is_dense() ? from : dense_copy(from);
    const AxisSplit axis(self.sizes, dim);
    const std::vector<int64_t> rows = values_of<int64_t>(indices);
    HostTensor result = make_tensor(self.dtype, call.result().sizes);
    const int64_t bytes = axis.inner * element_bytes(self.dtype);
    if (result.elements() == 0) return result;
    std::byte *to = mutable_data(result);
    for (int64_t o = 0; o < axis.outer; o++)
        for (int64_t row : rows) {
            std::memcpy(to, self.begin() + (o * axis.length + wrapped(call, row, axis.length)) * bytes, static_cast<size_t>(bytes));
            to += bytes;
        }
    return result;
}

// The positions in a tensor that index.Tensor and index_put mean, in row-major order of [indexed sizes]; the sizes too.
struct Positions {
    std::vector<int64_t> sizes;
    std::vector<int64_t> offsets;   // elements, into a dense tensor
};

Positions positions(const HostCall &call, const std::vector<int64_t> &self_sizes) {
    std::vector<std::optional<HostTensor>> indices = call.tensors("indices");
    indices.resize(self_sizes.size());
    std::vector<int64_t> shape;   // of the indices together
    size_t first = self_sizes.size(), last = 0, count = 0;
    for (size_t d = 0; d < indices.size(); d++) {
        if (!indices[d]) continue;
        if (indices[d]->dtype == DType::Bool) call.refuse("a mask as an index is not there");
        first = std::min(first, d);
        last = d;
        count++;
        const std::vector<int64_t> &sizes = indices[d]->sizes;
        std::vector<int64_t> joined(std::max(shape.size(), sizes.size()), 1);
        for (size_t i = 0; i < joined.size(); i++) {
            const auto from_end = [&](const std::vector<int64_t> &s) { return i < s.size() ? s[s.size() - 1 - i] : int64_t{1}; };
            joined[joined.size() - 1 - i] = from_end(shape) == 1 ? from_end(sizes) : from_end(shape);
        }
        shape = joined;
    }
    // Neighbouring indices keep their place, separated ones move to the front.
    const bool together = count > 0 && last - first + 1 == count;
    const size_t place = together ? first : 0;
    Positions result;
    std::vector<size_t> kept;
    for (size_t d = 0; d < self_sizes.size(); d++)
        if (!indices[d]) kept.push_back(d);
    const size_t kept_before = together ? place : 0;
    for (size_t k = 0; k < kept_before; k++) result.sizes.push_back(self_sizes[kept[k]]);
    result.sizes.insert(result.sizes.end(), shape.begin(), shape.end());
    for (size_t k = kept_before; k < kept.size(); k++) result.sizes.push_back(self_sizes[kept[k]]);

    const std::vector<int64_t> strides = dense_strides(self_sizes);
    int64_t total = 1, chosen_count = 1;
    for (int64_t size : result.sizes) total *= size;
    for (int64_t size : shape) chosen_count *= size;
    std::vector<int64_t> chosen(static_cast<size_t>(chosen_count), 0);   // offset that the indices make
    for (size_t d = 0; d < indices.size(); d++) {
        if (!indices[d]) continue;
        const std::vector<int64_t> values = values_of<int64_t>(*indices[d], shape);
        for (size_t i = 0; i < values.size(); i++) chosen[i] += wrapped(call, values[i], self_sizes[d]) * strides[d];
    }
    std::vector<int64_t> index(result.sizes.size(), 0);
    for (int64_t i = 0; i < total; i++) {
        int64_t offset = 0, at = 0;
        for (size_t d = 0; d < index.size(); d++) {
            if (d >= kept_before && d < kept_before + shape.size()) at = at * shape[d - kept_before] + index[d];
            else offset += index[d] * strides[kept[d < kept_before ? d : d - shape.size()]];
        }
        result.offsets.push_back(offset + chosen[static_cast<size_t>(at)]);
        for (size_t d = index.size(); d-- > 0;) {
            if (++index[d] < result.sizes[d]) break;
            index[d] = 0;
        }
    }
    return result;
}

}  // namespace

void add_index_kernels(HostKernels &kernels) {
    kernels["aten::embedding"] = [](const HostCall &call) { return std::vector{select_rows(call, call.tensor("weight"), 0, call.tensor("indices"))}; };
    kernels["aten::index_select"] = [](const HostCall &call) {
        const HostTensor self = call.tensor("self");
        return std::vector{select_rows(call, self, call.dimension("dim", self.sizes.size()), call.tensor("index"))};
    };
    kernels["aten::gather"] = [](const HostCall &call) {
        const HostTensor self = dense_copy(call.tensor("self")), index = call.tensor("index");
        const int64_t dim = call.dimension("dim", self.sizes.size());
        const std::vector<int64_t> rows = values_of<int64_t>(index);
        HostTensor result = make_tensor(self.dtype, index.sizes);
        const int64_t bytes = element_bytes(self.dtype);
        if (rows.empty()) return std::vector{result};
        std::byte *to = mutable_data(result);
        std::vector<int64_t> at(index.sizes.size(), 0);
        for (int64_t row : rows) {
            int64_t offset = 0;
            for (size_t d = 0; d < at.size(); d++)
                offset += (static_cast<int64_t>(d) == dim ? wrapped(call, row, self.sizes[d]) : at[d]) * self.strides[d];
            std::memcpy(to, self.begin() + offset * bytes, static_cast<size_t>(bytes));
            to += bytes;
            for (size_t d = at.size(); d-- > 0;) {
                if (++at[d] < index.sizes[d]) break;
                at[d] = 0;
            }
        }
        return std::vector{result};
    };
    kernels["aten::index.Tensor"] = [](const HostCall &call) {
        const HostTensor self = dense_copy(call.tensor("self"));
        const Positions where = positions(call, self.sizes);
        HostTensor result = make_tensor(self.dtype, call.result().sizes);
        const auto bytes = static_cast<size_t>(element_bytes(self.dtype));
        if (where.offsets.empty()) return std::vector{result};
        std::byte *to = mutable_data(result);
        for (size_t i = 0; i < where.offsets.size(); i++) std::memcpy(to + i * bytes, self.begin() + where.offsets[i] * static_cast<int64_t>(bytes), bytes);
        return std::vector{result};
    };
    for (const char *name : {"aten::index_put", "aten::index_put_"})
        kernels[name] = [](const HostCall &call) {
            const HostTensor self = call.tensor("self");
            const Positions where = positions(call, self.sizes);
            std::vector<double> result = values_of<double>(self);
            const std::vector<double> values = values_of<double>(call.tensor("values"), where.sizes);
            const bool accumulate = call.flag("accumulate", false);
            for (size_t i = 0; i < values.size(); i++) {
                double &at = result[static_cast<size_t>(where.offsets[i])];
                at = accumulate ? at + values[i] : values[i];
            }
            return std::vector{tensor_of_values(call.result(), result)};
        };
    for (const char *name : {"aten::index_copy", "aten::index_copy_"})
        kernels[name] = [](const HostCall &call) {
            HostTensor result = dense_copy(call.tensor("self"));
            const HostTensor source = dense_copy(call.tensor("source"));
            const int64_t dim = call.dimension("dim", result.sizes.size());
            const AxisSplit axis(result.sizes, dim);
            const std::vector<int64_t> rows = values_of<int64_t>(call.tensor("index"));
            const int64_t bytes = axis.inner * element_bytes(result.dtype), length = static_cast<int64_t>(rows.size());
            std::byte *to = mutable_data(result);
            for (int64_t o = 0; o < axis.outer; o++)
                for (int64_t i = 0; i < length; i++)
                    std::memcpy(to + (o * axis.length + wrapped(call, rows[static_cast<size_t>(i)], axis.length)) * bytes,
                                source.begin() + (o * length + i) * bytes, static_cast<size_t>(bytes));
            return std::vector{result};
        };
}

}  // namespace atalla
