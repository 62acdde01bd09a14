// Columns of the kernel that share the k tiles of others: lanes behind the rows of the kernel hold rows at another column.
#include <algorithm>
#include <numeric>

#include "generators/convolution_image.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

// Places pass without regard to where rows end. The last columns that are turned are the image's: what a turn stored beyond
// them would lie where the next row's places are.
bool ConvolutionShape::shares_in_line() const {
    return shares && packed && rows_on_lanes() && dilation_x == 1 && lanes % stride_x == 0 && width == stride_x * columns() &&
           (width < lanes || width % lanes == 0) && columns() % places_together == 0 && line_places() >= lanes * 7 / 8;
}

// Sharing columns, with one place at most in front of each row, which is turned on its own, and none behind it.
int64_t ConvolutionShape::window_columns() const {
    if (!shares_in_line()) return 0;
    const int64_t together = std::min(kernel_x, lanes / window_rows()),
                  tiles = ceil_div(kernel_x, std::max<int64_t>(together, 1));
    return together > 1 && padding_x <= stride_x && padding_x < together && (tiles - 1) * together < stride_x + padding_x
               ? together
               : 0;
}

int64_t ConvolutionShape::window_step() const {
    const int64_t together = window_columns();
    return together == 0 || together == kernel_x ? 1 : std::gcd(stride_x, together);
}

bool ConvolutionShape::windows_apart() const {
    const int64_t together = window_columns();
    return together > 0 && together <= window_step() && padding_x == 0;
}

int64_t ConvolutionShape::shared_columns() const {
    if (window_columns() > 0) return kernel_x - ceil_div(kernel_x, window_columns());
    if (!shares_in_line() || window_rows() >= lanes || kernel_x <= stride_x) return 0;
    // As many as each class of columns can serve.
    const int64_t own = (kernel_x - 1) / stride_x + 1, shared = std::min(own / 2, kernel_x / stride_x);
    if (shared_lanes() * stride_x < window_rows()) return 0;
    // A vector of the pads begins with a row of the image: of the places in front of it, which padding adds, those of one class
    // may have lanes inside.
    if (padding_x > kernel_x - 1 - stride_x * (shared - 1)) return 0;
    int64_t edges = 0;
    for (int64_t c = 0; c < shared_classes(); c++) edges += reaches_in(c, shared);
    return edges <= 1 ? shared : 0;
}

bool ConvolutionShape::sharing_pays(const Machine &machine) const {
    if (shared_columns() == 0 || (machine.sa.psum_in && window_columns() == 0)) return false;
    // Much behind the results is part of the code of a strip, which packed blocks of 32 channels keep long.
    constexpr int64_t most_behind = 4;
    if (window_columns() > 0 && epilogue && epilogue_work.all() > most_behind) return false;
    const int64_t turns = rows() * tiles_of(width);
    if (machine.sa.psum_in && windows_apart()) {
        // Rows of the array less than bands take, whose places are equal parts of a row, for each turn; not of images that pass
        // in several blocks.
        constexpr int64_t least = 61;
        const int64_t part = band_places(), less = kernel_x * lanes - k_tiles() * part,
                      in_pads =
                          rows() * columns() * k_tiles() + round_up(in, machine.pad.count) * padded_height() * tiles_of(width);
        return out * rows() * columns() * less > least * turns * lanes * part &&
               in_pads <= machine.pad.count * machine.pad_rows();
    }
    // What 32 columns of the image take: where it comes once more for each class or column, where it does not, and of a row
    // that several rows of the result share.
    constexpr int64_t turn_of_shifted = 200, turn_apart = 190, turn = 145;
    // And where the channels of a strip are all in few banks of the DRAM, as of planes of so many elements.
    constexpr int64_t in_few_banks = 16384, busy_banks = 60;
    // Halves of the cycles of an addition, or of a row through the array and what comes for it.
    constexpr int64_t addition = 6, row = 5;
    const int64_t saved = shared_columns() * ceil_div(out * rows() * columns(), lanes) * (machine.sa.psum_in ? row : addition),
                  banks = window_columns() > 0 && rows() * columns() % in_few_banks == 0 ? busy_banks : 0,
                  more = (windows_apart() ? turn_apart : turn_of_shifted) + banks - turn / best_band();
    return saved > 2 * turns * more;
}

