// Means of windows over images in PyTorch's layout whose lanes lie along the rows of an image: the rows of a window are added
// lane by lane, and a product with constant weights adds columns of these sums and takes them to the lanes of the results.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "generators/pad_room.h"
#include "generators/pool.h"
#include "generators/pool_transfers.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// A row of the image in vectors that hold the windows of as many results each, the last one of fewer. They are cut where rows,
// which begin anywhere in a beat of the bus, take the fewest beats. Where they can be equally long, the last one ends where the
// image does, so that each may begin some columns earlier, counted from its first window, than the one before; otherwise each
// is as long as its windows.
struct Pieces {
    int64_t all = 0;                 // results of a row
    int64_t results = 0, count = 0;  // 0: windows do not fit a vector so
    int64_t columns = 0, last_columns = 0, step = 0, shift = 0;
    Pieces(const PoolShape &shape, const Machine &machine) {
        const PoolAxis &x = shape.x;
        all = x.results;
        for (int64_t most = x.kernel <= lanes ? std::min((lanes - x.kernel) / x.stride + 1, x.results) : 0; most > 0; most--) {
            if (count > 0 && ceil_div(x.results, most) > count) break;
            Pieces even, cut;
            even.divide(x, ceil_div(x.results, ceil_div(x.results, most)));
            if (machine.timed()) cut.cut(x, most);
            for (const Pieces &pieces : {even, cut})
                if (pieces.count > 0 && (count == 0 || pieces.cycles(shape) < cycles(shape))) *this = pieces;
        }
    }
    // Pieces as long as this one, which follow it.
    int64_t alike(int64_t piece) const { return equal() ? count : piece + 1 < count ? count - 1 : 1; }
    int64_t columns_of(int64_t piece) const { return piece + 1 < count ? columns : last_columns; }
    bool equal() const { return columns == last_columns; }
    // Weights differ where pieces begin elsewhere.
    int64_t weights() const { return (count - 1) * shift + 1; }

    // Of a row of results and those of the image that it sees, which begin anywhere.
    double beats_of_a_row(const PoolShape &shape) const {
        double sum = 0;
        for (int64_t piece = 0; piece < count; piece++) {
            const int64_t of_piece = std::min(results, shape.x.results - piece * results);
            sum += static_cast<double>(shape.y.stride) * mean_beats(shape.x.size, piece * step, columns_of(piece)) +
                   mean_beats(shape.x.results, piece * results, of_piece);
        }
        return sum;
    }

private:
    Pieces() = default;
    // Pieces of two lengths have a loop nest each, which begins and ends, and weights are made before the first row.
    double cycles(const PoolShape &shape) const {
        constexpr double of_nest = 600, of_weights = 1000;
        const auto rows = static_cast<double>(shape.images * shape.channels * shape.y.results);
        return rows * beats_of_a_row(shape) + (equal() ? 1 : 2) * of_nest + static_cast<double>(weights()) * of_weights;
    }
    static int64_t span(const PoolAxis &x, int64_t windows) { return (windows - 1) * x.stride + x.kernel; }
    void divide(const PoolAxis &x, int64_t windows) {
        all = x.results;
        results = windows;
        count = ceil_div(x.results, results);
        for (shift = 0; shift <= results * x.stride; shift++) {
            step = results * x.stride - shift;
            columns = last_columns = std::max(span(x, x.results - (count - 1) * results) + (count - 1) * shift,
                                              count > 1 ? span(x, results) + (count - 2) * shift : 0);
            if (columns > lanes) break;
            if ((count - 1) * step + columns <= x.size) return;
        }
        count = 0;
    }
    void cut(const PoolAxis &x, int64_t windows) {
        all = x.results;
        results = windows;
        count = ceil_div(x.results, results);
        step = results * x.stride;
        columns = span(x, results);
        shift = 0;
        last_columns = span(x, x.results - (count - 1) * results);
    }
};

// The planes as the kernel goes over them.
struct Bands {
    int64_t count = 1, rows = 1, height = 1;
};
Bands bands_of(const PoolShape &shape, int64_t rows) {
    const int64_t planes = shape.images * shape.channels;
    if (!continuous(shape)) return {planes, shape.y.results, shape.y.size};
    return {planes * shape.y.results / rows, rows, rows * shape.y.stride};
}

