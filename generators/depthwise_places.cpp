#include "generators/depthwise_places.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generators/depthwise_windows.h"
#include "generators/pipeline_workload.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "schedules/sums_bound.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

class DepthwisePlaces : public PipelineWorkload {
public:
    DepthwisePlaces(const WorkloadRequest &request, const PoolShape &windows, const Shape &result)
        : PipelineWorkload(request), windows_(windows) {
        for (const char *name : {"X", "F", "bias"})
            if (inputs_.size() < request.tensors.size())
                inputs_.push_back(tensor_spec(name, request.tensors[inputs_.size()].shape));
        set_result("Y", result);
    }

    double flops() const override { return 2 * static_cast<double>(outputs_[0].elements() * taps()); }
    Space space(const Machine &machine) const override { return form(machine).space(windows_, machine); }
    Point naive_point(const Machine &machine) const override { return form(machine).naive_point(windows_, machine); }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        return named(form(machine).kernel(windows_, machine, point));
    }
    double draft(const Machine &machine, const Point &point) const override {
        return form(machine).draft(windows_, machine, point);
    }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        Reference result;
        const PoolAxis &ax = windows_.x, &ay = windows_.y;
        for (int64_t image = 0; image < windows_.images; image++)
            for (int64_t row = 0; row < ay.results; row++)
                for (int64_t column = 0; column < ax.results; column++)
                    for (int64_t channel = 0; channel < windows_.channels; channel++)
                        append_sum(inputs, image, row, column, channel, result);
        return {windows_.epilogue.reference(std::move(result), sum_ulps())};
    }
    double tolerance_ulps() const override { return sum_ulps() + windows_.epilogue.tolerance_ulps(); }

    Bound bound(const Machine &machine) const override {
        return sums_bound(machine, work(machine), ceil_div(windows_.images * windows_.channels * sums_of_channel(), lanes));
    }

protected:
    // But for the sums.
    KernelWork work(const Machine &) const override {
        // Vectors may have channels of several pixels.
        const int64_t vectors = ceil_div(outputs_[0].elements(), lanes);
        KernelWork work;
        work.bytes = tensor_bytes();
        work.rows_stored = vectors;
        windows_.epilogue.add_to(work, vectors);
        return work;
    }

private:
    const PoolForm &form(const Machine &machine) const {
        return depthwise_windows.takes(windows_, machine) ? depthwise_windows : pool_form(windows_, machine);
    }
    // Half a unit for each product and each sum.
    double sum_ulps() const { return static_cast<double>(taps()) + 2; }
    int64_t taps() const { return windows_.x.kernel * windows_.y.kernel; }

    // Additions of one channel's windows: none shares a product with another, and products with padding may be left out.
    int64_t sums_of_channel() const {
        const auto inside = [](const PoolAxis &axis, int64_t at) {
            return std::max<int64_t>(0, std::min(axis.end(at), axis.size) - std::max<int64_t>(axis.first(at), 0));
        };
        int64_t sums = 0;
        for (int64_t row = 0; row < windows_.y.results; row++)
            for (int64_t column = 0; column < windows_.x.results; column++)
                sums += std::max<int64_t>(0, inside(windows_.y, row) * inside(windows_.x, column) - 1 + windows_.bias);
        return sums;
    }

    void append_sum(const std::vector<TensorData> &inputs, int64_t image, int64_t row, int64_t column, int64_t channel,
                    Reference &result) const {
        const PoolAxis &ax = windows_.x, &ay = windows_.y;
        const auto element = [&](size_t input, int64_t at) {
            return static_cast<double>(bf16_float(inputs[input][static_cast<size_t>(at * windows_.channels + channel)]));
        };
        const double bias = windows_.bias ? element(2, 0) : 0;
        double sum = 0, peak = std::abs(bias);
        for (int64_t y = std::max<int64_t>(ay.first(row), 0); y < std::min(ay.end(row), ay.size); y++)
            for (int64_t x = std::max<int64_t>(ax.first(column), 0); x < std::min(ax.end(column), ax.size); x++) {
                const double product = element(0, (image * ay.size + y) * ax.size + x) *
                                       element(1, (y - ay.first(row)) * ax.kernel + x - ax.first(column));
                sum += product;
                peak = std::max({peak, std::abs(product), std::abs(sum)});
            }
        result.values.push_back(sum + bias);
        result.peaks.push_back(std::max(peak, std::abs(sum + bias)));
    }

    PoolShape windows_;
};

