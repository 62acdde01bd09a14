// The pointwise operators of the registry: a row for each pointwise function, and expressions of them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "generators/operator.h"

namespace atalla {

const std::vector<const Operator *> &pointwise_operators();

// The operator that an expression is: "gelu(add(x, y))", "gelu(linear(x, weight, bias))". Lives as long as the program. Error if
// something in it is neither a pointwise operator nor its only product.
const Operator &expression_operator(std::string_view text);

}  // namespace atalla
