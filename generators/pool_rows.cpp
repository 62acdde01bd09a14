// Windows over images in PyTorch's layout whose lanes lie along the rows of an image. Of means the rows of a window are added
// lane by lane, and a product with constant weights adds columns of these sums and takes them to the lanes of the results. Of
// maxima, of windows of two columns, lanes take the larger of the rows of each column, a product moves the first columns of all
// windows in front of the second ones, and another one the second ones onto the first ones, the larger of which stay.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "generators/pad_room.h"
#include "generators/pool.h"
#include "generators/pool_transfers.h"
#include "generators/vocabulary.h"
#include "generators/window_maxima.h"
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
    const bool parts = bands.rows % pads == 0 && bands.height % pads == 0 && point["unroll"] % pads == 0 &&
                       (!point.contains("moved") || point["moved"] % pads == 0);
    return point["bands"] == 1 && parts ? Shares::Parts : Shares::Rows;
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
          moved_(maxima() ? size(point["moved"]) : 1),
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
        kernel.add_input("X", image_);
        kernel.outputs = {{"Y", {shape_.x.results, bands_.rows, bands_.count}}};
        if (shares_ != Shares::Rows) {
            const int64_t parts = shares_ == Shares::Parts ? machine_.pad.count : 1;
            for (const Alike &f : alike_) {
                kernel.lay_out(f.raw, {0, bands_.height / parts});
                for (const Pass &pass : f.passes) kernel.lay_out(pass.rows, {0, bands_.rows / parts});
            }
        }
        return kernel;
    }

