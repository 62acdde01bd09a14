// Convolutions, pooling and resampling: operators that slide windows over images.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "graph_import/interpreter/call.h"
#include "graph_import/resampling.h"

namespace atalla::interpreter {

namespace {

// Everything is computed with two dimensions; one-dimensional operators have a height of 1.
struct Window {
    int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
};

void read(const Call &call, const char *name, int64_t rank, int64_t (&to)[2]) {
    const Extents given = call->integers(name);
    if (given.empty()) return;
    for (int64_t i = 0; i < rank; i++) to[2 - rank + i] = given.size() == 1 ? given[0] : given.at(i);
}

// With batch and height where they are missing: [batch, channels, height, width].
HostTensor as_images(HostTensor x, int64_t rank, const Call &call) {
    const auto insert = [&](int64_t at) {
        x.sizes.insert(x.sizes.begin() + at, 1);
        x.strides.insert(x.strides.begin() + at, 0);
    };
    if (static_cast<int64_t>(x.sizes.size()) == rank + 1) insert(0);
    if (static_cast<int64_t>(x.sizes.size()) != rank + 2) call.fail("an image, or a batch of them, is expected");
    if (rank == 1) insert(2);
    return x;
}

HostTensor reshaped(HostTensor x, const Extents &sizes) {
    x.sizes = sizes;
    x.strides = dense_strides(sizes);
    return x;
}

template <typename T>
Array<T> convolve(const Array<T> &x, const Array<T> &w, const Window &window, int64_t groups, const int64_t (&size)[2]) {
    const int64_t images = x.size(0), height = x.size(2), width = x.size(3);
    const int64_t outputs = w.size(0), depth = w.size(1), kh = w.size(2), kw = w.size(3);
    Array<T> result({images, outputs, size[0], size[1]});
    std::vector<double> sums(size[1]);
    for (int64_t n = 0; n < images; n++) {
        for (int64_t o = 0; o < outputs; o++) {
            const int64_t first = o / (outputs / groups) * depth;
            for (int64_t oy = 0; oy < size[0]; oy++) {
                std::fill(sums.begin(), sums.end(), 0.0);
                for (int64_t c = 0; c < depth; c++) {
                    for (int64_t ky = 0; ky < kh; ky++) {
                        const int64_t y = oy * window.stride[0] - window.padding[0] + ky * window.dilation[0];
                        if (y < 0 || y >= height) continue;
                        const T *row = &x.data[((n * x.size(1) + first + c) * height + y) * width];
                        for (int64_t kx = 0; kx < kw; kx++) {
                            const double factor = w[((o * depth + c) * kh + ky) * kw + kx];
                            const int64_t shift = kx * window.dilation[1] - window.padding[1];
                            for (int64_t ox = 0; ox < size[1]; ox++) {
                                const int64_t at = ox * window.stride[1] + shift;
                                if (at >= 0 && at < width) sums[ox] += factor * row[at];
                            }
                        }
                    }
                }
                for (int64_t ox = 0; ox < size[1]; ox++) {
                    result[((n * outputs + o) * size[0] + oy) * size[1] + ox] = static_cast<T>(sums[ox]);
                }
            }
        }
    }
    return result;
}

// Scatters what convolve gathers; weights are [inputs, outputs / groups, ...].
template <typename T>
Array<T> convolve_transposed(const Array<T> &x, const Array<T> &w, const Window &window, int64_t groups,
                             const int64_t (&size)[2]) {
    const int64_t depth = w.size(1), inputs = x.size(1), outputs = depth * groups;
    Array<T> result({x.size(0), outputs, size[0], size[1]});
    for (int64_t n = 0; n < x.size(0); n++) {
        for (int64_t i = 0; i < inputs; i++) {
            for (int64_t c = 0; c < depth; c++) {
                const int64_t o = i / (inputs / groups) * depth + c;
                for (int64_t y = 0; y < x.size(2); y++) {
                    for (int64_t xx = 0; xx < x.size(3); xx++) {
                        const T value = x[((n * inputs + i) * x.size(2) + y) * x.size(3) + xx];
                        for (int64_t ky = 0; ky < w.size(2); ky++) {
                            for (int64_t kx = 0; kx < w.size(3); kx++) {
                                const int64_t oy = y * window.stride[0] - window.padding[0] + ky * window.dilation[0];
                                const int64_t ox = xx * window.stride[1] - window.padding[1] + kx * window.dilation[1];
                                if (oy < 0 || oy >= size[0] || ox < 0 || ox >= size[1]) continue;
                                result[((n * outputs + o) * size[0] + oy) * size[1] + ox] +=
                                    value * w[((i * depth + c) * w.size(2) + ky) * w.size(3) + kx];
                            }
                        }
                    }
                }
            }
        }
    }
    return result;
}

Kernel convolution(int64_t known_rank, bool always_transposed) {
    return [=](const Call &call) -> Results {
        const HostTensor input = call.tensor("input"), weight = call.tensor("weight");
        const int64_t rank = known_rank ? known_rank : static_cast<int64_t>(weight.sizes.size()) - 2;
        if (rank != 1 && rank != 2) call.fail("only one and two dimensions are computed on the host");
        Window window;
        read(call, "stride", rank, window.stride);
        read(call, "dilation", rank, window.dilation);
        const HostTensor filters = as_images(weight, rank, call);
        if (call->target.ends_with(".padding")) {
            const bool same = call->string("padding") == "same";
            for (int64_t i = 2 - rank; i < 2 && same; i++) {
                window.padding[i] = window.dilation[i] * (filters.sizes[2 + i] - 1) / 2;  // the odd one goes behind
            }
        } else {
            read(call, "padding", rank, window.padding);
        }
        const int64_t groups = call->integer("groups");
        const bool transposed = always_transposed || (call->find("transposed") && call->flag("transposed"));
        const Extents sizes = call.result_sizes();
        const int64_t size[2] = {rank == 2 ? sizes[sizes.size() - 2] : 1, sizes.back()};
        return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
            using T = decltype(zero);
            const Array<T> x = load<T>(as_images(input, rank, call)), w = load<T>(filters);
            if (groups < 1 || x.size(1) % groups || w.size(0) % groups) call.fail("the groups do not divide the channels");
            if ((transposed ? w.size(0) : w.size(1) * groups) != x.size(1))
                call.fail("the filters have another number of channels");
            Array<T> result =
                transposed ? convolve_transposed(x, w, window, groups, size) : convolve(x, w, window, groups, size);
            if (call.has("bias")) {
                const Array<T> bias = load<T>(call.tensor("bias"));
                const int64_t area = size[0] * size[1];
                for (int64_t i = 0; i < static_cast<int64_t>(result.data.size()); i++)
                    result[i] += bias[i / area % result.size(1)];
            }
            return {reshaped(store(result, call.result_dtype()), sizes)};
        });
    };
}

