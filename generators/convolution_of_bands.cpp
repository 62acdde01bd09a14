#include "generators/convolution_of_bands.h"

#include <algorithm>

#include "generators/convolution_image.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

class BandsPipeline : ConvolutionImage {
public:
    BandsPipeline(const ConvolutionShape &shape, const Machine &machine, const Point &point)
        : ConvolutionImage(shape, machine, point),
          channels_(static_cast<int>(point["channels"])),
          in_line_(shape.shared_columns() > 0),
          r(0, static_cast<int>(shape.k_tiles()), point["first_apart"] != 0 ? "r" : "r_alike") {}

    KernelDefinition build() {
        define_image();
        define_filter();
        if (shape_.bias) define_bias();
        define_result();
        schedule_image(out);
        schedule();
        if (shape_.bias) schedule_bias();
        KernelDefinition kernel = kernel_of(out, f, bias);
        if (machine_.timed()) {
            kernel.layouts["filter"] = {0, tap_tiles_ * band_};
            // One transfer a pad for all rows of a tile, or for an output channel's results of several strips.
            const int pads = static_cast<int>(machine_.pad.count), rows = channels_ * band_;
            if (leave_ > 1)
                kernel.layouts["finished"] = {0, leave_};
            else if (rows % pads == 0 && rows / pads <= lanes)
                kernel.layouts["finished"] = {0, rows / pads};
        }
        return kernel;
    }

private:
    // A row for each column of the kernel, row of a band and output channel.
    void define_filter() {
        if (shape_.packs_lanes()) {
            filter(k, t, yi, o, g) = f(t * lanes + k, yi, g * out_ + shape_.packed_channel(Expr(o)));
            return;
        }
        filter(k, t, yi, o, g) = bf16(0.0f);
        filter(k, t, yi, o, g) = select(k < depth_, f(t * depth_ + min(k, depth_ - 1), yi, g * out_ + o), undef<BFloat>());
    }

    // A row for each output channel with its bias in all lanes: a column of a tile whose rows are alike. An infinity or NaN
    // spreads over its 32 channels, the same ones whatever the schedule is.
    void define_bias() {
        const Expr channel = jb * lanes + k;
        biases(k, jb, oc, g) = bf16(0.0f);
        biases(k, jb, oc, g) =
            select(channel < spread_together_, bias(g * out_ + oc * spread_together_ + min(channel, spread_together_ - 1)),
                   undef<BFloat>());
        turn(spread, biases(k, jb, oc, g), l, jb, {oc, g});
        everywhere(l, i, oc, g) = bf16(spread.part(l, i, oc, g));
    }

    Expr place(const Expr &at) {
        return in_line_ ? image(k, line_lead() + at, t, yb, g, b) : image(k, at, image_row(pt, t), yb, g, b);
    }

    void define_result() {
        product.weights(k, w, xt, pt, t, yb, g, b) = undef<BFloat>();
        product.weights(k, of_places, xt, pt, t, yb, g, b) = place(xt * places_ + min(of_places, places_ - 1));
        product.part(l, yi, o, xt, pt, t, yb, g, b) = 0.0f;
        product.part(l, yi, o, xt, pt, t, yb, g, b) +=
            f32(filter(q, t, yi, o, g)) * f32(product.weights(q, l, xt, pt, t, yb, g, b));
        sums(l, yi, o, xt, pt, yb, g, b) =
            shape_.bias ? Expr(everywhere(l, o % spread_together_, o / spread_together_, g)) : sum_start(machine_);
        sums(l, yi, o, xt, pt, yb, g, b) =
            strict_float(sums(l, yi, o, xt, pt, yb, g, b) + bf16(product.part(l, yi, o, xt, pt, r, yb, g, b)));
        finished(l, xt, o, yi, pt, yb, g, b) = shape_.epilogue.apply(sums(l, yi, o, xt, pt, yb, g, b));
        out(p, yi, pt, yb, o, g, b) = finished(p % places_, p / places_, o, yi, pt, yb, g, b);
    }

