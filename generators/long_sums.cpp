#include "generators/long_sums.h"

#include "isa/vectors.h"

namespace atalla {

int64_t steps_of_group(int64_t steps, int64_t planes) {
    constexpr int64_t most_in_a_row = 64;
    if (steps * planes <= most_in_a_row) return steps * planes;
    // Few additions in a row, and few steps beyond the last element: they cost time, and what is in the pads at a time has to begin before them,
    // which small pads have room for up to 4.
    constexpr double weight_of_surplus = 4, most_weight = 4;
    constexpr int64_t most_surplus = 4;
    const auto cost = [&](int64_t members) {
        const int64_t groups = ceil_div(steps, members), surplus = groups * members - steps;
        const double additions = static_cast<double>(members + groups * planes);
        if (surplus > 0 && (surplus >= most_surplus || members % most_surplus != 0)) return most_weight * additions;
        return additions * (1 + weight_of_surplus * static_cast<double>(surplus) / static_cast<double>(steps));
    };
    int64_t best = steps;
    for (int64_t members = 1; members < steps && members * members <= 4 * steps * planes; members++)
        if (cost(members) < cost(best)) best = members;
    return best;
}

}  // namespace atalla