Kernel pooling(int64_t rank, bool average) {
    return [=](const Call &call) -> Results {
        Window window;
        read(call, "kernel_size", rank, window.kernel);
        std::copy(window.kernel, window.kernel + 2, window.stride);  // if none is given
        if (!call->integers("stride").empty()) read(call, "stride", rank, window.stride);
        read(call, "padding", rank, window.padding);
        if (call->find("dilation")) read(call, "dilation", rank, window.dilation);
        const bool count_padding = average && call->flag("count_include_pad");
        const auto divisor =
            average && call->find("divisor_override") ? call->optional_integer("divisor_override") : std::nullopt;
        const Extents sizes = call.result_sizes();
        const int64_t size[2] = {rank == 2 ? sizes[sizes.size() - 2] : 1, sizes.back()};
        return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
            using T = decltype(zero);
            const Array<T> x = load<T>(as_images(call.tensor("self"), rank, call));
            const int64_t height = x.size(2), width = x.size(3), planes = x.size(0) * x.size(1);
            Array<T> result(sizes);
            Array<int64_t> indices(sizes);
            for (int64_t i = 0; i < static_cast<int64_t>(result.data.size()); i++) {
                const int64_t plane = i / (size[0] * size[1]) % planes, oy = i / size[1] % size[0], ox = i % size[1];
                double total = 0;
                int64_t seen = 0, counted = 0, best = -1;
                for (int64_t ky = 0; ky < window.kernel[0]; ky++) {
                    for (int64_t kx = 0; kx < window.kernel[1]; kx++) {
                        const int64_t y = oy * window.stride[0] - window.padding[0] + ky * window.dilation[0];
                        const int64_t xx = ox * window.stride[1] - window.padding[1] + kx * window.dilation[1];
                        counted += y < height + window.padding[0] && xx < width + window.padding[1];
                        if (y < 0 || y >= height || xx < 0 || xx >= width) continue;
                        const int64_t at = y * width + xx;
                        const T value = x[plane * height * width + at];
                        total += static_cast<double>(value);
                        seen++;
                        const T largest = best < 0 ? value : x[plane * height * width + best];
                        if (best < 0 || value > largest || value != value) best = at;
                    }
                }
                if (average) {
                    result[i] = static_cast<T>(total / static_cast<double>(divisor.value_or(count_padding ? counted : seen)));
                } else {
                    result[i] = x[plane * height * width + best];
                    indices[i] = best;
                }
            }
            Results results = {store(result, call.result_dtype())};
            if (call->outputs.size() > 1) results.push_back(store(indices, DType::Int64));
            return results;
        });
    };
}

