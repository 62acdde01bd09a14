// Windows over images in PyTorch's layout: the array turns 32 planes so that lanes are planes, and turns their results back.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
int size(int64_t n) { return static_cast<int>(n); }

bool padded(const PoolShape &shape) { return reaches_out(shape.x) || reaches_out(shape.y); }

// A strip of the result: some of its rows, the rows of the image that they see, and the first row of the image's frame, padding
// included, that they see.
struct StripRows {
    int64_t first = 0, rows = 0;
    int64_t image_first = 0, image_rows = 0, origin = 0;
    std::vector<PoolPhase> phases;   // along y, from `first` on
};

// Images that are not cut are one strip, whatever their windows are.
StripRows strip_rows(const PoolShape &shape, int64_t strips, int64_t number) {
    const PoolAxis &y = shape.y;
    StripRows strip{0, y.results, 0, y.size, 0, pool_phases(y)};
    if (strips == 1) return strip;
    PoolPhase &phase = strip.phases.front();
    const int64_t each = (y.results + strips - 1) / strips;
    strip.first = phase.first = number * each;
    strip.rows = phase.count = std::min(each, y.results - strip.first);
    strip.origin = phase.start = phase.start + strip.first * phase.stride;
    const int64_t seen = (strip.rows - 1) * phase.stride + phase.kernel, begin = strip.origin - y.padding;
    strip.image_first = std::clamp<int64_t>(begin, 0, y.size - 1);
    strip.image_rows = std::clamp<int64_t>(begin + seen, strip.image_first + 1, y.size) - strip.image_first;
    return strip;
}

// What the strips of a point share: the tensors, and the vectors that are the same for all places of 32 planes.
struct Common {
    Common(const PoolShape &shape, int64_t strips, const Point &point)
        : shape(shape), strips(strips), unroll(size(point["unroll"])), weight_unroll(size(point["weight_unroll"])), planes(size(shape.images * shape.channels)),
          block(std::min(lanes, planes)), taps(size(shape.x.kernel * shape.y.kernel)), width(size(shape.x.size)), columns(size(shape.x.results)),
          image(tensor("X", {shape.x.size * shape.y.size, shape.images * shape.channels})), weights(tensor("F", {taps, shape.channels})), bias(tensor("bias", {shape.channels})) {
        identity(k, i) = select(k == i, bf16(1.0f), bf16(0.0f));
    }
    bool weighted() const { return shape.kind == Pooling::Weighted; }
    // The channel of a lane of a block of planes.
    Expr channel(const Expr &lane) const {
        const int blocks = size(shape.vectors());
        return (shape.images > 1 ? Expr(b % blocks) : Expr(b)) * lanes + lane;
    }

    const PoolShape &shape;
    int64_t strips;
    int unroll, weight_unroll, planes, block, taps, width, columns;
    ImageParam image, weights, bias;
    Var k{"k"}, w{"w"}, l{"l"}, i{"i"}, t{"t"}, b{"b"}, x{"x"}, y{"y"}, p{"p"}, c{"c"};
    RDom q{0, lanes, "q"};
    Func identity{"identity"}, out{"Y"};
};

// 32 x 32 elements as weights, and the rows of the identity through them: from(k, w, t, b) becomes turned(w, k, t, b).
class Turn {
public:
    Turn(const Common &common, const std::string &name, const Func &from) : common_(common), weights_(name + "_weights"), part_(name + "_part"), turned(name) {
        const Var &k = common.k, &w = common.w, &l = common.l, &i = common.i, &t = common.t, &b = common.b;
        weights_(k, w, t, b) = from(k, w, t, b);
        part_(l, i, t, b) = 0.0f;
        part_(l, i, t, b) += f32(common.identity(common.q, i)) * f32(weights_(common.q, l, t, b));
        turned(l, i, t, b) = bf16(part_(l, i, t, b));
    }
    // Whole, for each iteration of `at`: so many tiles of so many rows.
    void schedule(const LoopLevel &at, int64_t tiles, int rows = lanes) {
        const Var iu("i_unroll");
        turned.compute_at(at).vectorize(common_.l, lanes).bound_extent(common_.l, lanes).bound_extent(common_.i, rows).bound_extent(common_.t, size(tiles));
        const int unroll = common_.weight_unroll;
        weights_.compute_at(turned, common_.t).vectorize(common_.k, lanes).bound_extent(common_.k, lanes).bound_extent(common_.w, lanes);
        if (unroll > 1) weights_.split(common_.w, common_.w, Var("w_unroll"), unroll);
        const bool unrolls = unroll > 1 && rows % unroll == 0;
        if (unrolls) turned.split(common_.i, common_.i, iu, unroll);
        part_.compute_at(turned, unrolls ? iu : common_.i).vectorize(common_.l, lanes).update().reorder(common_.q, common_.l).atomic().vectorize(common_.l, lanes).vectorize(common_.q, lanes);
        in_registers({weights_, part_});
        in_pads({turned});
    }

private:
    const Common &common_;
    Func weights_, part_;

public:
    Func turned;
};

