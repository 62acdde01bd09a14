// Operators along the rows of a matrix as workloads: softmax and the normalizations. Each makes its rows one by one, in a
// kernel of its own or in that of what reads them.
#pragma once

#include <string>

#include "generators/pipeline_workload.h"
#include "generators/row_kernel.h"

namespace atalla {

class RowWorkload : public PipelineWorkload {
public:
    RowWorkload(const WorkloadRequest &request, const RowShape &shape, const RowCost &cost)
        : PipelineWorkload(request), shape_(shape), cost_(cost) {
        for (const WorkloadRequest::Tensor &tensor : request.tensors) inputs_.push_back(tensor_spec(tensor.name, tensor.shape));
        set_result("Y", request.shape("x"));
    }

    const RowShape &row_shape() const { return shape_; }
    const RowCost &row_cost() const { return cost_; }
    // An element of the result at kernel.n and kernel.m, with tensors of the kernel in the order of inputs().
    virtual Halide::Expr element(RowKernel &kernel) const = 0;

    KernelWork work(const Machine &machine) const override = 0;
    Space space(const Machine &machine) const override { return row_space(in_pads(machine), machine, cost_); }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        RowKernel kernel(in_pads(machine), machine, point, "Y");
        Halide::Func y("Y_rows");
        y(kernel.n, kernel.m) = element(kernel);
        return named(kernel.finish(y));
    }
    std::string words(const Machine &machine, const Point &point) const override { return row_words(in_pads(machine), point); }
    double draft(const Machine &machine, const Point &point) const override {
        return row_draft(in_pads(machine), machine, point, cost_);
    }

protected:
    RowShape in_pads(const Machine &machine) const { return shape_in_pads(shape_, machine, cost_); }

    RowShape shape_;
    RowCost cost_;
};

}  // namespace atalla
