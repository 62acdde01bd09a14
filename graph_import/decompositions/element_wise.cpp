// Of each element by itself.
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

bool between(Expansion &e) {
    const ValueId difference = e.both("aten::sub.Tensor", e.tensor("end"), e.tensor("self"));
    if (e.node.target == "aten::lerp.Scalar") {
        e.last("aten::add.Tensor", {{"self", e.tensor("self")}, {"other", difference}, {"alpha", *e.node.find("weight")}});
    } else {
        const ValueId part = e.both("aten::mul.Tensor", difference, e.tensor("weight"));
        e.last("aten::add.Tensor", {{"self", e.tensor("self")}, {"other", part}});
    }
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
    const ValueId above = e.each("aten::relu", x);
    const ValueId below = e.call("aten::clamp", {{"self", x}, {"min", std::monostate{}}, {"max", 0.0}}, e.sizes(x));
    const ValueId scaled = e.call("aten::mul.Tensor", {{"self", below}, {"other", weight}}, e.sizes(x));
    e.last("aten::add.Tensor", {{"self", above}, {"other", scaled}});
    return true;
}

bool square(Expansion &e) {
    e.last("aten::mul.Tensor", {{"self", e.tensor("self")}, {"other", e.tensor("self")}});
    return true;
}

bool selu(Expansion &e) {
    e.last("aten::elu", {{"self", e.tensor("self")}, {"alpha", 1.6732632423543772848170429916717}, {"scale", 1.0507009873554804934193349852946}});
    return true;
}

bool celu(Expansion &e) {
    const double alpha = e.node.number("alpha");
    e.last("aten::elu", {{"self", e.tensor("self")}, {"alpha", alpha}, {"input_scale", 1 / alpha}});
    return true;
}

// -log(1 + exp(-x)).
bool log_sigmoid(Expansion &e) {
    const ValueId negative = e.each("aten::neg", e.tensor("self"));
    e.last("aten::neg", {{"self", e.each("aten::softplus", negative)}});
    return true;
}

// x tanh(log(1 + exp(x))).
bool mish(Expansion &e) {
    const ValueId x = e.tensor("self");
    e.last("aten::mul.Tensor", {{"self", x}, {"other", e.each("aten::tanh", e.each("aten::softplus", x))}});
    return true;
}

// The value up to the threshold; NaN is not.
bool threshold(Expansion &e) {
    const ValueId x = e.tensor("self");
    const ValueId replaced = e.call("aten::le.Scalar", {{"self", x}, {"other", *e.node.find("threshold")}}, dense_type(DType::Bool, e.sizes(x)));
    e.last("aten::where.ScalarSelf", {{"condition", replaced}, {"self", *e.node.find("value")}, {"other", x}});
    return true;
}

bool gated(Expansion &e) {
    const ValueId x = e.tensor("self");
    const size_t dim = Expansion::dimension(e.node.integer("dim"), e.sizes(x).size());
    const SymInt half = e.result.sizes[dim];
    const auto part = [&](const SymInt &start) {
        return e.call("aten::slice.Tensor", {{"self", x}, {"dim", SymInt(static_cast<int64_t>(dim))}, {"start", start}, {"end", start + half}, {"step", SymInt(1)}}, e.result.sizes);
    };
    const ValueId value = part(0), gate = e.each("aten::sigmoid", part(half));
    e.last("aten::mul.Tensor", {{"self", value}, {"other", gate}});
    return true;
}

// For each row of both, and each of the matrices: x W y.
bool bilinear(Expansion &e) {
    const ValueId x = e.tensor("input1"), y = e.tensor("input2"), bias = e.node.optional_tensor("bias");
    const Sizes matrices = e.sizes(e.tensor("weight"));   // [results][of x][of y]
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
    const std::vector<NamedArgument> sum = {{"self", e.both("aten::mul.Tensor", products, e.view(y, others))}, {"dim", Sizes{-1}}};
    if (bias) e.last("aten::add.Tensor", {{"self", e.call("aten::sum.dim_IntList", sum, e.result.sizes)}, {"other", bias}});
    else e.last("aten::sum.dim_IntList", sum);
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
    all["aten::square"] = square;
    all["aten::selu"] = selu;
    all["aten::celu"] = celu;
    all["aten::log_sigmoid"] = log_sigmoid;
    all["aten::mish"] = mish;
    all["aten::threshold"] = threshold;
    all["aten::glu"] = gated;
    all["aten::outer"] = outer_product;
    all["aten::bilinear"] = bilinear;
}

}  // namespace atalla
