#include "generators/convolution.h"

#include <algorithm>

#include "generators/convolution_image.h"
#include "generators/convolution_of_bands.h"
#include "generators/convolution_of_parts.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// A product of matrices: its rows are the places of a strip of the result, its k tiles 32 channels of one element of the
// kernel. The image lies in the pads once for each column of the kernel, so that the rows of all k tiles are one after the
// other.
class ConvolutionPipeline : ConvolutionImage {
public:
    ConvolutionPipeline(const ConvolutionShape &shape, const Machine &machine, const Point &point)
        : ConvolutionImage(shape, machine, point),
          row_unroll_(static_cast<int>(point["row_unroll"])),
          kernel_parts_(static_cast<int>(point["kernel_parts"])),
          in_registers_(point["sums_in_registers"] != 0),
          back_at_end_(point["back_at_end"] != 0) {
        for (const Strips &strips : plan_.sizes)
            products_.emplace_back(strips, products_.empty() ? "" : "_low", plan_, static_cast<int>(shape.k_tiles()),
                                   tap_tiles_, tiles_of(out_), point["first_apart"] != 0);
    }

    KernelDefinition build() {
        define_image();
        if (!one_size()) finished(o, p, yb, co, g, b) = undef<BFloat>();
        for (Products &products : products_) {
            define_kernel(products.filter);
            define_product(products);
        }
        define_result();
        if (shape_.channels_last) {
            schedule_places_of_result();
        } else {
            schedule_result();
            schedule_back();
        }
        schedule_image(out);
        for (Products &products : products_) schedule_product(products);
        return kernel();
    }

private:
    // The products of strips of one size. Their code differs from that of others, so all output channels pass through them
    // before the next size has its turn.
    struct Products : Dot {
        Strips strips;
        Func filter, biases, sums;
        // Columns and rows of a strip, k tiles; in line: its places, k tiles of a row of the kernel, rows of the kernel.
        RDom r;
        RDom all;  // where there are several sizes: places of a strip, strips, blocks of output channels

        Products(const Strips &strips, const std::string &suffix, const ConvolutionPlan &plan, int k_tiles, int row_tiles,
                 int blocks, bool first_apart)
            : Dot("product" + suffix),
              strips(strips),
              filter("filter" + suffix),
              biases("biases" + suffix),
              sums("sums" + suffix),
              r(0, plan.strip_columns, 0, plan.in_line ? row_tiles : strips.rows, 0,
                plan.in_line ? k_tiles / row_tiles : k_tiles, first_apart ? "r" : "r_alike"),
              all(0, plan.strip_columns * strips.rows, 0, strips.count, 0, blocks, "all" + suffix) {}
    };

