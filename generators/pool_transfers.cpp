#include "generators/pool_transfers.h"

#include <algorithm>

#include "isa/vectors.h"
#include "schedules/space.h"

namespace atalla {

std::vector<int64_t> come_together(int64_t bands) {
    std::vector<int64_t> counts = divisors(bands, lanes);
    for (const int64_t parts : {2, 3, 4, 8}) counts.push_back(std::min(ceil_div(bands, parts), int64_t{lanes}));
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    return counts;
}

std::vector<int64_t> planes_together(const PoolShape &shape) {
    constexpr int64_t most = 32;
    const int64_t planes = shape.images * shape.channels;
    // A block's factors are those of its channels, which the blocks of an image have in turn.
    const bool of_channels = shape.kind == Pooling::Weighted && shape.images > 1;
    std::vector<int64_t> values = {lanes};
    for (int64_t together = 2; planes % lanes == 0 && together <= most; together++)
        if (planes / lanes % together == 0 && (!of_channels || shape.vectors() % together == 0))
            values.push_back(together * lanes);
    return values;
}

bool continuous(const PoolShape &shape) {
    return shape.y.kernel <= shape.y.stride && shape.y.results * shape.y.stride == shape.y.size;
}

double mean_beats(int64_t distance, int64_t first, int64_t length) {
    constexpr int64_t beat = 16;  // elements of the 32 bytes that ax01's bus has
    int64_t sum = 0;
    for (int64_t place = 0; place < beat; place++) sum += ceil_div((place * distance + first) % beat + length, beat);
    return static_cast<double>(sum) / beat;
}

}  // namespace atalla
