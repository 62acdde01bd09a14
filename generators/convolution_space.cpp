#include "generators/convolution_space.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "generators/convolution_image.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

constexpr int64_t most_strip_rows = 32;

// Vector registers that a strip with its sums in registers leaves for weights, places and results on their way; where the adder
// sums, results wait for it.
int64_t registers_in_flight(const Machine &machine) { return machine.sa.psum_in ? 55 : 90; }
int64_t most_sums(const Machine &machine) { return machine.regs.vector - 1 - registers_in_flight(machine); }

// Rows of the padded image that a block of the result reads, those stored as places, and places in each.
int64_t image_reach(const ConvolutionShape &shape, const ConvolutionPlan &plan) { return shape.rows_read(plan.stored_rows); }
int64_t image_rows(const ConvolutionShape &shape, const ConvolutionPlan &plan) {
    return shape.rows_on_lanes() ? plan.stored_rows / shape.band_rows() : image_reach(shape, plan);
}
// Of so many places of a row of the image that are stored for each column of the kernel: where the result's columns need them,
// or more.
int64_t image_columns(const ConvolutionShape &shape, int64_t places) {
    const int64_t before =
        ceil_div(std::max<int64_t>(0, shape.dilation_x * (shape.kernel_x - 1) - shape.padding_x), shape.stride_x);
    return std::max(round_up((places - 1 + shape.padding_x) / shape.stride_x + 1 + before, ConvolutionShape::places_together),
                    shape.columns() + before);
}
int64_t image_columns(const ConvolutionShape &shape) {
    return image_columns(shape, shape.width < lanes ? shape.width : tiles_of(shape.width) * lanes);
}

// Of a packed kernel of 32 output channels: two slots of its parts, or of the whole.
int64_t kernel_rows(const ConvolutionShape &shape, const Point &point, int64_t slots) {
    const int64_t parts = point["kernel_parts"];
    return (parts > 1 ? 2 : slots) * lanes * shape.k_tiles() / parts;
}

// Do so many columns in straight-line code go round the pads, so that the pad of each is known?
bool keeps_pads(const ConvolutionShape &shape, int64_t unroll, const Machine &machine) {
    return shape.columns() % unroll == 0 && (unroll == shape.columns() || unroll % machine.pad.count == 0);
}

// Rows that all buffers take where channels are innermost: the image once for each column of the kernel, its weights and the
// results, two slots of what follows itself.
int64_t pad_rows_of_places(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    const ConvolutionPlan plan(shape, point);
    const int64_t blocks = plan.blocks * shape.groups * shape.images, pixels = plan.stored_pixels(),
                  filter = lanes * shape.k_tiles();
    const auto slots = [&](int64_t count) { return count > 1 && machine.timed() ? 2 : 1; };
    const ImageFrame frame(shape, plan);
    const int64_t places = round_up(shape.width, shape.places_unrolled(machine.pad.count));
    const int64_t image = frame.rows * image_columns(shape, places) * shape.kernel_x * shape.channel_tiles(),
                  brought = slots(frame.elements / frame.together * blocks) * frame.together *
                            round_up(places, machine.pad.count) * shape.channel_tiles();
    const int64_t raw_kernel = shape.packed ? 0 : lanes * lanes * tiles_of(shape.taps()) * shape.kernel_slots(machine);
    const int64_t out_tiles = tiles_of(shape.out), outputs = slots(out_tiles * blocks),
                  leave = point["strips_alike"] || plan.epilogue_apart(shape) ? outputs : 0;
    const int64_t finished = (leave + (!point["strips_alike"] ? out_tiles : plan.epilogue_apart(shape) ? 1 : 0)) * pixels;
    // A loop over places with the sums in the pads does not know the pad of each: then one has them all.
    return image * (point["sums_in_registers"] ? 1 : machine.pad.count) + brought +
           (shape.packed ? kernel_rows(shape, point, outputs) * static_cast<int64_t>(plan.sizes.size()) : filter) + raw_kernel +
           finished + (point["sums_in_registers"] ? 0 : point["strip_rows"] * point["strip_columns"]) + 3 * lanes;
}

