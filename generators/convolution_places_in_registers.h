// Convolutions with channels innermost on machines with small pads: the sums of a tile of places stay in registers.
#pragma once

#include <string>

#include "generators/convolution.h"
#include "schedules/space.h"

namespace atalla {

// Do the pads hold little more than a tile of weights and a few rows of the image?
bool has_small_pads(const Machine &machine);

// Parameters: `tile_x` and `tile_y`, places whose sums stay in registers; `rows_together`, rows of them whose part of the image
// is in the pads at once.
Space convolution_places_space(const ConvolutionShape &shape, const Machine &machine);
// A row of places, whose sums leave an unoptimized program registers.
Point convolution_places_naive_point(const ConvolutionShape &shape, const Machine &machine);
// Packets, or cycles where all latencies are hidden.
double convolution_places_draft(const ConvolutionShape &shape, const Machine &machine, const Point &point);
std::string convolution_places_words(const Point &point);

// Of `packed` weights. A k tile is 32 channels of an element of the kernel; its columns innermost, blocks of channels around
// them, its rows outermost. The output channels are the weights of the array, and the places, as they lie in memory, stream.
KernelDefinition convolution_of_places_in_registers(const ConvolutionShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
