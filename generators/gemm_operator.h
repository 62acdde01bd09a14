// The matrix product as an operator of the registry.
#pragma once

#include "generators/operator.h"

namespace atalla {

const Operator &gemm_operator();

}  // namespace atalla
