// Windows over images in PyTorch's layout: the array turns 32 planes so that lanes are planes, and turns their results back.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "generators/long_sums.h"
#include "generators/plane_plan.h"
#include "generators/vocabulary.h"
#include "generators/window_maxima.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// The vectors that every part of the pipeline works on.
struct Names {
    Var k{"k"}, w{"w"}, l{"l"}, i{"i"}, z{"z"}, t{"t"}, b{"b"}, o{"o"}, c{"chunk"}, x{"x"}, y{"y"};
    RDom q{0, lanes, "q"};
    Func identity{"identity"};
};

// 32 x 32 elements as weights, and the rows of the identity through them: from(k, w, t, b, o) becomes turned(w, k, t, b, o).
class Turn {
public:
    Turn(const Names &names, const std::string &name, const Func &from)
        : names_(names), weights_(name + "_weights"), part_(name + "_part"), turned(name) {
        const Var &k = names.k, &w = names.w, &l = names.l, &i = names.i, &t = names.t, &b = names.b, &o = names.o;
        weights_(k, w, t, b, o) = from(k, w, t, b, o);
        part_(l, i, t, b, o) = 0.0f;
        part_(l, i, t, b, o) += f32(names.identity(names.q, i)) * f32(weights_(names.q, l, t, b, o));
        turned(l, i, t, b, o) = bf16(part_(l, i, t, b, o));
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
        as_array_row(part_.compute_at(turned, unroll > 1 ? iu : i), l, names_.q);
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
        : shape_(shape),
          machine_(machine),
          plan_(shape, machine, point),
          unroll_(size(point["unroll"])),
          first_column_(size(first_column(shape, point))),
          weight_unroll_(size(point["weight_unroll"])),
          planes_(size(shape.images * shape.channels)),
          channels_(size(shape.channels)),
          taps_(size(shape.x.kernel * shape.y.kernel)),
          pixels_(size(shape.x.size * shape.y.size)),
          places_(size(shape.x.results * shape.y.results)),
          pitch_(size(plan_.frame.pitch)) {}

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
        int64_t columns, rows;
        std::optional<WindowMaxima> maxima;
        std::vector<SummingFunc> sums;
    };

    Expr block() const { return v_.o * size(plan_.together) + v_.b; }
    // The order of a sum is that of every schedule.
    static int64_t first_column(const PoolShape &shape, const Point &point) {
        return shape.kind == Pooling::Average && takes_columns(shape) ? own_column(shape.x) : point["first_column"];
    }

    bool weighted() const { return shape_.kind == Pooling::Weighted; }

