// Windows over images whose channels are innermost: lanes are channels.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "generators/long_sums.h"
#include "generators/pad_room.h"
#include "generators/pool.h"
#include "generators/pool_frame.h"
#include "generators/second_look.h"
#include "generators/vocabulary.h"
#include "generators/window_maxima.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Results below each other in straight-line code.
int64_t rows_of(const Point &point) { return point.contains("rows") ? point["rows"] : 1; }

// Are windows beside each other pairs, or those above each other? Of an odd number the last one has another that nobody sees,
// where the pads surely hold all of them.
bool pairs_of(const PoolAxis &axis, const Machine &machine) {
    constexpr int64_t most_odd = 64;
    return axis.results > 1 && (all_pairs(axis) || (machine.timed() && shares_pairs(axis) && axis.results <= most_odd));
}
bool pairs_beside(const PoolShape &shape, const Machine &machine) { return takes_columns(shape) && pairs_of(shape.x, machine); }
bool pairs_above(const PoolShape &shape, const Machine &machine) { return takes_columns(shape) && pairs_of(shape.y, machine); }

// The results of a tile that are made: of a whole row, or column, what fills straight-line code, though nobody sees the last.
int64_t made_beside(const PoolShape &shape, const Point &point) {
    return round_up(std::min(point["tile_x"], shape.x.results), std::min(point["unroll"], shape.x.results));
}
int64_t made_below(const PoolShape &shape, const Point &point) {
    return round_up(std::min(point["tile_y"], shape.y.results), rows_of(point));
}
bool makes_more(const PoolShape &shape, const Point &point) {
    return made_beside(shape, point) > point["tile_x"] || made_below(shape, point) > point["tile_y"];
}

// Do all tiles of a padded image have one frame, or what lies behind an image that more windows see? Where transfers take no
// time, each has code of its own instead, and fewer rows in the pads.
bool framed(const PoolShape &shape, const Machine &machine) { return padded(shape) && machine.timed(); }
bool framed(const PoolShape &shape, const Machine &machine, const Point &point) {
    return framed(shape, machine) || makes_more(shape, point);
}

// Do results in straight-line code step over whole rounds of the pads along a row?
bool steps_over_rounds(const PoolShape &shape, const Machine &machine, const Point &point) {
    return point["unroll"] * shape.x.stride % machine.pad.count == 0 || point["unroll"] >= shape.x.results;
}

// Is the pad of each pixel known in straight-line code, so that they go round all pads?
bool goes_round(const PoolShape &shape, const Machine &machine, const Point &point) {
    const bool one_frame = !framed(shape, machine, point) || point["tile_x"] >= shape.x.results;
    return one_frame && point["vectors"] == 1 && steps_over_rounds(shape, machine, point);
}

// Columns of the pixels of a tile. Where results in straight-line code step over whole rounds of the pads, and in a tile that
// is filled, there are as many more as let all rows begin in one pad.
int64_t tile_columns(const PoolShape &shape, const Machine &machine, const Point &point) {
    const int64_t tile = std::min(point["tile_x"], shape.x.results);
    const int64_t frame = framed(shape, machine, point) ? PoolFrame(shape.x, tile).extent() : 0,
                  span = std::max<int64_t>(frame, window_span(shape.x, made_beside(shape, point)));
    return padded(shape) || steps_over_rounds(shape, machine, point) ? round_up(span, machine.pad.count) : span;
}
int64_t tile_rows(const PoolShape &shape, const Machine &machine, const Point &point) {
    const int64_t tile = std::min(point["tile_y"], shape.y.results),
                  frame = framed(shape, machine, point) ? PoolFrame(shape.y, tile).extent() : 0;
    return std::max<int64_t>(frame, window_span(shape.y, made_below(shape, point)));
}

// Are the results of a tile beside and below each other one loop? It fills and drains once.
bool merges_rows(const Machine &machine, int64_t vectors, int64_t across, int64_t down) {
    return machine.timed() && vectors == 1 && across > 1 && down > 1;
}