// Of parts: the image once with its padding, its weights and the results, two slots of each where several follow each other.
int64_t pad_rows_of_parts(const ConvolutionShape &shape, const Point &point) {
    const ConvolutionPlan plan(shape, point);
    const int64_t columns = round_up(shape.columns(), point["strip_columns"]), frame_columns = shape.columns_read(columns),
                  frame_rows = shape.rows_read(plan.part_rows);
    const int64_t slots = tiles_of(shape.out) * shape.groups * shape.images > 1 ? 2 : 1;
    return plan.parts * frame_rows * frame_columns * shape.channel_tiles() +
           slots * (lanes * shape.k_tiles() + plan.parts * plan.part_rows * columns) + lanes;
}

// Rows of the results of a block, where places stream past 32 channels.
int64_t finished_rows(const ConvolutionShape &shape, const ConvolutionPlan &plan, const Point &point) {
    return (point["back_at_end"] ? tiles_of(shape.out) : 1) * plan.stored_pixels();
}

// Rows that all buffers take.
int64_t pad_rows(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    if (point["in_parts"]) return pad_rows_of_parts(shape, point);
    if (shape.channels_last) return pad_rows_of_places(shape, machine, point);
    const ConvolutionPlan plan(shape, point);
    const int64_t channel_tiles = shape.channel_tiles(), pixels = plan.stored_pixels(), rows = image_rows(shape, plan),
                  filter = lanes * shape.k_tiles();
    // First rows of the first block and the last.
    const int64_t apart = point["image_at_once"] ? (plan.blocks - 1) * plan.block_step * shape.stride_y : 0;
    const int64_t raw = apart + image_reach(shape, plan) + 1;
    int64_t all = rows * image_columns(shape) * (shape.kernel_x * channel_tiles + shape.rest_rows());
    if (shape.patches()) all = round_up(shape.columns(), machine.pad.count) * plan.stored_rows * shape.k_tiles();
    if (shape.shared_columns() > 0) all = (rows * shape.columns() + 2 * lanes) * shape.k_tiles();
    if (point["in_line"])
        all = (plan.stored_places() + (shape.dilation_y * (shape.kernel_y - 1) + 1) * shape.width) * shape.kernel_x *
              channel_tiles;
    // A loop over places with the sums in the pads whose straight-line code does not go round the pads: then one has the image.
    if (!point["sums_in_registers"] && !keeps_pads(shape, point["row_unroll"], machine)) all *= machine.pad.count;
    // The image as it is, and from some columns on for those that share k tiles: each with its channels in the first pads,
    // which are full first.
    const int64_t planes_brought = round_up(shape.in, machine.pad.count) * (1 + shape.shifted_images());
    const int64_t one_by_one = std::min<int64_t>(channel_tiles, plan.channel_slots(shape)),
                  together = !point["image_at_once"] && shape.channels_one_by_one(machine) ? one_by_one : channel_tiles;
    if (point["in_line"])
        all += 2 * shape.line_blocks() * lanes;
    else if (!shape.patches())
        all += raw * tiles_of(shape.width) * (shape.rows_on_lanes() ? planes_brought : lanes * together);
    if (shape.rest_rows() > 0)
        all += (plan.blocks > 1 ? 2 : 1) * shape.rest_rows() * plan.rows *
               round_up(shape.columns(), ConvolutionShape::places_together);
    // Two slots of the kernel's rows and of the results, and what the sums begin with.
    if (const int64_t channels = round_up(point["channels"], machine.pad.count); channels > 0)
        return all + 2 * channels * shape.band_rows() * (shape.k_tiles() + plan.strips_leave) +
               round_up(shape.out, machine.pad.count) + tiles_of(shape.out) + 3 * lanes;
    // One that is turned has a pad: its rows are written where a loop over them is.
    all += shape.packed ? kernel_rows(shape, point, 2) * static_cast<int64_t>(plan.sizes.size())
                        : machine.pad.count * filter + lanes * lanes * tiles_of(shape.taps()) * shape.kernel_slots(machine);
    return all + finished_rows(shape, plan, point) +
           (point["in_line"] ? 2 * plan.tiles_turned_back() * lanes : (point["sums_in_registers"] ? 2 : 3) * pixels) +
           2 * lanes + machine.pad.count;
}

