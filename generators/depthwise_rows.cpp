#include "generators/depthwise_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "generators/pipeline_workload.h"
#include "generators/reference_peaks.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Columns that a part reads: what its places' windows have of the image; behind the first part from `early` columns before.
int64_t first_read(const ConvolutionShape &shape, int64_t part, int64_t early = 0) {
    return std::max<int64_t>(0, part * shape.diagonal().places * shape.stride_x - shape.padding_x - early);
}
int64_t columns_read(const ConvolutionShape &shape, int64_t part, int64_t early = 0) {
    const int64_t places = shape.diagonal().places, first = first_read(shape, part, early),
                  end = part * places * shape.stride_x - shape.padding_x + shape.columns_read(places);
    return std::min(end, shape.width) - first;
}
// The most columns of a part, where all of them have as many; 0 where the image ends before.
int64_t all_read(const ConvolutionShape &shape, int64_t early = 0) {
    const int64_t parts = shape.diagonal().parts;
    int64_t most = 0;
    for (int64_t part = 0; part < parts; part++) most = std::max(most, columns_read(shape, part, early));
    for (int64_t part = 0; part < parts; part++)
        if (first_read(shape, part, early) + most > shape.width) return 0;
    return most;
}

// Matrices that the array makes of PyTorch's weights: each row of a matrix is a row of the kernel some columns on, and the
// parts of all planes share those that are as far on. `channels` of them are in the pads at a time.
struct MadeMatrices {
    MadeMatrices(const ConvolutionShape &shape, const Machine &machine, int64_t together) {
        const ConvolutionDiagonal d = shape.diagonal();
        step = static_cast<int>(d.kinds == 1 ? shape.stride_x : std::gcd(shape.stride_x, shape.padding_x));
        if (d.kinds > 1) {
            // The parts behind the first begin early enough for their matrices to begin in the same pad, if lanes are left.
            const int64_t round = machine.pad.count * step;
            early = static_cast<int>(round_up(shape.padding_x, round) - shape.padding_x);
            const int64_t read = all_read(shape, early);
            go_round = read > 0 && read <= lanes && early + shape.padding_x <= d.places * shape.stride_x;
            if (!go_round) early = 0;
            behind = static_cast<int>((shape.padding_x + early) / step);
        }
        shifts = static_cast<int>((d.places - 1) * shape.stride_x / step) + behind + 1;
        if (go_round) shifts = static_cast<int>(round_up(shifts, machine.pad.count));
        const int64_t capacity = go_round ? machine.pad.count * machine.pad_rows() * 3 / 4 : machine.pad_rows() * 7 / 8;
        for (int64_t n = 1; n <= shape.groups; n++)
            if (shape.groups % n == 0 && n % together == 0 && rows(shape, n) * shifts <= capacity)
                channels = static_cast<int>(n);
    }
    // A row of a kernel leaves into the same pad for each turn of the weights.
    double cost(const ConvolutionShape &shape) const {
        constexpr double store = 3, switch_cost = 96;
        const auto blocks = static_cast<double>(shape.groups / channels), made_rows = static_cast<double>(rows(shape));
        return blocks * shifts * (switch_cost + made_rows * store);
    }
    // Rows of the kernels, whole turns of the loop that makes matrices of them.
    int rows(const ConvolutionShape &shape) const { return rows(shape, channels); }
    static int rows(const ConvolutionShape &shape, int64_t of_channels) {
        return static_cast<int>(round_up(of_channels * shape.kernel_y, unrolled));
    }
    static constexpr int unrolled = 16;
    int step = 1, shifts = 0;   // columns from one to the next, and how many there are of a row of a kernel
    int behind = 0, early = 0;  // the first of the parts behind the first one, which begin so many columns before their windows
    bool go_round = true;       // the pads; otherwise all are in one
    int channels = 0;           // 0: none fit
};

constexpr int64_t few_rows = 16;  // that a pad gives in the time that weights take

