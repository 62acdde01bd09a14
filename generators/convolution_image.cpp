#include "generators/convolution_image.h"

#include <algorithm>

#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

ConvolutionImage::ConvolutionImage(const ConvolutionShape &shape, const Machine &machine, const Point &point)
    : shape_(shape),
      machine_(machine),
      folded_(shape.rows_on_lanes()),
      patches_(shape.patches()),
      plan_(shape, point),
      in_(static_cast<int>(shape.in)),
      lane_rows_(static_cast<int>(shape.lane_window())),
      channel_tiles_(static_cast<int>(shape.channel_tiles())),
      taps_y_(folded_ ? 1 : static_cast<int>(shape.kernel_y)),
      taps_x_(static_cast<int>(shape.kernel_x)),
      taps_(static_cast<int>(shape.taps())),
      tap_tiles_(static_cast<int>(shape.k_tiles()) / taps_y_),
      out_(static_cast<int>(shape.out)),
      columns_(static_cast<int>(shape.columns())),
      width_(static_cast<int>(shape.width)),
      stride_x_(static_cast<int>(shape.stride_x)),
      padding_x_(static_cast<int>(shape.padding_x)),
      step_y_(folded_ ? 1 : static_cast<int>(shape.stride_y)),
      weight_unroll_(static_cast<int>(point["weight_unroll"])),
      line_lanes_(static_cast<int>(shape.line_lanes())),
      line_chunk_(static_cast<int>(shape.line_blocks())),
      line_chunks_(static_cast<int>(shape.height * shape.width) / line_lanes_ / line_chunk_),
      image_at_once_(point["image_at_once"] != 0),
      frame_(shape, plan_),
      places_x_(round_up(width_, static_cast<int>(shape.places_unrolled(machine.pad.count)))),
      rows_together_(point["rows_together"] != 0 ? static_cast<int>(shape.narrow_rows()) : 1),
      band_(static_cast<int>(shape.band_rows())),
      rest_(static_cast<int>(shape.rest_rows())),
      window_places_(round_up(columns_, static_cast<int>(ConvolutionShape::places_together))) {}

std::vector<int64_t> ConvolutionImage::image_extents() const {
    if (rest_ > 0 || patches_) return {shape_.width * shape_.height * shape_.in * shape_.groups * shape_.images};
    return plan_.in_line || rows_together_ > 1
               ? std::vector<int64_t>{shape_.width * shape_.height, shape_.in * shape_.groups * shape_.images}
               : shape_.x_extents();
}

Expr ConvolutionImage::element(const Expr &column, const Expr &row, const Expr &channel) const {
    const Expr plane = (b * groups() + g) * in_ + channel;
    return rest_ > 0 || patches_ ? x(column + width_ * (row + static_cast<int>(shape_.height) * plane)) : x(column, row, plane);
}

