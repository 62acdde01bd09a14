// Maxima of windows over planes in two steps: along the rows of an image, where the array has just turned a block of one and
// all its elements are in registers, and then along columns, where the results go back through the array.
#include <algorithm>
#include <functional>
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

// Blocks of the image, each with all elements of its windows: a part of a row, or several short rows. Those of results, which
// are turned back, are made of whole parts, or of rows.
struct RowBlocks {
    int64_t windows = 0;   // of a part along x; 0: they do not fit a block
    int64_t parts = 1;     // of a row
    int64_t rows = 1;      // of a block
    int64_t elements = 0;  // that come from memory for it
    int64_t bands = 0;     // blocks of a part
    int64_t distance = 1;  // rows from band to band
    // Parts or rows of a block of results, blocks of a row, and bands.
    int64_t back_parts = 1, back_rows = 1, back_blocks = 1, back_bands = 1;

    RowBlocks(const PoolShape &shape) : shape_(shape) {
        const PoolAxis &x = shape.x;
        const int64_t most = x.kernel <= lanes ? std::min((lanes - x.kernel) / x.stride + 1, x.results) : 0;
        if (x.size <= lanes) {
            windows = x.results <= lanes ? x.results : 0;
            // As few blocks as can be at one distance, which may share rows, and as short ones.
            for (int64_t n = std::min(lanes / x.size, shape.y.size); n >= 1; n--) {
                const int64_t blocks = ceil_div(shape.y.size, n), gaps = std::max<int64_t>(1, blocks - 1);
                if ((shape.y.size - n) % gaps != 0 || (bands > 0 && blocks > bands)) continue;
                rows = n;
                bands = blocks;
                distance = blocks > 1 ? (shape.y.size - n) / gaps : n;
            }
            elements = rows * x.size;
        } else if (most > 0) {
            parts = ceil_div(x.results, most);
            windows = ceil_div(x.results, parts);
            parts = ceil_div(x.results, windows);
            elements = std::min(span(), x.size);
            bands = shape.y.size;
        }
        if (windows == 0) return;
        if (parts == 1)
            back_rows = std::clamp<int64_t>(lanes / x.results, 1, shape.y.results);
        else
            back_parts = std::min(lanes / windows, parts);
        back_blocks = ceil_div(parts, back_parts);
        back_bands = ceil_div(shape.y.results, back_rows);
    }

    // Elements that the windows of a part see, those of the padding included.
    int64_t span() const { return (windows - 1) * shape_.x.stride + shape_.x.kernel; }
    // A part's windows begin here, which may be outside, and its elements there.
    int64_t first(int64_t part) const { return part * windows * shape_.x.stride - shape_.x.padding; }
    int64_t start(int64_t part) const { return std::clamp<int64_t>(first(part), 0, shape_.x.size - elements / rows); }
    // Outside of the image its nearest element stands in, which a window there has too: the largest is the same.
    int64_t element(int64_t part, int64_t place) const {
        return std::clamp<int64_t>(std::clamp<int64_t>(first(part) + place, 0, shape_.x.size - 1) - start(part), 0,
                                   elements / rows - 1);
    }
    bool parts_alike() const {
        for (int64_t part = 0; part < parts; part++)
            if (start(part) != first(part)) return false;
        return true;
    }
    // Results of a block.
    int64_t results() const { return back_rows * back_parts * (parts == 1 ? shape_.x.results : windows); }

private:
    const PoolShape &shape_;
};

// What is found along rows, in the pads: the results of each part begin in one pad, and so do the rows.
struct RowFrame {
    int64_t part, pitch, rows;
    RowFrame(const PoolShape &shape, const Machine &machine, const RowBlocks &blocks)
        : part(round_up(blocks.windows, machine.pad.count)),
          pitch(part * blocks.back_blocks * blocks.back_parts),
          rows(std::max(shape.y.size + shape.y.padding,
                        (blocks.back_bands * blocks.back_rows - 1) * shape.y.stride + shape.y.kernel)) {}
};

