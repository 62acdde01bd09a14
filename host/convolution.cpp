// Convolutions over one or two dimensions, and transposed ones, in float32.
#include <fmt/format.h>

#include "host/kernels.h"

namespace atalla {

namespace {

struct Plane {
    int64_t height = 1, width = 1;
};

// One or two numbers, height first; a single one counts for both.
Plane plane_of(const std::vector<int64_t> &given, int dims, int64_t otherwise) {
    if (given.empty()) return {dims == 1 ? (otherwise == 0 ? 0 : 1) : otherwise, otherwise};
    if (dims == 1) return {otherwise == 0 ? 0 : 1, given[0]};
    return given.size() == 1 ? Plane{given[0], given[0]} : Plane{given[0], given[1]};
}

HostTensor with_height(HostTensor tensor) {
    tensor.sizes.insert(tensor.sizes.end() - 1, 1);
    tensor.strides.insert(tensor.strides.end() - 1, 0);
    return tensor;
}

struct Convolution {
    Plane stride, padding, dilation;
    int64_t groups = 1;
};

std::vector<float> convolve(const HostTensor &input, const HostTensor &weight, const Convolution &how, int64_t out_height, int64_t out_width) {
    const int64_t batch = input.sizes[0], channels = input.sizes[1], height = input.sizes[2], width = input.sizes[3];
    const int64_t outputs = weight.sizes[0], depth = weight.sizes[1], rows = weight.sizes[2], columns = weight.sizes[3];
    const std::vector<float> x = values_of<float>(input), w = values_of<float>(weight);
    std::vector<float> y(static_cast<size_t>(batch * outputs * out_height * out_width), 0.0f);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t o = 0; o < outputs; o++) {
            float *plane = y.data() + (b * outputs + o) * out_height * out_width;
            const int64_t first = o / (outputs / how.groups) * depth;
            for (int64_t c = 0; c < depth; c++) {
                const float *image = x.data() + (b * channels + first + c) * height * width;
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t s = 0; s < columns; s++) {
                        const float factor = w[static_cast<size_t>(((o * depth + c) * rows + r) * columns + s)];
                        for (int64_t i = 0; i < out_height; i++) {
                            const int64_t at = i * how.stride.height - how.padding.height + r * how.dilation.height;
                            if (at < 0 || at >= height) continue;
                            for (int64_t j = 0; j < out_width; j++) {
                                const int64_t column = j * how.stride.width - how.padding.width + s * how.dilation.width;
                                if (column >= 0 && column < width) plane[i * out_width + j] += factor * image[at * width + column];
                            }
                        }
                    }
            }
        }
    return y;
}

// The transpose: every input element adds its multiple of the kernel to the output.
std::vector<float> scatter(const HostTensor &input, const HostTensor &weight, const Convolution &how, int64_t outputs, int64_t out_height, int64_t out_width) {
    const int64_t batch = input.sizes[0], channels = input.sizes[1], height = input.sizes[2], width = input.sizes[3];
    const int64_t depth = weight.sizes[1], rows = weight.sizes[2], columns = weight.sizes[3];
    const std::vector<float> x = values_of<float>(input), w = values_of<float>(weight);
    std::vector<float> y(static_cast<size_t>(batch * outputs * out_height * out_width), 0.0f);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t d = 0; d < depth; d++) {
                const int64_t o = c / (channels / how.groups) * depth + d;
                for (int64_t i = 0; i < height; i++)
                    for (int64_t j = 0; j < width; j++)
                        for (int64_t r = 0; r < rows; r++)
                            for (int64_t s = 0; s < columns; s++) {
                                const int64_t at = i * how.stride.height - how.padding.height + r * how.dilation.height;
                                const int64_t column = j * how.stride.width - how.padding.width + s * how.dilation.width;
                                if (at < 0 || at >= out_height || column < 0 || column >= out_width) continue;
                                y[static_cast<size_t>(((b * outputs + o) * out_height + at) * out_width + column)] +=
                                    x[static_cast<size_t>(((b * channels + c) * height + i) * width + j)] * w[static_cast<size_t>(((c * depth + d) * rows + r) * columns + s)];
                            }
            }
    return y;
}

std::vector<HostTensor> convolution(const HostCall &call) {
    HostTensor input = call.tensor("input"), weight = call.tensor("weight");
    const int dims = static_cast<int>(weight.sizes.size()) - 2;
    if (dims != 1 && dims != 2) call.refuse(fmt::format("{} spatial dimensions; one and two are there", dims));
    std::vector<int64_t> sizes = call.result().sizes;
    if (static_cast<int>(input.sizes.size()) == dims + 1) {   // without a batch
        input.sizes.insert(input.sizes.begin(), 1);
        input.strides.insert(input.strides.begin(), 0);
        sizes.insert(sizes.begin(), 1);
    }
    Convolution how;
    how.groups = call.integer("groups", 1);
    how.stride = plane_of(call.integers("stride"), dims, 1);
    how.dilation = plane_of(call.integers("dilation"), dims, 1);
    const Argument *padding = call.node().find("padding");
    if (padding != nullptr && std::holds_alternative<std::string>(*padding)) {
        // "same" puts the odd element behind.
        const bool same = call.node().string("padding") == "same";
        const int64_t rows = dims == 2 ? weight.sizes[2] : 1, columns = weight.sizes.back();
        if (same) how.padding = {how.dilation.height * (rows - 1) / 2, how.dilation.width * (columns - 1) / 2};
        else how.padding = {0, 0};
    } else {
        how.padding = plane_of(call.integers("padding"), dims, 0);
    }
    if (dims == 1) {
        input = with_height(input);
        weight = with_height(weight);
        sizes.insert(sizes.end() - 1, 1);
    }
    const bool transposed = call.flag("transposed", false) || call.node().target.find("conv_transpose") != std::string::npos;
    std::vector<float> values = transposed ? scatter(input, weight, how, sizes[1], sizes[2], sizes[3]) : convolve(input, weight, how, sizes[2], sizes[3]);
    if (const std::optional<HostTensor> bias = call.optional_tensor("bias")) {
        const std::vector<float> shift = values_of<float>(*bias);
        const auto plane = static_cast<size_t>(sizes[2] * sizes[3]);
        for (size_t i = 0; i < values.size(); i++) values[i] += shift[i / plane % shift.size()];
    }
    return {tensor_of_values(call.result(), values)};
}

}  // namespace

void add_convolution_kernels(HostKernels &kernels) {
    for (const char *name : {"aten::conv1d", "aten::conv1d.padding", "aten::conv2d", "aten::conv2d.padding", "aten::convolution", "aten::conv_transpose2d.input",
                             "aten::conv_transpose1d"})
        kernels[name] = convolution;
}

}  // namespace atalla
