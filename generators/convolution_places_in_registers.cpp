#include "generators/convolution_places_in_registers.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "generators/pad_room.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// What a point makes of the shape.
struct PlacesPlan {
    PlacesPlan(const ConvolutionShape &shape, const Point &point)
        : tile_x(size(point["tile_x"])),
          tile_y(size(point["tile_y"])),
          rows_together(size(point["rows_together"])),
          block(size(std::min<int64_t>(lanes, shape.out))),
          span(size(shape.columns_read(tile_x))) {}
    int tile_x, tile_y, rows_together;
    int block;  // output channels that are weights at once
    int span;   // columns of the padded image that a row of a tile reads
};

class PlacesInRegisters {
public:
    PlacesInRegisters(const ConvolutionShape &shape, const Machine &machine, const Point &point)
        : s_(shape),
          machine_(machine),
          plan_(shape, point),
          in_(size(shape.in)),
          out_(size(shape.out)),
          width_(size(shape.width)),
          height_(size(shape.height)),
          kernel_x_(size(shape.kernel_x)) {}

    KernelDefinition build() {
        define_image();
        define_filter();
        define_result();
        schedule();
        KernelDefinition kernel = convolution_kernel(s_, out, x_, f_, bias_);
        // One pad each: long transfers, and no more than one row in a cycle is needed of either.
        for (const char *name : {"pixels", "filter", "biases", "finished"}) kernel.layouts[name] = {1, 0};
        return kernel;
    }

private:
    // Places of the padded image that a row of a tile reads, as they lie in memory.
    void define_image() {
        const Expr column = xt * (plan_.tile_x * size(s_.stride_x)) - size(s_.padding_x) + x,
                   row = (yt * plan_.tile_y + y) * size(s_.stride_y) - size(s_.padding_y) + ky * size(s_.dilation_y),
                   channel = cb * lanes + k;
        Expr inside = column >= 0 && column < width_ && row >= 0 && row < height_;
        if (in_ % lanes != 0) inside = inside && channel < in_;
        pixels(k, x, y, cb, ky, xt, yt, g, b) = bf16(0.0f);
        pixels(k, x, y, cb, ky, xt, yt, g, b) =
            select(inside, x_(g * in_ + min(channel, in_ - 1), clamp(column, 0, width_ - 1), clamp(row, 0, height_ - 1), b),
                   undef<BFloat>());
    }

    // A row of 32 channels for each output channel of a block, in the order in which they lie in memory.
    void define_filter() {
        const Expr channel = cb * lanes + k, of = oo * lanes + o;
        Expr inside;
        const auto demand = [&](const Expr &condition) { inside = inside.defined() ? inside && condition : condition; };
        if (in_ % lanes != 0) demand(channel < in_);
        if (out_ % plan_.block != 0) demand(of < out_);
        const Expr value = f_((ky * kernel_x_ + kx) * in_ + min(channel, in_ - 1), g * out_ + min(of, out_ - 1));
        if (inside.defined()) {
            filter(k, o, kx, cb, ky, oo, g) = bf16(0.0f);
            filter(k, o, kx, cb, ky, oo, g) = select(inside, value, undef<BFloat>());
        } else {
            filter(k, o, kx, cb, ky, oo, g) = value;
        }
        weights(k, w, kx, cb, ky, oo, g) = undef<BFloat>();
        const Expr stored = s_.packed_channel(Expr(of_block));
        weights(k, of_block, kx, cb, ky, oo, g) = filter(k, min(stored, plan_.block - 1), kx, cb, ky, oo, g);
    }

