// The schedules of windows over planes.
#include <algorithm>
#include <vector>

#include "generators/plane_plan.h"
#include "generators/pool_transfers.h"
#include "generators/window_maxima.h"

namespace atalla {

namespace {

std::vector<int64_t> unrolls_of(const PoolShape &shape) {
    constexpr int64_t most_unrolled = 9, most_code = 160, most_idle = 8;  // one window of so many does nothing
    const bool one_phase = pool_phases(shape.x).size() == 1;
    const int64_t columns = pool_phases(shape.x).front().count;
    std::vector<int64_t> unrolls;
    for (int64_t unroll = 1; unroll <= std::min(most_unrolled, columns); unroll++) {
        const int64_t idle = round_up(columns, unroll) - columns;
        if ((idle == 0 || (one_phase && idle * most_idle <= columns)) &&
            (unroll <= 4 || window_operations(shape, unroll) <= most_code))
            unrolls.push_back(unroll);
    }
    return unrolls;
}

Space space_of(const PoolShape &shape, const Machine &machine) {
    Space space;
    std::vector<int64_t> first_columns = {0};
    if (const int64_t own =
            shape.kind == Pooling::Max && takes_columns(shape) && pool_phases(shape.x).size() == 1 ? own_column(shape.x) : 0;
        own > 0)
        first_columns = {own, 0};
    space.parameter("unroll", "results in straight-line code", unrolls_of(shape))
        .parameter("weight_unroll", "vectors of a turned block in straight-line code", {8, 16, 32})
        .parameter("bands", "rows of blocks that come together", come_together(PlaneBlocks::of_image(shape, machine).bands))
        .parameter("results", "rows of blocks of results that leave together",
                   divisors(PlaneBlocks::of_results(shape, machine).bands, lanes))
        .choice("first_column",
                "column of a window that its maximum starts from: one that windows beside it do not have, or the first",
                first_columns);
    space.parameter("planes", "in the pads at a time", planes_together(shape));
    space.constraint("pads", {"unroll", "weight_unroll", "bands", "results", "planes"},
                     "So many planes of the image, framed by the padding, and their results fit the pads.",
                     [=](const Point &point) { return planes_fit(shape, machine, point); });
    return space;
}

Point naive_point_of(const PoolShape &shape, const Machine &machine) {
    Point point = {{"unroll", 1},
                   {"weight_unroll", 8},
                   {"bands", come_together(PlaneBlocks::of_image(shape, machine).bands).front()},
                   {"results", divisors(PlaneBlocks::of_results(shape, machine).bands, lanes).front()},
                   {"first_column", 0},
                   {"planes", lanes}};
    for (int64_t unroll : unrolls_of(shape)) {
        point.set("unroll", unroll);
        if (planes_fit(shape, machine, point)) return point;
    }
    point.set("unroll", 1);
    return point;
}

bool takes(const PoolShape &shape, const Machine &machine) {
    return planes_fit(shape, machine, naive_point_of(shape, machine));
}

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Windows at the pace of their lanes, two units side by side, of which long straight-line code loses some, with copies of
    // what other windows still read; blocks at the pace of the array. Code comes from memory anew for all planes that are in
    // the pads at a time. The first elements come and the last ones leave at half the rate of the bus while nothing else runs.
    constexpr double latency = 60, block = 120, not_at_once = 40, around_row = 60, around_chunk = 250, start = 2500,
                     half_rate = 2, code = 4000, lost = 1500, copies = 3;
    const PlanePlan plan(shape, machine, point);
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const double blocks = real(tiles_of(shape.images * shape.channels)), unroll = real(point["unroll"]),
                 windows = real(std::max(plan.columns, shape.x.results) * shape.y.results);
    const double operations = real(window_operations(shape, point["unroll"]));
    const double window =
        operations / unroll * (1 + operations / lost) * real(machine.vec.ii) / (shape.kind == Pooling::Average ? 1 : 2) +
        (point["unroll"] == 1 ? latency : 0) +
        (shape.kind == Pooling::Max && point["first_column"] != own_column(shape.x) ? copies : 0);
    const double turned = real(plan.image.bands * plan.image.parts + plan.back.bands * plan.back.parts) *
                          (block + (point["weight_unroll"] == lanes ? 0 : not_at_once));
    const double chunks =
        real(plan.chunks() * plan.image.parts + ceil_div(plan.back.bands, plan.results) * plan.back.parts) * around_chunk;
    const double ends = half_rate * 2 * lanes * real(plan.bands + plan.results);
    return start + ends + blocks / real(plan.together) * code +
           blocks * (windows * window + real(shape.y.results) * around_row + turned + chunks);
}

}  // namespace

const PoolForm plane_pool = {takes, space_of, naive_point_of, draft_of, plane_pool_kernel};

}  // namespace atalla
