// Along dimensions.
#include <cmath>

#include "graph_import/decompositions/expansion.h"
#include "simulator/within_bf16.h"

namespace atalla {

namespace {

// The dimensions of an argument, all of them if it names none.
Sizes dimensions(const Expansion &e) {
    const Argument *given = e.node.find("dim");
    if (given != nullptr && !std::holds_alternative<std::monostate>(*given))
        if (const std::vector<int64_t> dims = e.node.integers("dim"); !dims.empty()) return Sizes(dims.begin(), dims.end());
    Sizes all;
    for (size_t d = 0; d < e.sizes(e.tensor("self")).size(); d++) all.emplace_back(static_cast<int64_t>(d));
    return all;
}

bool keeps_dimensions(const Expansion &e) { return e.node.find("keepdim") != nullptr && e.node.flag("keepdim"); }

Sizes reduced(const Expansion &e, const Sizes &dims) {
    Sizes sizes = e.sizes(e.tensor("self"));
    for (const SymInt &dim : dims) sizes[Expansion::dimension(dim.value(), sizes.size())] = 1;
    return sizes;
}

bool variance(Expansion &e) {
    const bool corrected = e.node.find("correction") != nullptr;
    const double correction = corrected ? e.node.optional_number("correction").value_or(1) : e.node.flag("unbiased") ? 1 : 0;
    const std::vector<NamedArgument> arguments = {
        {"self", e.tensor("self")}, {"dim", dimensions(e)}, {"correction", correction}, {"keepdim", keeps_dimensions(e)}};
    if (e.node.target.starts_with("aten::std"))
        e.last("aten::sqrt", {{"self", e.call("aten::var.correction", arguments, e.result.sizes)}});
    else
        e.last("aten::var.correction", arguments);
    return true;
}

// The norm of x along the dimensions that the arguments name, which are those of a sum.
bool norm_of(Expansion &e, ValueId x, double order, const std::vector<NamedArgument> &along) {
    const auto over = [&](ValueId elements) {
        std::vector<NamedArgument> arguments = {{"self", elements}};
        arguments.insert(arguments.end(), along.begin(), along.end());
        return arguments;
    };
    if (order == 2)
        e.last("aten::sqrt",
               {{"self", e.call("aten::sum.dim_IntList", over(e.both("aten::mul.Tensor", x, x)), e.result.sizes)}});
    else if (order == 1)
        e.last("aten::sum.dim_IntList", over(e.each("aten::abs", x)));
    else if (order == INFINITY)
        e.last("aten::amax", over(e.each("aten::abs", x)));
    else
        return false;
    return true;
}

bool norm(Expansion &e) {
    const double order = e.node.optional_number(e.node.find("ord") != nullptr ? "ord" : "p").value_or(2);
    if (!is_floating(e.result.dtype)) return false;
    return norm_of(e, e.tensor("self"), order, {{"dim", dimensions(e)}, {"keepdim", keeps_dimensions(e)}});
}

bool distance(Expansion &e) {
    const double order = e.node.number("p");
    if (order != 1 && order != 2 && order != INFINITY) return false;
    const ValueId difference = e.both("aten::sub.Tensor", e.tensor("self"), e.tensor("other"));
    Sizes all;
    for (size_t d = 0; d < e.sizes(difference).size(); d++) all.emplace_back(static_cast<int64_t>(d));
    return norm_of(e, difference, order, {{"dim", all}});
}

// The largest term is taken out of the sum, or the nearest number where it is infinite, since infinities do not differ from
// each other by zero.
bool log_sum_exp(Expansion &e) {
    const ValueId x = e.tensor("self");
    const Sizes dims = dimensions(e), kept = reduced(e, dims);
    const ValueId largest = e.call("aten::amax", {{"self", x}, {"dim", dims}, {"keepdim", true}}, kept);
    const ValueId finite = e.call("aten::clamp", {{"self", largest}, {"min", -largest_bf16}, {"max", largest_bf16}}, kept);
    const ValueId terms = e.each("aten::exp", e.both("aten::sub.Tensor", x, finite));
    const ValueId logarithm =
        e.each("aten::log", e.call("aten::sum.dim_IntList", {{"self", terms}, {"dim", dims}, {"keepdim", true}}, kept));
    if (keeps_dimensions(e))
        e.last("aten::add.Tensor", {{"self", logarithm}, {"other", finite}});
    else
        e.last_view(e.both("aten::add.Tensor", logarithm, finite));
    return true;
}

// Of each row of one tensor from each of another, difference by difference: in |x|^2 + |y|^2 - 2 x y, of products, near rows
// would be lost in the rounding.
bool distances(Expansion &e) {
    constexpr int64_t most = 1 << 22;  // elements of all differences
    const double order = e.node.number("p");
    if (order != 1 && order != 2 && order != INFINITY) return false;
    Sizes rows = e.sizes(e.tensor("x1")), columns = e.sizes(e.tensor("x2"));
    if (!is_constant(rows) || !is_constant(columns) || rows.size() < 2 || columns.size() < 2) return false;
    rows.insert(rows.end() - 1, 1);
    columns.insert(columns.end() - 2, 1);
    const ValueId difference = e.both("aten::sub.Tensor", e.view(e.tensor("x1"), rows), e.view(e.tensor("x2"), columns));
    int64_t elements = 1;
    for (const SymInt &size : e.sizes(difference)) elements *= size.value();
    if (elements == 0 || elements > most) return false;
    return norm_of(e, difference, order, {{"dim", Sizes{-1}}});
}

}  // namespace

void add_reduction_decompositions(Decompositions &all) {
    for (const char *name : {"aten::var", "aten::var.dim", "aten::std", "aten::std.dim", "aten::std.correction"})
        all[name] = variance;
    for (const char *name : {"aten::linalg_vector_norm", "aten::norm.Scalar", "aten::norm.ScalarOpt_dim"}) all[name] = norm;
    all["aten::logsumexp"] = log_sum_exp;
    all["aten::dist"] = distance;
    all["aten::cdist"] = all["aten::_cdist_forward"] = distances;
}

}  // namespace atalla
