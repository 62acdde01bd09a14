#include "generators/convolution_in_registers.h"

#include <algorithm>
#include <limits>

#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Vector registers that weights, rows and products on their way need.
constexpr int64_t registers_in_flight = 60, registers_in_flight_per_column = 7;

class RegisterConvolutionPipeline {
public:
    RegisterConvolutionPipeline(const ConvolutionShape &shape, const Machine &machine, const Point &point)
        : given_(shape),
          machine_(machine),
          plan_(shape, machine, point),
          s_(plan_.shape),
          columns_(static_cast<int>(s_.columns())),
          width_(static_cast<int>(s_.width)),
          in_(static_cast<int>(s_.in)),
          out_(static_cast<int>(s_.out)),
          band_rows_(static_cast<int>(plan_.band.rows)),
          window_(static_cast<int>(plan_.band.window)),
          tile_channels_(static_cast<int>(plan_.band.channels)) {}

    KernelDefinition build() {
        define_image();
        define_filter();
        define_result();
        schedule();
        return kernel();
    }

private:
    // Columns of the image, of which the first may be outside of it, that the places of a tile read.
    Expr first_column() const { return xt * (plan_.places * static_cast<int>(s_.stride_x)) - static_cast<int>(s_.padding_x); }
    // The column in lane 0 of a vector of them.
    Expr lane_column(const Expr &vector) const {
        return width_ > lanes ? clamp(first_column() + vector * lanes, 0, width_ - lanes) : Expr(0);
    }

    // The image, lanes along its rows, and turned: lanes are the rows of a window of some channels.
    void define_image() {
        identity(k, i) = select(k == i, bf16(1.0f), bf16(0.0f));
        const int height = static_cast<int>(s_.height);
        const Expr row = yb * (band_rows_ * static_cast<int>(s_.stride_y)) - static_cast<int>(s_.padding_y) + y,
                   column = lane_column(v) + k, channel = ct * tile_channels_ + c;
        Expr inside = row >= 0 && row < height;
        if (width_ < lanes) inside = inside && column < width_;
        if (in_ % tile_channels_ != 0) inside = inside && channel < in_;
        raw(k, y, c, v, ct, xt, yb, g, b) = bf16(0.0f);
        raw(k, y, c, v, ct, xt, yb, g, b) = select(
            inside, x(min(column, width_ - 1), clamp(row, 0, height - 1), (b * groups() + g) * in_ + min(channel, in_ - 1)),
            undef<BFloat>());
        turned_weights(k, w, v, ct, xt, yb, g, b) = undef<BFloat>();
        const Expr lane = min(of_window, plan_.band.lanes() - 1),
                   value = raw(k, lane % window_, lane / window_, v, ct, xt, yb, g, b);
        turned_weights(k, of_window, v, ct, xt, yb, g, b) =
            plan_.band.lanes() < lanes ? select(of_window < plan_.band.lanes(), value, bf16(0.0f)) : value;
        turned(l, i, v, ct, xt, yb, g, b) = 0.0f;
        // Conditions keep rows and columns inside, which Halide does not see where vectors begin or end with the image.
        const Expr of_identity = unsafe_promise_clamped(i, 0, std::min(width_, lanes) - 1);
        turned(l, i, v, ct, xt, yb, g, b) += f32(identity(q, of_identity)) * f32(turned_weights(q, l, v, ct, xt, yb, g, b));

        const Expr at = from.y * lanes + from.x, in_image = first_column() + at;
        from.where(in_image >= 0 && in_image < width_ && at < plan_.span);
        image(l, j, ct, xt, yb, g, b) = bf16(0.0f);
        image(l, unsafe_promise_clamped(at, 0, plan_.span - 1), ct, xt, yb, g, b) =
            bf16(turned(l, in_image - lane_column(from.y), from.y, ct, xt, yb, g, b));
    }

    // A row of lanes for each row of the result, column of the kernel and k tile.
    void define_filter() {
        const int width = plan_.band.lanes();
        Expr inside = k < width;
        if (out_ % plan_.channels != 0) inside = inside && o < out_;
        filter(k, yl, o, kx, ct, g) = bf16(0.0f);
        filter(k, yl, o, kx, ct, g) =
            select(inside, f(min(k, width - 1), yl, min(o, out_ - 1), kx, g * tiles() + ct), undef<BFloat>());
    }