// The elements of an axis that one of so many parts has, from the first to behind the last; neighbours may share some.
std::pair<int64_t, int64_t> part_of(int64_t elements, int64_t part, int64_t parts) {
    return {part * elements / parts, ((part + 1) * elements + parts - 1) / parts};
}

Kernel adaptive_average(int64_t rank) {
    return [rank](const Call &call) -> Results {
        const Extents sizes = call.result_sizes();
        const int64_t size[2] = {rank == 2 ? sizes[sizes.size() - 2] : 1, sizes.back()};
        return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
            using T = decltype(zero);
            const Array<T> x = load<T>(as_images(call.tensor("self"), rank, call));
            Array<T> result(sizes);
            const int64_t extent[2] = {x.size(2), x.size(3)};
            for (int64_t i = 0; i < static_cast<int64_t>(result.data.size()); i++) {
                const int64_t plane = i / (size[0] * size[1]), at[2] = {i / size[1] % size[0], i % size[1]};
                int64_t from[2], to[2];
                for (int d = 0; d < 2; d++) std::tie(from[d], to[d]) = part_of(extent[d], at[d], size[d]);
                double total = 0;
                for (int64_t y = from[0]; y < to[0]; y++) {
                    for (int64_t xx = from[1]; xx < to[1]; xx++) total += x[(plane * extent[0] + y) * extent[1] + xx];
                }
                result[i] = static_cast<T>(total / static_cast<double>((to[0] - from[0]) * (to[1] - from[1])));
            }
            return {store(result, call.result_dtype())};
        });
    };
}

