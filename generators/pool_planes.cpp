// Pooling of images in PyTorch's layout: the array turns 32 planes so that lanes are planes, and turns their results back.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "generators/pad_room.h"
#include "generators/pool.h"
#include "generators/vocabulary.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

constexpr int lanes = 32;
constexpr float infinity = std::numeric_limits<float>::infinity();

int64_t tiles_of(int64_t n) { return (n + lanes - 1) / lanes; }

class PlanePool {
public:
    PlanePool(const PoolShape &shape, const Machine &machine, const Point &point)
        : shape_(shape), machine_(machine), unroll_(static_cast<int>(point["unroll"])), weight_unroll_(static_cast<int>(point["weight_unroll"])),
          planes_(static_cast<int>(shape.images * shape.channels)), width_(static_cast<int>(shape.x.size)), height_(static_cast<int>(shape.y.size)),
          columns_(static_cast<int>(shape.x.results)), rows_(static_cast<int>(shape.y.results)), places_(columns_ * rows_), pixels_(width_ * height_) {}

    KernelDefinition run() {
        ImageParam image = tensor("X", {shape_.x.size * shape_.y.size, shape_.images * shape_.channels});
        identity(k, i) = select(k == i, bf16(1.0f), bf16(0.0f));
        define_turned(image);
        define_windows();
        define_back();
        schedule();
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out);
        kernel.arguments = {image};
        kernel.inputs = {{"X", {shape_.x.size * shape_.y.size, shape_.images * shape_.channels}}};
        kernel.outputs = {{"Y", {places_, planes_}}};
        return kernel;
    }