    void define_result() {
        product_weights(k, w, kx, ct, xt, yb, g, b) = undef<BFloat>();
        product_weights(k, of_places, kx, ct, xt, yb, g, b) =
            image(k, min(of_places, plan_.places - 1) * static_cast<int>(s_.stride_x) + kx * static_cast<int>(s_.dilation_x),
                  ct, xt, yb, g, b);
        product(p, yl, o, kx, ct, xt, yb, g, b) = 0.0f;
        product(p, yl, o, kx, ct, xt, yb, g, b) +=
            f32(filter(q, yl, o, kx, ct, g)) * f32(product_weights(q, p, kx, ct, xt, yb, g, b));
        sums(p, yl, o, xt, yb, g, b) = sum_start(machine_);
        sums(p, yl, o, xt, yb, g, b) =
            strict_float(sums(p, yl, o, xt, yb, g, b) + bf16(product(p, yl, o, r.x, r.y, xt, yb, g, b)));
        Expr e = sums(p, yl, o, xt, yb, g, b);
        if (s_.bias) {
            const Expr channel = oo * plan_.channels + j * lanes + l, in_block = o % plan_.channels;
            biases(l, j, oo, g) = bf16(0.0f);
            biases(l, j, oo, g) = select(j * lanes + l < plan_.channels && channel < out_,
                                         bias(g * out_ + min(channel, out_ - 1)), undef<BFloat>());
            e = strict_float(e + biases(in_block % lanes, in_block / lanes, o / plan_.channels, g));
        }
        finished(p, yl, o, xt, yb, g, b) = s_.epilogue.apply(e);
        out(x_, y_, o, g, b) = finished(x_ % plan_.places, y_ % band_rows_, o, x_ / plan_.places, y_ / band_rows_, g, b);
    }

    int groups() const { return static_cast<int>(s_.groups); }
    int tiles() const { return static_cast<int>(plan_.band.tiles); }

    void schedule_dot(Func weights, const RDom &filled, int count, Func part, Func consumer, RVar level, VarOrRVar row,
                      Var lane) {
        RVar outer("outer"), inner("w_unroll");
        weights.compute_at(LoopLevel(consumer, level))
            .bound_extent(k, lanes)
            .bound_extent(w, lanes)
            .update()
            .split(filled.x, outer, inner, count)
            .vectorize(k, lanes);
        as_array_row(part.compute_at(LoopLevel(consumer, row)), lane, q);
        in_registers({weights, part});
    }

    void schedule() {
        const int extents[] = {columns_, static_cast<int>(s_.rows()), out_, groups(), static_cast<int>(s_.images)};
        Var vars[] = {x_, y_, o, g, b};
        for (size_t d = 0; d < 5; d++) out.bound(vars[d], 0, extents[d]);
        fix_shape(out.output_buffer(), {columns_, s_.rows(), out_, s_.groups, s_.images});
        Var xi("xi"), yi("yi"), oi("oi"), op("op");
        out.split(x_, xt, xi, plan_.places, TailStrategy::GuardWithIf).split(y_, yb, yi, band_rows_, TailStrategy::GuardWithIf);
        out.split(o, oo, oi, plan_.channels, TailStrategy::GuardWithIf)
            .split(oi, op, oi, plan_.result_pass, TailStrategy::GuardWithIf);
        out.reorder({xi, yi, oi, op, oo, xt, yb, g, b});
        whole_loops(out);

        identity.compute_root().bound(k, 0, lanes).bound(i, 0, std::min(lanes, width_)).vectorize(k, lanes);
        raw.compute_at(image, from.y)
            .vectorize(k, lanes)
            .bound_extent(y, window_)
            .bound_extent(c, tile_channels_)
            .unroll(y)
            .unroll(c);
        if (tile_channels_ > window_) raw.reorder_storage(k, c, y, v, ct, xt, yb, g, b);
        image.compute_at(sums, r.y)
            .vectorize(l, lanes)
            .bound_extent(l, lanes)
            .bound_extent(j, plan_.span)
            .update()
            .reorder(l, from.x, from.y)
            .vectorize(l, lanes);
        schedule_dot(turned_weights, of_window, lanes, turned, image, from.y, from.x, l);

        sums.compute_at(out, oo)
            .bound_extent(p, lanes)
            .bound_extent(yl, band_rows_)
            .bound_extent(o, plan_.channels)
            .vectorize(p, lanes);
        Var pass("pass");
        sums.update()
            .split(o, pass, o, plan_.pass, TailStrategy::GuardWithIf)
            .reorder(p, yl, o, pass, r.x, r.y)
            .vectorize(p, lanes);
        filter.compute_at(sums, pass)
            .vectorize(k, lanes)
            .bound_extent(k, lanes)
            .bound_extent(yl, band_rows_)
            .bound_storage(o, plan_.pass);
        schedule_dot(product_weights, of_places, std::max(plan_.places, 2), product, sums, r.x, yl, p);
        if (s_.bias) {
            biases.compute_at(out, op).bound_extent(l, lanes).bound_extent(j, plan_.bias_rows()).vectorize(l, lanes);
            in_pads({biases});
        }
        finished.compute_at(out, op)
            .bound_extent(p, lanes)
            .bound_extent(yl, band_rows_)
            .bound_storage(o, plan_.result_pass)
            .vectorize(p, lanes);
        in_registers({identity, image, sums});
        in_pads({raw, filter, finished});
    }