    // The kernel: a row of 32 channels for each output channel and k tile.
    void define_kernel(Func filter) {
        if (shape_.packed) {
            if (shape_.packs_whole_tiles()) {
                define_whole_tiles(filter, f);
                return;
            }
            const bool follow = folded_ || channel_tiles_ == 1;
            const int width = folded_ ? in_ * lane_rows_ : in_;
            const Expr channel = follow ? Expr(k) : t % channel_tiles_ * lanes + k,
                       first = follow ? t * width : t / channel_tiles_ * width;
            filter(k, o, t, g) = bf16(0.0f);
            filter(k, o, t, g) = select(channel < width && o < out_,
                                        f(first + min(channel, width - 1), g * out_ + min(o, out_ - 1)), undef<BFloat>());
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
        if (shape_.merged > 1) {
            const Expr of = own_.z * out_of_group() + own_.y;
            raw_kernel(k, own_.z * in_of_group() + own_.x, of, tb, cb, g) =
                select(tap < taps_, f(min(tap, taps_ - 1), own_.x, g * out_ + of), undef<BFloat>());
        } else {
            raw_kernel(k, l, o, tb, cb, g) =
                select(inside, f(min(tap, taps_ - 1), min(channel, width - 1), g * out_ + min(o, out_ - 1)), undef<BFloat>());
        }
        turn(turned_kernel, raw_kernel(k, w, o, tb, cb, g), k, tb, {o, cb, g});
        filter(k, o, t, g) = undef<BFloat>();
        filter(k, o, tap_of.x * channel_tiles_ + tap_of.y, g) = bf16(turned_kernel.part(k, tap_of.x, o, tap_of.y, g));
    }
    int in_of_group() const { return in_ / static_cast<int>(shape_.merged); }
    int out_of_group() const { return out_ / static_cast<int>(shape_.merged); }
    void define_product(Products &product) {
        const auto &[first, count, rows] = product.strips;
        const Expr channel = co * lanes + w;
        const Expr tile = plan_.in_line ? ry * tap_tiles_ + t : Expr(t);
        product.weights(k, w, co, ry, t, g) =
            along_taps() ? product.filter(k, tile, channel, g) : product.filter(k, channel, tile, g);
        product.part(o, rx, ry, t, st, yb, co, g, b) = 0.0f;
        product.part(o, rx, ry, t, st, yb, co, g, b) +=
            f32(image_of(product.strips)) * f32(product.weights(q, o, co, plan_.in_line ? Expr(ry) : Expr(0), t, g));
        const Expr start = define_start(product.biases, bias);
        const RDom &r = product.r;
        Func sums = product.sums;
        sums(o, p, st, yb, co, g, b) = start;
        const Expr at = plan_.in_line ? Expr(r.x) : r.y * plan_.strip_columns + r.x;
        sums(o, at, st, yb, co, g, b) = strict_float(sums(o, at, st, yb, co, g, b) +
                                                     bf16(plan_.in_line ? product.part(o, r.x, r.z, r.y, st, yb, co, g, b)
                                                                        : product.part(o, r.x, r.y, r.z, st, yb, co, g, b)));
        const int strip = rows * plan_.strip_columns;
        // What turns the results back reads whole tiles of places: behind the last strip there is nothing to compute, nor an
        // image.
        const Expr sum = sums(o, p % strip, min(p / strip, plan_.strips - 1), yb, co, g, b);
        if (one_size())
            finished(o, p, yb, co, g, b) =
                shape_.channels_last && !plan_.epilogue_apart(shape_) ? shape_.epilogue.apply(sum) : sum;
        else
            finished(o, first * columns_ + product.all.y * strip + product.all.x, yb, product.all.z, g, b) =
                sums(o, product.all.x, product.all.y, yb, product.all.z, g, b);
    }
    // The row of the image that place (rx, ry) of a strip meets in k tile t; in line ry is a row of the kernel.
    Expr image_of(const Strips &strips) {
        if (plan_.in_line)
            return image(q, st * plan_.strip_columns + rx + ry * (static_cast<int>(shape_.dilation_y) * columns_), t, yb, g, b);
        const int across = columns_ / plan_.strip_columns;
        const Expr in_block = strips.first + st / across * strips.rows + ry, column = st % across * plan_.strip_columns + rx;
        if (patches_) return image(q, in_block, t, column, yb, g, b);
        if (shape_.channels_last)
            return image(q, column, image_row(in_block, t) + frame_.first_window(yb) * tap_tiles_, yb, g, b);
        return image(q, column, image_row(in_block, t), yb, g, b);
    }
    bool one_size() const { return products_.size() == 1; }
    void define_result() {
        if (shape_.channels_last) {
            // Behind the products of all strips: code beside theirs would leave the instruction cache.
            if (plan_.epilogue_apart(shape_)) behind(o, p, yb, co, g, b) = shape_.epilogue.apply(finished(o, p, yb, co, g, b));
            out(o, p, yb, g, b) = (plan_.epilogue_apart(shape_) ? behind : finished)(o % lanes, p, yb, o / lanes, g, b);
            return;
        }
        // Back: 32 places are the weights, and row i of the product is output channel i.
        back.weights(k, w, pt, yb, co, g, b) = finished(k, pt * lanes + w, yb, co, g, b);
        back.rows(k, i) = identity(k, i);
        back.part(l, i, pt, yb, co, g, b) = 0.0f;
        back.part(l, i, pt, yb, co, g, b) += f32(back.rows(q, i)) * f32(back.weights(q, l, pt, yb, co, g, b));
        planes(planes_at(l, i, pt, co)) = shape_.epilogue.apply(bf16(back.part(l, i, pt, yb, co, g, b)));
        out(p, yb, o, g, b) = planes(planes_at(p % lanes, o % lanes, p / lanes, o / lanes));
    }

    // Transfers of results by channel are fewer, so that they leave one by one beside the tiles of the next ones: worth it for
    // half a page.
    bool results_by_channel() const { return by_channel(2 * shape_.rows() * shape_.columns()); }
    std::vector<Expr> planes_at(const Expr &place, const Expr &channel, const Expr &tile, const Expr &block) const {
        if (results_by_channel()) return {place, tile, channel, yb, block, g, b};
        return {place, channel, tile, yb, block, g, b};
    }

    // The loop over blocks of output channels.
    LoopLevel products_at(const Products &product) const {
        if (!one_size()) return LoopLevel(finished, product.all.z);
        if (shape_.channels_last) return LoopLevel(out, oo);
        return back_at_end_ ? LoopLevel(finished, co) : LoopLevel(out, oo);
    }

    // Places as rows of the tensor, 32 channels of each at a time.
    void schedule_places_of_result() {
        const int extents[] = {out_, plan_.pixels, plan_.blocks, groups(), static_cast<int>(shape_.images)};
        Var vars[] = {o, p, yb, g, b};
        for (size_t d = 0; d < 5; d++) out.bound(vars[d], 0, extents[d]);
        Var oi("oi");
        out.split(o, oo, oi, std::min(lanes, out_), TailStrategy::GuardWithIf).reorder({oi, p, oo, yb, g, b});
        whole_loops(out);
        fix_shape(out.output_buffer(), {out_, plan_.pixels, plan_.blocks, shape_.groups, shape_.images});
        const int place = out_ * groups(), row = columns_ * place;
        const int strides[] = {1, place, plan_.block_step * row, out_, static_cast<int>(shape_.rows()) * row};
        for (int d = 1; d < 5; d++) out.output_buffer().dim(d).set_stride(strides[d]);
        finished.compute_at(out, one_size() ? oo : yb)
            .bound_extent(o, lanes)
            .vectorize(o, lanes)
            .bound_extent(p, plan_.stored_places())
            .bound_storage(p, plan_.stored_pixels());
        if (!one_size())
            finished.bound_extent(co, tiles_of(out_));
        else if (!plan_.epilogue_apart(shape_))
            two_slots(finished, tiles_of(out_) * blocks());
        in_pads({finished});
        if (!plan_.epilogue_apart(shape_)) return;
        // As many places in straight-line code as let masks be waited for.
        const int together = 4 * static_cast<int>(machine_.pad.count);
        Var pu("p_unroll");
        behind.compute_at(out, oo)
            .bound_extent(o, lanes)
            .vectorize(o, lanes)
            .bound_extent(p, round_up(plan_.pixels, together))
            .split(p, p, pu, together)
            .reorder(o, pu, p);
        two_slots(behind, tiles_of(out_) * blocks());
        in_pads({behind});
    }
    void schedule_result() {
        const int extents[] = {plan_.pixels, plan_.blocks, out_, groups(), static_cast<int>(shape_.images)};
        Var vars[] = {p, yb, o, g, b};
        for (size_t d = 0; d < 5; d++) out.bound(vars[d], 0, extents[d]);
        Var pl("pl"), pq("pq"), oi("oi");
        out.split(p, pq, pl, lanes, TailStrategy::GuardWithIf)
            .split(o, oo, oi, std::min(lanes, out_), TailStrategy::GuardWithIf)
            .split(pq, pc, pq, plan_.tiles_turned_back());
        out.reorder({pl, pq, oi, pc, oo, yb, g, b});
        whole_loops(out);
        fix_shape(out.output_buffer(), {plan_.pixels, plan_.blocks, out_, shape_.groups, shape_.images});
        const auto plane = static_cast<int>(shape_.rows()) * columns_;
        const int strides[] = {1, plan_.block_step * columns_, plane, plane * out_, plane * out_ * groups()};
        for (int d = 1; d < 5; d++) out.output_buffer().dim(d).set_stride(strides[d]);
    }

    // K tiles of the kernel of 32 output channels that come together.
    int kernel_tiles() const { return static_cast<int>(shape_.k_tiles()) / kernel_parts_; }

    void schedule_kernel(const Products &product, const RVar &part) {
        Func filter = product.filter;
        const LoopLevel level = products_at(product);
        filter.compute_at(kernel_parts_ > 1 ? LoopLevel(product.sums, part) : level)
            .bound_extent(k, lanes)
            .bound_extent(o, lanes)
            .bound_extent(t, kernel_tiles())
            .vectorize(k, lanes);
        if (shape_.packed) {
            two_slots(filter, tiles_of(out_) * blocks() * kernel_parts_);
        } else {
            const int64_t slots = shape_.kernel_slots(machine_);
            const bool whole = slots == channel_tiles_;
            raw_kernel.vectorize(k, lanes).bound_extent(l, lanes).bound_extent(o, lanes);
            if (shape_.merged > 1) raw_kernel.update().reorder(k, own_.x, own_.y, own_.z);
            RVar to("to"), ti("ti");
            filter.update().split(tap_of.x, to, ti, std::min(taps_, lanes), TailStrategy::GuardWithIf);
            if (whole) {
                raw_kernel.compute_at(level);
                filter.update().reorder(k, ti, to, tap_of.y, o).vectorize(k, lanes);
            } else {
                // One block of channels comes while that before it is turned.
                raw_kernel.compute_at(filter, tap_of.y);
                two_slots(raw_kernel, slots);
                filter.update().reorder(k, ti, to, o, tap_of.y).vectorize(k, lanes);
            }
            schedule_turn(turned_kernel, filter, to, ti, k, level);
            in_pads({raw_kernel});
        }
        in_pads({filter});
        if (shape_.bias) {
            Func biases = product.biases;
            biases.compute_at(level).bound_extent(o, lanes).vectorize(o, lanes);
            in_pads({biases});
        }
    }

    void schedule_product(Products &product) {
        // What parts bring follows each other where no first k tile is apart.
        const RVar part("part_alike"), tile("tile_alike");
        schedule_kernel(product, part);
        const int strip = product.strips.rows * plan_.strip_columns;
        Func sums = product.sums;
        Var pi("pi"), pu("p_unroll");
        if (one_size()) {
            finished.split(p, st, pi, strip).reorder(o, pi, st, co);
            sums.compute_at(finished, st);
        } else {
            finished.update(static_cast<int>(&product - products_.data()))
                .reorder(o, product.all.x, product.all.y, product.all.z)
                .vectorize(o, lanes);
            sums.compute_at(finished, product.all.y);
        }
        sums.bound_extent(o, lanes).vectorize(o, lanes).bound_extent(p, strip);
        Stage update = sums.update();
        const RDom &r = product.r;
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
            if (strip % static_cast<int>(machine_.pad.count) == 0)
                finished.split(pi, pi, pu, static_cast<int>(machine_.pad.count));
        }
        if (kernel_parts_ > 1) {
            update.split(r.z, part, tile, kernel_tiles());
            order.insert(order.end(), {r.y, tile, part});
        } else {
            order.insert(order.end(), {r.y, r.z});
        }
        update.reorder(order).vectorize(o, lanes);
        schedule_dot(product, sums, kernel_parts_ > 1 ? tile : plan_.in_line ? r.y : r.z, column, o);
    }