private:
    struct Windows {
        Func window;
        RDom taps, places;
        int64_t columns;
    };

    bool padded() const { return reaches_out(shape_.x) || reaches_out(shape_.y); }

    // turned(plane, pixel) from raw(pixel, plane).
    void define_turned(const ImageParam &image) {
        const Expr pixel = t * lanes + k, plane = b * lanes + w;
        raw(k, w, t, b) = bf16(0.0f);
        raw(k, w, t, b) = select(pixel < pixels_ && plane < planes_, image(min(pixel, pixels_ - 1), min(plane, planes_ - 1)), undef<BFloat>());
        in_weights(k, w, t, b) = raw(k, w, t, b);
        in_part(l, i, t, b) = 0.0f;
        in_part(l, i, t, b) += f32(identity(q, i)) * f32(in_weights(q, l, t, b));
        turned(l, i, t, b) = bf16(in_part(l, i, t, b));
        const Expr at = y * width_ + x;
        if (!padded()) return;
        const float beyond = shape_.kind == Pooling::Max ? -infinity : -0.0f;
        framed(l, x, y, b) = bf16(beyond);
        const RDom inside(0, width_, 0, height_, "inside");
        inside_ = inside;
        const Expr from = inside.y * width_ + inside.x;
        framed(l, inside.x + static_cast<int>(shape_.x.padding), inside.y + static_cast<int>(shape_.y.padding), b) = turned(l, from % lanes, from / lanes, b);
    }

    Expr pixel(const Expr &px, const Expr &py) {
        if (padded()) return framed(l, px, py, b);
        const Expr at = py * width_ + px;
        return turned(l, at % lanes, at / lanes, b);
    }

    void define_windows() {
        results(l, p, b) = bf16(0.0f);
        for (const PoolPhase &py : pool_phases(shape_.y))
            for (const PoolPhase &px : pool_phases(shape_.x)) define_windows(px, py);
    }

    void define_windows(const PoolPhase &px, const PoolPhase &py) {
        const auto size = [](int64_t n) { return static_cast<int>(n); };
        const size_t number = windows.size();
        Windows w{Func(fmt::format("window{}", number)), RDom(0, size(px.kernel), 0, size(py.kernel), fmt::format("taps{}", number)),
                  RDom(0, size(px.count), 0, size(py.count), fmt::format("places{}", number)), px.count};
        Func window = w.window;
        const Expr element = pixel(x * size(px.stride) + size(px.start) + w.taps.x, y * size(py.stride) + size(py.start) + w.taps.y);
        if (shape_.kind == Pooling::Max) {
            window(l, x, y, b) = bf16(-infinity);
            window(l, x, y, b) = select(strict_float(element != element), element, strict_float(max(element, window(l, x, y, b))));
        } else {
            window(l, x, y, b) = bf16(-0.0f);
            window(l, x, y, b) = strict_float(window(l, x, y, b) + element);
        }
        const Expr column = w.places.x * size(px.step) + size(px.first), row = w.places.y * size(py.step) + size(py.first), value = window(l, w.places.x, w.places.y, b);
        // Windows of different sizes: those of a phase have the same.
        const auto share = [&] { return bf16(static_cast<float>(1 / static_cast<double>(px.kernel * py.kernel))); };
        results(l, row * columns_ + column, b) = shape_.kind == Pooling::Max                ? value
                                                 : shape_.x.adaptive || shape_.y.adaptive ? strict_float(value * share())
                                                                                          : window_mean(shape_, value, l, column, row);
        windows.push_back(w);
    }

    void define_back() {
        out_weights(k, w, t, b) = results(k, t * lanes + w, b);
        out_part(l, i, t, b) = 0.0f;
        out_part(l, i, t, b) += f32(identity(q, i)) * f32(out_weights(q, l, t, b));
        finished(l, i, t, b) = bf16(out_part(l, i, t, b));
        out(p, c) = finished(p % lanes, c % lanes, p / lanes, c / lanes);
    }

    void schedule_turn(Func weights, Func part, Func consumer, const Var &tile, const Var &row) {
        weights.compute_at(consumer, tile).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        if (weight_unroll_ > 1) weights.split(w, w, Var("w_unroll"), weight_unroll_);
        part.compute_at(consumer, row).vectorize(l, lanes).update().reorder(q, l).atomic().vectorize(l, lanes).vectorize(q, lanes);
        in_registers({weights, part});
    }

    void schedule() {
        const Var pl("pl"), pt("pt"), co("co"), ci("ci"), iu("i_unroll");
        const int block = std::min(lanes, planes_);
        out.bound(p, 0, places_).bound(c, 0, planes_);
        out.split(p, pt, pl, lanes, TailStrategy::GuardWithIf).split(c, co, ci, block, TailStrategy::GuardWithIf).reorder(pl, pt, ci, co);
        whole_loops(out);
        fix_shape(out.output_buffer(), {places_, planes_});
        identity.compute_root().bound(k, 0, lanes).bound(i, 0, lanes).vectorize(k, lanes);
        raw.compute_at(turned, t).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        turned.compute_at(out, co).vectorize(l, lanes).bound_extent(l, lanes).bound_extent(i, lanes).bound_extent(t, static_cast<int>(tiles_of(pixels_)));
        schedule_turn(in_weights, in_part, turned, t, weight_unroll_ > 1 ? iu : i);
        if (weight_unroll_ > 1) turned.split(i, i, iu, weight_unroll_);
        if (padded()) {
            framed.compute_at(out, co).vectorize(l, lanes).bound_extent(l, lanes);
            framed.update().reorder(l, inside_.x, inside_.y).vectorize(l, lanes);
            const RVar io("io"), unrolled("r_unroll");
            if (unroll_ > 1) framed.update().split(inside_.x, io, unrolled, unroll_, TailStrategy::GuardWithIf);
            in_pads({framed});
        }
        results.compute_at(out, co).vectorize(l, lanes).bound_extent(l, lanes).bound_extent(p, lanes * static_cast<int>(tiles_of(places_)));
        for (size_t i = 0; i < windows.size(); i++) schedule_windows(windows[i], static_cast<int>(i));
        finished.compute_at(out, co).vectorize(l, lanes).bound_extent(l, lanes).bound_extent(i, lanes).bound_extent(t, static_cast<int>(tiles_of(places_)));
        schedule_turn(out_weights, out_part, finished, t, weight_unroll_ > 1 ? iu : i);
        if (weight_unroll_ > 1) finished.split(i, i, iu, weight_unroll_);
        in_pads({identity, raw, turned, results, finished});
    }

    void schedule_windows(Windows &w, int number) {
        Stage update = results.update(number);
        update.reorder(l, w.places.x, w.places.y).vectorize(l, lanes);
        const RVar ro("ro"), unrolled(fmt::format("r{}_unroll", number));
        const bool unrolls = unroll_ > 1 && w.columns % unroll_ == 0;
        if (unrolls) update.split(w.places.x, ro, unrolled, unroll_);
        w.window.compute_at(LoopLevel(results, unrolls ? unrolled : w.places.x)).vectorize(l, lanes).bound_extent(l, lanes);
        w.window.update().reorder(l, w.taps.x, w.taps.y).vectorize(l, lanes);
        // Each constant place of a pixel takes a register of its own.
        constexpr int64_t most_taps = 64;
        if (windows.size() == 1 && shape_.x.kernel * shape_.y.kernel <= most_taps) w.window.update().unroll(w.taps.x).unroll(w.taps.y);
        in_registers({w.window});
    }

    const PoolShape &shape_;
    const Machine &machine_;
    int unroll_, weight_unroll_, planes_, width_, height_, columns_, rows_, places_, pixels_;
    Var k{"k"}, w{"w"}, l{"l"}, i{"i"}, t{"t"}, b{"b"}, x{"x"}, y{"y"}, p{"p"}, c{"c"};
    RDom q{0, lanes, "q"}, inside_;
    std::vector<Windows> windows;
    Func identity{"identity"}, raw{"raw"}, in_weights{"in_weights"}, in_part{"in_part"}, turned{"turned"}, framed{"framed"}, results{"results"},
        out_weights{"out_weights"}, out_part{"out_part"}, finished{"finished"}, out{"Y"};
};

}  // namespace

