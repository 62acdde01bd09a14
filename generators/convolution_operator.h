// Convolutions as declared operators: conv1d, conv2d, convolution.
#pragma once

#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

std::vector<OperatorDeclaration> convolution_operators();

}  // namespace atalla
