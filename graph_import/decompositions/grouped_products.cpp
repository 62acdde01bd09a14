// Products of groups of rows, each with a matrix of its own, as the experts of a mixture are computed. How many rows a group
// has is known when the model runs alone, so each row is written once for every group, of zeros for the other ones: one product
// along the rows of all matrices. It takes the array as often as there are groups, whatever the rows.
#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

// Rows [s, h], matrices [e, h, f], and where each group ends, [e], in rows: the host computes whose group a row is in.
bool grouped_product(Expansion &e, ValueId rows, ValueId matrices, ValueId ends) {
    const Sizes of_rows = e.sizes(rows), of_matrices = e.sizes(matrices);
    if (of_rows.size() != 2 || of_matrices.size() != 3 || e.sizes(ends).size() != 1 || !of_rows[0].is_constant() ||
        !of_matrices[0].is_constant())
        return false;
    const int64_t count = of_rows[0].value(), groups = of_matrices[0].value();
    const ValueId positions = e.indices("positions", {count, 1}), numbers = e.indices("groups", {1, groups});
    const ValueId behind =
        e.call("aten::ge.Tensor", {{"self", positions}, {"other", ends}}, dense_type(DType::Bool, {count, groups}));
    const ValueId group = e.call("aten::sum.dim_IntList", {{"self", behind}, {"dim", Sizes{1}}, {"keepdim", true}},
                                 dense_type(DType::Int64, {count, 1}));
    const ValueId own =
        e.call("aten::eq.Tensor", {{"self", group}, {"other", numbers}}, dense_type(DType::Bool, {count, groups}));
    const ValueId mask =
        e.call("aten::view", {{"self", own}, {"size", Sizes{count, groups, 1}}}, dense_type(DType::Bool, {count, groups, 1}));
    const ValueId apart =
        e.call("aten::where.self",
               {{"condition", mask}, {"self", e.view(rows, {count, 1, of_rows[1]})}, {"other", e.constant("zero", {1}, {0})}},
               {count, groups, of_rows[1]});
    const SymInt depth = of_rows[1] * SymInt(groups);
    e.last("aten::mm", {{"self", e.view(apart, {count, depth})}, {"mat2", e.view(matrices, {depth, of_matrices[2]})}});
    return true;
}

bool of_aten(Expansion &e) {
    if (!e.node.is_none("bias") || e.node.is_none("offs")) return false;
    return grouped_product(e, e.tensor("self"), e.tensor("mat2"), e.tensor("offs"));
}

// What transformers calls where PyTorch has no kernel of its own, for the CPU and float32.
bool of_transformers(Expansion &e) { return grouped_product(e, e.tensor("input"), e.tensor("weight"), e.tensor("offs")); }

}  // namespace

void add_grouped_products(Decompositions &all) {
    all["aten::_grouped_mm"] = of_aten;
    all["transformers::grouped_mm_fallback"] = of_transformers;
}

}  // namespace atalla
