#include "generators/product_expression.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "generators/gemm_epilogue.h"
#include "generators/matmul_operators.h"
#include "generators/pointwise_functions.h"
#include "isa/error.h"

namespace atalla {

namespace {

const std::vector<OperatorDeclaration> &products() {
    static const std::vector<OperatorDeclaration> all = matmul_operators();
    return all;
}
const OperatorDeclaration *find_product(std::string_view name) {
    for (const OperatorDeclaration &one : products())
        if (one.name == name) return &one;
    return nullptr;
}

// Calls `visit` with every product in the expression.
template <typename Visit>
void for_each_product(ExpressionNode &node, const Visit &visit) {
    if (node.kind == ExpressionNode::Call && find_product(node.name) != nullptr) visit(node);
    else
        for (ExpressionNode &argument : node.arguments) for_each_product(argument, visit);
}

// An expression taken apart: the product, and what is computed of it.
struct Parts {
    const OperatorDeclaration *product = nullptr;
    ExpressionNode call, epilogue;
    std::vector<std::string> operands;   // of the epilogue, without the product

    // What the expression calls the product's tensors, in the declared order.
    std::vector<std::pair<const DeclaredTensor *, std::string>> tensors() const {
        std::vector<std::pair<const DeclaredTensor *, std::string>> list;
        for (size_t i = 0; i < call.arguments.size(); i++) list.emplace_back(&product->tensors[i], call.arguments[i].name);
        return list;
    }
};

Parts take_apart(ExpressionNode expression) {
    Parts parts;
    const std::string text = expression.text();
    for_each_product(expression, [&](ExpressionNode &node) {
        if (parts.product != nullptr && node.text() != parts.call.text()) throw Error(fmt::format("{} has two products; one kernel computes one", text));
        parts.product = find_product(node.name);
        parts.call = node;
        node = ExpressionNode::input(product_name);
    });
    const size_t most = parts.product->tensors.size(), least = static_cast<size_t>(std::ranges::count_if(parts.product->tensors, &DeclaredTensor::required));
    if (parts.call.arguments.size() < least || parts.call.arguments.size() > most)
        throw Error(fmt::format("{} takes {} tensors, not {}", parts.call.name, least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most), parts.call.arguments.size()));
    for (const ExpressionNode &argument : parts.call.arguments)
        if (argument.kind != ExpressionNode::Input)
            throw Error(fmt::format("{}: the product's tensors must be inputs: what is before a product is a kernel of its own", parts.call.text()));
    check_pointwise(expression);
    parts.epilogue = std::move(expression);
    for (const std::string &name : parts.epilogue.inputs())
        if (name != product_name) parts.operands.push_back(name);
    const std::vector<std::string> used = parts.call.inputs();
    if (used.size() < parts.call.arguments.size()) throw Error(fmt::format("{}: an input is given twice", parts.call.text()));
    for (const std::string &name : parts.operands)
        if (std::ranges::find(used, name) != used.end()) throw Error(fmt::format("{} is an operand of the product and of what follows it; give it a second name", name));
    return parts;
}

nlohmann::json attribute_value(const Attribute &attribute, const std::string &text) {
    if (attribute.fallback.is_string()) return text;
    nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    if (value.is_discarded()) throw Error(fmt::format("{} must be a number, not '{}'", attribute.name, text));
    return attribute.fallback.is_number_float() && value.is_number() ? nlohmann::json(value.get<double>()) : value;
}

// The request that the product alone would be.
WorkloadRequest product_request(const WorkloadRequest &request, const Parts &parts) {
    WorkloadRequest made;
    made.op = parts.product->name;
    for (const auto &[tensor, name] : parts.tensors()) made.tensors.push_back({tensor->name, request.shape(name)});
    made.attributes = nlohmann::json::object();
    for (const Attribute &attribute : parts.product->attributes) made.attributes[attribute.name] = attribute.fallback;
    for (const auto &[name, text] : parts.call.keywords) {
        const auto found = std::ranges::find(parts.product->attributes, name, &Attribute::name);
        if (found == parts.product->attributes.end()) throw Error(fmt::format("{} has no argument '{}'", made.op, name));
        made.attributes[name] = attribute_value(*found, text);
    }
    return made;
}

// Whether an operand is an element for each row of the product: its dimensions behind the rows, those of n, are ones.
bool is_column(Shape operand, const Shape &result, const GemmShape &shape) {
    if (operand.size() > result.size() || element_count(operand) != shape.m) return false;
    operand.insert(operand.begin(), result.size() - operand.size(), 1);
    size_t rows = result.size();
    for (int64_t columns = 1; columns < shape.n && rows > 0; rows--) columns *= result[rows - 1];
    return rows > 0 && operand[rows - 1] == result[rows - 1] && std::all_of(operand.begin() + static_cast<ptrdiff_t>(rows), operand.end(), [](int64_t n) { return n == 1; });
}

// How an operand meets the product: as a whole, or one row or column of it for all.
GemmOperand::Kind kind_of(const WorkloadRequest &request, const std::string &name, const Shape &result, const GemmShape &shape) {
    const Shape &operand = request.shape(name);
    const int64_t elements = element_count(operand);
    // Rows of a shared B may join those of the product.
    const bool rows_stay = std::ranges::all_of(shape.batch, &BatchDim::b);
    if (rows_stay && is_column(operand, result, shape)) return GemmOperand::Column;
    const bool same_end = !operand.empty() && !result.empty() && operand.back() == result.back();
    if (same_end && elements == element_count(result)) return GemmOperand::Matrix;
    if (same_end && elements == shape.n && operand.back() == shape.n) return GemmOperand::Row;
    throw Error(fmt::format("{}: {} of {} is neither of the product's shape nor one row or column of it; expand it first", request.op, name, shape_text(operand)));
}

std::unique_ptr<Workload> workload_of(const WorkloadRequest &request, const Parts &parts) {
    const WorkloadRequest product = product_request(request, parts);
    GemmShape shape = matmul_shape(product);
    Shape result = matmul_result(product, shape);
    // What the product has behind it itself goes first.
    std::map<std::string, ExpressionNode> names;
    for (const auto &[tensor, name] : parts.tensors()) names[tensor->name] = ExpressionNode::input(name);
    for (GemmOperand &operand : shape.operands) operand.name = names.at(operand.name).name;
    shape.epilogue = shape.epilogue ? parts.epilogue.with({{product_name, shape.epilogue->with(names)}}) : parts.epilogue;
    for (const std::string &name : parts.operands) shape.operands.push_back({name, kind_of(request, name, result, shape)});
    shape.staged = stages_epilogue(shape);
    return matmul_workload(request, std::move(shape), std::move(result), adds_first(product));
}

}  // namespace

