// The workload of a pointwise kernel, for the files that implement it.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "generators/expression.h"
#include "generators/pipeline_workload.h"
#include "generators/pointwise_blocks.h"
#include "generators/pointwise_functions.h"

namespace atalla {

class PointwiseWorkload : public PipelineWorkload {
public:
    PointwiseWorkload(const WorkloadRequest &request, ExpressionNode expression);

    std::string expression() const override { return expression_.text(); }

    Space space(const Machine &machine) const override { return blocks_.space(machine); }

    std::string words(const Machine &machine, const Point &point) const override;

    KernelDefinition build(const Machine &machine, const Point &point) const override;

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override;
    // Each operator is within three; in a chain each adds its own.
    double tolerance_ulps() const override { return 3.0 * static_cast<double>(std::max(1, expression_.calls())); }

    double draft(const Machine &machine, const Point &point) const override;

protected:
    KernelWork work(const Machine &machine) const override;

private:
    // What depends on one dimension alone, the innermost or the next, is computed once for all others.
    struct Part {
        std::string name;
        ExpressionNode node;
        size_t dim = 0;
    };

    size_t input_of(const std::string &name) const { return static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin()); }

    // The only dimension that all inputs of a call have, where others are without it.
    std::optional<size_t> only_dim(const ExpressionNode &node) const;
    ExpressionNode without_parts(const ExpressionNode &node);
    // The machine's operations of an expression, over a variable for each input.
    static Halide::Expr lanes_of(const ExpressionNode &node);

    ExpressionNode expression_, rest_;   // rest_: with parts in place of what they compute
    std::vector<std::string> names_;
    std::vector<Part> parts_;
    Shape result_;
    LoopNest nest_;
    PointwiseBlocks blocks_;
    LaneCount count_;
};

}  // namespace atalla
