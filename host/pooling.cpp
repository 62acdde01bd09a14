// Pooling over the last one or two dimensions.
#include <cmath>

#include "host/kernels.h"

namespace atalla {

namespace {

struct Window {
    int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
};

// The windows of height and width from the arguments; of one dimension, the height's is of a single row.
std::array<Window, 2> windows(const HostCall &call, int dims) {
    const std::vector<int64_t> kernel = call.integers("kernel_size"), stride = call.integers("stride"), padding = call.integers("padding"), dilation = call.integers("dilation");
    std::array<Window, 2> result;
    for (int d = 0; d < dims; d++) {
        Window &window = result[static_cast<size_t>(2 - dims + d)];
        const auto pick = [&](const std::vector<int64_t> &given, int64_t otherwise) {
            return given.empty() ? otherwise : given[given.size() == 1 ? 0 : static_cast<size_t>(d)];
        };
        window.kernel = pick(kernel, 1);
        window.stride = pick(stride, window.kernel);
        window.padding = pick(padding, 0);
        window.dilation = pick(dilation, 1);
    }
    return result;
}

struct Planes {
    int64_t count = 1, height = 1, width = 1, out_height = 1, out_width = 1;
};
Planes planes_of(const std::vector<int64_t> &in, const std::vector<int64_t> &out, int dims) {
    Planes planes;
    planes.width = in.back();
    planes.out_width = out.back();
    if (dims == 2) {
        planes.height = in[in.size() - 2];
        planes.out_height = out[out.size() - 2];
    }
    for (size_t d = 0; d + static_cast<size_t>(dims) < in.size(); d++) planes.count *= in[d];
    return planes;
}

std::vector<HostTensor> max_pool(const HostCall &call, int dims) {
    const HostTensor self = call.tensor("self");
    const std::vector<double> x = values_of<double>(self);
    const Planes p = planes_of(self.sizes, call.result().sizes, dims);
    const auto [rows, columns] = windows(call, dims);
    std::vector<double> values, indices;
    for (int64_t plane = 0; plane < p.count; plane++)
        for (int64_t i = 0; i < p.out_height; i++)
            for (int64_t j = 0; j < p.out_width; j++) {
                double largest = -INFINITY;
                int64_t best = -1;
                for (int64_t r = 0; r < rows.kernel; r++)
                    for (int64_t s = 0; s < columns.kernel; s++) {
                        const int64_t y = i * rows.stride - rows.padding + r * rows.dilation, z = j * columns.stride - columns.padding + s * columns.dilation;
                        if (y < 0 || y >= p.height || z < 0 || z >= p.width) continue;
                        const double value = x[static_cast<size_t>((plane * p.height + y) * p.width + z)];
                        if (best < 0 || value > largest || std::isnan(value)) {
                            largest = value;
                            best = y * p.width + z;
                        }
                    }
                values.push_back(largest);
                indices.push_back(static_cast<double>(best));
            }
    std::vector<HostTensor> results = {tensor_of_values(call.result(), values)};
    if (call.results() > 1) results.push_back(tensor_of_values(call.result(1), indices));
    return results;
}

std::vector<HostTensor> average_pool(const HostCall &call, int dims) {
    const HostTensor self = call.tensor("self");
    const std::vector<double> x = values_of<double>(self);
    const Planes p = planes_of(self.sizes, call.result().sizes, dims);
    const auto [rows, columns] = windows(call, dims);
    const bool count_pad = call.flag("count_include_pad", true);
    const int64_t divisor = call.integer("divisor_override", 0);
    std::vector<double> values;
    for (int64_t plane = 0; plane < p.count; plane++)
        for (int64_t i = 0; i < p.out_height; i++)
            for (int64_t j = 0; j < p.out_width; j++) {
                // Padding counts, but not what ceil_mode adds behind it.
                const int64_t y0 = i * rows.stride - rows.padding, z0 = j * columns.stride - columns.padding;
                const int64_t y1 = std::min(y0 + rows.kernel, p.height + rows.padding), z1 = std::min(z0 + columns.kernel, p.width + columns.padding);
                double sum = 0;
                int64_t inside = 0;
                for (int64_t y = std::max<int64_t>(y0, 0); y < std::min(y1, p.height); y++)
                    for (int64_t z = std::max<int64_t>(z0, 0); z < std::min(z1, p.width); z++, inside++) sum += x[static_cast<size_t>((plane * p.height + y) * p.width + z)];
                const int64_t count = divisor != 0 ? divisor : count_pad ? (y1 - y0) * (z1 - z0) : inside;
                values.push_back(sum / static_cast<double>(count));
            }
    return {tensor_of_values(call.result(), values)};
}

std::vector<HostTensor> adaptive_average(const HostCall &call, int dims) {
    const HostTensor self = call.tensor("self");
    const std::vector<double> x = values_of<double>(self);
    const Planes p = planes_of(self.sizes, call.result().sizes, dims);
    const auto first = [](int64_t i, int64_t in, int64_t out) { return i * in / out; };
    const auto last = [](int64_t i, int64_t in, int64_t out) { return ((i + 1) * in + out - 1) / out; };
    std::vector<double> values;
    for (int64_t plane = 0; plane < p.count; plane++)
        for (int64_t i = 0; i < p.out_height; i++)
            for (int64_t j = 0; j < p.out_width; j++) {
                double sum = 0;
                int64_t count = 0;
                for (int64_t y = first(i, p.height, p.out_height); y < last(i, p.height, p.out_height); y++)
                    for (int64_t z = first(j, p.width, p.out_width); z < last(j, p.width, p.out_width); z++, count++)
                        sum += x[static_cast<size_t>((plane * p.height + y) * p.width + z)];
                values.push_back(sum / static_cast<double>(count));
            }
    return {tensor_of_values(call.result(), values)};
}

}  // namespace

void add_pooling_kernels(HostKernels &kernels) {
    kernels["aten::max_pool2d"] = kernels["aten::max_pool2d_with_indices"] = [](const HostCall &call) { return max_pool(call, 2); };
    kernels["aten::max_pool1d"] = [](const HostCall &call) { return max_pool(call, 1); };
    kernels["aten::avg_pool2d"] = [](const HostCall &call) { return average_pool(call, 2); };
    kernels["aten::avg_pool1d"] = [](const HostCall &call) { return average_pool(call, 1); };
    kernels["aten::adaptive_avg_pool2d"] = kernels["aten::_adaptive_avg_pool2d"] = [](const HostCall &call) { return adaptive_average(call, 2); };
    kernels["aten::adaptive_avg_pool1d"] = [](const HostCall &call) { return adaptive_average(call, 1); };
}

}  // namespace atalla