private:
    // A product with weights that stay for all rows in the pads, and what becomes of it.
    struct Pass {
        Func weights{"weights"}, part{"part"}, rows{"results"};
    };
    // Pieces of as many columns, one after the other.
    struct Alike {
        int64_t first, columns, count;
        Func raw{"raw"}, column{"column"};
        std::vector<Pass> passes;
        RDom x;  // of the results
        Alike(const Pieces &pieces, int64_t first_piece, int64_t pieces_alike)
            : first(first_piece), columns(pieces.columns_of(first_piece)), count(pieces_alike) {
            x = RDom(0, size(std::min(count * pieces.results, pieces.all - first * pieces.results)), "x");
        }
    };

    void define(Alike &f) {
        Func raw = f.raw, column = f.column;
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
        if (rows > 1) {
            const Expr below = raw(k, y * down + below_.x, t, c);
            column(k, y, t, c) = maxima() ? larger(below, column(k, y, t, c)) : strict_float(column(k, y, t, c) + below);
        }
        if (f.first == 0) define_table();
        Pass first;
        first.weights(k, w, t) = table_(k, w, t * size(pieces_.shift));
        first.part(l, y, t, c) = 0.0f;
        first.part(l, y, t, c) += f32(column(q, y, t, c)) * f32(first.weights(q, l, t));
        first.rows(l, y, t, c) = bf16(first.part(l, y, t, c));
        f.passes = {first};
        if (maxima()) {
            // A NaN or infinity has become NaN in all lanes of the first product, and does so again.
            Pass second;
            second.weights(k, w, t) = move_(k, w);
            second.part(l, y, t, c) = 0.0f;
            second.part(l, y, t, c) += f32(first.rows(q, y, t, c)) * f32(second.weights(q, l, t));
            second.rows(l, y, t, c) = larger_number(first.rows(l, y, t, c), bf16(second.part(l, y, t, c)));
            f.passes.push_back(second);
        }
        const Func results = f.passes.back().rows;
        out_(f.x + size(f.first * pieces_.results), y, c) =
            results(f.x % size(pieces_.results), y, f.x / size(pieces_.results), c);
    }

    // What a column counts for in a lane: its share of a mean, or itself in the lane of its window, behind the first columns of
    // all windows if it is a second one.
    void define_table() {
        const int stride = size(shape_.x.stride), kernel = size(shape_.x.kernel), windows = size(pieces_.results);
        const auto at = [](const Expr &place, int count, double value) {
            return select(place >= 0 && place < count, bf16(static_cast<float>(value)), bf16(0.0f));
        };
        if (maxima()) {
            table_(k, w, s) = at(k - (w % windows * stride + w / windows) - s, 1, 1);
            move_(k, w) = at(k - w - windows, 1, 1);
        } else {
            const double elements =
                shape_.divisor != 0 ? shape_.divisor : static_cast<double>(shape_.x.kernel * shape_.y.kernel);
            table_(k, w, s) = at(k - w * stride - s, kernel, 1 / elements);
        }
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
        if (maxima()) {
            move_.compute_root()
                .vectorize(k, lanes)
                .bound(k, 0, lanes)
                .bound(w, 0, lanes)
                .split(w, w, Var("w_unroll"), size(machine_.pad.count));
            in_pads({move_});
        }
        for (size_t i = 0; i < alike_.size(); i++) schedule(alike_[i], out_.update(size(static_cast<int64_t>(i))));
    }
    void schedule(const Alike &f, Stage stage) {
        const RVar pl("pl"), pt("pt");
        const Var ci("ci"), co("co");
        Func raw = f.raw, column = f.column, results = f.passes.back().rows;
        stage.split(RVar(f.x.x), pt, pl, size(pieces_.results), TailStrategy::GuardWithIf)
            .split(c, co, ci, group_)
            .reorder(pl, y, ci, co, pt);
        const LoopLevel at(out_, co);
        raw.compute_at(at)
            .vectorize(k, lanes)
            .bound_extent(k, lanes)
            .bound_extent(y, size(bands_.height))
            .bound_extent(c, group_);
        if (machine_.timed() && (bands_.count > group_ || f.count > 1))
            for (Func buffer : {raw, results}) buffer.hoist_storage_root().ring_buffer(2);
        // Weights of a single product stay for all rows of a piece.
        for (const Pass &pass : f.passes)
            schedule(pass, &pass == &f.passes.front() ? unroll_ : moved_, at,
                     f.passes.size() == 1 ? LoopLevel(out_, pt) : LoopLevel(pass.rows, t));
        column.compute_at(one_row(f.passes.front().rows)).vectorize(k, lanes).bound_extent(k, lanes);
        if (shape_.y.kernel > 1) column.update().vectorize(k, lanes).unroll(below_.x);
        in_registers({column});
        in_pads({raw});
    }
    LoopLevel one_row(const Func &rows) const { return LoopLevel(rows, shares_ == Shares::Rows ? yu : pu); }
    void schedule(const Pass &pass, int unroll, const LoopLevel &at, const LoopLevel &weights_at) {
        Func weights = pass.weights, part = pass.part, rows = pass.rows;
        const int pads = size(machine_.pad.count), of_band = size(bands_.rows);
        rows.compute_at(at).vectorize(l, lanes).bound_extent(l, lanes).bound_extent(y, of_band).bound_extent(c, group_);
        if (shares_ == Shares::Bands)
            rows.split(y, y, yu, unroll).split(c, c, pu, pads).reorder(l, pu, yu, y, c, t);
        else if (shares_ == Shares::Parts)
            rows.split(y, pu, y, of_band / pads).split(y, y, yu, unroll / pads).reorder(l, pu, yu, y, c, t);
        else
            rows.split(y, y, yu, unroll).reorder(l, yu, y, c, t);
        weights.compute_at(weights_at)
            .vectorize(k, lanes)
            .bound_extent(k, lanes)
            .bound_extent(w, lanes)
            .split(w, w, Var("w_unroll"), lanes);
        as_array_row(part.compute_at(one_row(rows)), l, q);
        in_registers({weights, part});
        in_pads({rows});
    }

    bool maxima() const { return shape_.kind == Pooling::Max; }

    const PoolShape &shape_;
    const Machine &machine_;
    const Pieces pieces_;
    const Bands bands_;
    const int group_, unroll_, moved_;  // bands in the pads, rows of a band in straight-line code of each product
    const Shares shares_;
    Var k{"k"}, w{"w"}, l{"l"}, s{"s"}, t{"t"}, x{"x"}, y{"y"}, c{"c"}, yu{"y_unroll"}, pu{"pad_unroll"};
    RDom q{0, lanes, "q"};
    ImageParam image_ = tensor("X", {shape_.x.size, bands_.height, bands_.count});
    Func table_{"table"}, move_{"move"}, out_{"Y"};
    RDom below_{1, size(std::max<int64_t>(shape_.y.kernel - 1, 1)), "below"};
    std::vector<Alike> alike_;
};

std::vector<int64_t> rows_of(const PoolShape &shape) {
    // Weights of each product of maxima come for every visit.
    const int64_t most_rows = shape.kind == Pooling::Max ? 1024 : 256;
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
    const bool maxima = shape.kind == Pooling::Max;
    std::vector<PadUse> uses = {{lanes * pieces.weights(), false}};
    if (maxima) uses.push_back({lanes, false});
    for (int64_t first = 0; first < pieces.count; first += pieces.alike(first)) {
        uses.insert(uses.end(), {{slots * point["bands"] * bands.height, false}, {slots * point["bands"] * bands.rows, false}});
        if (maxima) uses.push_back({point["bands"] * bands.rows, false});
    }
    return fit_pads(machine, uses);
}

