// Depthwise convolutions: each channel has a kernel of its own, so that the lanes, one for each plane, do what the array would
// do with one of its 32 columns.
#pragma once

#include <memory>

#include "generators/convolution.h"
#include "generators/declared_operator.h"

namespace atalla {

// Can the windows of a pooling compute it? That takes groups of one channel in and one out, neighbouring taps, and 32 channels
// to a block of planes, or one image.
bool is_depthwise(const ConvolutionShape &shape);

// Such a convolution: products and sums rounded to bf16, row by row of the kernel, the bias after that. Where the pads of a
// machine do not hold 32 planes it is what `otherwise` is, the same convolution without this.
std::unique_ptr<Workload> depthwise_workload(const WorkloadRequest &request, const ConvolutionShape &shape,
                                             std::unique_ptr<Workload> otherwise);

}  // namespace atalla