class RowMaxima {
public:
    RowMaxima(const PoolShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          machine_(machine),
          blocks_(shape),
          frame_(shape, machine, blocks_),
          bands_(size(point["bands"])),
          unroll_(size(point["unroll"])),
          results_(size(point["results"])),
          together_(size(point["planes"] / lanes)),
          planes_(size(shape.images * shape.channels)) {}

    KernelDefinition run() {
        define_picks();
        define_across();
        define_down();
        define_back();
        schedule();
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.add_input("X", image_);
        kernel.outputs = {{"Y", result_extents()}};
        // What a transfer moves follows each other in memory, and the pads' transfers are those of different planes.
        if (machine_.timed()) {
            kernel.lay_out(raw_, {0, bands_});
            kernel.lay_out(finished_, {0, results_});
        }
        return kernel;
    }

private:
    bool whole() const { return planes_ % lanes == 0; }
    int chunks() const { return size(ceil_div(blocks_.bands, int64_t{bands_})); }
    int step() const { return size(blocks_.back_parts * blocks_.windows); }  // results of a block of a row

    // picks(k, place, part): the row that takes the element of a part's place through the array.
    void define_picks() {
        identity_(k, i) = select(k == i, bf16(1.0f), bf16(0.0f));
        if (one_kind_) return;
        picks_(k, i, t) = identity_(k, i);
        for (int64_t part = 0; part < blocks_.parts; part++) {
            // Runs of places whose elements follow each other, or are one.
            for (int64_t from = 0, end = 0; from < blocks_.span(); from = end) {
                const int64_t element = blocks_.element(part, from),
                              distance = from + 1 < blocks_.span() ? blocks_.element(part, from + 1) - element : 1;
                for (end = from + 1; end < blocks_.span() && blocks_.element(part, end) == element + distance * (end - from);)
                    end++;
                if (distance == 1 && element == from) continue;
                const RDom r(0, size(end - from), "picks");
                picks_(k, size(from) + r, size(part)) = identity_(k, size(element) + size(distance) * r);
                picks_.update(picks_.num_update_definitions() - 1).vectorize(k, lanes);
            }
        }
    }

    Expr block() const { return o * together_ + b; }
    // The last bands may share some with those before.
    Expr first_band(const Expr &chunk) const {
        return size(blocks_.bands) % bands_ == 0 ? chunk * bands_ : min(chunk * bands_, size(blocks_.bands) - bands_);
    }
    Expr place(const Expr &column, const Expr &part, const Expr &row) const {
        return row * size(frame_.pitch) + part * size(frame_.part) + column;
    }

    // across(plane, place): the largest along x of each window and row.
    void define_across() {
        const int elements = size(blocks_.elements), width = size(shape_.x.size);
        Expr start = 0;
        if (!one_kind_)
            start = clamp(t * size(blocks_.windows * shape_.x.stride) - size(shape_.x.padding), 0, width - elements);
        else if (blocks_.parts > 1)
            start = t * size(blocks_.windows * shape_.x.stride);
        const Expr pixel = (first_band(c) + z) * size(blocks_.distance * shape_.x.size) + start, plane = block() * lanes + w;
        if (elements == lanes && whole()) {
            raw_(k, z, w, t, c, b, o) = image_(pixel + k, plane);
        } else {
            raw_(k, z, w, t, c, b, o) = bf16(0.0f);
            raw_(k, z, w, t, c, b, o) = select(k < elements && plane < planes_,
                                               image_(pixel + min(k, elements - 1), min(plane, planes_ - 1)), undef<BFloat>());
        }
        rows_(k, i, t) = one_kind_ ? Expr(identity_(k, i)) : Expr(picks_(k, i, t));
        weights_(k, w, z, t, c, b, o) = raw_(k, z, w, t, c, b, o);
        part_(l, i, z, t, c, b, o) = 0.0f;
        part_(l, i, z, t, c, b, o) += f32(rows_(q_, i, t)) * f32(weights_(q_, l, z, t, c, b, o));
        turned_(l, i, z, t, c, b, o) = bf16(part_(l, i, z, t, c, b, o));
        // A maximum takes the register of an element that no window beside it has.
        const int kernel = size(shape_.x.kernel), stride = size(shape_.x.stride), own = size(own_column(shape_.x)),
                  padding = size(shape_.x.padding);
        const auto element = [&](const Expr &at) -> Expr {
            return turned_(l, blocks_.parts == 1 ? y * width + clamp(at - padding, 0, width - 1) : at, z, t, c, b, o);
        };
        const auto window_element = [&](const Expr &tap) { return element(x * stride + tap); };
        if (blocks_.windows > 1 && shares_pairs(shape_.x)) {
            window_(l, x, y, z, t, c, b, o) = of_pair(shape_.x, x, window_element, larger_number);
        } else {
            window_(l, x, y, z, t, c, b, o) = window_element(own);
            if (kernel > 1) {
                beside_ = RDom(1, kernel - 1, "beside");
                window_(l, x, y, z, t, c, b, o) =
                    larger_number(window_element((beside_ + own) % kernel), window_(l, x, y, z, t, c, b, o));
            }
        }
        across_(l, p, b, o) = undef<BFloat>();
        for (const RDom &border : borders_) across_(l, border.y * size(frame_.pitch) + border.x, b, o) = bf16(lowest_number);
        const RVar rx = inside_[0], ry = inside_[1], rz = inside_[2], rt = inside_[3], rc = inside_[4];
        across_(l, place(rx, rt, (first_band(rc) + rz) * size(blocks_.distance) + ry + size(shape_.y.padding)), b, o) =
            window_(l, rx, ry, rz, rt, rc, b, o);
    }

    // Rows above and below the image, which windows see.
    std::vector<RDom> borders() const {
        const int above = size(shape_.y.padding), below = above + size(shape_.y.size), rows = size(frame_.rows),
                  pitch = size(frame_.pitch);
        std::vector<RDom> all;
        if (above > 0) all.push_back(RDom(0, pitch, 0, above, "above"));
        if (below < rows) all.push_back(RDom(0, pitch, below, rows - below, "below"));
        return all;
    }

    // result(plane, w) of the windows of a block, from the largest of their rows. The array has made NaN of all elements of a
    // block with an infinity or NaN: one of each block that a window sees, times zero, says so.
    void define_down() {
        const int stride = size(shape_.y.stride), kernel = size(shape_.y.kernel),
                  of_part = blocks_.parts == 1 ? size(shape_.x.results) : size(blocks_.windows),
                  of_block = size(blocks_.back_parts);
        const auto found = [&](const Expr &at, const Expr &part, const Expr &row, const Expr &tap) {
            return across_(l, place(at, t * of_block + part, (z * size(blocks_.back_rows) + row) * stride + tap), b, o);
        };
        const Expr part = blocks_.parts == 1 ? Expr(0) : w / of_part, row = blocks_.parts == 1 ? w / of_part : Expr(0);
        if (blocks_.back_rows > 1 && shares_pairs(shape_.y)) {
            column_(l, w, z, t, b, o) = of_pair(
                shape_.y, row, [&](const Expr &tap) { return found(w % of_part, part, row, tap); }, larger_number);
        } else {
            column_(l, w, z, t, b, o) = found(w % of_part, part, row, 0);
            if (kernel > 1) {
                below_ = RDom(1, kernel - 1, "under");
                column_(l, w, z, t, b, o) = larger_number(found(w % of_part, part, row, below_), column_(l, w, z, t, b, o));
            }
        }
        Expr product = bf16(0.0f);
        for (int tap = 0; tap < kernel; tap++)
            product = strict_float(product * (blocks_.parts == 1 ? found(0, 0, w, tap) : found(0, w, 0, tap)));
        unknown_(l, w, z, t, b, o) = product;
    }

    // finished(result, band, plane, block) from the columns, and the planes from that.
    void define_back() {
        const int of_part = blocks_.parts == 1 ? size(shape_.x.results) : size(blocks_.windows);
        back_rows_(k, i) = identity_(k, i);
        back_weights_(l, w, z, t, b, o) = strict_float(column_(l, w, z, t, b, o) + unknown_(l, w / of_part, z, t, b, o));
        back_part_(k, i, z, t, b, o) = 0.0f;
        back_part_(k, i, z, t, b, o) += f32(back_rows_(q_, i)) * f32(back_weights_(q_, k, z, t, b, o));
        finished_(k, z, i, t, b, o) = bf16(back_part_(k, i, z, t, b, o));
        const Expr plane = whole() || planes_ < lanes ? Expr(c_) : c_ % lanes, in_pads = whole() ? Expr(b) : Expr(0),
                   outer = whole()           ? Expr(o)
                           : planes_ < lanes ? Expr(0)
                                             : c_ / lanes;
        const int length = size(blocks_.back_rows * shape_.x.results);
        std::vector<Var> vars = {p, c_};
        std::vector<Expr> at = {p % length, p / length, plane, 0, in_pads, outer};
        if (blocks_.back_blocks > 1) {
            vars.insert(vars.begin() + 1, y);
            at = {p % step(), y, plane, p / step(), in_pads, outer};
        }
        if (whole()) vars.insert(vars.end(), {b, o});
        out_(vars) = finished_(at);
    }

    void schedule() {
        const Var pl("pl"), pt("pt"), pb("pb"), pc("pc"), pz("pz"), ci("ci");
        std::vector<VarOrRVar> order = {pl, pz, ci, pc, outer_};
        if (whole()) {
            out_.bound(c_, 0, lanes).bound(b, 0, together_).bound(o, 0, planes_ / lanes / together_);
            order = {pl, pz, c_, pc, b, outer_};
        } else {
            out_.bound(c_, 0, planes_).split(c_, outer_, ci, std::min(lanes, planes_), TailStrategy::GuardWithIf);
        }
        if (blocks_.back_blocks == 1) {
            out_.bound(p, 0, size(shape_.x.results * shape_.y.results))
                .split(p, pb, pl, size(blocks_.back_rows * shape_.x.results), TailStrategy::GuardWithIf)
                .split(pb, pc, pz, results_);
        } else {
            out_.bound(p, 0, size(shape_.x.results)).bound(y, 0, size(shape_.y.results));
            out_.split(p, pt, pl, step(), TailStrategy::GuardWithIf).split(y, pc, pz, results_);
            order.insert(order.begin() + 3, pt);
        }
        out_.reorder(order);
        whole_loops(out_);
        fix_shape(out_.output_buffer(), result_extents());
        const LoopLevel at(out_, outer_);
        identity_.compute_root().bound(k, 0, lanes).bound(i, 0, lanes).vectorize(k, lanes);
        in_pads({identity_});
        if (!one_kind_) {
            picks_.compute_root()
                .bound(k, 0, lanes)
                .bound(i, 0, size(blocks_.span()))
                .bound(t, 0, size(blocks_.parts))
                .vectorize(k, lanes);
            in_pads({picks_});
        }
        schedule_across(at);
        schedule_back(at, LoopLevel(out_, blocks_.back_blocks > 1 ? pt : pc));
    }

    std::vector<int64_t> result_extents() const {
        std::vector<int64_t> extents = {shape_.x.results * shape_.y.results};
        if (blocks_.back_blocks > 1) extents = {shape_.x.results, shape_.y.results};
        if (whole())
            extents.insert(extents.end(), {lanes, together_, planes_ / lanes / together_});
        else
            extents.push_back(planes_);
        return extents;
    }

    // Where transfers take time, the next one runs beside what the array does.
    void two_slots(Func f) const {
        if (machine_.timed()) f.hoist_storage_root().ring_buffer(2);
    }
    // A tile of weights and the rows through it, in straight-line code.
    void schedule_weights(Func weights, const Var &along, const LoopLevel &at) {
        weights.compute_at(at)
            .vectorize(along, lanes)
            .bound_extent(along, lanes)
            .bound_extent(w, lanes)
            .split(w, w, Var("w_unroll"), lanes);
        in_registers({weights});
    }
    void schedule_rows(Func rows, const LoopLevel &at, int64_t count) {
        rows.compute_at(at).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(i, size(count));
        in_registers({rows});
    }
    void schedule_product(Func part, const Var &lane, const LoopLevel &at) {
        as_array_row(part.compute_at(at), lane, q_);
        in_registers({part});
    }

    void schedule_across(const LoopLevel &at) {
        const RVar rx = inside_[0], ry = inside_[1], rz = inside_[2], rt = inside_[3], rc = inside_[4];
        const int turned = size(blocks_.parts == 1 ? blocks_.elements : blocks_.span());
        raw_.compute_at(across_, rt).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes).bound_extent(z, bands_);
        // What surrounds the last planes differs.
        if (whole() && (planes_ > lanes || chunks() * blocks_.parts > 1)) two_slots(raw_);
        schedule_rows(rows_, one_kind_ ? at : LoopLevel(across_, rt), turned);
        const RVar ru("z_unroll"), one = unroll_ > 1 ? ru : rz;
        schedule_weights(weights_, k, LoopLevel(across_, one));
        turned_.compute_at(across_, one).vectorize(l, lanes).bound_extent(l, lanes).bound_extent(i, turned);
        schedule_product(part_, l, LoopLevel(turned_, i));
        window_.compute_at(across_, rx).vectorize(l, lanes).bound_extent(l, lanes);
        if (beside_.defined()) window_.update().vectorize(l, lanes).unroll(beside_);
        in_registers({turned_, window_});
        across_.compute_at(at).vectorize(l, lanes).bound_extent(l, lanes).bound(p, 0, size(frame_.rows * frame_.pitch));
        for (size_t n = 0; n < borders_.size(); n++) {
            const RDom &border = borders_[n];
            const RVar unrolled("x_unroll"), bx = border.x, by = border.y;
            across_.update(static_cast<int>(n))
                .split(bx, bx, unrolled, size(machine_.pad.count))
                .reorder(l, unrolled, bx, by)
                .vectorize(l, lanes);
        }
        Stage update = across_.update(static_cast<int>(borders_.size()));
        if (unroll_ > 1)
            update.split(rz, rz, ru, unroll_).reorder(l, rx, ry, ru, rz, rt, rc);
        else
            update.reorder(l, rx, ry, rz, rt, rc);
        update.vectorize(l, lanes).unroll(rx).unroll(ry);
        in_pads({raw_, across_});
    }

