// Images of another size, by resizing or padding: each dimension by itself, each result a weighted sum of a few elements along
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

struct Tap {
    int64_t from = 0;
    double weight = 1;
};

// Of each result along a dimension.
using Taps = std::vector<std::vector<Tap>>;

// NearestExact is by the middle of a result, Nearest by its lower end. Those of Smooth reach as far as a result does, where it
// is larger than an element.
enum class Resizing { Nearest, NearestExact, Linear, Cubic, SmoothLinear, SmoothCubic };
// What an upsample call does, by its name.
Resizing resizing_of(const std::string &target);

// The arguments of an upsample call along its dimension `d` of those that it resizes, from `extent` elements to `size`.
Taps resized(Resizing how, const Node &call, size_t d, int64_t extent, int64_t size);

// Of a padding mode (reflect, replicate, circular). Error if the mode is none of them, or the padding is larger than the
// tensor.
Taps padded(const std::string &mode, int64_t extent, int64_t before, int64_t behind);

}  // namespace atalla
