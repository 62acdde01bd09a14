// The dimensions of independent problems in a pipeline: a variable for each, behind the Funcs' own.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <Halide.h>

namespace atalla {

// `Dim` has an extent, and a flag for each tensor that may lack the dimension.
template <class Dim>
class BatchVars {
public:
    // `dims`: outermost first; they must outlive this.
    explicit BatchVars(const std::vector<Dim> &dims) : dims_(dims) {
        for (size_t d = dims.size(); d-- > 0;) vars_.emplace_back(std::string("batch_") + static_cast<char>('a' + d));
    }

    // Innermost first.
    size_t size() const { return vars_.size(); }
    const Halide::Var &var(size_t d) const { return vars_[d]; }
    const Dim &dim(size_t d) const { return dims_[dims_.size() - 1 - d]; }

    // The arguments of a tensor: an element, the row, and the dimensions that it has, the innermost `inside` of them inside the
    // row.
    std::vector<Halide::Expr> tensor_args(Halide::Expr element, const Halide::Expr &row, bool Dim::*has, size_t inside) const {
        std::vector<Halide::Expr> all = {std::move(element)};
        for (size_t d = 0; d <= size(); d++) {
            if (d == std::min(inside, size())) all.push_back(row);
            if (d < size() && (has == nullptr || dim(d).*has)) all.push_back(var(d));
        }
        return all;
    }
    // The arguments of a Func: its own, and the dimensions that it has.
    std::vector<Halide::Expr> args(std::vector<Halide::Expr> own, bool Dim::*has = nullptr) const {
        for (size_t d = 0; d < size(); d++)
            if (has == nullptr || dim(d).*has) own.push_back(var(d));
        return own;
    }
    // The loops over all problems, around those in `order`.
    void add_loops(Halide::Func out, std::vector<Halide::VarOrRVar> &order) const {
        for (size_t d = 0; d < size(); d++) {
            out.bound(var(d), 0, static_cast<int>(dim(d).extent));
            order.push_back(var(d));
        }
    }

private:
    const std::vector<Dim> &dims_;
    std::vector<Halide::Var> vars_;
};

}  // namespace atalla