    // framed(plane, place) from raw(element, band, part, plane): the array turns blocks, and the padding is around them.
    void define_image() {
        const PlaneBlocks &blocks = plan_.image;
        const int elements = size(blocks.elements), step = size(blocks.step), width = size(shape_.x.size),
                  bands = size(blocks.bands), chunk = size(plan_.bands);
        // The last bands may share some with those before.
        const auto first = [&](const Expr &c) { return bands % chunk == 0 ? c * chunk : min(c * chunk, bands - chunk); };
        const Expr pixel = (first(v_.c) + v_.z) * size(blocks.length) + v_.t * step, plane = block() * lanes + v_.w;
        if (elements == lanes && planes_ % lanes == 0) {
            raw_(v_.k, v_.z, v_.w, v_.t, v_.c, v_.b, v_.o) = image_(pixel + v_.k, plane);
        } else {
            raw_(v_.k, v_.z, v_.w, v_.t, v_.c, v_.b, v_.o) = bf16(0.0f);
            raw_(v_.k, v_.z, v_.w, v_.t, v_.c, v_.b, v_.o) =
                select(v_.k < elements && plane < planes_, image_(pixel + min(v_.k, elements - 1), min(plane, planes_ - 1)),
                       undef<BFloat>());
        }
        rows_(v_.k, v_.i) = v_.identity(v_.k, v_.i);
        raw_weights_(v_.k, v_.w, v_.z, v_.t, v_.c, v_.b, v_.o) = raw_(v_.k, v_.z, v_.w, v_.t, v_.c, v_.b, v_.o);
        part_(v_.l, v_.i, v_.z, v_.t, v_.c, v_.b, v_.o) = 0.0f;
        part_(v_.l, v_.i, v_.z, v_.t, v_.c, v_.b, v_.o) +=
            f32(rows_(v_.q, v_.i)) * f32(raw_weights_(v_.q, v_.l, v_.z, v_.t, v_.c, v_.b, v_.o));
        framed_(v_.l, v_.x, v_.b, v_.o) = undef<BFloat>();
        // Below everything that the array makes of finite numbers, and a number times which zero is one.
        const Expr beyond = bf16(shape_.kind == Pooling::Max ? lowest_number : shape_.kind == Pooling::Average ? -0.0f : 0.0f);
        for (const RDom &border : borders_) framed_(v_.l, border.y * pitch_ + border.x, v_.b, v_.o) = beyond;
        const Expr x = blocks.rows > 1 ? inside_.x % width : Expr(inside_.x), y = blocks.rows > 1 ? inside_.x / width : Expr(0);
        const int corner = size(shape_.y.padding) * pitch_ + size(shape_.x.padding);
        framed_(v_.l,
                (first(inside_.w) + inside_.y) * size(blocks.distance(shape_.x.size, pitch_)) + y * pitch_ + inside_.z * step +
                    x + corner,
                v_.b, v_.o) = bf16(part_(v_.l, inside_.x, inside_.y, inside_.z, inside_.w, v_.b, v_.o));
    }

    // The places around the image that windows see: above and below it, and on both sides.
    std::vector<RDom> borders() const {
        const int left = size(shape_.x.padding), above = size(shape_.y.padding), right = left + size(shape_.x.size),
                  below = above + size(shape_.y.size), rows = size(plan_.frame.rows), columns = size(seen_elements(shape_.x));
        std::vector<RDom> all;
        if (above > 0) all.push_back(RDom(0, pitch_, 0, above, "above"));
        if (below < rows) all.push_back(RDom(0, pitch_, below, rows - below, "below"));
        if (left > 0) all.push_back(RDom(0, left, above, below - above, "left"));
        if (right < columns) all.push_back(RDom(right, columns - right, above, below - above, "right"));
        return all;
    }

    // The channel of a lane of a block of planes.
    Expr channel(const Expr &lane) const {
        return (shape_.images > 1 ? block() % size(shape_.vectors()) : block()) * lanes + lane;
    }

    // factors(plane, tap), and what is added to the planes.
    void define_factors() {
        const Expr tap = v_.t * lanes + v_.k, own = channel(v_.w), lane = channel(v_.l);
        raw_factors_(v_.k, v_.w, v_.t, v_.b, v_.o) = bf16(0.0f);
        raw_factors_(v_.k, v_.w, v_.t, v_.b, v_.o) =
            select(tap < taps_ && own < channels_, weights_(min(tap, taps_ - 1), min(own, channels_ - 1)), undef<BFloat>());
        factors_.emplace(v_, "factors", raw_factors_);
        if (shape_.bias)
            bias_row_(v_.l, v_.b, v_.o) = channels_ % lanes == 0
                                              ? Expr(bias_(lane))
                                              : select(lane < channels_, bias_(min(lane, channels_ - 1)), undef<BFloat>());
    }

    void define_windows() {
        results_(v_.l, v_.x, v_.y, v_.b, v_.o) = undef<BFloat>();
        for (const PoolPhase &py : pool_phases(shape_.y))
            for (const PoolPhase &px : pool_phases(shape_.x)) define_windows(px, py);
    }

