#include "generators/batch_norm.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generators/movement.h"
#include "generators/pointwise.h"
#include "generators/pointwise_functions.h"
#include "isa/error.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

// An expression of the image and a value for each channel, with a reference of its own: what is computed on the way there is
// not what errors are relative to.
class BatchNorm : public Workload {
public:
    BatchNorm(std::unique_ptr<Workload> pointwise, const Shape &image, bool weight, bool bias, double epsilon)
        : pointwise_(std::move(pointwise)),
          channels_(image[1]),
          area_(element_count(Shape(image.begin() + 2, image.end()))),
          weight_(weight),
          bias_(bias),
          epsilon_(epsilon) {}

    std::string text() const override { return pointwise_->text(); }
    std::string title() const override { return pointwise_->title(); }
    std::string shape() const override { return pointwise_->shape(); }
    std::vector<TensorSpec> inputs() const override { return pointwise_->inputs(); }
    std::vector<TensorSpec> outputs() const override { return pointwise_->outputs(); }
    double flops() const override { return pointwise_->flops(); }
    Space space(const Machine &machine) const override { return pointwise_->space(machine); }
    Point naive_point(const Machine &machine) const override { return pointwise_->naive_point(machine); }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        return pointwise_->build(machine, point);
    }
    std::string words(const Machine &machine, const Point &point) const override { return pointwise_->words(machine, point); }
    Bound bound(const Machine &machine) const override { return pointwise_->bound(machine); }
    double draft(const Machine &machine, const Point &point) const override { return pointwise_->draft(machine, point); }
    std::vector<TensorData> host_result(const Machine &machine, const std::vector<TensorData> &inputs) const override {
        return pointwise_->host_result(machine, inputs);
    }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        const auto value = [](const TensorData &data, int64_t at) {
            return static_cast<double>(bf16_float(data[static_cast<size_t>(at)]));
        };
        const TensorData &mean = inputs[1], &variance = inputs[2];
        Reference reference;
        for (int64_t at = 0; at < static_cast<int64_t>(inputs[0].size()); at++) {
            const int64_t channel = at / area_ % channels_;
            const double weight = weight_ ? value(inputs[3], channel) : 1, bias = bias_ ? value(inputs.back(), channel) : 0;
            const double scale = weight / std::sqrt(value(variance, channel) + epsilon_), x = value(inputs[0], at);
            reference.values.push_back((x - value(mean, channel)) * scale + bias);
            reference.peaks.push_back(
                std::max((std::abs(x) + std::abs(value(mean, channel))) * std::abs(scale), std::abs(bias)));
        }
        return {std::move(reference)};
    }
    // The difference, the root's reciprocal, its product with the weight, the product, the sum.
    double tolerance_ulps() const override { return 5; }

private:
    std::unique_ptr<Workload> pointwise_;
    int64_t channels_, area_;
    bool weight_, bias_;
    double epsilon_;
};

std::unique_ptr<Workload> batch_norm(const WorkloadRequest &request) {
    const Shape &image = request.shape("x");
    if (request.flag("training"))
        throw Error(
            fmt::format("{}: in training mode it changes its statistics; the accelerator computes inference", request.op));
    if (image.size() < 2)
        throw Error(fmt::format("{}: expected at least 2 dimensions, of which the second is the channel, but got {}",
                                request.op, shape_text(image)));
    // Values of channels broadcast over what is behind the channel.
    WorkloadRequest broadcast = request;
    for (WorkloadRequest::Tensor &tensor : broadcast.tensors) {
        if (tensor.name == "x") continue;
        if (element_count(tensor.shape) != image[1])
            throw Error(fmt::format("{}: {} should contain {} elements, not {}", request.op, tensor.name, image[1],
                                    element_count(tensor.shape)));
        tensor.shape = Shape(image.size() - 1, 1);
        tensor.shape[0] = image[1];
    }
    const auto call = [](const char *name, ExpressionNode a, ExpressionNode b) {
        return ExpressionNode::call(name, {std::move(a), std::move(b)});
    };
    const double epsilon = request.number("eps");
    ExpressionNode scale =
        ExpressionNode::call("rsqrt", {call("add", ExpressionNode::input("running_var"), ExpressionNode::of_number(epsilon))});
    if (request.has("weight")) scale = call("mul", std::move(scale), ExpressionNode::input("weight"));
    ExpressionNode result =
        call("mul", call("sub", ExpressionNode::input("x"), ExpressionNode::input("running_mean")), std::move(scale));
    if (request.has("bias")) result = call("add", std::move(result), ExpressionNode::input("bias"));
    if (element_count(image) == 0) return constant_workload(request, image);
    return std::make_unique<BatchNorm>(pointwise_workload(broadcast, std::move(result)), image, request.has("weight"),
                                       request.has("bias"), epsilon);
}

}  // namespace

std::vector<OperatorDeclaration> batch_norm_operators() {
    OperatorDeclaration row;
    row.name = "batch_norm";
    row.schemas = {"_native_batch_norm_legit_no_training", "batch_norm"};
    row.help = "(x - mean) / sqrt(var + eps) * weight + bias with statistics of each channel";
    row.card = {"normalization",
                "the expression (x - mean) * (rsqrt(var + eps) * weight) + bias, every operation rounded to bf16",
                "block size, vectors unrolled",
                "DRAM traffic, or the lane operations of the expression",
                "float64, to 5 units of the largest of (|x| + |mean|) scale and bias",
                "any sizes with the channel as second dimension; weight and bias may be left out",
                "training, which changes the statistics",
                "folded into a convolution or linear layer before it where a graph is compiled"};
    row.tensors = {{"x", {"input"}, "the tensor"},
                   {"running_mean", {"running_mean"}, "means of the channels"},
                   {"running_var", {"running_var"}, "variances of the channels"},
                   {"weight", {"weight"}, "factors of the channels", false},
                   {"bias", {"bias"}, "addends of the channels", false}};
    row.attributes = {{"eps", "added to the variance", 1e-5}, {"training", "not supported", false}};
    row.example = {{"shape", "8x64x56x56,64,64,64,64"}};
    row.ignored = {"momentum", "cudnn_enabled"};
    row.make = batch_norm;
    return {row};
}

}  // namespace atalla
