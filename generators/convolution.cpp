#include "generators/convolution.h"

#include <algorithm>

#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

struct Dot {
    Func weights, part;
    explicit Dot(const std::string &name) : weights(name + "_weights"), part(name + "_part") {}
};

// A product that turns tiles: rows of the identity, in registers, through weights.
struct Turn : Dot {
    Func rows;
    explicit Turn(const std::string &name) : Dot(name), rows(name + "_rows") {}
};

// A product of matrices: its rows are the places of a strip of the result, its k tiles 32 channels of one element of the kernel. The
// image lies in the pads once for each column of the kernel, so that the rows of all k tiles are one after the other.
class ConvolutionPipeline {
public:
    ConvolutionPipeline(const ConvolutionShape &shape, const Machine &machine, const Point &point)
        : shape_(shape), machine_(machine), folded_(shape.rows_on_lanes()), plan_(shape, point), in_(static_cast<int>(shape.in)), lane_rows_(static_cast<int>(shape.lane_rows())),
          channel_tiles_(static_cast<int>(shape.channel_tiles())), taps_y_(folded_ ? 1 : static_cast<int>(shape.kernel_y)), taps_x_(static_cast<int>(shape.kernel_x)),
          taps_(static_cast<int>(shape.taps())), tap_tiles_(taps_x_ * channel_tiles_), out_(static_cast<int>(shape.out)), columns_(static_cast<int>(shape.columns())),
          width_(static_cast<int>(shape.width)), stride_x_(static_cast<int>(shape.stride_x)), padding_x_(static_cast<int>(shape.padding_x)),
          step_y_(folded_ ? 1 : static_cast<int>(shape.stride_y)), row_unroll_(static_cast<int>(point["row_unroll"])),
          weight_unroll_(static_cast<int>(point["weight_unroll"])), in_registers_(point["sums_in_registers"] != 0), back_at_end_(point["back_at_end"] != 0),
          image_at_once_(point["image_at_once"] != 0),
          r(0, plan_.strip_columns, 0, plan_.strip_rows, 0, static_cast<int>(shape.k_tiles()), point["first_apart"] != 0 ? "r" : "r_alike") {}

