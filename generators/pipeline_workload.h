// The part of a workload that is the same for every operator whose kernel is one Halide pipeline with a small schedule space.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

// What is left to an operator: inputs() and outputs() by `inputs_` and `outputs_`, space(), build(), reference(), work() and
// tolerance_ulps().
class PipelineWorkload : public Workload {
public:
    explicit PipelineWorkload(const WorkloadRequest &request) : request_(request) {}

    std::string text() const override { return request_.text; }
    std::string title() const override { return request_.title; }
    // The tensors alone: what comes before the first attribute in the title.
    std::string shape() const override;
    std::vector<TensorSpec> inputs() const override { return inputs_; }
    std::vector<TensorSpec> outputs() const override { return outputs_; }
    Shape result_shape() const override { return result_shape_ ? *result_shape_ : Workload::result_shape(); }

    // One for each element of the results.
    double flops() const override;
    // The first point of the space.
    Point naive_point(const Machine &machine) const override;
    std::string words(const Machine &machine, const Point &point) const override;
    // kernel_bound() of the work.
    Bound bound(const Machine &machine) const override;
    // The bound: all points cost the same until they are measured. An operator that knows better says so.
    double draft(const Machine &machine, const Point &point) const override;
    // By Halide's JIT.
    std::vector<TensorData> host_result(const Machine &machine, const std::vector<TensorData> &inputs) const override;

protected:
    // The least that any program for this algorithm does: docs/bounds.md.
    virtual KernelWork work(const Machine &machine) const = 0;

    // A kernel whose tensors are those of the workload.
    KernelDefinition named(KernelDefinition kernel) const;
    KernelDefinition kernel(Halide::Pipeline pipeline, std::vector<Halide::Argument> arguments) const;

    // Bytes of all tensors of the workload, each counted once.
    int64_t tensor_bytes() const;

    // The only output, with the dimensions that PyTorch has.
    void set_result(std::string name, const Shape &shape);

    WorkloadRequest request_;
    std::vector<TensorSpec> inputs_, outputs_;
    std::optional<Shape> result_shape_;  // where it is not that of the output
};

// A tensor of this shape (outermost extent first, as PyTorch has it) as kernels name it. Without dimensions: one element.
TensorSpec tensor_spec(std::string name, const Shape &shape);

}  // namespace atalla
