// Windows that do not overlap: the rows of a patch of the image come as lanes, as they lie in memory, and nothing is turned.
#include <algorithm>

#include "generators/convolution_image.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

// A transfer brings a row of a patch, so rows are long enough.
bool ConvolutionShape::patches() const {
    constexpr int64_t most_channels = 16, shortest_row = 8;
    return packed && !shares && !channels_last && in <= most_channels && kernel_y > 1 && kernel_x >= shortest_row &&
           kernel_x <= lanes && kernel_x <= stride_x && kernel_y <= stride_y && dilation_x * dilation_y == 1 &&
           padding_x + padding_y + padding_end_x + padding_end_y == 0;
}

KernelElement ConvolutionShape::patch_element(int64_t tile, int64_t lane) const {
    const int64_t row = tile * patch_rows() + lane / kernel_x;
    if (lane / kernel_x >= patch_rows() || row >= window_rows()) return {0, 0, kernel_x};
    return {row / kernel_y, row % kernel_y, lane % kernel_x};
}

// Transfers begin in the first lane. So the last row of a vector comes first, with what is in front of it in memory, which is
// the image's, in the lanes of the others: each of these comes later.
void ConvolutionImage::define_patches() {
    const int together = static_cast<int>(shape_.patch_rows()), rows = static_cast<int>(shape_.window_rows()),
              kernel_y = static_cast<int>(shape_.kernel_y), stride_y = static_cast<int>(shape_.stride_y);
    const bool whole = together * taps_x_ == lanes && rows % together == 0;
    image(l, y, z, px, yb, g, b) = whole ? undef<BFloat>() : bf16(0.0f);
    for (int place = together - 1; place >= 0; place--) {
        // Where rows of a channel fill whole vectors, a step of these is one in memory.
        const int tiles = ceil_div(rows - place, together);
        const bool by_channel = kernel_y % together == 0;
        const RDom r(0, (place + 1) * taps_x_, 0, plan_.rows, 0, by_channel ? kernel_y / together : tiles, 0,
                     by_channel ? in_ : 1, "patch" + std::to_string(place));
        const Expr tile = by_channel ? Expr(r.w * (kernel_y / together) + r.z) : Expr(r.z), row = r.z * together + place,
                   channel = by_channel ? Expr(r.w) : row / kernel_y, in_channel = by_channel ? row : row % kernel_y;
        const Expr in_image = (yb * plan_.block_step + r.y) * stride_y + in_channel;
        image(r.x, r.y, tile, px, yb, g, b) = element(px * stride_x_ + (r.x - place * taps_x_), in_image, channel);
        patch_rows_.push_back(r);
    }
}

void ConvolutionImage::schedule_patches(Func out) {
    image.compute_at(out, yb)
        .vectorize(l, lanes)
        .bound_extent(l, lanes)
        .bound_extent(y, plan_.stored_rows)
        .bound_extent(z, tap_tiles_)
        .bound_extent(px, columns_);
    for (size_t at = 0; at < patch_rows_.size(); at++) {
        const RDom &r = patch_rows_[at];
        image.update(static_cast<int>(at)).reorder(r.x, r.y, r.z, r.w, px);
    }
    // Rows of a transfer follow each other: places below each other, or the rows of the kernel in a channel.
    if (tiles_follow()) image.reorder_storage(l, z, y, px, yb, g, b);
    in_pads({identity, image});
}

}  // namespace atalla