// What lies in a pad: rows in turn, a part of each band, or bands in turn. Transfers of parts and bands walk through different
// pages of the DRAM, and straight-line code takes rows of all pads.
enum class Shares { Rows, Parts, Bands };
Shares shares_of(const Machine &machine, const Bands &bands, const Point &point) {
    const int64_t pads = machine.pad.count;
    if (!machine.timed()) return Shares::Rows;
    if (point["bands"] % pads == 0) return Shares::Bands;
    return point["bands"] == 1 && bands.rows % pads == 0 && bands.height % pads == 0 && point["unroll"] % pads == 0
               ? Shares::Parts
               : Shares::Rows;
}

class RowPool {
public:
    RowPool(const PoolShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          machine_(machine),
          pieces_(shape, machine),
          bands_(bands_of(shape, point["rows"])),
          group_(size(point["bands"])),
          unroll_(size(point["unroll"])),
          shares_(shares_of(machine, bands_, point)) {}

    KernelDefinition run() {
        out_(x, y, c) = undef<BFloat>();
        for (int64_t first = 0; first < pieces_.count;) {
            const int64_t count = pieces_.alike(first);
            alike_.emplace_back(pieces_, first, count);
            define(alike_.back());
            first += count;
        }
        schedule();
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.arguments = {image_};
        kernel.inputs = {{"X", {shape_.x.size, bands_.height, bands_.count}}};
        kernel.outputs = {{"Y", {shape_.x.results, bands_.rows, bands_.count}}};
        if (shares_ != Shares::Rows) {
            const int64_t parts = shares_ == Shares::Parts ? machine_.pad.count : 1;
            for (const Alike &f : alike_) {
                kernel.lay_out(f.raw, {0, bands_.height / parts});
                kernel.lay_out(f.results, {0, bands_.rows / parts});
            }
        }
        return kernel;
    }

private:
    // Pieces of as many columns, one after the other.
    struct Alike {
        int64_t first, columns, count;
        Func raw{"raw"}, column{"column"}, weights{"weights"}, part{"part"}, results{"results"};
        RDom x;  // of the results
        Alike(const Pieces &pieces, int64_t first_piece, int64_t pieces_alike)
            : first(first_piece), columns(pieces.columns_of(first_piece)), count(pieces_alike) {
            x = RDom(0, size(std::min(count * pieces.results, pieces.all - first * pieces.results)), "x");
        }
    };

    void define(const Alike &f) {
        Func raw = f.raw, column = f.column, weights = f.weights, part = f.part, results = f.results;
        const int columns = size(f.columns), down = size(shape_.y.stride), rows = size(shape_.y.kernel);
        const Expr start = (t + size(f.first)) * size(pieces_.step);
        if (columns == lanes) {
            raw(k, y, t, c) = image_(start + k, y, c);
        } else {
            // What no window sees meets a weight of zero, but must be a number.
            raw(k, y, t, c) = bf16(0.0f);
            raw(k, y, t, c) = select(k < columns, image_(start + min(k, columns - 1), y, c), undef<BFloat>());
        }
        column(k, y, t, c) = raw(k, y * down, t, c);
        if (rows > 1) column(k, y, t, c) = strict_float(column(k, y, t, c) + raw(k, y * down + below_.x, t, c));
        const double elements = shape_.divisor != 0 ? shape_.divisor : static_cast<double>(shape_.x.kernel * shape_.y.kernel);
        const Expr place = k - w * size(shape_.x.stride) - s;
        if (f.first == 0)
            table_(k, w, s) =
                select(place >= 0 && place < size(shape_.x.kernel), bf16(static_cast<float>(1 / elements)), bf16(0.0f));
        weights(k, w, t) = table_(k, w, t * size(pieces_.shift));
        part(l, y, t, c) = 0.0f;
        part(l, y, t, c) += f32(column(q, y, t, c)) * f32(weights(q, l, t));
        results(l, y, t, c) = bf16(part(l, y, t, c));
        out_(f.x + size(f.first * pieces_.results), y, c) =
            results(f.x % size(pieces_.results), y, f.x / size(pieces_.results), c);
    }

    void schedule() {
        const int columns = size(shape_.x.results), bands = size(bands_.count), rows = size(bands_.rows);
        out_.bound(x, 0, columns).bound(y, 0, rows).bound(c, 0, bands);
        whole_loops(out_);
        fix_shape(out_.output_buffer(), {columns, rows, bands});
        table_.compute_root()
            .vectorize(k, lanes)
            .bound(k, 0, lanes)
            .bound(w, 0, lanes)
            .bound(s, 0, size(pieces_.weights()))
            .split(w, w, Var("w_unroll"), size(machine_.pad.count));
        in_pads({table_});
        for (size_t i = 0; i < alike_.size(); i++) schedule(alike_[i], out_.update(size(static_cast<int64_t>(i))));
    }
    void schedule(const Alike &f, Stage stage) {
        const RVar pl("pl"), pt("pt");
        const Var ci("ci"), co("co"), yu("y_unroll"), pu("pad_unroll");
        Func raw = f.raw, column = f.column, weights = f.weights, part = f.part, results = f.results;
        const int rows = size(bands_.rows);
        stage.split(RVar(f.x.x), pt, pl, size(pieces_.results), TailStrategy::GuardWithIf)
            .split(c, co, ci, group_)
            .reorder(pl, y, ci, co, pt);
        const LoopLevel at(out_, co);
        raw.compute_at(at)
            .vectorize(k, lanes)
            .bound_extent(k, lanes)
            .bound_extent(y, size(bands_.height))
            .bound_extent(c, group_);
        results.compute_at(at).vectorize(l, lanes).bound_extent(l, lanes).bound_extent(y, rows).bound_extent(c, group_);
        if (machine_.timed() && (bands_.count > group_ || f.count > 1))
            for (Func buffer : {raw, results}) buffer.hoist_storage_root().ring_buffer(2);
        const int pads = size(machine_.pad.count);
        if (shares_ == Shares::Bands)
            results.split(y, y, yu, unroll_).split(c, c, pu, pads).reorder(l, pu, yu, y, c, t);
        else if (shares_ == Shares::Parts)
            results.split(y, pu, y, rows / pads).split(y, y, yu, unroll_ / pads).reorder(l, pu, yu, y, c, t);
        else
            results.split(y, y, yu, unroll_).reorder(l, yu, y, c, t);
        const LoopLevel one_row(results, shares_ == Shares::Rows ? yu : pu);
        weights.compute_at(out_, pt).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes).split(
            w, w, Var("w_unroll"), lanes);
        part.compute_at(one_row).vectorize(l, lanes).update().reorder(q, l).atomic().vectorize(l, lanes).vectorize(q, lanes);
        column.compute_at(one_row).vectorize(k, lanes).bound_extent(k, lanes);
        if (shape_.y.kernel > 1) column.update().vectorize(k, lanes).unroll(below_.x);
        in_registers({weights, part, column});
        in_pads({raw, results});
    }