// A loop over strips, or over places where sums are in the pads, goes on by so many results. Where that is no whole round of
// the pads, fewer pads have them all: rows that the others have to leave free.
int64_t rows_left_free(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    if (point["in_parts"] || point["in_line"] || point["channels"] > 0) return 0;
    if (shape.channels_last && point["strips_alike"]) return 0;  // those of 32 channels at a time, which are few
    const ConvolutionPlan plan(shape, point);
    int64_t step = point["sums_in_registers"] ? 0 : point["row_unroll"];
    for (const Strips &strips : plan.sizes)
        if (point["sums_in_registers"] && strips.count > 1) step = std::gcd(step, int64_t{strips.rows} * plan.strip_columns);
    if (point["back_at_end"] && shape.out > lanes) step = std::gcd(step, plan.stored_pixels());
    const int64_t pads = std::gcd(step, int64_t{machine.pad.count});
    return (machine.pad.count / pads - 1) * finished_rows(shape, plan, point);
}

int64_t least_weight_unroll(const ConvolutionShape &shape, const Machine &machine) {
    int64_t unroll = machine.pad.count;
    while (unroll < lanes && unroll % (machine.pad.count * shape.stride_x) != 0) unroll *= 2;
    return lanes % unroll == 0 ? unroll : lanes;  // pads that do not divide a tile
}
// In parts where it takes more than an eighth of the pads: a transfer brings the k tiles of an output channel in a part, which
// are few enough for it and enough to start the others beside.
std::vector<int64_t> kernel_parts(const ConvolutionShape &shape, const Machine &machine) {
    std::vector<int64_t> all = {1};
    const int64_t tiles = shape.k_tiles(), fewest = 12;
    if (!shape.packed || shape.rows_on_lanes() || !shape.packs_by_pads() || !machine.timed() ||
        8 * lanes * tiles < machine.pad.count * machine.pad_rows())
        return all;
    for (int64_t together = fewest; together <= machine.sdma.max_rows; together++)
        if (tiles % together == 0) all.push_back(tiles / together);
    return all;
}

// Where places follow each other the results of so many strips may leave together.
std::vector<int64_t> strips_leave(const ConvolutionShape &shape) {
    std::vector<int64_t> all = {1};
    const int64_t strips = shape.rows() * shape.columns() / shape.line_places();
    constexpr int64_t fewest = 16, most = 64;
    for (int64_t together = fewest; together <= std::min(most, strips); together++)
        if (strips % together == 0) all.push_back(together);
    return all;
}

// Do the transfers of the results of strips that leave together, one or more for each output channel, all start beside the
// strips behind them, every other one?
bool leave_beside(const Machine &machine, const Point &point) {
    const int64_t strips = point["strips_leave"],
                  transfers = ceil_div(point["channels"], machine.pad.count) * ceil_div(strips, machine.sdma.max_rows);
    return strips == 1 || 2 * transfers <= strips;
}

double weights_cycles(const Point &point) { return 40 * lanes / static_cast<double>(point["weight_unroll"]); }

// Constraints keep copies of what they ask.
class ConvolutionSpace {
public:
    ConvolutionSpace(const ConvolutionShape &shape, const Machine &machine)
        : shape_(shape),
          machine_(machine),
          band_(shape.band_rows()),
          shares_(shape.shared_columns() > 0),
          kernels_stream_(band_ > 1 || shares_),
          in_line_(shape.places_in_line() && vocabulary::array_adds(machine)),
          in_parts_(shape.in_parts() && vocabulary::array_adds(machine)) {}

    Space make() {
        add_parameters();
        bring_kernel_in_parts();
        place_image_otherwise();
        cut_strips();
        fit_registers();
        clear_sums();
        if (shape_.channels_last) keep_channels_innermost();
        if (shape_.patches()) bring_patches();
        if (kernels_stream_) stream_kernels();
        share_image();
        fit_pads();
        return std::move(space_);
    }

private:
    // ---- parameters

