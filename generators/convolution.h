// Convolutions of images, in PyTorch's layout or with channels innermost: implicit im2col in the pads, no im2col in memory.
#pragma once

#include <algorithm>
#include <vector>

#include "generators/epilogue.h"
#include "generators/kernel_definition.h"
#include "isa/machine.h"
#include "isa/vectors.h"
#include "schedules/point.h"

namespace atalla {

// What the lanes of a k tile are where the rows of a window are: `window` rows of the image, those that `rows` rows of the
// result read, of each of `channels` channels; `tiles` such tiles make all channels.
struct ConvolutionBand {
    int64_t rows = 1, window = 1, channels = 1, tiles = 1;
    int lanes() const { return static_cast<int>(window * channels); }
};

// A kernel for each channel as matrices that rows of a plane pass: a row of the result is cut into `parts` of `places`, the
// last of which may have fewer, each of which reads at most `window` neighbouring columns of the image. The matrix of a row of
// the kernel has its columns along a diagonal; the first part, which the padding reaches into, has a matrix of its own, so
// there are `kinds` of them. A matrix's rows have `stored` elements in memory.
struct ConvolutionDiagonal {
    int64_t places = 0, parts = 0, window = 0, stored = 0, kinds = 1;
};

// An element of the kernel of an output channel; outside of it for a lane that has none. Where another lane has it, too, or the
// lane has a column of the image behind the kernel's last, its weight here is zero.
struct KernelElement {
    int64_t channel = 0, row = 0, column = 0;
    bool elsewhere = false;
};

// X [images][groups * in][height][width], F [groups * out][in][kernel_y][kernel_x], an optional bias [groups * out], output
// [images][groups * out][rows()][columns()]. Channels are those of one group.
struct ConvolutionShape {
    int64_t images = 1, groups = 1, in = 0, out = 0, height = 1, width = 1, kernel_y = 1, kernel_x = 1;
    int64_t stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
    int64_t padding_y = 0, padding_x = 0, padding_end_y = 0, padding_end_x = 0;  // zeros in front of the image and behind it
    bool bias = false;
    Epilogue epilogue;        // behind each result
    LaneCount epilogue_work;  // of a vector of results
    // F is [groups * out][kernel_y][kernel_x][in]; with rows on lanes [groups *
    // out][band_rows()][kernel_x][channel_tiles()][in][lane_window()], zero where the kernel has no row. With rest_rows() or
    // shared_columns() it is [groups * out][k_tiles()][32], whose elements are those of element_of(). The output channels are
    // in the order of packed_channel(). With passes_matrices() it is [groups][diagonal().kinds][kernel_y][places][stored], each
    // place's kernel where its window lies in the columns that its part reads.
    bool packed = false;
    // F is [groups][band().tiles][kernel_x][out][band().rows][channels][window]: the kernel's column for each row of the result
    // in a band, zero where the window has no row or channel of the kernel.
    bool banded = false;
    // X is [images][height][width][groups * in], the output [images][rows()][columns()][groups * out]: with `packed`, nothing
    // is turned.
    bool channels_last = false;
    // Each group is so many of the convolution: a packed F has all their channels, zero where an output channel is of another
    // one; as PyTorch has it, those of its own.
    int64_t merged = 1;
    // With `packed`: columns of the kernel may share k tiles. That saves additions and takes a turn of the image for each row
    // of the result.
    bool shares = false;

