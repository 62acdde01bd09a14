#include "generators/matmul_operators.h"

#include <algorithm>

#include <fmt/format.h>

#include "generators/broadcast.h"
#include "generators/gemm_epilogue.h"
#include "generators/gemm_workload.h"
#include "generators/movement.h"
#include "isa/error.h"

namespace atalla {

namespace {

// Is what is added to the product the first tensor of the request, as in addmm(input, mat1, mat2)?
bool adds_first(const WorkloadRequest &request) { return request.attributes.contains("alpha"); }

// The leading dimensions of two operands, broadcast against each other, and of an addend.
void set_batch(GemmShape &shape, const std::string &op, const Shape &a, const Shape &b, const Shape *addend) {
    const Shape all = broadcast_shape(op, {a, b});
    const auto has = [&](const Shape &own, size_t d) {
        const size_t missing = all.size() - own.size();
        return d >= missing && own[d - missing] == all[d];
    };
    for (size_t d = 0; d < all.size(); d++)
        shape.batch.push_back({all[d], has(a, d), has(b, d), addend == nullptr || has(*addend, d)});
}

// What is added to a product of `rows` dimensions: a vector for all rows, or a matrix for each.
void set_addend(GemmShape &shape, const std::string &op, const Shape &addend, const Shape &result, Shape &leading) {
    if (broadcast_shape(op, {addend, result}) != result)
        throw Error(fmt::format("{}: the expanded size of the tensor must match: {} does not broadcast to {}", op,
                                shape_text(addend), shape_text(result)));
    const auto from_end = [&](size_t back) { return addend.size() >= back ? addend[addend.size() - back] : 1; };
    const int64_t columns = from_end(1), rows = from_end(2);
    const bool leads = std::any_of(addend.begin(), addend.end() - static_cast<ptrdiff_t>(std::min<size_t>(addend.size(), 2)),
                                   [](int64_t n) { return n != 1; });
    if (columns != shape.n)
        throw Error(
            fmt::format("{}: an input of {} would be broadcast along the columns, which is not supported; expand it first", op,
                        shape_text(addend)));
    if (rows == 1 && shape.m != 1 && leads)
        throw Error(fmt::format(
            "{}: an input of {} would be broadcast along the rows of each product, which is not supported; expand it first", op,
            shape_text(addend)));
    shape.bias = !leads && rows == 1;
    shape.addend = !shape.bias;
    if (addend.size() > 2) leading.assign(addend.begin(), addend.end() - 2);
}

void demand(bool condition, const std::string &message) {
    if (!condition) throw Error(message);
}

// mm, addmm, bmm, baddbmm: operands of `rank` dimensions, B stored [k][n].
GemmShape ranked(const WorkloadRequest &request, size_t rank) {
    const Shape &a = request.shape("a"), &b = request.shape("b");
    const std::string &op = request.op;
    demand(a.size() == rank && b.size() == rank,
           fmt::format("{}: both operands must have {} dimensions, not {} and {}", op, rank, a.size(), b.size()));
    demand(a[rank - 1] == b[rank - 2],
           fmt::format("{}: shapes {} and {} cannot be multiplied", op, shape_text(a), shape_text(b)));
    demand(rank == 2 || a[0] == b[0], fmt::format("{}: batches of {} and {} products do not match", op, a[0], b[0]));
    GemmShape shape;
    shape.b_transposed = false;
    shape.m = a[rank - 2];
    shape.k = a[rank - 1];
    shape.n = b[rank - 1];
    const Shape a_leads(a.begin(), a.end() - 2), b_leads(b.begin(), b.end() - 2);
    Shape leads;
    if (adds_first(request)) {
        shape.alpha = request.number("alpha");
        shape.beta = request.number("beta");
        // PyTorch does not read what beta = 0 ignores.
        Shape result = a_leads;
        result.insert(result.end(), {shape.m, shape.n});
        set_addend(shape, op, request.shape("input"), result, leads);
        if (shape.beta == 0) throw Error(fmt::format("{}: beta is 0, so the input is not used; multiply without it", op));
    }
    set_batch(shape, op, a_leads, b_leads, shape.addend ? &leads : nullptr);
    return shape;
}

GemmShape linear(const WorkloadRequest &request) {
    const Shape &input = request.shape("input"), &weight = request.shape("weight");
    demand(!input.empty(), "linear: the input needs at least one dimension");
    demand(weight.size() == 2,
           fmt::format("linear: the weight must have 2 dimensions, out_features x in_features, not {}", weight.size()));
    demand(input.back() == weight[1],
           fmt::format("linear: shapes {} and {} cannot be multiplied: the input has {} features, the weight {}",
                       shape_text(input), shape_text(weight), input.back(), weight[1]));
    GemmShape shape;
    shape.k = weight[1];
    shape.n = weight[0];
    shape.m = element_count(Shape(input.begin(), input.end() - 1));
    if (request.has("bias")) {
        demand(request.shape("bias") == Shape{shape.n}, fmt::format("linear: the bias must have {} elements, not the shape {}",
                                                                    shape.n, shape_text(request.shape("bias"))));
        shape.bias = true;
    }
    return shape;
}

GemmShape matmul(const WorkloadRequest &request) {
    Shape a = request.shape("a"), b = request.shape("b");
    demand(!a.empty() && !b.empty(), "matmul: both operands need at least one dimension");
    // A vector is a row in front and a column behind; a column has the bytes of a row.
    const bool column = b.size() == 1;
    if (a.size() == 1) a.insert(a.begin(), 1);
    if (column) b.insert(b.begin(), 1);
    const int64_t depth = column ? b[1] : b[b.size() - 2];
    demand(a.back() == depth, fmt::format("matmul: shapes {} and {} cannot be multiplied: {} columns against {} rows",
                                          shape_text(request.shape("a")), shape_text(request.shape("b")), a.back(), depth));
    GemmShape shape;
    shape.m = a[a.size() - 2];
    shape.k = depth;
    shape.n = column ? 1 : b.back();
    shape.b_transposed = column;
    set_batch(shape, "matmul", Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2), nullptr);
    return shape;
}

// A convolution with a kernel of one element: each place of the image is a column of B, [k][n] as images are.
GemmShape conv1x1(const WorkloadRequest &request) {
    const Shape &weight = request.shape("weight"), &input = request.shape("input");
    demand(weight.size() >= 2 && element_count(weight) == weight[0] * weight[1],
           fmt::format("conv1x1: the weight must be out x channels x 1 x ..., not {}", shape_text(weight)));
    const size_t rank = weight.size();
    demand(input.size() == rank || input.size() + 1 == rank,
           fmt::format("conv1x1: the input must have {} or {} dimensions, not {}", rank - 1, rank, input.size()));
    const size_t channels = input.size() + 1 - rank;
    demand(input[channels] == weight[1],
           fmt::format("conv1x1: expected an input of {} channels, but it has {}", weight[1], input[channels]));
    GemmShape shape;
    shape.b_transposed = false;
    shape.m = weight[0];
    shape.k = weight[1];
    shape.n = element_count(Shape(input.begin() + static_cast<ptrdiff_t>(channels) + 1, input.end()));
    if (channels == 1) shape.batch.push_back({input[0], false, true, true});
    if (request.has("bias")) {
        demand(request.shape("bias") == Shape{shape.m}, fmt::format("conv1x1: the bias must have {} elements, not the shape {}",
                                                                    shape.m, shape_text(request.shape("bias"))));
        shape.operands.push_back({"bias", GemmOperand::Column});
        shape.epilogue = ExpressionNode::call("add", {ExpressionNode::input(product_name), ExpressionNode::input("bias")});
        plan_epilogue(shape);
    }
    return shape;
}

OperatorCard card(const std::string &supports, const std::string &refuses) {
    OperatorCard card;
    card.family = "matmul";
    card.algorithm =
        "sums over blocks of 32 in float32, rounded to bf16, added ascending, or in groups; [k][n] operands are transposed by "
        "the array";
    card.space = "rows of a block, loop order, where sums and operands stay, unrolling";
    card.bound = "tiled programs: array, visits, additions, DRAM, pads, issue";
    card.reference = "float64";
    card.supports = supports;
    card.refuses = refuses;
    card.fuses = "bias, addend, alpha, beta behind it";
    return card;
}

std::unique_ptr<Workload> workload_of(const WorkloadRequest &request) {
    const GemmShape shape = matmul_shape(request);
    const Shape result = matmul_result(request, shape);
    // No terms: zeros, where nothing is added to them.
    const bool adds = shape.bias || shape.addend;
    if (element_count(result) == 0 || (shape.k == 0 && !adds)) return constant_workload(request, result);
    demand(shape.k > 0,
           fmt::format("{}: the product has no terms, so the result is what is added to it: expand that instead", request.op));
    return matmul_workload(request, shape, result);
}

}  // namespace