// How often the innermost loop of windows that share columns runs: over all results of a tile, over vectors of channels, or
// results beside each other, or those below each other where that is at least twice as often.
int64_t innermost_turns(const Machine &machine, int64_t vectors, int64_t across, int64_t down) {
    if (merges_rows(machine, vectors, across, down)) return across * down;
    const int64_t turns = vectors > 1 ? vectors : across;
    return 2 * turns <= down ? down : turns;
}

class PoolKernel {
public:
    PoolKernel(const PoolShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          machine_(machine),
          tile_x_(static_cast<int>(std::min(point["tile_x"], shape.x.results))),
          tile_y_(static_cast<int>(std::min(point["tile_y"], shape.y.results))),
          vectors_(static_cast<int>(std::min(point["vectors"], shape.vectors()))),
          unroll_(static_cast<int>(std::min(point["unroll"], shape.x.results))),
          rows_(static_cast<int>(rows_of(point))),
          channels_(static_cast<int>(shape.channels)),
          tile_columns_(static_cast<int>(tile_columns(shape, machine, point))),
          tile_rows_(static_cast<int>(tile_rows(shape, machine, point))),
          beside_(static_cast<int>(made_beside(shape, point))),
          below_(static_cast<int>(made_below(shape, point))),
          round_(goes_round(shape, machine, point)),
          framed_(framed(shape, machine, point)),
          looks_again_(looks_again(point)),
          frame_x_(shape.x, tile_x_),
          frame_y_(shape.y, tile_y_) {}

    KernelDefinition run() {
        ImageParam image = tensor("X", {shape_.channels, shape_.x.size, shape_.y.size, shape_.images});
        windows(image);
        in_pads({pixels_, result_});
        whole_loops(out_);
        fix_shape(out_.output_buffer(), {shape_.channels, shape_.x.results, shape_.y.results, shape_.images});
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.add_input("X", image);
        if (weighted()) kernel.add_input("F", weights_);
        if (shape_.bias) kernel.add_input("bias", bias_);
        kernel.outputs = {{"Y", {shape_.channels, shape_.x.results, shape_.y.results, shape_.images}}};
        return kernel;
    }

private:
    void windows(const ImageParam &image) {
        const PoolAxis &ax = shape_.x, &ay = shape_.y;
        define_pixels(image);
        const int sx = static_cast<int>(ax.stride), sy = static_cast<int>(ay.stride);
        const RDom taps(0, static_cast<int>(ax.kernel), 0, static_cast<int>(ay.kernel), "taps");
        Func window("window");
        std::optional<WindowMaxima> maxima;
        // With a frame, places count from the beginning of their tile.
        const std::vector<Var> vars = framed_ ? std::vector<Var>{c, x, y, tx, ty, i} : std::vector<Var>{c, x, y, i};
        const std::vector<Expr> at(vars.begin(), vars.end());
        const auto pixel = [&](const Expr &column, const Expr &row) {
            return framed_ ? pixels_(c, column + frame_x_.first_window(tx), row + frame_y_.first_window(ty), tx, ty, i)
                           : pixels_(c, column, row, i);
        };
        std::vector<SummingFunc> sums;
        Expr value;
        if (takes_columns(shape_)) {
            maxima.emplace(
                vars, shape_, pairs_beside(shape_, machine_), pairs_above(shape_, machine_),
                [&](const Expr &row) { return pixel(x, y * sy + row); }, shape_.kind == Pooling::Max ? larger : sum_with);
            value = maxima->window(at);
        } else if (shape_.kind == Pooling::Max) {
            window(vars) = bf16(-infinity);
            window(vars) = larger(pixel(x * sx + taps.x, y * sy + taps.y), window(at));
            value = window(at);
        } else {
            if (weighted()) define_factors(channels_ % lanes != 0);
            sums = summing_funcs(window, vars, long_sum(ax.kernel, ay.kernel), [&](size_t) {
                return [&](const Expr &column, const Expr &row) {
                    const Expr element = pixel(x * sx + column, y * sy + row);
                    return weighted() ? strict_float(element * factors_(c, row * static_cast<int>(ax.kernel) + column))
                                      : element;
                };
            });
            value = window(at);
            if (shape_.bias) value = strict_float(value + bias_row_(c));
        }
        if (shape_.kind == Pooling::Average)
            value = window_mean(shape_, value, c % lanes, framed_ ? tx * tile_x_ + x : Expr(x),
                                framed_ ? ty * tile_y_ + y : Expr(y));
        result_(vars) = shape_.epilogue.apply(value);
        schedule_output();
        if (maxima) {
            maxima->bound(vars, shared_columns(ax, unroll_), rows_);
            maxima->schedule(LoopLevel(result_, loop_), LoopLevel(result_, inner_));
            return;
        }
        const bool straight = this->taps() <= most_unrolled_taps;
        if (!sums.empty()) return schedule_sums(sums, c, LoopLevel(result_, inner_), straight);
        window.compute_at(result_, inner_).vectorize(c, lanes);
        if (straight) window.update().unroll(taps.x).unroll(taps.y);
        window.update().vectorize(c, lanes);
        in_registers({window});
    }

    // pixels(channel, x, y) of the part of the image that a tile's windows see.
    void define_pixels(const ImageParam &image) {
        const bool narrow = channels_ % lanes != 0;
        const Expr channel = narrow ? min(c, channels_ - 1) : Expr(c);
        if (!padded(shape_) && !framed_) {
            const Expr pixel = image(channel, x, y, i);
            pixels_(c, x, y, i) = narrow ? select(c < channels_, pixel, undef<BFloat>()) : pixel;
            pixels_.bound_extent(x, window_span(shape_.x, tile_x_))
                .bound_extent(y, window_span(shape_.y, tile_y_))
                .bound_storage(x, tile_columns_);
            return;
        }
        const Expr beyond = bf16(shape_.kind == Pooling::Max ? -infinity : weighted() ? 0.0f : -0.0f);
        const auto within = [&](const Expr &px, int width, const Expr &py, int height) {
            return c < channels_ && px >= 0 && px < width && py >= 0 && py < height;
        };
        if (framed_) {
            const int width = frame_x_.elements, height = frame_y_.elements;
            const Expr px = x - frame_x_.before, py = y - frame_y_.before;
            const Expr pixel =
                image(channel, frame_x_.start(tx) + clamp(px, 0, width - 1), frame_y_.start(ty) + clamp(py, 0, height - 1), i);
            pixels_(c, x, y, tx, ty, i) = beyond;
            pixels_(c, x, y, tx, ty, i) = select(within(px, width, py, height), pixel, undef<BFloat>());
            pixels_.bound(x, 0, tile_columns_).bound(y, 0, tile_rows_);
        } else {
            const int width = static_cast<int>(shape_.x.size), height = static_cast<int>(shape_.y.size);
            const Expr px = x - static_cast<int>(shape_.x.padding), py = y - static_cast<int>(shape_.y.padding);
            pixels_(c, x, y, i) = beyond;
            pixels_(c, x, y, i) = select(within(px, width, py, height),
                                         image(channel, clamp(px, 0, width - 1), clamp(py, 0, height - 1), i), undef<BFloat>());
            pixels_.bound_extent(x, tile_columns_)
                .bound_extent(y, window_span(shape_.y, tile_y_))
                .bound_storage(x, tile_columns_);
        }
        pixels_.vectorize(c, lanes);
        if (round_) pixels_.split(x, x, Var("x_unroll"), static_cast<int>(machine_.pad.count));
    }

    bool weighted() const { return shape_.kind == Pooling::Weighted; }
    int64_t taps() const { return shape_.x.kernel * shape_.y.kernel; }

    // Channels innermost: a row of 32 channels for each element of the window, and what is added to them.
    void define_factors(bool narrow) {
        const Expr channel = narrow ? min(c, channels_ - 1) : Expr(c);
        const auto within = [&](const Expr &value) { return narrow ? select(c < channels_, value, undef<BFloat>()) : value; };
        factors_(c, t) = within(weights_(channel, t));
        if (shape_.bias) bias_row_(c) = within(bias_(channel));
    }

    void schedule_output() {
        const int block = lanes * vectors_, blocks = (channels_ + block - 1) / block;
        const int columns = static_cast<int>(shape_.x.results), rows = static_cast<int>(shape_.y.results),
                  images = static_cast<int>(shape_.images);
        // Where what surrounds a tile differs from tile to tile, each has its own code; so have blocks of channels whose last
        // one ends inside a vector.
        const bool tiles_differ = padded(shape_) && !framed_ && (tile_x_ < columns || tile_y_ < rows || blocks > 1);
        const bool fills_differ = tiles_differ || (framed_ && channels_ % lanes != 0 && blocks > 1);
        // The innermost loop around a tile.
        const char *const along_x = tiles_differ                        ? "xo_unroll"
                                    : looks_again_ && tile_x_ < columns ? "xo_unchecked"
                                                                        : "xo",
                          *const along_y = tiles_differ                         ? "yo_unroll"
                                           : looks_again_ && tile_x_ == columns ? "yo_unchecked"
                                                                                : "yo";
        const char *const along_c = fills_differ                                            ? "co_unroll"
                                    : looks_again_ && tile_x_ == columns && tile_y_ == rows ? "co_unchecked"
                                                                                            : "co";
        const Var xo(along_x), xi("xi"), yo(along_y), yi("yi"), co(along_c), ci("ci"), cv("cv"), cl("cl"), xu("x_unroll"),
            yu("y_unroll");
        if (framed_)
            out_(c, x, y, i) = result_(c, x % tile_x_, y % tile_y_, x / tile_x_, y / tile_y_, i);
        else
            out_(c, x, y, i) = result_(c, x, y, i);
        out_.bound(c, 0, channels_).bound(x, 0, columns).bound(y, 0, rows).bound(i, 0, images);
        const bool whole = channels_ % lanes == 0 || blocks == 1;
        out_.split(c, co, ci, blocks == 1 ? channels_ : block, whole ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf)
            .split(x, xo, xi, tile_x_, TailStrategy::ShiftInwards)
            .split(y, yo, yi, tile_y_, TailStrategy::ShiftInwards)
            .reorder(ci, xi, yi, xo, yo, co, i);
        const bool ring =
            machine_.timed() && !fills_differ && (blocks > 1 || images > 1 || tile_x_ < columns || tile_y_ < rows);
        for (Func f : {pixels_, result_}) {
            f.compute_at(out_, xo).bound_extent(c, block);
            if (ring) f.hoist_storage_root().ring_buffer(2);
        }
        if (weighted()) {
            // Those of a block of channels serve all its tiles.
            factors_.compute_at(out_, co).bound_extent(c, block).bound_extent(t, static_cast<int>(taps()));
            in_pads({factors_});
            if (shape_.bias) {
                bias_row_.compute_at(out_, co).bound_extent(c, block);
                in_pads({bias_row_});
            }
        }
        result_.bound_extent(x, beside_).bound_extent(y, below_).split(c, cv, cl, lanes).vectorize(cl);
        // Side by side they share pixels and factors, and the vectors of channels are one loop.
        std::vector<Var> loops = {cv, x, y};
        bool merges = false;
        if (takes_columns(shape_)) {
            const int64_t across = beside_ / unroll_, down = below_ / rows_,
                          turns = innermost_turns(machine_, vectors_, across, down);
            merges = merges_rows(machine_, vectors_, across, down);
            if (turns == down && turns != across)
                loops = {y, cv, x};
            else if (vectors_ == 1)
                loops = {x, cv, y};
        }
        std::vector<VarOrRVar> order = {cl};
        if (unroll_ > 1) {
            result_.split(x, x, xu, unroll_);
            order.emplace_back(xu);
        }
        if (rows_ > 1) {
            result_.split(y, y, yu, rows_);
            order.emplace_back(yu);
        }
        if (merges) {
            const Var xy("xy");
            result_.fuse(x, y, xy);
            loops = {xy, cv};
        }
        loop_ = loops.front();
        inner_ = unroll_ > 1 ? xu : rows_ > 1 ? yu : loop_;
        order.insert(order.end(), loops.begin(), loops.end());
        result_.reorder(order);
        // Which of a pair a window is must be known.
        if (pairs_beside(shape_, machine_)) result_.unroll(xu);
    }

    const PoolShape &shape_;
    const Machine &machine_;
    int tile_x_, tile_y_, vectors_, unroll_, rows_, channels_;
    int tile_columns_, tile_rows_;  // of pixels
    int beside_, below_;            // results that are made
    bool round_, framed_;           // pixels go round the pads; tiles have a frame
    bool looks_again_;              // for NaN, where the array has found that there are some
    const PoolFrame frame_x_, frame_y_;
    Var c{"c"}, x{"x"}, y{"y"}, tx{"tx"}, ty{"ty"}, i{"i"}, l{"l"}, t{"t"};
    Var inner_{"cv"}, loop_{"cv"};  // around a window, and around all in straight-line code
    Func pixels_{"pixels"}, result_{"result"}, factors_{"factors"}, bias_row_{"bias_row"}, out_{"Y"};
    ImageParam weights_ = tensor("F", {shape_.channels, taps()}), bias_ = tensor("bias", {shape_.channels});
};

int64_t pixels_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    return tile_columns(shape, machine, point) * tile_rows(shape, machine, point);
}

