// The operators that can be tuned and run, by name.
#pragma once

#include <string_view>
#include <vector>

#include "generators/operator.h"

namespace atalla {

const std::vector<const Operator *> &operators();

// By name, by ATen schema ("aten::softmax.int" or "softmax.int") or by an expression ("gelu(add(x, y))"); Error naming the
// nearest.
const Operator &find_operator(std::string_view name);

// Whether workloads of the operator can be told this argument.
bool takes_argument(const Operator &op, std::string_view name);

// Where a call of a graph runs: its operator's workload, or the written decision why it is none (operator_decisions()).
Resolution resolve(const AtenCall &call);

// An overload that is not computed on the accelerator, by decision.
struct OperatorDecision {
    std::string schema;  // "view", "add.Tensor": without "aten::" and ".default"
    Resolution::Place place;
    std::string reason;
};
const std::vector<OperatorDecision> &operator_decisions();
// That on an overload; null if there is none.
const OperatorDecision *find_decision(std::string_view schema);

// "aten::softmax.int" as "softmax.int", "aten::linear.default" as "linear".
std::string plain_schema(std::string_view schema);

}  // namespace atalla