    void define_windows(const PoolPhase &px, const PoolPhase &py) {
        const size_t number = windows_.size();
        const int64_t columns = std::max(px.count, plan_.columns);
        Windows w{Func(fmt::format("window{}", number)),
                  RDom(0, size(px.kernel), 0, size(py.kernel), fmt::format("taps{}", number)),
                  RDom(0, size(columns), 0, size(py.count), fmt::format("places{}", number)),
                  columns,
                  py.count,
                  {},
                  {}};
        Func window = w.window;
        const Var &l = v_.l, &x = v_.x, &y = v_.y, &b = v_.b, &o = v_.o;
        const auto place = [&](const Expr &column, const Expr &row) { return framed_(l, row * pitch_ + column, b, o); };
        const auto element_of = [&](const Expr &column, const Expr &row) {
            return place(x * size(px.stride) + size(px.start) + column, y * size(py.stride) + size(py.start) + row);
        };
        if (takes_columns(shape_)) {
            w.maxima.emplace(
                std::to_string(number), std::vector<Var>{l, x, y, b, o}, size(px.kernel), size(py.kernel), size(px.stride),
                size(px.start), first_column_,
                [&](const Expr &row) { return place(x, y * size(py.stride) + size(py.start) + row); },
                shape_.kind == Pooling::Max ? larger_number : sum_with);
            window = w.window = w.maxima->window;
        } else if (shape_.kind == Pooling::Max) {
            window(l, x, y, b, o) = bf16(lowest_number);
            window(l, x, y, b, o) = larger_number(element_of(w.taps.x, w.taps.y), window(l, x, y, b, o));
        } else {
            w.sums = summing_funcs(window, {l, x, y, b, o}, long_sum(px.kernel, py.kernel), [&](size_t) {
                return [&](const Expr &column, const Expr &row) {
                    const Expr element = element_of(column, row), tap = row * size(shape_.x.kernel) + column;
                    return weighted() ? strict_float(element * factors_->turned(l, tap % lanes, tap / lanes, b, o)) : element;
                };
            });
        }
        const Expr column = w.places.x * size(px.step) + size(px.first), row = w.places.y * size(py.step) + size(py.first);
        if (shape_.kind == Pooling::Max) define_unknown(py);
        results_(l, column, row, b, o) = result_of(window(l, w.places.x, w.places.y, b, o), px.kernel * py.kernel, column, row);
        windows_.push_back(w);
    }

    // The array has made NaN of all elements of a block with an infinity or NaN: an element of each block that a row of windows
    // sees, times zero.
    void define_unknown(const PoolPhase &py) {
        Expr product = bf16(0.0f);
        for (int row = 0; row < size(py.kernel); row++)
            for (const int64_t column : plan_.image.columns_of_blocks(shape_.x.size))
                product = strict_float(
                    product *
                    framed_(v_.l, (v_.y * size(py.stride) + row) * pitch_ + size(shape_.x.padding + column), v_.b, v_.o));
        unknown_(v_.l, v_.y, v_.b, v_.o) = product;
    }

    // Of a window's sum or maximum. Windows of different sizes: those of a phase have the same.
    Expr result_of(const Expr &value, int64_t elements, const Expr &column, const Expr &row) {
        if (shape_.kind == Pooling::Max) return strict_float(value + unknown_(v_.l, row, v_.b, v_.o));
        if (weighted()) return shape_.bias ? strict_float(value + bias_row_(v_.l, v_.b, v_.o)) : value;
        if (shape_.x.adaptive || shape_.y.adaptive)
            return strict_float(value * bf16(static_cast<float>(1 / static_cast<double>(elements))));
        return window_mean(shape_, value, v_.l, column, row);
    }