// The image, a row of 32 channels for each place: brought as it is and turned. A place is stored for each column of the
// kernel that reads it, where that column's row of the result is. Rows are those of the padded image, or of the result where
// the kernel's rows are on lanes.
void ConvolutionImage::define_image() {
    identity(k, i) = select(k == i, bf16(1.0f), bf16(0.0f));
    if (shape_.channels_last) {
        define_places();
        return;
    }
    if (plan_.in_line) {
        define_line();
        return;
    }
    if (patches_) {
        define_patches();
        return;
    }
    const int height = static_cast<int>(shape_.height), dilation_x = static_cast<int>(shape_.dilation_x);
    const Expr row = yb * (plan_.block_step * static_cast<int>(shape_.stride_y)) - static_cast<int>(shape_.padding_y) + y,
               at = xb * lanes + k, channel = cb * lanes + l;
    Expr inside = at < width_ && row >= 0 && row < height && channel < in_;
    if (missing_rows()) inside = inside && y < rows_brought();
    const std::vector<Expr> here = raw_at(k, l, y, xb, cb, yb);
    raw(here) = bf16(0.0f);
    if (rows_together_ > 1) {
        const int together = rows_together_ * width_, elements = height * width_;
        raw(here) =
            select(k < together && y * together + k < elements && channel < in_,
                   x(min(y * together + min(k, together - 1), elements - 1), (b * groups() + g) * in_ + min(channel, in_ - 1)),
                   undef<BFloat>());
    } else {
        raw(here) =
            select(inside, element(min(at, width_ - 1), clamp(row, 0, height - 1), min(channel, in_ - 1)), undef<BFloat>());
    }
    if (shape_.shared_columns() > 0) {
        define_shifted();
        if (shape_.window_columns() > 0)
            define_window_columns();
        else
            define_columns();
        return;
    }
    // The block's first row in what was brought.
    const Expr brought = image_at_once_ ? Expr(0) : Expr(yb),
               first = image_at_once_ ? Expr(yb * (plan_.block_step * static_cast<int>(shape_.stride_y))) : Expr(0);
    if (folded_ && band_ > 1) {
        turn(turned,
             raw(raw_at(k, min(w / lane_rows_, in_ - 1),
                        first + y * (band_ * static_cast<int>(shape_.stride_y)) + w % lane_rows_, xb, 0, brought)),
             l, xb, {y, cb, yb, g, b});
    } else if (rest_ > 0) {
        const Expr lane = cb * lanes + w;
        turn(turned,
             raw(raw_at(
                 k, shape_.lane_channel(lane),
                 first + y * static_cast<int>(shape_.stride_y) + shape_.lane_row(lane) * static_cast<int>(shape_.dilation_y),
                 xb, 0, brought)),
             l, xb, {y, cb, yb, g, b});
    } else if (folded_) {
        const Expr tap = channel_tiles_ == 1 ? Expr(w % lane_rows_) : cb * lane_rows_ + w % lane_rows_;
        Expr from_row = first + y * static_cast<int>(shape_.stride_y) + tap * static_cast<int>(shape_.dilation_y);
        if (missing_rows()) from_row = select(tap < static_cast<int>(shape_.kernel_y), from_row, rows_brought());
        turn(turned, raw(raw_at(k, min(w / lane_rows_, in_ - 1), from_row, xb, 0, brought)), l, xb, {y, cb, yb, g, b});
    } else {
        turn(turned, raw(raw_at(k, w, first + y, xb, cb, brought)), l, xb, {y, cb, yb, g, b});
    }

    turned_place(l, i, y, cb, yb, g, b) = bf16(turned.part(l, i, y, cb, yb, g, b));
    image(l, px, z, yb, g, b) = undef<BFloat>();
    for (const RDom &border : borders_) image(l, border.x, border.y, yb, g, b) = bf16(0.0f);
    const Expr place = from[3] * lanes + from[1],
               column = (rows_together_ > 1 ? from[1] % width_ : place) + padding_x_ - from[0] * dilation_x;
    const Expr to_row =
        rows_together_ > 1 ? from[2] * rows_together_ + from[1] / width_ + static_cast<int>(shape_.padding_y) : Expr(from[2]);
    if (stride_x_ > 1) from.where(column % stride_x_ == 0);
    image(l, column / stride_x_, to_row * tap_tiles_ + from[0] * channel_tiles_ + from[4], yb, g, b) =
        turned_place(l, place, from[2], from[4], yb, g, b);
    if (rest_ > 0) define_windows();
}

void ConvolutionImage::define_windows() {
    const int stride_y = static_cast<int>(shape_.stride_y), by_column = taps_x_ * channel_tiles_;
    const Expr row = (yb * plan_.block_step + y) * stride_y - static_cast<int>(shape_.padding_y) +
                     shape_.lane_row(channel_tiles_ * lanes + z) * static_cast<int>(shape_.dilation_y);
    windows(k, px, z, y, yb, g, b) = bf16(0.0f);
    windows(k, px, z, y, yb, g, b) =
        select(k < taps_x_, element(px * stride_x_ - padding_x_ + min(k, taps_x_ - 1), row, in_ - 1), undef<BFloat>());
    const auto window = [&](const Expr &at, const Expr &place, const RDom &r) {
        return windows(at, place, r.y, r.z, yb, g, b);
    };
    image(l, window_from.x, window_from.z * tap_tiles_ + by_column + window_from.y, yb, g, b) =
        window(l, window_from.x, window_from);
    const int left = std::min(columns_, ceil_div(padding_x_, stride_x_)),
              right = std::clamp(ceil_div(width_ + padding_x_ - taps_x_ + 1, stride_x_), 0, columns_);
    if (left > 0) cut_windows_.push_back(RDom(0, left, 0, rest_, 0, plan_.rows, "cut_left"));
    if (right < columns_) cut_windows_.push_back(RDom(right, columns_ - right, 0, rest_, 0, plan_.rows, "cut_right"));
    for (const RDom &cut : cut_windows_) {
        const Expr column = cut.x * stride_x_ - padding_x_ + l;
        image(l, cut.x, cut.z * tap_tiles_ + by_column + cut.y, yb, g, b) =
            select(column >= 0, select(column < width_, window(l, cut.x, cut), bf16(0.0f)), bf16(0.0f));
    }
}