// Where the rows of the kernel are a loop, the pad of a row is known if all that a block of the result's rows reads are in one.
// A strip of all rows is so many equal blocks, in a pad each; what two of them read comes twice.
int64_t row_blocks(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    if (point["taps_unrolled"] != 0 || point["strip_rows"] != shape.rows() || shape.rows() <= few_rows) return 1;
    int64_t blocks = machine.pad.count;
    while (shape.rows() % blocks != 0) blocks /= 2;
    return blocks;
}

constexpr int64_t most_channels = 4;  // in slots that take turns

// Are all channels in the pads, so that a single loop goes over their parts while rows and matrices of later ones come and
// results of earlier ones leave? What a turn reads is at one distance from turn to turn, if parts have a matrix each.
bool can_be_all_at_once(const ConvolutionShape &shape) {
    const ConvolutionDiagonal d = shape.diagonal();
    return shape.images == 1 && shape.groups > most_channels && (d.parts == 1 || d.parts == d.kinds);
}
bool all_at_once(const ConvolutionShape &shape, const Point &point) {
    return shape.groups > most_channels && point["channels"] == shape.groups;
}

// Rows of the padded plane that come for a part: whole rounds of the pads where those of the next one follow.
int64_t rows_brought(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    const int64_t blocks = row_blocks(shape, machine, point), rows = blocks * shape.rows_read(shape.rows() / blocks);
    return all_at_once(shape, point) ? round_up(rows, machine.pad.count) : rows;
}

bool fit_pads(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    const ConvolutionDiagonal d = shape.diagonal();
    const int64_t capacity = machine.pad.count * machine.pad_rows() * 7 / 8, biases = shape.bias ? shape.groups : 0;
    const int64_t slots = all_at_once(shape, point) ? 1 : 2, guard = slots > 1 ? 3 * machine.pad.count : 0;
    const int64_t each = (rows_brought(shape, machine, point) + shape.rows()) * d.parts + guard;
    if (shape.packed) return slots * point["channels"] * (each + d.places * shape.kernel_y * d.kinds) + biases <= capacity;
    const MadeMatrices made(shape, machine, point["channels"]);
    const int64_t fixed = 4 * lanes + made.rows(shape) * (made.shifts + 1);
    return made.channels > 0 && slots * point["channels"] * each + fixed + biases <= capacity;
}

// Cycles of the parts of all channels in one loop, whose turns overlap: the array's, or those of transfers beside them.
double cycles_of_turns(const ConvolutionShape &shape, const Machine &machine, const Point &point) {
    constexpr double gap = 31, array_cost = 1.3, beat_cost = 1.5, result_beats = 2;
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const ConvolutionDiagonal d = shape.diagonal();
    const double array = real(shape.kernel_y) * (real(d.places + shape.rows()) + gap),
                 matrices = shape.packed ? real(shape.kernel_y * d.places * (d.stored / (lanes / 2))) : 0,
                 beats = result_beats * real(rows_brought(shape, machine, point) + shape.rows()) + matrices;
    return real(d.parts * shape.groups) * std::max(array_cost * array, beat_cost * beats);
}

