// The workload of a pointwise kernel.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generators/expression.h"
#include "generators/pipeline_workload.h"
#include "generators/pointwise_blocks.h"
#include "generators/pointwise_functions.h"
#include "generators/pointwise_parts.h"

namespace atalla {

class PointwiseWorkload : public PipelineWorkload {
public:
    // `result`: the shape that the inputs broadcast to, or one that this broadcasts to.
    PointwiseWorkload(const WorkloadRequest &request, ExpressionNode expression, Shape result);

    // A tensor that is only broadcast is no operator that others are fused with.
    std::string expression() const override { return expression_.calls() > 0 ? expression_.text() : std::string(); }

    Space space(const Machine &machine) const override { return blocks_.space(machine); }

    std::string words(const Machine &machine, const Point &point) const override;

    KernelDefinition build(const Machine &machine, const Point &point) const override;

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override;
    // Each operator is within three; in a chain each adds its own.
    double tolerance_ulps() const override { return 3.0 * static_cast<double>(expression_.calls()); }

    double draft(const Machine &machine, const Point &point) const override;

protected:
    KernelWork work(const Machine &machine) const override;

private:
    size_t input_of(const std::string &name) const {
        return static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
    }

    // The only dimension that all of these inputs have, where others are without it, or that they are single numbers.
    std::optional<size_t> only_dim(const std::set<std::string> &inputs) const;
    JoinedRows rows_as_run(int64_t numbers) const;
    double draft_of_patterns(const Machine &machine, const Point &point) const;
    double draft_of_run(const Machine &machine, const Point &point) const;
    // What crosses the bus beside the tensors' elements, since operands meet in lanes.
    int64_t bytes_of_lanes(const Machine &machine) const;
    double operands_per_element(const Tiling &t, const Point &point) const;
    // The machine's operations of an expression, over a variable for each input.
    static Halide::Expr lanes_of(const ExpressionNode &node);

    ExpressionNode expression_;
    std::vector<std::string> names_;
    Halide::Expr rest_;  // the machine's operations over inputs and parts
    std::vector<PointwisePart> parts_;
    Shape result_;
    LoopNest nest_;
    PointwiseBlocks blocks_;
    LaneCount count_;
};

}  // namespace atalla