// From the last columns that a class has to the missing ones, which are the last ones of their class.
int64_t ConvolutionShape::shared_distance(int64_t of_class, int64_t shared) const {
    const int64_t last = kernel_x - 1;
    return of_class == last % stride_x ? stride_x * shared : last - ((last - of_class) / stride_x * stride_x + of_class);
}

// Has one of the places in front of a row, which padding adds, lanes inside the image?
bool ConvolutionShape::reaches_in(int64_t of_class, int64_t shared) const {
    for (int64_t place = of_class - padding_x; place < 0; place += stride_x)
        if (place + shared_distance(of_class, shared) >= 0) return true;
    return false;
}

int64_t ConvolutionShape::class_at_edge() const {
    for (int64_t c = 0; c < shared_classes(); c++)
        if (reaches_in(c, shared_columns())) return c;
    return -1;
}

KernelElement ConvolutionShape::shared_element(int64_t tile, int64_t lane) const {
    const int64_t rows = window_rows();
    if (const int64_t together = window_columns(); together > 0) {
        const int64_t column = tile * together + lane / rows;
        if (lane >= together * rows) return {0, 0, kernel_x};
        return {lane % rows / kernel_y, lane % kernel_y, column, column >= kernel_x};
    }
    const int64_t column = tile_column(tile);
    if (lane < rows) return {lane / kernel_y, lane % kernel_y, column};
    const int64_t of_class = column % stride_x, row = of_class * shared_lanes() + lane - rows,
                  other = column + shared_distance(of_class);
    if (row >= rows) return {0, 0, kernel_x};
    return {row / kernel_y, row % kernel_y, other, other < first_shared_column()};
}

// Row `row` of the kernel in all channels, of those from `least` on, in the image from some columns on.
Expr ConvolutionImage::kernel_row(const Func &func, int least, const Expr &row, const Expr &block) {
    const int stride_y = static_cast<int>(shape_.stride_y), kernel_y = static_cast<int>(shape_.kernel_y);
    const Expr first = image_at_once_ ? Expr(yb * (plan_.block_step * stride_y)) : Expr(0),
               brought = image_at_once_ ? Expr(0) : Expr(yb),
               index = clamp(row, least, static_cast<int>(shape_.window_rows()) - 1);
    return func(raw_at(k, index / kernel_y - least / kernel_y,
                       first + y * stride_y + index % kernel_y * static_cast<int>(shape_.dilation_y), block, 0, brought));
}