    std::vector<int64_t> blocks_of_rows() const {
        std::vector<int64_t> values;
        for (int64_t block = 1; block <= shape_.rows(); block++)
            if (ConvolutionPlan::possible_block(shape_, block)) values.push_back(block);
        return values;
    }
    static std::vector<int64_t> up_to(int64_t most) {
        std::vector<int64_t> values(static_cast<size_t>(most));
        std::iota(values.begin(), values.end(), 1);
        return values;
    }
    std::vector<int64_t> strip_columns() const {
        const int64_t columns = shape_.columns();
        std::vector<int64_t> values = shares_ ? std::vector{shape_.line_places()} : divisors(columns, columns);
        const auto add = [&](int64_t part) {
            if (std::find(values.begin(), values.end(), part) == values.end()) values.push_back(part);
        };
        // In line a strip is any number of places: the equal parts of all that fit the registers.
        if (in_line_)
            for (int64_t count = 1, places = shape_.rows() * columns; count <= places; count++)
                if (const int64_t part = round_up(ceil_div(places, count), ConvolutionShape::places_together);
                    part <= most_sums(machine_) && part >= most_sums(machine_) / 4)
                    add(part);
        // Strips of parts may reach beyond the columns of the result: equal parts of these, the last filled up. Where the adder
        // sets the pace, strips are short, and their loop over k tiles defers sums, which it cannot where it is in another one.
        for (int64_t count = 1; count <= columns && in_parts_; count++) add(ceil_div(columns, count));
        return values;
    }
    std::vector<int64_t> row_unrolls() const {
        std::vector<int64_t> values;
        for (int64_t unroll = 1; unroll <= shape_.columns(); unroll++)
            if (unroll == 1 || keeps_pads(shape_, unroll, machine_)) values.push_back(unroll);
        return values;
    }
    // As places are turned, columns of the result go round the pads.
    std::vector<int64_t> weight_unrolls() const {
        if (shares_) return {lanes};
        std::vector<int64_t> values;
        for (int64_t unroll = least_weight_unroll(shape_, machine_); unroll <= lanes; unroll *= 2) values.push_back(unroll);
        return values;
    }
    // Of packed blocks of 32 channels whole ones.
    std::vector<int64_t> channels() const {
        if (!kernels_stream_) return {0};
        std::vector<int64_t> values;
        for (int64_t part = 1; part <= shape_.out; part++)
            if (shape_.out % part == 0 && (part == 1 || part * band_ <= most_sums(machine_)) &&
                (!shape_.packs_by_pads() || part % lanes == 0))
                values.push_back(part);
        return values;
    }