    void schedule_back(const LoopLevel &planes, const LoopLevel &at) {
        finished_.compute_at(at).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(i, lanes).bound_extent(z, results_);
        const Var iu("i_unroll");
        finished_.split(i, i, iu, lanes).reorder({k, iu, i, z});
        schedule_rows(back_rows_, planes, lanes);
        const int results = size(blocks_.results());
        back_weights_.compute_at(finished_, z)
            .vectorize(l, lanes)
            .bound_extent(l, lanes)
            .bound_extent(w, results)
            .bound_storage(w, lanes)
            .split(w, w, Var("w_unroll"), results);
        column_.compute_at(finished_, z).vectorize(l, lanes).bound_extent(l, lanes).bound_extent(w, results);
        if (below_.defined()) column_.update().vectorize(l, lanes).unroll(below_);
        unknown_.compute_at(finished_, z).vectorize(l, lanes).bound_extent(l, lanes);
        in_registers({back_weights_, column_, unknown_});
        schedule_product(back_part_, k, LoopLevel(finished_, iu));
        if (planes_ > lanes || blocks_.back_bands > results_ || blocks_.back_blocks > 1) two_slots(finished_);
        in_pads({finished_});
    }

    const PoolShape &shape_;
    const Machine &machine_;
    const RowBlocks blocks_;
    const RowFrame frame_;
    const int bands_, unroll_, results_, together_, planes_;
    const bool one_kind_ =
        blocks_.parts == 1 || blocks_.parts_alike();  // all parts' elements go through the array by the same rows
    Var k{"k"}, w{"w"}, l{"l"}, i{"i"}, z{"z"}, t{"t"}, b{"b"}, o{"o"}, c{"chunk"}, x{"x"}, y{"y"}, p{"p"}, c_{"c"};
    const Var outer_ = whole() ? o : Var("co");  // the loop over all that is in the pads at a time
    RDom q_{0, lanes, "q"};
    RDom beside_, below_;
    ImageParam image_ = tensor("X", {shape_.x.size * shape_.y.size, planes_});
    Func identity_{"identity"}, picks_{"picks"}, raw_{"raw"}, rows_{"rows"}, weights_{"weights"}, part_{"part"},
        turned_{"turned"}, window_{"window"}, across_{"across"}, column_{"column"}, unknown_{"unknown"},
        back_rows_{"back_rows"}, back_weights_{"back_weights"}, back_part_{"back_part"}, finished_{"finished"}, out_{"Y"};
    const std::vector<RDom> borders_ = borders();
    // Windows and rows of a block, bands and parts that come together, and chunks of those.
    RDom inside_{0, size(blocks_.windows), 0, size(blocks_.rows), 0, bands_, 0, size(blocks_.parts), 0, chunks(), "inside"};
};

