#include "generators/depthwise.h"

#include <algorithm>
#include <cmath>

#include "generators/depthwise_rows.h"
#include "generators/pipeline_workload.h"
#include "generators/pool.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

PoolShape windows_of(const ConvolutionShape &shape) {
    PoolShape windows;
    windows.kind = Pooling::Weighted;
    windows.images = shape.images;
    windows.channels = shape.groups;
    windows.planes_outermost = true;
    windows.bias = shape.bias;
    windows.epilogue = shape.epilogue;
    windows.x = {shape.width, shape.columns(), shape.kernel_x, shape.stride_x, shape.padding_x};
    windows.y = {shape.height, shape.rows(), shape.kernel_y, shape.stride_y, shape.padding_y};
    return windows;
}

class Depthwise : public PipelineWorkload {
public:
    Depthwise(const WorkloadRequest &request, const ConvolutionShape &shape, std::unique_ptr<Workload> otherwise)
        : PipelineWorkload(request),
          shape_(shape),
          windows_(windows_of(shape)),
          otherwise_(std::move(otherwise)),
          rows_(depthwise_rows_workload(request, shape, otherwise_)) {
        inputs_ = otherwise_->inputs();
        outputs_ = otherwise_->outputs();
        result_shape_ = otherwise_->result_shape();
    }

    double flops() const override { return otherwise_->flops(); }
    Bound bound(const Machine &machine) const override { return otherwise_->bound(machine); }
    Space space(const Machine &machine) const override {
        return on_lanes(machine) ? plane_pool.space(windows_, machine) : on_array(machine).space(machine);
    }
    Point naive_point(const Machine &machine) const override {
        return on_lanes(machine) ? plane_pool.naive_point(windows_, machine) : on_array(machine).naive_point(machine);
    }
    std::string words(const Machine &machine, const Point &point) const override {
        return on_lanes(machine) ? "lanes are planes; " + PipelineWorkload::words(machine, point)
                                 : on_array(machine).words(machine, point);
    }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        if (!on_lanes(machine)) return on_array(machine).build(machine, point);
        return named(plane_pool.kernel(windows_, machine, point));
    }
    double draft(const Machine &machine, const Point &point) const override {
        return on_lanes(machine) ? plane_pool.draft(windows_, machine, point) : on_array(machine).draft(machine, point);
    }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        Reference result;
        for (int64_t plane = 0; plane < shape_.images * shape_.groups; plane++) append_plane(inputs, plane, result);
        return {shape_.epilogue.reference(std::move(result), sum_ulps())};
    }
    double tolerance_ulps() const override { return sum_ulps() + shape_.epilogue.tolerance_ulps(); }
    std::vector<Arrangement> arrangements(const Machine &machine) const override {
        ConvolutionShape packed = shape_;
        packed.packed = true;
        return !machine.timed() || packed.passes_matrices() ? otherwise_->arrangements(machine) : std::vector<Arrangement>();
    }

protected:
    KernelWork work(const Machine &) const override { return {}; }  // the bound is that of any convolution

private:
    // Half a unit for each product and each sum.
    double sum_ulps() const { return static_cast<double>(shape_.kernel_x * shape_.kernel_y) + 2; }
    bool on_lanes(const Machine &machine) const {
        return plane_pool.takes(windows_, machine) && windows_cost(machine) <= made_rows_cost(shape_, machine);
    }
    // The adder's time for a product of each element of a window, with what surrounds it.
    double windows_cost(const Machine &machine) const {
        constexpr double around = 1.4;
        return around * static_cast<double>(tiles_of(shape_.images * shape_.groups) * shape_.rows() * shape_.columns() *
                                            shape_.kernel_y * shape_.kernel_x * machine.vec.ii);
    }
    const Workload &on_array(const Machine &machine) const {
        return std::isfinite(made_rows_cost(shape_, machine)) ? *rows_ : *otherwise_;
    }

    void append_plane(const std::vector<TensorData> &inputs, int64_t plane, Reference &result) const {
        const ConvolutionShape &s = shape_;
        const int64_t channel = plane % s.groups;
        const uint16_t *x = inputs[0].data() + plane * s.height * s.width,
                       *f = inputs[1].data() + channel * s.kernel_y * s.kernel_x;
        const double bias = s.bias ? bf16_float(inputs[2][static_cast<size_t>(channel)]) : 0;
        for (int64_t row = 0; row < s.rows(); row++)
            for (int64_t column = 0; column < s.columns(); column++) {
                double sum = 0, peak = std::abs(bias);
                for (int64_t v = 0; v < s.kernel_y; v++)
                    for (int64_t u = 0; u < s.kernel_x; u++) {
                        const int64_t at_y = row * s.stride_y + v - s.padding_y, at_x = column * s.stride_x + u - s.padding_x;
                        if (at_y < 0 || at_y >= s.height || at_x < 0 || at_x >= s.width) continue;
                        const double product =
                            static_cast<double>(bf16_float(x[at_y * s.width + at_x])) * bf16_float(f[v * s.kernel_x + u]);
                        sum += product;
                        peak = std::max({peak, std::abs(product), std::abs(sum)});
                    }
                result.values.push_back(sum + bias);
                result.peaks.push_back(std::max(peak, std::abs(sum + bias)));
            }
    }

    ConvolutionShape shape_;
    PoolShape windows_;
    std::shared_ptr<Workload> otherwise_, rows_;
};

}  // namespace

bool is_depthwise(const ConvolutionShape &shape) {
    return shape.groups > 1 && shape.in == 1 && shape.out == 1 && !shape.packed && !shape.banded && shape.dilation_x == 1 &&
           shape.dilation_y == 1 && shape.kernel_x * shape.kernel_y <= most_unrolled_taps &&
           (shape.images == 1 || shape.groups % lanes == 0);
}

std::unique_ptr<Workload> depthwise_workload(const WorkloadRequest &request, const ConvolutionShape &shape,
                                             std::unique_ptr<Workload> otherwise) {
    return std::make_unique<Depthwise>(request, shape, std::move(otherwise));
}

}  // namespace atalla
