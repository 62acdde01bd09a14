// An image whose channels are innermost: its places come as vectors of the pads, once for each column of the kernel that reads
// them, and nothing is turned.
#include <algorithm>

#include "generators/convolution_image.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

ImageFrame::ImageFrame(const ConvolutionShape &shape, const ConvolutionPlan &plan)
    : before(static_cast<int>(shape.padding_y)), step(plan.block_step * static_cast<int>(shape.stride_y)), blocks(plan.blocks) {
    const int height = static_cast<int>(shape.height), reach = static_cast<int>(shape.rows_read(plan.stored_rows));
    elements = std::min(reach, height);
    last = height - elements;
    for (int block = 0; block < blocks; block++)
        rows = std::max(rows, block * step - std::clamp(block * step - before, 0, last) + reach);
    rows = std::max(rows, before + elements);
    constexpr int64_t long_transfers = 128;  // rows of all pads
    while (together < elements && (elements % together != 0 || together * shape.width * shape.channel_tiles() < long_transfers))
        together++;
}

Expr ImageFrame::start(const Expr &block) const { return blocks == 1 ? Expr(0) : clamp(block * step - before, 0, last); }
Expr ImageFrame::first_window(const Expr &block) const { return blocks == 1 ? Expr(0) : block * step - start(block); }

int64_t ConvolutionShape::places_unrolled(int64_t pads) const {
    constexpr int64_t most = 28, short_row = 56;
    const int64_t round = pads * stride_x;
    for (int64_t count = most / round * round; count > 0; count -= round)
        if (width % count == 0) return count;
    return width <= short_row ? width : round_up(most, round);
}

// Rows of DRAM and of the pads are the same places: they are brought as they are, some rows of the image at a time, and stored
// for each column of the kernel. Around the image is padding, and behind a row that whole unrolled parts do not divide.
void ConvolutionImage::define_places() {
    const bool whole = in_ % lanes == 0 && places_x_ == width_;
    const Expr channel = cb * lanes + l;
    const auto element = [&](const Expr &column, const Expr &of) { return x(g * in_ + of, column, frame_.start(yb) + y, b); };
    if (whole) {
        raw(l, i, y, cb, yb, g, b) = element(i, channel);
    } else {
        raw(l, i, y, cb, yb, g, b) = bf16(0.0f);
        raw(l, i, y, cb, yb, g, b) =
            select(channel < in_ && i < width_, element(min(i, width_ - 1), min(channel, in_ - 1)), undef<BFloat>());
    }
    image(l, px, z, yb, g, b) = undef<BFloat>();
    for (const RDom &border : borders_) image(l, border.x, border.y, yb, g, b) = bf16(0.0f);
    const Expr column = brought_[1] + padding_x_ - brought_[0] * static_cast<int>(shape_.dilation_x);
    if (stride_x_ > 1) brought_.where(column % stride_x_ == 0);
    const Expr row = brought_[4] * frame_.together + brought_[2];
    image(l, column / stride_x_, (frame_.before + row) * tap_tiles_ + brought_[0] * channel_tiles_ + brought_[3], yb, g, b) =
        raw(l, brought_[1], row, brought_[3], yb, g, b);
}

void ConvolutionImage::schedule_places(Func out) {
    const int pads = static_cast<int>(machine_.pad.count);
    image.compute_at(out, yb).vectorize(l, lanes).bound_extent(l, lanes).bound(z, 0, image_z()).align_storage(px, pads);
    int update = 0;
    for (const RDom &border : borders_) image.update(update++).unroll(border.x).vectorize(l, lanes);
    RVar outer("io"), unrolled("i_unroll");
    image.update(update)
        .unroll(brought_[0])
        .split(brought_[1], outer, unrolled, static_cast<int>(shape_.places_unrolled(pads)))
        .reorder(l, brought_[0], unrolled, outer, brought_[2], brought_[3], brought_[4])
        .vectorize(l, lanes);
    raw.compute_at(image, brought_[4])
        .vectorize(l, lanes)
        .bound_extent(l, lanes)
        .bound_extent(i, places_x_)
        .bound_extent(y, frame_.together)
        .bound_extent(cb, channel_tiles_)
        .align_storage(i, pads);
    two_slots(raw, frame_.elements / frame_.together * blocks());
    in_pads({identity, raw, image});
}

}  // namespace atalla
