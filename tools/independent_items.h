// Finds by experiment which parts of an operator's tensors do not influence each other.
#pragma once

#include <vector>

#include "generators/operator.h"

namespace atalla {

// A workload over `items` parts, contiguous in the output and in the inputs marked `sliced`: the i-th part of the output is a
// function of the i-th parts of those and of the other inputs whole, the same function for every i. 0: not known to be so.
struct IndependentItems {
    int64_t items = 0;
    std::vector<bool> sliced;  // an entry for each input
};

// Takes the finest division that the host's results bear out, on random data: a change of one part changes no other part, and
// parts that change places change those of the output alike. `shapes` are those of the inputs, outermost extent first.
// Nothing for workloads above 10^8 operations, which the host computes slowly.
IndependentItems independent_items(const Workload &workload, const Machine &machine,
                                   const std::vector<std::vector<int64_t>> &shapes);

}  // namespace atalla