// The image as it comes and, for each class of columns, the rows of its lanes from some columns on. A turn makes the places of
// 32 columns with the lanes of their class. Places of all rows follow each other: what a place of one row's end would store
// beyond it is where padding is, and padding and places in front of a row are stored behind that.
void ConvolutionImage::define_columns() {
    const int stride = static_cast<int>(shape_.stride_x), rows = static_cast<int>(shape_.window_rows()),
              spare = static_cast<int>(shape_.shared_lanes());
    const int classes = static_cast<int>(shape_.shared_classes()), edge_class = static_cast<int>(shape_.class_at_edge());
    const auto of = [&](const Func &func, int least, const Expr &row, const Expr &block) {
        return kernel_row(func, least, row, block);
    };
    Expr shared;
    for (int c = 0; c < stride; c++) {
        const Expr row = c * spare + w - rows;
        const Expr value = c < classes ? select(row < rows, of(shifted_[c], c * spare, row, xb), bf16(0.0f)) : bf16(0.0f);
        // Every stride-th lane; Halide would divide the vectors of a remainder.
        uint32_t here = 0;
        for (int lane = 0; lane < lanes; lane++)
            if ((lane + padding_x_) % stride == c) here |= 1u << lane;
        shared = !shared.defined() ? value : select((Expr(static_cast<int>(here)) >> k) % 2 == 1, value, shared);
    }
    turn(turned, select(w < rows, of(raw, 0, w, xb), shared), l, xb, {y, cb, yb, g, b});
    turned_place(l, i, y, cb, yb, g, b) = bf16(turned.part(l, i, y, cb, yb, g, b));
    image(l, px, z, yb, g, b) = undef<BFloat>();
    const int first_missing = static_cast<int>(shape_.first_shared_column());
    const Expr own =
        select(from[0] < first_missing, from[0], from[0] + 1 + max(from[0] - first_missing, 0) / std::max(1, stride - 1));
    const Expr place = from[3] * lanes + from[1], column = place + padding_x_ - own;
    if (stride > 1) from.where(column % stride == 0);
    image(l, line_lead() + from[2] * columns_ + column / stride, from[0], yb, g, b) =
        turned_place(l, place, from[2], from[4], yb, g, b);
    for (int tile = 0; tile < tap_tiles_; tile++) {
        const int at = static_cast<int>(shape_.tile_column(tile)),
                  left = std::clamp(ceil_div(padding_x_ - at, stride), 0, columns_),
                  right = std::clamp(ceil_div(width_ + padding_x_ - at, stride), 0, columns_);
        if (left > 0) zeros_.push_back(RDom(0, left, 0, image_rows(), tile, 1, "left"));
        if (right < columns_) zeros_.push_back(RDom(right, columns_ - right, 0, image_rows(), tile, 1, "right"));
    }
    for (const RDom &zero : zeros_) image(l, line_lead() + zero.y * columns_ + zero.x, zero.z, yb, g, b) = bf16(0.0f);
    if (edge_class < 0) return;
    // Places in front of a row whose lanes behind the kernel's rows are inside.
    const int distance = static_cast<int>(shape_.shared_distance(edge_class));
    std::vector<Expr> columns, places, tiles;
    for (int in_front = edge_class - padding_x_; in_front < 0; in_front += stride)
        for (int at = edge_class; at <= in_front + padding_x_ && in_front + distance >= 0; at += stride) {
            columns.push_back(in_front + distance);
            places.push_back((in_front + padding_x_ - at) / stride);
            tiles.push_back(at);
        }
    edge_ = RDom(0, static_cast<int>(columns.size()), 0, image_rows(), "edge");
    const Expr row = edge_class * spare + w - rows;
    define_edges(select(w >= rows && row < rows, of(raw, 0, row, 0), bf16(0.0f)));
    const auto one_of = [&](const std::vector<Expr> &values) {
        return values.size() == 1 ? values[0] : mux(Expr(edge_.x), values);
    };
    image(l, line_lead() + edge_.y * columns_ + one_of(places), one_of(tiles), yb, g, b) =
        edge_place(l, one_of(columns), edge_.y, yb, g, b);
}

void ConvolutionImage::define_edges(const Expr &tile) {
    edges.weights(k, w, y, yb, g, b) = tile;
    edges.part(l, i, y, yb, g, b) = 0.0f;
    edges.part(l, i, y, yb, g, b) += f32(identity(q, i)) * f32(edges.weights(q, l, y, yb, g, b));
    edge_place(l, i, y, yb, g, b) = bf16(edges.part(l, i, y, yb, g, b));
}

// The image as it comes and from each further column of the kernel on: a turn makes the windows that begin with 32 columns.
// That which begins in front of a row is turned on its own, behind those of the row before, whose last ones may lie where it
// is.
void ConvolutionImage::define_window_columns() {
    const int rows = static_cast<int>(shape_.window_rows()), together = static_cast<int>(shape_.window_columns());
    const bool apart = shape_.windows_apart();
    // The windows that begin with the columns of a block, or so many in front of it, where zeros are.
    const auto windows_from = [&](int in_front, const Expr &block) {
        Expr all = bf16(0.0f);
        for (int column = together - 1; column >= in_front; column--) {
            const int shift = column - in_front;
            const Expr lanes_of = kernel_row(shift == 0 || apart ? raw : shifted_[shift - 1], 0, w - column * rows, block);
            all = select(w >= column * rows && w < (column + 1) * rows, lanes_of, all);
        }
        return all;
    };
    turn(turned, windows_from(0, xb), l, xb, {y, cb, yb, g, b});
    turned_place(l, i, y, cb, yb, g, b) = bf16(turned.part(l, i, y, cb, yb, g, b));
    image(l, px, z, yb, g, b) = undef<BFloat>();
    const int step = static_cast<int>(shape_.window_step()), first = (step - padding_x_ % step) % step;
    const Expr place = from[3] * lanes + from[1] * step + first, column = place + padding_x_ - from[0] * together;
    if (stride_x_ > step) from.where(column % stride_x_ == 0);
    Expr window = turned_place(l, apart ? place + together - 1 : place, from[2], from[4], yb, g, b);
    for (int other = together - 2; other >= 0 && apart; other--)
        window = select(l < (other + 1) * rows, turned_place(l, place + other, from[2], from[4], yb, g, b), window);
    image(l, line_lead() + from[2] * columns_ + column / stride_x_, from[0], yb, g, b) = window;
    if (padding_x_ == 0) return;
    edge_ = RDom(0, 1, 0, image_rows(), "edge");
    define_edges(windows_from(padding_x_, 0));
    image(l, line_lead() + edge_.y * columns_ + edge_.x, 0, yb, g, b) = edge_place(l, edge_.x, edge_.y, yb, g, b);
}