// Rows of a channel in one pad, neighbours in memory, or rows of neighbouring channels on all pads: the four transfers under
// way should not read one page of the DRAM.
std::vector<Expr> ConvolutionImage::raw_at(const Expr &column, const Expr &channel, const Expr &row, const Expr &part,
                                           const Expr &channels, const Expr &block) const {
    if (image_by_channel()) return {column, row, part, channel, channels, block, g, b};
    return {column, channel, row, part, channels, block, g, b};
}

// Columns of the result with a column of the kernel outside of the image, and all rows; rows outside of it, and all columns.
std::vector<RDom> ConvolutionImage::borders() const {
    const int reach = (taps_x_ - 1) * static_cast<int>(shape_.dilation_x),
              left = std::min(columns_, ceil_div(padding_x_, stride_x_));
    const int right = std::clamp(ceil_div(std::max(0, width_ + padding_x_ - reach), stride_x_), 0, columns_);
    std::vector<RDom> all;
    if (left > 0) all.push_back(RDom(0, left, 0, image_z(), "left"));
    if (right < columns_) all.push_back(RDom(right, columns_ - right, 0, image_z(), "right"));
    // The rows that the padding adds, which do not come with the image's own.
    if (rows_together_ > 1 || shape_.channels_last) {
        const int padding = static_cast<int>(shape_.padding_y),
                  behind = padding + (shape_.channels_last ? frame_.elements : turned_rows() * rows_together_);
        if (padding > 0) all.push_back(RDom(0, columns_, 0, padding * tap_tiles_, "above"));
        if (behind * tap_tiles_ < image_z())
            all.push_back(RDom(0, columns_, behind * tap_tiles_, image_z() - behind * tap_tiles_, "below"));
    }
    return all;
}

void ConvolutionImage::turn(Turn &dot, const Expr &tile, const Var &lane, const Var &block, const std::vector<Var> &others) {
    std::vector<Var> weights = {k, w, block}, part = {lane, i};
    std::vector<Expr> read = {q, lane, i / lanes};
    for (const Var &other : others) {
        weights.push_back(other);
        part.push_back(other);
        read.push_back(other);
    }
    dot.rows(k, i) = identity(k, i);
    dot.weights(weights) = tile;
    dot.part(part) = 0.0f;
    dot.part(part) += f32(dot.rows(q, i % lanes)) * f32(dot.weights(read));
}

// The planes as they lie in memory, 32 elements of 32 channels at a time. Place p of the plane of a column of the kernel is
// what place p of the result reads in its first row: what that column reads beyond the end of a row is the beginning of the
// next one, and is cleared.
void ConvolutionImage::define_line() {
    const int dilation_x = static_cast<int>(shape_.dilation_x), above = static_cast<int>(shape_.padding_y) * width_,
              pads = static_cast<int>(machine_.pad.count);
    const Expr element =
        x((xb * line_chunk_ + y) * line_lanes_ + min(k, line_lanes_ - 1), (b * groups() + g) * in_ + cb * lanes + l);
    raw(k, l, y, xb, cb, g, b) = line_lanes_ < lanes ? bf16(0.0f) : element;
    if (line_lanes_ < lanes) raw(k, l, y, xb, cb, g, b) = select(k < line_lanes_, element, undef<BFloat>());
    turn(turned, raw(k, w, y, xb, cb, g, b), l, y, {xb, cb, g, b});
    turned_place(l, i, xb, cb, g, b) = bf16(turned.part(l, i, xb, cb, g, b));
    image(l, px, z, yb, g, b) = undef<BFloat>();
    const Expr place = line_from[2] * lanes + line_from[1];
    const Expr element_at = (line_from[3] * line_chunk_ + line_from[2]) * line_lanes_ + line_from[1];
    image(l, above + padding_x_ + element_at - line_from[0] * dilation_x, line_from[0] * channel_tiles_ + line_from[4], yb, g,
          b) = turned_place(l, place, line_from[3], line_from[4], g, b);
    // Above and below.
    const int behind = above + width_ * static_cast<int>(shape_.height),
              read = plan_.stored_places() + static_cast<int>((shape_.kernel_y - 1) * shape_.dilation_y) * width_;
    zeros_.push_back(RDom(0, round_up(above, pads), 0, tap_tiles_, "above"));
    zeros_.push_back(RDom(behind, round_up(std::max(read - behind, 1), pads), 0, tap_tiles_, "below"));
    // Beside: so many rows that their places begin in the same pad again are straight-line code.
    const int rows = round_up(static_cast<int>(shape_.height) + 2, pads);
    for (int column = 0; column < taps_x_; column++) {
        const int shift = column * dilation_x - padding_x_, first = shift < 0 ? 0 : width_ - shift;
        if (shift != 0)
            zeros_.push_back(
                RDom(first, std::min(std::abs(shift), width_), -1, rows, column * channel_tiles_, channel_tiles_, "beside"));
    }
    for (const RDom &zero : zeros_) {
        if (zero.dimensions() == 2)
            image(l, zero.x, zero.y, yb, g, b) = bf16(0.0f);
        else
            image(l, above + zero.y * width_ + zero.x, zero.z, yb, g, b) = bf16(0.0f);
    }
}

