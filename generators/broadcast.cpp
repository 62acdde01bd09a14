#include "generators/broadcast.h"

#include <algorithm>

namespace atalla {

std::vector<int64_t> LoopNest::extents_of(size_t input) const {
    std::vector<int64_t> extents;
    for (const Dim &dim : dims)
        if (dim.present[input]) extents.push_back(dim.extent);
    return extents;
}

bool LoopNest::is_single(size_t input) const {
    return std::none_of(dims.begin(), dims.end(), [&](const Dim &dim) { return dim.present[input]; });
}

LoopNest collapse(const Shape &result, const std::vector<Shape> &inputs) {
    LoopNest nest;
    for (size_t back = 1; back <= result.size(); back++) {
        LoopNest::Dim dim;
        dim.extent = result[result.size() - back];
        if (dim.extent == 1) continue;
        for (const Shape &shape : inputs) dim.present.push_back(back <= shape.size() && shape[shape.size() - back] != 1);
        if (!nest.dims.empty() && nest.dims.back().present == dim.present)
            nest.dims.back().extent *= dim.extent;
        else
            nest.dims.push_back(std::move(dim));
    }
    return nest;
}

}  // namespace atalla