    void schedule_back() {
        finished.compute_at(out, back_at_end_ ? yb : oo)
            .bound_extent(o, lanes)
            .vectorize(o, lanes)
            .bound_extent(p, plan_.stored_places())
            .bound_storage(p, plan_.stored_pixels());
        if (back_at_end_) finished.bound_extent(co, tiles_of(out_));
        planes.compute_at(out, pc)
            .bound_extent(l, lanes)
            .bound_extent(i, lanes)
            .bound_extent(pt, plan_.tiles_turned_back())
            .vectorize(l, lanes);
        Var iu("i_unroll");
        planes.split(i, i, iu, weight_unroll_).reorder(l, iu, i, pt);
        // The rows of the identity stay in registers beside the sums of strips that leave room for them.
        constexpr int longest_beside = 175;
        const bool stay = plan_.strip_columns * plan_.strip_rows <= longest_beside;
        schedule_turn(back, planes, pt, iu, l, stay ? LoopLevel(out, back_at_end_ ? yb : oo) : LoopLevel(out, pc));
        two_slots(planes, tiles_of(plan_.pixels) / plan_.tiles_turned_back() * tiles_of(out_) * blocks());
        in_pads({finished, planes});
    }

    KernelDefinition kernel() const {
        KernelDefinition kernel = kernel_of(out, f, bias);
        if (machine_.timed()) {
            if (results_by_channel() && !shape_.channels_last) kernel.layouts["planes"] = {0, plan_.tiles_turned_back()};
            for (const Products &product : products_)
                if (along_taps()) kernel.lay_out(product.filter, {0, kernel_tiles()});
        }
        return kernel;
    }
    // As the pipeline sees the kernel: what a k tile takes from memory and what does not vary in it.
    std::vector<int64_t> f_extents() const {
        const int64_t out = shape_.out * shape_.groups;
        if (shape_.packs_lanes()) return {shape_.k_tiles() * lanes, out};
        if (shape_.packed) return {folded_ ? taps_ * channel_tiles_ * in_ * lane_rows_ : taps_ * in_, out};
        return {taps_, folded_ ? in_ * shape_.kernel_y : in_of_group(), out};
    }