    void define_result() {
        const Expr column = x * size(s_.stride_x) + kx * size(s_.dilation_x);
        product(o, x, y, kx, cb, ky, oo, xt, yt, g, b) = 0.0f;
        product(o, x, y, kx, cb, ky, oo, xt, yt, g, b) +=
            f32(pixels(q, column, y, cb, ky, xt, yt, g, b)) * f32(weights(q, o, kx, cb, ky, oo, g));
        Expr start = sum_start(machine_);
        if (s_.bias) {
            const Expr channel = oo * lanes + o;
            biases(o, oo, g) = bf16(0.0f);
            biases(o, oo, g) = select(channel < out_, bias_(g * out_ + min(channel, out_ - 1)), undef<BFloat>());
            start = biases(o, oo, g);
        }
        sums(o, x, y, oo, xt, yt, g, b) = start;
        sums(o, x, y, oo, xt, yt, g, b) =
            strict_float(sums(o, x, y, oo, xt, yt, g, b) + bf16(product(o, x, y, r.x, r.y, r.z, oo, xt, yt, g, b)));
        finished(o, x, y, oo, g, b) =
            s_.epilogue.apply(sums(o, x % plan_.tile_x, y % plan_.tile_y, oo, x / plan_.tile_x, y / plan_.tile_y, g, b));
        out(o, x, y, g, b) = finished(o % lanes, x, y, o / lanes, g, b);
    }

    void schedule() {
        const int columns = size(s_.columns()), rows = size(s_.rows());
        const int extents[] = {out_, columns, rows, size(s_.groups), size(s_.images)};
        const Var vars[] = {o, x, y, g, b};
        for (size_t d = 0; d < 5; d++) out.bound(vars[d], 0, extents[d]);
        fix_shape(out.output_buffer(), {out_, columns, rows, s_.groups, s_.images});
        const int place = out_ * size(s_.groups), strides[] = {1, place, columns * place, out_, rows * columns * place};
        for (int d = 1; d < 5; d++) out.output_buffer().dim(d).set_stride(strides[d]);
        const Var oi("oi"), xi("xi"), yi("yi_unroll");
        out.split(x, xt, xi, plan_.tile_x, TailStrategy::GuardWithIf)
            .split(y, yt, yi, plan_.tile_y, TailStrategy::GuardWithIf)
            .split(o, oo, oi, plan_.block, TailStrategy::GuardWithIf)
            .reorder({oi, xi, yi, oo, xt, yt, g, b});
        whole_loops(out);

        finished.compute_at(out, yi).bound_extent(o, lanes).bound_extent(x, plan_.tile_x).vectorize(o, lanes);
        sums.compute_at(out, oo)
            .bound_extent(o, lanes)
            .bound_extent(x, plan_.tile_x)
            .bound_extent(y, plan_.tile_y)
            .vectorize(o, lanes);
        const Var batch("batch");
        sums.update()
            .split(y, batch, y, plan_.rows_together, TailStrategy::GuardWithIf)
            .reorder({o, x, y, batch, r.x, r.y, r.z})
            .vectorize(o, lanes);
        // The rows of a tile that are in the pads at once serve all columns of the kernel.
        pixels.compute_at(plan_.rows_together == plan_.tile_y ? LoopLevel(sums, r.y) : LoopLevel(sums, batch))
            .bound_extent(k, lanes)
            .bound(x, 0, plan_.span)
            .bound_extent(y, plan_.rows_together)
            .vectorize(k, lanes)
            .unroll(y);
        weights.compute_at(sums, r.x)
            .bound_extent(k, lanes)
            .bound_extent(w, lanes)
            .update()
            .rename(of_block, RVar("w_unroll"))
            .vectorize(k, lanes);
        filter.compute_at(sums, r.x).bound_extent(k, lanes).bound_extent(o, plan_.block).vectorize(k, lanes);
        as_array_row(product.compute_at(sums, x), o, q);
        if (s_.bias) {
            biases.compute_at(out, oo).bound_extent(o, lanes).vectorize(o, lanes);
            in_pads({biases});
        }
        in_registers({weights, product, sums});
        in_pads({pixels, filter, finished});
    }

    const ConvolutionShape &s_;
    const Machine &machine_;
    const PlacesPlan plan_;
    const int in_, out_, width_, height_, kernel_x_;
    ImageParam x_ = tensor("X", s_.x_extents()), f_ = tensor("F", {s_.kernel_y * s_.kernel_x * in_, s_.out *s_.groups}),
               bias_ = tensor("bias", s_.bias_extents());
    // What surrounds a tile differs from tile to tile along a row, each of which has code of its own.
    Var k{"k"}, x{"x"}, y{"y"}, cb{"cb"}, kx{"kx"}, ky{"ky"}, o{"o"}, oo{"oo"}, w{"w"}, g{"g"}, b{"b"}, yt{"yt"},
        xt{plan_.tile_x < s_.columns() ? "xt_unroll" : "xt"};
    Func pixels{"pixels"}, filter{"filter"}, weights{"weights"}, product{"product"}, sums{"sums"}, biases{"biases"},
        finished{"finished"}, out{"Y_out"};
    RDom q{0, lanes, "q"}, of_block{0, std::max(plan_.block, 2), "of_block"};
    RDom r{0, kernel_x_, 0, tiles_of(in_), 0, size(s_.kernel_y), "r"};
};