void join_batch(GemmShape &shape) {
    std::vector<BatchDim> dims;
    for (const BatchDim &dim : shape.batch) {
        if (dim.extent == 1) continue;
        BatchDim *before = dims.empty() ? nullptr : &dims.back();
        if (before != nullptr && before->a == dim.a && before->b == dim.b && before->addend == dim.addend)
            before->extent *= dim.extent;
        else
            dims.push_back(dim);
    }
    while (!dims.empty() && dims.back().a && !dims.back().b && (dims.back().addend || !shape.addend)) {
        shape.m *= dims.back().extent;
        dims.pop_back();
    }
    shape.batch = std::move(dims);
}

bool streams(const ExpressionNode &call, const DeclaredTensor &tensor) {
    return call.name == "linear" ? tensor.name == "input" : call.name != "conv1x1" && tensor.name == "a";
}

GemmShape matmul_shape(const WorkloadRequest &request) {
    GemmShape shape = request.op == "linear"    ? linear(request)
                      : request.op == "matmul"  ? matmul(request)
                      : request.op == "conv1x1" ? conv1x1(request)
                                                : ranked(request, request.op == "mm" || request.op == "addmm" ? 2 : 3);
    shape.added_first = adds_first(request);
    const std::string sums = request.word("sums");
    demand(sums == "ascending" || sums == "blocked",
           fmt::format("{}: sums must be ascending or blocked, not '{}'", request.op, sums));
    if (sums == "ascending" || shape.k == 0) return shape;
    shape.blocked_sums = true;
    shape.blocked_sums = shape.sum_groups() > 1;  // short sums are one group
    return shape;
}