    KernelDefinition build() {
        identity(k, i) = select(k == i, bf16(1.0f), bf16(0.0f));
        define_image();
        define_kernel();
        define_result();
        schedule_result();
        schedule_image();
        schedule_kernel();
        schedule_product();
        return kernel();
    }

private:
    // The image, a row of 32 channels for each place: brought as it is and turned. A place is stored for each column of the
    // kernel that reads it, where that column's row of the result is. Rows are those of the padded image, or of the result where
    // the kernel's rows are on lanes.
    void define_image() {
        const int height = static_cast<int>(shape_.height), dilation_x = static_cast<int>(shape_.dilation_x);
        const Expr row = yb * (plan_.rows * static_cast<int>(shape_.stride_y)) - static_cast<int>(shape_.padding_y) + y, at = xb * lanes + k, channel = cb * lanes + l;
        Expr inside = at < width_ && row >= 0 && row < height && channel < in_;
        if (missing_rows()) inside = inside && y < rows_brought();
        const std::vector<Expr> here = raw_at(k, l, y, xb, cb, yb);
        raw(here) = bf16(0.0f);
        raw(here) = select(inside, x(min(at, width_ - 1), clamp(row, 0, height - 1), (b * groups() + g) * in_ + min(channel, in_ - 1)), undef<BFloat>());
        // The block's first row in what was brought.
        const Expr brought = image_at_once_ ? Expr(0) : Expr(yb), first = image_at_once_ ? Expr(yb * (plan_.rows * static_cast<int>(shape_.stride_y))) : Expr(0);
        if (folded_) {
            const Expr tap = channel_tiles_ == 1 ? Expr(w % lane_rows_) : cb * lane_rows_ + w % lane_rows_;
            Expr from_row = first + y * static_cast<int>(shape_.stride_y) + tap * static_cast<int>(shape_.dilation_y);
            if (missing_rows()) from_row = select(tap < static_cast<int>(shape_.kernel_y), from_row, rows_brought());
            turn(turned, raw(raw_at(k, min(w / lane_rows_, in_ - 1), from_row, xb, 0, brought)), xb, {y, cb, yb, g, b});
        } else {
            turn(turned, raw(raw_at(k, w, first + y, xb, cb, brought)), xb, {y, cb, yb, g, b});
        }

        turned_place(l, i, y, cb, yb, g, b) = bf16(turned.part(l, i, y, cb, yb, g, b));
        image(l, px, z, yb, g, b) = undef<BFloat>();
        for (const RDom &border : borders_) image(l, border.x, border.y, yb, g, b) = bf16(0.0f);
        const Expr place = from[3] * lanes + from[1], column = place + padding_x_ - from[0] * dilation_x;
        if (stride_x_ > 1) from.where(column % stride_x_ == 0);
        image(l, column / stride_x_, (from[2] * taps_x_ + from[0]) * channel_tiles_ + from[4], yb, g, b) = turned_place(l, place, from[2], from[4], yb, g, b);
    }
    // Rows of a channel in one pad, neighbours in memory, or rows of neighbouring channels on all pads: the four transfers under way should
    // not read one page of the DRAM.
    std::vector<Expr> raw_at(const Expr &column, const Expr &channel, const Expr &row, const Expr &part, const Expr &channels, const Expr &block) const {
        if (image_by_channel()) return {column, row, part, channel, channels, block, g, b};
        return {column, channel, row, part, channels, block, g, b};
    }
    bool by_channel(int64_t plane) const { return machine_.timed() && plane * static_cast<int64_t>(sizeof(uint16_t)) >= machine_.dram.row_bytes; }
    // By channel, a whole image of blocks of 32 channels would take the rows of one pad.
    bool image_by_channel() const { return by_channel(shape_.height * shape_.width) && (folded_ || !image_at_once_); }
    // Transfers of results by channel are fewer, so that they leave one by one beside the tiles of the next ones: worth it for half a page.
    bool results_by_channel() const { return by_channel(2 * shape_.rows() * shape_.columns()); }
    // Columns of the result with a column of the kernel outside of the image, and all rows.
    std::vector<RDom> borders() const {
        const int reach = (taps_x_ - 1) * static_cast<int>(shape_.dilation_x), left = std::min(columns_, ceil_div(padding_x_, stride_x_));
        const int right = std::clamp(ceil_div(std::max(0, width_ + padding_x_ - reach), stride_x_), 0, columns_);
        std::vector<RDom> all;
        if (left > 0) all.push_back(RDom(0, left, 0, image_z(), "left"));
        if (right < columns_) all.push_back(RDom(right, columns_ - right, 0, image_z(), "right"));
        return all;
    }
    int image_rows() const { return folded_ ? plan_.stored_rows : raw_rows(); }
    // Rows that lanes name and the kernel does not have: the row behind the image's, of zeros, stands for them.
    bool missing_rows() const { return folded_ && channel_tiles_ * lane_rows_ != static_cast<int>(shape_.kernel_y); }
    int raw_rows() const {
        return (plan_.stored_rows - 1) * static_cast<int>(shape_.stride_y) + static_cast<int>(shape_.dilation_y) * static_cast<int>(shape_.kernel_y - 1) + 1;
    }
    // Rows of the padded image that come together.
    int rows_brought() const { return raw_rows() + (image_at_once_ ? (plan_.blocks - 1) * plan_.rows * static_cast<int>(shape_.stride_y) : 0); }
    int image_z() const { return image_rows() * tap_tiles_; }

