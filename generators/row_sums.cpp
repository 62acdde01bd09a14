#include "generators/row_sums.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "generators/long_sums.h"
#include "generators/pad_room.h"
#include "generators/vocabulary.h"
#include "generators/weighed_rows.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

int64_t ring_slots(const ReduceShape &shape, const Machine &machine, int64_t rows) {
    return machine.timed() && (shape.kept > rows || shape.outer > 1) ? 2 : 1;
}

// The rows of a tile go round the pads where straight-line code knows the vectors of a row. Tiles begin in the first pad,
// unless all of them are straight-line code and those of each plane end in the last one.
int64_t rows_aligned_to(const ReduceShape &shape, const Machine &machine, const Point &point) {
    const int64_t pads = machine.pad.count, unroll = point["vector_unroll"], vectors = shape.vectors();
    const bool known = unroll == vectors || unroll % pads == 0 || shape.length % lanes != 0 || shape.vectors_added_first(),
               straight = point["row_unroll"] == tiles_of(point["rows"]) && point["rows"] * vectors % pads == 0;
    return machine.timed() && known && !straight ? pads : 1;
}

int largest_divisor(int number, int most) {
    int divisor = std::min(number, most);
    while (number % divisor != 0) divisor--;
    return divisor;
}

class RowSums {
public:
    RowSums(const ReduceShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          rows_(size(point["rows"])),
          chunk_(size(point["chunk"])),
          row_unroll_(size(point["row_unroll"])),
          vector_unroll_(size(point["vector_unroll"])),
          weight_unroll_(size(point["weight_unroll"])),
          tiles_(size(tiles_of(rows_))),
          rows_of_tile_(rows_ / tiles_),
          ring_(ring_slots(shape, machine, rows_) > 1),
          align_(size(rows_aligned_to(shape, machine, point))),
          of_squares_(shape.kind == Reduction::Var),
          image_(tensor("X", {shape.length, shape.kept, shape.other, shape.outer})),
          members_(0, rows_of_tile_, "members") {}

    KernelDefinition run() {
        Func sum("sum"), squares("squares"), mean("mean"), result("result"), out("Y");
        // A run's first iteration needs no code of its own.
        const auto in_a_row = [&](const Func &f) {
            return summing_funcs(
                f, {l, t, o, j}, shape_.in_a_row(), [this](size_t) { return term(); }, "steps_alike");
        };
        const auto divided = [&](const Func &f, double by) {
            const Expr all = f(l, t, o, j);
            if (by == 1) return all;
            if (!shape_.vectors_added_first()) return strict_float(all * bf16(static_cast<float>(1 / by)));
            return times_whole_share(all, by);
        };
        std::vector<std::vector<SummingFunc>> sums = {in_a_row(sum)};
        if (of_squares_) {
            mean(l, t, o, j) = divided(sum, static_cast<double>(shape_.count()));
            // In all lanes of a vector for each row of a tile.
            mean_of_row_(k, w, t, o, j) = mean(w, t, o, j);
            sums.push_back(in_a_row(squares));
        }
        result(l, t, o, j) = divided(of_squares_ ? squares : sum, shape_.divisor);
        const RDom all_results(0, rows_of_tile_, 0, tiles_, 0, size(ceil_div(shape_.kept, rows_)), 0, size(shape_.outer),
                               "results");
        const Var i("i");
        out(i, j) = undef<BFloat>();
        out(first_row(all_results[2]) + all_results[1] * rows_of_tile_ + all_results[0], all_results[3]) =
            result(all_results[0], all_results[1], all_results[2], all_results[3]);

        const LoopLevel block(out, RVar(all_results[2]));
        result.compute_at(block).bound_extent(l, size(lanes)).vectorize(l).bound_extent(t, tiles_);
        if (ring_) result.hoist_storage_root().ring_buffer(2);
        in_pads({result});
        // Tiles in straight-line code take the vectors of their rows in turn.
        Var tiles = t;
        if (row_unroll_ > 1) {
            tiles = Var("tiles");
            result.split(t, tiles, t, row_unroll_);
        }
        const LoopLevel of_tile(result, tiles);
        for (const std::vector<SummingFunc> &all : sums) schedule_sums(all, of_tile, block);
        if (of_squares_) {
            mean.compute_at(of_tile).bound_extent(l, size(lanes)).vectorize(l).bound_extent(t, row_unroll_);
            mean_of_row_.compute_at(of_tile)
                .bound_extent(k, size(lanes))
                .vectorize(k)
                .bound_extent(w, rows_of_tile_)
                .split(w, w, Var("w_unroll"), rows_of_tile_)
                .bound_extent(t, row_unroll_);
            in_pads({mean, mean_of_row_});
        }
        whole_loops(out);
        fix_shape(out.output_buffer(), {shape_.kept, shape_.outer});
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out);
        kernel.add_input("X", image_);
        kernel.outputs = {{"Y", {shape_.results()}}};
        return kernel;
    }

private:
    // What a run of a sum adds.
    struct Terms {
        Func rows;
        WeighedRows weighed;
    };

