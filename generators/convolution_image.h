// What the forms of a convolution in the pads share: the image, turned where its channels are not innermost, so that a row of
// the pads is 32 channels of a place.
#pragma once

#include <string>
#include <vector>

#include "generators/convolution.h"
#include "generators/vocabulary.h"

namespace atalla {

// With channels innermost, the rows of the image that a block's windows see, with the padding above and below: as many elements
// for every block.
struct ImageFrame {
    ImageFrame(const ConvolutionShape &shape, const ConvolutionPlan &plan);
    // The first row of the image that a block has, and the row of the frame in which its first window begins.
    Halide::Expr start(const Halide::Expr &block) const;
    Halide::Expr first_window(const Halide::Expr &block) const;

    int before = 0, elements = 0, rows = 0;  // of the padding above, of the image, and all
    int together = 1;                        // of the image's that come together, which divide them
    int step = 0, last = 0, blocks = 1;      // from block to block, and the last one's start
};

class ConvolutionImage {
protected:
    struct Dot {
        Halide::Func weights, part;
        explicit Dot(const std::string &name) : weights(name + "_weights"), part(name + "_part") {}
    };
    // A product that turns tiles: rows of the identity, in registers, through weights.
    struct Turn : Dot {
        Halide::Func rows;
        explicit Turn(const std::string &name) : Dot(name), rows(name + "_rows") {}
    };

    ConvolutionImage(const ConvolutionShape &shape, const Machine &machine, const Point &point);

    void define_image();
    // In a loop nest over `out`, which has loops over blocks of rows, groups and images.
    void schedule_image(Halide::Func out);
    // Rows of the identity through `tile`, whose rows are the weights: row i of the product is column i of the tiles, of which
    // `block` counts.
    void turn(Turn &dot, const Halide::Expr &tile, const Halide::Var &lane, const Halide::Var &block,
              const std::vector<Halide::Var> &others);
    void schedule_dot(Dot &dot, Halide::Func consumer, const Halide::VarOrRVar &level, const Halide::VarOrRVar &row,
                      const Halide::Var &lane);
    void schedule_turn(Turn &dot, const Halide::Func &consumer, const Halide::VarOrRVar &level, const Halide::VarOrRVar &row,
                       const Halide::Var &lane, const Halide::LoopLevel &phase);
    // Two slots where transfers can run ahead.
    void two_slots(Halide::Func func, int64_t blocks) const;

    // Transfers of rows of one channel: worth it where they fill a page of the DRAM.
    bool by_channel(int64_t plane) const {
        return machine_.timed() && plane * static_cast<int64_t>(sizeof(uint16_t)) >= machine_.dram.row_bytes;
    }
    int groups() const { return static_cast<int>(shape_.groups); }
    int64_t blocks() const { return int64_t{plan_.blocks} * groups() * shape_.images; }
    // The rows of the image of one tap in the next tile of k, for a tile of the product that begins in row `row`.
    Halide::Expr image_row(const Halide::Expr &row, const Halide::Expr &tile) const;
    // The kernel, a row of 32 channels for each output channel and k tile, where such rows follow each other in memory.
    void define_whole_tiles(Halide::Func filter, const Halide::ImageParam &f);
    // A transfer brings k tiles of an output channel, whose weights follow each other in memory, and those of a pad do, too.
    bool along_taps() const { return machine_.timed() && shape_.packed && shape_.packs_by_pads() && weight_unroll_ == lanes; }
    // What the sums of a block of output channels begin with: a bias, or nothing.
    Halide::Expr define_start(Halide::Func biases, const Halide::ImageParam &bias);
    // The kernel of a scheduled pipeline, with the image's layout.
    KernelDefinition kernel_of(const Halide::Func &out, const Halide::ImageParam &f, const Halide::ImageParam &bias) const;

    const ConvolutionShape &shape_;
    const Machine &machine_;
    const bool folded_;   // the kernel's rows are on lanes
    const bool patches_;  // as they lie in memory
    const ConvolutionPlan plan_;
    const int in_, lane_rows_, channel_tiles_, taps_y_, taps_x_, taps_, tap_tiles_, out_, columns_, width_, stride_x_,
        padding_x_, step_y_, weight_unroll_;
    // Of shared columns: places in front of the first row, where the first places of rows would store what is cut off.
    int line_lead() const { return round_up(taps_x_ / stride_x_ + 1, static_cast<int>(machine_.pad.count)); }
    // In line: elements that are turned at once, such parts that come together, and how often.
    const int line_lanes_, line_chunk_, line_chunks_;
    const bool image_at_once_;
    const ImageFrame frame_;          // with channels innermost
    const int places_x_;              // and the places of a row that are stored: whole unrolled parts
    const int rows_together_;         // of the image, which are turned at once
    const int band_;                  // rows of the result that the lanes of one place serve
    const int rest_, window_places_;  // rows of the kernel whose columns are lanes, and places of a row of the result that have
                                      // a window of them: whole turns of the pads

