// What tiles of windows over an image see of it and of its padding, along one axis.
#pragma once

#include <algorithm>
#include <cstdint>

#include <Halide.h>

#include "generators/pool.h"
#include "isa/vectors.h"

namespace atalla {

// Elements that the windows of so many neighbouring results reach over.
inline int window_span(const PoolAxis &axis, int64_t results) {
    return static_cast<int>((results - 1) * axis.stride + axis.kernel);
}

// Along one axis, the part of a padded image that a tile's windows see: as many elements of the image for every tile, and
// around them as much padding as any window reaches. The padding stays in the pads, and the elements of the next tile come
// while windows of this one run.
struct PoolFrame {
    int before = 0, elements = 0, after = 0;
    int step = 0, last = 0, tiles = 1;  // of the tiles' first elements

    PoolFrame(const PoolAxis &axis, int64_t tile)
        : before(static_cast<int>(axis.padding)),
          elements(static_cast<int>(std::min<int64_t>(window_span(axis, tile), axis.size))),
          after(std::max(
              {0, static_cast<int>(axis.end(axis.results - 1) - axis.size), window_span(axis, tile) - before - elements})),
          step(static_cast<int>(tile * axis.stride)),
          last(static_cast<int>(axis.size) - elements),
          tiles(static_cast<int>(ceil_div(axis.results, tile))) {}

    int extent() const { return before + elements + after; }
    // The first element of the image that a tile has, and the place of its first window.
    Halide::Expr start(const Halide::Expr &tile) const {
        return tiles == 1 ? Halide::Expr(0) : Halide::clamp(tile * step - before, 0, last);
    }
    Halide::Expr first_window(const Halide::Expr &tile) const {
        return tiles == 1 ? Halide::Expr(0) : tile * step - start(tile);
    }
};

}  // namespace atalla