    const int row_unroll_, kernel_parts_;
    const bool in_registers_, back_at_end_;

    ImageParam f = tensor("F", f_extents()), bias = tensor("bias", shape_.bias_extents());
    Var oo{"oo"}, pc{"pc"}, tb{"tb"}, p{"p"}, pt{"pt"}, st{"st"}, rx{"rx"}, ry{"ry"};
    Func raw_kernel{"raw_kernel"}, finished{"finished"}, planes{"planes"}, behind{"behind"}, out{"Y_out"};
    Turn turned_kernel{"turned_kernel"}, back{"back"};
    std::vector<Products> products_;
    RDom tap_of{0, taps_, 0, channel_tiles_, "tap_of"};
    // Channels and output channels of a group of the convolution, and such groups that are one.
    RDom own_{0, in_of_group(), 0, out_of_group(), 0, static_cast<int>(shape_.merged), "own"};
};

}  // namespace

int64_t ConvolutionShape::kernel_slots(const Machine &machine) const {
    if (!rows_on_lanes() && in % lanes == 0 && out % lanes == 0 && channel_tiles() > 2 && machine.timed()) return 2;
    const int64_t all = lanes * lanes * tiles_of(taps()) * channel_tiles();
    return 4 * all <= machine.pad.count * machine.pad_rows() ? channel_tiles() : 1;
}