Shape matmul_result(const WorkloadRequest &request, const GemmShape &shape) {
    if (request.op == "linear") {
        Shape result = request.shape("input");
        result.back() = shape.n;
        return result;
    }
    if (request.op == "conv1x1") {
        Shape result = request.shape("input");
        result[result.size() + 1 - request.shape("weight").size()] = shape.m;
        return result;
    }
    const Shape &a = request.shape("a"), &b = request.shape("b");
    const auto leads = [](const Shape &of) { return Shape(of.begin(), of.end() - std::min<size_t>(of.size(), 2)); };
    Shape result = request.op == "matmul" ? broadcast_shape("matmul", {leads(a), leads(b)}) : leads(a);
    if (a.size() > 1) result.push_back(shape.m);
    if (b.size() > 1) result.push_back(shape.n);
    return result;
}

std::unique_ptr<Workload> matmul_workload(const WorkloadRequest &request, GemmShape shape, Shape result,
                                          std::function<std::vector<Arrangement>(const Machine &)> arrangements) {
    for (int64_t size : {shape.m, shape.n, shape.k, shape.products()})
        demand(size > 0, fmt::format("{}: a tensor is empty, so there is nothing to compute", request.op));
    if (!shape.bias && !shape.addend) shape.beta = 1;
    join_batch(shape);
    demand(!shape.makes_rows() || shape.batch.empty(),
           fmt::format("{}: what is in front of a product makes the rows of one, not of a batch; it is a kernel of its own",
                       request.op));
    std::string sizes;
    for (const WorkloadRequest::Tensor &tensor : request.tensors) {
        if (!sizes.empty()) sizes += ',';
        sizes += shape_text(tensor.shape);
    }
    return gemm_workload(shape, {request.text, request.title, sizes, std::move(result), std::move(arrangements)});
}