bool fits(const PoolShape &shape, const Machine &machine, const Point &point) {
    const RowBlocks blocks(shape);
    const RowFrame frame(shape, machine, blocks);
    const int64_t slots = machine.timed() ? 2 : 1;
    return fit_pads(machine, {{point["planes"] / lanes * frame.rows * frame.pitch, true},
                              {slots * point["bands"] * lanes, true},
                              {slots * point["results"] * lanes, true},
                              {lanes, false},
                              {lanes * blocks.parts, false}});
}

Space space_of(const PoolShape &shape, const Machine &machine) {
    const RowBlocks blocks(shape);
    Space space;
    space.parameter("bands", "rows of blocks that come together", come_together(blocks.bands))
        .parameter("unroll", "of those in straight-line code", {1, 2})
        .parameter("results", "rows of blocks of results that leave together", divisors(blocks.back_bands, lanes))
        .parameter("planes", "in the pads at a time", planes_together(shape));
    space.constraint("whole unrolls", {"bands", "unroll"}, "The blocks in straight-line code divide those that come together.",
                     [](const Point &point) { return point["bands"] % point["unroll"] == 0; });
    space.constraint("pads", {"bands", "results", "planes"},
                     "What is found along the rows of so many planes, blocks and results fit the pads.",
                     [=](const Point &point) { return fits(shape, machine, point); });
    return space;
}