    void add_parameters() {
        const auto either = [](bool possible) { return possible ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0}; };
        space_.parameter("rows", "rows of the result for which the image is turned at once", blocks_of_rows())
            .choice("image_at_once",
                    "1: the whole image comes before it is turned, and the code of all blocks is alike; 0: each block's rows "
                    "of it, or channels",
                    {0, 1})
            .parameter("strip_rows", "rows of the result that one load of the weights serves",
                       up_to(std::min<int64_t>(shape_.rows(), most_strip_rows)))
            .parameter("strip_columns", "columns of the result that one load of the weights serves", strip_columns())
            .choice("strips_alike",
                    "1: all strips are alike, the last filled up with rows that are no results; 0: some are a row lower, with "
                    "code of their own",
                    {1, 0})
            .choice("sums_in_registers", "1: a strip's sums stay in registers while the k tiles pass; 0: in the pads", {0, 1})
            .choice("first_apart",
                    "1: a strip's first k tile is code of its own; 0: its sums are cleared, and the loop does that k tile, too",
                    {1, 0})
            .choice("back_at_end",
                    "1: the results of all output channels are turned back together; 0: those of 32 channels at a time", {0, 1})
            .parameter("row_unroll", "columns in straight-line code where the sums are in the pads", row_unrolls())
            .parameter("channels",
                       "output channels whose rows stream past the places of a strip, where rows of the result share lanes; 0 "
                       "elsewhere: places stream past 32 channels",
                       channels())
            .parameter("weight_unroll", "weight vectors loaded in straight-line code", weight_unrolls())
            .choice("in_line",
                    "1: strips are places that follow each other, whatever row they are of; 0: parts of rows or whole ones",
                    either(in_line_))
            .choice("rows_together", "1: as many rows of a narrow image as fit the lanes are turned at once; 0: one",
                    shape_.narrow_rows() > 1 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0})
            .choice("in_parts",
                    "1: each pad has a part of the image, rows of it, and a strip strip_rows x strip_columns places of each; "
                    "0: pads have places in turns",
                    either(in_parts_));
        if (shares_)
            space_.parameter(
                "strips_leave",
                "strips whose results leave together, a transfer for each output channel; 1: each strip's on their own",
                strips_leave(shape_));
        space_.parameter("kernel_parts",
                         "parts in which the packed kernel of 32 output channels comes, one while another is used",
                         kernel_parts(shape_, machine_));
    }

    // ---- kernel and image

    void bring_kernel_in_parts() {
        space_.constraint("parts of a kernel",
                          {"kernel_parts", "rows", "strip_rows", "strip_columns", "strips_alike", "sums_in_registers",
                           "weight_unroll", "in_line", "in_parts"},
                          "A kernel that comes in parts serves one strip of a block, whose sums are in registers.",
                          [columns = shape_.columns()](const Point &point) {
                              return point["kernel_parts"] == 1 ||
                                     (point["strip_columns"] == columns && point["strip_rows"] == point["rows"] &&
                                      point["strips_alike"] && point["sums_in_registers"] && point["weight_unroll"] == lanes &&
                                      !point["in_line"] && !point["in_parts"]);
                          });
    }

    void place_image_otherwise() {
        space_.constraint("in parts", {"in_parts", "sums_in_registers", "back_at_end", "weight_unroll"},
                          "Places of parts have their sums in registers, and weights in straight-line code.",
                          [](const Point &point) {
                              return !point["in_parts"] ||
                                     (point["sums_in_registers"] && !point["back_at_end"] && point["weight_unroll"] == lanes);
                          });
        space_.constraint("rows together", {"rows_together", "rows", "in_line"},
                          "Rows of a narrow image that are turned at once are those of one block; places in line have no rows.",
                          [all = shape_.rows()](const Point &point) {
                              return !point["rows_together"] || (point["rows"] == all && !point["in_line"]);
                          });
        space_.constraint(
            "in line", {"in_line", "image_at_once", "sums_in_registers", "first_apart", "back_at_end", "weight_unroll"},
            "Strips of places in line have their sums in registers, which are cleared, and one block.", [](const Point &point) {
                return !point["in_line"] || (!point["image_at_once"] && point["sums_in_registers"] && !point["first_apart"] &&
                                             point["weight_unroll"] == lanes);
            });
    }

    void keep_channels_innermost() {
        space_.constraint(
            "places", {"image_at_once", "strips_alike", "back_at_end"},
            "With channels innermost nothing is turned: each block brings its rows, and results leave 32 channels at a time, "
            "those of strips of two sizes together.",
            [](const Point &point) { return !point["image_at_once"] && point["strips_alike"] != point["back_at_end"]; });
    }

    void bring_patches() {
        space_.constraint("patches", {"image_at_once", "weight_unroll"},
                          "Patches come for each block, and weights are in straight-line code.",
                          [](const Point &point) { return !point["image_at_once"] && point["weight_unroll"] == lanes; });
    }

    void stream_kernels() {
        space_.constraint("bands", {"rows", "strip_rows", "strip_columns", "sums_in_registers", "back_at_end"},
                          "Blocks are whole bands; strips are at most 32 places, which are weights; the sums are in registers, "
                          "and results need not be turned.",
                          [band = band_](const Point &point) {
                              return point["rows"] % band == 0 && point["strip_rows"] == 1 && point["strip_columns"] <= lanes &&
                                     point["sums_in_registers"] && point["back_at_end"];
                          });
    }

    void share_image() {
        space_.constraint("blocks", {"rows", "image_at_once"}, "Several blocks share an image that comes at once.",
                          [all = shape_.rows()](const Point &point) { return !point["image_at_once"] || point["rows"] < all; });
    }

    // ---- strips

    void cut_strips() {
        std::vector<std::string> of_strips = {"rows", "strip_rows", "strip_columns", "strips_alike", "in_line", "in_parts"};
        if (shares_) {
            of_strips.push_back("strips_leave");
            space_.constraint("strips that leave together", {"strips_leave", "channels"},
                              "The transfers of strips that leave together are at most half as many a pad as these strips.",
                              [machine = machine_](const Point &point) { return leave_beside(machine, point); });
        }
        space_.constraint("strips", of_strips,
                          "A strip is a part of a row, whole rows, or in line a multiple of 4 places; strips of two sizes have "
                          "the rows of a block that those of one size do not divide.",
                          [shape = shape_](const Point &point) { return ConvolutionPlan::possible(shape, point); });
        space_.constraint("strip rows", {"strip_rows", "rows"}, "A strip is not larger than a block.",
                          [](const Point &point) { return point["strip_rows"] <= point["rows"]; });
        space_.constraint(
            "strips of two sizes", {"strips_alike", "image_at_once", "sums_in_registers", "back_at_end"},
            "Strips of two sizes have packed weights, their sums in registers, the results of all channels together, "
            "and blocks that bring their own rows of the image: code of one image for all would grow with the blocks.",
            [fits = shape_.packed && band_ == 1](const Point &point) {
                return point["strips_alike"] ||
                       (fits && !point["image_at_once"] && point["sums_in_registers"] && point["back_at_end"]);
            });
    }

    // ---- registers and pads

    void fit_registers() {
        space_.constraint("registers", {"rows", "strip_rows", "strip_columns", "sums_in_registers", "in_parts"},
                          "The sums of a strip and the vectors on their way fit the register file.",
                          [limit = most_sums(machine_)](const Point &point) {
                              const int64_t rows = point["in_parts"]
                                                       ? std::min(point["rows"], ConvolutionPlan::parts * point["strip_rows"])
                                                       : point["strip_rows"];
                              return point["sums_in_registers"] == 0 || rows * point["strip_columns"] <= limit;
                          });
        space_.constraint(
            "unrolled columns", {"strip_columns", "sums_in_registers", "row_unroll"},
            "Unrolling divides the columns of a strip; with the sums in registers every place is unrolled anyway.",
            [](const Point &point) {
                return point["sums_in_registers"]
                           ? point["row_unroll"] == 1
                           : point["row_unroll"] <= lanes && point["strip_columns"] % point["row_unroll"] == 0;
            });
    }

    void clear_sums() {
        space_.constraint(
            "cleared sums", {"sums_in_registers", "first_apart", "kernel_parts"},
            "Only sums in registers that the array forms are cleared, and those of a kernel that comes in parts, which "
            "are alike then; elsewhere the first k tile saves additions.",
            [forms_sums = vocabulary::array_adds(machine_)](const Point &point) {
                if (point["kernel_parts"] > 1) return !point["first_apart"];
                return point["first_apart"] || (point["sums_in_registers"] && forms_sums);
            });
    }

    void fit_pads() {
        std::vector<std::string> of_buffers = {"rows",         "image_at_once",     "strip_rows",  "strip_columns",
                                               "strips_alike", "sums_in_registers", "back_at_end", "row_unroll",
                                               "channels",     "in_line",           "in_parts",    "kernel_parts"};
        if (shares_) of_buffers.push_back("strips_leave");
        space_.constraint("pads", of_buffers,
                          "The part of the image that a block reads, the kernel of 32 channels and the block fit the pads.",
                          [shape = shape_, machine = machine_](const Point &point) {
                              if (!ConvolutionPlan::possible(shape, point)) return true;
                              const int64_t rows = pad_rows(shape, machine, point),
                                            room = machine.pad.count * machine.pad_rows(),
                                            share = point["in_line"]             ? 31
                                                    : shape.shared_columns() > 0 ? 30
                                                                                 : 28;
                              return rows <= room * share / 32 && rows + rows_left_free(shape, machine, point) <= room;
                          });
    }

    const ConvolutionShape &shape_;
    const Machine &machine_;
    const int64_t band_;         // rows that share lanes
    const bool shares_;          // columns share k tiles,
    const bool kernels_stream_;  // or rows lanes: rows of kernels stream past places
    const bool in_line_, in_parts_;
    Space space_;
};

}  // namespace

