#include "schedules/visit_bound.h"

#include <algorithm>

#include "isa/vectors.h"
#include "schedules/chains.h"

namespace atalla {

int64_t least_visit_cycles(const Machine &machine, int64_t rows, int64_t results, int64_t loads) {
    if (!machine.timed() || !machine.sa.psum_in || rows <= 0) return 0;
    const auto &sa = machine.sa;
    const auto &pad = machine.pad;
    const int64_t gap = Chains(machine).switch_gap;
    // A row holds its credit until sa.L + sa.credit_return cycles after it issued (rule 23); a gap is at least as long.
    const int64_t loss = sa.weight_buffers > 1 ? 0 : std::min(gap, std::max<int64_t>(0, sa.L + sa.credit_return - sa.credits));
    const auto array = [&](int64_t visits) {
        return rows + loads * visits + gap * (visits - 1) + loss * std::max<int64_t>(0, ceil_div(rows, sa.credits) - visits);
    };
    const auto reads = [&](int64_t visits) {
        const int64_t vectors = 2 * rows - results - visits * (machine.regs.vector - 1);
        return std::max<int64_t>(0, (ceil_div(std::max<int64_t>(vectors, 0), pad.count) - 1) * pad.read_ii);
    };
    // More visits take the array longer and spare the pads: the least is where the array begins to decide, or one visit before.
    int64_t low = 1, high = rows;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (array(middle) >= reads(middle))
            high = middle;
        else
            low = middle + 1;
    }
    const int64_t here = std::max(array(low), reads(low));
    return low == 1 ? here : std::min(here, reads(low - 1));
}

}  // namespace atalla
