// Operators that work along the rows of a matrix: softmax and the normalizations.
#pragma once

#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

std::vector<OperatorDeclaration> row_operators();

}  // namespace atalla