    // The kernel: a row of 32 channels for each output channel and k tile.
    void define_kernel() {
        if (shape_.packed) {
            // Whole tiles follow each other in memory as in the pads, and so do those of one tile a tap.
            if (!folded_ && in_ % lanes == 0) {
                if (along_taps()) filter(k, t, o, g) = f(t * lanes + k, g * out_ + shape_.packed_channel(Expr(o)));
                else filter(k, o, t, g) = out_ % lanes == 0 ? Expr(f(t * lanes + k, g * out_ + shape_.packed_channel(Expr(o)))) : select(o < out_, f(t * lanes + k, g * out_ + min(o, out_ - 1)), undef<BFloat>());
                return;
            }
            const bool follow = folded_ || channel_tiles_ == 1;
            const int width = folded_ ? in_ * lane_rows_ : in_;
            const Expr channel = follow ? Expr(k) : t % channel_tiles_ * lanes + k, first = follow ? t * width : t / channel_tiles_ * width;
            filter(k, o, t, g) = bf16(0.0f);
            filter(k, o, t, g) = select(channel < width && o < out_, f(first + min(channel, width - 1), g * out_ + min(o, out_ - 1)), undef<BFloat>());
            return;
        }
        // Taps and channels follow each other in memory as the columns and rows of a matrix for each output channel.
        const int width = folded_ ? in_ * static_cast<int>(shape_.kernel_y) : in_;
        Expr channel = cb * lanes + l, inside = channel < width;
        if (folded_ && channel_tiles_ > 1) {
            const Expr tap = cb * lane_rows_ + l % lane_rows_;
            channel = l / lane_rows_ * static_cast<int>(shape_.kernel_y) + tap;
            inside = l < in_ * lane_rows_ && tap < static_cast<int>(shape_.kernel_y);
        }
        const Expr tap = tb * lanes + k;
        inside = inside && tap < taps_ && o < out_;
        raw_kernel(k, l, o, tb, cb, g) = bf16(0.0f);
        raw_kernel(k, l, o, tb, cb, g) = select(inside, f(min(tap, taps_ - 1), min(channel, width - 1), g * out_ + min(o, out_ - 1)), undef<BFloat>());
        turn(turned_kernel, raw_kernel(k, w, o, tb, cb, g), tb, {o, cb, g});
        filter(k, o, t, g) = undef<BFloat>();
        filter(k, o, tap_of.x * channel_tiles_ + tap_of.y, g) = bf16(turned_kernel.part(k, tap_of.x, o, tap_of.y, g));
    }
    // Rows of the identity through `tile`, whose rows are the weights: row i of the product is column i of the tiles, of which
    // `block` counts.
    void turn(Turn &dot, const Expr &tile, const Var &block, const std::vector<Var> &others) {
        const Var lane = block.same_as(tb) ? k : l;
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

    void define_result() {
        const Expr channel = co * lanes + w;
        product.weights(k, w, co, t, g) = along_taps() ? filter(k, t, channel, g) : filter(k, channel, t, g);
        product.part(o, rx, ry, t, st, yb, co, g, b) = 0.0f;
        const int across = columns_ / plan_.strip_columns;
        const Expr row = (st / across * plan_.strip_rows + ry) * step_y_, column = st % across * plan_.strip_columns + rx;
        const Expr tile = static_cast<int>(shape_.dilation_y) == 1 || taps_y_ == 1 ? Expr(t) : t % tap_tiles_ + t / tap_tiles_ * (static_cast<int>(shape_.dilation_y) * tap_tiles_);
        product.part(o, rx, ry, t, st, yb, co, g, b) += f32(image(q, column, row * tap_tiles_ + tile, yb, g, b)) * f32(product.weights(q, o, co, t, g));
        // -0 is the neutral start; where the array adds the sums itself, the first one is the +0 of v0.
        Expr start = bf16(machine_.sa.psum_in && machine_.timed() ? 0.0f : -0.0f);
        if (shape_.bias) {
            biases(o, co, g) = bf16(0.0f);
            biases(o, co, g) = select(co * lanes + o < out_, bias(g * out_ + min(co * lanes + o, out_ - 1)), undef<BFloat>());
            start = biases(o, co, g);
        }
        sums(o, p, st, yb, co, g, b) = start;
        const Expr at = r.y * plan_.strip_columns + r.x;
        sums(o, at, st, yb, co, g, b) = strict_float(sums(o, at, st, yb, co, g, b) + bf16(product.part(o, r.x, r.y, r.z, st, yb, co, g, b)));
        const int strip = plan_.strip_rows * plan_.strip_columns;
        finished(o, p, yb, co, g, b) = sums(o, p % strip, p / strip, yb, co, g, b);
        // Back: 32 places are the weights, and row i of the product is output channel i.
        back.weights(k, w, pt, yb, co, g, b) = finished(k, pt * lanes + w, yb, co, g, b);
        back.rows(k, i) = identity(k, i);
        back.part(l, i, pt, yb, co, g, b) = 0.0f;
        back.part(l, i, pt, yb, co, g, b) += f32(back.rows(q, i)) * f32(back.weights(q, l, pt, yb, co, g, b));
        planes(planes_at(l, i, pt, co)) = bf16(back.part(l, i, pt, yb, co, g, b));
        out(p, yb, o, g, b) = planes(planes_at(p % lanes, o % lanes, p / lanes, o / lanes));
    }

    std::vector<Expr> planes_at(const Expr &place, const Expr &channel, const Expr &tile, const Expr &block) const {
        if (results_by_channel()) return {place, tile, channel, yb, block, g, b};
        return {place, channel, tile, yb, block, g, b};
    }
    // A transfer brings k tiles of an output channel, whose weights follow each other in memory, and those of a pad do, too.
    bool along_taps() const { return machine_.timed() && shape_.packed && !folded_ && in_ % lanes == 0 && out_ % lanes == 0 && weight_unroll_ == lanes; }

    int groups() const { return static_cast<int>(shape_.groups); }

    void schedule_dot(Dot &dot, Func consumer, VarOrRVar level, VarOrRVar row, Var lane) {
        dot.weights.compute_at(LoopLevel(consumer, level)).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        if (weight_unroll_ > 1) dot.weights.split(w, w, wi, weight_unroll_);
        dot.part.compute_at(LoopLevel(consumer, row)).vectorize(lane, lanes).update().reorder(q, lane).atomic().vectorize(lane, lanes).vectorize(q);
        in_registers({dot.weights, dot.part});
    }
    void schedule_turn(Turn &dot, Func consumer, VarOrRVar level, VarOrRVar row, Var lane, const LoopLevel &phase) {
        schedule_dot(dot, std::move(consumer), level, row, lane);
        dot.rows.compute_at(phase).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(i, lanes);
        in_registers({dot.rows});
    }
    // Two slots where transfers can run ahead.
    void two_slots(Func func, int64_t blocks) const {
        if (blocks > 1 && machine_.timed()) func.hoist_storage_root().ring_buffer(2);
    }
    // Tiles of results that are turned back before they leave: some, so that they leave while the next ones are turned.
    int chunk() const {
        constexpr int most = 64;
        const int tiles = tiles_of(plan_.pixels);
        for (int part = most; part > 2; part--)
            if (tiles % part == 0) return part;
        return tiles;
    }
    // The loop over blocks of output channels.
    LoopLevel products_at() const { return back_at_end_ ? LoopLevel(finished, co) : LoopLevel(out, oo); }
    int64_t blocks() const { return int64_t{plan_.blocks} * groups() * shape_.images; }

    void schedule_result() {
        const int extents[] = {plan_.pixels, plan_.blocks, out_, groups(), static_cast<int>(shape_.images)};
        Var vars[] = {p, yb, o, g, b};
        for (size_t d = 0; d < 5; d++) out.bound(vars[d], 0, extents[d]);
        Var pl("pl"), pq("pq"), oi("oi");
        out.split(p, pq, pl, lanes, TailStrategy::GuardWithIf).split(o, oo, oi, std::min(lanes, out_), TailStrategy::GuardWithIf).split(pq, pc, pq, chunk());
        out.reorder({pl, pq, oi, pc, oo, yb, g, b});
        whole_loops(out);
        fix_shape(out.output_buffer(), {plan_.pixels, plan_.blocks, out_, shape_.groups, shape_.images});
        identity.compute_root().bound(k, 0, lanes).bound(i, 0, lanes).vectorize(k, lanes);
        in_pads({identity});
    }

    void schedule_image() {
        if (image_at_once_) {
            raw.compute_at(out, g);
        } else if (channel_tiles_ > 1 && in_ % lanes == 0) {
            // One block of channels comes while that before it is turned.
            raw.compute_at(image, from[4]);
            two_slots(raw, 2);
        } else {
            raw.compute_at(out, yb);
        }
        raw.vectorize(k, lanes).bound_extent(l, folded_ ? in_ : lanes).bound_extent(y, rows_brought() + missing_rows()).bound_extent(xb, tiles_of(width_));
        if (folded_ && !image_by_channel()) raw.align_storage(l, static_cast<int>(machine_.pad.count));
        image.compute_at(out, yb).vectorize(l, lanes).bound_extent(l, lanes);
        const int pads = static_cast<int>(machine_.pad.count);
        image.align_storage(px, pads);
        int update = 0;
        for (const RDom &border : borders_) image.update(update++).unroll(border.x).vectorize(l, lanes);
        RVar outer("io"), unrolled("i_unroll");
        Stage turning = image.update(update);
        turning.unroll(from[0]).split(from[1], outer, unrolled, width_ < lanes ? width_ : weight_unroll_).reorder(l, from[0], unrolled, outer, from[2], from[3], from[4]).vectorize(l, lanes);
        if (missing_rows()) turning.unroll(from[4]);
        schedule_turn(turned, image, from[2], unrolled, l, LoopLevel(out, yb));
        turned_place.compute_at(image, unrolled).vectorize(l, lanes);
        in_registers({turned_place});
        in_pads({raw, image});
    }

    void schedule_kernel() {
        filter.compute_at(products_at()).bound_extent(k, lanes).bound_extent(o, lanes).bound_extent(t, taps_ * channel_tiles_).vectorize(k, lanes);
        if (shape_.packed) {
            two_slots(filter, tiles_of(out_) * blocks());
        } else {
            raw_kernel.compute_at(products_at()).vectorize(k, lanes).bound_extent(l, lanes).bound_extent(o, lanes);
            RVar to("to"), ti("ti");
            filter.update().split(tap_of.x, to, ti, std::min(taps_, lanes), TailStrategy::GuardWithIf).reorder(k, ti, to, tap_of.y, o).vectorize(k, lanes);
            schedule_turn(turned_kernel, filter, to, ti, k, products_at());
            in_pads({raw_kernel});
        }
        in_pads({filter});
    }

    void schedule_product() {
        const int strip = plan_.strip_rows * plan_.strip_columns;
        Var pi("pi"), pu("p_unroll");
        finished.compute_at(out, back_at_end_ ? yb : oo).bound_extent(o, lanes).vectorize(o, lanes).bound_extent(p, plan_.strips * strip).bound_storage(p, plan_.stored_pixels());
        if (back_at_end_) finished.bound_extent(co, tiles_of(out_));
        finished.split(p, st, pi, strip).reorder(o, pi, st, co);
        sums.compute_at(finished, st).bound_extent(o, lanes).vectorize(o, lanes).bound_extent(p, strip);
        Stage update = sums.update();
        RVar column = r.x;
        std::vector<VarOrRVar> order = {o};
        if (in_registers_) {
            in_registers({sums});
            order.push_back(r.x);
        } else {
            in_pads({sums});
            RVar xo("xo"), xi("x_unroll");
            update.split(r.x, xo, xi, row_unroll_);
            order.insert(order.end(), {xi, xo});
            column = xi;
            if (strip % static_cast<int>(machine_.pad.count) == 0) finished.split(pi, pi, pu, static_cast<int>(machine_.pad.count));
        }
        order.insert(order.end(), {r.y, r.z});
        update.reorder(order).vectorize(o, lanes);
        schedule_dot(product, sums, r.z, column, o);
        if (shape_.bias) {
            biases.compute_at(products_at()).bound_extent(o, lanes).vectorize(o, lanes);
            in_pads({biases});
        }
        planes.compute_at(out, pc).bound_extent(l, lanes).bound_extent(i, lanes).bound_extent(pt, chunk()).vectorize(l, lanes);
        Var iu("i_unroll");
        planes.split(i, i, iu, weight_unroll_).reorder(l, iu, i, pt);
        schedule_turn(back, planes, pt, iu, l, LoopLevel(out, back_at_end_ ? yb : oo));
        two_slots(planes, tiles_of(plan_.pixels) / chunk() * tiles_of(out_) * blocks());
        in_pads({finished, planes});
    }

    KernelDefinition kernel() const {
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out);
        kernel.arguments = {x, f};
        kernel.inputs = {{"X", shape_.x_extents()}, {"F", shape_.f_extents()}};
        if (shape_.bias) {
            kernel.arguments.push_back(bias);
            kernel.inputs.push_back({"bias", shape_.bias_extents()});
        }
        kernel.outputs = {{"Y", shape_.out_extents()}};
        if (machine_.timed()) {
            if (image_by_channel()) kernel.layouts["raw"] = {0, (rows_brought() + missing_rows()) * tiles_of(width_)};
            if (results_by_channel()) kernel.layouts["planes"] = {0, chunk()};
            if (along_taps()) kernel.layouts["filter"] = {0, taps_ * channel_tiles_};
        }
        return kernel;
    }
    // As the pipeline sees the kernel: what a k tile takes from memory and what does not vary in it.
    std::vector<int64_t> f_extents() const {
        const int64_t out = shape_.out * shape_.groups;
        if (shape_.packed) return {folded_ ? taps_ * channel_tiles_ * in_ * lane_rows_ : taps_ * in_, out};
        return {taps_, folded_ ? in_ * shape_.kernel_y : in_, out};
    }