    void schedule() {
        const int extents[] = {
            in_line_ ? plan_.pixels : columns_, band_, in_line_ ? 1 : plan_.rows / band_, plan_.blocks, out_, groups(),
            static_cast<int>(shape_.images)};
        Var vars[] = {p, yi, pt, yb, o, g, b};
        for (size_t d = 0; d < 7; d++) out.bound(vars[d], 0, extents[d]);
        fix_shape(out.output_buffer(), {std::begin(extents), std::end(extents)});
        Var pl("pl"), oi("oi");
        out.split(p, xg, pl, places_).split(o, oc, oi, channels_);
        if (leave_ > 1) out.split(xg, xg, xt, leave_);
        out.reorder({pl, oi, yi, xg, pt, oc, yb, g, b});
        if (leave_ > 1) out.reorder({pl, xt, oi});
        whole_loops(out);

        // Each slot begins in the first pad.
        filter.compute_at(out, oc)
            .vectorize(k, lanes)
            .bound_extent(k, lanes)
            .bound_extent(o, channels_)
            .bound_extent(yi, band_)
            .bound_extent(t, tap_tiles_);
        filter.align_storage(o, static_cast<int>(machine_.pad.count));
        const int64_t passes = out_ / channels_ * blocks();
        two_slots(filter, passes);
        finished.compute_at(out, xg)
            .vectorize(l, lanes)
            .bound_extent(l, lanes)
            .bound_extent(xt, leave_)
            .bound_extent(o, channels_)
            .bound_extent(yi, band_)
            .reorder(l, o, yi, xt);
        two_slots(finished, plan_.strips / leave_ / band_ * passes);
        sums.compute_at(finished, xt)
            .vectorize(l, lanes)
            .bound_extent(l, lanes)
            .bound_extent(yi, band_)
            .bound_extent(o, channels_);
        sums.update().reorder(l, yi, o, r).vectorize(l, lanes);
        RVar outer("outer"), inner("w_unroll");
        product.weights.compute_at(sums, r)
            .bound_extent(k, lanes)
            .bound_extent(w, lanes)
            .update()
            .split(of_places, outer, inner, std::max(places_, 2))
            .vectorize(k, lanes);
        as_array_row(product.part.compute_at(sums, yi), l, q);
        in_registers({sums, product.weights, product.part});
        in_pads({filter, finished});
    }
    void schedule_bias() {
        Var iu("i_unroll");
        const LoopLevel level = spread_together_ == channels_ ? LoopLevel(out, oc) : LoopLevel(out, g);
        biases.compute_at(level).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(jb, tiles_of(spread_together_));
        everywhere.compute_at(level).bound_extent(l, lanes).bound_extent(i, spread_together_).vectorize(l, lanes);
        everywhere.split(i, jb, iu, std::min(spread_together_, lanes), TailStrategy::GuardWithIf);
        schedule_turn(spread, everywhere, jb, iu, l, level);
        in_pads({biases, everywhere});
    }

    const int channels_, places_ = plan_.strip_columns;
    const bool in_line_;  // places follow each other whatever row they are of
    const int leave_ = plan_.strips_leave;
    const int spread_together_ =
        channels_ % lanes == 0 ? channels_ : out_;  // channels whose biases are turned at a time: blocks of 32 of all
    const int depth_ = shape_.packs_lanes() ? lanes : in_ * lane_rows_;  // lanes of a k tile

    ImageParam f = tensor("F", {int64_t{depth_} * tap_tiles_, band_, shape_.out *shape_.groups}),
               bias = tensor("bias", shape_.bias_extents());
    Var o{"o"}, oc{"oc"}, jb{"jb"}, t{"t"}, p{"p"}, pt{"pt"}, xt{"xt"}, xg{"xg"}, yi{"yi"};
    Func filter{"filter"}, sums{"sums"}, biases{"biases"}, everywhere{"everywhere"}, finished{"finished"}, out{"Y_out"};
    Turn spread{"spread"};
    Dot product{"product"};
    RDom of_places{0, std::max(places_, 2), "of_places"};
    RDom r;  // columns of the kernel that have a k tile
};

}  // namespace

KernelDefinition convolution_of_bands(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    return BandsPipeline(shape, machine, point).build();
}

}  // namespace atalla