    // finished(element, band, part, plane) from the results, and the planes from that.
    void define_back() {
        const PlaneBlocks &blocks = plan_.back;
        const int columns = size(shape_.x.results), length = size(blocks.length), step = size(blocks.step),
                  rows = size(blocks.rows);
        const Expr x = rows > 1 ? v_.w % columns : v_.t * step + v_.w, y = rows > 1 ? v_.z * rows + v_.w / columns : Expr(v_.z);
        back_rows_(v_.k, v_.i) = v_.identity(v_.k, v_.i);
        back_weights_(v_.k, v_.w, v_.z, v_.t, v_.b, v_.o) =
            blocks.in_one_row ? results_(v_.k, v_.z * length + v_.w, 0, v_.b, v_.o) : results_(v_.k, x, y, v_.b, v_.o);
        back_part_(v_.l, v_.i, v_.z, v_.t, v_.b, v_.o) = 0.0f;
        back_part_(v_.l, v_.i, v_.z, v_.t, v_.b, v_.o) +=
            f32(back_rows_(v_.q, v_.i)) * f32(back_weights_(v_.q, v_.l, v_.z, v_.t, v_.b, v_.o));
        finished_(v_.l, v_.z, v_.i, v_.t, v_.b, v_.o) =
            shape_.epilogue.apply(bf16(back_part_(v_.l, v_.i, v_.z, v_.t, v_.b, v_.o)));
        const bool whole = planes_ % lanes == 0;
        const Expr plane = whole || planes_ < lanes ? Expr(c_) : c_ % lanes, block = whole ? Expr(v_.b) : Expr(0),
                   outer = whole             ? Expr(v_.o)
                           : planes_ < lanes ? Expr(0)
                                             : c_ / lanes;
        std::vector<Var> vars = {p_, c_};
        std::vector<Expr> at = {p_ % length, p_ / length, plane, 0, block, outer};
        if (blocks.parts > 1) {
            vars.insert(vars.begin() + 1, v_.y);
            at = {p_ % step, v_.y, plane, p_ / step, block, outer};
        }
        if (whole) vars.insert(vars.end(), {v_.b, v_.o});
        out_(vars) = finished_(at);
    }

    void schedule() {
        const Var pl("pl"), pt("pt"), pb("pb"), pc("pc"), pz("pz"), ci("ci");
        const PlaneBlocks &blocks = plan_.back;
        std::vector<VarOrRVar> order = {pl, pz, ci, pc, outer_};
        if (planes_ % lanes == 0) {
            out_.bound(c_, 0, lanes)
                .bound(v_.b, 0, size(plan_.together))
                .bound(v_.o, 0, planes_ / lanes / size(plan_.together));
            order = {pl, pz, c_, pc, v_.b, outer_};
        } else {
            out_.bound(c_, 0, planes_).split(c_, outer_, ci, std::min(lanes, planes_), TailStrategy::GuardWithIf);
        }
        if (blocks.parts == 1) {
            out_.bound(p_, 0, places_)
                .split(p_, pb, pl, size(blocks.length), TailStrategy::GuardWithIf)
                .split(pb, pc, pz, size(plan_.results));
        } else {
            out_.bound(p_, 0, size(shape_.x.results)).bound(v_.y, 0, size(shape_.y.results));
            out_.split(p_, pt, pl, size(blocks.step), TailStrategy::GuardWithIf).split(v_.y, pc, pz, size(plan_.results));
            order.insert(order.begin() + 3, pt);
        }
        out_.reorder(order);
        whole_loops(out_);
        fix_shape(out_.output_buffer(), result_extents());
        const LoopLevel at(out_, outer_);
        // A row waits for its mask, so several are made at a time.
        v_.identity.compute_root().bound(v_.k, 0, lanes).bound(v_.i, 0, lanes).vectorize(v_.k, lanes).unroll(v_.i, 4);
        schedule_image(at);
        if (weighted()) {
            raw_factors_.compute_at(factors_->turned, v_.t)
                .vectorize(v_.k, lanes)
                .bound_extent(v_.k, lanes)
                .bound_extent(v_.w, lanes);
            factors_->schedule(at, tiles_of(taps_), weight_unroll_);
            in_pads({raw_factors_});
            if (shape_.bias) {
                bias_row_.compute_at(at).bound_extent(v_.l, lanes);
                in_pads({bias_row_});
            }
        }
        results_.compute_at(at)
            .vectorize(v_.l, lanes)
            .bound_extent(v_.l, lanes)
            .bound(v_.x, 0, size(plan_.pitch))
            .bound(v_.y, 0, size(plan_.result_rows()));
        if (unknown_.defined()) {
            unknown_.compute_at(at).vectorize(v_.l, lanes).bound_extent(v_.l, lanes);
            in_pads({unknown_});
        }
        for (size_t i = 0; i < windows_.size(); i++) schedule_windows(windows_[i], static_cast<int>(i));
        schedule_back(LoopLevel(out_, blocks.parts > 1 ? pt : pc));
        in_pads({v_.identity, results_});
    }

