#include "generators/weighed_rows.h"

#include "generators/vocabulary.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

WeighedRows::WeighedRows(const std::string &weights_name, const std::string &part_name, const std::string &sums_name,
                         const std::string &depth_name)
    : weights(weights_name), part(part_name), sums(sums_name), depth(0, size(lanes), depth_name) {}

void WeighedRows::define(const Var &k, const Var &w, const Var &l, const std::vector<Var> &rest, const Expr &member,
                         const Expr &element) {
    const auto at = [&](std::vector<Expr> first) {
        first.insert(first.end(), rest.begin(), rest.end());
        return first;
    };
    weights(at({k, w})) = undef<BFloat>();
    weights(at({k, member})) = element;
    part(at({l})) = 0.0f;
    part(at({l})) += f32(weights(at({depth, l})));
    sums(at({l})) = bf16(part(at({l})));
}

void WeighedRows::schedule(const LoopLevel &at, const Var &k, const Var &w, const Var &l, const RVar &member, int unroll) {
    weights.compute_at(at)
        .bound_extent(k, size(lanes))
        .bound_extent(w, size(lanes))
        .vectorize(k)
        .update()
        .vectorize(k)
        .split(member, RVar("w"), RVar("w_unroll"), unroll);
    sums.compute_at(at).bound_extent(l, size(lanes)).vectorize(l);
    as_array_row(part.compute_at(at), l, depth);
    in_registers({weights, part, sums});
}

Expr times_whole_share(const Expr &sum, double divisor) {
    const float share = static_cast<float>(1 / divisor), most = bf16_float(bf16_truncate(share)), rest = share - most;
    const Expr scaled = strict_float(sum * bf16(most));
    return rest == 0 ? scaled : strict_float(scaled + strict_float(sum * bf16(rest)));
}

}  // namespace atalla
