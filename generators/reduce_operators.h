// Reductions as operators of the registry.
#pragma once

#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

std::vector<OperatorDeclaration> reduce_operators();

}  // namespace atalla
