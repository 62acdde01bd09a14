// Kernels of a pointwise algorithm: by tiles, of rows joined to one run, of a run that meets patterns.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <Halide.h>

#include "generators/broadcast.h"
#include "generators/kernel_definition.h"
#include "generators/pointwise_blocks.h"
#include "generators/pointwise_parts.h"
#include "isa/machine.h"
#include "schedules/point.h"

namespace atalla {

// An expression over inputs, and over parts that are computed of inputs once.
struct PointwiseAlgorithm {
    std::vector<std::string> names;  // of the inputs
    Halide::Expr rest;               // the machine's operations over inputs and parts
    std::vector<PointwisePart> parts;
    LoopNest nest;
};

// What all kernels have.
class PointwiseKernel {
protected:
    PointwiseKernel(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks, const Machine &machine,
                    const Point &point);

    // The next input.
    Halide::ImageParam add_tensor(const std::string &name, const std::vector<int64_t> &extents);
    const Halide::ImageParam &tensor_of(const std::string &name) const { return tensors_.at(name); }
    // Is it more than what parts are made of?
    bool is_read(const std::string &name) const { return read_.contains(name); }
    // Of what its inputs and parts are. What is used several times is named, or Halide would walk through each use.
    Halide::Expr result_of(const std::map<std::string, Halide::Expr> &values) const;

    // All elements of a tensor, or a single number, in the pads from the start on, with what is behind them in the last vector.
    Halide::Func row_of(const std::string &name, const Halide::ImageParam &tensor, int64_t elements) const;
    // The same of what is computed of such rows, each at `element_`.
    Halide::Func computed_row(const std::string &name, const Halide::Expr &value, int64_t elements) const;

    KernelDefinition finish(Halide::Func out, const std::vector<int64_t> &extents);

    const PointwiseAlgorithm &algorithm_;
    const PointwiseBlocks &blocks_;
    const Machine &machine_;
    const Point &point_;
    KernelDefinition kernel_;
    Halide::Var element_{"n"};

private:
    std::map<std::string, Halide::ImageParam> tensors_;
    std::set<std::string> read_;
};

KernelDefinition pointwise_of_tiles(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks, const Machine &machine,
                                    const Point &point);
// The result is one run of rows, each of which meets a number.
KernelDefinition pointwise_of_rows(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks, const Machine &machine,
                                   const Point &point);
// The result is one run that meets patterns of operands without outer dimensions.
KernelDefinition pointwise_of_patterns(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks,
                                       const Machine &machine, const Point &point);

// The first `there` elements of a tensor from one on, with what is behind them in the last vector.
Halide::Expr elements_of(const Halide::ImageParam &tensor, const Halide::Expr &from, const Halide::Var &at, int64_t there);

}  // namespace atalla