class DepthwiseRowsPipeline {
public:
    DepthwiseRowsPipeline(const ConvolutionShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          machine_(machine),
          diagonal_(shape.diagonal()),
          places_(static_cast<int>(diagonal_.places)),
          parts_(static_cast<int>(diagonal_.parts)),
          strip_(static_cast<int>(point["strip_rows"])),
          rows_(static_cast<int>(shape.rows())),
          columns_(static_cast<int>(shape.columns())),
          groups_(static_cast<int>(shape.groups)),
          taps_unrolled_(point["taps_unrolled"] != 0),
          parts_apart_(point["parts_apart"] != 0),
          all_at_once_(all_at_once(shape, point)),
          blocks_(static_cast<int>(row_blocks(shape, machine, point))),
          rows_brought_(static_cast<int>(rows_brought(shape, machine, point))),
          channels_(static_cast<int>(point["channels"])),
          made_(shape, machine, channels_),
          early_(shape.packed ? 0 : made_.early) {}

    Pipeline build() {
        define_operands();
        define_result();
        schedule_loops();
        schedule_operands();
        schedule_product();
        return Pipeline(out);
    }
    std::vector<Argument> arguments() const {
        std::vector<Argument> all = {x, f};
        if (shape_.bias) all.push_back(bias);
        return all;
    }

private:
    int in_block() const { return rows_ / blocks_; }

    // The first column that a part reads.
    Expr first_column(const Expr &part) const {
        const int step = places_ * static_cast<int>(shape_.stride_x);
        if (parts_ == 1) return 0;
        return diagonal_.kinds == 1 ? part * step : max(part * step - static_cast<int>(shape_.padding_x) - early_, 0);
    }
    Expr kind_of(const Expr &part) const { return diagonal_.kinds == 1 ? Expr(0) : min(part, 1); }

    void define_operands() {
        const int width = static_cast<int>(shape_.width), height = static_cast<int>(shape_.height),
                  stored = static_cast<int>(diagonal_.stored);
        const Expr column = first_column(e) + k,
                   row = n * (in_block() * static_cast<int>(shape_.stride_y)) + y - static_cast<int>(shape_.padding_y);
        rows_of(k, y, n, e, c, b) = bf16(0.0f);
        const int all = static_cast<int>(all_read(shape_, early_));
        rows_of(k, y, n, e, c, b) =
            select((all > 0 ? k < all : k < static_cast<int>(diagonal_.window) && column < width) && row >= 0 && row < height,
                   x(min(column, width - 1), clamp(row, 0, height - 1), b * groups_ + c), undef<BFloat>());
        if (!shape_.packed) {
            define_made_matrices();
        } else if (stored == lanes) {
            define(matrices, {k, j, v, kind, c}, f(k, j, v, kind, c));
        } else {
            define_within(matrices, {k, j, v, kind, c}, k < stored, f(min(k, stored - 1), j, v, kind, c));
        }
        if (shape_.bias) biases(u, c) = bias(c);
    }

    // Rows of the kernels pass matrices that move them to the right.
    void define_made_matrices() {
        const int width = static_cast<int>(shape_.kernel_x), origin = (made_.shifts - 1) * made_.step;
        const int rows = groups_ * static_cast<int>(shape_.kernel_y);
        define_within(taps, {k, t}, k < width && t < rows, f(min(k, width - 1), min(t, rows - 1)));
        ones(k, i) = bf16(0.0f);
        ones(k, origin + of_kernel * static_cast<int>(shape_.dilation_x)) = select(k == of_kernel, bf16(1.0f), bf16(0.0f));
        moving(k, w, s) = undef<BFloat>();
        moving(k, of_lanes, s) = ones(k, of_lanes + origin - s * made_.step + static_cast<int>(shape_.padding_x));
        moved(k, t, s) = 0.0f;
        moved(k, t, s) += f32(taps(q, t)) * f32(moving(q, k, s));
        made(k, s, t) = bf16(moved(k, t, s));
    }
    // The row of the matrices of a part for a place of it.
    Expr matrix_row(const Expr &place, const Expr &part) const {
        const int step = static_cast<int>(shape_.stride_x) / made_.step;
        return place * step + kind_of(part) * made_.behind;
    }

    void define_result() {
        const Expr place = min(of_places, places_ - 1);
        weights(k, w, v, e, c) = undef<BFloat>();
        if (shape_.packed)
            weights(k, of_places, v, e, c) = matrices(k, place, v, kind_of(e), c);
        else
            weights(k, of_places, v, e, c) = made(k, matrix_row(place, e), v + c * static_cast<int>(shape_.kernel_y));
        part(j, y, v, e, c, b) = 0.0f;
        part(j, y, v, e, c, b) +=
            f32(rows_of(q, y % in_block() * static_cast<int>(shape_.stride_y) + v * static_cast<int>(shape_.dilation_y),
                        y / in_block(), e, c, b)) *
            f32(weights(q, j, v, e, c));
        sums(j, y, e, c, b) = sum_start(machine_);
        sums(j, y, e, c, b) = strict_float(sums(j, y, e, c, b) + bf16(part(j, y, r, e, c, b)));
        const Expr sum = sums(j, y, e, c, b);
        finished(j, y, e, c, b) = shape_.epilogue.apply(shape_.bias ? strict_float(sum + biases(0, c)) : sum);
        out(p, y, c, b) = finished(p % places_, y, p / places_, c, b);
    }

    void schedule_loops() {
        const int extents[] = {columns_, rows_, groups_, static_cast<int>(shape_.images)};
        Var vars[] = {p, y, c, b};
        for (size_t d = 0; d < 4; d++) out.bound(vars[d], 0, extents[d]);
        fix_shape(out.output_buffer(), {std::begin(extents), std::end(extents)});
        out.split(p, e, j, places_, TailStrategy::GuardWithIf)
            .split(y, yo, y, strip_, TailStrategy::ShiftInwards)
            .split(c, co, c, channels_);
        if (!shape_.packed) out.split(co, cb, co, made_.channels / channels_);
        if (!shape_.packed && parts_apart_) {
            out.reorder({j, y, yo, c, co, e, b, cb});
        } else if (!shape_.packed) {
            out.reorder({j, y, yo, e, c, co, b, cb});
        } else if (parts_apart_) {
            out.reorder({j, y, yo, c, co, e, b});
        } else {
            out.reorder({j, y, yo, e, c, co, b});
        }
        whole_loops(out);
    }

    void schedule_operands() {
        rows_of.compute_at(out, co)
            .vectorize(k, lanes)
            .bound_extent(k, lanes)
            .bound_extent(c, channels_)
            .bound_extent(y, rows_brought_ / blocks_)
            .bound_extent(n, blocks_)
            .bound_extent(e, parts_apart_ ? 1 : parts_);
        // All parts begin in the first pad.
        if (parts_ > 1 && blocks_ == 1 && !all_at_once_) rows_of.align_storage(y, static_cast<int>(machine_.pad.count));
        two_slots(rows_of, groups_ / channels_ * shape_.images * (parts_apart_ ? parts_ : 1));
        in_pads({rows_of});
        if (shape_.packed)
            schedule_matrices();
        else
            schedule_made_matrices();
        if (shape_.bias) {
            biases.compute_root().bound(c, 0, groups_).bound_extent(u, 1).align_storage(u, lanes);
            in_pads({biases});
        }
    }

    void schedule_matrices() {
        matrices.compute_at(out, co)
            .vectorize(k, lanes)
            .bound_extent(k, lanes)
            .bound_extent(c, channels_)
            .bound_extent(j, places_)
            .bound_extent(v, static_cast<int>(shape_.kernel_y))
            .bound_extent(kind, parts_apart_ ? 1 : static_cast<int>(diagonal_.kinds));
        two_slots(matrices, groups_ / channels_ * shape_.images * (parts_apart_ ? parts_ : 1));
        in_pads({matrices});
    }

    void schedule_made_matrices() {
        const int rows = made_.rows(shape_);
        taps.compute_at(out, cb).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(t, rows);
        ones.compute_root()
            .bound(k, 0, lanes)
            .bound(i, 0, lanes + (made_.shifts - 1) * made_.step + static_cast<int>(shape_.padding_x))
            .vectorize(k, lanes)
            .update()
            .vectorize(k, lanes);
        Var so("so"), si("si"), to("to"), ti("ti");
        made.compute_at(out, cb)
            .bound_extent(k, lanes)
            .bound(s, 0, made_.shifts)
            .bound_extent(t, rows)
            .split(s, so, si, made_.go_round ? static_cast<int>(machine_.pad.count) : 1)
            .split(t, to, ti, made_.unrolled)
            .reorder({k, ti, to, si, so})
            .unroll(si)
            .unroll(ti)
            .vectorize(k, lanes);
        RVar outer("outer"), inner("w_unroll");
        moving.compute_at(made, si)
            .bound_extent(k, lanes)
            .bound_extent(w, lanes)
            .update()
            .split(of_lanes, outer, inner, lanes)
            .vectorize(k, lanes);
        as_array_row(moved.compute_at(made, ti), k, q);
        in_registers({moving, moved});
        in_pads({taps, ones, made});
    }

    void schedule_product() {
        finished.vectorize(j, lanes).bound_extent(j, lanes).bound_extent(y, strip_);
        if (all_at_once_) {
            finished.compute_at(out, co).bound_extent(e, parts_).bound_extent(c, groups_).reorder(j, y, e, c).fuse(e, c, turn);
            sums.compute_at(finished, turn);
        } else {
            finished.compute_at(out, yo);
            two_slots(finished, ceil_div(rows_, strip_) * parts_ * groups_ * shape_.images);
            sums.compute_at(out, yo);
        }
        sums.vectorize(j, lanes).bound_extent(j, lanes).bound_extent(y, strip_);
        sums.update().reorder(j, y, r).vectorize(j, lanes);
        if (taps_unrolled_) sums.update().unroll(r);
        RVar outer("outer"), inner("w_unroll");
        weights.compute_at(sums, r)
            .bound_extent(k, lanes)
            .bound_extent(w, lanes)
            .update()
            .split(of_places, outer, inner, std::max(places_, 2))
            .vectorize(k, lanes);
        as_array_row(part.compute_at(sums, y), j, q);
        in_registers({sums, weights, part});
        in_pads({finished});
    }

    void two_slots(Func func, int64_t blocks) const {
        if (blocks > 1 && machine_.timed()) func.hoist_storage_root().ring_buffer(2);
    }

    const ConvolutionShape &shape_;
    const Machine &machine_;
    const ConvolutionDiagonal diagonal_;
    const int places_, parts_, strip_, rows_, columns_, groups_;
    const bool taps_unrolled_, parts_apart_, all_at_once_;
    const int blocks_;  // of the rows of a plane, each in a pad of its own
    const int rows_brought_;
    const int channels_;  // whose operands come together
    const MadeMatrices made_;
    const int early_;

    ImageParam x = tensor("X", {shape_.width, shape_.height, shape_.groups *shape_.images}),
               f = tensor("F", shape_.packed ? shape_.f_extents()
                                             : std::vector<int64_t>{shape_.kernel_x, shape_.kernel_y *shape_.groups}),
               bias = tensor("bias", shape_.bias_extents());
    Var k{"k"}, w{"w"}, j{"j"}, v{"v"}, y{"y"}, yo{"yo"}, e{"e"}, c{"c"}, co{"co"}, b{"b"}, p{"p"}, u{"u"}, kind{"kind"},
        i{"i"}, s{"s"}, t{"t"}, cb{"cb"}, n{"n"}, turn{"turn"};
    Func rows_of{"rows"}, matrices{"matrices"}, biases{"biases"}, weights{"weights"}, part{"part"}, sums{"sums"},
        finished{"finished"}, out{"Y_out"};
    Func taps{"taps"}, ones{"ones"}, moving{"moving"}, moved{"moved"}, made{"made"};  // without packed matrices
    RDom of_lanes{0, lanes, "of_lanes"}, of_kernel{0, static_cast<int>(shape_.kernel_x), "of_kernel"};
    RDom q{0, lanes, "q"}, of_places{0, std::max(places_, 2), "of_places"};
    RDom r{0, static_cast<int>(shape_.kernel_y), "r"};  // rows of the kernel
};

class DepthwiseRows : public PipelineWorkload {
public:
    DepthwiseRows(const WorkloadRequest &request, const ConvolutionShape &shape, std::shared_ptr<const Workload> general)
        : PipelineWorkload(request), shape_(shape), general_(std::move(general)) {
        inputs_ = general_->inputs();
        outputs_ = general_->outputs();
        result_shape_ = general_->result_shape();
    }

