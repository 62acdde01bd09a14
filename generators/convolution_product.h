// Convolutions that are matrix products as their tensors lie in memory.
#pragma once

#include <memory>

#include "generators/convolution.h"
#include "generators/declared_operator.h"

namespace atalla {

// A convolution that is_product(): places are the rows of A, as of a linear layer, where channels are innermost; of planes they
// are the columns of B, and A is the kernel, for which `turned`, the same convolution as one, may have a better order.
std::unique_ptr<Workload> convolution_as_product(const WorkloadRequest &request, const ConvolutionShape &shape, Shape result,
                                                 std::shared_ptr<const Workload> turned);

}  // namespace atalla
