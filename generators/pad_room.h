// Whether the buffers of a schedule fit the pads, as the code generator will place them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "isa/machine.h"
#include "isa/vectors.h"

namespace atalla {

// Rows of an allocation, and whether they go round all pads: only if straight-line code does.
struct PadUse {
    int64_t rows = 0;
    bool round = true;
};

inline bool fit_pads(const Machine &machine, std::vector<PadUse> uses) {
    std::vector<int64_t> top(static_cast<size_t>(machine.pad.count), 0);
    for (const PadUse &use : uses)
        if (use.round)
            for (int64_t &rows : top) rows += ceil_div(use.rows, machine.pad.count);
    std::sort(uses.begin(), uses.end(), [](const PadUse &a, const PadUse &b) { return a.rows > b.rows; });
    for (const PadUse &use : uses)
        if (!use.round) *std::min_element(top.begin(), top.end()) += use.rows;
    return *std::max_element(top.begin(), top.end()) <= machine.pad_rows();
}

}  // namespace atalla
