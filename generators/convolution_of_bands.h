// Convolutions of few channels: several rows of the result share the lanes of a place, which holds all rows that they read.
#pragma once

#include "generators/convolution.h"

namespace atalla {

// Of a shape with band_rows() > 1 or shared_columns() > 0. Places of the image are the weights of the array, and the rows of
// the kernel stream past them, one for each output channel and row of the band, so that a tile of the result is places by
// channels, as the plane that leaves.
KernelDefinition convolution_of_bands(const ConvolutionShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
