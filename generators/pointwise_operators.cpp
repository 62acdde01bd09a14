#include "generators/pointwise_operators.h"

#include <map>
#include <mutex>

#include <fmt/format.h>

#include "generators/declared_operator.h"
#include "generators/epilogue_expression.h"
#include "generators/pointwise.h"
#include "generators/pointwise_functions.h"
#include "generators/product_expression.h"
#include "isa/error.h"

namespace atalla {

namespace {

// Operand names on command lines, and what ATen calls them.
struct OperandNames {
    std::vector<std::string> names;
    std::vector<std::vector<std::string>> aten;
};
OperandNames operand_names(const PointwiseFunction &function) {
    if (function.name == "where") return {{"condition", "x", "y"}, {{"condition"}, {"self"}, {"other"}}};
    if (function.name == "masked_fill") return {{"x", "mask", "y"}, {{"self"}, {"mask"}, {"value"}}};
    if (function.name == "pow") return {{"x", "exponent"}, {{"self"}, {"exponent"}}};
    if (function.operands == 2) return {{"x", "y"}, {{"self"}, {"other"}}};
    return {{"x"}, {{"self", "input"}}};
}

OperatorCard card(std::string algorithm) {
    OperatorCard card;
    card.family = "pointwise";
    card.algorithm = std::move(algorithm) + "; every operation rounds to bf16 (docs/pointwise-errors.md)";
    card.space = "block size, vectors unrolled";
    card.bound = "DRAM traffic, or the lane operations of the expression as written, with copies on the freer unit";
    card.reference = "float64; the same bits as the naive program";
    card.supports =
        "bf16 tensors of any shapes that broadcast, numbers in place of any operand but one; conditions are 1 and 0";
    card.refuses = "integers and float32: lanes hold bf16";
    card.fuses = "any other pointwise operator, as an expression: gelu(add(x, y))";
    return card;
}

// A number given for an operand stands in the expression; the others are tensors.
ExpressionNode expression_of(const PointwiseFunction &function, const WorkloadRequest &request) {
    const OperandNames operands = operand_names(function);
    std::vector<ExpressionNode> arguments;
    for (const std::string &name : operands.names) {
        const bool number = function.operands > 1 && request.given(name);
        if (number && request.has(name))
            throw Error(fmt::format("{}: {} is given as a number and as a tensor", function.name, name));
        if (number && !request.attributes.at(name).is_number())
            throw Error(
                fmt::format("{}: {} must be a number, not {}", function.name, name, request.attributes.at(name).dump()));
        if (!number && !request.has(name))
            throw Error(fmt::format("{} needs {}: a shape, or a number with --{}", function.name, name, name));
        arguments.push_back(number ? ExpressionNode::of_number(request.number(name)) : ExpressionNode::input(name));
    }
    Keywords words;
    for (const auto &[keyword, usual] : function.keywords) {
        const nlohmann::json &value = request.attributes.at(keyword);
        if (!value.is_null())
            words[keyword] = value.is_string()         ? value.get<std::string>()
                             : value.is_number_float() ? fmt::format("{}", value.get<double>())
                                                       : value.dump();
    }
    ExpressionNode node = ExpressionNode::call(function.name, std::move(arguments), std::move(words));
    check_pointwise(node);
    return node;
}

OperatorDeclaration declaration(const PointwiseFunction &function) {
    const OperandNames operands = operand_names(function);
    OperatorDeclaration row;
    row.name = function.name;
    row.schemas = function.schemas;
    row.help = function.formula;
    row.card = card(function.formula);
    for (size_t i = 0; i < operands.names.size(); i++) {
        row.tensors.push_back({operands.names[i], operands.aten[i], "an operand", function.operands == 1, false});
        if (function.operands > 1) row.attributes.push_back({operands.names[i], "a number for this operand", nullptr, false});
    }
    for (const auto &[keyword, usual] : function.keywords) {
        const nlohmann::json value = nlohmann::json::parse(usual, nullptr, false);
        row.attributes.push_back(
            {keyword, fmt::format("{} if left out", usual),
             value.is_discarded() && keyword == "approximate" ? nlohmann::json(usual) : nlohmann::json(nullptr), false});
    }
    if (function.name == "pow")
        row.example = {{"shape", "1024x1024"}, {"exponent", "2"}};
    else
        row.example = {{"shape", function.operands == 1   ? "1024x1024"
                                 : function.operands == 2 ? "1024x1024,1024x1024"
                                                          : "1024x1024,1024x1024,1024x1024"}};
    row.make = [&function](const WorkloadRequest &request) {
        return pointwise_workload(request, expression_of(function, request));
    };
    return row;
}

OperatorDeclaration pointwise_expression(ExpressionNode node) {
    check_pointwise(node);
    OperatorDeclaration row;
    row.name = node.text();
    row.help = "an expression of pointwise operators in one kernel";
    row.card = card("the operators of the expression, one after the other");
    for (const std::string &name : node.inputs()) {
        row.tensors.push_back({name, {name}, "an input of the expression", true, false});
        std::string &shapes = row.example["shape"];
        shapes += shapes.empty() ? "1024x1024" : ",1024x1024";
    }
    row.make = [node](const WorkloadRequest &request) { return pointwise_workload(request, node); };
    return row;
}

// Calls that are not pointwise become inputs.
void take_others(ExpressionNode &node) {
    if (node.kind == ExpressionNode::Call && find_pointwise_function(node.name) == nullptr)
        node = ExpressionNode::input(result_name);
    for (ExpressionNode &argument : node.arguments) take_others(argument);
}

}  // namespace

const std::vector<const Operator *> &pointwise_operators() {
    static const std::vector<const Operator *> all = [] {
        std::vector<OperatorDeclaration> rows;
        for (const PointwiseFunction &function : pointwise_functions()) rows.push_back(declaration(function));
        return declared(std::move(rows));
    }();
    return all;
}

int64_t lane_operations(const ExpressionNode &expression) {
    ExpressionNode pointwise = expression;
    take_others(pointwise);
    check_pointwise(pointwise);
    std::map<std::string, Halide::Expr> values;
    for (const std::string &name : pointwise.inputs())
        values[name] = Halide::Internal::Variable::make(Halide::BFloat(16), name);
    return count_lane_operations(machine_expression(pointwise, values)).all();
}

const Operator &expression_operator(std::string_view text) {
    static std::mutex mutex;
    static std::map<std::string, const Operator *> known;
    ExpressionNode node = parse_expression(text);
    OperatorDeclaration row = has_product(node)    ? product_expression(node)
                              : has_epilogue(node) ? epilogue_expression(node)
                                                   : pointwise_expression(node);
    const std::scoped_lock lock(mutex);
    const auto [found, is_new] = known.try_emplace(row.name);
    if (is_new) found->second = declared({std::move(row)}).front();
    return *found->second;
}

}  // namespace atalla
