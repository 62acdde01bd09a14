#include "generators/packed_row_sums.h"

#include <algorithm>
#include <numeric>

#include "generators/pad_room.h"
#include "generators/vocabulary.h"
#include "generators/weighed_rows.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Rows after which one begins in the same lane again.
int64_t period_of(const ReduceShape &shape) { return lanes / std::gcd(shape.length, int64_t{lanes}); }

// Rows of a tile that make it whole vectors, and how few visits of the array all tiles take: the last one begins earlier.
int64_t rows_of_tile(const ReduceShape &shape) {
    constexpr int64_t gap = 33;
    const int64_t period = period_of(shape);
    const auto cycles = [&](int64_t rows) { return ceil_div(shape.kept, rows) * (rows + gap); };
    int64_t best = 0;
    for (int64_t rows = period; rows <= std::min<int64_t>(lanes, shape.kept); rows += period)
        if (best == 0 || cycles(rows) < cycles(best)) best = rows;
    return best;
}

// Tiles, and where they lie in the pads.
struct Tiles {
    int64_t rows, count, vectors, distance;  // a tile's rows, all tiles; a tile's vectors, and those from one to the next
    Tiles(const ReduceShape &shape, const Machine &machine, const Point &point)
        : rows(rows_of_tile(shape)), count(ceil_div(shape.kept, rows)), vectors(rows * shape.length / lanes) {
        const int64_t pads = machine.pad.count;
        const bool go_on = point["row_unroll"] * vectors % pads == 0 && vectors <= pads * machine.sdma.max_rows;
        distance = go_on ? vectors : round_up(vectors + 1, pads);
    }
};

// Vectors that each row has all lanes of, beside what fills two more.
constexpr int inside_of_step = 4;
int64_t inner_vectors(const ReduceShape &shape) { return std::max<int64_t>(0, shape.vectors() - 2); }

// Visits of the array for a tile.
int64_t visits_of(const ReduceShape &shape) { return 1 + ceil_div(inner_vectors(shape), int64_t{2}); }

