// Scaled dot product attention as a declared operator.
#pragma once

#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

std::vector<OperatorDeclaration> attention_operators();

}  // namespace atalla