bool has_product(const ExpressionNode &expression) {
    return (expression.kind == ExpressionNode::Call && find_product(expression.name) != nullptr) || std::ranges::any_of(expression.arguments, has_product);
}

int64_t lane_operations(const ExpressionNode &expression) {
    ExpressionNode pointwise = expression;
    for_each_product(pointwise, [](ExpressionNode &node) { node = ExpressionNode::input(product_name); });
    check_pointwise(pointwise);
    std::map<std::string, Halide::Expr> values;
    for (const std::string &name : pointwise.inputs()) values[name] = Halide::Internal::Variable::make(Halide::BFloat(16), name);
    const LaneCount count = count_lane_operations(machine_expression(pointwise, values));
    return count.work.adds + count.work.muls + count.work.exps + count.copies;
}

OperatorDeclaration product_expression(ExpressionNode expression) {
    OperatorDeclaration row;
    const std::string text = expression.text();
    const Parts parts = take_apart(std::move(expression));
    row.help = "a matrix product with what follows it in one kernel";
    row.card = parts.product->card;
    row.card.algorithm += "; behind it the operators of the expression, each rounded to bf16";
    row.card.space += "; long expressions are a loop of their own over the rows of a block";
    const std::vector<std::optional<Shape>> usual = parse_shapes(parts.product->example.at("shape"));
    std::string &shapes = row.example["shape"];
    size_t at = 0;
    for (const auto &[tensor, name] : parts.tensors()) {
        row.tensors.push_back({name, {name}, tensor->help, true, false});
        shapes += fmt::format("{}{}", at == 0 ? "" : ",", at < usual.size() ? shape_text(*usual[at]) : "512");
        at++;
    }
    for (const std::string &name : parts.operands) {
        row.tensors.push_back({name, {name}, "of the product's shape, or one row or column of it", true, false});
        shapes += ",512";
    }
    row.name = text;
    row.make = [parts](const WorkloadRequest &request) { return workload_of(request, parts); };
    return row;
}

}  // namespace atalla