    const ConvolutionShape &shape_;
    const Machine &machine_;
    const bool folded_;   // the kernel's rows are on lanes
    const ConvolutionPlan plan_;
    const int in_, lane_rows_, channel_tiles_, taps_y_, taps_x_, taps_, tap_tiles_, out_, columns_, width_, stride_x_, padding_x_, step_y_, row_unroll_, weight_unroll_;
    const bool in_registers_, back_at_end_, image_at_once_;

    ImageParam x = tensor("X", shape_.x_extents()), f = tensor("F", f_extents()), bias = tensor("bias", shape_.bias_extents());
    Var k{"k"}, l{"l"}, w{"w"}, wi{"w_unroll"}, i{"i"}, y{"y"}, xb{"xb"}, px{"px"}, z{"z"}, cb{"cb"}, g{"g"}, b{"b"}, o{"o"}, oo{"oo"}, pc{"pc"}, t{"t"}, tb{"tb"}, co{"co"}, p{"p"}, pt{"pt"},
        yb{"yb"}, st{"st"}, rx{"rx"}, ry{"ry"};
    Func raw{"raw"}, turned_place{"turned_place"}, image{"image"}, raw_kernel{"raw_kernel"}, filter{"filter"}, identity{"identity"}, sums{"sums"}, biases{"biases"}, finished{"finished"}, planes{"planes"},
        out{"Y_out"};
    Turn turned{"turned"}, turned_kernel{"turned_kernel"}, back{"back"};
    Dot product{"product"};
    RDom q{0, lanes, "q"}, tap_of{0, taps_, 0, channel_tiles_, "tap_of"};
    // Columns of the kernel, places of a tile, rows, tiles of a row, blocks of channels.
    RDom from{0, taps_x_, 0, std::min(lanes, width_), 0, image_rows(), 0, tiles_of(width_), 0, channel_tiles_, "from"};
    const std::vector<RDom> borders_ = borders();
    RDom r;   // columns and rows of a strip, k tiles
};

}  // namespace

