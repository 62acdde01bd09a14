// Of each element by itself.
#include <cmath>

#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

bool add_product(Expansion &e) {
    const ValueId product = e.both("aten::mul.Tensor", e.tensor("tensor1"), e.tensor("tensor2"));
    e.last("aten::add.Tensor", {{"self", e.tensor("self")}, {"other", product}, {"alpha", *e.node.find("value")}});
    return true;
}

bool add_quotient(Expansion &e) {
    const ValueId quotient = e.both("aten::div.Tensor", e.tensor("tensor1"), e.tensor("tensor2"));
    e.last("aten::add.Tensor", {{"self", e.tensor("self")}, {"other", quotient}, {"alpha", *e.node.find("value")}});
    return true;
}

// From the nearer end, as PyTorch has it: the other one's part would be an infinity less itself where that end is infinite, and
// would leave nothing of a small end beside a large one.
bool between(Expansion &e) {
    const ValueId start = e.tensor("self"), end = e.tensor("end");
    const ValueId difference = e.both("aten::sub.Tensor", end, start);
    if (e.node.target == "aten::lerp.Scalar") {
        const double weight = e.node.number("weight");
        if (std::abs(weight) < 0.5)
            e.last("aten::add.Tensor", {{"self", start}, {"other", difference}, {"alpha", weight}});
        else
            e.last("aten::sub.Tensor", {{"self", end}, {"other", difference}, {"alpha", 1 - weight}});
        return true;
    }
    const ValueId weight = e.tensor("weight");
    const ValueId from_start = e.both("aten::add.Tensor", start, e.both("aten::mul.Tensor", difference, weight));
    const ValueId rest = e.call("aten::rsub.Scalar", {{"self", weight}, {"other", 1.0}}, e.sizes(weight));
    const ValueId from_end = e.both("aten::sub.Tensor", end, e.both("aten::mul.Tensor", difference, rest));
    const ValueId is_near = e.call("aten::lt.Scalar", {{"self", e.each("aten::abs", weight)}, {"other", 0.5}},
                                   dense_type(DType::Bool, e.sizes(weight)));
    e.last("aten::where.self", {{"condition", is_near}, {"self", from_start}, {"other", from_end}});
    return true;
}

// What is below zero times a weight for each channel, or for all.
bool prelu(Expansion &e) {
    const ValueId x = e.tensor("self");
    ValueId weight = e.tensor("weight");
    const size_t rank = e.sizes(x).size();
    if (!(e.sizes(weight) == Sizes{1}) && e.sizes(weight).size() == 1 && rank > 2) {
        Sizes of_channel(rank - 1, SymInt(1));
        of_channel[0] = e.sizes(weight)[0];
        weight = e.view(weight, of_channel);
    }
    const ValueId above = e.call("aten::gt.Scalar", {{"self", x}, {"other", 0.0}}, dense_type(DType::Bool, e.sizes(x)));
    const ValueId scaled = e.call("aten::mul.Tensor", {{"self", x}, {"other", weight}}, e.sizes(x));
    e.last("aten::where.self", {{"condition", above}, {"self", x}, {"other", scaled}});
    return true;
}

// Between numbers that tensors have; the upper one where they cross.
bool between_tensors(Expansion &e) {
    const ValueId low = e.node.optional_tensor("min"), high = e.node.optional_tensor("max");
    ValueId x = e.tensor("self");
    const auto is_alike = [&](ValueId bound) { return !bound || e.dtype(bound) == e.result.dtype; };
    if ((!low && !high) || !is_alike(low) || !is_alike(high) || !is_alike(x)) return false;
    if (low && high)
        x = e.both("aten::maximum", x, low);
    else if (low)
        e.last("aten::maximum", {{"self", x}, {"other", low}});
    if (high) e.last("aten::minimum", {{"self", x}, {"other", high}});
    return true;
}

bool masked_fill(Expansion &e) {
    const ValueId value = e.tensor("value");
    if (e.dtype(value) != e.result.dtype) return false;
    e.last("aten::where.self", {{"condition", e.tensor("mask")}, {"self", value}, {"other", e.tensor("self")}});
    return true;
}

// 1 above zero less 1 below.
bool sign(Expansion &e) {
    const ValueId x = e.tensor("self");
    const auto test = [&](const char *target) {
        const ValueId holds = e.call(target, {{"self", x}, {"other", 0.0}}, dense_type(DType::Bool, e.sizes(x)));
        return e.call("aten::_to_copy", {{"self", holds}, {"dtype", e.result.dtype}}, e.sizes(x));
    };
    const ValueId above = test("aten::gt.Scalar");
    e.last("aten::sub.Tensor", {{"self", above}, {"other", test("aten::lt.Scalar")}});
    return true;
}

template <int Base>
bool logarithm(Expansion &e) {
    e.last("aten::mul.Tensor",
           {{"self", e.each("aten::log", e.tensor("self"))}, {"other", 1 / std::log(static_cast<double>(Base))}});
    return true;
}

// Zeros above or below a diagonal.
bool triangle(Expansion &e) {
    const Sizes own = e.sizes(e.tensor("self"));
    if (own.size() < 2 || !is_constant(own)) return false;
    const bool lower = e.node.target == "aten::tril";
    const int64_t rows = own[own.size() - 2].value(), columns = own.back().value(), diagonal = e.node.integer("diagonal");
    if (rows * columns == 0) return false;
    std::vector<double> kept;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            kept.push_back(lower ? column - row <= diagonal : column - row >= diagonal);
    e.last("aten::where.ScalarOther",
           {{"condition", e.mask("kept", {rows, columns}, kept)}, {"self", e.tensor("self")}, {"other", 0.0}});
    return true;
}

