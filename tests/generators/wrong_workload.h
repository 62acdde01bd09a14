// Workloads with wrong programs, which a verification must find.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "generators/operator.h"

namespace atalla {

// A workload whose kernels compute something else than its unoptimized program and its references say.
class WrongWorkload : public Workload {
public:
    WrongWorkload(std::shared_ptr<const Workload> right, std::function<KernelDefinition(const Machine &, const Point &)> build)
        : right_(std::move(right)), build_(std::move(build)) {}
    std::string text() const override { return right_->text(); }
    std::string title() const override { return right_->title(); }
    std::string shape() const override { return right_->shape(); }
    std::vector<TensorSpec> inputs() const override { return right_->inputs(); }
    std::vector<TensorSpec> outputs() const override { return right_->outputs(); }
    double flops() const override { return right_->flops(); }
    Space space(const Machine &machine) const override { return right_->space(machine); }
    Point naive_point(const Machine &machine) const override {
        Point point = right_->naive_point(machine);
        point.set("naive", 1);
        return point;
    }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        return point.contains("naive") ? right_->build(machine, point) : build_(machine, point);
    }
    std::string words(const Machine &machine, const Point &point) const override { return right_->words(machine, point); }
    Bound bound(const Machine &machine) const override { return right_->bound(machine); }
    double draft(const Machine &machine, const Point &point) const override { return right_->draft(machine, point); }
    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override { return right_->reference(inputs); }
    double tolerance_ulps() const override { return right_->tolerance_ulps(); }
    std::vector<TensorData> host_result(const Machine &machine, const std::vector<TensorData> &inputs) const override {
        return right_->host_result(machine, inputs);
    }

private:
    std::shared_ptr<const Workload> right_;
    std::function<KernelDefinition(const Machine &, const Point &)> build_;
};

}  // namespace atalla