    // The last block of results begins earlier.
    Expr first_row(const Expr &block) const { return min(block * rows_, size(shape_.kept) - rows_); }

    // Zeros behind the last element of a row.
    Func rows_of_tensor(const std::string &name) {
        Func rows(name);
        const int length = size(shape_.length);
        const Expr at = b * size(lanes) + k, row = first_row(o) + t * rows_of_tile_ + w;
        if (length % lanes == 0) {
            rows(k, w, t, b, r, o, j) = image_(at, row, r, j);
        } else {
            rows(k, w, t, b, r, o, j) = bf16(0.0f);
            rows(k, w, t, b, r, o, j) = select(at < length, image_(min(at, length - 1), row, r, j), undef<BFloat>());
        }
        return rows;
    }

    // Of the next run. The second half of all are those of squares.
    SumTerm term() {
        const size_t run = terms_.size();
        const auto named = [&](const char *name) { return fmt::format("{}_{}", name, run); };
        Terms made{run > 0 && chunk_ == 0 ? terms_[0].rows : rows_of_tensor(named("X_rows")),
                   {named("weights"), named("part"), named("block"), named("q")}};
        Expr element = made.rows(k, members_.x, t, b, r, o, j);
        if (run >= static_cast<size_t>(shape_.in_a_row().runs())) {
            const Expr centred = strict_float(element - mean_of_row_(k, members_.x, t, o, j)),
                       squared = strict_float(centred * centred);
            const bool ends = shape_.length % lanes != 0;
            element = ends ? select(b * size(lanes) + k < size(shape_.length), squared, bf16(0.0f)) : squared;
        }
        if (shape_.vectors_added_first())
            for (int vector = 1; vector < size(shape_.vectors()); vector++)
                element = strict_float(element + made.rows(k, members_.x, t, b + vector, r, o, j));
        made.weighed.define(k, w, l, {t, b, r, o, j}, members_.x, element);
        terms_.push_back(made);
        return [this, sums = made.weighed.sums](const Expr &step, const Expr &plane) { return sums(l, t, step, plane, o, j); };
    }

    void schedule_sums(const std::vector<SummingFunc> &all, const LoopLevel &of_first, const LoopLevel &block) {
        for (const SummingFunc &one : all) {
            Func f = one.sum;
            f.compute_at(one.place(all, of_first)).vectorize(l).bound_extent(l, size(lanes)).bound_extent(t, row_unroll_);
            in_registers({f});
            if (one.of.in_groups()) {
                f.update().reorder(l, t, one.terms.x).vectorize(l);
                if (one.of.rest) f.update(1).reorder(l, t).vectorize(l);
                continue;
            }
            const RVar chunks("chunks"), inside("inside"), step("step"), unrolled("r_unroll");
            const int steps = size(one.of.steps), chunk = chunk_ != 0 ? std::gcd(chunk_, steps) : steps,
                      unroll = std::gcd(vector_unroll_, chunk);
            std::vector<VarOrRVar> order = {l, t, inside, chunks};
            if (one.terms.dimensions() > 1) order.emplace_back(one.terms.y);
            f.update().split(one.terms.x, chunks, inside, chunk).reorder(order).vectorize(l);
            if (unroll > 1) f.update().split(inside, step, unrolled, unroll).reorder(l, t, unrolled, step, chunks);
            Terms &terms = terms_[scheduled_++];
            terms.weighed.schedule(LoopLevel(f, t), k, w, l, members_.x, largest_divisor(rows_of_tile_, weight_unroll_));
            if (chunk_ != 0)
                hold(terms.rows, LoopLevel(f, chunks), chunk);
            else if (scheduled_ == 1)
                hold(terms.rows, block, size(shape_.vectors()));
        }
    }

