// Normalization of groups of channels that end inside vectors, while whole groups do not: a group is one row of vectors,
// whatever its channels. Up to 32 vectors are the weights of the array, through which a row of ones goes, and each vector has
// rows of its own for the weights and biases of its lanes.
#pragma once

#include <memory>

#include "generators/channel_rows.h"
#include "generators/declared_operator.h"

namespace atalla {

// Several tiles of at least half as many vectors as the array has weights, and few rows for weights and biases, which are made
// by little code.
bool suits_contiguous_groups(const GroupShape &shape);
std::unique_ptr<Workload> contiguous_group_norm(const WorkloadRequest &request, const GroupShape &shape);

}  // namespace atalla
