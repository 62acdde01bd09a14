#include "generators/epilogue_expression.h"

#include <algorithm>

#include <fmt/format.h>

#include "generators/convolution_operator.h"
#include "generators/declared_call.h"
#include "generators/depthwise_places.h"
#include "generators/pointwise_functions.h"
#include "isa/error.h"

namespace atalla {

namespace {

const OperatorDeclaration *find(std::string_view name) {
    static const std::vector<OperatorDeclaration> all = [] {
        std::vector<OperatorDeclaration> rows = convolution_operators();
        for (OperatorDeclaration &row : depthwise_operators()) rows.push_back(std::move(row));
        return rows;
    }();
    const auto found =
        std::ranges::find_if(all, [&](const OperatorDeclaration &op) { return op.name == name && op.make_with; });
    return found == all.end() ? nullptr : &*found;
}

// The calls in front of the pointwise operators, which become the result's name.
void take_calls(ExpressionNode &node, std::vector<ExpressionNode> &calls) {
    if (node.kind == ExpressionNode::Call && takes_epilogue(node.name)) {
        calls.push_back(node);
        node = ExpressionNode::input(result_name);
    } else {
        for (ExpressionNode &argument : node.arguments) take_calls(argument, calls);
    }
}

}  // namespace

bool takes_epilogue(std::string_view op) { return find(op) != nullptr; }

bool has_epilogue(const ExpressionNode &expression) {
    return (expression.kind == ExpressionNode::Call && takes_epilogue(expression.name)) ||
           std::ranges::any_of(expression.arguments, has_epilogue);
}

OperatorDeclaration epilogue_expression(ExpressionNode expression) {
    const std::string text = expression.text();
    std::vector<ExpressionNode> calls;
    take_calls(expression, calls);
    const ExpressionNode call = calls.front();
    const OperatorDeclaration &op = *find(call.name);
    if (std::ranges::any_of(calls, [&](const ExpressionNode &other) { return other.text() != call.text(); }))
        throw Error(fmt::format("{} has two operators in front of pointwise ones; one kernel computes one", text));
    std::vector<std::string> names;
    for (const auto &[tensor, argument] : given(op, call)) {
        if (argument->kind != ExpressionNode::Input)
            throw Error(fmt::format("{}: {} must be an input: what is in front of it is a kernel of its own", call.text(),
                                    tensor->name));
        if (std::ranges::find(names, argument->name) != names.end())
            throw Error(fmt::format("{}: {} is given twice", call.text(), argument->name));
        names.push_back(argument->name);
    }
    check_pointwise(expression);
    for (const std::string &name : expression.inputs())
        if (name != result_name)
            throw Error(fmt::format("{}: behind {} are pointwise operators of its result alone, but {} is another operand",
                                    text, op.name, name));

    OperatorDeclaration row;
    row.name = text;
    row.help = fmt::format("{} with pointwise operators behind it in one kernel", op.name);
    row.card = op.card;
    row.card.algorithm += "; behind it the operators of the expression, each rounded to bf16";
    row.example = {{"shape", op.example.at("shape")}};
    for (const auto &[tensor, argument] : given(op, call))
        row.tensors.push_back({argument->name, {argument->name}, tensor->help, true, false});
    // What the call leaves open of how its inputs lie, so that they may be arranged.
    for (const Attribute &attribute : op.attributes)
        if (attribute.arranges && !call.keywords.contains(attribute.name)) row.attributes.push_back(attribute);
    const Epilogue epilogue = expression.kind == ExpressionNode::Call ? Epilogue(expression) : Epilogue();
    row.make = [&op, call, epilogue, names, open = row.attributes](const WorkloadRequest &request) {
        std::vector<Shape> shapes;
        for (const std::string &name : names) shapes.push_back(request.shape(name));
        WorkloadRequest own = call_request(op, call, shapes);
        for (const Attribute &attribute : open) own.attributes[attribute.name] = request.attributes.at(attribute.name);
        own.reader = request.reader;
        own.text = request.text;
        own.title = request.title;
        return op.make_with(own, epilogue);
    };
    return row;
}

}  // namespace atalla
