// Batch normalization in inference, as an operator of the registry.
#pragma once

#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

std::vector<OperatorDeclaration> batch_norm_operators();

}  // namespace atalla
