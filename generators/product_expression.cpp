#include "generators/product_expression.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "generators/declared_call.h"
#include "generators/gemm_epilogue.h"
#include "generators/matmul_operators.h"
#include "generators/pointwise_functions.h"
#include "generators/row_operators.h"
#include "generators/row_workload.h"
#include "isa/error.h"

namespace atalla {

namespace {

const std::vector<OperatorDeclaration> &products() {
    static const std::vector<OperatorDeclaration> all = matmul_operators();
    return all;
}
const OperatorDeclaration *find_in(const std::vector<OperatorDeclaration> &all, std::string_view name) {
    const auto found = std::ranges::find(all, name, &OperatorDeclaration::name);
    return found == all.end() ? nullptr : &*found;
}
const OperatorDeclaration *find_product(std::string_view name) { return find_in(products(), name); }
const OperatorDeclaration *find_rows(std::string_view name) {
    static const std::vector<OperatorDeclaration> all = row_operators();
    return find_in(all, name);
}

// Calls `visit` with every product in the expression.
template <typename Visit>
void for_each_product(ExpressionNode &node, const Visit &visit) {
    if (node.kind == ExpressionNode::Call && find_product(node.name) != nullptr)
        visit(node);
    else
        for (ExpressionNode &argument : node.arguments) for_each_product(argument, visit);
}

// An expression taken apart: the product, what is computed of it, and what makes the rows of its first operand, if they are no
// input.
struct Parts {
    const OperatorDeclaration *product = nullptr, *rows = nullptr;
    std::shared_ptr<const Parts> inner;  // or another product does
    ExpressionNode call, epilogue;
    std::vector<std::string> operands;  // of the epilogue, without the product