class PackedRowSums {
public:
    PackedRowSums(const ReduceShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          tiles_(shape, machine, point),
          length_(size(shape.length)),
          rows_(size(tiles_.rows)),
          inner_(size(inner_vectors(shape))),
          row_unroll_(size(point["row_unroll"])),
          vector_unroll_(size(point["vector_unroll"])),
          image_(tensor("X", {shape.kept * shape.length})),
          members_(0, rows_, "members") {}

    KernelDefinition run() {
        const int tiles = size(tiles_.count), kept = size(shape_.kept), vectors = size(tiles_.vectors);
        xs_(k, v, t) = image_(first_row(t) * length_ + v * size(lanes) + k);
        Func total("sum"), result("result"), out("Y");
        // Vectors inside that all rows have are added in pairs. A loop takes two pairs a step, which go round the pads.
        const int steps = inner_ / inside_of_step, left = inner_ % inside_of_step;
        const RDom all_steps(0, std::max(1, steps), "steps_alike");
        std::vector<WeighedRows> visits = {visit("ends", of_ends())};
        for (int number = inner_ - left; number < inner_; number += 2)
            visits.push_back(visit("left_" + std::to_string(number), number + 1 < inner_ ? pair(number) : inside(number)));
        Expr sum = visits[0].sums(l, t, 0);
        for (size_t i = 1; i < visits.size(); i++) sum = strict_float(sum + visits[i].sums(l, t, 0));
        total(l, t) = sum;
        if (steps > 0) {
            sum = total(l, t);
            for (int number = 0; number < inside_of_step; number += 2) {
                visits.push_back(visit("pair_" + std::to_string(number), pair(inside_of_step * c + number)));
                sum = strict_float(sum + visits.back().sums(l, t, all_steps));
            }
            total(l, t) = sum;
        }
        result(l, t) = shape_.divisor == 1 ? Expr(total(l, t)) : times_whole_share(total(l, t), shape_.divisor);
        // What the last tile makes again is left out.
        const int rest = kept - (tiles - 1) * rows_, whole = rest == rows_ ? tiles : std::max(0, tiles - 2);
        const Var i("i");
        out(i) = undef<BFloat>();
        std::vector<RDom> parts;
        const auto add_part = [&](int first, int tile, int lanes_of_tile, int count) {
            const RDom part(0, lanes_of_tile, 0, count, "results_" + std::to_string(parts.size()));
            out(first + part.y * rows_ + part.x) = result(part.x, tile + part.y);
            parts.push_back(part);
        };
        if (whole > 0) add_part(0, 0, rows_, whole);
        if (whole < tiles) {
            if (tiles > 1) add_part(whole * rows_, whole, rest, 1);
            add_part(kept - rows_, tiles - 1, rows_, 1);
        }

        result.compute_root().bound(l, 0, size(lanes)).vectorize(l).bound(t, 0, tiles);
        in_pads({result, xs_});
        xs_.compute_root().bound(k, 0, size(lanes)).bound(v, 0, vectors).bound(t, 0, tiles);
        if (tiles_.distance != tiles_.vectors) xs_.bound_storage(v, size(tiles_.distance));
        Var tile = t;
        if (row_unroll_ > 1) {
            tile = Var("tile");
            result.split(t, tile, t, row_unroll_);
        }
        total.compute_at(result, tile).vectorize(l).bound_extent(l, size(lanes)).bound_extent(t, row_unroll_);
        in_registers({total});
        const LoopLevel of_visit(total, t);
        for (WeighedRows &one : visits) one.schedule(of_visit, k, w, l, members_, rows_);
        if (steps > 0) {
            const RVar step("step"), unrolled("r_unroll");
            total.update().reorder(l, t, all_steps).vectorize(l);
            if (vector_unroll_ > 1)
                total.update().split(all_steps, step, unrolled, vector_unroll_).reorder(l, t, unrolled, step);
        }
        whole_loops(out);
        fix_shape(out.output_buffer(), {shape_.kept});
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out);
        kernel.add_input("X", image_);
        kernel.outputs = {{"Y", {shape_.results()}}};
        return kernel;
    }

private:
    Expr first_row(const Expr &tile) const { return min(tile * rows_, size(shape_.kept) - rows_); }
    Expr vector(const Expr &at) const { return xs_(k, clamp(at, 0, size(tiles_.vectors) - 1), t); }

    // Of row `members_` of a tile: a vector that it has all lanes of, or the sum of two.
    Expr inside(const Expr &number) const { return vector((members_ * length_ + size(lanes) - 1) / size(lanes) + number); }
    Expr pair(const Expr &number) const { return strict_float(inside(number) + inside(number + 1)); }

    // What has the elements at its ends, and that of its vectors inside which few rows have: they leave no more than fill two
    // vectors, of which one has the others' lanes.
    Expr of_ends() const {
        const int n = size(lanes);
        const Expr begin = members_ * length_, end = begin + length_, first = begin / n, last = (end - 1) / n, lane = begin % n,
                   rest = end - last * n, zero = bf16(0.0f), tail = select(k < rest, vector(last), zero);
        if (length_ < n) {
            const Expr behind = lane + length_;  // of the first vector
            return select(k < lane, select(k < behind - n, vector(last), zero), select(k < behind, vector(first), zero));
        }
        const Expr more = end / n - (begin + n - 1) / n - inner_;
        const Expr both = select(k >= lane, strict_float(tail + vector(first)), tail),
                   beside = select(lane > 0, select(k >= lane, vector(first), select(rest < n, tail, zero)), tail);
        return select(more == 0, both, strict_float(inside(inner_) + beside));
    }

    WeighedRows visit(const std::string &name, const Expr &element) {
        WeighedRows made(name + "_weights", name + "_part", name, name + "_q");
        made.define(k, w, l, {t, c}, members_, element);
        return made;
    }