// Weights and results of a band lie in small pads beside the window.
constexpr int64_t most_band_rows = 12;
// What 32 columns of the image take to be turned, and a row of weights to come.
constexpr int64_t cycles_of_a_turn = 3 * lanes, beats_of_a_row = 2;

int64_t ConvolutionShape::band_places() const {
    int64_t part = std::min<int64_t>(columns(), lanes);
    while (columns() % part != 0) part--;
    return part;
}

int64_t ConvolutionShape::band_rows() const { return shared_columns() > 0 ? 1 : best_band(); }

int64_t ConvolutionShape::best_band() const {
    if (!packed || patches() || !rows_on_lanes() || channel_tiles() > 1 ||
        2 * band_places() < std::min<int64_t>(lanes, columns()))
        return 1;
    // The image is turned for each band, and so many more rows of the kernel come.
    const auto cost = [&](int64_t count) {
        return rows() / count * tiles_of(width) * cycles_of_a_turn + count * out * kernel_x * beats_of_a_row;
    };
    int64_t best = 1;
    for (int64_t count = 2; count <= rows() && rows_read(count) * in <= lanes; count++)
        if (rows() % count == 0 && cost(count) < cost(best)) best = count;
    return best;
}

int64_t ConvolutionShape::rest_rows() const {
    if (!packed || patches() || !rows_on_lanes() || in < 2 || dilation_x > 1 ||
        kernel_x > std::min<int64_t>(lanes, places_together * stride_x))
        return 0;
    const int64_t tiles = in * kernel_y / lanes, rest = in * kernel_y % lanes;
    if (tiles == 0 || rest == 0 || rest > kernel_y || kernel_x * tiles + rest >= kernel_x * ceil_div(kernel_y, lane_rows()))
        return 0;
    const int64_t last_row = (rows() - 1) * stride_y - padding_y + dilation_y * (first_inside() + rest - 1),
                  behind = (round_up(columns(), places_together) - 1) * stride_x - padding_x + kernel_x - width;
    return first_inside() + rest <= kernel_y && last_row < height - 1 && padding_x <= width && behind <= width ? rest : 0;
}

