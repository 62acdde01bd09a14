// Windows over images in PyTorch's layout: the array turns 32 planes so that lanes are planes, and turns their results back.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "generators/pad_room.h"
#include "generators/pool.h"
#include "generators/vocabulary.h"
#include "generators/window_maxima.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

int size(int64_t n) { return static_cast<int>(n); }

bool padded(const PoolShape &shape) { return reaches_out(shape.x) || reaches_out(shape.y); }

// Places of a row of the image with its padding, as they go round the pads.
int64_t frame_columns(const PoolShape &shape, const Machine &machine) {
    int64_t seen = shape.x.size + shape.x.padding;
    for (const PoolPhase &phase : pool_phases(shape.x)) seen = std::max(seen, phase.start + (phase.count - 1) * phase.stride + phase.kernel);
    return round_up(seen, machine.pad.count);
}
int64_t frame_rows(const PoolShape &shape) {
    int64_t seen = shape.y.size + shape.y.padding;
    for (const PoolPhase &phase : pool_phases(shape.y)) seen = std::max(seen, phase.start + (phase.count - 1) * phase.stride + phase.kernel);
    return seen;
}

// The vectors that every part of the pipeline works on.
struct Names {
    Var k{"k"}, w{"w"}, l{"l"}, i{"i"}, t{"t"}, b{"b"}, x{"x"}, y{"y"};
    RDom q{0, lanes, "q"};
    Func identity{"identity"};
};

// 32 x 32 elements as weights, and the rows of the identity through them: from(k, w, t, b) becomes turned(w, k, t, b).
class Turn {
public:
    Turn(const Names &names, const std::string &name, const Func &from) : names_(names), weights_(name + "_weights"), part_(name + "_part"), turned(name) {
        const Var &k = names.k, &w = names.w, &l = names.l, &i = names.i, &t = names.t, &b = names.b;
        weights_(k, w, t, b) = from(k, w, t, b);
        part_(l, i, t, b) = 0.0f;
        part_(l, i, t, b) += f32(names.identity(names.q, i)) * f32(weights_(names.q, l, t, b));
        turned(l, i, t, b) = bf16(part_(l, i, t, b));
    }
    // Whole, for each iteration of `at`: so many tiles, `unroll` of their rows in straight-line code.
    void schedule(const LoopLevel &at, int64_t tiles, int unroll) {
        const Var &k = names_.k, &w = names_.w, &l = names_.l, &i = names_.i, &t = names_.t, iu("i_unroll");
        turned.compute_at(at).vectorize(l, lanes).bound_extent(l, lanes).bound_extent(i, lanes).bound_extent(t, size(tiles));
        weights_.compute_at(turned, t).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        if (unroll > 1) {
            weights_.split(w, w, Var("w_unroll"), unroll);
            turned.split(i, i, iu, unroll);
        }
        part_.compute_at(turned, unroll > 1 ? iu : i).vectorize(l, lanes).update().reorder(names_.q, l).atomic().vectorize(l, lanes).vectorize(names_.q, lanes);
        in_registers({weights_, part_});
        in_pads({turned});
    }

private:
    const Names &names_;
    Func weights_, part_;

public:
    Func turned;
};

class PlanePool {
public:
    PlanePool(const PoolShape &shape, const Machine &machine, const Point &point)
        : shape_(shape), machine_(machine), unroll_(size(point["unroll"])), first_column_(size(point["first_column"])), weight_unroll_(size(point["weight_unroll"])), planes_(size(shape.images * shape.channels)), channels_(size(shape.channels)),
          taps_(size(shape.x.kernel * shape.y.kernel)), width_(size(shape.x.size)), pixels_(width_ * size(shape.y.size)), columns_(size(shape.x.results)),
          places_(columns_ * size(shape.y.results)), row_tiles_(tiles_of(width_)), tile_(ceil_div(width_, row_tiles_)) {}

    KernelDefinition run() {
        v_.identity(v_.k, v_.i) = select(v_.k == v_.i, bf16(1.0f), bf16(0.0f));
        define_image();
        if (weighted()) define_factors();
        define_windows();
        define_back();
        schedule();
        return kernel();
    }

private:
    struct Windows {
        Func window;
        RDom taps, places;
        int64_t columns;
        std::optional<WindowMaxima> maxima;
    };

