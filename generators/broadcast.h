// Broadcasting as few loops as possible: neighbouring dimensions that all inputs treat alike are one.
#pragma once

#include <cstdint>
#include <vector>

#include "generators/operator.h"

namespace atalla {

struct LoopNest {
    struct Dim {
        int64_t extent = 1;
        std::vector<bool> present;  // for each input: it has this dimension, rather than the same element all along
    };
    std::vector<Dim> dims;  // innermost first; none for a single element

    // Extents of an input's own dimensions, innermost first.
    std::vector<int64_t> extents_of(size_t input) const;
    bool is_present(size_t input, size_t dim) const { return dims[dim].present[input]; }
    // The input is one element for all.
    bool is_single(size_t input) const;
};

// `inputs` broadcast to `result`.
LoopNest collapse(const Shape &result, const std::vector<Shape> &inputs);

}  // namespace atalla
