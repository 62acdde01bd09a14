#include "schedules/sums_bound.h"

#include <algorithm>

#include "isa/vectors.h"

namespace atalla {

namespace {

int64_t term(const Bound &bound, const char *name) {
    return std::ranges::find(bound.terms, name, &std::pair<std::string, int64_t>::first)->second;
}

}  // namespace

Bound sums_bound(const Machine &machine, const KernelWork &work, int64_t sums) {
    const auto shared = [&](int64_t of_array) {
        KernelWork all = work;
        all.lanes.adds += sums - of_array;
        all.array_rows += ceil_div(of_array * machine.vec.vl, machine.sa.cols);
        return all;
    };
    if (!machine.sa.psum_in) return kernel_bound(machine, shared(0));
    // The first share with which the array takes as long as the lanes: these take no longer with a larger one, and the array no
    // less, so the longer of both is least there or just before it. Without reads the terms have no ways in.
    const auto balance = [&](bool reads) {
        int64_t low = 0, high = sums;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            KernelWork all = shared(middle);
            all.reads = reads;
            const Bound bound = kernel_bound(machine, all);
            if (term(bound, "array") >= term(bound, "lanes"))
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    };
    const auto bound = [&](int64_t of_array) { return kernel_bound(machine, shared(of_array)); };
    const int64_t cold = balance(work.reads), steady = balance(false);
    // A program without lane operations has a shorter way through the chip.
    Bound least = std::ranges::min({bound(cold), bound(std::max<int64_t>(cold - 1, 0)), bound(sums)}, {}, &Bound::cycles);
    least.steady = std::min(bound(steady).steady, bound(std::max<int64_t>(steady - 1, 0)).steady);
    return least;
}

}  // namespace atalla