    const PoolShape &shape_;
    const Machine &machine_;
    const Pieces pieces_;
    const Bands bands_;
    const int group_, unroll_;  // bands in the pads, rows of a band in straight-line code
    const Shares shares_;
    Var k{"k"}, w{"w"}, l{"l"}, s{"s"}, t{"t"}, x{"x"}, y{"y"}, c{"c"};
    RDom q{0, lanes, "q"};
    ImageParam image_ = tensor("X", {shape_.x.size, bands_.height, bands_.count});
    Func table_{"table"}, out_{"Y"};
    RDom below_{1, size(std::max<int64_t>(shape_.y.kernel - 1, 1)), "below"};
    std::vector<Alike> alike_;
};

std::vector<int64_t> rows_of(const PoolShape &shape) {
    constexpr int64_t most_rows = 256;
    return continuous(shape) ? divisors(shape.images * shape.channels * shape.y.results, most_rows)
                             : std::vector<int64_t>{shape.y.results};
}

std::vector<int64_t> unrolls_of(const PoolShape &shape) {
    constexpr int64_t most_unrolled = 56;
    return divisors(continuous(shape) ? shape.images * shape.channels * shape.y.results : shape.y.results, most_unrolled);
}

bool fits(const PoolShape &shape, const Machine &machine, const Point &point) {
    const Pieces pieces(shape, machine);
    const Bands bands = bands_of(shape, point["rows"]);
    const int64_t slots = machine.timed() && (bands.count > point["bands"] || pieces.count > 1) ? 2 : 1;
    std::vector<PadUse> uses = {{lanes * pieces.weights(), false}};
    for (int64_t first = 0; first < pieces.count; first += pieces.alike(first))
        uses.insert(uses.end(), {{slots * point["bands"] * bands.height, false}, {slots * point["bands"] * bands.rows, false}});
    return fit_pads(machine, uses);
}