Space convolution_space(const ConvolutionShape &shape, const Machine &machine) {
    return ConvolutionSpace(shape, machine).make();
}

Point convolution_naive_point(const ConvolutionShape &shape, const Machine &machine) {
    if (shape.shared_columns() > 0) {
        int64_t rows = 1;
        while (shape.rows() % rows != 0 || rows * shape.columns() % shape.line_places() != 0) rows++;
        return {{"rows", rows},
                {"image_at_once", 0},
                {"strip_rows", 1},
                {"strip_columns", shape.line_places()},
                {"strips_alike", 1},
                {"sums_in_registers", 1},
                {"first_apart", 1},
                {"back_at_end", 1},
                {"row_unroll", 1},
                {"weight_unroll", lanes},
                {"channels", shape.packs_by_pads() ? lanes : 1},
                {"in_line", 0},
                {"rows_together", 0},
                {"in_parts", 0},
                {"strips_leave", 1},
                {"kernel_parts", 1}};
    }
    if (shape.band_rows() > 1)
        return {{"rows", shape.band_rows()},
                {"image_at_once", 0},
                {"strip_rows", 1},
                {"strip_columns", shape.band_places()},
                {"strips_alike", 1},
                {"sums_in_registers", 1},
                {"first_apart", 1},
                {"back_at_end", 1},
                {"row_unroll", 1},
                {"weight_unroll", least_weight_unroll(shape, machine)},
                {"channels", 1},
                {"in_line", 0},
                {"rows_together", 0},
                {"in_parts", 0},
                {"kernel_parts", 1}};
    int64_t unroll = 1;
    while (!keeps_pads(shape, unroll, machine)) unroll++;
    return {{"rows", 1},
            {"image_at_once", 0},
            {"strip_rows", 1},
            {"strip_columns", shape.columns()},
            {"strips_alike", 1},
            {"sums_in_registers", 0},
            {"first_apart", 1},
            {"back_at_end", 0},
            {"row_unroll", unroll},
            {"weight_unroll", least_weight_unroll(shape, machine)},
            {"channels", 0},
            {"in_line", 0},
            {"rows_together", 0},
            {"in_parts", 0},
            {"kernel_parts", 1}};
}

