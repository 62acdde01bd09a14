#include "generators/convolution.h"

#include <algorithm>

#include "generators/vocabulary.h"
#include "isa/error.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

constexpr int lanes = 32;

int tiles_of(int n) { return (n + lanes - 1) / lanes; }

struct Dot {
    Func weights, part;
    explicit Dot(const std::string &name) : weights(name + "_weights"), part(name + "_part") {}
};

class ConvolutionPipeline {
public:
    ConvolutionPipeline(const ConvolutionShape &shape, const Machine &machine, const Point &point)
        : shape_(shape), machine_(machine), folded_(shape.rows_on_lanes()), channels_(static_cast<int>(shape.lane_channels())), channel_tiles_(tiles_of(channels_)),
          taps_y_(folded_ ? 1 : static_cast<int>(shape.kernel_y)), taps_x_(static_cast<int>(shape.kernel_x)), taps_(taps_x_ * taps_y_), out_(static_cast<int>(shape.out)),
          columns_(static_cast<int>(shape.columns())), block_rows_(static_cast<int>(point["rows"])), blocks_(static_cast<int>(shape.rows()) / block_rows_),
          pixels_(block_rows_ * columns_), width_(static_cast<int>(shape.width)), row_unroll_(static_cast<int>(point["row_unroll"])),
          weight_unroll_(static_cast<int>(point["weight_unroll"])) {
        if (shape.rows() % block_rows_ != 0) throw Error("convolution: the rows of a block must divide those of the result");
    }

    KernelDefinition build() {
        identity(k, i) = select(k == i, bf16(1.0f), bf16(0.0f));
        define_image();
        define_kernel();
        define_result();
        schedule();
        return kernel();
    }

private:
    // The image, a row of 32 channels for each place: brought as it is, turned, with zeros left and right of it. Rows are
    // places of the padded image, or of the result where the kernel's rows are on lanes.
    void define_image() {
        const Expr channel = cb * lanes + l;
        const int kernel_y = static_cast<int>(shape_.kernel_y), stride = static_cast<int>(shape_.stride_y), dilation = static_cast<int>(shape_.dilation_y);
        const int padding = static_cast<int>(shape_.padding_y), height = static_cast<int>(shape_.height), in = static_cast<int>(shape_.in);
        const Expr row = folded_ ? y * stride + (channel % kernel_y) * dilation - padding : y - padding;
        const Expr own = folded_ ? channel / kernel_y : channel, at = xb * lanes + k;
        Expr inside = at < width_ && channel < channels_ && row >= 0 && row < height;
        raw(k, l, y, xb, cb, g, b) = bf16(0.0f);
        raw(k, l, y, xb, cb, g, b) = select(inside, x(min(at, width_ - 1), clamp(row, 0, height - 1), (b * groups() + g) * in + min(own, in - 1)), undef<BFloat>());
        turn(turned, raw(k, w, y, xb, cb, g, b), xb, {y, cb, g, b});
        image(l, px, y, cb, g, b) = bf16(0.0f);
        image(l, places + static_cast<int>(shape_.padding_x), y, cb, g, b) = bf16(turned.part(l, places, y, cb, g, b));
    }
    // The kernel: for each output channel and tap a row of 32 channels.
    void define_kernel() {
        const Expr channel = cb * lanes + l, tap = tb * lanes + k;
        // Taps and channels follow each other in memory as the columns and rows of a matrix for each output channel.
        const Expr inside = tap < taps_ && channel < channels_ && o < out_;
        raw_kernel(k, l, o, tb, cb, g) = bf16(0.0f);
        raw_kernel(k, l, o, tb, cb, g) = select(inside, f(min(tap, taps_ - 1), min(channel, channels_ - 1), g * out_ + min(o, out_ - 1)), undef<BFloat>());
        turn(turned_kernel, raw_kernel(k, w, o, tb, cb, g), tb, {o, cb, g});
        filter(l, o, t, cb, g) = bf16(turned_kernel.part(l, t, o, cb, g));
    }
    // Rows of the identity through `tile`, whose rows are the weights: row i of the product is column i of the tiles, of which
    // `block` counts.
    void turn(Dot &dot, const Expr &tile, const Var &block, const std::vector<Var> &others) {
        std::vector<Var> weights = {k, w, block}, part = {l, i};
        std::vector<Expr> read = {q, l, i / lanes};
        for (const Var &other : others) {
            weights.push_back(other);
            part.push_back(other);
            read.push_back(other);
        }
        dot.weights(weights) = tile;
        dot.part(part) = 0.0f;
        dot.part(part) += f32(identity(q, i % lanes)) * f32(dot.weights(read));
    }