    double flops() const override { return general_->flops(); }
    Bound bound(const Machine &machine) const override { return general_->bound(machine); }

    Space space(const Machine &machine) const override {
        constexpr int64_t in_flight = 90;  // vectors of weights, rows and results on their way
        std::vector<int64_t> strips;
        const int64_t most = std::min(shape_.rows(), machine.regs.vector - 1 - in_flight);
        for (int64_t parts = ceil_div(shape_.rows(), most), last = 0; parts <= shape_.rows(); parts++)
            if (const int64_t strip = ceil_div(shape_.rows(), parts); strip != last) strips.push_back(last = strip);
        std::vector<int64_t> channels;
        for (int64_t part = 1; part <= std::min<int64_t>(shape_.groups, most_channels); part++)
            if (shape_.groups % part == 0) channels.push_back(part);
        if (can_be_all_at_once(shape_)) channels.push_back(shape_.groups);
        // The transfers of all parts must be alike.
        const int64_t early = shape_.packed ? 0 : MadeMatrices(shape_, machine, 1).early;
        const std::vector<int64_t> parts_apart =
            shape_.diagonal().parts > 1 && all_read(shape_, early) > 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0};
        Space space;
        space.parameter("strip_rows", "rows of the result that one load of the matrices serves", strips)
            .choice("taps_unrolled", "1: the rows of the kernel are straight-line code; 0: a loop", {1, 0})
            .choice("parts_apart", "1: the first parts of the rows of all planes, then the others; 0: all parts of a plane",
                    parts_apart)
            .parameter("channels", "channels whose rows and matrices come together", channels);
        space.constraint("all at once", {"channels", "strip_rows", "taps_unrolled", "parts_apart"},
                         "A loop over the parts of all channels has a strip of a part in straight-line code.",
                         [shape = shape_](const Point &point) {
                             return !all_at_once(shape, point) ||
                                    (point["strip_rows"] == shape.rows() && point["taps_unrolled"] && !point["parts_apart"]);
                         });
        space.constraint(
            "pads", {"channels", "taps_unrolled", "strip_rows"},
            "Two slots of the rows of the channels, their matrices and their results fit the pads, or all channels' once.",
            [shape = shape_, machine](const Point &point) { return fit_pads(shape, machine, point); });
        return space;
    }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        DepthwiseRowsPipeline pipeline(shape_, machine, point);
        const Pipeline built = pipeline.build();
        KernelDefinition definition = kernel(built, pipeline.arguments());
        if (const int64_t blocks = row_blocks(shape_, machine, point); blocks > 1)
            definition.layouts["rows"] = {static_cast<int>(blocks), shape_.rows_read(shape_.rows() / blocks)};
        // The matrices of a part begin in any row.
        if (!shape_.packed && !MadeMatrices(shape_, machine, point["channels"]).go_round) definition.layouts["made"] = {1, 0};
        return definition;
    }
    double draft(const Machine &machine, const Point &point) const override {
        // The adder's or the array's time for a strip, and what a switch of the matrices and a strip cost beside it.
        constexpr double start = 1500, array_row = 1.1, pad_row = 3, switch_cost = 100, strip_cost = 60;
        // Packets: a row that the adder adds, a result, and what surrounds them. What of a strip's code does not fit the cache
        // comes from memory, and so does as much that it pushes out.
        constexpr double added_row = 1.6, result = 0.7, around = 40, miss = 10;
        const double made = shape_.packed ? 0 : MadeMatrices(shape_, machine, point["channels"]).cost(shape_);
        if (all_at_once(shape_, point)) return start + made + cycles_of_turns(shape_, machine, point);
        const ConvolutionDiagonal d = shape_.diagonal();
        const auto strip = static_cast<double>(point["strip_rows"]), rows = static_cast<double>(shape_.kernel_y);
        // In a loop over the rows of the kernel a pad gives a block's rows.
        const double blocks = static_cast<double>(row_blocks(shape_, machine, point)),
                     row = point["taps_unrolled"] || strip <= few_rows ? array_row : std::max(array_row, pad_row / blocks);
        const double adds = machine.sa.psum_in ? 0 : rows - 1, visits = rows * (strip * row + switch_cost);
        const double strips =
            static_cast<double>(ceil_div(shape_.rows(), point["strip_rows"]) * d.parts * shape_.groups * shape_.images);
        const double in_code = point["taps_unrolled"] ? rows : std::min(rows, 2.0),
                     capacity = static_cast<double>(machine.icache.bytes) / static_cast<double>(machine.issue.packet_bytes);
        const double code = (d.parts > 1 && !point["parts_apart"] ? 2 : 1) * around + in_code * static_cast<double>(d.places) +
                            strip * (1 + (in_code - 1) * (machine.sa.psum_in ? 1 : added_row) + result);
        const double misses = machine.timed() ? 2 * miss * std::max(0.0, code - capacity) : 0;
        return start + made +
               strips *
                   (std::max(visits, strip * static_cast<double>(machine.vec.ii) * (adds + shape_.bias)) + strip_cost + misses);
    }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        Reference result;
        for (int64_t plane = 0; plane < shape_.images * shape_.groups; plane++) append_plane(inputs, plane, result);
        return {shape_.epilogue.reference(std::move(result), sum_ulps())};
    }
    double tolerance_ulps() const override { return sum_ulps() + shape_.epilogue.tolerance_ulps(); }