    const ReduceShape &shape_;
    const Tiles tiles_;
    int length_, rows_, inner_, row_unroll_, vector_unroll_;
    Var k{"k"}, v{"v"}, w{"w"}, t{"t"}, c{"c"}, l{"l"};
    ImageParam image_;
    RDom members_;
    Func xs_{"X_rows"};
};

bool fits(const ReduceShape &shape, const Machine &machine, const Point &point) {
    const Tiles tiles(shape, machine, point);
    return fit_pads(machine,
                    {{tiles.count * tiles.distance, true}, {tiles.count, point["row_unroll"] % machine.pad.count == 0}});
}

}  // namespace

bool rows_are_packed(const ReduceShape &shape) {
    constexpr int64_t least_rows = 16, most_visits = 5, few_masks = 16, least_tiles = 2, least_tiles_of_many_masks = 4;
    if (!shape.along_lanes || (shape.kind != Reduction::Sum && shape.kind != Reduction::Mean) || shape.other != 1 ||
        shape.length % lanes == 0 || shape.length == 1 || visits_of(shape) > most_visits)
        return false;
    // Where each row of a tile begins in a lane of its own, their masks take long to make: longer than short rows do otherwise.
    const bool many_masks = period_of(shape) > few_masks;
    const int64_t rows = rows_of_tile(shape);
    return (!many_masks || shape.length > lanes) && rows >= least_rows &&
           ceil_div(shape.kept, rows) >= (many_masks ? least_tiles_of_many_masks : least_tiles);
}

// A pair, and the visits' sums.
int64_t packed_row_additions(const ReduceShape &shape) { return visits_of(shape); }

bool sums_packed_rows(const ReduceShape &shape, const Machine &machine) {
    return machine.timed() && rows_are_packed(shape) && fits(shape, machine, {{"row_unroll", 1}});
}

Space packed_row_sums_space(const ReduceShape &shape, const Machine &machine) {
    constexpr int64_t most_visits = 8;
    const int64_t inner = inner_vectors(shape), steps = inner / inside_of_step,
                  count = ceil_div(shape.kept, rows_of_tile(shape));
    std::vector<int64_t> row_unrolls, vector_unrolls;
    for (const int64_t unroll : {1, 2, 4})
        if (count % unroll == 0) row_unrolls.push_back(unroll);
    for (int64_t unroll = 1; unroll <= std::clamp<int64_t>(steps, 1, most_visits / 2); unroll++)
        if (std::max<int64_t>(1, steps) % unroll == 0) vector_unrolls.push_back(unroll);
    Space space;
    space.parameter("row_unroll", "tiles of rows in straight-line code", row_unrolls)
        .parameter("vector_unroll", "steps of four vectors inside rows in straight-line code", vector_unrolls);
    space.constraint(
        "code", {"row_unroll", "vector_unroll"}, "Straight-line code fits the instruction cache.", [=](const Point &point) {
            const int64_t visits =
                1 + ceil_div<int64_t, int64_t>(inner % inside_of_step, 2) + (steps > 0 ? 2 * point["vector_unroll"] : 0);
            return point["row_unroll"] * visits <= most_visits;
        });
    space.constraint("pads", {"row_unroll"}, "All rows fit the pads.",
                     [=](const Point &point) { return fits(shape, machine, point); });
    return space;
}

double packed_row_sums_draft(const ReduceShape &shape, const Machine &machine, const Point &point) {
    const Tiles tiles(shape, machine, point);
    const auto visits = static_cast<double>(visits_of(shape));
    return 1200 + static_cast<double>(tiles.count) * visits * (static_cast<double>(tiles.rows) + 40);
}

KernelDefinition packed_row_sums_kernel(const ReduceShape &shape, const Machine &machine, const Point &point) {
    return PackedRowSums(shape, machine, point).run();
}

}  // namespace atalla
