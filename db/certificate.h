// What is proven about a workload on a machine: how fast any schedule can be at most, and that none of its space is faster.
#pragma once

#include <cstdint>
#include <string>

#include "db/trial.h"

namespace atalla {

struct Certificate {
    TrialKey key;
    int64_t bound_cycles = 0;  // the lower bound: no program is faster; 0: unknown
    std::string bound_by;      // the term that decides it
    int64_t least_cycles = 0;  // every schedule of the space was visited and takes at least as long; 0: not proven

    // Of a winner that takes so many cycles: what could still be saved at most, as a share of the bound.
    double gap(int64_t cycles) const {
        return bound_cycles > 0 ? static_cast<double>(cycles) / static_cast<double>(bound_cycles) - 1 : 0;
    }
    bool optimal_in_space(int64_t cycles) const { return least_cycles > 0 && cycles <= least_cycles; }
    bool operator==(const Certificate &) const = default;
};

}  // namespace atalla