// What a strip of so many places takes for 32 output channels, or for those that stream past its places.
static double strip_cycles(const ConvolutionShape &shape, const Machine &machine, const Point &point, double places) {
    // A row of the product: with its sum in registers the adder or the array decides; in the pads, the latency of the array and
    // of its accesses is shared by the rows in straight-line code, and results are a loop of their own.
    constexpr double latency = 80, pace = 4.6, switch_cost = 100, psum_overhead = 75, adder_overhead = 3, longest_merged = 96,
                     unmerged_row = 3.38, unmerged_code = 2, miss = 8.75, strip_overhead = 250, pad_result = 40;
    // Where the array forms the sums: the packets of a visit and of the first one beside those of their places, and those of a
    // result and of a result that is cleared; constants of the places' rows, which places in line share with the results, and
    // of which those of parts are in packets of the results.
    constexpr double psum_code = 65, psum_first = 47, psum_results = 0.7, cleared_results = 0.79, row_constants = 45,
                     part_constants = 10, clear = 1.8;
    // What streams past weights: the places, or channels past those.
    const auto channels = static_cast<double>(point["channels"]),
               strip = channels > 0 ? channels * static_cast<double>(shape.band_rows()) : places;
    const double load = weights_cycles(point);
    double visit;
    if (!point["sums_in_registers"])
        visit = strip * std::max(latency / static_cast<double>(point["row_unroll"]), pace) + switch_cost + load;
    else if (machine.sa.psum_in)
        visit = strip + psum_overhead + load - 40 - (channels > 0 ? lanes - places : 0);
    // The adder sets the pace of strips that are so short that their packets are merged.
    else if (strip <= longest_merged)
        visit = std::max(strip * static_cast<double>(machine.vec.ii) + adder_overhead, strip + switch_cost) + load - 40;
    else
        visit = strip * unmerged_row + load - 40;
    const double capacity = static_cast<double>(machine.icache.bytes) / static_cast<double>(machine.issue.packet_bytes);
    // Results of channels that stream, of which each pad has those of a row, leave in a transfer a pad and are stored beside
    // the rows of the next first visit, unless there is more to do with them.
    const bool beside = channels > 0 && shape.band_rows() <= machine.pad.count && !shape.bias && !shape.epilogue;
    const double code = strip * (machine.sa.psum_in || beside || strip <= longest_merged ? 1 : unmerged_code) + switch_cost;
    if (machine.timed() && point["sums_in_registers"] && code > capacity) visit += (code - capacity) * miss;
    // The first visit of a strip has code of its own, and so have its results: what of that does not fit the cache pushes out
    // as much again.
    constexpr double first_beside = 1.2;
    double strip_code = code + (beside ? strip * first_beside : strip * 1.5 + switch_cost);
    if (machine.sa.psum_in)
        strip_code = strip + psum_code +
                     (point["first_apart"] ? strip + psum_first + (beside ? 0 : strip * psum_results)
                                           : strip * cleared_results + (point["in_line"]    ? 0
                                                                        : point["in_parts"] ? part_constants
                                                                                            : row_constants));
    constexpr double part = 150;  // the waits and slots of a part of a kernel
    const double parts = part * static_cast<double>(point["kernel_parts"] - 1);
    // Results of rows of kernels have what is behind them in line, where it waits for its masks and adds to their code.
    double behind = 0;
    if (shape.epilogue && channels > 0) {
        constexpr double in_line_code = 0.5, waits = 1.3;
        behind = waits * strip * static_cast<double>(machine.vec.ii) * static_cast<double>(shape.epilogue_work.shared());
        strip_code += in_line_code * strip * static_cast<double>(shape.epilogue_work.all());
    }
    const double strip_misses =
        machine.timed() && point["sums_in_registers"] ? 2 * std::max(0.0, strip_code - capacity) * miss : 0;
    return static_cast<double>(shape.k_tiles()) * visit + strip * (point["sums_in_registers"] ? 1 : pad_result) +
           (point["first_apart"] ? 0 : strip * clear) + strip_overhead + strip_misses + parts + behind;
}