bool fits_small_pads(const ConvolutionShape &shape, const Machine &machine, const PlacesPlan &plan) {
    return fit_pads(machine, {{int64_t{plan.rows_together} * plan.span, false},
                              {plan.block, false},
                              {plan.tile_x, false},
                              {shape.bias ? 1 : 0, false}});
}

// The sizes of equal parts.
std::vector<int64_t> parts_of(int64_t extent, int64_t most) {
    std::vector<int64_t> parts;
    for (int64_t count = ceil_div(extent, most); count <= extent; count++)
        if (const int64_t part = ceil_div(extent, count); parts.empty() || parts.back() != part) parts.push_back(part);
    return parts;
}

}  // namespace

bool has_small_pads(const Machine &machine) { return machine.pad.count * machine.pad_rows() < 4 * lanes; }

Space convolution_places_space(const ConvolutionShape &shape, const Machine &machine) {
    constexpr int64_t registers_in_flight = 60;
    const int64_t most_sums = machine.regs.vector - 1 - registers_in_flight;
    Space space;
    space.parameter("tile_x", "places of a row whose sums stay in registers", parts_of(shape.columns(), machine.pad_rows()))
        .parameter("tile_y", "rows of them", parts_of(shape.rows(), most_sums))
        .parameter("rows_together", "rows of them whose part of the image is in the pads at once",
                   parts_of(std::min(shape.rows(), machine.pad_rows()), machine.pad_rows()));
    space.constraint("registers", {"tile_x", "tile_y"}, "The sums of a tile fit the register file.",
                     [=](const Point &point) { return point["tile_x"] * point["tile_y"] <= most_sums; });
    space.constraint("rows together", {"tile_y", "rows_together"}, "Rows that are together divide those of a tile.",
                     [](const Point &point) { return point["tile_y"] % point["rows_together"] == 0; });
    space.constraint("pads", {"tile_x", "rows_together"},
                     "The part of the image, the weights and a row of results fit the pads.", [=](const Point &point) {
                         Point whole = point;
                         whole.set("tile_y", 1);
                         return fits_small_pads(shape, machine, PlacesPlan(shape, whole));
                     });
    return space;
}

Point convolution_places_naive_point(const ConvolutionShape &shape, const Machine &machine) {
    Point naive;
    for_each(convolution_places_space(shape, machine), [&](const Point &point) {
        naive = point;
        return point["tile_y"] > 1;
    });
    return naive;
}

double convolution_places_draft(const ConvolutionShape &shape, const Machine &, const Point &point) {
    constexpr double transfer = 3, start = 60, around_tile = 10;
    const PlacesPlan plan(shape, point);
    const auto of = [](int64_t n) { return static_cast<double>(n); };
    const double batches = of(plan.tile_y / plan.rows_together), brings = batches > 1 ? of(shape.kernel_x) : 1;
    const double row_of_kernel = of(shape.kernel_x) * (of(plan.block) + transfer + of(int64_t{plan.tile_x} * plan.tile_y)) +
                                 brings * transfer * of(plan.tile_y);
    const double tile =
        of(shape.kernel_y * tiles_of(shape.in)) * row_of_kernel + of(plan.tile_y) * (of(plan.tile_x) + transfer) + around_tile;
    return start + of(shape.images * shape.groups * tiles_of(shape.out) * ceil_div(shape.columns(), plan.tile_x) *
                      ceil_div(shape.rows(), plan.tile_y)) *
                       tile;
}

std::string convolution_places_words(const Point &point) {
    return fmt::format("sums of {} x {} places in registers, {} rows of the image in the pads at a time", point["tile_y"],
                       point["tile_x"], point["rows_together"]);
}

KernelDefinition convolution_of_places_in_registers(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    return PlacesInRegisters(shape, machine, point).build();
}

}  // namespace atalla
