// Channels innermost, and a part of the image for each pad: a row of the kernel and its columns are a distance in the pad, the
// same for all parts, so that the image comes as it is and is stored once.
#include "generators/convolution_of_parts.h"

#include <algorithm>

#include "generators/convolution_image.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// A product of matrices, as the others: its rows are places of a strip of each part, taken in turns, so that the pads give as
// many.
class PartsPipeline : ConvolutionImage {
public:
    PartsPipeline(const ConvolutionShape &shape, const Machine &machine, const Point &point)
        : ConvolutionImage(shape, machine, point),
          parts_(static_cast<int>(ConvolutionPlan::parts)),
          strip_columns_(plan_.strip_columns),
          strip_rows_(plan_.strip_rows),
          across_(ceil_div(columns_, strip_columns_)),
          below_(plan_.part_rows / strip_rows_),
          height_(static_cast<int>(shape.height)),
          strip_height_(plan_.strip_height()),
          frame_columns_(static_cast<int>(shape.columns_read(across_ * strip_columns_))),
          frame_rows_(static_cast<int>(shape.rows_read(plan_.part_rows))),
          r(0, strip_columns_, 0, strip_height_, 0, static_cast<int>(shape.k_tiles()),
            point["first_apart"] != 0 ? "r" : "r_alike"),
          all({{0, parts_}, {0, strip_columns_}, {0, strip_rows_}, {0, across_}, {0, below_}}, "all") {
        if (strip_height_ < parts_ * strip_rows_) all.where(all[0] * strip_rows_ + all[2] < strip_height_);
    }