double convolution_draft(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    constexpr double switch_cost = 100, turn_row = 3.3, cold_results = 4000;
    const ConvolutionPlan plan(shape, point);
    const auto channels = static_cast<double>(point["channels"]);
    double strips = 0;
    for (const Strips &size : plan.sizes)
        strips += size.count * strip_cycles(shape, machine, point, static_cast<double>(size.rows * plan.strip_columns));
    const auto out_tiles = static_cast<double>(tiles_of(shape.out)),
               problems = static_cast<double>(shape.images * shape.groups * plan.blocks);
    const double turn = lanes * turn_row + switch_cost + weights_cycles(point);
    const double image =
        point["in_line"] ? static_cast<double>(shape.height * shape.width / shape.line_lanes() * shape.channel_tiles()) * turn
                         : static_cast<double>((point["rows_together"] ? ceil_div(shape.height, shape.narrow_rows())
                                                                       : image_rows(shape, plan)) *
                                               tiles_of(shape.width) * shape.channel_tiles()) *
                               turn;
    const double kernel = shape.packed ? 0
                                       : lanes * static_cast<double>(shape.channel_tiles()) *
                                             (turn + static_cast<double>(shape.taps()) * turn_row);
    const double results = static_cast<double>(tiles_of(plan.pixels)) * turn, times = point["back_at_end"] ? 1 : out_tiles;
    // Blocks whose code differs wait for their rows of the image and their results; an image that comes at once is waited for
    // once.
    const auto beats = [&](int64_t elements) {
        return static_cast<double>(elements * static_cast<int64_t>(sizeof(uint16_t))) / static_cast<double>(machine.sdma.beat);
    };
    const double waited = point["image_at_once"]
                              ? beats(shape.in * shape.height * shape.width) / plan.blocks
                              : beats(shape.in * std::min(image_reach(shape, plan), shape.height) * shape.width +
                                      (plan.blocks > 1 ? shape.out * plan.pixels : 0));
    if (point["in_parts"]) {
        constexpr double start = 2500, beat_cycles = 1.2;
        const double all = shape.images * shape.groups,
                     strip = strip_cycles(shape, machine, point, static_cast<double>(plan.strip_height() * plan.strip_columns));
        const double image = beat_cycles * beats(shape.in * shape.height * shape.width),
                     weights = beats(shape.k_tiles() * lanes * lanes);
        return start + weights +
               all * (image + out_tiles * std::max(plan.strips * strip, beat_cycles * (weights + beats(plan.pixels * lanes))));
    }
    if (shape.channels_last) {
        // The rows of a block come and are stored before its visits; the next weights and the results pass beside these.
        constexpr double start = 2500, beat_cycles = 1.4;
        const double rows = beat_cycles * beats(shape.in * ImageFrame(shape, plan).elements * shape.width),
                     weights = beats(shape.k_tiles() * lanes * lanes);
        return start + weights +
               problems * (rows + out_tiles * std::max(strips, beat_cycles * (weights + beats(plan.pixels * lanes))));
    }
    if (shape.shared_columns() > 0) {
        // Each strip alone waits for what is in front of it, and its results for pages of the DRAM; windows whose visits are
        // short for the last results of a block.
        constexpr double strip_wait = 60, channel_wait = 1.2, last_results = 4000;
        if (plan.strips_leave == 1) strips += plan.strips * (strip_wait + channel_wait * channels);
        if (shape.window_columns() > 0) strips += last_results;
    }
    if (channels > 0)
        return 4000 + problems * (image + waited +
                                  strips / static_cast<double>(shape.band_rows()) * static_cast<double>(shape.out) / channels);
    return 4000 + problems * (image + waited + out_tiles * (kernel + strips + results) + times * cold_results);
}

}  // namespace atalla