    Halide::ImageParam x = vocabulary::tensor("X", image_extents());
    Halide::Var k{"k"}, l{"l"}, w{"w"}, wi{"w_unroll"}, i{"i"}, y{"y"}, xb{"xb"}, px{"px"}, z{"z"}, cb{"cb"}, g{"g"}, b{"b"},
        yb{"yb"}, o{"o"}, co{"co"}, t{"t"};
    Halide::Func identity{"identity"}, raw{"raw"}, turned_place{"turned_place"}, image{"image"};
    Turn turned{"turned"};
    Halide::RDom q{0, lanes, "q"};

private:
    // As the pipeline sees the image: planes as lines, or all of it where windows reach beyond rows.
    std::vector<int64_t> image_extents() const;
    Halide::Expr element(const Halide::Expr &column, const Halide::Expr &row, const Halide::Expr &channel) const;
    // Windows of the rows of the kernel whose columns are lanes: as they lie in memory.
    void define_windows();
    void schedule_windows(Halide::Func out);
    std::vector<Halide::Expr> raw_at(const Halide::Expr &column, const Halide::Expr &channel, const Halide::Expr &row,
                                     const Halide::Expr &part, const Halide::Expr &channels, const Halide::Expr &block) const;
    // By channel, a whole image of blocks of 32 channels would take the rows of one pad.
    bool image_by_channel() const {
        return !shape_.channels_last && !patches_ && by_channel(shape_.height * shape_.width) && (folded_ || !image_at_once_);
    }
    std::vector<Halide::RDom> borders() const;
    int image_rows() const {
        return folded_ ? plan_.rows / band_ : raw_rows();
    }  // of what only fills up a last strip the kernel's rows on lanes need none
    // Rows that lanes name and the kernel does not have: the row behind the image's, of zeros, stands for them.
    // Of the padded image or the result; where several are turned at once such groups of the image's own.
    int turned_rows() const {
        return rows_together_ == 1 ? image_rows() : ceil_div(static_cast<int>(shape_.height), rows_together_);
    }
    bool missing_rows() const {
        return folded_ && !patches_ && channel_tiles_ * lane_rows_ != static_cast<int>(shape_.kernel_y) && band_ == 1 &&
               rest_ == 0;
    }
    int raw_rows() const {
        return (plan_.stored_rows - 1) * static_cast<int>(shape_.stride_y) +
               static_cast<int>(shape_.dilation_y) * static_cast<int>(shape_.kernel_y - 1) + 1;
    }
    // Rows of the padded image that come together.
    int rows_brought() const {
        return raw_rows() + (image_at_once_ ? (plan_.blocks - 1) * plan_.block_step * static_cast<int>(shape_.stride_y) : 0);
    }
    // Places in line: planes for each column of the kernel and block of channels, whose places follow each other.
    void define_line();
    void schedule_line(Halide::Func out);
    // Windows that do not overlap.
    void define_patches();
    void schedule_patches(Halide::Func out);
    bool tiles_follow() const { return shape_.kernel_y / shape_.patch_rows() > plan_.rows; }
    // Columns of the kernel that share k tiles: the image's places with lanes of another column, in line.
    void define_shifted();
    void define_columns();
    void define_window_columns();
    void define_edges(const Halide::Expr &tile);  // the weights that turn them
    Halide::Expr kernel_row(const Halide::Func &func, int least, const Halide::Expr &row, const Halide::Expr &block);
    void schedule_columns(Halide::Func out);
    // Channels innermost.
    void define_places();
    void schedule_places(Halide::Func out);
    int image_z() const { return (shape_.channels_last ? frame_.rows : image_rows()) * tap_tiles_; }

    // Columns of the kernel, places of a tile, rows or groups of them, tiles of a row, blocks of channels.
    Halide::RDom from{0,     shape_.shared_columns() > 0 ? tap_tiles_ : taps_x_,
                      0,     std::min(lanes, rows_together_ *width_) / static_cast<int>(shape_.window_step()),
                      0,     turned_rows(),
                      0,     tiles_of(width_),
                      0,     channel_tiles_,
                      "from"};
    const std::vector<Halide::RDom> borders_ = borders();
    // Places of a row, rows of the kernel whose columns are lanes, rows; and such windows with columns outside of the image.
    Halide::Func windows{"windows"};
    Halide::RDom window_from{0, window_places_, 0, std::max(rest_, 1), 0, plan_.rows, "window_from"};
    std::vector<Halide::RDom> cut_windows_;
    // In line: columns of the kernel, places of a block, blocks that come together, such groups, blocks of channels.
    Halide::RDom line_from{0, taps_x_, 0, line_lanes_, 0, line_chunk_, 0, line_chunks_, 0, channel_tiles_, "line_from"};
    std::vector<Halide::RDom> patch_rows_;  // of windows that do not overlap: lanes, rows of the result, k tiles, channels
    // Shared columns: the image from some columns on, for each class, and the channels of each; places at the edge.
    std::vector<Halide::Func> shifted_;
    std::vector<int> shifted_channels_;
    Halide::Func edge_place{"edge_place"};
    Dot edges{"edges"};
    Halide::RDom edge_;
    // Channels innermost: columns of the kernel, places of a row, rows that come together, blocks of channels, such rows.
    Halide::RDom brought_{
        0, taps_x_, 0, places_x_, 0, frame_.together, 0, channel_tiles_, 0, frame_.elements / frame_.together, "brought"};
    std::vector<Halide::RDom> zeros_;  // in line: places around the image and beside its rows
};

}  // namespace atalla
