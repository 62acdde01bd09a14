// Expressions of an operator that takes an epilogue, with pointwise operators behind it, as one kernel:
// relu(conv_depthwise_nhwc(x, weight, bias, padding=1)).
#pragma once

#include <string_view>

#include "generators/declared_operator.h"
#include "generators/expression.h"

namespace atalla {

bool takes_epilogue(std::string_view op);

// Whether some call in the expression is of such an operator.
bool has_epilogue(const ExpressionNode &expression);

// The expression as an operator. Error if it is another expression.
OperatorDeclaration epilogue_expression(ExpressionNode expression);

}  // namespace atalla