    // The product's tensors, and what it is given for each.
    Given tensors() const { return given(*product, call); }
    // What makes the rows.
    bool makes(const ExpressionNode *argument) const { return argument->kind == ExpressionNode::Call; }
    const ExpressionNode &rows_call() const {
        return *std::ranges::find(call.arguments, ExpressionNode::Call, &ExpressionNode::kind);
    }
};

void demand_inputs(const ExpressionNode &call, const std::string &rule) {
    for (const ExpressionNode &argument : call.arguments)
        if (argument.kind != ExpressionNode::Input) throw Error(fmt::format("{}: {}", call.text(), rule));
}

Parts take_apart(ExpressionNode expression) {
    Parts parts;
    const std::string text = expression.text();
    for_each_product(expression, [&](ExpressionNode &node) {
        if (parts.product != nullptr && node.text() != parts.call.text())
            throw Error(fmt::format("{} has two products; one kernel computes one", text));
        parts.product = find_product(node.name);
        parts.call = node;
        node = ExpressionNode::input(product_name);
    });
    ExpressionNode read = parts.call;  // of the product's tensors, those that are read
    std::vector<std::string> used;     // that make the rows
    for (const auto &[tensor, argument] : parts.tensors()) {
        if (!parts.makes(argument) || !streams(parts.call, *tensor)) continue;
        if (has_product(*argument)) {
            parts.inner = std::make_shared<const Parts>(take_apart(*argument));
            if (parts.inner->inner)
                throw Error(fmt::format("{} has three products one behind the other; one kernel computes two", text));
            if (!parts.inner->operands.empty())
                throw Error(
                    fmt::format("{}: between two products of a kernel are pointwise operators of the first one alone, but {} "
                                "is another operand",
                                text, parts.inner->operands.front()));
        } else {
            parts.rows = find_rows(argument->name);
            if (parts.rows == nullptr) break;
            given(*parts.rows, *argument);
            demand_inputs(*argument, "tensors of an operator in front of a product must be inputs");
        }
        used = argument->inputs();
        read.arguments.erase(read.arguments.begin() + (argument - parts.call.arguments.data()));
    }
    demand_inputs(read,
                  "the product's tensors must be inputs, but the first operand may be a norm or a softmax, or another product "
                  "with what is behind it: what else is before a product is a kernel of its own");
    check_pointwise(expression);
    parts.epilogue = std::move(expression);
    for (const std::string &name : parts.epilogue.inputs())
        if (name != product_name) parts.operands.push_back(name);
    const size_t made = parts.rows != nullptr ? parts.rows_call().arguments.size() : used.size();
    used = parts.call.inputs();
    if (used.size() < read.arguments.size() + made) throw Error(fmt::format("{}: an input is given twice", parts.call.text()));
    for (const std::string &name : parts.operands)
        if (std::ranges::find(used, name) != used.end())
            throw Error(fmt::format("{} is an operand of the product and of what follows it; give it a second name", name));
    return parts;
}

WorkloadRequest product_request(const WorkloadRequest &request, const Parts &parts);

// Of what the product is given. Rows that are made have the shape of what they are made of, those of a product the shape of its
// result.
Shape given_shape(const WorkloadRequest &request, const Parts &parts, const ExpressionNode &argument) {
    if (argument.kind == ExpressionNode::Input || !parts.inner) return request.shape(argument.inputs().front());
    const WorkloadRequest inner = product_request(request, *parts.inner);
    return matmul_result(inner, matmul_shape(inner));
}

WorkloadRequest product_request(const WorkloadRequest &request, const Parts &parts) {
    std::vector<Shape> shapes;
    for (const auto &[tensor, argument] : parts.tensors()) shapes.push_back(given_shape(request, parts, *argument));
    return call_request(*parts.product, parts.call, shapes);
}

// Whether an operand is an element for each row of the product: its dimensions behind the rows, those of n, are ones.
bool is_column(Shape operand, const Shape &result, const GemmShape &shape) {
    if (operand.size() > result.size() || element_count(operand) != shape.m) return false;
    operand.insert(operand.begin(), result.size() - operand.size(), 1);
    size_t rows = result.size();
    for (int64_t columns = 1; columns < shape.n && rows > 0; rows--) columns *= result[rows - 1];
    return rows > 0 && operand[rows - 1] == result[rows - 1] &&
           std::all_of(operand.begin() + static_cast<ptrdiff_t>(rows), operand.end(), [](int64_t n) { return n == 1; });
}

// How an operand meets the product: as a whole, or one row or column of it for all.
GemmOperand::Kind kind_of(const WorkloadRequest &request, const std::string &name, const Shape &result,
                          const GemmShape &shape) {
    const Shape &operand = request.shape(name);
    const int64_t elements = element_count(operand);
    // Rows of a shared B may join those of the product.
    const bool rows_stay = std::ranges::all_of(shape.batch, &BatchDim::b);
    if (rows_stay && is_column(operand, result, shape)) return GemmOperand::Column;
    const bool same_end = !operand.empty() && !result.empty() && operand.back() == result.back();
    if (same_end && elements == element_count(result)) return GemmOperand::Matrix;
    if (same_end && elements == shape.n && operand.back() == shape.n) return GemmOperand::Row;
    throw Error(fmt::format("{}: {} of {} is neither of the product's shape nor one row or column of it; expand it first",
                            request.op, name, shape_text(operand)));
}

// What makes the rows of the first operand.
std::shared_ptr<const RowWorkload> prologue_of(const WorkloadRequest &request, const Parts &parts) {
    const ExpressionNode &call = parts.rows_call();
    std::vector<Shape> shapes;
    for (const ExpressionNode &argument : call.arguments) shapes.push_back(request.shape(argument.name));
    auto rows = std::dynamic_pointer_cast<const RowWorkload>(
        std::shared_ptr<const Workload>(parts.rows->make(call_request(*parts.rows, call, shapes))));
    if (!rows || rows->row_shape().length != shapes.front().back())
        throw Error(
            fmt::format("{}: {} in front of a product is along the last axis, of at least one element", request.op, call.name));
    return rows;
}

// The product with what is in front of it and behind it, its leading dimensions as they are given.
GemmShape shape_of(const WorkloadRequest &request, const Parts &parts) {
    const WorkloadRequest product = product_request(request, parts);
    GemmShape shape = matmul_shape(product);
    const Shape result = matmul_result(product, shape);
    if (parts.rows != nullptr) shape.prologue = prologue_of(request, parts);
    if (parts.inner) {
        GemmShape inner = shape_of(request, *parts.inner);
        join_batch(inner);
        if (!inner.batch.empty())
            throw Error(
                fmt::format("{}: {} in front of a product makes the rows of one, not of a batch; it is a kernel of its own",
                            request.op, parts.inner->call.name));
        for (const int64_t size : {inner.m, inner.n, inner.k})
            if (size == 0) throw Error(fmt::format("{}: a tensor is empty, so there is nothing to compute", request.op));
        if (inner.m != shape.m || inner.n != shape.k)
            throw Error(fmt::format("{}: {} in front of a product makes {} rows of {} elements, but the product takes {} of {}",
                                    request.op, parts.inner->call.name, inner.m, inner.n, shape.m, shape.k));
        if (!inner.bias && !inner.addend) inner.beta = 1;
        shape.inner = std::make_shared<const GemmShape>(std::move(inner));
    }
    // What the product has behind it itself goes first.
    std::map<std::string, ExpressionNode> names;
    for (const auto &[tensor, argument] : parts.tensors()) names[tensor->name] = *argument;
    for (GemmOperand &operand : shape.operands) operand.name = names.at(operand.name).name;
    const bool computes = parts.epilogue.kind == ExpressionNode::Call;
    if (shape.epilogue)
        shape.epilogue = parts.epilogue.with({{product_name, shape.epilogue->with(names)}});
    else if (computes)
        shape.epilogue = parts.epilogue;
    for (const std::string &name : parts.operands) shape.operands.push_back({name, kind_of(request, name, result, shape)});
    plan_epilogue(shape);
    return shape;
}

std::unique_ptr<Workload> workload_of(const WorkloadRequest &request, const Parts &parts) {
    const WorkloadRequest product = product_request(request, parts);
    return matmul_workload(request, shape_of(request, parts), matmul_result(product, matmul_shape(product)));
}

// The tensors of an expression with their usual shapes, in the order in which they stand there.
struct UsualTensor {
    std::string name, help, shape;
};
std::vector<UsualTensor> usual_tensors(const Parts &parts) {
    std::vector<UsualTensor> list;
    const std::vector<std::optional<Shape>> usual = parse_shapes(parts.product->example.at("shape"));
    size_t at = 0;
    for (const auto &[tensor, argument] : parts.tensors()) {
        const std::string shape = at < usual.size() ? shape_text(*usual[at]) : "512";
        at++;
        if (!parts.makes(argument)) {
            list.push_back({argument->name, tensor->help, shape});
        } else if (parts.inner) {
            const std::vector<UsualTensor> inner = usual_tensors(*parts.inner);
            list.insert(list.end(), inner.begin(), inner.end());
        } else {
            for (const auto &[own, input] : given(*parts.rows, *argument))
                list.push_back({input->name, own->help, own == &parts.rows->tensors[0] ? shape : "512"});
        }
    }
    for (const std::string &name : parts.operands)
        list.push_back({name, "of the product's shape, or one row or column of it", "512"});
    return list;
}

}  // namespace

bool has_product(const ExpressionNode &expression) {
    return (expression.kind == ExpressionNode::Call && find_product(expression.name) != nullptr) ||
           std::ranges::any_of(expression.arguments, has_product);
}

OperatorDeclaration product_expression(ExpressionNode expression) {
    OperatorDeclaration row;
    const std::string text = expression.text();
    const Parts parts = take_apart(std::move(expression));
    row.help = "a matrix product with what is in front of it and behind it in one kernel";
    row.card = parts.product->card;
    row.card.algorithm += "; behind it the operators of the expression, each rounded to bf16";
    row.card.space += "; long expressions are a loop of their own over the rows of a block";
    if (parts.rows != nullptr) {
        row.card.algorithm +=
            fmt::format("; the rows of the first operand are made in the pads: {}", parts.rows->card.algorithm);
        row.card.space += "; rows and vectors in straight-line code of those that are made";
        row.card.bound += "; the lane operations of all parts together";
    }
    if (parts.inner) {
        row.card.algorithm +=
            "; the rows of the first operand are the result of another product, with its own operators behind it, rounded to "
            "bf16, in the pads";
        row.card.space += "; where sums and operands of the inner product stay";
        row.card.bound = "array, lanes, DRAM, pads, issue of all products together";
        row.card.refuses +=
            std::string(row.card.refuses.empty() ? "" : "; ") +
            "rows of the inner product that do not fit the pads, and other operands between the products: separate kernels";
    }
    std::string &shapes = row.example["shape"];
    for (UsualTensor &tensor : usual_tensors(parts)) {
        shapes += (shapes.empty() ? "" : ",") + tensor.shape;
        row.tensors.push_back({tensor.name, {tensor.name}, std::move(tensor.help), true, false});
    }
    row.name = text;
    row.make = [parts](const WorkloadRequest &request) { return workload_of(request, parts); };
    return row;
}

}  // namespace atalla