    void define_result() {
        product.weights(k, w, co, t, cb, g) = filter(k, co * lanes + w, t, cb, g);
        product.part(o, rx, ry, vx, vy, yb, co, cb, g, b) = 0.0f;
        const Expr row = folded_ ? yb * block_rows_ + ry : (yb * block_rows_ + ry) * static_cast<int>(shape_.stride_y) + vy * static_cast<int>(shape_.dilation_y);
        const Expr column = rx * static_cast<int>(shape_.stride_x) + vx * static_cast<int>(shape_.dilation_x);
        product.part(o, rx, ry, vx, vy, yb, co, cb, g, b) += f32(image(q, column, row, cb, g, b)) * f32(product.weights(q, o, co, vy * taps_x_ + vx, cb, g));
        sums(o, p, yb, co, g, b) = bf16(-0.0f);
        const Expr at = r.y * columns_ + r.x;
        sums(o, at, yb, co, g, b) = strict_float(sums(o, at, yb, co, g, b) + bf16(product.part(o, r.x, r.y, r.z, r.w, yb, co, tile, g, b)));
        Expr e = sums(o, p, yb, co, g, b);
        if (shape_.bias) {
            biases(o, co, g) = bf16(0.0f);
            biases(o, co, g) = select(co * lanes + o < out_, bias(g * out_ + min(co * lanes + o, out_ - 1)), undef<BFloat>());
            e = strict_float(e + biases(o, co, g));
        }
        finished(o, p, yb, co, g, b) = e;
        // Back: 32 places are the weights, and row i of the product is output channel i.
        back.weights(k, w, pt, yb, co, g, b) = finished(k, pt * lanes + w, yb, co, g, b);
        back.part(l, i, pt, yb, co, g, b) = 0.0f;
        back.part(l, i, pt, yb, co, g, b) += f32(identity(q, i)) * f32(back.weights(q, l, pt, yb, co, g, b));
        planes(l, i, pt, yb, co, g, b) = bf16(back.part(l, i, pt, yb, co, g, b));
        out(p, yb, o, g, b) = planes(p % lanes, o % lanes, p / lanes, yb, o / lanes, g, b);
    }

    int groups() const { return static_cast<int>(shape_.groups); }

    void schedule_dot(Dot &dot, Func consumer, VarOrRVar level, VarOrRVar row, Var lane) {
        dot.weights.compute_at(LoopLevel(consumer, level)).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        if (weight_unroll_ > 1) dot.weights.split(w, w, wi, weight_unroll_);
        dot.part.compute_at(LoopLevel(consumer, row)).vectorize(lane, lanes).update().reorder(q, lane).atomic().vectorize(lane, lanes).vectorize(q);
        in_registers({dot.weights, dot.part});
    }

