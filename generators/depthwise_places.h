// Depthwise convolutions of images with channels innermost: lanes are channels as they lie in memory, so that nothing is
// turned.
#pragma once

#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

// conv_depthwise_nhwc: an image [images][y][x][channels], a weight [kernel y][kernel x][channels], a bias [channels]. Products
// and sums are rounded to bf16, row by row of the kernel, the bias after that, as in depthwise.h.
std::vector<OperatorDeclaration> depthwise_operators();

}  // namespace atalla
