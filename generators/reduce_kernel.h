// Kernels of reductions: along lanes, where the innermost axis is reduced and a row of lanes becomes one value, and across
// them, where it is kept and lanes are results.
#pragma once

#include <cstdint>
#include <vector>

#include <Halide.h>

#include "generators/kernel_definition.h"
#include "generators/reduce_space.h"
#include "isa/machine.h"
#include "schedules/point.h"

namespace atalla {

// What both have.
class ReduceKernel {
public:
    ReduceKernel(const ReduceShape &shape, const Machine &machine, const Point &point);

protected:
    // Are all elements of a result in the pads at a time?
    bool whole() const { return chunk_ == 0; }
    // Of an extremum: the one that is it, and what any element is better than.
    Halide::Expr better(Halide::Expr a, Halide::Expr b) const;
    // The same, or the one that is NaN.
    Halide::Expr keeping_nan(const Halide::Expr &a, const Halide::Expr &b) const;
    float worst() const;
    KernelDefinition finish(const std::vector<int64_t> &results);

    const ReduceShape &shape_;
    const Machine &machine_;
    int rows_, chunk_, vector_unroll_, length_, kept_, other_, outer_;
    bool unchecked_;  // elements are numbers until the array finds NaN
    Halide::Var n{"n"}, u{"u"}, i{"i"}, r{"r"}, j{"j"};
    Halide::ImageParam image_;
    Halide::Func out_{"Y"};
};

KernelDefinition reduce_along_lanes(const ReduceShape &shape, const Machine &machine, const Point &point);
KernelDefinition reduce_across_lanes(const ReduceShape &shape, const Machine &machine, const Point &point);
// Either, or sums of rows side by side.
KernelDefinition reduce_kernel(const ReduceShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