// Do the pixels and the results of a tile fit the pads? `round`: pixels go round the pads.
bool tile_fits(const PoolShape &shape, const Machine &machine, const Point &point, bool round) {
    const bool whole = point["tile_x"] == shape.x.results && point["tile_y"] == shape.y.results;
    const bool alike = !padded(shape) || !machine.timed() || shape.channels % lanes == 0 || point["vectors"] >= shape.vectors();
    const int64_t slots =
        machine.timed() && alike && (!whole || shape.images > 1 || shape.vectors() > point["vectors"]) ? 2 : 1;
    const int64_t tile = made_beside(shape, point) * made_below(shape, point) * point["vectors"];
    std::vector<PadUse> uses = {{slots * pixels_of(shape, machine, point) * point["vectors"], round},
                                {slots * tile, point["vectors"] == 1 && point["unroll"] % machine.pad.count == 0}};
    if (shape.kind == Pooling::Average && !uniform(shape.x, shape.count_include_pad))
        uses.push_back({std::max(shape.x.results, made_beside(shape, point)), false});
    if (shape.kind == Pooling::Average && !uniform(shape.y, shape.count_include_pad))
        uses.push_back({std::max(shape.y.results, made_below(shape, point)), false});
    if (shape.kind == Pooling::Weighted)
        uses.push_back({(shape.x.kernel * shape.y.kernel + shape.bias) * point["vectors"], false});
    return fit_pads(machine, uses);
}

