// Means of windows over images in PyTorch's layout whose lanes lie along the rows of an image: the rows of a window are added lane by lane,
// and a product with constant weights adds columns of these sums and takes them to the lanes of the results.
#include <algorithm>
#include <string>
#include <vector>

#include "generators/pad_room.h"
#include "generators/pool.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// A row of the image in vectors that hold the windows of as many results each. The last one ends where the image does, so that each may begin
// some columns earlier, counted from its first window, than the one before.
struct Pieces {
    int64_t results = 0, count = 0;   // 0: windows do not fit a vector so
    int64_t columns = 0, step = 0, shift = 0;
    explicit Pieces(const PoolAxis &x) {
        const auto span = [&](int64_t windows) { return (windows - 1) * x.stride + x.kernel; };
        for (int64_t most = x.kernel <= lanes ? std::min((lanes - x.kernel) / x.stride + 1, x.results) : 0; most > 0; most--) {
            count = ceil_div(x.results, most);
            results = ceil_div(x.results, count);
            if (ceil_div(x.results, results) != count) continue;
            for (shift = 0; shift <= results * x.stride; shift++) {
                step = results * x.stride - shift;
                columns = span(x.results - (count - 1) * results) + (count - 1) * shift;
                if (count > 1) columns = std::max(columns, span(results) + (count - 2) * shift);
                if (columns > lanes) break;
                if ((count - 1) * step + columns <= x.size) return;
            }
        }
        results = count = 0;
    }
    // Weights differ where pieces begin elsewhere.
    int64_t weights() const { return (count - 1) * shift + 1; }
};

// The planes as the kernel goes over them. Where no window reaches from one into the next, they may be cut anywhere between rows of results.
struct Bands {
    int64_t count = 1, rows = 1, height = 1;
};
bool continuous(const PoolShape &shape) { return shape.y.kernel <= shape.y.stride && shape.y.results * shape.y.stride == shape.y.size; }
Bands bands_of(const PoolShape &shape, int64_t rows) {
    const int64_t planes = shape.images * shape.channels;
    if (!continuous(shape)) return {planes, shape.y.results, shape.y.size};
    return {planes * shape.y.results / rows, rows, rows * shape.y.stride};
}

// What lies in a pad: rows in turn, a part of each band, or bands in turn. Transfers of parts and bands walk through different pages of the DRAM,
// and straight-line code takes rows of all pads.
enum class Shares { Rows, Parts, Bands };
Shares shares_of(const Machine &machine, const Bands &bands, const Point &point) {
    const int64_t pads = machine.pad.count;
    if (!machine.timed()) return Shares::Rows;
    if (point["bands"] % pads == 0) return Shares::Bands;
    return point["bands"] == 1 && bands.rows % pads == 0 && bands.height % pads == 0 && point["unroll"] % pads == 0 ? Shares::Parts : Shares::Rows;
}

class RowPool {
public:
    RowPool(const PoolShape &shape, const Machine &machine, const Point &point)
        : shape_(shape), machine_(machine), pieces_(shape.x), bands_(bands_of(shape, point["rows"])), group_(size(point["bands"])), unroll_(size(point["unroll"])), shares_(shares_of(machine, bands_, point)) {}

