// When the transfers of streams start beside a loop, so that each finds its engines free and comes in time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/streams.h"

namespace atalla::codegen {

// The turns of a loop in which `count` groups start, the first in turn `first` or at once, all others a `span` of turns over
// all of them later.
struct Starts {
    int64_t first = 0, span = 0, count = 0;
    std::vector<int64_t> turns() const;
};

struct StreamPlan {
    std::vector<Stream> loads, stores;
    std::vector<int64_t> fronts;  // groups of each load that come in front of the loop
    std::vector<Starts> load_starts, result_starts;
    int64_t stages = 1;    // iterations that may be under way at once
    bool columns = false;  // pads have several columns, whose groups take turns
    bool apart = false;    // all loads come in front of all results
    // Each group is two transfers of half of the pads, so that one has something to move while the engines of the other begin.
    bool in_halves = false;
    int64_t unsure = 0;  // last results whose turns the loop may not come to

    // Turns from one half of a group to the other; 0: they start together.
    int64_t half_distance() const { return apart && in_halves ? 1 : 0; }
    // Where no results leave from inside the loop: nothing starts in a load's pads behind its last group, which this turn waits
    // for.
    int64_t turn_of_wait(const Stream &load) const { return load.first_use.back() - stages - 1; }
};

// Of the copies around the nest that stands at `at` in the kernel's body; nothing where they cannot start beside it.
std::optional<StreamPlan> plan_streams(Kernel &kernel, const LoopNest &nest, size_t at);

}  // namespace atalla::codegen