Expr ConvolutionImage::image_row(const Expr &row, const Expr &tile) const {
    const int dilation = static_cast<int>(shape_.dilation_y);
    return row * (step_y_ * tap_tiles_) +
           (dilation == 1 || taps_y_ == 1 ? tile : tile % tap_tiles_ + tile / tap_tiles_ * (dilation * tap_tiles_));
}

void ConvolutionImage::define_whole_tiles(Func filter, const ImageParam &f) {
    // They follow each other as in the pads, and so do those of one tile a tap.
    if (along_taps()) {
        filter(k, t, o, g) = f(t * lanes + k, g * out_ + shape_.packed_channel(Expr(o)));
    } else if (out_ % lanes == 0) {
        filter(k, o, t, g) = f(t * lanes + k, g * out_ + shape_.packed_channel(Expr(o)));
    } else {
        // Channels that a last block lacks are 0: turning the results back adds all channels of a block, times 0 or 1.
        filter(k, o, t, g) = select(o < out_, undef<BFloat>(), bf16(0.0f));
        filter(k, o, t, g) = select(o < out_, f(t * lanes + k, g * out_ + min(o, out_ - 1)), undef<BFloat>());
    }
}

Expr ConvolutionImage::define_start(Func biases, const ImageParam &bias) {
    if (!shape_.bias) return sum_start(machine_);
    biases(o, co, g) = bf16(0.0f);
    biases(o, co, g) = select(co * lanes + o < out_, bias(g * out_ + min(co * lanes + o, out_ - 1)), undef<BFloat>());
    return biases(o, co, g);
}

KernelDefinition ConvolutionImage::kernel_of(const Func &out, const ImageParam &f, const ImageParam &bias) const {
    KernelDefinition kernel = convolution_kernel(shape_, out, x, f, bias);
    // The places of a column are in one pad.
    if (patches_) kernel.lay_out(image, {0, int64_t{plan_.stored_rows} * tap_tiles_, true});
    if (image_by_channel() && !plan_.in_line) {
        kernel.layouts["raw"] = {0, (rows_brought() + missing_rows()) * tiles_of(width_)};
        for (const Func &func : shifted_) kernel.lay_out(func, kernel.layouts["raw"]);
    }
    return kernel;
}

void ConvolutionImage::schedule_dot(Dot &dot, Func consumer, const VarOrRVar &level, const VarOrRVar &row, const Var &lane) {
    dot.weights.compute_at(LoopLevel(consumer, level)).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
    if (weight_unroll_ > 1) dot.weights.split(w, w, wi, weight_unroll_);
    as_array_row(dot.part.compute_at(LoopLevel(consumer, row)), lane, q);
    in_registers({dot.weights, dot.part});
}
void ConvolutionImage::schedule_turn(Turn &dot, const Func &consumer, const VarOrRVar &level, const VarOrRVar &row,
                                     const Var &lane, const LoopLevel &phase) {
    schedule_dot(dot, consumer, level, row, lane);
    dot.rows.compute_at(phase).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(i, lanes);
    in_registers({dot.rows});
}

void ConvolutionImage::two_slots(Func func, int64_t blocks) const {
    if (blocks > 1 && machine_.timed()) func.hoist_storage_root().ring_buffer(2);
}

