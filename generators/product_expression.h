// Expressions with a matrix product in them, as one kernel: gelu(linear(x, weight, bias)), add(mm(x, y), z),
// linear(layer_norm(x, gain, offset), weight, bias), linear(gelu(linear(x, w1, b1)), w2, b2).
#pragma once

#include "generators/declared_operator.h"
#include "generators/expression.h"

namespace atalla {

// Whether some call in the expression is a matrix product.
bool has_product(const ExpressionNode &expression);

// The expression as an operator: one product of inputs, the first of which may be a norm or a softmax of inputs, or another
// product of inputs, with pointwise operators behind it that have no other operands; and pointwise operators behind it, whose
// other operands are of the result's shape, or one row or column of it for all. Error if it is another expression.
OperatorDeclaration product_expression(ExpressionNode expression);

}  // namespace atalla