class Strip {
public:
    Strip(Common &common, int64_t number) : c_(common), rows_(strip_rows(common.shape, common.strips, number)), number_(size(number)), places_(size(rows_.rows) * common.columns) {
        define_image();
        if (c_.weighted()) define_weights();
        define_windows();
        define_back();
    }

    void schedule() {
        const RVar pl("pl"), pt("pt"), co(name("co")), ci("ci");
        c_.out.update(number_).split(all_.x, pt, pl, lanes, TailStrategy::GuardWithIf).split(all_.y, co, ci, c_.block, TailStrategy::GuardWithIf).reorder(pl, pt, ci, co);
        const LoopLevel at(c_.out, co);
        const int64_t pixels = rows_.image_rows * c_.width;
        raw_.compute_at(image_->turned, c_.t).vectorize(c_.k, lanes).bound_extent(c_.k, lanes).bound_extent(c_.w, lanes);
        image_->schedule(at, tiles_of(pixels));
        if (padded(c_.shape)) {
            framed_.compute_at(at).vectorize(c_.l, lanes).bound_extent(c_.l, lanes);
            framed_.update().reorder(c_.l, inside_.x, inside_.y).vectorize(c_.l, lanes);
            const RVar io("io"), unrolled("r_unroll");
            if (c_.unroll > 1) framed_.update().split(inside_.x, io, unrolled, c_.unroll, TailStrategy::GuardWithIf);
            in_pads({framed_});
        }
        if (c_.weighted()) {
            raw_weights_.compute_at(factors_->turned, c_.t).vectorize(c_.k, lanes).bound_extent(c_.k, lanes).bound_extent(c_.w, lanes);
            factors_->schedule(at, tiles_of(c_.taps));
            in_pads({raw_weights_});
        }
        if (c_.shape.bias) {
            bias_.compute_at(at).bound_extent(c_.l, lanes);
            in_pads({bias_});
        }
        results_.compute_at(at).vectorize(c_.l, lanes).bound_extent(c_.l, lanes).bound_extent(c_.p, lanes * size(tiles_of(places_)));
        for (size_t i = 0; i < windows_.size(); i++) schedule_windows(windows_[i], static_cast<int>(i));
        back_->schedule(at, tiles_of(places_));
        in_pads({raw_, results_});
    }

private:
    struct Windows {
        Func window;
        RDom taps, places;
        int64_t columns;
    };

    // Names differ from strip to strip.
    std::string name(const std::string &text) const { return c_.strips == 1 ? text : fmt::format("{}_{}", text, number_); }

    // turned(plane, pixel) from raw(pixel, plane), and framed by the padding.
    void define_image() {
        const int pixels = size(rows_.image_rows) * c_.width, first = size(rows_.image_first) * c_.width;
        const Expr pixel = c_.t * lanes + c_.k, plane = c_.b * lanes + c_.w;
        raw_ = Func(name("raw"));
        raw_(c_.k, c_.w, c_.t, c_.b) = bf16(0.0f);
        raw_(c_.k, c_.w, c_.t, c_.b) = select(pixel < pixels && plane < c_.planes, c_.image(first + min(pixel, pixels - 1), min(plane, c_.planes - 1)), undef<BFloat>());
        image_.emplace(c_, name("turned"), raw_);
        if (!padded(c_.shape)) return;
        const float beyond = c_.shape.kind == Pooling::Max ? -infinity : c_.shape.kind == Pooling::Average ? -0.0f : 0.0f;
        framed_ = Func(name("framed"));
        framed_(c_.l, c_.x, c_.y, c_.b) = bf16(beyond);
        inside_ = RDom(0, c_.width, 0, size(rows_.image_rows), name("inside"));
        const Expr from = inside_.y * c_.width + inside_.x;
        const int64_t down = rows_.image_first + c_.shape.y.padding - rows_.origin;
        framed_(c_.l, inside_.x + size(c_.shape.x.padding), inside_.y + size(down), c_.b) = image_->turned(c_.l, from % lanes, from / lanes, c_.b);
    }

    // A place of the strip's part of the image with its padding.
    Expr pixel(const Expr &px, const Expr &py) {
        if (padded(c_.shape)) return framed_(c_.l, px, py, c_.b);
        const Expr at = py * c_.width + px;
        return image_->turned(c_.l, at % lanes, at / lanes, c_.b);
    }

