#include "generators/depthwise_windows.h"

#include <algorithm>
#include <vector>

#include "generators/pad_room.h"
#include "generators/pool_frame.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// What a point makes of a shape.
struct Plan {
    int64_t tile_x, tile_y, unroll;
    int64_t tiles;          // of an image and a vector of channels
    int64_t blocks;         // vectors of channels; the last one ends with the channels and may overlap the one before
    int64_t columns, rows;  // of the pixels of a tile
    bool round;             // the pad of each pixel is known in straight-line code, so that they go round all pads
    bool results_round;     // and so do results
    bool two_slots, factors_change;

    Plan(const PoolShape &shape, const Machine &machine, const Point &point)
        : tile_x(std::min(point["tile_x"], shape.x.results)),
          tile_y(std::min(point["tile_y"], shape.y.results)),
          unroll(std::min(point["unroll"], tile_x)),
          tiles(ceil_div(shape.x.results, tile_x) * ceil_div(shape.y.results, tile_y)),
          blocks(shape.vectors()) {
        const int64_t pads = machine.pad.count;
        columns = padded(shape) ? PoolFrame(shape.x, tile_x).extent() : window_span(shape.x, tile_x);
        rows = padded(shape) ? PoolFrame(shape.y, tile_y).extent() : window_span(shape.y, tile_y);
        // Where windows in straight-line code step over whole rounds of the pads, all rows begin in one pad.
        const bool whole_rounds = unroll * shape.x.stride % pads == 0 && tile_x % unroll == 0;
        if (whole_rounds) columns = round_up(columns, pads);
        round = whole_rounds && (!padded(shape) || tile_x == shape.x.results);
        results_round = unroll % pads == 0 && tile_x % unroll == 0;
        two_slots = tiles * blocks * shape.images > 1;
        factors_change = blocks * shape.images > 1;
    }
};