    std::vector<int64_t> result_extents() const {
        std::vector<int64_t> extents = {places_};
        if (plan_.back.parts > 1) extents = {shape_.x.results, shape_.y.results};
        if (planes_ % lanes == 0)
            extents.insert(extents.end(), {lanes, plan_.together, planes_ / lanes / plan_.together});
        else
            extents.push_back(planes_);
        return extents;
    }

    // Where transfers take time, the next one runs beside what the array does.
    void two_slots(Func f) const {
        if (machine_.timed()) f.hoist_storage_root().ring_buffer(2);
    }
    // Vectors of a turned block in straight-line code.
    void schedule_weights(Func weights, const LoopLevel &at, int unroll) {
        weights.compute_at(at).vectorize(v_.k, lanes).bound_extent(v_.k, lanes).bound_extent(v_.w, lanes);
        if (unroll > 1) weights.split(v_.w, v_.w, Var("w_unroll"), unroll);
        in_registers({weights});
    }
    void schedule_rows(Func rows, const LoopLevel &at) {
        rows.compute_at(at).vectorize(v_.k, lanes).bound_extent(v_.k, lanes).bound_extent(v_.i, lanes);
        in_registers({rows});
    }
    void schedule_product(Func part, const LoopLevel &at) {
        as_array_row(part.compute_at(at), v_.l, v_.q);
        in_registers({part});
    }

    void schedule_image(const LoopLevel &at) {
        raw_.compute_at(framed_, plan_.image.parts > 1 ? inside_.z : inside_.w)
            .vectorize(v_.k, lanes)
            .bound_extent(v_.k, lanes)
            .bound_extent(v_.w, lanes)
            .bound_extent(v_.z, size(plan_.bands));
        // What surrounds the last planes differs.
        if (planes_ % lanes == 0 && (planes_ > lanes || plan_.chunks() * plan_.image.parts > 1)) two_slots(raw_);
        schedule_rows(rows_, at);
        schedule_weights(raw_weights_, LoopLevel(framed_, inside_.y), weight_unroll_);
        schedule_product(part_, LoopLevel(framed_, inside_.x));
        framed_.compute_at(at).vectorize(v_.l, lanes).bound_extent(v_.l, lanes).bound(v_.x, 0, size(plan_.frame.places));
        constexpr int64_t most_unrolled = 8;
        for (size_t i = 0; i < borders_.size(); i++) {
            Stage fill = framed_.update(static_cast<int>(i));
            const RDom &border = borders_[i];
            const RVar unrolled("x_unroll"), x = border.x, y = border.y;
            fill.vectorize(v_.l, lanes);
            if (border.x.extent().as<Internal::IntImm>()->value <= most_unrolled)
                fill.reorder(v_.l, x, y).unroll(x);
            else
                fill.split(x, x, unrolled, size(machine_.pad.count), TailStrategy::GuardWithIf).reorder(v_.l, unrolled, x, y);
        }
        framed_.update(static_cast<int>(borders_.size()))
            .reorder(v_.l, inside_.x, inside_.y, inside_.z, inside_.w)
            .vectorize(v_.l, lanes)
            .unroll(inside_.x);
        in_pads({raw_, framed_});
    }

