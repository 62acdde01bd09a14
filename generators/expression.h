// Expressions of operators: gelu(add(x, y)), as command lines and fused groups write them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace atalla {

// A tree. Leaves are inputs (by name) and numbers; keyword arguments belong to the operator.
struct ExpressionNode {
    enum Kind { Input, Number, Call };
    Kind kind = Number;
    std::string name;  // of the input or the operator
    double number = 0;
    std::vector<ExpressionNode> arguments;
    std::map<std::string, std::string> keywords;  // as written

    static ExpressionNode input(std::string name);
    static ExpressionNode of_number(double value);
    static ExpressionNode call(std::string name, std::vector<ExpressionNode> arguments,
                               std::map<std::string, std::string> keywords = {});

    // Canonical: no blanks but after commas, numbers as short as they can be.
    std::string text() const;
    // The same with other expressions in place of inputs, by name.
    ExpressionNode with(const std::map<std::string, ExpressionNode> &values) const;
    // Calls in the tree.
    int calls() const;
    // Inputs in the order in which they appear first.
    std::vector<std::string> inputs() const;
};

// "gelu(add(x, y), approximate=tanh)". Error that shows where reading stopped.
ExpressionNode parse_expression(std::string_view text);

}  // namespace atalla
