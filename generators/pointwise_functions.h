// The pointwise operators: for each its ATen overloads, the computation in the machine's bf16 operations, and the exact value.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <Halide.h>

#include "generators/expression.h"
#include "schedules/bounds.h"

namespace atalla {

using Keywords = std::map<std::string, std::string>;

struct PointwiseFunction {
    std::string name;
    int operands = 1;
    std::vector<std::string> schemas;
    std::string formula;                          // "x where x > 0, otherwise 0; NaN stays"
    std::map<std::string, std::string> keywords;  // with their values if not given
    // Operands are bf16, or conditions; so is the result.
    Halide::Expr (*machine)(const std::vector<Halide::Expr> &operands, const Keywords &keywords) = nullptr;
    double (*exact)(const std::vector<double> &operands, const Keywords &keywords) = nullptr;
    bool condition = false;  // the result is true or false: 1 or 0 in a tensor
};

const std::vector<PointwiseFunction> &pointwise_functions();
// nullptr if there is none.
const PointwiseFunction *find_pointwise_function(std::string_view name);

// Checks names, numbers of operands and keywords, and fills in keywords. Error naming the nearest.
void check_pointwise(ExpressionNode &node);

// The expression in the machine's operations: bf16 values of the inputs, in the order of ExpressionNode::inputs().
Halide::Expr machine_expression(const ExpressionNode &node, const std::map<std::string, Halide::Expr> &inputs);
// The exact value, with numbers rounded to bf16 where they meet tensors, as the machine has them. `peak` becomes the largest
// magnitude on the way.
double exact_expression(const ExpressionNode &node, const std::map<std::string, double> &inputs, double &peak);

// The lane operations of an expression, for one vector; equal parts count once.
struct LaneCount {
    LaneWork work;
    int64_t copies = 0;  // what the adder and the multiplier can do
    // Copies that no program goes without: of the values that a choice leads to, operations may be made under its mask, and one
    // may be where the others come.
    int64_t least_copies = 0;
    int64_t all() const { return work.adds + work.muls + work.exps + copies; }
    // Of the busier of adder and multiplier, which share the copies.
    int64_t shared() const { return std::max({work.adds, work.muls, (work.adds + work.muls + copies) / 2}); }
};
LaneCount count_lane_operations(const Halide::Expr &e);
// The same by the variables that they depend on.
std::map<std::set<std::string>, LaneCount> lane_operations_by_inputs(const Halide::Expr &e);

}  // namespace atalla