std::vector<OperatorDeclaration> matmul_operators() {
    const std::string spread = "an infinity or NaN in a [k][n] operand spreads over its block of 32 columns";
    const Attribute sums = {"sums", "order of additions over k: ascending, or blocked, which keeps more digits of long sums",
                            "ascending"};
    const std::vector<Attribute> factors = {{"beta", "factor of the input", 1.0}, {"alpha", "factor of the product", 1.0}};
    const DeclaredTensor a{"a", {"self", "input", "mat1", "batch1"}, "the first operand"},
        b{"b", {"mat2", "batch2", "other"}, "the second operand"};
    const DeclaredTensor left{"a", {"mat1", "batch1"}, "the first operand"},
        added{"input", {"self", "input"}, "what is added: a vector of n or the shape of the result"};
    std::vector<OperatorDeclaration> rows(7);
    rows[0] = {"mm",
               {"mm"},
               "A[m,k] B[k,n]",
               card("bf16, any sizes; " + spread, ""),
               {a, b},
               {},
               {{"shape", "512x512,512x512"}},
               {"out_dtype"},
               workload_of};
    rows[1] = {"addmm",
               {"addmm"},
               "beta input + alpha A[m,k] B[k,n]",
               card("bf16, any sizes; " + spread, "inputs of one column: expand them"),
               {added, left, b},
               factors,
               {{"shape", "512,512x512,512x512"}},
               {},
               workload_of};
    rows[2] = {"bmm",
               {"bmm"},
               "a batch of products",
               card("bf16, any sizes; " + spread, ""),
               {a, b},
               {},
               {{"shape", "12x128x64,12x64x128"}},
               {"out_dtype"},
               workload_of};
    rows[3] = {"baddbmm",
               {"baddbmm"},
               "beta input + alpha times a batch of products",
               card("bf16, any sizes; " + spread, "inputs of one column, or of a row for each product: expand them"),
               {added, left, b},
               factors,
               {{"shape", "12x128x128,12x128x64,12x64x128"}},
               {},
               workload_of};
    rows[4] = {"linear",
               {"linear"},
               "input[..,k] weight[n,k]^T + bias",
               card("bf16, any sizes", ""),
               {{"input", {"input"}, "of .. x k"}, {"weight", {"weight"}, "of n x k"}, {"bias", {"bias"}, "of n", false}},
               {},
               {{"shape", "512x512,512x512,512"}},
               {},
               workload_of};
    rows[5] = {"matmul",
               {"matmul"},
               "vectors, matrices and batches of them, broadcast as PyTorch does",
               card("bf16, any sizes; " + spread, ""),
               {{"a", {"self", "input"}, "the first operand"}, {"b", {"other"}, "the second operand"}},
               {},
               {{"shape", "8x128x64,64x128"}},
               {},
               workload_of};
    rows[6] = {"conv1x1",
               {},
               "weight[out,channels] input[..,channels,y,x] + bias[out]",
               card("bf16, any sizes; " + spread, ""),
               {{"weight", {"weight"}, "of out x channels x 1 x 1"},
                {"input", {"input"}, "of images x channels x height x width"},
                {"bias", {"bias"}, "of out", false}},
               {},
               {{"shape", "96x16x1x1,1x16x56x56,96"}},
               {},
               workload_of};
    for (OperatorDeclaration &row : rows) row.attributes.push_back(sums);
    return rows;
}

}  // namespace atalla