KernelElement ConvolutionShape::element_of(int64_t tile, int64_t lane) const {
    if (patches()) return patch_element(tile, lane);
    if (shared_columns() > 0) return shared_element(tile, lane);
    const int64_t by_column = taps() * channel_tiles();
    if (tile < by_column) {
        const int64_t at = tile % channel_tiles() * lanes + lane;
        return {lane_channel(at), lane_row(at), tile / channel_tiles()};
    }
    const int64_t at = channel_tiles() * lanes + tile - by_column;
    return {lane_channel(at), lane_row(at), lane};
}

ConvolutionShape ConvolutionShape::in_one_line() const {
    ConvolutionShape line = *this;
    if (meets_every_element()) {
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
    for (int64_t count = 1; count <= rows() && (count == 1 || (banded && count <= most_band_rows && count * out <= lanes));
         count++) {
        const int64_t window = rows_read(count), channels = std::min(in, lanes / window);
        if (channels == 0) break;
        const int64_t tiles = ceil_div(in, channels), bands = ceil_div(rows(), count), lines = tiles_of(columns());
        // The image is turned, its columns are loaded for each element of a row of the kernel, and the rows of the kernel
        // stream.
        const int64_t steps = bands * tiles * (width + round_up(width, lanes) + kernel_x * (columns() + lines * count * out));
        if (best.window == 0 || steps < fewest) {
            best = {count, window, channels, tiles};
            fewest = steps;
        }
    }
    return best;
}

bool ConvolutionShape::passes_matrices() const {
    if (!packed || channels_last || groups == 1 || in > 1 || out > 1 || dilation_x * (kernel_x - 1) + 1 > lanes) return false;
    const ConvolutionDiagonal d = diagonal();
    return d.parts == 1 || padding_x <= d.places * stride_x;
}

ConvolutionShape ConvolutionShape::with_merged_groups() const {
    const bool depthwise_planes = in == 1 && out == 1 && !channels_last;
    if (banded || shares || passes_matrices() || (!packed && depthwise_planes)) return *this;
    ConvolutionShape all = *this;
    for (int64_t count = 2; count <= groups && count * in <= lanes && (packed || count * out <= lanes); count++)
        if (groups % count == 0) all.merged = count;
    all.groups /= all.merged, all.in *= all.merged, all.out *= all.merged;
    const auto weight_tiles = [](const ConvolutionShape &s) { return s.groups * tiles_of(s.out) * s.k_tiles(); };
    const bool pays =
        !all.rows_on_lanes() && (!packed || all.k_tiles() <= 2 * k_tiles()) && weight_tiles(all) <= weight_tiles(*this);
    return channels_last || pays ? all : *this;
}

ConvolutionShape ConvolutionShape::with_own_groups() const {
    ConvolutionShape own = *this;
    own.groups *= merged, own.in /= merged, own.out /= merged, own.merged = 1;
    return own;
}

ConvolutionDiagonal ConvolutionShape::diagonal() const {
    ConvolutionDiagonal d;
    // What a part's windows have of the image: no padding, which is in front of the first part and behind the last.
    const auto widest_read = [&] {
        int64_t widest = 0;
        for (int64_t first = 0; first < columns(); first += d.places) {
            const int64_t begin = std::max<int64_t>(0, first * stride_x - padding_x),
                          end = (first * stride_x - padding_x) + columns_read(std::min(d.places, columns() - first));
            widest = std::max(widest, std::min(end, width) - begin);
        }
        return widest;
    };
    do {
        d.parts++;
        d.places = ceil_div(columns(), d.parts);
        d.window = widest_read();
    } while (d.window > lanes || d.places > lanes);
    d.parts = ceil_div(columns(), d.places);
    // Whole beats of the bus.
    d.stored = d.window <= lanes / 2 ? lanes / 2 : lanes;
    d.kinds = d.parts > 1 && padding_x > 0 ? 2 : 1;
    return d;
}

ConvolutionPlan::ConvolutionPlan(const ConvolutionShape &shape, const Point &point)
    : in_line(point["in_line"] != 0),
      in_parts(point["in_parts"] != 0),
      rows(static_cast<int>(point["rows"])),
      blocks(ceil_div(static_cast<int>(shape.rows()), rows)),
      block_step(blocks > 1 ? (static_cast<int>(shape.rows()) - rows) / (blocks - 1) : rows),
      strip_columns(static_cast<int>(point["strip_columns"])),
      strip_rows(static_cast<int>(point["strip_rows"])),
      strips_leave(point.contains("strips_leave") ? static_cast<int>(point["strips_leave"]) : 1) {
    if (!possible(shape, point))
        throw Error(
            "convolution: blocks must divide the rows of the result or overlap by equal numbers of rows, and strips are whole "
            "rows or divide one; those of two sizes have the rows of a block");
    // Places that follow each other: in line all rows are one block.
    if (in_line || shape.shared_columns() > 0) {
        pixels = static_cast<int>(rows * shape.columns());
        strips = ceil_div(pixels, strip_columns);
        stored_rows = rows;
        sizes = {{0, strips, 1}};
        return;
    }
    if (in_parts) {
        pixels = static_cast<int>(rows * shape.columns());
        part_rows = round_up(ceil_div(rows, static_cast<int>(parts)), strip_rows);
        stored_rows = part_rows == strip_rows ? rows : static_cast<int>(parts) * part_rows;
        strips = ceil_div(static_cast<int>(shape.columns()), strip_columns) * (part_rows / strip_rows);
        sizes = {{0, strips, strip_rows}};
        return;
    }
    // Strips in a row, and rows of strips.
    const int columns = static_cast<int>(shape.columns()), across = columns / strip_columns, below = ceil_div(rows, strip_rows);
    strips = below * across;
    pixels = rows * columns;
    if (point["strips_alike"]) {
        stored_rows = below * strip_rows;
        sizes = {{0, strips, strip_rows}};
    } else {
        const int low = below * strip_rows - rows;
        stored_rows = rows;
        sizes = {{0, below - low, strip_rows}, {(below - low) * strip_rows, low, strip_rows - 1}};
    }
}

int ConvolutionPlan::tiles_turned_back() const {
    constexpr int most = 64;
    const int tiles = tiles_of(pixels);
    for (int part = most; part > 2; part--)
        if (tiles % part == 0) return part;
    return tiles;
}

bool ConvolutionPlan::possible_block(const ConvolutionShape &shape, int64_t rows) {
    if (shape.rows() % rows == 0) return true;
    constexpr int64_t most_blocks = 4, least_share = 8;  // rows that are computed twice are at most an eighth
    const int64_t blocks = ceil_div(shape.rows(), rows), twice = blocks * rows - shape.rows();
    return shape.rows_on_lanes() && shape.band_rows() == 1 && blocks <= most_blocks && twice % (blocks - 1) == 0 &&
           twice * least_share <= shape.rows();
}

bool ConvolutionPlan::possible(const ConvolutionShape &shape, const Point &point) {
    const int64_t rows = point["rows"], strip_rows = point["strip_rows"], strip_columns = point["strip_columns"];
    if (point["in_line"])
        return shape.places_in_line() && rows == shape.rows() && strip_rows == 1 &&
               strip_columns % ConvolutionShape::places_together == 0 && point["strips_alike"];
    if (point["in_parts"])
        return shape.in_parts() && rows == shape.rows() && strip_rows <= ceil_div(rows, parts) && point["strips_alike"];
    if (shape.shared_columns() > 0)
        return shape.rows() % rows == 0 && strip_rows == 1 && strip_columns == shape.line_places() &&
               rows * shape.columns() % (strip_columns * point["strips_leave"]) == 0 && point["strips_alike"];
    if (!possible_block(shape, rows) || shape.columns() % strip_columns != 0 ||
        (strip_columns < shape.columns() && strip_rows != 1))
        return false;
    const int64_t below = ceil_div(rows, strip_rows), low = below * strip_rows - rows;  // strips, and those of a row less
    return point["strips_alike"] || (strip_columns == shape.columns() && strip_rows > 1 && low > 0 && low < below);
}

KernelDefinition convolution_kernel(const ConvolutionShape &shape, const Func &out, const ImageParam &x, const ImageParam &f,
                                    const ImageParam &bias) {
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.add_input({"X", shape.x_extents()}, x);
    kernel.add_input({"F", shape.f_extents()}, f);
    if (shape.bias) kernel.add_input({"bias", shape.bias_extents()}, bias);
    kernel.outputs = {{"Y", shape.out_extents()}};
    return kernel;
}

KernelDefinition convolution(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    if (shape.band_rows() > 1 || shape.shared_columns() > 0) return convolution_of_bands(shape, machine, point);
    return point["in_parts"] ? convolution_of_parts(shape, machine, point) : ConvolutionPipeline(shape, machine, point).build();
}

}  // namespace atalla