// Lane operations of the results in straight-line code, shared by two units, each of which lets NaN through. Sums have one
// alone.
int64_t operations_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    const int64_t of_step = shape.kind == Pooling::Max ? 4 : 2;
    const int64_t unroll = point["unroll"], rows = rows_of(point);
    if (!takes_columns(shape)) return window_operations(shape, unroll);
    return of_step * (shared_columns(shape.x, unroll) * steps_of_pairs(shape.y, pairs_above(shape, machine), rows) +
                      rows * steps_of_pairs(shape.x, pairs_beside(shape, machine), unroll));
}

// May NaN be looked for by the array first?
bool finds_nan_later(const PoolShape &shape, const Machine &machine) { return machine.timed() && shape.kind == Pooling::Max; }

Point single_results(const PoolShape &shape, const Machine &machine) {
    const bool pairs = pairs_above(shape, machine);
    const int64_t columns = pairs_beside(shape, machine) ? 2 : 1, rows = pairs ? 2 : 1;
    const auto tile = [](const PoolAxis &axis, int64_t straight) {
        return axis.results % straight == 0 ? straight : axis.results;
    };
    Point point = {{"tile_x", tile(shape.x, columns)}, {"tile_y", tile(shape.y, rows)}, {"vectors", 1}, {"unroll", columns}};
    if (pairs) point.set("rows", rows);
    if (finds_nan_later(shape, machine)) point.set("second_look", 0);
    return point;
}