    void schedule_windows(Windows &w, int number) {
        Stage update = results_.update(number);
        const bool unrolls = unroll_ > 1 && w.columns % unroll_ == 0;
        const RVar ro("ro"), unrolled(fmt::format("r{}_unroll", number)), across = unrolls ? ro : RVar(w.places.x);
        if (unrolls) update.split(w.places.x, ro, unrolled, unroll_);
        // The longer loop is innermost: its iterations overlap.
        const bool down = w.rows * (unrolls ? unroll_ : 1) >= w.columns;
        const RVar inner = down ? RVar(w.places.y) : across, outer = down ? across : RVar(w.places.y);
        std::vector<VarOrRVar> order = {v_.l, inner, outer};
        if (unrolls) order.insert(order.begin() + 1, unrolled);
        update.reorder(order).vectorize(v_.l, lanes);
        const LoopLevel one_window(results_, unrolls ? unrolled : inner);
        if (w.maxima) {
            w.maxima->schedule(LoopLevel(results_, inner), one_window);
            return;
        }
        const bool straight = windows_.size() == 1 && taps_ <= most_unrolled_taps;
        if (!w.sums.empty()) return schedule_sums(w.sums, v_.l, one_window, straight);
        w.window.compute_at(one_window).vectorize(v_.l, lanes).bound_extent(v_.l, lanes);
        w.window.update().reorder(v_.l, w.taps.x, w.taps.y).vectorize(v_.l, lanes);
        if (straight) w.window.update().unroll(w.taps.x).unroll(w.taps.y);
        in_registers({w.window});
    }

    void schedule_back(const LoopLevel &at) {
        const PlaneBlocks &blocks = plan_.back;
        finished_.compute_at(at)
            .vectorize(v_.l, lanes)
            .bound_extent(v_.l, lanes)
            .bound_extent(v_.i, lanes)
            .bound_extent(v_.z, size(plan_.results));
        const Var iu("i_unroll");
        finished_.split(v_.i, v_.i, iu, lanes).reorder({v_.l, iu, v_.i, v_.z});
        schedule_rows(back_rows_, LoopLevel(out_, outer_));
        schedule_weights(back_weights_, LoopLevel(finished_, v_.z), blocks.rows > 1 ? lanes : weight_unroll_);
        schedule_product(back_part_, LoopLevel(finished_, iu));
        if (planes_ > lanes || blocks.bands > plan_.results || blocks.parts > 1) two_slots(finished_);
        in_pads({finished_});
    }

    KernelDefinition kernel() const {
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.add_input("X", image_);
        if (weighted()) kernel.add_input("F", weights_);
        if (shape_.bias) kernel.add_input("bias", bias_);
        kernel.outputs = {{"Y", result_extents()}};
        // What a transfer moves follows each other in memory, and the pads' transfers are those of different planes.
        if (machine_.timed()) {
            kernel.lay_out(raw_, {0, plan_.bands});
            kernel.lay_out(finished_, {0, plan_.results});
        }
        return kernel;
    }

    const PoolShape &shape_;
    const Machine &machine_;
    const PlanePlan plan_;
    int unroll_, first_column_, weight_unroll_, planes_, channels_, taps_, pixels_, places_, pitch_;
    Names v_;
    Var p_{"p"}, c_{"c"};
    const Var outer_ = planes_ % lanes == 0 ? v_.o : Var("co");  // the loop over all that is in the pads at a time
    ImageParam image_ = tensor("X", {pixels_, planes_}), weights_ = tensor("F", {taps_, channels_}),
               bias_ = tensor("bias", {channels_});
    Func raw_{"raw"}, rows_{"rows"}, raw_weights_{"raw_weights"}, part_{"part"}, framed_{"framed"}, raw_factors_{"raw_factors"},
        bias_row_{"bias_row"}, unknown_{"unknown"}, results_{"results"}, back_rows_{"back_rows"}, back_weights_{"back_weights"},
        back_part_{"back_part"}, finished_{"finished"}, out_{"Y"};
    std::optional<Turn> factors_;
    const std::vector<RDom> borders_ = borders();
    // Elements of a block, bands, parts of a row; what comes together.
    RDom inside_{0, size(plan_.image.elements), 0,       size(plan_.bands), 0, size(plan_.image.parts),
                 0, size(plan_.chunks()),       "inside"};
    std::vector<Windows> windows_;
};

}  // namespace

KernelDefinition plane_pool_kernel(const PoolShape &shape, const Machine &machine, const Point &point) {
    return PlanePool(shape, machine, point).run();
}

}  // namespace atalla