// The largest element of each part of an image, the first of equals, and its place.
Kernel adaptive_maximum(int64_t rank) {
    return [rank](const Call &call) -> Results {
        const Extents sizes = call.result_sizes();
        const int64_t size[2] = {rank == 2 ? sizes[sizes.size() - 2] : 1, sizes.back()};
        return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
            using T = decltype(zero);
            const Array<T> x = load<T>(as_images(call.tensor("self"), rank, call));
            Array<T> result(sizes);
            Array<int64_t> indices(sizes);
            const int64_t extent[2] = {x.size(2), x.size(3)};
            for (int64_t i = 0; i < static_cast<int64_t>(result.data.size()); i++) {
                const int64_t at[2] = {i / size[1] % size[0], i % size[1]};
                const T *plane = x.data.data() + i / (size[0] * size[1]) * extent[0] * extent[1];
                int64_t from[2], to[2];
                for (int d = 0; d < 2; d++) std::tie(from[d], to[d]) = part_of(extent[d], at[d], size[d]);
                int64_t best = from[0] * extent[1] + from[1];
                for (int64_t y = from[0]; y < to[0]; y++) {
                    for (int64_t xx = from[1]; xx < to[1]; xx++) {
                        const int64_t place = y * extent[1] + xx;
                        if (plane[place] > plane[best] || plane[place] != plane[place]) best = place;
                    }
                }
                result[i] = plane[best];
                indices[i] = best;
            }
            Results results = {store(result, call.result_dtype())};
            if (call->outputs.size() > 1) results.push_back(store(indices, DType::Int64));
            return results;
        });
    };
}

// Images of other sizes.
Kernel resampled(Resizing how) {
    return [how](const Call &call) -> Results {
        const Array<float> x = load<float>(as_images(call.tensor(call->find("input") ? "input" : "self"), 2, call));
        const Extents sizes = call.result_sizes();
        Array<float> result(sizes);
        const int64_t extent[2] = {x.size(2), x.size(3)}, size[2] = {sizes[sizes.size() - 2], sizes.back()};
        const Taps rows = resized(how, *call, 0, extent[0], size[0]), columns = resized(how, *call, 1, extent[1], size[1]);
        for (int64_t i = 0; i < static_cast<int64_t>(result.data.size()); i++) {
            const float *plane = &x.data[i / (size[0] * size[1]) * extent[0] * extent[1]];
            double total = 0;
            for (const Tap &row : rows[i / size[1] % size[0]])
                for (const Tap &column : columns[i % size[1]])
                    total += row.weight * column.weight * static_cast<double>(plane[row.from * extent[1] + column.from]);
            result[i] = static_cast<float>(total);
        }
        return {store(result, call.result_dtype())};
    };
}

}  // namespace

void add_window_kernels(Kernels &kernels) {
    kernels["aten::conv1d"] = kernels["aten::conv1d.padding"] = convolution(1, false);
    kernels["aten::conv2d"] = kernels["aten::conv2d.padding"] = convolution(2, false);
    kernels["aten::convolution"] = convolution(0, false);
    kernels["aten::conv_transpose1d"] = convolution(1, true);
    kernels["aten::conv_transpose2d.input"] = convolution(2, true);
    kernels["aten::max_pool1d"] = kernels["aten::max_pool1d_with_indices"] = pooling(1, false);
    kernels["aten::max_pool2d"] = kernels["aten::max_pool2d_with_indices"] = pooling(2, false);
    kernels["aten::avg_pool1d"] = pooling(1, true);
    kernels["aten::avg_pool2d"] = pooling(2, true);
    kernels["aten::adaptive_avg_pool1d"] = adaptive_average(1);
    kernels["aten::adaptive_avg_pool2d"] = kernels["aten::_adaptive_avg_pool2d"] = adaptive_average(2);
    kernels["aten::adaptive_max_pool1d"] = adaptive_maximum(1);
    kernels["aten::adaptive_max_pool2d"] = adaptive_maximum(2);
    for (const char *name :
         {"aten::upsample_nearest2d", "aten::upsample_nearest2d.vec", "aten::_upsample_nearest_exact2d",
          "aten::_upsample_nearest_exact2d.vec", "aten::upsample_bilinear2d", "aten::upsample_bilinear2d.vec",
          "aten::upsample_bicubic2d", "aten::upsample_bicubic2d.vec", "aten::_upsample_bilinear2d_aa",
          "aten::_upsample_bilinear2d_aa.vec", "aten::_upsample_bicubic2d_aa", "aten::_upsample_bicubic2d_aa.vec"})
        kernels[name] = resampled(resizing_of(name));
}

}  // namespace atalla::interpreter