    KernelDefinition run() {
        define();
        schedule();
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.arguments = {image_};
        kernel.inputs = {{"X", {shape_.x.size, bands_.height, bands_.count}}};
        kernel.outputs = {{"Y", {shape_.x.results, bands_.rows, bands_.count}}};
        if (shares_ != Shares::Rows) {
            const int64_t parts = shares_ == Shares::Parts ? machine_.pad.count : 1;
            kernel.lay_out(raw_, {0, bands_.height / parts});
            kernel.lay_out(results_, {0, bands_.rows / parts});
        }
        return kernel;
    }

private:
    void define() {
        const int columns = size(pieces_.columns), down = size(shape_.y.stride), rows = size(shape_.y.kernel);
        const Expr start = t * size(pieces_.step);
        if (columns == lanes) {
            raw_(k, y, t, c) = image_(start + k, y, c);
        } else {
            // What no window sees meets a weight of zero, but must be a number.
            raw_(k, y, t, c) = bf16(0.0f);
            raw_(k, y, t, c) = select(k < columns, image_(start + min(k, columns - 1), y, c), undef<BFloat>());
        }
        column_(k, y, t, c) = raw_(k, y * down, t, c);
        if (rows > 1) {
            below_ = RDom(1, rows - 1, "below");
            column_(k, y, t, c) = strict_float(column_(k, y, t, c) + raw_(k, y * down + below_.x, t, c));
        }
        const double elements = shape_.divisor != 0 ? shape_.divisor : static_cast<double>(shape_.x.kernel * shape_.y.kernel);
        const Expr place = k - w * size(shape_.x.stride) - s;
        table_(k, w, s) = select(place >= 0 && place < size(shape_.x.kernel), bf16(static_cast<float>(1 / elements)), bf16(0.0f));
        weights_(k, w, t) = table_(k, w, t * size(pieces_.shift));
        part_(l, y, t, c) = 0.0f;
        part_(l, y, t, c) += f32(column_(q, y, t, c)) * f32(weights_(q, l, t));
        results_(l, y, t, c) = bf16(part_(l, y, t, c));
        out_(x, y, c) = results_(x % size(pieces_.results), y, x / size(pieces_.results), c);
    }

    void schedule() {
        const Var pl("pl"), pt("pt"), ci("ci"), co("co"), yu("y_unroll"), pu("pad_unroll");
        const int columns = size(shape_.x.results), bands = size(bands_.count), rows = size(bands_.rows);
        out_.bound(x, 0, columns).bound(y, 0, rows).bound(c, 0, bands);
        out_.split(x, pt, pl, size(pieces_.results), TailStrategy::GuardWithIf).split(c, co, ci, group_).reorder(pl, y, ci, co, pt);
        whole_loops(out_);
        fix_shape(out_.output_buffer(), {columns, rows, bands});
        table_.compute_root().vectorize(k, lanes).bound(k, 0, lanes).bound(w, 0, lanes).bound(s, 0, size(pieces_.weights())).split(w, w, Var("w_unroll"), size(machine_.pad.count));
        const LoopLevel at(out_, co);
        raw_.compute_at(at).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(y, size(bands_.height)).bound_extent(c, group_);
        results_.compute_at(at).vectorize(l, lanes).bound_extent(l, lanes).bound_extent(y, rows).bound_extent(c, group_);
        if (machine_.timed() && (bands > group_ || pieces_.count > 1))
            for (Func f : {raw_, results_}) f.hoist_storage_root().ring_buffer(2);
        const int pads = size(machine_.pad.count);
        if (shares_ == Shares::Bands) results_.split(y, y, yu, unroll_).split(c, c, pu, pads).reorder(l, pu, yu, y, c, t);
        else if (shares_ == Shares::Parts) results_.split(y, pu, y, rows / pads).split(y, y, yu, unroll_ / pads).reorder(l, pu, yu, y, c, t);
        else results_.split(y, y, yu, unroll_).reorder(l, yu, y, c, t);
        const LoopLevel one_row(results_, shares_ == Shares::Rows ? yu : pu);
        weights_.compute_at(out_, pt).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes).split(w, w, Var("w_unroll"), lanes);
        part_.compute_at(one_row).vectorize(l, lanes).update().reorder(q, l).atomic().vectorize(l, lanes).vectorize(q, lanes);
        column_.compute_at(one_row).vectorize(k, lanes).bound_extent(k, lanes);
        if (below_.defined()) column_.update().vectorize(k, lanes).unroll(below_.x);
        in_registers({weights_, part_, column_});
        in_pads({raw_, results_, table_});
    }

    const PoolShape &shape_;
    const Machine &machine_;
    const Pieces pieces_;
    const Bands bands_;
    const int group_, unroll_;   // bands in the pads, rows of a band in straight-line code
    const Shares shares_;
    Var k{"k"}, w{"w"}, l{"l"}, s{"s"}, t{"t"}, x{"x"}, y{"y"}, c{"c"};
    RDom q{0, lanes, "q"};
    ImageParam image_ = tensor("X", {shape_.x.size, bands_.height, bands_.count});
    Func raw_{"raw"}, column_{"column"}, table_{"table"}, weights_{"weights"}, part_{"part"}, results_{"results"}, out_{"Y"};
    RDom below_;
};