protected:
    KernelWork work(const Machine &) const override { return {}; }  // the bound is that of any convolution

private:
    double sum_ulps() const { return static_cast<double>(shape_.kernel_y) + 2; }

    // What the matrices say of all columns that a part reads.
    void append_plane(const std::vector<TensorData> &inputs, int64_t plane, Reference &result) const {
        const ConvolutionShape &s = shape_;
        const ConvolutionDiagonal d = s.diagonal();
        const int64_t channel = plane % s.groups;
        const uint16_t *x = inputs[0].data() + plane * s.height * s.width,
                       *f = inputs[1].data() + channel * d.kinds * s.kernel_y * d.places * d.stored;
        const double bias = s.bias ? bf16_float(inputs[2][static_cast<size_t>(channel)]) : 0;
        for (int64_t row = 0; row < s.rows(); row++)
            for (int64_t column = 0; column < s.columns(); column++) {
                const int64_t part = column / d.places, first = first_read(s, part), all = all_read(s),
                              read = all > 0 ? all : std::min(d.window, s.width - first), kind = std::min(part, d.kinds - 1);
                double sum = 0, peak = std::abs(bias);
                for (int64_t v = 0; v < s.kernel_y; v++) {
                    const int64_t at = row * s.stride_y + v * s.dilation_y - s.padding_y;
                    if (at < 0 || at >= s.height) continue;
                    const uint16_t *matrix = f + ((kind * s.kernel_y + v) * d.places + column % d.places) * d.stored;
                    double dot = 0, within = 0;
                    for (int64_t l = 0; l < read; l++) {
                        dot += static_cast<double>(bf16_float(x[at * s.width + first + l])) * bf16_float(matrix[l]);
                        within = std::max(within, std::abs(dot));
                    }
                    sum += dot;
                    peak = std::max({peak, std::abs(dot), std::abs(sum), within * float32_share});
                }
                result.values.push_back(sum + bias);
                result.peaks.push_back(std::max(peak, std::abs(sum + bias)));
            }
    }

    ConvolutionShape shape_;
    std::shared_ptr<const Workload> general_;
};

}  // namespace