Space space_of(const PoolShape &shape, const Machine &machine) {
    constexpr int64_t most_bands = 16;
    Space space;
    space.parameter("rows", "of results in a band", rows_of(shape))
        .parameter("bands", "in the pads at a time",
                   continuous(shape) ? std::vector<int64_t>{1} : divisors(shape.images * shape.channels, most_bands))
        .parameter("unroll", "rows of a band in straight-line code", unrolls_of(shape));
    space.constraint("whole bands", {"rows", "bands"}, "Bands in the pads divide all bands.",
                     [=](const Point &point) { return bands_of(shape, point["rows"]).count % point["bands"] == 0; });
    space.constraint("whole unrolls", {"rows", "unroll"}, "The rows in straight-line code divide those of a band.",
                     [](const Point &point) { return point["rows"] % point["unroll"] == 0; });
    space.constraint("pads", {"rows", "bands"}, "Bands of the image and their results fit the pads.",
                     [=](const Point &point) { return fits(shape, machine, point); });
    return space;
}

Point naive_point_of(const PoolShape &shape, const Machine &) {
    return {{"rows", rows_of(shape).front()}, {"bands", 1}, {"unroll", 1}};
}

bool takes(const PoolShape &shape, const Machine &machine) {
    // Fewer rows in straight-line code would wait for the array, one after the other.
    constexpr int64_t least_unrolled = 4;
    return shape.planes_outermost && shape.kind == Pooling::Average && !shape.x.adaptive && !shape.y.adaptive &&
           !reaches_out(shape.x) && !reaches_out(shape.y) && shape.y.kernel <= most_unrolled_taps &&
           unrolls_of(shape).back() >= least_unrolled && Pieces(shape, machine).count > 0 &&
           fits(shape, machine, naive_point_of(shape, machine));
}

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Rows follow each other at the pace of the lanes or of the latency of the array, which those in straight-line code share.
    // Transfers, which lose some of the bus, run beside half of that, and the first and the last have it for themselves.
    constexpr double latency = 60, start = 1000, around = 150, lost = 1.15, beside = 0.5;
    const Pieces pieces(shape, machine);
    const Bands bands = bands_of(shape, point["rows"]);
    const double visits = static_cast<double>(bands.count * pieces.count) / static_cast<double>(point["bands"]),
                 each = static_cast<double>(point["bands"] * bands.rows);
    const double additions = static_cast<double>(std::max<int64_t>(shape.y.kernel - 1, 1) * machine.vec.ii);
    const double compute = each * std::max(additions, latency / static_cast<double>(point["unroll"]));
    const double transfers = lost * each * pieces.beats_of_a_row(shape) / static_cast<double>(pieces.count);
    const double visit = around + std::max(compute, transfers) + beside * std::min(compute, transfers);
    return start + visits * visit + transfers;
}

}  // namespace

double beats_along_rows(const PoolShape &shape, const Machine &machine) {
    if (!takes(shape, machine)) return std::numeric_limits<double>::infinity();
    return static_cast<double>(shape.images * shape.channels * shape.y.results) * Pieces(shape, machine).beats_of_a_row(shape);
}

const PoolForm row_pool = {
    takes, space_of, naive_point_of, draft_of,
    [](const PoolShape &shape, const Machine &machine, const Point &point) { return RowPool(shape, machine, point).run(); }};

}  // namespace atalla