    // Rows of whole vectors as they are in memory. A transfer of others has a vector of many rows.
    void hold(Func rows, const LoopLevel &at, int vectors) {
        rows.compute_at(at).bound_extent(k, size(lanes)).bound_extent(w, rows_of_tile_).bound_extent(b, vectors);
        if (shape_.length % lanes == 0)
            rows.reorder_storage(k, b, w, t, r, o, j);
        else
            rows.vectorize(k);
        if (align_ > 1) rows.align_storage(w, align_);
        if (ring_ && chunk_ == 0) rows.hoist_storage_root().ring_buffer(2);
        in_pads({rows});
    }

    const ReduceShape &shape_;
    int rows_, chunk_, row_unroll_, vector_unroll_, weight_unroll_, tiles_, rows_of_tile_;
    bool ring_;
    int align_;
    bool of_squares_;
    Var k{"k"}, w{"w"}, t{"t"}, b{"b"}, r{"r"}, o{"o"}, j{"j"}, l{"l"};
    ImageParam image_;
    RDom members_;
    std::vector<Terms> terms_;
    size_t scheduled_ = 0;
    Func mean_of_row_{"mean_of_row"};
};

}  // namespace

Space row_sums_space(const ReduceShape &shape, const Machine &machine) {
    constexpr int64_t most_tiles = 16, most_unrolled_tiles = 4, most_straight_tiles = 8;
    const int64_t vectors = shape.vectors(), kept = shape.kept;
    const LongSum whole = shape.in_a_row();
    const int64_t terms = whole.run().steps;
    const bool squares = shape.kind == Reduction::Var;
    // Loops go on by the tiles and the weights that are straight-line code.
    const auto fits = [=, runs = static_cast<size_t>(whole.runs() * (squares ? 2 : 1))](
                          int64_t block, int64_t chunk, int64_t straight, int64_t weights, int64_t align) {
        const int64_t tiles = tiles_of(block), slots = ring_slots(shape, machine, block), pads = machine.pad.count,
                      members = round_up(block / tiles, align),
                      step = largest_divisor(static_cast<int>(block / tiles), static_cast<int>(weights));
        const bool round = straight * members % pads == 0 && (step == block / tiles || step % pads == 0);
        std::vector<PadUse> uses(chunk != 0 ? runs : 1,
                                 {(chunk != 0 ? chunk : slots * vectors * shape.other) * tiles * members, round});
        uses.push_back({slots * tiles, tiles % pads == 0});
        if (squares) uses.insert(uses.end(), {{1, false}, {members, false}});
        return fit_pads(machine, uses);
    };
    // Tiles that divide the results as evenly as they can, or one of what small pads hold of it.
    const int64_t all = tiles_of(kept);
    int64_t even = ceil_div(kept, all);
    const int64_t least_chunk = shape.vectors_added_first() ? 0 : 1;
    while (even > 1 && !fits(even, least_chunk, 1, lanes, 1)) even = ceil_div<int64_t, int64_t>(even, 2);
    std::vector<int64_t> rows = {even}, chunks = {0}, row_unrolls, vector_unrolls;
    if (even == ceil_div(kept, all)) {
        for (int64_t tiles = 2; tiles <= most_tiles && tiles * even <= kept; tiles *= 2) rows.push_back(tiles * even);
        if (kept == all * even && (all <= most_tiles || shape.vectors_added_first()) && kept > rows.back())
            rows.push_back(kept);
    }
    for (int64_t unroll = 1; unroll <= (squares ? 1 : std::min(most_unrolled_tiles, tiles_of(rows.back()))); unroll *= 2)
        row_unrolls.push_back(unroll);
    for (int64_t unroll = 1; unroll <= std::min(terms, most_straight_tiles); unroll++)
        if (terms % unroll == 0) vector_unrolls.push_back(unroll);
    for (int64_t part = std::min<int64_t>(terms, most_straight_tiles); part >= 1; part--)
        if (terms % part == 0) {
            chunks.push_back(part);
            break;
        }
    if (chunks.back() != 1) chunks.push_back(1);
    if (shape.vectors_added_first()) chunks = {0};
    Space space;
    space.parameter("rows", "results in the pads at a time", rows)
        .parameter("chunk", "vectors along a result in the pads at a time, 0: all", chunks)
        .parameter("row_unroll", "tiles of results in straight-line code", row_unrolls)
        .parameter("vector_unroll", "vectors along a result in straight-line code", vector_unrolls)
        .parameter("grouped", "vectors of rows are weights of the array, which one row of ones sums", {1})
        .parameter("weight_unroll", "weights in straight-line code", {8, 32});
    space.constraint("whole unrolls", {"rows", "row_unroll"}, "The tiles in straight-line code divide those in the pads.",
                     [](const Point &point) { return tiles_of(point["rows"]) % point["row_unroll"] == 0; });
    space.constraint("chunks", {"chunk", "rows", "row_unroll", "vector_unroll"},
                     "Unrolling divides a chunk; parts of results come for one tile at a time.", [](const Point &point) {
                         return point["chunk"] == 0 || (point["chunk"] % point["vector_unroll"] == 0 &&
                                                        point["rows"] <= lanes && point["row_unroll"] == 1);
                     });
    space.constraint("code", {"row_unroll", "vector_unroll"}, "Straight-line code fits the instruction cache.",
                     [](const Point &point) { return point["row_unroll"] * point["vector_unroll"] <= most_straight_tiles; });
    space.constraint("pads", {"rows", "chunk", "row_unroll", "vector_unroll", "weight_unroll"},
                     "What is in the pads at a time fits.", [=](const Point &point) {
                         return fits(point["rows"], point["chunk"], point["row_unroll"], point["weight_unroll"],
                                     rows_aligned_to(shape, machine, point));
                     });
    return space;
}