    bool weighted() const { return shape_.kind == Pooling::Weighted; }

    // framed(plane, x, y) from raw(x, plane): the array turns parts of the rows, and the padding is around them.
    void define_image() {
        // The last part of a row may share pixels with the one before.
        const auto start = [&](const Expr &part) { return row_tiles_ * tile_ == width_ ? part * tile_ : min(part * tile_, width_ - tile_); };
        const Expr plane = v_.b * lanes + v_.w, pixel = v_.y * width_ + start(v_.t);
        if (tile_ == lanes && planes_ % lanes == 0) {
            raw_(v_.k, v_.w, v_.t, v_.y, v_.b) = image_(pixel + v_.k, plane);
        } else {
            raw_(v_.k, v_.w, v_.t, v_.y, v_.b) = bf16(0.0f);
            raw_(v_.k, v_.w, v_.t, v_.y, v_.b) = select(v_.k < tile_ && plane < planes_, image_(pixel + min(v_.k, tile_ - 1), min(plane, planes_ - 1)), undef<BFloat>());
        }
        raw_weights_(v_.k, v_.w, v_.t, v_.y, v_.b) = raw_(v_.k, v_.w, v_.t, v_.y, v_.b);
        part_(v_.l, v_.i, v_.t, v_.y, v_.b) = 0.0f;
        part_(v_.l, v_.i, v_.t, v_.y, v_.b) += f32(v_.identity(v_.q, v_.i)) * f32(raw_weights_(v_.q, v_.l, v_.t, v_.y, v_.b));
        framed_(v_.l, v_.x, v_.y, v_.b) = !padded(shape_) ? undef<BFloat>() : bf16(shape_.kind == Pooling::Max ? -infinity : shape_.kind == Pooling::Average ? -0.0f : 0.0f);
        framed_(v_.l, start(inside_.y) + inside_.x + size(shape_.x.padding), inside_.z + size(shape_.y.padding), v_.b) = bf16(part_(v_.l, inside_.x, inside_.y, inside_.z, v_.b));
    }

    // The channel of a lane of a block of planes.
    Expr channel(const Expr &lane) const { return (shape_.images > 1 ? Expr(v_.b % size(shape_.vectors())) : Expr(v_.b)) * lanes + lane; }

    // factors(plane, tap), and what is added to the planes.
    void define_factors() {
        const Expr tap = v_.t * lanes + v_.k, own = channel(v_.w), lane = channel(v_.l);
        raw_factors_(v_.k, v_.w, v_.t, v_.b) = bf16(0.0f);
        raw_factors_(v_.k, v_.w, v_.t, v_.b) = select(tap < taps_ && own < channels_, weights_(min(tap, taps_ - 1), min(own, channels_ - 1)), undef<BFloat>());
        factors_.emplace(v_, "factors", raw_factors_);
        if (shape_.bias) bias_row_(v_.l, v_.b) = channels_ % lanes == 0 ? Expr(bias_(lane)) : select(lane < channels_, bias_(min(lane, channels_ - 1)), undef<BFloat>());
    }

    void define_windows() {
        results_(v_.l, p_, v_.b) = bf16(0.0f);
        for (const PoolPhase &py : pool_phases(shape_.y))
            for (const PoolPhase &px : pool_phases(shape_.x)) define_windows(px, py);
    }