    // factors(plane, tap).
    void define_weights() {
        const Expr tap = c_.t * lanes + c_.k, channel = c_.channel(c_.w);
        const int channels = size(c_.shape.channels);
        raw_weights_ = Func(name("raw_factors"));
        raw_weights_(c_.k, c_.w, c_.t, c_.b) = bf16(0.0f);
        raw_weights_(c_.k, c_.w, c_.t, c_.b) = select(tap < c_.taps && channel < channels, c_.weights(min(tap, c_.taps - 1), min(channel, channels - 1)), undef<BFloat>());
        factors_.emplace(c_, name("factors"), raw_weights_);
        if (!c_.shape.bias) return;
        bias_ = Func(name("bias_row"));
        const Expr own = c_.channel(c_.l);
        if (channels % lanes == 0) bias_(c_.l, c_.b) = c_.bias(own);
        else bias_(c_.l, c_.b) = select(own < channels, c_.bias(min(own, channels - 1)), undef<BFloat>());
    }

    void define_windows() {
        results_ = Func(name("results"));
        results_(c_.l, c_.p, c_.b) = bf16(0.0f);
        for (const PoolPhase &py : rows_.phases)
            for (const PoolPhase &px : pool_phases(c_.shape.x)) define_windows(px, py);
    }

    void define_windows(const PoolPhase &px, const PoolPhase &py) {
        const std::string own = fmt::format("{}{}", name(""), windows_.size());
        Windows w{Func("window" + own), RDom(0, size(px.kernel), 0, size(py.kernel), "taps" + own), RDom(0, size(px.count), 0, size(py.count), "places" + own), px.count};
        Func window = w.window;
        const Var &l = c_.l, &x = c_.x, &y = c_.y, &b = c_.b;
        const Expr element = pixel(x * size(px.stride) + size(px.start) + w.taps.x, y * size(py.stride) + size(py.start - rows_.origin) + w.taps.y);
        if (c_.shape.kind == Pooling::Max) {
            window(l, x, y, b) = bf16(-infinity);
            window(l, x, y, b) = select(strict_float(element != element), element, strict_float(max(element, window(l, x, y, b))));
        } else {
            const Expr tap = w.taps.y * size(c_.shape.x.kernel) + w.taps.x;
            window(l, x, y, b) = bf16(-0.0f);
            window(l, x, y, b) = strict_float(window(l, x, y, b) + (c_.weighted() ? strict_float(element * factors_->turned(l, tap % lanes, tap / lanes, b)) : element));
        }
        const Expr column = w.places.x * size(px.step) + size(px.first), row = w.places.y * size(py.step) + size(py.first - rows_.first);
        results_(l, row * c_.columns + column, b) = result_of(window(l, w.places.x, w.places.y, b), px.kernel * py.kernel, column, row + size(rows_.first));
        windows_.push_back(w);
    }

    // Of a window's sum or maximum; windows of different sizes: those of a phase have the same.
    Expr result_of(const Expr &value, int64_t elements, const Expr &column, const Expr &row) {
        const PoolShape &shape = c_.shape;
        if (shape.kind == Pooling::Max) return value;
        if (c_.weighted()) return shape.bias ? strict_float(value + bias_(c_.l, c_.b)) : value;
        if (shape.x.adaptive || shape.y.adaptive) return strict_float(value * bf16(static_cast<float>(1 / static_cast<double>(elements))));
        return window_mean(shape, value, c_.l, column, row);
    }

    void define_back() {
        Func tiles(name("tiles"));
        tiles(c_.k, c_.w, c_.t, c_.b) = results_(c_.k, c_.t * lanes + c_.w, c_.b);
        back_.emplace(c_, name("finished"), tiles);
        all_ = RDom(0, places_, 0, c_.planes, name("all"));
        c_.out(all_.x + size(rows_.first) * c_.columns, all_.y) = back_->turned(all_.x % lanes, all_.y % lanes, all_.x / lanes, all_.y / lanes);
    }

    void schedule_windows(Windows &w, int number) {
        Stage update = results_.update(number);
        update.reorder(c_.l, w.places.x, w.places.y).vectorize(c_.l, lanes);
        const RVar ro("ro"), unrolled(fmt::format("r{}_unroll", number));
        const bool unrolls = c_.unroll > 1 && w.columns % c_.unroll == 0;
        if (unrolls) update.split(w.places.x, ro, unrolled, c_.unroll);
        w.window.compute_at(LoopLevel(results_, unrolls ? unrolled : w.places.x)).vectorize(c_.l, lanes).bound_extent(c_.l, lanes);
        w.window.update().reorder(c_.l, w.taps.x, w.taps.y).vectorize(c_.l, lanes);
        // Each constant place of a pixel takes a register of its own.
        constexpr int64_t most_taps = 64;
        if (windows_.size() == 1 && c_.taps <= most_taps) w.window.update().unroll(w.taps.x).unroll(w.taps.y);
        in_registers({w.window});
    }

