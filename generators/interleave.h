// Neighbours of the result, or of the input, that are a few elements apart on the other side: a product with a matrix of zeros
// and ones takes the elements of a row to other lanes.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "generators/movement.h"

namespace atalla {

// Rows of `count` elements: element t of the row from source j is `in_step` * t elements behind its first, and comes to
// `out_step` * t + j in the row of the result.
struct Interleaving {
    struct Source {
        int input = 0;
        int64_t from = 0;
    };
    std::vector<Source> sources;
    int64_t to = 0, count = 0, in_step = 1, out_step = 1;
    std::vector<MovedBox::Dim> dims;  // of rows, innermost first: at least one
    int64_t apart() const { return std::max(in_step, out_step); }
};

// How these boxes, each of one input, can be moved so, if they can. Their dims are in the result's order, innermost first,
// those of one element left out.
std::optional<Interleaving> interleaving_of(const std::vector<MovedBox> &boxes);

// `by_element` moves the same one element at a time: for machines whose pads hold no rows. The array gives finite numbers as
// they are; an infinity or NaN makes NaN of the row of the result that its row comes to, and zeros lose their sign.
std::unique_ptr<Workload> interleaving_workload(const WorkloadRequest &request, const Shape &result, const Interleaving &moved,
                                                std::unique_ptr<Workload> by_element);

}  // namespace atalla
