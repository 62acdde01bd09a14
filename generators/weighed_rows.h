// Sums of rows side by side: a vector of each row of a tile is a weight of the array, and its sum a lane of what comes out.
#pragma once

#include <string>
#include <vector>

#include <Halide.h>

namespace atalla {

// The array's weights, float32 products and bf16 sums.
struct WeighedRows {
    Halide::Func weights, part, sums;
    Halide::RDom depth;

    WeighedRows(const std::string &weights_name, const std::string &part_name, const std::string &sums_name,
                const std::string &depth_name);
    // `element`: what lane `k` of the weight of row `member` is, in each of the tiles and places that `rest` tells.
    void define(const Halide::Var &k, const Halide::Var &w, const Halide::Var &l, const std::vector<Halide::Var> &rest,
                const Halide::Expr &member, const Halide::Expr &element);
    // `unroll` weights in straight-line code.
    void schedule(const Halide::LoopLevel &at, const Halide::Var &k, const Halide::Var &w, const Halide::Var &l,
                  const Halide::RVar &member, int unroll);
};

// A sum divided by a number whose inverse bf16 may not have: by what it has of it and by the rest, of the same sign, since
// another one would make NaN of infinities.
Halide::Expr times_whole_share(const Halide::Expr &sum, double divisor);

}  // namespace atalla
