#include "generators/patterns.h"

#include <algorithm>
#include <numeric>

namespace atalla {

int64_t Pattern::period() const { return elements_ / std::gcd<int64_t>(elements_, lanes); }

int64_t Pattern::turn() const { return std::lcm(period(), pads_); }

// Of a short turn more come at once, so that fewer loads serve the repetitions.
bool Pattern::in_turns() const {
    constexpr int64_t longest = 128;
    return turn() <= longest || turn() == period();
}

// Repetitions of a period begin in any pad: straight-line code stores what goes round them, a few vectors more than there are.
int64_t Pattern::base() const {
    constexpr int64_t least = 32;
    return in_turns() ? turn() * std::max<int64_t>(1, least / turn()) : round_up(period(), pads_);
}

bool Pattern::by_vectors() const {
    const int64_t most_rows = lanes, rest = elements_ % lanes != 0 ? 1 : 0, whole = elements_ / lanes;
    const int64_t by_copies = copies() * (ceil_div(whole, most_rows) + rest),
                  by_vectors = (whole + rest) * ceil_div(copies(), most_rows);
    return 2 * by_vectors <= by_copies;
}

// Fewer repetitions cost more than they save.
constexpr int64_t least_periods = 4;

bool PatternRun::fits(const Machine &machine, int64_t block, int64_t small_operands) const {
    constexpr int64_t slots = 2;
    const int64_t pads = machine.pad.count;
    bool repeats = true;
    int64_t rows = (operands + 1) * slots * block / lanes + pads * small_operands, copied = 0;
    if (in_images()) {
        // The last block of an image, which begins earlier, makes few elements again.
        constexpr int64_t most_again = 8;
        const int64_t rest = tiles_of(elements - whole(machine));
        rows += static_cast<int64_t>(periods.size()) * (tiles_of(elements) + pads) + (operands + 1) * images * rest * pads;
        repeats = (ceil_div(whole(machine), block) * block - whole(machine)) * most_again <= elements;
    }
    for (const int64_t period : in_images() ? std::vector<int64_t>() : periods) {
        const Pattern own = pattern(machine, period);
        rows += own.vectors(block / lanes) + own.base() +
                tiles_of(period) * (1 + (own.by_vectors() ? round_up(own.copies(), pads) : 0));
        repeats = repeats && least_periods * own.base() <= tiles_of(elements);
        if (period % lanes != 0) copied += own.copies() * period;
    }
    return machine.timed() && repeats && block <= whole(machine) && rows <= pads * machine.pad_rows() && copied <= elements;
}

PatternRun pattern_run(const LoopNest &nest, const std::vector<bool> &used, int64_t parts) {
    PatternRun run;
    run.elements = 1;
    for (const LoopNest::Dim &dim : nest.dims) run.elements *= dim.extent;
    for (size_t i = 0; i < used.size(); i++) {
        if (!used[i] || nest.is_single(i)) continue;
        int64_t own = 1;
        bool outer = false;  // a dimension that it does not have
        for (size_t d = 0; d < nest.dims.size(); d++) {
            if (!nest.is_present(i, d))
                outer = true;
            else if (outer)
                return {};
            else
                own *= nest.dims[d].extent;
        }
        if (own == run.elements)
            run.operands++;
        else
            run.periods.push_back(own);
    }
    run.periods.insert(run.periods.end(), static_cast<size_t>(parts), nest.dims[0].extent);
    if (run.operands == 0 || run.periods.empty()) return {};
    const int64_t longest = std::ranges::max(run.periods);
    const bool alike = parts == 0 && std::ranges::min(run.periods) == longest;
    if (alike && least_periods * Pattern(longest, 1, 0).period() > tiles_of(run.elements)) {
        run.images = run.elements / longest;
        run.elements = longest;
    }
    return run;
}

}  // namespace atalla