std::vector<int64_t> rows_of(const PoolShape &shape) {
    constexpr int64_t most_rows = 256;
    return continuous(shape) ? divisors(shape.images * shape.channels * shape.y.results, most_rows) : std::vector<int64_t>{shape.y.results};
}

std::vector<int64_t> unrolls_of(const PoolShape &shape) {
    constexpr int64_t most_unrolled = 56;
    return divisors(continuous(shape) ? shape.images * shape.channels * shape.y.results : shape.y.results, most_unrolled);
}

bool fits(const PoolShape &shape, const Machine &machine, const Point &point) {
    const Pieces pieces(shape.x);
    const Bands bands = bands_of(shape, point["rows"]);
    const int64_t slots = machine.timed() && (bands.count > point["bands"] || pieces.count > 1) ? 2 : 1;
    return fit_pads(machine, {{slots * point["bands"] * bands.height, false}, {slots * point["bands"] * bands.rows, false}, {lanes * pieces.weights(), false}});
}

Space space_of(const PoolShape &shape, const Machine &machine) {
    constexpr int64_t most_bands = 16;
    Space space;
    space.parameter("rows", "of results in a band", rows_of(shape))
        .parameter("bands", "in the pads at a time", continuous(shape) ? std::vector<int64_t>{1} : divisors(shape.images * shape.channels, most_bands))
        .parameter("unroll", "rows of a band in straight-line code", unrolls_of(shape));
    space.constraint("whole bands", {"rows", "bands"}, "Bands in the pads divide all bands.", [=](const Point &point) { return bands_of(shape, point["rows"]).count % point["bands"] == 0; });
    space.constraint("whole unrolls", {"rows", "unroll"}, "The rows in straight-line code divide those of a band.", [](const Point &point) { return point["rows"] % point["unroll"] == 0; });
    space.constraint("pads", {"rows", "bands"}, "Bands of the image and their results fit the pads.", [=](const Point &point) { return fits(shape, machine, point); });
    return space;
}

Point naive_point_of(const PoolShape &shape, const Machine &) { return {{"rows", rows_of(shape).front()}, {"bands", 1}, {"unroll", 1}}; }

bool takes(const PoolShape &shape, const Machine &machine) {
    // Fewer rows in straight-line code would wait for the array, one after the other.
    constexpr int64_t least_unrolled = 4;
    return shape.planes_outermost && shape.kind == Pooling::Average && !shape.x.adaptive && !shape.y.adaptive && !reaches_out(shape.x) && !reaches_out(shape.y) && shape.y.kernel <= most_unrolled_taps &&
           unrolls_of(shape).back() >= least_unrolled && Pieces(shape.x).count > 0 && fits(shape, machine, naive_point_of(shape, machine));
}

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Rows follow each other at the pace of the lanes or of the latency of the array, which those in straight-line code share. Transfers take
    // turns in one page of the DRAM, at half the rate of the bus, and the first and the last have it for themselves.
    constexpr double latency = 60, start = 2000, around = 300, beat = 32, half_rate = 2;
    const Pieces pieces(shape.x);
    const Bands bands = bands_of(shape, point["rows"]);
    const double visits = static_cast<double>(bands.count * pieces.count) / static_cast<double>(point["bands"]), each = static_cast<double>(point["bands"] * bands.rows);
    const double additions = static_cast<double>(std::max<int64_t>(shape.y.kernel - 1, 1) * machine.vec.ii);
    const double compute = around + each * std::max(additions, latency / static_cast<double>(point["unroll"]));
    const auto beats = [&](int64_t elements) { return 2 * static_cast<double>(elements) / beat + 0.75; };
    const double transfers = half_rate * static_cast<double>(point["bands"]) * (static_cast<double>(bands.height) * beats(pieces.columns) + static_cast<double>(bands.rows) * beats(pieces.results));
    return start + visits * std::max(compute, transfers) + compute + transfers;
}

}  // namespace

const PoolForm row_pool = {takes, space_of, naive_point_of, draft_of,
                           [](const PoolShape &shape, const Machine &machine, const Point &point) { return RowPool(shape, machine, point).run(); }};

}  // namespace atalla