    void define_windows(const PoolPhase &px, const PoolPhase &py) {
        const size_t number = windows_.size();
        Windows w{Func(fmt::format("window{}", number)), RDom(0, size(px.kernel), 0, size(py.kernel), fmt::format("taps{}", number)),
                  RDom(0, size(px.count), 0, size(py.count), fmt::format("places{}", number)), px.count, {}};
        Func window = w.window;
        const Var &l = v_.l, &x = v_.x, &y = v_.y, &b = v_.b;
        const Expr element = framed_(l, x * size(px.stride) + size(px.start) + w.taps.x, y * size(py.stride) + size(py.start) + w.taps.y, b);
        if (takes_columns(shape_)) {
            w.maxima.emplace(std::to_string(number), std::vector<Var>{l, x, y, b}, size(px.kernel), size(py.kernel), size(px.stride), size(px.start), first_column_,
                             [&](const Expr &row) { return framed_(l, x, y * size(py.stride) + size(py.start) + row, b); });
            window = w.window = w.maxima->window;
        } else if (shape_.kind == Pooling::Max) {
            window(l, x, y, b) = bf16(-infinity);
            window(l, x, y, b) = larger(element, window(l, x, y, b));
        } else {
            const Expr tap = w.taps.y * size(shape_.x.kernel) + w.taps.x;
            window(l, x, y, b) = bf16(-0.0f);
            window(l, x, y, b) = strict_float(window(l, x, y, b) + (weighted() ? strict_float(element * factors_->turned(l, tap % lanes, tap / lanes, b)) : element));
        }
        const Expr column = w.places.x * size(px.step) + size(px.first), row = w.places.y * size(py.step) + size(py.first);
        results_(l, row * columns_ + column, b) = result_of(window(l, w.places.x, w.places.y, b), px.kernel * py.kernel, column, row);
        windows_.push_back(w);
    }

    // Of a window's sum or maximum. Windows of different sizes: those of a phase have the same.
    Expr result_of(const Expr &value, int64_t elements, const Expr &column, const Expr &row) {
        if (shape_.kind == Pooling::Max) return value;
        if (weighted()) return shape_.bias ? strict_float(value + bias_row_(v_.l, v_.b)) : value;
        if (shape_.x.adaptive || shape_.y.adaptive) return strict_float(value * bf16(static_cast<float>(1 / static_cast<double>(elements))));
        return window_mean(shape_, value, v_.l, column, row);
    }

    void define_back() {
        Func tiles("tiles");
        tiles(v_.k, v_.w, v_.t, v_.b) = results_(v_.k, v_.t * lanes + v_.w, v_.b);
        finished_.emplace(v_, "finished", tiles);
        const bool one_block = planes_ <= lanes;
        out_(p_, c_) = finished_->turned(p_ % lanes, one_block ? Expr(c_) : c_ % lanes, p_ / lanes, one_block ? Expr(0) : c_ / lanes);
    }

    void schedule() {
        const Var pl("pl"), pt("pt"), co("co"), ci("ci");
        out_.bound(p_, 0, places_).bound(c_, 0, planes_);
        out_.split(p_, pt, pl, lanes, TailStrategy::GuardWithIf).split(c_, co, ci, std::min(lanes, planes_), TailStrategy::GuardWithIf).reorder(pl, ci, pt, co);
        whole_loops(out_);
        fix_shape(out_.output_buffer(), {places_, planes_});
        const LoopLevel at(out_, co);
        v_.identity.compute_root().bound(v_.k, 0, lanes).bound(v_.i, 0, lanes).vectorize(v_.k, lanes);
        schedule_image(at);
        if (weighted()) {
            raw_factors_.compute_at(factors_->turned, v_.t).vectorize(v_.k, lanes).bound_extent(v_.k, lanes).bound_extent(v_.w, lanes);
            factors_->schedule(at, tiles_of(taps_), weight_unroll_);
            in_pads({raw_factors_});
            if (shape_.bias) {
                bias_row_.compute_at(at).bound_extent(v_.l, lanes);
                in_pads({bias_row_});
            }
        }
        results_.compute_at(at).vectorize(v_.l, lanes).bound_extent(v_.l, lanes).bound_extent(p_, lanes * tiles_of(places_)).split(p_, p_, Var("p_unroll"), pads());
        for (size_t i = 0; i < windows_.size(); i++) schedule_windows(windows_[i], static_cast<int>(i));
        finished_->schedule(LoopLevel(out_, pt), 1, weight_unroll_);
        if (places_ > lanes) two_slots(finished_->turned);
        in_pads({v_.identity, results_});
    }

    int pads() const { return size(machine_.pad.count); }
    // Where transfers take time, the next one runs beside what the array does.
    void two_slots(Func f) const {
        if (machine_.timed()) f.hoist_storage_root().ring_buffer(2);
    }