// Weights and results of a band lie in small pads beside the window.
constexpr int64_t most_band_rows = 12;

ConvolutionShape ConvolutionShape::in_one_line() const {
    ConvolutionShape line = *this;
    if (kernel_x * kernel_y == 1 && stride_x * stride_y == 1 && padding_x + padding_y + padding_end_x + padding_end_y == 0) {
        line.width *= height;
        line.height = 1;
    }
    return line;
}

ConvolutionBand ConvolutionShape::band() const {
    // Of an image that is one line, so are the bands.
    if (const ConvolutionShape line = in_one_line(); line.height < height) return line.band();
    ConvolutionBand best{1, 0, 1, 1};
    int64_t fewest = 0;
    for (int64_t count = 1; count <= rows() && (count == 1 || (banded && count <= most_band_rows && count * out <= lanes)); count++) {
        const int64_t window = (count - 1) * stride_y + dilation_y * (kernel_y - 1) + 1, channels = std::min(in, lanes / window);
        if (channels == 0) break;
        const int64_t tiles = ceil_div(in, channels), bands = ceil_div(rows(), count), lines = tiles_of(columns());
        // The image is turned, its columns are loaded for each element of a row of the kernel, and the rows of the kernel stream.
        const int64_t steps = bands * tiles * (width + round_up(width, lanes) + kernel_x * (columns() + lines * count * out));
        if (best.window == 0 || steps < fewest) {
            best = {count, window, channels, tiles};
            fewest = steps;
        }
    }
    return best;
}

ConvolutionPlan::ConvolutionPlan(const ConvolutionShape &shape, const Point &point)
    : rows(static_cast<int>(point["rows"])), blocks(static_cast<int>(shape.rows()) / rows), strip_columns(static_cast<int>(point["strip_columns"])),
      strip_rows(static_cast<int>(point["strip_rows"])) {
    const int columns = static_cast<int>(shape.columns());
    if (shape.rows() % rows != 0 || columns % strip_columns != 0 || (strip_columns < columns && strip_rows != 1))
        throw Error("convolution: blocks must divide the rows of the result, and strips are whole rows or divide one");
    stored_rows = (rows + strip_rows - 1) / strip_rows * strip_rows;
    strips = stored_rows / strip_rows * (columns / strip_columns);
    pixels = rows * columns;
}

KernelDefinition convolution(const ConvolutionShape &shape, const Machine &machine, const Point &point) { return ConvolutionPipeline(shape, machine, point).build(); }

}  // namespace atalla
