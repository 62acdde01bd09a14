// Pointwise kernels: an expression over tensors that broadcast to the shape of the result.
#pragma once

#include <memory>

#include "generators/expression.h"
#include "generators/pipeline_workload.h"

namespace atalla {

// One kernel for the whole expression. The request's tensors are the inputs in the order of ExpressionNode::inputs(). Error
// with PyTorch's rule if their shapes do not broadcast.
std::unique_ptr<Workload> pointwise_workload(const WorkloadRequest &request, ExpressionNode expression);

// The request's only tensor as it is, broadcast to a result with elements.
std::unique_ptr<Workload> broadcast_workload(const WorkloadRequest &request, const Shape &result);

}  // namespace atalla
