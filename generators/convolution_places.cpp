// An image whose channels are innermost: its places come as vectors of the pads, once for each column of the kernel that reads them, and nothing is turned.
#include <algorithm>

#include "generators/convolution_image.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

ImageFrame::ImageFrame(const ConvolutionShape &shape, const ConvolutionPlan &plan)
    : before(static_cast<int>(shape.padding_y)), step(plan.block_step * static_cast<int>(shape.stride_y)), blocks(plan.blocks) {
    const int height = static_cast<int>(shape.height), reach = static_cast<int>((plan.stored_rows - 1) * shape.stride_y + shape.dilation_y * (shape.kernel_y - 1)) + 1;
    elements = std::min(reach, height);
    last = height - elements;
    for (int block = 0; block < blocks; block++) rows = std::max(rows, block * step - std::clamp(block * step - before, 0, last) + reach);
    rows = std::max(rows, before + elements);
}

Expr ImageFrame::start(const Expr &block) const { return blocks == 1 ? Expr(0) : clamp(block * step - before, 0, last); }
Expr ImageFrame::first_window(const Expr &block) const { return blocks == 1 ? Expr(0) : block * step - start(block); }

// Around the elements of the image is padding, which is the same for all blocks and stays in the pads.
void ConvolutionImage::define_places() {
    const bool whole = in_ % lanes == 0;
    image(l, px, z, yb, g, b) = bf16(0.0f);
    const Expr channel = brought_.z * lanes + l, column = brought_.x * stride_x_ + brought_.y * static_cast<int>(shape_.dilation_x) - padding_x_;
    brought_.where(column >= 0 && column < width_);
    const Expr element = x(g * in_ + (whole ? channel : min(channel, in_ - 1)), clamp(column, 0, width_ - 1), frame_.start(yb) + brought_.w, b);
    image(l, brought_.x, (frame_.before + brought_.w) * tap_tiles_ + brought_.y * channel_tiles_ + brought_.z, yb, g, b) = whole ? element : select(channel < in_, element, undef<BFloat>());
}

void ConvolutionImage::schedule_places(Func out) {
    image.compute_at(out, yb).vectorize(l, lanes).bound_extent(l, lanes).bound(px, 0, columns_).bound(z, 0, frame_.rows * tap_tiles_);
    image.align_storage(px, static_cast<int>(machine_.pad.count));
    two_slots(image, blocks());
    image.update().reorder(l, brought_.x, brought_.y, brought_.z, brought_.w).vectorize(l, lanes);
    in_pads({identity, image});
}

}  // namespace atalla