Space plane_pool_space(const PoolShape &shape, const Machine &machine) {
    std::vector<int64_t> unrolls;
    constexpr int64_t most_unrolled = 8, most_code = 160;
    const int64_t columns = pool_phases(shape.x).front().count;
    for (int64_t unroll = 1; unroll <= std::min(most_unrolled, columns); unroll++)
        if (columns % unroll == 0 && (unroll == 1 || unroll * shape.x.kernel * shape.y.kernel * (shape.kind == Pooling::Max ? 2 : 1) <= most_code)) unrolls.push_back(unroll);
    Space space;
    space.parameter("unroll", "results in straight-line code", unrolls).parameter("weight_unroll", "vectors of a turned block in straight-line code", {1, 4, 8, 16, 32});
    space.constraint("pads", {"unroll"}, "32 planes of the image, framed by the padding, and their results fit the pads.", [=](const Point &) {
        const int64_t pixels = tiles_of(shape.x.size * shape.y.size) * lanes, places = tiles_of(shape.x.results * shape.y.results) * lanes;
        const bool padded = reaches_out(shape.x) || reaches_out(shape.y);
        const int64_t frame = padded ? (shape.x.size + 2 * shape.x.padding + shape.x.kernel) * (shape.y.size + 2 * shape.y.padding + shape.y.kernel) : 0;
        return fit_pads(machine, {{pixels, false}, {places, false}, {places, false}, {frame, false}, {lanes, false}, {lanes, false}, {shape.x.results, false}, {shape.y.results, false}});
    });
    return space;
}

KernelDefinition plane_pool_kernel(const PoolShape &shape, const Machine &machine, const Point &point) { return PlanePool(shape, machine, point).run(); }

}  // namespace atalla
