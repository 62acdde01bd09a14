#include "generators/pipeline_workload.h"

#include <fmt/format.h>

#include "generators/host_jit.h"
#include "isa/error.h"

namespace atalla {

std::string PipelineWorkload::shape() const {
    std::string text;
    for (const WorkloadRequest::Tensor &tensor : request_.tensors) {
        if (!text.empty()) text += ',';
        text += shape_text(tensor.shape);
    }
    return text;
}

double PipelineWorkload::flops() const {
    double elements = 0;
    for (const TensorSpec &tensor : outputs_) elements += static_cast<double>(tensor.elements());
    return elements;
}

KernelDefinition PipelineWorkload::named(KernelDefinition kernel) const {
    kernel.inputs = inputs_;
    kernel.outputs = outputs_;
    return kernel;
}

KernelDefinition PipelineWorkload::kernel(Halide::Pipeline pipeline, std::vector<Halide::Argument> arguments) const {
    KernelDefinition kernel;
    kernel.pipeline = std::move(pipeline);
    kernel.arguments = std::move(arguments);
    return named(std::move(kernel));
}

Point PipelineWorkload::naive_point(const Machine &machine) const {
    Point first;
    for_each(space(machine), [&](const Point &point) {
        first = point;
        return false;
    });
    return first;
}

std::string PipelineWorkload::words(const Machine &machine, const Point &point) const {
    std::string text;
    for (const Parameter &parameter : space(machine).parameters)
        if (parameter.values.size() > 1)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", parameter.name, point[parameter.name]);
    return text.empty() ? "the only schedule" : text;
}

Bound PipelineWorkload::bound(const Machine &machine) const { return kernel_bound(machine, work(machine)); }

double PipelineWorkload::draft(const Machine &machine, const Point &) const {
    return static_cast<double>(bound(machine).cycles);
}

std::vector<TensorData> PipelineWorkload::host_result(const Machine &machine, const std::vector<TensorData> &inputs) const {
    return run_on_host(build(machine, naive_point(machine)), inputs);
}

int64_t PipelineWorkload::tensor_bytes() const {
    int64_t elements = 0;
    for (const auto *tensors : {&inputs_, &outputs_})
        for (const TensorSpec &tensor : *tensors) elements += tensor.elements();
    return 2 * elements;
}

void PipelineWorkload::set_result(std::string name, const Shape &shape) {
    outputs_ = {tensor_spec(std::move(name), shape)};
    result_shape_ = shape;
}

TensorSpec tensor_spec(std::string name, const Shape &shape) {
    TensorSpec spec{std::move(name), {shape.rbegin(), shape.rend()}};
    if (spec.extents.empty()) spec.extents = {1};
    return spec;
}

}  // namespace atalla