void ConvolutionImage::schedule_image(Func out) {
    // A row waits for its mask, so several are made at a time.
    identity.compute_root().bound(k, 0, lanes).bound(i, 0, lanes).vectorize(k, lanes).unroll(i, 4);
    if (shape_.channels_last) {
        schedule_places(out);
        return;
    }
    if (plan_.in_line) {
        schedule_line(out);
        return;
    }
    if (patches_) {
        schedule_patches(out);
        return;
    }
    if (shape_.shared_columns() > 0) {
        schedule_columns(out);
        return;
    }
    if (image_at_once_) {
        raw.compute_at(out, g);
    } else if (shape_.channels_one_by_one(machine_)) {
        // One block of channels comes while that before it is turned.
        raw.compute_at(image, from[4]);
        two_slots(raw, plan_.channel_slots(shape_));
    } else {
        raw.compute_at(out, yb);
    }
    raw.vectorize(k, lanes)
        .bound_extent(l, folded_ ? in_ : lanes)
        .bound_extent(y, rows_together_ > 1 ? turned_rows() : rows_brought() + missing_rows())
        .bound_extent(xb, tiles_of(width_));
    if (folded_ && !image_by_channel()) raw.align_storage(l, static_cast<int>(machine_.pad.count));
    image.compute_at(out, yb).vectorize(l, lanes).bound_extent(l, lanes);
    const int pads = static_cast<int>(machine_.pad.count);
    image.align_storage(px, pads);
    int update = 0;
    for (const RDom &border : borders_) image.update(update++).unroll(border.x).vectorize(l, lanes);
    RVar outer("io"), unrolled("i_unroll");
    Stage turning = image.update(update);
    turning.unroll(from[0])
        .split(from[1], outer, unrolled, width_ < lanes ? rows_together_ * width_ : weight_unroll_)
        .reorder(l, from[0], unrolled, outer, from[2], from[3], from[4])
        .vectorize(l, lanes);
    if (missing_rows() || rest_ > 0) turning.unroll(from[4]);
    if (rest_ > 0) schedule_windows(out);
    schedule_turn(turned, image, from[2], unrolled, l, LoopLevel(out, yb));
    turned_place.compute_at(image, unrolled).vectorize(l, lanes);
    in_registers({turned_place});
    in_pads({identity, raw, image});
}

void ConvolutionImage::schedule_windows(Func out) {
    const int turn = static_cast<int>(ConvolutionShape::places_together), most = 64;
    windows.compute_at(out, yb)
        .vectorize(k, lanes)
        .bound_extent(k, lanes)
        .bound_extent(px, window_places_)
        .bound_extent(z, rest_)
        .bound_extent(y, plan_.rows);
    windows.align_storage(px, turn);
    two_slots(windows, blocks());
    RVar outer("xo"), unrolled("x_unroll");
    int update = static_cast<int>(borders_.size()) + 1;
    image.update(update++)
        .split(window_from.x, outer, unrolled, window_places_ <= most ? window_places_ : turn)
        .vectorize(l, lanes);
    for (const RDom &cut : cut_windows_) image.update(update++).unroll(cut.x).vectorize(l, lanes);
    in_pads({windows});
}

void ConvolutionImage::schedule_line(Func out) {
    const int pads = static_cast<int>(machine_.pad.count);
    raw.compute_at(image, line_from[3]).vectorize(k, lanes).bound_extent(l, lanes).bound_extent(y, line_chunk_);
    two_slots(raw, int64_t{line_chunks_} * channel_tiles_);
    image.compute_at(out, yb).vectorize(l, lanes).bound_extent(l, lanes).align_storage(px, pads);
    RVar outer("io"), unrolled("i_unroll");
    image.update(0)
        .unroll(line_from[0])
        .split(line_from[1], outer, unrolled, line_lanes_)
        .reorder(l, line_from[0], unrolled, outer, line_from[2], line_from[3], line_from[4])
        .vectorize(l, lanes);
    int update = 1;
    for (const RDom &zero : zeros_) {
        RVar inner("pads");
        Stage clear = image.update(update++);
        if (zero.dimensions() == 2)
            clear.split(zero.x, outer, inner, pads).unroll(inner);
        else
            clear.split(zero.y, outer, inner, pads).reorder(l, zero.x, inner, outer, zero.z).unroll(zero.x).unroll(inner);
        clear.vectorize(l, lanes);
    }
    schedule_turn(turned, image, line_from[2], unrolled, l, LoopLevel(out, yb));
    turned_place.compute_at(image, unrolled).vectorize(l, lanes);
    in_registers({turned_place});
    in_pads({identity, raw, image});
}

}  // namespace atalla
