// The pointwise operators of the registry: a row for each pointwise function, and expressions of them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "generators/expression.h"
#include "generators/operator.h"

namespace atalla {

const std::vector<const Operator *> &pointwise_operators();

// The operator that an expression is: "gelu(add(x, y))", "gelu(linear(x, weight, bias))". Lives as long as the program. Error
// if something in it is neither a pointwise operator nor its only product, or its only operator that takes an epilogue.
const Operator &expression_operator(std::string_view text);

// The lane operations of an expression's pointwise part, for one vector.
int64_t lane_operations(const ExpressionNode &expression);

}  // namespace atalla
