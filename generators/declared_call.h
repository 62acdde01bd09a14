// Calls of declared operators inside expressions.
#pragma once

#include <utility>
#include <vector>

#include "generators/declared_operator.h"
#include "generators/expression.h"

namespace atalla {

// What a call of a declared operator is given for each of its tensors, in the declared order. Error if they are too few or too
// many.
using Given = std::vector<std::pair<const DeclaredTensor *, const ExpressionNode *>>;
Given given(const OperatorDeclaration &op, const ExpressionNode &call);

// The request that a call alone would be, of tensors of these shapes.
WorkloadRequest call_request(const OperatorDeclaration &op, const ExpressionNode &call, const std::vector<Shape> &shapes);

}  // namespace atalla