namespace {

// Fitted to all schedules of sums and means of 300 to 2,048 rows of two to eight vectors on ax01: lanes add vectors faster than
// rows come, and all rows at once come beside one loop over tiles.
double added_first_draft(const ReduceShape &shape, const Point &point) {
    constexpr double start = 1500, of_row = 3, of_vector = 3, few_weights = 1.2, tiles_together = 0.7, not_at_once = 1,
                     of_block = 60, waits = 0.006;
    const auto results = static_cast<double>(shape.kept * shape.outer), rows = static_cast<double>(point["rows"]);
    double row = of_row + of_vector * static_cast<double>(shape.vectors()) +
                 tiles_together * static_cast<double>(point["row_unroll"] - 1);
    if (point["weight_unroll"] < point["rows"] / tiles_of(point["rows"])) row += few_weights;
    if (point["rows"] < shape.kept) row += not_at_once + of_block / rows + waits * rows;
    return start + results * row;
}

}  // namespace

// Fitted to all schedules of sums and variances of 16 to 96 vectors in each of 160 to 512 rows on ax01.
double row_sums_draft(const ReduceShape &shape, const Machine &machine, const Point &point) {
    if (shape.vectors_added_first()) return added_first_draft(shape, point);
    constexpr double start = 900, weight = 1, gap = 45, loop_of_weights = 55, other_pads = 220, leaves_cache = 150,
                     of_sum = 150, of_chunk = 160, of_block = 900, vectors_of_block = 16, lanes_of_weight = 2, spread = 5,
                     of_loop = 40;
    constexpr int64_t resident_tiles = 2, resident_whole_rows = 4;
    const int64_t vectors = shape.vectors(), unrolled = point["vector_unroll"],
                  members = point["rows"] / tiles_of(point["rows"]);
    const auto blocks = static_cast<double>(ceil_div(shape.kept, point["rows"]) * shape.outer);
    const double sums = blocks * static_cast<double>(tiles_of(point["rows"])),
                 tiles = sums * static_cast<double>(vectors * shape.other);
    double tile = weight * static_cast<double>(members) + gap;
    if (point["weight_unroll"] < members)
        tile += loop_of_weights;
    else if (point["row_unroll"] * unrolled > (unrolled == vectors ? resident_whole_rows : resident_tiles))
        tile += leaves_cache;
    // Vectors of a tile that do not all begin in the same pad find it in a register.
    if (shape.length % lanes == 0 && vectors % machine.pad.count != 0 && unrolled < vectors &&
        unrolled % machine.pad.count != 0)
        tile += other_pads;
    const double chunks = point["chunk"] == 0 ? 0 : tiles / static_cast<double>(point["chunk"]);
    double all = tiles * tile + sums * of_sum + chunks * of_chunk;
    if (unrolled < vectors) all += sums * static_cast<double>(shape.other) * of_loop;
    // The second pass makes its weights in lanes, of rows' means that are spread first.
    if (shape.kind == Reduction::Var)
        all += all + tiles * lanes_of_weight * static_cast<double>(members) + sums * spread * static_cast<double>(members);
    // Short rows wait less for each other's transfers.
    const double waits = of_block * std::min(1.0, static_cast<double>(vectors * shape.other) / vectors_of_block);
    return start + all + (point["chunk"] == 0 ? blocks * waits : 0);
}

KernelDefinition row_sums_kernel(const ReduceShape &shape, const Machine &machine, const Point &point) {
    return RowSums(shape, machine, point).run();
}

}  // namespace atalla