    KernelDefinition build() {
        define_parts();
        define_whole_tiles(filter, f);
        define_product();
        schedule();
        KernelDefinition kernel = kernel_of(out, f, bias);
        // The rows of a part stay in its pad.
        kernel.lay_out(image, {0, frame_columns_ * channel_tiles_ * frame_rows_});
        kernel.lay_out(finished, {0, across_ * strip_columns_ * plan_.part_rows});
        if (along_taps()) kernel.lay_out(filter, {0, static_cast<int>(shape_.k_tiles())});
        return kernel;
    }

private:
    void define_parts() {
        const Expr channel = pc % channel_tiles_ * lanes + l, column = pc / channel_tiles_ - padding_x_,
                   row = (a * plan_.part_rows) * static_cast<int>(shape_.stride_y) - static_cast<int>(shape_.padding_y) + y;
        const Expr inside = channel < in_ && column >= 0 && column < width_ && row >= 0 && row < height_;
        // Rows that only results which do not exist would read stay as they are.
        const int read = static_cast<int>(shape_.rows_read(shape_.rows()) - 1 - shape_.padding_y);
        image(l, pc, y, a, g, b) = select(row <= read, bf16(0.0f), undef<BFloat>());
        image(l, pc, y, a, g, b) =
            select(inside, x(g * in_ + min(channel, in_ - 1), clamp(column, 0, width_ - 1), clamp(row, 0, height_ - 1), b),
                   undef<BFloat>());
    }
    void define_product() {
        // Rows of a strip: those of the first part, then those of the next.
        const Expr part_of = ry / strip_rows_, row = sr * strip_rows_ + ry % strip_rows_;
        const Expr tap = t % tap_tiles_;
        const Expr at = tap % channel_tiles_ + tap / channel_tiles_ * (static_cast<int>(shape_.dilation_x) * channel_tiles_);
        const Expr linear = (sc * strip_columns_ + rx) * (stride_x_ * channel_tiles_) + (shape_.dilation_x == 1 ? tap : at);
        product.weights(k, w, co, t, g) = along_taps() ? filter(k, t, co * lanes + w, g) : filter(k, co * lanes + w, t, g);
        product.part(o, rx, ry, t, sc, sr, co, g, b) = 0.0f;
        product.part(o, rx, ry, t, sc, sr, co, g, b) +=
            f32(image(q, linear, row * static_cast<int>(shape_.stride_y) + t / tap_tiles_ * static_cast<int>(shape_.dilation_y),
                      part_of, g, b)) *
            f32(product.weights(q, o, co, t, g));
        sums(o, rx, ry, sc, sr, co, g, b) = define_start(biases, bias);
        sums(o, r.x, r.y, sc, sr, co, g, b) =
            strict_float(sums(o, r.x, r.y, sc, sr, co, g, b) + bf16(product.part(o, r.x, r.y, r.z, sc, sr, co, g, b)));
        finished(o, px, py, co, g, b) = undef<BFloat>();
        finished(o, all[3] * strip_columns_ + all[1], all[0] * plan_.part_rows + all[4] * strip_rows_ + all[2], co, g, b) =
            shape_.epilogue.apply(sums(o, all[1], all[0] * strip_rows_ + all[2], all[3], all[4], co, g, b));
        out(o, px, py, g, b) = finished(o % lanes, px, py, o / lanes, g, b);
    }
    void schedule() {
        Var oi("oi"), cb_("cb");
        const int extents[] = {out_, columns_, static_cast<int>(shape_.rows()), groups(), static_cast<int>(shape_.images)};
        Var vars[] = {o, px, py, g, b};
        for (size_t d = 0; d < 5; d++) out.bound(vars[d], 0, extents[d]);
        out.split(o, oo, oi, std::min(lanes, out_), TailStrategy::GuardWithIf).reorder({oi, px, py, oo, g, b});
        whole_loops(out);
        fix_shape(out.output_buffer(), {out_, columns_, shape_.rows(), shape_.groups, shape_.images});
        const int place = out_ * groups(),
                  strides[] = {1, place, columns_ * place, out_, static_cast<int>(shape_.rows()) * columns_ * place};
        for (int d = 1; d < 5; d++) out.output_buffer().dim(d).set_stride(strides[d]);

        image.compute_at(out, g)
            .bound(pc, 0, frame_columns_ * channel_tiles_)
            .bound(y, 0, frame_rows_)
            .bound(a, 0, parts_)
            .bound_extent(l, lanes);
        for (int stage = 0; stage < 2; stage++) {
            Stage moving = stage == 0 ? Stage(image) : image.update();
            Var column("column");
            moving.split(pc, column, cb_, channel_tiles_).vectorize(l, lanes);
        }
        finished.compute_at(out, oo)
            .bound_extent(o, lanes)
            .vectorize(o, lanes)
            .bound(px, 0, across_ * strip_columns_)
            .bound(py, 0, plan_.stored_rows)
            .bound_storage(py, parts_ * plan_.part_rows)
            .bound_extent(co, 1);
        finished.update().reorder(o, all[0], all[1], all[2], all[3], all[4], co).vectorize(o, lanes);
        two_slots(finished, tiles_of(out_) * blocks());
        sums.compute_at(finished, all[3])
            .bound(rx, 0, strip_columns_)
            .bound(ry, 0, strip_height_)
            .bound_extent(o, lanes)
            .vectorize(o, lanes);
        RVar of("of"), inside("inside");
        sums.update()
            .split(r.y, of, inside, strip_rows_, TailStrategy::GuardWithIf)
            .reorder(o, of, r.x, inside, r.z)
            .vectorize(o, lanes);
        filter.compute_at(out, oo)
            .bound_extent(k, lanes)
            .bound_extent(o, lanes)
            .bound_extent(t, static_cast<int>(shape_.k_tiles()))
            .vectorize(k, lanes);
        two_slots(filter, tiles_of(out_) * blocks());
        if (shape_.bias) {
            biases.compute_at(out, oo).bound_extent(o, lanes).vectorize(o, lanes);
            in_pads({biases});
        }
        schedule_dot(product, sums, r.z, of, o);
        in_registers({sums});
        in_pads({image, filter, finished});
    }

    const int parts_, strip_columns_, strip_rows_, across_, below_, height_, strip_height_, frame_columns_, frame_rows_;
    ImageParam f = tensor("F", {shape_.taps() * shape_.in, shape_.out *shape_.groups}),
               bias = tensor("bias", shape_.bias_extents());
    Var oo{"oo"}, a{"a"}, pc{"pc"}, py{"py"}, rx{"rx"}, ry{"ry"}, sc{"sc"}, sr{"sr"};
    Func filter{"filter"}, biases{"biases"}, sums{"sums"}, finished{"finished"}, out{"Y_out"};
    Dot product{"product"};
    RDom r;    // columns and rows of a strip of all parts, k tiles
    RDom all;  // parts, columns and rows of a strip of one, strips
};

}  // namespace

KernelDefinition convolution_of_parts(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    return PartsPipeline(shape, machine, point).build();
}

}  // namespace atalla