    KernelDefinition kernel() const {
        KernelDefinition kernel = convolution_kernel(given_, out, x, f, bias);
        // One pad each: long transfers, and no more than one row in a cycle is needed of either.
        for (const char *name : {"raw", "filter", "biases", "finished"}) kernel.layouts[name] = {1, 0};
        return kernel;
    }

    const ConvolutionShape &given_;
    const Machine &machine_;
    const RegisterConvolutionPlan plan_;
    const ConvolutionShape &s_;
    const int columns_, width_, in_, out_, band_rows_, window_, tile_channels_;

    ImageParam x = tensor("X", s_.x_extents()),
               f = tensor("F", {plan_.band.lanes(), band_rows_, out_, s_.kernel_x, tiles() * s_.groups}),
               bias = tensor("bias", s_.bias_extents());
    Var k{"k"}, l{"l"}, i{"i"}, j{"j"}, w{"w"}, y{"y"}, c{"c"}, v{"v"}, ct{"ct"},
        xt{columns_ > plan_.places ? "xt_unroll" : "xt"},
        yb{window_ == 1 && s_.padding_y > 0 ? "yb_unroll" : "yb"},  // the only row of a window is there or not
        g{"g"}, b{"b"}, o{"o"}, oo{"oo"}, yl{"yl"}, kx{"kx"}, p{"p"}, x_{"x"}, y_{"y_out"};
    Func raw{"raw"}, turned_weights{"turned_weights"}, turned{"turned"}, image{"image"}, identity{"identity"}, filter{"filter"},
        product_weights{"product_weights"}, product{"product"}, sums{"sums"}, biases{"biases"}, finished{"finished"},
        out{"Y_out"};
    RDom q{0, lanes, "q"}, of_window{0, lanes, "of_window"}, of_places{0, std::max(plan_.places, 2), "of_places"};
    RDom from{0, plan_.windows > 1 ? lanes : plan_.span, 0, plan_.windows, "from"},
        r{0, static_cast<int>(s_.kernel_x), 0, tiles(), "r"};
};

}  // namespace

RegisterConvolutionPlan::RegisterConvolutionPlan(const ConvolutionShape &given, const Machine &machine, const Point &point)
    : shape(given.in_one_line()),
      band(given.band()),
      places(static_cast<int>(point["places"])),
      channels(static_cast<int>(point["channels"])),
      rows(channels * static_cast<int>(band.rows)),
      pass(std::min(static_cast<int>(point["pass"]), channels)),
      span(static_cast<int>(shape.columns_read(places))),
      windows(shape.width > lanes ? ceil_div(span, lanes) : 1) {
    const int pad = static_cast<int>(std::min<int64_t>(machine.pad_rows(), lanes)), band_rows = static_cast<int>(band.rows);
    result_pass = std::min(channels, (std::max(pad - band.lanes(), pad - pass * band_rows) - bias_rows()) / band_rows);
}

int RegisterConvolutionPlan::bias_rows() const { return shape.bias ? ceil_div(channels, lanes) : 0; }
int RegisterConvolutionPlan::registers() const { return rows + span + std::min<int>(lanes, static_cast<int>(shape.width)); }