    void schedule() {
        const int extents[] = {pixels_, blocks_, out_, groups(), static_cast<int>(shape_.images)};
        Var vars[] = {p, yb, o, g, b};
        for (size_t d = 0; d < 5; d++) out.bound(vars[d], 0, extents[d]);
        Var pl("pl"), pq("pq"), oo("oo"), oi("oi");
        out.split(p, pq, pl, lanes, TailStrategy::GuardWithIf).split(o, oo, oi, std::min(lanes, out_), TailStrategy::GuardWithIf);
        out.reorder({pl, pq, oi, oo, yb, g, b});
        whole_loops(out);
        fix_shape(out.output_buffer(), {pixels_, blocks_, out_, shape_.groups, shape_.images});

        identity.compute_root().bound(k, 0, lanes).bound(i, 0, lanes).vectorize(k, lanes);
        raw.compute_at(out, yb).vectorize(k, lanes).bound_extent(l, lanes);
        image.compute_at(out, yb).vectorize(l, lanes).bound_extent(l, lanes);
        RVar po("po"), pi("pi");
        image.update().split(places.x, po, pi, lanes, TailStrategy::GuardWithIf).reorder(l, pi, po, y, cb).vectorize(l, lanes);
        schedule_dot(turned, image, po, pi, l);

        raw_kernel.compute_at(out, oo).vectorize(k, lanes).bound_extent(l, lanes).bound_extent(o, lanes);
        Var to("to"), ti("ti");
        filter.compute_at(out, oo).bound_extent(l, lanes).bound_extent(o, lanes).bound_extent(t, taps_).split(t, to, ti, std::min(taps_, lanes), TailStrategy::GuardWithIf).reorder(l, ti, to, o, cb).vectorize(l, lanes);
        schedule_dot(turned_kernel, filter, to, ti, l);

        sums.compute_at(out, oo).bound_extent(o, lanes).vectorize(o, lanes).bound_extent(p, stored_pixels());
        Stage update = sums.update();
        RVar column = r.x;
        std::vector<VarOrRVar> order = {o};
        if (row_unroll_ > 1) {
            RVar xo("xo"), xi("x_unroll");
            update.split(r.x, xo, xi, row_unroll_);
            order.push_back(xi);
            order.push_back(xo);
            column = xi;
        } else {
            order.push_back(r.x);
        }
        order.insert(order.end(), {r.y, r.z, r.w, tile});
        update.reorder(order).vectorize(o, lanes);
        schedule_dot(product, sums, r.z, column, o);
        if (shape_.bias) {
            biases.compute_at(out, oo).bound_extent(o, lanes).vectorize(o, lanes);
            in_pads({biases});
        }
        finished.compute_at(out, oo).bound_extent(o, lanes).vectorize(o, lanes).bound_extent(p, stored_pixels());
        planes.compute_at(out, oo).bound_extent(l, lanes).bound_extent(i, lanes).bound_extent(pt, stored_pixels() / lanes).vectorize(l, lanes);
        Var iu("i_unroll");
        planes.split(i, i, iu, weight_unroll_).reorder(l, iu, i, pt);
        schedule_dot(back, planes, pt, iu, l);
        if (machine_.pad.count > 1) {
            Var pu("p_unroll");
            finished.split(p, p, pu, static_cast<int>(machine_.pad.count));
        }
        in_pads({raw, image, raw_kernel, filter, identity, sums, finished, planes});
    }
    int stored_pixels() const { return tiles_of(pixels_) * lanes; }

    KernelDefinition kernel() const {
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out);
        kernel.arguments = {x, f};
        kernel.inputs = {{"X", shape_.x_extents()}, {"F", shape_.f_extents()}};
        if (shape_.bias) {
            kernel.arguments.push_back(bias);
            kernel.inputs.push_back({"bias", shape_.bias_extents()});
        }
        kernel.outputs = {{"Y", shape_.out_extents()}};
        return kernel;
    }

    const ConvolutionShape &shape_;
    const Machine &machine_;
    const bool folded_;   // the kernel's rows are on lanes
    const int channels_, channel_tiles_, taps_y_, taps_x_, taps_, out_, columns_, block_rows_, blocks_, pixels_, width_, row_unroll_, weight_unroll_;

    ImageParam x = tensor("X", shape_.x_extents()), f = tensor("F", {taps_, channels_, shape_.out * shape_.groups}), bias = tensor("bias", shape_.bias_extents());
    Var k{"k"}, l{"l"}, w{"w"}, wi{"w_unroll"}, i{"i"}, y{"y"}, xb{"xb"}, px{"px"}, cb{"cb"}, g{"g"}, b{"b"}, o{"o"}, t{"t"}, tb{"tb"}, co{"co"}, p{"p"}, pt{"pt"}, yb{"yb"},
        rx{"rx"}, ry{"ry"}, vx{"vx"}, vy{"vy"};
    Func raw{"raw"}, image{"image"}, raw_kernel{"raw_kernel"}, filter{"filter"}, identity{"identity"}, sums{"sums"}, biases{"biases"}, finished{"finished"}, planes{"planes"},
        out{"Y_out"};
    Dot turned{"turned"}, turned_kernel{"turned_kernel"}, product{"product"}, back{"back"};
    RDom q{0, lanes, "q"}, places{0, width_, "places"}, all{0, columns_, 0, block_rows_, 0, taps_x_, 0, taps_y_, 0, channel_tiles_, "r"};
    struct {
        RVar x, y, z, w;
    } r{all[0], all[1], all[2], all[3]};
    RVar tile = all[4];
};

}  // namespace

KernelDefinition convolution(const ConvolutionShape &shape, const Machine &machine, const Point &point) { return ConvolutionPipeline(shape, machine, point).build(); }

}  // namespace atalla
