// ATen's matrix products as declared operators: mm, addmm, bmm, baddbmm, linear, matmul.
#pragma once

#include <vector>

#include "generators/declared_operator.h"

namespace atalla {

std::vector<OperatorDeclaration> matmul_operators();

}  // namespace atalla