void ConvolutionImage::define_shifted() {
    const int height = static_cast<int>(shape_.height);
    const Expr row = yb * (plan_.block_step * static_cast<int>(shape_.stride_y)) - static_cast<int>(shape_.padding_y) + y;
    const bool windows = shape_.window_columns() > 0;
    for (int c = 0; c < static_cast<int>(shape_.shifted_images()); c++) {
        Func func("shifted" + std::to_string(c));
        const int first = windows ? 0 : static_cast<int>(shape_.first_shared_channel(c)),
                  last = windows ? in_ - 1 : static_cast<int>(shape_.last_shared_channel(c));
        const Expr at = xb * lanes + k + (windows ? c + 1 : static_cast<int>(shape_.shared_distance(c)));
        const std::vector<Expr> here = raw_at(k, l, y, xb, cb, yb);
        func(here) = bf16(0.0f);
        func(here) = select(at < width_ && row >= 0 && row < height && l <= last - first,
                            element(min(at, width_ - 1), clamp(row, 0, height - 1), min(l + first, last)), undef<BFloat>());
        shifted_.push_back(func);
        shifted_channels_.push_back(last - first + 1);
    }
}

void ConvolutionImage::schedule_columns(Func out) {
    std::vector<Func> all = shifted_;
    all.push_back(raw);
    for (size_t f = 0; f < all.size(); f++) {
        if (image_at_once_)
            all[f].compute_at(out, g);
        else
            all[f].compute_at(out, yb);
        all[f]
            .vectorize(k, lanes)
            .bound_extent(l, f < shifted_.size() ? shifted_channels_[f] : in_)
            .bound_extent(y, rows_brought())
            .bound_extent(xb, tiles_of(width_));
        if (!image_by_channel()) all[f].align_storage(l, static_cast<int>(machine_.pad.count));
        in_pads({all[f]});
    }
    image.compute_at(out, yb).vectorize(l, lanes).bound_extent(l, lanes).align_storage(px,
                                                                                       static_cast<int>(machine_.pad.count));
    RVar outer("io"), unrolled("i_unroll");
    image.update(0)
        .unroll(from[0])
        .split(from[1], outer, unrolled, std::min(width_, lanes) / static_cast<int>(shape_.window_step()))
        .reorder(l, from[0], unrolled, outer, from[2], from[3], from[4])
        .vectorize(l, lanes);
    schedule_turn(turned, image, from[2], unrolled, l, LoopLevel(out, yb));
    turned_place.compute_at(image, unrolled).vectorize(l, lanes);
    int update = 1;
    for (const RDom &zero : zeros_) image.update(update++).unroll(zero.x).vectorize(l, lanes);
    if (edge_.defined()) {
        image.update(update).unroll(edge_.x).reorder(l, edge_.x, edge_.y).vectorize(l, lanes);
        schedule_dot(edges, image, edge_.y, edge_.x, l);
        edge_place.compute_at(image, edge_.x).vectorize(l, lanes);
        in_registers({edge_place});
    }
    in_registers({turned_place});
    in_pads({identity, image});
}

}  // namespace atalla
