// The rank test that judges host times: whether two samples differ, and by what factor, whatever their distribution.
#pragma once

#include <cstddef>
#include <vector>

namespace atalla {

// Of at least one value.
double median(std::vector<double> values);

struct RankTest {
    // Two-sided probability of ranks as uneven as these if both samples came from one distribution (Mann and Whitney's U).
    // Exact for samples without ties of up to 50 each, else by the normal approximation with ties and continuity corrected.
    double p = 1;
    // Median of the ratios of every new value to every old one (Hodges and Lehmann's estimate, of a factor). Above 1: the
    // new values are larger.
    double ratio = 1;
};

// Error if a sample is empty or holds what is not a positive finite number.
RankTest rank_test(const std::vector<double> &before, const std::vector<double> &after);

// The least p that samples of these sizes can give; with fewer repetitions than some number nothing can be significant.
double least_p(std::size_t before, std::size_t after);

}  // namespace atalla