Point naive_point_of(const PoolShape &, const Machine &) {
    return {{"bands", 1}, {"unroll", 1}, {"results", 1}, {"planes", lanes}};
}

bool takes(const PoolShape &shape, const Machine &machine) {
    // Blocks follow each other down a part, of which there must be some; a single result fills no tile of weights.
    constexpr int64_t least_rows = 4;
    const RowBlocks blocks(shape);
    return shape.planes_outermost && shape.kind == Pooling::Max && blocks.windows > 0 && blocks.results() > 1 &&
           (blocks.parts == 1 || shape.y.size >= least_rows) && shape.y.kernel <= most_unrolled_taps &&
           fits(shape, machine, naive_point_of(shape, machine));
}

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Blocks at the pace of the array or of the lanes, two units side by side, and around loops what fills and drains them.
    // Rows end inside beats. Code comes from memory anew for all planes that are in the pads at a time. The first elements come
    // and the last results leave while nothing else runs.
    constexpr double start = 2500, around_loop = 200, gap = 36, code = 3000, row_beats = 0.75, pace = 1.3, operations = 2;
    const RowBlocks blocks(shape);
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const double lane = real(machine.vec.ii) / 2, planes = real(tiles_of(shape.images * shape.channels)),
                 together = real(point["planes"] / lanes), windows = real(blocks.windows * blocks.rows),
                 results = real(blocks.results());
    const double image_block = std::max(lanes + real(blocks.parts == 1 ? blocks.elements : blocks.span()) + gap,
                                        operations * lane * windows * real(shape.x.kernel - 1));
    const double result_block = std::max(lanes + results + gap, lane * results * (operations * real(shape.y.kernel - 1) + 1));
    const double bands = real(ceil_div(blocks.bands, point["bands"]) * point["bands"]),
                 row = real(blocks.elements) / 16 + row_beats, result_row = results / 16 + row_beats;
    const double transfer = pace * lanes * real(blocks.parts) * bands * row;
    const double across =
        std::max(real(blocks.parts) * (bands * image_block + real(ceil_div(blocks.bands, point["bands"])) * around_loop),
                 machine.timed() ? transfer : 0.0);
    const double back = real(blocks.back_blocks) *
                        (real(blocks.back_bands) * result_block + real(blocks.back_bands / point["results"]) * around_loop);
    const double ends = pace * lanes * (real(point["bands"]) * row + real(point["results"]) * result_row);
    return start + ends + planes * (across + back) + planes / together * code;
}

}  // namespace

const PoolForm row_maxima = {
    takes, space_of, naive_point_of, draft_of,
    [](const PoolShape &shape, const Machine &machine, const Point &point) { return RowMaxima(shape, machine, point).run(); }};

}  // namespace atalla
