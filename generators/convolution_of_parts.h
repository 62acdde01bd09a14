// Convolutions of images with channels innermost of which each pad has a part.
#pragma once

#include "generators/convolution.h"

namespace atalla {

// Of a shape with in_parts(). The product of the other forms, for places of all parts in turns.
KernelDefinition convolution_of_parts(const ConvolutionShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
