// Reductions as operators of the registry.
#pragma once

#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

std::vector<OperatorDeclaration> reduce_operators();

// The mean over the last `axes` dimensions, which stay with size 1: what pooling to one result is.
std::unique_ptr<Workload> trailing_mean(const WorkloadRequest &request, size_t axes);

}  // namespace atalla
