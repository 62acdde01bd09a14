// Data movement: a result put together of boxes of its inputs and of constants, all by DMA through the pads.
#pragma once

#include <memory>
#include <vector>

#include "generators/operator.h"
#include "generators/pipeline_workload.h"

namespace atalla {

// A box of the result: element offsets base + sum of index * stride on both sides.
struct MovedBox {
    struct Dim {
        int64_t extent = 1, from = 0, to = 0;  // elements; strides in the input and in the result
        bool operator==(const Dim &) const = default;
    };
    int input = -1;  // -1: a constant
    double constant = 0;
    int64_t from = 0, to = 0;
    std::vector<Dim> dims;
    int64_t behind = 0;  // so many elements of the result behind each run of the first of `dims` are the constant, too
    bool operator==(const MovedBox &) const = default;
};

// The whole of the input put at `to` with strides: what most operators are made of. `shape` is that of the box.
MovedBox moved_box(int input, const Shape &shape, int64_t from, const Shape &from_strides, int64_t to, const Shape &to_strides);
// Of a dense tensor.
Shape row_major_strides(const Shape &shape);

// A whole tensor in an order that parts neighbours is turned by the array (transpose.h), and neighbours that are a few elements
// apart on the other side go through it to other lanes (interleave.h), unless the request is `exact`, as those of slice,
// select, cat and stack are; other boxes whose neighbours are none in the input are moved one element at a time.
std::unique_ptr<Workload> movement_workload(const WorkloadRequest &request, const Shape &result, std::vector<MovedBox> boxes);

// Dimensions of a tile, then those around it.
template <class Index>
std::vector<Index> followed_by(std::vector<Index> first, const std::vector<Halide::Var> &outer) {
    first.insert(first.end(), outer.begin(), outer.end());
    return first;
}

// A result that is one number everywhere, whatever the tensors: what operators give for tensors without elements.
std::unique_ptr<Workload> constant_workload(const WorkloadRequest &request, const Shape &result, double value = 0);

std::vector<OperatorDeclaration> movement_operators();

}  // namespace atalla