namespace {

// The part of the image that a tile reads, its sums and the rows of the identity fit the register file.
bool fits_registers(const RegisterConvolutionPlan &plan, const Machine &machine) {
    return plan.registers() <=
           machine.regs.vector - 1 - registers_in_flight - registers_in_flight_per_column * plan.shape.kernel_x;
}

// The window of a k tile, and the rows that pass, fit the pads.
bool fits_pads(const RegisterConvolutionPlan &plan, const Machine &machine) {
    return plan.pass * plan.band.rows + plan.bias_rows() <= machine.pad_rows() && plan.result_pass > 0;
}

std::vector<int64_t> parts_of(int64_t extent, int64_t first, int64_t least) {
    std::vector<int64_t> parts;
    for (int64_t count = first; count <= extent; count++) {
        const int64_t part = ceil_div(extent, count);
        if (part < least && part < extent && !parts.empty()) break;
        if (parts.empty() || parts.back() != part) parts.push_back(part);
    }
    return parts;
}

std::vector<int64_t> parts_of_columns(const ConvolutionShape &shape) {
    const auto columns = shape.in_one_line().columns();
    constexpr int64_t fewest = 4;
    return parts_of(columns, tiles_of(columns), fewest);
}
std::vector<int64_t> parts_of_channels(const ConvolutionShape &shape) { return parts_of(shape.out, 1, 1); }

// An infinity becomes NaN in the columns that are turned with it. Where a tile's are not all of a row, all schedules, and the
// unoptimized one, have these tiles: those of the least draft. 0: any.
int64_t places_of_wide_images(const ConvolutionShape &shape, const Machine &machine) {
    if (shape.in_one_line().width <= lanes || shape.band().window == 0) return 0;
    int64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (const int64_t places : parts_of_columns(shape))
        for (const int64_t channels : parts_of_channels(shape))
            for (int64_t pass = std::min(channels, int64_t{lanes}); pass > 0; pass--) {
                const Point point{{"places", places}, {"channels", channels}, {"pass", pass}};
                const RegisterConvolutionPlan plan(shape, machine, point);
                if (!fits_registers(plan, machine)) break;
                if (!fits_pads(plan, machine)) continue;
                const double cycles = register_convolution_draft(shape, machine, point);
                if (cycles < least) least = cycles, best = places;
                break;
            }
    return best;
}

}  // namespace

Space register_convolution_space(const ConvolutionShape &shape, const Machine &machine) {
    std::vector<int64_t> places = parts_of_columns(shape), channels = parts_of_channels(shape), passes;
    for (int64_t pass = 1; pass <= std::min(shape.out, int64_t{lanes}); pass++) passes.push_back(pass);
    std::reverse(places.begin(), places.end());
    std::reverse(channels.begin(), channels.end());
    if (const int64_t all = places_of_wide_images(shape, machine); all > 0) places = {all};
    Space space;
    space.parameter("places", "columns of the result that are weights at once", places)
        .parameter("channels", "output channels whose sums stay in registers", channels)
        .parameter("pass", "output channels whose weights pass through the pads at once", passes);
    space.constraint("registers", {"places", "channels"},
                     "The part of the image that a tile reads, its sums and the rows of the identity fit the register file.",
                     [=](const Point &point) {
                         Point whole = point;
                         if (!whole.contains("pass")) whole.set("pass", 1);
                         return fits_registers(RegisterConvolutionPlan(shape, machine, whole), machine);
                     });
    space.constraint("pads", {"places", "channels", "pass"}, "The window of a k tile, and the rows that pass, fit the pads.",
                     [=](const Point &point) {
                         return shape.band().window > 0 && fits_pads(RegisterConvolutionPlan(shape, machine, point), machine);
                     });
    return space;
}

Point register_convolution_naive_point(const ConvolutionShape &shape, const Machine &machine) {
    const int64_t columns = shape.in_one_line().columns(), all = places_of_wide_images(shape, machine);
    return {{"places", all > 0 ? all : std::min<int64_t>(columns, lanes / 2)}, {"channels", 1}, {"pass", 1}};
}

double register_convolution_draft(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    const RegisterConvolutionPlan plan(shape, machine, point);
    const ConvolutionShape &s = plan.shape;
    const auto ceil_of = [](int64_t a, int64_t b) { return static_cast<double>(ceil_div(a, b)); };
    const double turn = static_cast<double>(plan.windows * plan.band.lanes() + std::min<int64_t>(plan.span, s.width));
    const double transfers = ceil_of(plan.channels, plan.pass) * 6,
                 product = static_cast<double>(s.kernel_x) * (plan.places + plan.rows + transfers);
    const double result = plan.rows + ceil_of(plan.channels, std::max(1, plan.result_pass)) * 8;
    const double tiles = static_cast<double>(s.images * s.groups) * ceil_of(s.rows(), plan.band.rows) *
                         ceil_of(s.columns(), plan.places) * ceil_of(s.out, plan.channels);
    return 100 + tiles * (static_cast<double>(plan.band.tiles) * (turn + product + 20) + result);
}

KernelDefinition convolution_in_registers(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    return RegisterConvolutionPipeline(shape, machine, point).build();
}

}  // namespace atalla