    void schedule_image(const LoopLevel &at) {
        const RVar at_part = row_tiles_ > 1 ? inside_.y : inside_.z;
        raw_.compute_at(framed_, at_part).vectorize(v_.k, lanes).bound_extent(v_.k, lanes).bound_extent(v_.w, lanes);
        // What surrounds the last planes differs.
        if (planes_ % lanes == 0 && width_ * size(shape_.y.size) > tile_) two_slots(raw_);
        raw_weights_.compute_at(framed_, at_part).vectorize(v_.k, lanes).bound_extent(v_.k, lanes).bound_extent(v_.w, lanes);
        if (weight_unroll_ > 1) raw_weights_.split(v_.w, v_.w, Var("w_unroll"), weight_unroll_);
        part_.compute_at(framed_, inside_.x).vectorize(v_.l, lanes).update().reorder(v_.q, v_.l).atomic().vectorize(v_.l, lanes).vectorize(v_.q, lanes);
        // Rows of the frame go round the pads.
        framed_.compute_at(at).vectorize(v_.l, lanes).bound_extent(v_.l, lanes).bound_extent(v_.x, size(frame_columns(shape_, machine_)));
        if (padded(shape_)) framed_.split(v_.x, v_.x, Var("x_unroll"), pads());
        framed_.update().reorder(v_.l, inside_.x, inside_.y, inside_.z).vectorize(v_.l, lanes).unroll(inside_.x);
        in_registers({raw_weights_, part_});
        in_pads({raw_, framed_});
    }

    void schedule_windows(Windows &w, int number) {
        Stage update = results_.update(number);
        update.reorder(v_.l, w.places.x, w.places.y).vectorize(v_.l, lanes);
        const RVar ro("ro"), unrolled(fmt::format("r{}_unroll", number));
        const bool unrolls = unroll_ > 1 && w.columns % unroll_ == 0;
        if (unrolls) update.split(w.places.x, ro, unrolled, unroll_);
        const LoopLevel one_window(results_, unrolls ? unrolled : w.places.x);
        if (w.maxima) {
            w.maxima->schedule(LoopLevel(results_, unrolls ? ro : w.places.x), one_window);
            return;
        }
        w.window.compute_at(one_window).vectorize(v_.l, lanes).bound_extent(v_.l, lanes);
        w.window.update().reorder(v_.l, w.taps.x, w.taps.y).vectorize(v_.l, lanes);
        if (windows_.size() == 1 && taps_ <= most_unrolled_taps) w.window.update().unroll(w.taps.x).unroll(w.taps.y);
        in_registers({w.window});
    }

    KernelDefinition kernel() const {
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.arguments = {image_};
        kernel.inputs = {{"X", {pixels_, planes_}}};
        if (weighted()) {
            kernel.arguments.push_back(weights_);
            kernel.inputs.push_back({"F", {taps_, channels_}});
        }
        if (shape_.bias) {
            kernel.arguments.push_back(bias_);
            kernel.inputs.push_back({"bias", {channels_}});
        }
        kernel.outputs = {{"Y", {places_, planes_}}};
        return kernel;
    }

    const PoolShape &shape_;
    const Machine &machine_;
    int unroll_, first_column_, weight_unroll_, planes_, channels_, taps_, width_, pixels_, columns_, places_;
    int row_tiles_, tile_;   // parts of a row that are turned at once, and their pixels
    Names v_;
    Var p_{"p"}, c_{"c"};
    ImageParam image_ = tensor("X", {pixels_, planes_}), weights_ = tensor("F", {taps_, channels_}), bias_ = tensor("bias", {channels_});
    Func raw_{"raw"}, raw_weights_{"raw_weights"}, part_{"part"}, framed_{"framed"}, raw_factors_{"raw_factors"}, bias_row_{"bias_row"}, results_{"results"}, out_{"Y"};
    std::optional<Turn> factors_, finished_;
    RDom inside_{0, tile_, 0, row_tiles_, 0, size(shape_.y.size), "inside"};
    std::vector<Windows> windows_;
};

}  // namespace

