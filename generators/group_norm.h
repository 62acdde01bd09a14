// Normalization of groups of channels.
#pragma once

#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

std::vector<OperatorDeclaration> group_norm_operators();

}  // namespace atalla