    Common &c_;
    StripRows rows_;
    int number_, places_;
    Func raw_, framed_, raw_weights_, bias_, results_;
    std::optional<Turn> image_, factors_, back_;
    RDom inside_, all_;
    std::vector<Windows> windows_;
};

bool strips_fit(const PoolShape &shape, const Machine &machine, int64_t strips) {
    const StripRows strip = strip_rows(shape, strips, strips > 1 ? 1 : 0);
    const int64_t pixels = tiles_of(shape.x.size * strip.image_rows) * lanes, places = tiles_of(shape.x.results * strip.rows) * lanes;
    const int64_t frame = padded(shape) ? (shape.x.size + 2 * shape.x.padding + shape.x.kernel) * (strip.image_rows + 2 * shape.y.padding + shape.y.kernel) : 0;
    std::vector<PadUse> uses = {{pixels, false}, {pixels, false}, {places, false}, {places, false}, {frame, false}, {lanes, false}, {lanes, false}};
    // Strips have tables of their own for windows that count differently, and weights.
    for (int64_t i = 0; i < strips; i++) uses.insert(uses.end(), {{shape.x.results, false}, {shape.y.results, false}});
    if (shape.kind == Pooling::Weighted) uses.insert(uses.end(), 3, {tiles_of(shape.x.kernel * shape.y.kernel) * lanes, false});
    return fit_pads(machine, uses);
}

// The fewest strips that fit, 0: none do. They are not for a search to choose: where an infinity or NaN spreads to depends on them.
// Windows of several sizes are not cut.
int64_t fewest_strips(const PoolShape &shape, const Machine &machine) {
    const int64_t most = pool_phases(shape.y).size() > 1 ? 1 : shape.y.results;
    for (int64_t strips = 1; strips <= most; strips++) {
        const int64_t each = (shape.y.results + strips - 1) / strips;
        if (each * (strips - 1) < shape.y.results && strips_fit(shape, machine, strips)) return strips;
    }
    return 0;
}

}  // namespace

Space plane_pool_space(const PoolShape &shape, const Machine &machine) {
    std::vector<int64_t> unrolls;
    constexpr int64_t most_unrolled = 8, most_code = 160;
    const int64_t columns = pool_phases(shape.x).front().count, work = shape.x.kernel * shape.y.kernel * (shape.kind == Pooling::Average ? 1 : 2);
    for (int64_t unroll = 1; unroll <= std::min(most_unrolled, columns); unroll++)
        if (columns % unroll == 0 && (unroll == 1 || unroll * work <= most_code)) unrolls.push_back(unroll);
    Space space;
    space.parameter("unroll", "results in straight-line code", unrolls)
        .parameter("weight_unroll", "vectors of a turned block in straight-line code", {1, 4, 8, 16, 32});
    constexpr int64_t most_strips = 16;   // each is code of its own
    space.constraint("pads", {"unroll"}, "32 planes of what a strip of results sees of the image, framed by the padding, and the results fit the pads.",
                     [strips = fewest_strips(shape, machine)](const Point &) { return strips > 0 && strips <= most_strips; });
    return space;
}

KernelDefinition plane_pool_kernel(const PoolShape &shape, const Machine &machine, const Point &point) {
    Common common(shape, std::max<int64_t>(1, fewest_strips(shape, machine)), point);
    common.out(common.p, common.c) = undef<BFloat>();
    std::vector<std::unique_ptr<Strip>> strips;
    for (int64_t number = 0; number < common.strips; number++) strips.push_back(std::make_unique<Strip>(common, number));
    const int64_t places = shape.x.results * shape.y.results;
    common.out.bound(common.p, 0, size(places)).bound(common.c, 0, common.planes);
    for (const auto &strip : strips) strip->schedule();
    common.identity.compute_root().bound(common.k, 0, lanes).bound(common.i, 0, lanes).vectorize(common.k, lanes);
    in_pads({common.identity});
    whole_loops(common.out);
    fix_shape(common.out.output_buffer(), {places, common.planes});
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(common.out);
    kernel.arguments = {common.image};
    kernel.inputs = {{"X", {shape.x.size * shape.y.size, shape.images * shape.channels}}};
    if (common.weighted()) {
        kernel.arguments.push_back(common.weights);
        kernel.inputs.push_back({"F", {common.taps, shape.channels}});
    }
    if (shape.bias) {
        kernel.arguments.push_back(common.bias);
        kernel.inputs.push_back({"bias", {shape.channels}});
    }
    kernel.outputs = {{"Y", {places, common.planes}}};
    return kernel;
}

}  // namespace atalla
