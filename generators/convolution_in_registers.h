// Convolutions on machines with small pads: image, sums and rows of the identity stay in registers.
#pragma once

#include "generators/convolution.h"
#include "schedules/space.h"

namespace atalla {

// As a point cuts the result.
struct RegisterConvolutionPlan {
    RegisterConvolutionPlan(const ConvolutionShape &shape, const Machine &machine, const Point &point);
    ConvolutionShape shape;  // of kernels with one element the planes are lines
    ConvolutionBand band;    // what the lanes of a k tile are
    int places;              // columns of the result that are weights at once
    int channels, rows;      // output channels whose sums are kept, and their rows
    int pass, result_pass;   // output channels whose weights and whose results pass through the pads at once
    int span, windows;       // columns of the image that the places read, in how many vectors
    int bias_rows() const;   // rows of the pads for a block's bias
    int registers() const;   // vector registers that live as long as the sums
};

Space register_convolution_space(const ConvolutionShape &shape, const Machine &machine);
Point register_convolution_naive_point(const ConvolutionShape &shape, const Machine &machine);
// Packets, or cycles where all latencies are hidden.
double register_convolution_draft(const ConvolutionShape &shape, const Machine &machine, const Point &point);

// The same sums in another order: a k tile is the rows of the image that some channels have in a window, for each element of
// a row of the kernel; columns of the kernel innermost. The places are the weights of the array, those of the kernel stream.
KernelDefinition convolution_in_registers(const ConvolutionShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