Space space_of(const PoolShape &shape, const Machine &machine) {
    // Those of images with frames divide the results.
    const auto tiles = [&](int64_t results) {
        std::vector<int64_t> values;
        for (int64_t parts = 1; parts <= results; parts = framed(shape, machine) || parts < 4 ? parts + 1 : parts * 2)
            if (const int64_t tile = ceil_div(results, parts);
                (values.empty() || values.back() != tile) && (!framed(shape, machine) || results % tile == 0))
                values.push_back(tile);
        if (values.back() != 1) values.push_back(1);
        return values;
    };
    std::vector<int64_t> vectors = {1};
    if (shape.vectors() > 1) vectors.push_back(shape.vectors() % 2 == 0 ? 2 : shape.vectors());
    if (shape.vectors() > vectors.back()) vectors.push_back(shape.vectors());
    constexpr int64_t most_unrolled = 8, most_code = 160, most_code_unchecked = 250;
    const bool beside = pairs_beside(shape, machine), pairs = pairs_above(shape, machine);
    const auto straight = [&](bool in_pairs, int64_t most, int64_t results) {
        std::vector<int64_t> values;
        const int64_t step = in_pairs ? 2 : 1;
        for (int64_t n = step; n <= std::min(most, round_up(results, step)); n += step) values.push_back(n);
        return values;
    };
    const std::vector<int64_t> unrolls = straight(beside, beside ? 2 * most_unrolled : most_unrolled, shape.x.results);
    Space space;
    space.parameter("tile_x", "results along x in the pads at a time", tiles(shape.x.results))
        .parameter("tile_y", "results along y in the pads at a time", tiles(shape.y.results))
        .parameter("vectors", "vectors of channels in the pads at a time", vectors)
        .parameter("unroll", "results in straight-line code", unrolls);
    if (pairs) {
        space.parameter("rows", "results below each other in straight-line code",
                        straight(true, most_unrolled, shape.y.results));
        space.constraint("whole rows", {"tile_y"}, "Tiles divide the results.",
                         [=](const Point &point) { return shape.y.results % point["tile_y"] == 0; });
    }
    if (beside)
        space.constraint("whole columns", {"tile_x"}, "Tiles divide the results.",
                         [=](const Point &point) { return shape.x.results % point["tile_x"] == 0; });
    if (finds_nan_later(shape, machine)) {
        space.parameter("second_look", "NaN are passed over, and looked for where the array has found that there are some",
                        {0, 1});
        space.constraint("second look", {"second_look", "tile_x", "tile_y", "vectors"}, "Several tiles are alike.",
                         [=](const Point &point) {
                             const bool blocks_alike = shape.channels % lanes == 0 && point["vectors"] < shape.vectors();
                             return point["second_look"] == 0 || point["tile_x"] < shape.x.results ||
                                    point["tile_y"] < shape.y.results || blocks_alike;
                         });
    }
    std::vector<std::string> of_tile = {"tile_x", "tile_y", "vectors", "unroll"};
    if (pairs) of_tile.emplace_back("rows");
    space.constraint(
        "whole unrolls", of_tile,
        "The results in straight-line code divide those of a tile; of whole rows and columns some more may be made.",
        [=](const Point &point) {
            if (!makes_more(shape, point)) return true;
            const auto fills = [](int64_t made, int64_t tile, const PoolAxis &axis) {
                return axis.results % tile == 0 && (made == tile || tile == axis.results);
            };
            const bool pays =
                beside || made_beside(shape, point) == point["tile_x"] || steps_over_rounds(shape, machine, point);
            return machine.timed() && takes_columns(shape) && pays &&
                   fills(made_beside(shape, point), point["tile_x"], shape.x) &&
                   fills(made_below(shape, point), point["tile_y"], shape.y);
        });
    std::vector<std::string> of_code = {"unroll"};
    if (pairs) of_code.emplace_back("rows");
    if (finds_nan_later(shape, machine)) of_code.emplace_back("second_look");
    space.constraint("code", of_code, "Straight-line code fits the instruction cache.", [=](const Point &point) {
        return point["unroll"] * rows_of(point) == (beside ? 2 : 1) * (pairs ? 2 : 1) ||
               operations_of(shape, machine, point) <= (looks_again(point) ? most_code_unchecked : most_code);
    });
    space.constraint(
        "framed tiles", {"tile_x", "tile_y", "vectors"},
        "Tiles that the border of the image surrounds differently have code of their own, and it fits.",
        [=](const Point &point) {
            const bool narrow = shape.channels % lanes != 0;
            const int64_t tiles = framed(shape, machine)
                                      ? 1
                                      : ceil_div(shape.x.results, point["tile_x"]) * ceil_div(shape.y.results, point["tile_y"]);
            constexpr int64_t most = 6, most_untimed = 36;
            return !padded(shape) || tiles * (tiles > 1 || narrow ? ceil_div(shape.vectors(), point["vectors"]) : 1) <=
                                         (machine.timed() ? most : most_untimed);
        });
    space.constraint("pads", of_tile, "The pixels and the results of a tile fit the pads.",
                     [=](const Point &point) { return tile_fits(shape, machine, point, goes_round(shape, machine, point)); });
    return space;
}