void demand(bool condition, const std::string &message) {
    if (!condition) throw Error("conv_depthwise_nhwc: " + message);
}

// One number for all, or one for each of `count`.
std::vector<int64_t> numbers(const WorkloadRequest &request, const std::string &name, size_t count, int64_t least) {
    std::vector<int64_t> values = request.integers(name);
    if (values.size() == 1) values.resize(count, values[0]);
    if (values.size() == 2 && count == 4) values = {values[0], values[1], values[0], values[1]};
    demand(values.size() == count, fmt::format("{} must have {} values or 1, not {}", name, count, values.size()));
    for (const int64_t value : values)
        demand(value >= least, fmt::format("{} is {}, but must be at least {}", name, value, least));
    return values;
}

PoolAxis axis_of(int64_t size, int64_t kernel, int64_t stride, int64_t before, int64_t behind) {
    demand(before + size + behind >= kernel,
           fmt::format("a kernel of {} is larger than the padded image of {}", kernel, before + size + behind));
    return {size, (before + size + behind - kernel) / stride + 1, kernel, stride, before};
}

std::unique_ptr<Workload> make_with(const WorkloadRequest &request, const Epilogue &epilogue) {
    const Shape &x = request.shape("input"), &f = request.shape("weight");
    demand(
        x.size() == 4 && f.size() == 3,
        fmt::format("the input is images x height x width x channels and the weight height x width x channels, not {} and {}",
                    shape_text(x), shape_text(f)));
    demand(element_count(x) > 0 && element_count(f) > 0, "a tensor is empty, so there is nothing to compute");
    demand(x[3] == f[2], fmt::format("the image has {} channels and the weight {}", x[3], f[2]));
    demand(f[0] * f[1] <= most_unrolled_taps,
           fmt::format("a kernel of {}x{} has more than {} elements", f[0], f[1], most_unrolled_taps));
    const std::vector<int64_t> stride = numbers(request, "stride", 2, 1), padding = numbers(request, "padding", 4, 0);
    PoolShape windows;
    windows.kind = Pooling::Weighted;
    windows.images = x[0];
    windows.channels = x[3];
    windows.bias = request.has("bias");
    windows.epilogue = epilogue;
    demand(!windows.bias || request.shape("bias") == Shape{x[3]}, fmt::format("the bias must have {} elements", x[3]));
    windows.y = axis_of(x[1], f[0], stride[0], padding[0], padding[2]);
    windows.x = axis_of(x[2], f[1], stride[1], padding[1], padding[3]);
    return std::make_unique<DepthwisePlaces>(request, windows, Shape{x[0], windows.y.results, windows.x.results, x[3]});
}

}  // namespace

std::vector<OperatorDeclaration> depthwise_operators() {
    OperatorDeclaration row;
    row.name = "conv_depthwise_nhwc";
    row.help = "a kernel for each channel, channels innermost";
    row.card.family = "convolution";
    row.card.algorithm = "windows of vectors of 32 channels, products and sums in bf16, row by row of the kernel";
    row.card.space = "tiles of results in the pads at a time, results in straight-line code";
    row.card.bound = "DRAM, additions, pads, issue";
    row.card.reference = "float64";
    row.card.supports = "bf16, stride, padding, at most 64 elements in a kernel";
    row.card.refuses = "dilation; larger kernels";
    row.card.fuses = "bias and pointwise operators behind it";
    row.tensors = {{"input", {"input"}, "of images x height x width x channels"},
                   {"weight", {"weight"}, "of height x width x channels"},
                   {"bias", {"bias"}, "of channels", false}};
    row.attributes = {{"stride", "steps of the kernel", std::vector<int64_t>{1}},
                      {"padding", "zeros on every side; four numbers: above, left, below, right", std::vector<int64_t>{0}}};
    row.example = {{"shape", "1x14x14x96,3x3x96,96"}, {"padding", "1"}};
    row.make = [](const WorkloadRequest &request) { return make_with(request, {}); };
    row.make_with = make_with;
    return {row};
}

}  // namespace atalla