bool square(Expansion &e) {
    e.last("aten::mul.Tensor", {{"self", e.tensor("self")}, {"other", e.tensor("self")}});
    return true;
}

bool selu(Expansion &e) {
    e.last("aten::elu", {{"self", e.tensor("self")},
                         {"alpha", 1.6732632423543772848170429916717},
                         {"scale", 1.0507009873554804934193349852946}});
    return true;
}

bool celu(Expansion &e) {
    const double alpha = e.node.number("alpha");
    e.last("aten::elu", {{"self", e.tensor("self")}, {"alpha", alpha}, {"input_scale", 1 / alpha}});
    return true;
}

// 0 - log(1 + exp(-x)), which is not -0 where nothing is left of it.
bool log_sigmoid(Expansion &e) {
    const ValueId negative = e.each("aten::neg", e.tensor("self"));
    e.last("aten::rsub.Scalar", {{"self", e.each("aten::softplus", negative)}, {"other", 0.0}});
    return true;
}

// What lies outside of both ends; zeros inside have the sign of a difference.
bool soft_shrink(Expansion &e) {
    const ValueId x = e.tensor("self");
    const double end = e.node.number("lambd");
    e.last("aten::sub.Tensor",
           {{"self", x}, {"other", e.call("aten::clamp", {{"self", x}, {"min", -end}, {"max", end}}, e.sizes(x))}});
    return true;
}

// The value up to the threshold; NaN is not.
bool threshold(Expansion &e) {
    const ValueId x = e.tensor("self");
    const ValueId replaced =
        e.call("aten::le.Scalar", {{"self", x}, {"other", *e.node.find("threshold")}}, dense_type(DType::Bool, e.sizes(x)));
    e.last("aten::where.ScalarSelf", {{"condition", replaced}, {"self", *e.node.find("value")}, {"other", x}});
    return true;
}

bool gated(Expansion &e) {
    const ValueId x = e.tensor("self");
    const size_t dim = Expansion::dimension(e.node.integer("dim"), e.sizes(x).size());
    const SymInt half = e.result.sizes[dim];
    const auto part = [&](const SymInt &start) {
        return e.call("aten::slice.Tensor",
                      {{"self", x},
                       {"dim", SymInt(static_cast<int64_t>(dim))},
                       {"start", start},
                       {"end", start + half},
                       {"step", SymInt(1)}},
                      e.result.sizes);
    };
    const ValueId value = part(0), gate = e.each("aten::sigmoid", part(half));
    e.last("aten::mul.Tensor", {{"self", value}, {"other", gate}});
    return true;
}

// For each row of both, and each of the matrices: x W y.
bool bilinear(Expansion &e) {
    const ValueId x = e.tensor("input1"), y = e.tensor("input2"), bias = e.node.optional_tensor("bias");
    const Sizes matrices = e.sizes(e.tensor("weight"));  // [results][of x][of y]
    const Sizes rows = e.sizes(x);
    const size_t last = rows.size() - 1;
    Sizes flat = rows, apart = rows;
    flat[last] = matrices[0] * matrices[2];
    apart[last] = matrices[0];
    apart.push_back(matrices[2]);
    Sizes others = e.sizes(y);
    others.insert(others.end() - 1, 1);
    const ValueId weight = e.view(e.permute(e.tensor("weight"), {0, 2, 1}), {matrices[0] * matrices[2], matrices[1]});
    const ValueId products = e.view(e.call("aten::linear", {{"input", x}, {"weight", weight}}, flat), apart);
    const std::vector<NamedArgument> sum = {{"self", e.both("aten::mul.Tensor", products, e.view(y, others))},
                                            {"dim", Sizes{-1}}};
    if (bias)
        e.last("aten::add.Tensor", {{"self", e.call("aten::sum.dim_IntList", sum, e.result.sizes)}, {"other", bias}});
    else
        e.last("aten::sum.dim_IntList", sum);
    return true;
}

bool outer_product(Expansion &e) {
    const ValueId column = e.view(e.tensor("self"), {e.result.sizes.at(0), 1});
    e.last("aten::mul.Tensor", {{"self", column}, {"other", e.tensor("vec2")}});
    return true;
}

}  // namespace

void add_element_wise_decompositions(Decompositions &all) {
    all["aten::addcmul"] = add_product;
    all["aten::addcdiv"] = add_quotient;
    all["aten::lerp.Scalar"] = all["aten::lerp.Tensor"] = between;
    all["aten::prelu"] = all["aten::_prelu_kernel"] = prelu;
    for (const char *name : {"aten::clamp.Tensor", "aten::clamp_min.Tensor", "aten::clamp_max.Tensor"})
        all[name] = between_tensors;
    all["aten::masked_fill.Tensor"] = masked_fill;
    all["aten::sign"] = all["aten::sgn"] = sign;
    all["aten::log2"] = logarithm<2>;
    all["aten::log10"] = logarithm<10>;
    all["aten::tril"] = all["aten::triu"] = triangle;
    all["aten::square"] = square;
    all["aten::selu"] = selu;
    all["aten::celu"] = celu;
    all["aten::log_sigmoid"] = log_sigmoid;
    all["aten::softshrink"] = soft_shrink;
    all["aten::threshold"] = threshold;
    all["aten::glu"] = gated;
    all["aten::outer"] = outer_product;
    all["aten::bilinear"] = bilinear;
}

}  // namespace atalla