    int64_t padded_height() const { return padding_y + height + padding_end_y; }
    int64_t padded_width() const { return padding_x + width + padding_end_x; }
    int64_t rows() const { return (padded_height() - dilation_y * (kernel_y - 1) - 1) / stride_y + 1; }
    int64_t columns() const { return (padded_width() - dilation_x * (kernel_x - 1) - 1) / stride_x + 1; }
    // The lanes of a product: 32 channels, or where there are few, those of several rows of the kernel: how many.
    // Where the rows of the kernel in all channels are a few more than fill k tiles, so many are not among the lanes of each
    // column: the lanes of a k tile of its own are the columns of such a row, as they lie in the image. They are rows of the
    // last channel that no padding meets, and not the image's last one either, so that what their windows reach beyond a row of
    // the image is the image's, too.
    int64_t rest_rows() const;
    // The order of rows of the kernel in lanes: channels one after the other, each from the row behind those of rest_rows() on,
    // and these last. Of a number as of a Halide expression.
    template <typename Lane>
    Lane lane_channel(const Lane &lane) const {
        return lane / static_cast<int>(kernel_y);
    }
    template <typename Lane>
    Lane lane_row(const Lane &lane) const {
        return (lane + static_cast<int>(first_inside() + rest_rows())) % static_cast<int>(kernel_y);
    }
    KernelElement element_of(int64_t tile, int64_t lane) const;  // of a lane of a k tile, with packs_lanes()
    // Windows that do not overlap and meet no padding: the lanes of a k tile are so many whole rows of the kernel, one
    // channel's after the other.
    bool patches() const;
    int64_t patch_rows() const { return std::min(lanes / kernel_x, window_rows()); }
    // Columns of the kernel that have no k tile of their own: the lanes behind the rows of the others' columns hold them. A
    // step's columns serve the same places of the image, so each of stride_x classes of columns, one step apart, has its own
    // rows of the kernel there, from one column of the kernel, `shared_distance` behind. All missing columns are of the last
    // one's class.
    int64_t shared_columns() const;
    bool sharing_pays(const Machine &machine) const;
    // Neighbouring columns share a k tile, whose lanes are the rows of the kernel in all channels for each of so many: whole
    // windows where one k tile has all columns. 0: columns do not.
    int64_t window_columns() const;
    // The columns of the image in which those of a k tile begin are so far apart.
    int64_t window_step() const;
    // Columns of the image are of one k tile each.
    bool windows_apart() const;
    // The image comes so many times more, from some columns on.
    int64_t shifted_images() const {
        return window_columns() > 0   ? (windows_apart() ? 0 : window_columns() - 1)
               : shared_columns() > 0 ? shared_classes()
                                      : 0;
    }
    int64_t window_rows() const { return in * kernel_y; }
    int64_t shared_lanes() const { return lanes - window_rows(); }                      // of a class
    int64_t shared_classes() const { return ceil_div(window_rows(), shared_lanes()); }  // that have such lanes
    int64_t first_shared_channel(int64_t of_class) const { return of_class * shared_lanes() / kernel_y; }
    int64_t last_shared_channel(int64_t of_class) const {
        return (std::min((of_class + 1) * shared_lanes(), window_rows()) - 1) / kernel_y;
    }
    int64_t first_shared_column() const { return kernel_x - 1 - stride_x * (shared_columns() - 1); }
    int64_t shared_distance(int64_t of_class) const { return shared_distance(of_class, shared_columns()); }
    // The column of a k tile: behind the first missing one those of other classes.
    int64_t tile_column(int64_t tile) const {
        const int64_t behind = tile - first_shared_column();
        return shared_columns() == 0 || behind < 0 ? tile : tile + 1 + behind / (stride_x - 1);
    }
    // The class whose places in front of a row of the image are not all outside of it; -1 if there is none.
    int64_t class_at_edge() const;
    int64_t lane_rows() const { return in > 16 || channels_last ? 1 : (kernel_y + least_row_tiles() - 1) / least_row_tiles(); }
    bool rows_on_lanes() const { return lane_rows() > 1; }
    // Rows of the result whose windows share lanes where F is packed so, and the lanes of a channel: rows of the kernel, or of
    // the image where there are several rows of the result.
    int64_t band_rows() const;
    int64_t band_places() const;  // equal parts of a row of the result of at most 32 places
    int64_t lane_window() const { return rest_rows() > 0 ? kernel_y : band_rows() == 1 ? lane_rows() : rows_read(band_rows()); }
    // The row of the kernel that row `row` of a band has in row `window` of the image; outside of the kernel if it has none.
    int64_t kernel_row(int64_t window, int64_t row) const {
        return (window - row * stride_y) % dilation_y == 0 ? (window - row * stride_y) / dilation_y : -1;
    }
    int64_t lane_tap(int64_t tile, int64_t lane, int64_t row) const {
        return band_rows() == 1 ? tile * lane_rows() + lane : kernel_row(lane, row);
    }
    // Blocks of lanes in which the channels come for each element of the kernel, or for each of its columns.
    int64_t channel_tiles() const {
        return rest_rows() > 0 ? in * kernel_y / lanes : rows_on_lanes() ? ceil_div(kernel_y, lane_rows()) : tiles_of(in);
    }
    int64_t taps() const { return kernel_x * (rows_on_lanes() ? 1 : kernel_y); }
    // Where F has output channel `o` when packed: of whole blocks of 32 those that go to one pad, every fourth, follow each
    // other. Of a number as of a Halide expression.
    template <typename Channel>
    Channel packed_channel(const Channel &o) const {
        constexpr int pads = 4, block = lanes;
        return packs_by_pads() ? o / block * block + o % pads * (block / pads) + o % block / pads : o;
    }
    // Do rows of 32 of a packed F follow each other?
    bool packs_whole_tiles() const { return rows_on_lanes() ? packs_lanes() : in % lanes == 0; }
    bool packs_lanes() const {
        return rest_rows() > 0 || shared_columns() > 0 || patches();
    }  // the elements of F are those of element_of()
    bool packs_by_pads() const { return packs_whole_tiles() && out % lanes == 0; }
    // Blocks of channels of a kernel as PyTorch has it that are in the pads at a time, to be turned: two where they are alike,
    // none filled up; else all if they do not take more than a quarter of the pads.
    int64_t kernel_slots(const Machine &machine) const;
    // Blocks of channels of an image that is turned come one by one where none of them is filled up, or all would take much of
    // the pads.
    bool channels_one_by_one(const Machine &machine) const {
        constexpr int64_t much = 8;
        return channel_tiles() > 1 && !rows_on_lanes() &&
               (in % lanes == 0 ||
                much * lanes * channel_tiles() * padded_height() * tiles_of(width) > machine.pad.count * machine.pad_rows());
    }
    int64_t k_tiles() const {
        return patches() ? ceil_div(window_rows(), patch_rows()) : taps() * channel_tiles() + rest_rows() - shared_columns();
    }
    // Is F packed as the matrices of a kernel for each channel?
    bool passes_matrices() const;
    ConvolutionDiagonal diagonal() const;
    // The same with as many groups of few channels in one as fit the lanes and divide all, where that takes no more tiles of
    // weights and, packed, at most twice the k tiles; of kernels as PyTorch has them output channels fit the lanes, too. With
    // channels innermost, where lanes hold nothing else, always.
    ConvolutionShape with_merged_groups() const;
    ConvolutionShape with_own_groups() const;  // those of the convolution
    // A kernel of one element that meets every element does not see where a row of the image ends.
    bool meets_every_element() const {
        return kernel_x * kernel_y == 1 && stride_x * stride_y == 1 && padded_width() == width && padded_height() == height;
    }
    ConvolutionShape in_one_line() const;
    // A product of matrices as its tensors lie in memory. Planes with packed weights are faster turned.
    bool is_product() const { return meets_every_element() && groups == 1 && !banded && (channels_last || !packed); }
    // Rows, or columns, of the padded image that so many of the result read.
    int64_t rows_read(int64_t count) const { return (count - 1) * stride_y + dilation_y * (kernel_y - 1) + 1; }
    int64_t columns_read(int64_t count) const { return (count - 1) * stride_x + dilation_x * (kernel_x - 1) + 1; }
    // Rows and strips begin in the same pad, so that the pad of every place is known.
    static constexpr int64_t places_together = 4;
    // Are the places of the result those of the image, so that both may pass without regard to where rows end?
    bool places_in_line() const {
        return !rows_on_lanes() && !channels_last && stride_x * stride_y == 1 && columns() == width && kernel_x > 1 &&
               in % lanes == 0 && width % places_together == 0;
    }
    // Can each pad have a part of the image as it lies in memory?
    bool in_parts() const { return channels_last && packed && in % lanes == 0; }
    // With channels innermost: places of a row of the image in straight-line code, whole rounds of the pads or the row.
    int64_t places_unrolled(int64_t pads) const;
    // Rows of a narrow image of whole blocks of channels that fit the lanes when they are turned at once.
    int64_t narrow_rows() const {
        return rows_on_lanes() || channels_last || in % lanes != 0 ? 1 : std::clamp<int64_t>(lanes / width, 1, height);
    }
    // Places in line that are turned at once: equal parts of a plane.
    int64_t line_lanes() const { return equal_part(height * width); }
    // With shared_columns(), whose places follow each other, too: equal parts of all.
    int64_t line_places() const { return equal_part(rows() * columns()); }
    // So many of these parts come together.
    int64_t line_blocks() const {
        const int64_t all = height * width / line_lanes();
        int64_t blocks = 16;
        while (all % blocks != 0) blocks--;
        return blocks;
    }
    // The band of rows of the result with the fewest steps of the array; one row where F is not banded. Window 0: none fits the
    // lanes.
    ConvolutionBand band() const;
    // Extents, innermost first.
    std::vector<int64_t> x_extents() const {
        return channels_last ? std::vector{in * groups, width, height, images}
                             : std::vector{width, height, in * groups * images};
    }
    // Elements of X in front of those of a group of an image, and from there to one of its elements.
    int64_t x_base(int64_t image, int64_t group) const {
        return channels_last ? image * height * width * groups * in + group * in
                             : (image * groups + group) * in * height * width;
    }
    int64_t x_offset(int64_t channel, int64_t row, int64_t column) const {
        return channels_last ? (row * width + column) * groups * in + channel : (channel * height + row) * width + column;
    }
    std::vector<int64_t> f_extents() const {
        if (banded) return {band().window, band().channels, band().rows, out, kernel_x, band().tiles * groups};
        if (!packed) return {kernel_x, kernel_y, in / merged, out * groups};
        if (packs_lanes()) return {lanes, k_tiles(), out * groups};
        if (passes_matrices()) return {diagonal().stored, diagonal().places, kernel_y, diagonal().kinds, groups};
        return rows_on_lanes() ? std::vector{lane_window(), in, channel_tiles(), kernel_x, band_rows() * out * groups}
                               : std::vector{in, kernel_x, kernel_y, out * groups};
    }
    std::vector<int64_t> bias_extents() const { return {out * groups}; }
    std::vector<int64_t> out_extents() const {
        return channels_last ? std::vector{out * groups, columns(), rows(), images}
                             : std::vector{columns(), rows(), out * groups * images};
    }

private:
    // Of so many places, at most 32.
    static int64_t equal_part(int64_t places) {
        int64_t part = lanes;
        while (part > places_together && places % part != 0) part -= places_together;
        return part;
    }
    // The first row of the kernel that meets no padding above.
    int64_t first_inside() const { return ceil_div(padding_y, dilation_y); }
    int64_t shared_distance(int64_t of_class, int64_t shared) const;
    bool reaches_in(int64_t of_class, int64_t shared) const;
    KernelElement shared_element(int64_t tile, int64_t lane) const;
    KernelElement patch_element(int64_t tile, int64_t lane) const;
    bool shares_in_line() const;
    int64_t best_band() const;  // without regard to shared_columns()
    int64_t least_row_tiles() const { return (kernel_y + 32 / in - 1) / (32 / in); }
};

// Strips of one size, one below the other: the first row, how many there are, and the rows of each.
struct Strips {
    int first, count, rows;
};

// The blocks that a point cuts the result into.
struct ConvolutionPlan {
    ConvolutionPlan(const ConvolutionShape &shape, const Point &point);
    // Blocks divide the rows of the result, or of large images, of few channels, a few of them overlap by equal numbers of
    // rows.
    static bool possible_block(const ConvolutionShape &shape, int64_t rows);
    // Strips are whole rows or divide one, and those of two sizes have together the rows of a block; in line they are any
    // number of places.
    static bool possible(const ConvolutionShape &shape, const Point &point);
    bool in_line;  // strips and what is turned at once are places that follow each other in a plane
    static constexpr int64_t parts = 4;
    bool in_parts;      // each pad has a part of the image, rows of it, and a strip places of all parts
    int part_rows = 0;  // rows of the result of each, whole strips; the last may lack some
    // Rows of a strip of all parts. One below the other they fill up the last part; where each part is one strip, all have the
    // result's rows.
    int strip_height() const { return part_rows == strip_rows ? rows : static_cast<int>(parts) * strip_rows; }
    // Rows of the result for which the image is turned at once, such blocks, and rows from one to the next: fewer where blocks
    // overlap, whose rows are computed twice.
    int rows, blocks, block_step;
    int strip_columns, strip_rows;  // what one load of the weights serves
    int strips_leave;               // strips, one behind the other in the planes of the result, that leave together
    // Of a block: rows with those that only fill up the last strip, strips, and places of the result.
    int stored_rows, strips, pixels;
    std::vector<Strips> sizes;  // of the strips: all alike, or some a row less than the others, so that they have the rows of a
                                // block and no more
    // Tiles of results that are turned back before they leave: some, so that they leave while the next ones are turned.
    int tiles_turned_back() const;
    int stored_places() const { return in_line ? strips * strip_columns : pixels / rows * stored_rows; }  // of all strips
    int stored_pixels() const { return std::max(round_up(pixels, lanes), stored_places()); }
    // Does what is outside of the image surround all blocks alike? What comes for one then takes turns in two slots with what
    // comes for the next.
    bool surrounded_alike(const ConvolutionShape &shape) const {
        return blocks == 1 || (shape.padding_y == 0 && stored_rows == rows);
    }
    // Slots of blocks of channels that come one by one: of those that are filled up each has its own fill.
    int channel_slots(const ConvolutionShape &shape) const { return shape.in % lanes == 0 && surrounded_alike(shape) ? 2 : 1; }
    // With channels innermost what is behind the results is a loop of its own, for several strips together.
    bool epilogue_apart(const ConvolutionShape &shape) const { return shape.channels_last && shape.epilogue && strips > 1; }
};

// Sums over 32 lanes in float32, rounded to bf16, and in bf16, beginning with the bias, over the rows of the kernel, its
// columns and the blocks of channels, blocks of channels innermost. The array turns image, kernel and result between the layout
// of the tensors and that of its vectors: an infinity or NaN spreads over what is turned with it (docs/convolution.md).
KernelDefinition convolution(const ConvolutionShape &shape, const Machine &machine, const Point &point);

// The kernel that stores `out`, with the tensors of a convolution.
KernelDefinition convolution_kernel(const ConvolutionShape &shape, const Halide::Func &out, const Halide::ImageParam &x,
                                    const Halide::ImageParam &f, const Halide::ImageParam &bias);

}  // namespace atalla
