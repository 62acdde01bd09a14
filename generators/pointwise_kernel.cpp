#include "generators/pointwise_kernel.h"

#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

PointwiseKernel::PointwiseKernel(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks, const Machine &machine,
                                 const Point &point)
    : algorithm_(algorithm), blocks_(blocks), machine_(machine), point_(point), read_(inputs_of(algorithm.rest)) {}

ImageParam PointwiseKernel::add_tensor(const std::string &name, const std::vector<int64_t> &extents) {
    const ImageParam added = tensor("in_" + name, extents);
    kernel_.add_input(name, added);
    tensors_.emplace(name, added);
    return added;
}

Expr PointwiseKernel::result_of(const std::map<std::string, Expr> &values) const {
    return Internal::common_subexpression_elimination(Internal::substitute(values, algorithm_.rest), true);
}

Expr elements_of(const ImageParam &tensor, const Expr &from, const Var &at, int64_t there) {
    return there % lanes == 0 ? Expr(tensor(from + at))
                              : select(at < size(there), tensor(from + min(at, size(there - 1))), undef<BFloat>());
}

Func PointwiseKernel::row_of(const std::string &name, const ImageParam &tensor, int64_t elements) const {
    Func row(name);
    row(element_) = elements_of(tensor, 0, element_, elements);
    row.compute_root().bound(element_, 0, size(round_up(elements, lanes)));
    in_pads({row});
    return row;
}

Func PointwiseKernel::computed_row(const std::string &name, const Expr &value, int64_t elements) const {
    Func row(name);
    row(element_) = value;
    row.compute_root().bound(element_, 0, size(round_up(elements, lanes))).vectorize(element_, lanes);
    in_pads({row});
    return row;
}

KernelDefinition PointwiseKernel::finish(Func out, const std::vector<int64_t> &extents) {
    whole_loops(out);
    fix_shape(out.output_buffer(), extents);
    kernel_.pipeline = Pipeline(out);
    kernel_.outputs = {{"result", extents}};
    return std::move(kernel_);
}

}  // namespace atalla
