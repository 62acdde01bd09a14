#include "generators/reduce_kernel.h"

#include <utility>

#include "generators/packed_row_sums.h"
#include "generators/row_sums.h"
#include "generators/second_look.h"
#include "generators/vocabulary.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

ReduceKernel::ReduceKernel(const ReduceShape &shape, const Machine &machine, const Point &point)
    : shape_(shape),
      machine_(machine),
      rows_(size(point["rows"])),
      chunk_(size(point["chunk"])),
      vector_unroll_(size(point["vector_unroll"])),
      length_(size(shape.length)),
      kept_(size(shape.kept)),
      other_(size(shape.other)),
      outer_(size(shape.outer)),
      unchecked_(looks_again(point)) {}

Expr ReduceKernel::better(Expr a, Expr b) const {
    return shape_.kind == Reduction::Amax ? strict_float(max(std::move(a), std::move(b)))
                                          : strict_float(min(std::move(a), std::move(b)));
}

Expr ReduceKernel::keeping_nan(const Expr &a, const Expr &b) const { return select(strict_float(a != a), a, better(a, b)); }

float ReduceKernel::worst() const { return shape_.kind == Reduction::Amax ? -infinity : infinity; }

KernelDefinition ReduceKernel::finish(const std::vector<int64_t> &results) {
    whole_loops(out_);
    fix_shape(out_.output_buffer(), results);
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out_);
    kernel.add_input("X", image_);
    kernel.outputs = {{"Y", {shape_.results()}}};
    return kernel;
}

KernelDefinition reduce_kernel(const ReduceShape &shape, const Machine &machine, const Point &point) {
    if (sums_packed_rows(shape, machine)) return packed_row_sums_kernel(shape, machine, point);
    if (shape.sums_side_by_side()) return row_sums_kernel(shape, machine, point);
    return shape.along_lanes ? reduce_along_lanes(shape, machine, point) : reduce_across_lanes(shape, machine, point);
}

}  // namespace atalla