class DepthwiseWindows {
public:
    DepthwiseWindows(const PoolShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          machine_(machine),
          plan_(shape, machine, point),
          channels_(size(shape.channels)),
          framed_(padded(shape)),
          frame_x_(shape.x, plan_.tile_x),
          frame_y_(shape.y, plan_.tile_y) {}

    KernelDefinition run() {
        define_operands();
        define_windows();
        schedule_tiles();
        schedule_windows();
        whole_loops(out_);
        const std::vector<int64_t> results = {shape_.channels, shape_.x.results, shape_.y.results, shape_.images};
        fix_shape(out_.output_buffer(), results);
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.add_input("X", image_);
        kernel.add_input("F", weights_);
        if (shape_.bias) kernel.add_input("bias", bias_);
        kernel.outputs = {{"Y", results}};
        return kernel;
    }

private:
    int64_t taps() const { return shape_.x.kernel * shape_.y.kernel; }
    // Of fewer channels than lanes the other lanes are not brought.
    bool narrow() const { return channels_ < lanes; }
    Expr channel() const { return narrow() ? min(c, channels_ - 1) : Expr(c); }
    Expr brought(const Expr &value) const { return narrow() ? select(c < channels_, value, undef<BFloat>()) : value; }

    // With a frame, places count from the beginning of their tile.
    std::vector<Expr> place(const Expr &column, const Expr &row) const {
        return framed_ ? std::vector<Expr>{c, column, row, tx, ty, i} : std::vector<Expr>{c, column, row, i};
    }

    // The pixels that a tile's windows see, and rows of 32 channels of each element of the kernel and of the bias.
    void define_operands() {
        factors_(c, t) = brought(weights_(channel(), t));
        if (shape_.bias) bias_row_(c) = brought(bias_(channel()));
        const int columns = size(plan_.columns), rows = size(plan_.rows);
        if (!framed_) {
            pixels_(c, x, y, i) = brought(image_(channel(), x, y, i));
            pixels_.bound_extent(x, window_span(shape_.x, plan_.tile_x)).bound_extent(y, rows).bound_storage(x, columns);
            return;
        }
        const Expr px = x - frame_x_.before, py = y - frame_y_.before;
        const int width = frame_x_.elements, height = frame_y_.elements;
        const Expr pixel =
            image_(channel(), frame_x_.start(tx) + clamp(px, 0, width - 1), frame_y_.start(ty) + clamp(py, 0, height - 1), i);
        pixels_(place(x, y)) = bf16(0.0f);
        pixels_(place(x, y)) = select(c < channels_ && px >= 0 && px < width && py >= 0 && py < height, pixel, undef<BFloat>());
        pixels_.bound(x, 0, columns).bound(y, 0, rows).vectorize(c, lanes);
        if (plan_.round) pixels_.split(x, x, Var("x_unroll"), size(machine_.pad.count));
    }

    void define_windows() {
        const PoolAxis &ax = shape_.x, &ay = shape_.y;
        const int tile_x = size(plan_.tile_x), tile_y = size(plan_.tile_y);
        const Expr first_x = framed_ ? frame_x_.first_window(tx) : Expr(0),
                   first_y = framed_ ? frame_y_.first_window(ty) : Expr(0);
        const std::vector<Expr> at = place(x, y);
        const Expr pixel = pixels_(place(x * size(ax.stride) + taps_.x + first_x, y * size(ay.stride) + taps_.y + first_y));
        window_(at) = bf16(-0.0f);
        window_(at) = strict_float(window_(at) + strict_float(pixel * factors_(c, taps_.y * size(ax.kernel) + taps_.x)));
        const Expr sum = window_(at);
        result_(at) = shape_.epilogue.apply(shape_.bias ? strict_float(sum + bias_row_(c)) : sum);
        out_(c, x, y, i) = framed_ ? result_(c, x % tile_x, y % tile_y, x / tile_x, y / tile_y, i) : result_(c, x, y, i);
    }

    void schedule_tiles() {
        const Var xo("xo"), xi("xi"), yo("yo"), yi("yi"), co("co"), ci("ci");
        out_.bound(c, 0, channels_)
            .bound(x, 0, size(shape_.x.results))
            .bound(y, 0, size(shape_.y.results))
            .bound(i, 0, size(shape_.images))
            .split(c, co, ci, std::min(int{lanes}, channels_), TailStrategy::ShiftInwards)
            .split(x, xo, xi, size(plan_.tile_x), TailStrategy::ShiftInwards)
            .split(y, yo, yi, size(plan_.tile_y), TailStrategy::ShiftInwards)
            .reorder(ci, xi, yi, xo, yo, co, i);
        const auto in_slots = [&](Func func, const Var &loop, bool two) {
            func.compute_at(out_, loop).bound_extent(c, lanes);
            if (two) func.hoist_storage_root().ring_buffer(2);
            in_pads({func});
        };
        in_slots(pixels_, xo, plan_.two_slots);
        in_slots(result_, xo, plan_.two_slots);
        // Those of a vector of channels serve all its tiles.
        factors_.bound_extent(t, size(taps()));
        in_slots(factors_, co, plan_.factors_change);
        if (shape_.bias) in_slots(bias_row_, co, plan_.factors_change);
    }

    // Windows side by side share pixels and factors. The innermost loop goes down the rows of a tile: it is the longest one,
    // and its first and last turns, which latencies fill, are few.
    void schedule_windows() {
        const Var xu("x_unroll");
        result_.bound_extent(x, size(plan_.tile_x))
            .bound_extent(y, size(plan_.tile_y))
            .vectorize(c, lanes)
            .split(x, x, xu, size(plan_.unroll))
            .reorder(c, xu, y, x);
        window_.compute_at(result_, xu).vectorize(c, lanes);
        window_.update().reorder(c, taps_.x, taps_.y).vectorize(c, lanes).unroll(taps_.x).unroll(taps_.y);
        in_registers({window_});
    }

    const PoolShape &shape_;
    const Machine &machine_;
    const Plan plan_;
    const int channels_;
    const bool framed_;
    const PoolFrame frame_x_, frame_y_;
    Var c{"c"}, x{"x"}, y{"y"}, tx{"tx"}, ty{"ty"}, i{"i"}, t{"t"};
    RDom taps_{0, size(shape_.x.kernel), 0, size(shape_.y.kernel), "taps"};
    Func pixels_{"pixels"}, window_{"window"}, result_{"result"}, factors_{"factors"}, bias_row_{"bias_row"}, out_{"Y"};
    ImageParam image_ = tensor("X", {shape_.channels, shape_.x.size, shape_.y.size, shape_.images}),
               weights_ = tensor("F", {shape_.channels, taps()}), bias_ = tensor("bias", {shape_.channels});
};

// Operations of a window: the adder's, the multiplier's, and those that either can do.
LaneCount operations(const PoolShape &shape) {
    const int64_t taps = shape.x.kernel * shape.y.kernel;
    LaneCount count = shape.epilogue.operations();
    count.work.adds += taps - 1 + shape.bias;
    count.work.muls += taps;
    return count;
}

bool tile_fits(const PoolShape &shape, const Machine &machine, const Plan &plan, bool round) {
    const int64_t slots = plan.two_slots ? 2 : 1, factors = shape.x.kernel * shape.y.kernel + shape.bias;
    return fit_pads(machine, {{slots * plan.columns * plan.rows, round},
                              {slots * plan.tile_x * plan.tile_y, plan.results_round},
                              {(plan.factors_change ? 2 : 1) * factors, false}});
}

bool takes(const PoolShape &shape, const Machine &machine) {
    const Point smallest = {{"tile_x", 1}, {"tile_y", 1}, {"unroll", 1}};
    return machine.timed() && tile_fits(shape, machine, Plan(shape, machine, smallest), false);
}

Space space_of(const PoolShape &shape, const Machine &machine) {
    // Tiles of images with frames divide the results.
    const auto tiles = [&](int64_t results) {
        std::vector<int64_t> values;
        for (int64_t parts = 1; parts <= results; parts = padded(shape) || parts < 4 ? parts + 1 : parts * 2)
            if (const int64_t tile = ceil_div(results, parts);
                (values.empty() || values.back() != tile) && (!padded(shape) || results % tile == 0))
                values.push_back(tile);
        if (values.back() != 1) values.push_back(1);
        return values;
    };
    constexpr int64_t most_unrolled = 8, most_code = 190;
    std::vector<int64_t> unrolls;
    for (int64_t unroll = 1; unroll <= std::min(most_unrolled, shape.x.results); unroll++)
        if (unroll == 1 || unroll * operations(shape).all() <= most_code) unrolls.push_back(unroll);
    Space space;
    space.parameter("tile_x", "results along x in the pads at a time", tiles(shape.x.results))
        .parameter("tile_y", "results along y in the pads at a time", tiles(shape.y.results))
        .parameter("unroll", "results in straight-line code", unrolls);
    space.constraint("whole unrolls", {"tile_x", "unroll"},
                     "The results in straight-line code divide those of a tile, or the last ones overlap those before by few.",
                     [](const Point &point) {
                         constexpr int64_t most_twice = 6;  // one result of so many
                         const int64_t twice = round_up(point["tile_x"], point["unroll"]) - point["tile_x"];
                         return point["unroll"] <= point["tile_x"] && twice * most_twice <= point["tile_x"];
                     });
    space.constraint("pads", {"tile_x", "tile_y", "unroll"}, "The pixels and the results of a tile fit the pads.",
                     [=](const Point &point) {
                         const Plan plan(shape, machine, point);
                         return tile_fits(shape, machine, plan, plan.round);
                     });
    return space;
}

Point naive_point_of(const PoolShape &shape, const Machine &machine) {
    // The largest tile that is sure to fit; where none is, single results.
    Point best = {{"tile_x", 1}, {"tile_y", 1}, {"unroll", 1}};
    int64_t most = 0;
    for_each(space_of(shape, machine), [&](const Point &point) {
        const int64_t size = point["tile_x"] * point["tile_y"];
        // A tile that is filled goes round the pads in optimized code alone.
        if (point["unroll"] == 1 && size > most &&
            (!padded(shape) || tile_fits(shape, machine, Plan(shape, machine, point), false))) {
            most = size;
            best = point;
        }
        return true;
    });
    return best;
}

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Windows at the pace of their lanes, of which long straight-line code loses some. A loop has a turn more than rows, in
    // which it fills and drains. The next tile comes while windows of this one run.
    constexpr double start = 4000, least_interval = 60, around_loop = 80, around_tile = 150, long_code = 132, lost = 0.003;
    // Of transfers: of a pixel whose row goes round the pads, what it takes more in one pad, what a row of pixels takes, the
    // code that starts one, and the share of all that is waited for where parts of rows come.
    constexpr double pixel = 6, one_pad = 5, around_row = 32, starting = 8, parts_of_rows = 0.5;
    const Plan plan(shape, machine, point);
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const LaneCount count = operations(shape);
    const int64_t of_two = count.all() - count.work.exps;  // units
    const double busiest = std::max({real(count.work.adds), real(count.work.muls), real(count.work.exps), real(of_two) / 2});
    const double window =
        real(machine.vec.ii) * busiest * (1 + lost * std::max(0.0, real(count.all() * plan.unroll) - long_code));
    const double interval = std::max(window * real(plan.unroll), least_interval);
    const int64_t across = ceil_div(plan.tile_x, plan.unroll), turns = plan.tile_y > 1 ? plan.tile_y : across,
                  loops = across * plan.tile_y / turns;
    const int64_t columns = std::min<int64_t>(window_span(shape.x, plan.tile_x), shape.x.size),
                  rows = std::min<int64_t>(window_span(shape.y, plan.tile_y), shape.y.size);
    const int64_t starts =
        rows + (plan.tile_x == shape.x.results ? ceil_div(plan.tile_x * plan.tile_y, machine.sdma.max_rows) : plan.tile_y);
    const double transfers = real(columns * rows) * (pixel + (plan.round ? 0 : one_pad)) + real(rows) * around_row +
                             real(plan.tile_x * plan.tile_y) * (pixel + (plan.results_round ? 0 : one_pad));
    const double compute = real(loops) * (real(turns + 1) * interval + around_loop) + real(starts) * starting +
                           (plan.tiles > 1 ? around_tile : 0) + (plan.tile_x < shape.x.results ? parts_of_rows * transfers : 0);
    return start + transfers +
           real(plan.tiles * plan.blocks * shape.images) * (plan.two_slots ? std::max(compute, transfers) : compute);
}

}  // namespace

const PoolForm depthwise_windows = {takes, space_of, naive_point_of, draft_of,
                                    [](const PoolShape &shape, const Machine &machine, const Point &point) {
                                        return DepthwiseWindows(shape, machine, point).run();
                                    }};

}  // namespace atalla