double made_rows_cost(const ConvolutionShape &shape, const Machine &machine) {
    constexpr double switch_cost = 96, around = 2;
    ConvolutionShape packed = shape;
    packed.packed = true;
    if (!machine.timed() || !packed.passes_matrices()) return std::numeric_limits<double>::infinity();
    const ConvolutionDiagonal d = shape.diagonal();
    if (can_be_all_at_once(shape)) {
        const Point all{{"channels", shape.groups}, {"strip_rows", shape.rows()}, {"taps_unrolled", 1}, {"parts_apart", 0}};
        if (fit_pads(shape, machine, all))
            return cycles_of_turns(shape, machine, all) + MadeMatrices(shape, machine, shape.groups).cost(shape);
    }
    const MadeMatrices made(shape, machine, 1);
    if (made.channels == 0) return std::numeric_limits<double>::infinity();
    const auto kernel = static_cast<double>(shape.kernel_y), rows = static_cast<double>(shape.rows()),
               planes = static_cast<double>(shape.images * shape.groups), ii = static_cast<double>(machine.vec.ii);
    const double adds = machine.sa.psum_in ? 0 : rows * (kernel - 1) * ii, visits = kernel * (rows + switch_cost);
    return around * planes * static_cast<double>(d.parts) * std::max(adds, visits) + made.cost(shape);
}

std::unique_ptr<Workload> depthwise_rows_workload(const WorkloadRequest &request, const ConvolutionShape &shape,
                                                  std::shared_ptr<const Workload> general) {
    return std::make_unique<DepthwiseRows>(request, shape, std::move(general));
}

}  // namespace atalla
