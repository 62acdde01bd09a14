// The schedule space of convolutions in the pads, and what its points are expected to take.
#pragma once

#include "generators/convolution.h"
#include "schedules/space.h"

namespace atalla {

Space convolution_space(const ConvolutionShape &shape, const Machine &machine);
Point convolution_naive_point(const ConvolutionShape &shape, const Machine &machine);
double convolution_draft(const ConvolutionShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