Point naive_point_of(const PoolShape &shape, const Machine &machine) {
    // The largest tile of single vectors that is sure to fit; where none is, single results.
    Point best = single_results(shape, machine);
    const Space space = space_of(shape, machine);
    int64_t most = 0;
    for_each(space, [&](const Point &point) {
        const int64_t size = point["tile_x"] * point["tile_y"];
        // A tile that is filled goes round the pads in optimized code alone.
        if (point["vectors"] == 1 && point["unroll"] == best["unroll"] && !looks_again(point) && size > most &&
            (!padded(shape) || tile_fits(shape, machine, point, false))) {
            most = size;
            best = point;
        }
        return true;
    });
    return best;
}

// Single results, or pairs, fit most pads, which spares a search.
bool takes(const PoolShape &shape, const Machine &machine) {
    if (shape.planes_outermost) return false;
    const Space space = space_of(shape, machine);
    return violation(space, single_results(shape, machine)).empty() || count(space, 1) > 0;
}

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Windows at the pace of their lanes, two units side by side; results in straight-line code overlap, but for the last ones
    // of a row. The first tile comes and the last one leaves at half the rate of the bus while nothing else runs.
    constexpr double latency = 80, start = 1500, around_loop = 60, around_tile = 120, half_rate = 2, vector_beats = 2;
    const int64_t columns = made_beside(shape, point) / point["unroll"], below = made_below(shape, point) / rows_of(point);
    const auto straight = static_cast<double>(point["unroll"] * rows_of(point)),
               tile = static_cast<double>(made_beside(shape, point) * made_below(shape, point) * point["vectors"]),
               lane = static_cast<double>(machine.vec.ii) / 2;
    const double tiles = static_cast<double>(shape.images * shape.x.results * shape.y.results * shape.vectors()) /
                         static_cast<double>(point["tile_x"] * point["tile_y"] * point["vectors"]),
                 results = tiles * tile;
    double compute = static_cast<double>(operations_of(shape, machine, point)) * lane;
    const int64_t pixels = shared_columns(shape.x, point["unroll"]) * shared_columns(shape.y, rows_of(point));
    if (looks_again(point)) {
        // Half the operations, beside all pixels as tiles of weights.
        constexpr double around_weights = 33;
        compute = std::max(compute / 2, static_cast<double>(tiles_of(pixels)) * (lanes + around_weights));
    }
    // Pixels that do not go round the pads come from one.
    if (machine.timed() && takes_columns(shape) && !goes_round(shape, machine, point))
        compute = std::max(compute, static_cast<double>(pixels * machine.pad.read_ii));
    const int64_t innermost = takes_columns(shape) ? innermost_turns(machine, point["vectors"], columns, below) : columns;
    const double loops = tiles * static_cast<double>(columns * below * point["vectors"]) / static_cast<double>(innermost);
    // Transfers run beside the loops, but not all of them: a tile's results leave behind it. One pad brings pixels more slowly.
    const double beats = vector_beats * (static_cast<double>(pixels_of(shape, machine, point) * point["vectors"]) + tile);
    const double beside = shape.kind != Pooling::Max || !takes_columns(shape)
                              ? 0
                              : (innermost == columns ? 0.1 : 0.35) * (goes_round(shape, machine, point) ? 1 : 3);
    const double transfers = half_rate * beats + tiles * beside * beats;
    return start + results / straight * compute + loops * (around_loop + compute) + results * (straight > 1 ? 0 : latency) +
           tiles * around_tile + (machine.timed() ? transfers : 0);
}

}  // namespace

const PoolForm channel_pool = {
    takes, space_of, naive_point_of, draft_of,
    [](const PoolShape &shape, const Machine &machine, const Point &point) { return PoolKernel(shape, machine, point).run(); }};

}  // namespace atalla