namespace {

// So many results in straight-line code keep to known pads: the frame and the results then go round all of them.
bool goes_round(const PoolShape &shape, const Machine &machine, int64_t unroll) {
    const int64_t pads = machine.pad.count;
    return pool_phases(shape.x).size() == 1 && unroll % pads == 0 && shape.x.results % unroll == 0;
}

bool planes_fit(const PoolShape &shape, const Machine &machine, int64_t unroll) {
    const bool round = goes_round(shape, machine, unroll) && shape.x.size % ceil_div(shape.x.size, int64_t{lanes}) == 0, places_round = goes_round(shape, machine, unroll);
    const int64_t places = round_up(shape.x.results * shape.y.results, lanes), slots = machine.timed() ? 2 : 1;
    std::vector<PadUse> uses = {{frame_columns(shape, machine) * frame_rows(shape), round}, {places, places_round}, {slots * lanes, false}, {slots * lanes, false},
                                {lanes, false}, {shape.x.results, false}, {shape.y.results, false}};
    if (shape.kind == Pooling::Weighted) uses.insert(uses.end(), {{round_up(shape.x.kernel * shape.y.kernel, lanes), false}, {lanes, false}, {1, false}});
    return fit_pads(machine, uses);
}

std::vector<int64_t> unrolls_of(const PoolShape &shape) {
    constexpr int64_t most_unrolled = 8, most_code = 160;
    const int64_t columns = pool_phases(shape.x).front().count;
    std::vector<int64_t> unrolls;
    for (int64_t unroll = 1; unroll <= std::min(most_unrolled, columns); unroll++)
        if (columns % unroll == 0 && (unroll <= 4 || window_operations(shape, unroll) <= most_code)) unrolls.push_back(unroll);
    return unrolls;
}

}  // namespace

Space plane_pool_space(const PoolShape &shape, const Machine &machine) {
    Space space;
    std::vector<int64_t> first_columns = {0};
    if (const int64_t own = takes_columns(shape) && pool_phases(shape.x).size() == 1 ? own_column(shape.x) : 0; own > 0) first_columns = {own, 0};
    space.parameter("unroll", "results in straight-line code", unrolls_of(shape)).parameter("weight_unroll", "vectors of a turned block in straight-line code", {1, 4, 8, 16, 32})
        .choice("first_column", "column of a window that its maximum starts from: one that windows beside it do not have, or the first", first_columns);
    space.constraint("pads", {"unroll"}, "32 planes of the image, framed by the padding, and their results fit the pads.",
                     [=](const Point &point) { return planes_fit(shape, machine, point["unroll"]); });
    return space;
}

Point plane_pool_naive_point(const PoolShape &shape, const Machine &machine) {
    Point point = {{"unroll", 1}, {"weight_unroll", machine.pad.count}, {"first_column", 0}};
    for (int64_t unroll : unrolls_of(shape)) {
        point.set("unroll", unroll);
        if (planes_fit(shape, machine, unroll)) return point;
    }
    point.set("unroll", 1);
    return point;
}

bool planes_fit(const PoolShape &shape, const Machine &machine) {
    return planes_fit(shape, machine, plane_pool_naive_point(shape, machine)["unroll"]);
}

double plane_pool_draft(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Windows at the pace of their lanes, or of their latency where few run side by side; both turns and the frame by their rows.
    constexpr double latency = 60, turn_row = 8, load = 40, start = 1500;
    const auto blocks = static_cast<double>(tiles_of(shape.images * shape.channels)), pixels = static_cast<double>(shape.x.size * shape.y.size),
               places = static_cast<double>(shape.x.results * shape.y.results), unroll = static_cast<double>(point["unroll"]);
    const double window = static_cast<double>(shape.x.kernel * shape.y.kernel * machine.vec.ii);
    const double turn = (pixels + places) * (turn_row + load / static_cast<double>(point["weight_unroll"]));
    const double in_one_pad = goes_round(shape, machine, point["unroll"]) ? 1 : 2;
    return start + blocks * (places * (window * in_one_pad + latency / unroll) + turn);
}

KernelDefinition plane_pool_kernel(const PoolShape &shape, const Machine &machine, const Point &point) { return PlanePool(shape, machine, point).run(); }

}  // namespace atalla