Space space_of(const PoolShape &shape, const Machine &machine) {
    constexpr int64_t most_bands = 16;
    Space space;
    space.parameter("rows", "of results in a band", rows_of(shape))
        .parameter("bands", "in the pads at a time",
                   continuous(shape) ? std::vector<int64_t>{1} : divisors(shape.images * shape.channels, most_bands))
        .parameter("unroll", "rows of a band in straight-line code", unrolls_of(shape));
    if (shape.kind == Pooling::Max)
        space.parameter("moved", "the same where second columns move onto first ones", unrolls_of(shape));
    space.constraint("whole bands", {"rows", "bands"}, "Bands in the pads divide all bands.",
                     [=](const Point &point) { return bands_of(shape, point["rows"]).count % point["bands"] == 0; });
    space.constraint("whole unrolls", {"rows", "unroll"}, "The rows in straight-line code divide those of a band.",
                     [](const Point &point) { return point["rows"] % point["unroll"] == 0; });
    if (shape.kind == Pooling::Max)
        space.constraint("whole moves", {"rows", "moved"}, "The rows in straight-line code divide those of a band.",
                         [](const Point &point) { return point["rows"] % point["moved"] == 0; });
    space.constraint("pads", {"rows", "bands"}, "Bands of the image and their results fit the pads.",
                     [=](const Point &point) { return fits(shape, machine, point); });
    return space;
}

Point naive_point_of(const PoolShape &shape, const Machine &) {
    Point point = {{"rows", rows_of(shape).front()}, {"bands", 1}, {"unroll", 1}};
    if (shape.kind == Pooling::Max) point.set("moved", 1);
    return point;
}

// Columns must be in one window. More than two rows or columns of a window give lanes more to do than where planes are turned;
// rows that fit a block come several at a time there; and bands that are not cut anywhere leave few rows to straight-line code.
// Else cycles decide, as they were measured for pieces and for elements of planes that are turned.
bool serves_maxima(const PoolShape &shape, const Machine &machine) {
    constexpr double of_piece = 14, of_turned = 8.6;
    if (!machine.timed() || !continuous(shape) || shape.x.kernel != 2 || shape.x.stride < 2 || shape.y.kernel > 2 ||
        shape.x.size <= lanes)
        return false;
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const int64_t planes = shape.images * shape.channels;
    return of_piece * real(planes * shape.y.results * Pieces(shape, machine).count) <
           of_turned * real(tiles_of(planes) * shape.x.size * shape.y.size);
}

bool takes(const PoolShape &shape, const Machine &machine) {
    // Fewer rows in straight-line code would wait for the array, one after the other.
    constexpr int64_t least_unrolled = 4;
    const bool kind = shape.kind == Pooling::Average || (shape.kind == Pooling::Max && serves_maxima(shape, machine));
    return shape.planes_outermost && kind && !shape.x.adaptive && !shape.y.adaptive && !reaches_out(shape.x) &&
           !reaches_out(shape.y) && shape.y.kernel <= most_unrolled_taps && unrolls_of(shape).back() >= least_unrolled &&
           Pieces(shape, machine).count > 0 && fits(shape, machine, naive_point_of(shape, machine));
}

double draft_of_maxima(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Each product at the pace of the lanes or of the latency that rows in straight-line code share. Parts overlap iterations,
    // which takes as much code again; where the instruction cache does not hold all, all comes anew for each visit. Transfers
    // run beside the lanes.
    constexpr double start = 4000, around = 800, operations_lost = 1.15, packet = 3.5, cached = 580, other_code = 250;
    constexpr double moved_latency = 98, lost = 1.15, beside = 0.1, ends = 2;
    const Pieces pieces(shape, machine);
    const Bands bands = bands_of(shape, point["rows"]);
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const double visits = real(bands.count * pieces.count) / real(point["bands"]), each = real(point["bands"] * bands.rows),
                 operation = operations_lost * real(machine.vec.ii) / 2, first = 4 * operation * real(shape.y.kernel - 1),
                 moved = 2 * operation;
    const bool in_turn = shares_of(machine, bands, point) == Shares::Rows;
    const double first_latency = in_turn ? 85 : 40, pace = in_turn ? 1.1 : 1;
    const double compute =
        pace * each *
        (std::max(first, first_latency / real(point["unroll"])) + std::max(moved, moved_latency / real(point["moved"])));
    const double code = other_code + (in_turn ? 1 : 2) * (first * real(point["unroll"]) + moved * real(point["moved"]));
    const double fetch = code > cached ? packet * code : 0;
    const double transfers = lost * each * pieces.beats_of_a_row(shape) / real(pieces.count);
    const double visit = around + fetch + std::max(compute, transfers) + beside * std::min(compute, transfers);
    return start + visits * visit + ends * transfers;
}

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    if (shape.kind == Pooling::Max) return draft_of_maxima(shape, machine, point);
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
