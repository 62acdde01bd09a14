#include "dashboard/rank_test.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "isa/error.h"

namespace atalla {

double median(std::vector<double> values) {
    const size_t middle = values.size() / 2;
    std::nth_element(values.begin(), values.begin() + middle, values.end());
    const double upper = values[middle];
    if (values.size() % 2 == 1) return upper;
    return (upper + *std::max_element(values.begin(), values.begin() + middle)) / 2;
}

namespace {

constexpr size_t exact_limit = 50;

// Probability of U <= u under the hypothesis: the share of the orders of n + m values that give so small a U. With
// ways(n, m, u) = ways(n - 1, m, u - m) + ways(n, m - 1, u), by whose value is the largest.
double probability_up_to(size_t n, size_t m, size_t u) {
    std::vector<std::vector<double>> ways(m + 1, std::vector<double>(u + 1, 0));
    for (auto &row : ways) row[0] = 1;
    for (size_t i = 1; i <= n; i++) {
        std::vector<std::vector<double>> next(m + 1, std::vector<double>(u + 1, 0));
        next[0][0] = 1;
        for (size_t j = 1; j <= m; j++)
            for (size_t value = 0; value <= u; value++)
                // As shares of all orders, which keeps large samples within a double's range.
                next[j][value] = (value >= j ? ways[j][value - j] * static_cast<double>(i) / static_cast<double>(i + j) : 0) +
                                 next[j - 1][value] * static_cast<double>(j) / static_cast<double>(i + j);
        ways = std::move(next);
    }
    return std::accumulate(ways[m].begin(), ways[m].end(), 0.0);
}

struct Ranks {
    double u = 0;     // pairs in which the new value is larger, ties counted half
    double ties = 0;  // sum of t^3 - t over groups of t equal values
};

Ranks ranks_of(const std::vector<double> &before, const std::vector<double> &after) {
    std::vector<std::pair<double, bool>> all;
    for (double value : before) all.emplace_back(value, false);
    for (double value : after) all.emplace_back(value, true);
    std::sort(all.begin(), all.end());
    Ranks ranks;
    double smaller_before = 0;
    for (size_t start = 0; start < all.size();) {
        double old_here = 0, new_here = 0;
        size_t end = start;
        for (; end < all.size() && all[end].first == all[start].first; end++) (all[end].second ? new_here : old_here)++;
        ranks.u += new_here * (smaller_before + old_here / 2);
        smaller_before += old_here;
        const double size = static_cast<double>(end - start);
        ranks.ties += size * size * size - size;
        start = end;
    }
    return ranks;
}

void require_positive(const std::vector<double> &sample) {
    if (sample.empty()) throw Error("a rank test needs at least one value on each side");
    for (double value : sample)
        if (!(value > 0) || !std::isfinite(value)) throw Error("a rank test needs positive finite values");
}

}  // namespace

RankTest rank_test(const std::vector<double> &before, const std::vector<double> &after) {
    require_positive(before);
    require_positive(after);
    RankTest result;
    std::vector<double> ratios;
    for (double old_value : before)
        for (double new_value : after) ratios.push_back(new_value / old_value);
    result.ratio = median(std::move(ratios));

    const Ranks ranks = ranks_of(before, after);
    const auto n = static_cast<double>(before.size()), m = static_cast<double>(after.size());
    const double smaller = std::min(ranks.u, n * m - ranks.u);
    if (ranks.ties == 0 && before.size() <= exact_limit && after.size() <= exact_limit) {
        result.p = std::min(1.0, 2 * probability_up_to(before.size(), after.size(), static_cast<size_t>(smaller)));
        return result;
    }
    const double count = n + m;
    const double variance = n * m / 12 * (count + 1 - ranks.ties / (count * (count - 1)));
    if (variance <= 0) return result;  // all values are equal
    const double distance = std::max(0.0, n * m / 2 - smaller - 0.5);
    result.p = std::erfc(distance / std::sqrt(2 * variance));
    return result;
}

double least_p(size_t before, size_t after) {
    double orders = 1;
    for (size_t i = 1; i <= before; i++) orders *= static_cast<double>(after + i) / static_cast<double>(i);
    return std::min(1.0, 2 / orders);
}

}  // namespace atalla
