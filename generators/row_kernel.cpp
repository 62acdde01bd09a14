#include "generators/row_kernel.h"

#include <algorithm>
#include <numeric>

#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Running extrema of a row.
constexpr int most_sides = 4;

}  // namespace

RowKernel::RowKernel(const RowShape &shape, const Machine &machine, const Point &point, std::string name, std::string prefix)
    : machine_(machine),
      rows_(static_cast<int>(shape.rows)),
      length_(static_cast<int>(shape.length)),
      vectors_(static_cast<int>(shape.vectors())),
      block_(static_cast<int>(std::min(point["rows"], shape.rows))),
      row_unroll_(static_cast<int>(point["row_unroll"])),
      vector_unroll_(static_cast<int>(point["vector_unroll"])),
      reduced_(point["reduced"] != 0),
      stored_(point["stored"] != 0),
      grouped_(point["grouped"] != 0),
      skewed_(is_skewed(point)),
      apart_(rows_apart(shape, machine, point)),
      streams_(point.contains("skewed") && rows_stream(shape, machine, point)),
      columns_(!is_skewed(point) && (!is_beside(point) || numbers_spread(shape, point)) && rows_in_columns(shape, machine)),
      spare_(point.contains("skewed") ? static_cast<int>(spare_rows(shape, machine, point)) : 0),
      beside_(is_beside(point) ? static_cast<int>(rows_beside(shape, point)) : 0),
      spread_(numbers_spread(shape, point)),
      neighbours_(streams_ ? static_cast<int>(neighbours_of(shape, machine, point)) : 0),
      parts_(static_cast<int>(shape.parts())),
      part_(static_cast<int>(shape.part)),
      prefix_(std::move(prefix)),
      out_(std::move(name)) {
    ones_(k_, w_) = bf16(1.0f);
}

Expr RowKernel::row_of_tensor(const Expr &row) const {
    const int pads = static_cast<int>(machine_.pad.count), together = neighbours_;
    if (together == 0) return row;
    const int of_pad = rows_ / pads;
    return (row % of_pad / together * pads + row / of_pad) * together + row % together;
}

Expr RowKernel::row_in_pads(const Expr &row) const {
    const int pads = static_cast<int>(machine_.pad.count), together = neighbours_;
    if (together == 0) return row;
    return row / together % pads * (rows_ / pads) + row / (pads * together) * together + row % together;
}

Func RowKernel::by_element(const std::string &name, const Func &columns) const {
    Func elements(name);
    elements(n, m) = columns(n % lanes, m, n / lanes);
    return elements;
}

Func RowKernel::rows_of(const std::string &name, std::optional<float> beyond) {
    Input input{tensor(prefix_ + name, {length_, rows_}), Func(prefix_ + name + "_rows"), false, pass(), {}};
    for (const Input &before : inputs_) {
        if (before.param.name() != input.param.name()) continue;
        if (before.pass == input.pass) return before.elements;
        input.param = before.param;
        input.rows = Func(prefix_ + name + "_again_" + static_cast<char>('a' + input.pass));
    }
    if (columns_) {
        input.rows = Func(prefix_ + name + "_columns");
        const Expr at = v_ * lanes + k_;
        if (beyond) input.rows(k_, m, v_) = bf16(*beyond);
        input.rows(k_, m, v_) = select(at < length_, input.param(min(at, length_ - 1), m), undef<BFloat>());
        input.elements = by_element(prefix_ + name + "_rows", input.rows);
    } else {
        if (whole_vectors()) {
            input.rows(n, m) = input.param(n, row_of_tensor(m));
        } else {
            if (beyond) input.rows(n, m) = bf16(*beyond);
            input.rows(n, m) = select(n < length_, input.param(min(n, length_ - 1), m), undef<BFloat>());
        }
        input.elements = input.rows;
    }
    inputs_.push_back(input);
    return input.elements;
}

Func RowKernel::row_of(const std::string &name) {
    Input input{tensor(prefix_ + name, {length_}), Func(prefix_ + name + "_row"), true, 0, {}};
    input.rows(n) =
        whole_vectors() ? Expr(input.param(n)) : select(n < length_, input.param(min(n, length_ - 1)), undef<BFloat>());
    inputs_.push_back(input);
    return input.rows;
}

void RowKernel::each(Func step) {
    if (!in_parts()) each_.push_back(std::move(step));
}
void RowKernel::each_light(Func step) {
    if (!makes_again()) each(std::move(step));
}
void RowKernel::single(Func step) { single_.push_back(std::move(step)); }
void RowKernel::each_before(Func step) {
    if (beside_ > 0) before_.push_back(std::move(step));
}

Expr RowKernel::in_lanes(const std::string &name, Func number, const std::function<Expr(const Expr &)> &made) {
    numbers_ = Func(name + "_numbers");
    made_ = Func(name);
    const Var l("l"), b("b");
    if (beside_ == 0) {
        numbers_(l, m) = bf16(number(m));
        made_(l, m) = made(numbers_(l, m));
        lanes_of(numbers_, l);
        lanes_of(made_, l);
        return made_(n % lanes, m);
    }
    rows_beside_ = RDom(0, beside_, name + "_rows");
    Expr of_row = bf16(number(b * beside_ + rows_beside_));
    if (spread_) {
        numbers_of_rows_ = Func(name + "_number");
        numbers_of_rows_(l, m) = bf16(number(m));
        of_row = numbers_of_rows_(l, b * beside_ + rows_beside_);
    }
    numbers_(l, b) = bf16(1.0f);
    numbers_(l, b) = select(l == rows_beside_, of_row, numbers_(l, b));
    made_(l, b) = made(numbers_(l, b));
    if (!spread_) return made_(m % beside_, m / beside_);
    spread_made_ = Func(name + "_spread");
    spread_made_(l, m) = made_(m % beside_, m / beside_);
    return spread_made_(n % lanes, m);
}
void RowKernel::lanes_of(Func step, Var lane) { lanes_.emplace_back(std::move(step), std::move(lane)); }

// 32 vectors (or fewer, and zeros) are the weights of the array, through which one row of ones goes: lane w is the sum of
// vector w.
Func RowKernel::grouped_sum(const std::string &name, Func values) {
    const int tiles = parts_, members = vectors_ / tiles;
    Sum s{Func(name + "_part"),
          Func(name + "_block"),
          Func(name),
          Var("l"),
          RDom(0, lanes, name + "_q"),
          RDom(0, tiles, name + "_r"),
          Func(name + "_weights"),
          Func(name + "_group"),
          RDom(0, lanes, name + "_g"),
          values,
          pass()};
    const Var t("t");
    const Expr vector = t * members + (members == lanes ? Expr(w_) : min(w_, members - 1)),
               element = values(vector * lanes + k_, m);
    s.weights(k_, w_, m, t) = members == lanes ? element : select(w_ < members, element, bf16(0.0f));
    s.part(s.lane, m, t) = 0.0f;
    s.part(s.lane, m, t) += f32(s.weights(s.depth, s.lane, m, t));
    s.block(s.lane, m, t) = bf16(s.part(s.lane, m, t));
    s.group(m, t) = 0.0f;
    s.group(m, t) += f32(s.block(s.members, m, t));
    s.total(m) = -0.0f;
    s.total(m) = strict_float(s.total(m) + f32(bf16(s.group(m, s.blocks))));
    sums_.push_back(s);
    return s.total;
}

Func RowKernel::sum(const std::string &name, Func values) {
    if (grouped_) return grouped_sum(name, values);
    Sum s{Func(name + "_part"),
          Func(name + "_block"),
          Func(name),
          Var("l"),
          RDom(0, lanes, name + "_q"),
          RDom(0, vectors_, name + "_r"),
          {},
          {},
          {},
          values,
          pass()};
    Var b("b");
    const Expr value = f32(values(b * lanes + s.depth, m));
    s.total(m) = -0.0f;
    if (parts_ > 0) {
        // As grouped_sum(), with the vectors of a part one after the other.
        s.blocks = RDom(0, parts_, name + "_r");
        s.members = RDom(0, vectors_ / parts_, name + "_g");
        s.group = Func(name + "_group");
        const Var t("t");
        s.part(s.lane, m, b) = 0.0f;
        s.part(s.lane, m, b) += value * f32(ones_(s.depth, s.lane));
        s.block(s.lane, m, b) = bf16(s.part(s.lane, m, b));
        s.group(m, t) = 0.0f;
        s.group(m, t) = strict_float(s.group(m, t) + f32(s.block(0, m, t * (vectors_ / parts_) + s.members)));
        s.total(m) = strict_float(s.total(m) + f32(bf16(s.group(m, s.blocks))));
    } else if (reduced_) {
        s.part(m, b) = 0.0f;
        s.part(m, b) += value;
        s.block(m, b) = bf16(s.part(m, b));
        s.total(m) = strict_float(s.total(m) + f32(s.block(m, s.blocks)));
    } else {
        s.part(s.lane, m, b) = 0.0f;
        s.part(s.lane, m, b) += value * f32(ones_(s.depth, s.lane));
        s.block(s.lane, m, b) = bf16(s.part(s.lane, m, b));
        s.total(m) = strict_float(s.total(m) + f32(s.block(0, m, s.blocks)));
    }
    sums_.push_back(s);
    return s.total;
}

Func RowKernel::largest(const std::string &name, Func values) {
    // Running maxima side by side: one alone would wait for itself, and so would each of four in a loop over eight vectors.
    constexpr int most_in_loop = 2 * most_sides;
    const int in_loop = vectors_ % most_in_loop == 0 && vector_unroll_ % most_in_loop == 0 ? most_in_loop
                        : vectors_ % most_sides == 0                                       ? most_sides
                                                                                           : 1;
    const int most = in_parts()   ? std::gcd(most_sides, vector_unroll_)
                     : skewed_    ? std::gcd(most_sides, vector_unroll_ / parts_in_turn())
                     : unrolled() ? std::min(most_sides, (vectors_ + 1) / 2)
                                  : in_loop;
    const int sides = std::max(1, most), steps = (vectors_ + sides - 1) / sides, first = skewed_ || in_parts() ? 0 : 1;
    Extremum x{Func(name + "_lanes"),
               Func(name),
               Var("l"),
               Var("side"),
               steps > first ? RDom(first, steps - first, name + "_r") : RDom(),
               RDom(0, lanes, name + "_q"),
               sides,
               pass()};
    const int at_once = skewed_ ? vector_unroll_ / parts_in_turn() / sides : 0;
    if (skewed_) x.rest = RDom({{0, at_once}, {0, parts_in_turn()}, {0, vectors_ / vector_unroll_}}, name + "_alike");
    if (in_parts()) x.rest = RDom(0, part_ / sides, 0, parts_, name + "_alike");
    // A pass that is one loop with others takes all vectors of the row as they do.
    x.lanes(x.lane, x.side, m) = first == 0 ? bf16(-infinity) : values(x.side * lanes + x.lane, m);
    if (steps > first) {
        // The last vector once more where there are too few.
        const Expr step = in_parts() ? x.rest.y * (part_ / sides) + x.rest.x
                          : skewed_  ? x.rest.y * (steps / parts_in_turn()) + x.rest.z * at_once + x.rest.x
                                     : Expr(x.rest);
        const Expr at = step * sides + x.side, vector = vectors_ % sides == 0 ? at : min(at, vectors_ - 1);
        x.lanes(x.lane, x.side, m) = strict_float(max(values(vector * lanes + x.lane, m), x.lanes(x.lane, x.side, m)));
    }
    std::vector<Expr> all;
    for (int side = 0; side < sides; side++) all.push_back(x.lanes(x.all, side, m));
    while (all.size() > 1) {
        const size_t half = (all.size() + 1) / 2;
        for (size_t i = 0; i < all.size() / 2; i++) all[i] = strict_float(max(all[half + i], all[i]));
        all.resize(half);
    }
    // In float32: Halide's JIT has no maximum of bf16 lanes.
    x.value(m) = -infinity;
    x.value(m) = max(x.value(m), f32(all[0]));
    extrema_.push_back(x);
    return x.value;
}

// Sums of single vectors through the array, on the way to those of parts.
void RowKernel::schedule_parts(Sum &s, const LoopLevel &at) {
    s.block.compute_at(at).bound_extent(s.lane, lanes).vectorize(s.lane, lanes);
    as_array_row(s.part.compute_at(at), s.lane, s.depth);
    in_registers({s.part, s.block, s.group, s.total});
}

void RowKernel::schedule_sum(Sum &s, const LoopLevel &row) {
    s.total.compute_at(row);
    if (parts_ > 0 && !grouped_) {
        const int members = vectors_ / parts_, unroll = std::gcd(vector_unroll_, members);
        if (skewed_) {
            // Vectors of all parts in turn: their sums are done when the pass is.
            const RVar go("go"), gu("g_unroll");
            s.group.compute_at(row)
                .update()
                .split(s.members, go, gu, vector_unroll_ / parts_)
                .reorder({gu, s.group.args()[1], m, go});
            schedule_parts(s, LoopLevel(s.group, gu));
            return;
        }
        const LoopLevel part(s.total, unrolled() ? RVar("r_unroll") : s.blocks);
        if (unrolled()) s.total.update().split(s.blocks, RVar("ro"), RVar("r_unroll"), parts_);
        s.group.compute_at(part);
        s.group.update().split(s.members, RVar("go"), RVar("g_unroll"), unroll);
        schedule_parts(s, LoopLevel(s.group, RVar("g_unroll")));
        return;
    }
    // Parts of a row that are weights: straight-line code where the row is.
    const int unroll = !grouped_ ? std::min(vector_unroll_, vectors_) : unrolled() ? parts_ : 1;
    const RVar ro("ro"), ru("r_unroll");
    if (unroll > 1) s.total.update().split(s.blocks, ro, ru, unroll);
    const LoopLevel at = unroll > 1 ? LoopLevel(s.total, ru) : LoopLevel(s.total, s.blocks);
    s.block.compute_at(at);
    s.part.compute_at(at);
    if (reduced_) {
        s.part.update().atomic().vectorize(s.depth, lanes);
    } else {
        s.block.bound_extent(s.lane, lanes).vectorize(s.lane, lanes);
        as_array_row(s.part, s.lane, s.depth);
    }
    if (grouped_) {
        s.group.compute_at(at).update().atomic().vectorize(s.members, lanes);
        s.weights.compute_at(at)
            .bound_extent(k_, lanes)
            .bound_extent(w_, lanes)
            .split(w_, w_, Var("w_unroll"), lanes)
            .vectorize(k_);
        in_registers({s.weights, s.group});
    }
    in_registers({s.part, s.block, s.total});
}

// The rows of a block in the pads; two of them where others come, and transfers take time.
void RowKernel::hold_block(Func rows, Func consumer, const Var &block) {
    if (streams_) {
        rows.compute_root().bound(n, 0, padded()).bound(m, 0, rows_);
        return in_pads({rows});
    }
    rows.compute_at(consumer, block).bound_storage(m, block_ + spare_);
    if (columns_)
        rows.bound_extent(k_, lanes).bound_extent(v_, vectors_).align_storage(v_, static_cast<int>(machine_.pad.count));
    else
        rows.bound_extent(n, padded());
    if (rows_ > block_ && machine_.timed()) rows.hoist_storage_root().ring_buffer(2);
    if (parts_go_round())
        rows.align_storage(
            n, lanes * vectors_ / parts_ * static_cast<int>(round_up<int64_t, int64_t>(parts_, machine_.pad.count)));
    in_pads({rows});
}

void RowKernel::schedule_inputs(Func consumer, const Var &block) {
    for (Input &input : inputs_) {
        if (input.one_row) {
            input.rows.compute_root().bound(n, 0, padded());
            in_pads({input.rows});
            continue;
        }
        hold_block(input.rows, consumer, block);
        if (const int together = neighbours_; together > 0)
            input.rows.split(m, Var("pad"), m, rows_ / static_cast<int>(machine_.pad.count)).split(m, Var("turn"), m, together);
        if (input.rows.num_update_definitions() > 0) input.rows.vectorize(columns_ ? k_ : n, lanes);
    }
}

// The vectors of a row: a loop, or straight-line code.
void RowKernel::over_vectors(Func step) {
    const Var no("no"), ni("ni"), part("part_unroll");
    step.split(n, no, ni, lanes).vectorize(ni);
    if (skewed_)
        step.split(no, part, no, vectors_ / parts_in_turn())
            .split(no, no, unrolled_vector_, vector_unroll_ / parts_in_turn())
            .split(m, m, unrolled_row_, block_)
            .reorder({ni, unrolled_vector_, part, unrolled_row_, no, m});
    else if (vector_unroll_ > 1)
        step.split(no, no, unrolled_vector_, std::min(vector_unroll_, vectors_));
}

// What is computed of a row, or of several side by side.
void RowKernel::schedule_steps(const LoopLevel &row) {
    for (Func step : each_) {
        step.compute_at(row);
        over_vectors(step);
        if (unrolled() && !stored_)
            in_registers({step});
        else
            in_pads({step});
    }
    for (Func step : single_) {
        step.compute_at(row);
        in_registers({step});
    }
    for (auto &[step, lane] : lanes_) {
        step.compute_at(row).vectorize(lane, lanes);
        in_registers({step});
    }
    for (Sum &s : sums_) schedule_sum(s, row);
    if (beside_ == 0) schedule_extrema(row);
    if (sums_with_ones()) {
        ones_.vectorize(k_, lanes).bound(k_, 0, lanes).bound(w_, 0, lanes);
        in_registers({ones_});
    }
}

void RowKernel::schedule_extrema(const LoopLevel &row) {
    for (Extremum &x : extrema_) {
        x.value.compute_at(row).update().atomic().vectorize(x.all, lanes);
        x.lanes.compute_at(row).bound_extent(x.lane, lanes).bound_extent(x.side, x.sides).vectorize(x.lane, lanes);
        if (x.lanes.num_update_definitions() > 0) {
            if (skewed_) {
                x.lanes.update()
                    .reorder({x.lane, x.side, x.rest.x, x.rest.y, m, x.rest.z})
                    .vectorize(x.lane, lanes)
                    .rename(x.rest.x, RVar("r_unroll"))
                    .rename(x.rest.y, RVar("part_unroll"));
            } else {
                x.lanes.update().reorder(x.lane, x.side, x.rest).vectorize(x.lane, lanes);
            }
            if (const int unroll = std::min((vector_unroll_ + x.sides - 1) / x.sides, (vectors_ + x.sides - 1) / x.sides - 1);
                !skewed_ && unroll > 1) {
                RVar ro("ro"), ru("r_unroll");
                x.lanes.update().split(x.rest, ro, ru, unroll, TailStrategy::GuardWithIf).reorder(x.lane, x.side, ru, ro);
            }
        }
        in_registers({x.lanes, x.value});
    }
}

KernelDefinition RowKernel::finish(Func result) {
    if (columns_)
        result = schedule_columns(result);
    else if (in_parts())
        schedule_in_parts(result);
    else
        schedule_rows(result);
    if (sums_with_ones()) ones_.compute_root();
    whole_loops(out_);
    fix_shape(out_.output_buffer(), {length_, rows_});

    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out_);
    kernel.arguments = arguments();
    const int pads = static_cast<int>(machine_.pad.count);
    // Rows that are apart, or the columns of a block.
    const bool blocks = apart_ || columns_;
    const codegen::PadLayout neighbours{pads, columns_ ? block_ + spare_ : block_ / pads * vectors_};
    if (blocks) kernel.lay_out(result, neighbours);
    if (parts_go_round()) {
        const codegen::PadLayout parts{pads, vectors_ / parts_};
        kernel.lay_out(result, parts);
        for (const Func &step : each_) kernel.lay_out(step, parts);
        for (const Input &input : inputs_)
            if (!input.one_row) kernel.lay_out(input.rows, parts);
    }
    for (const Input &input : inputs_) {
        if (input.pass > 0) continue;
        kernel.inputs.push_back({input.param.name(), {length_}});
        if (blocks && !input.one_row) kernel.lay_out(input.rows, neighbours);
        if (!input.one_row) kernel.inputs.back().extents.push_back(rows_);
    }
    kernel.outputs = {{out_.name(), {length_, rows_}}};
    return kernel;
}

void RowKernel::schedule_rows(Func result) {
    const Var mo(skewed_ ? "mo_skewed" : "mo"), mi("mi"), no("no"), ni("ni");
    const int pads = static_cast<int>(machine_.pad.count), together = neighbours_;
    out_(n, m) = result(n, row_in_pads(m));
    out_.bound(n, 0, length_)
        .bound(m, 0, rows_)
        .split(m, mo, mi, together > 0 ? pads * together : block_, TailStrategy::ShiftInwards);
    if (together > 0) out_.split(mi, Var("mp"), mi, together);
    schedule_inputs(out_, mo);
    hold_block(result, out_, mo);
    if (beside_ > 0) return schedule_beside(result);
    const Var mp("pad_unroll");
    Var row = m;
    if (apart_) {
        result.split(m, mp, m, block_ / pads);
        row = mp;
        if (row_unroll_ > pads) {
            result.split(m, m, unrolled_row_, row_unroll_ / pads);
            row = unrolled_row_;
        }
    } else if (row_unroll_ > 1 && !skewed_) {
        result.split(m, m, unrolled_row_, row_unroll_);
        row = unrolled_row_;
    }
    over_vectors(result);
    if (apart_) {
        std::vector<VarOrRVar> inner = {ni};
        if (vector_unroll_ > 1) inner.push_back(unrolled_vector_);
        inner.push_back(no);
        if (row_unroll_ > pads) inner.push_back(unrolled_row_);
        inner.insert(inner.end(), {mp, m});
        result.reorder(inner);
    }
    schedule_steps(skewed_ ? LoopLevel(out_, mo) : LoopLevel(result, row));
}

// Rows that are beside each other: what is before their numbers, the numbers, what is made of those, and the results. Lanes are
// read in straight-line code: that of all results, or what spreads each number over a vector of its own.
void RowKernel::schedule_beside(Func result) {
    if (!spread_) {
        result.split(m, m, unrolled_row_, beside_);
        over_vectors(result);
    } else {
        const Var row("row");
        result.split(m, m, row, beside_);
        if (columns_) {
            over_rows(result, k_, v_, row, {row, m});
        } else {
            if (row_unroll_ > 1) result.split(row, row, unrolled_row_, row_unroll_);
            over_vectors(result);
        }
        const Var lane = spread_made_.args()[0];
        spread_made_.compute_at(result, m)
            .bound_extent(lane, lanes)
            .vectorize(lane)
            .bound_extent(m, beside_)
            .split(m, m, unrolled_row_, beside_);
        in_pads({result, spread_made_});
    }
    const LoopLevel rows(result, m);
    for (Func step : before_) {
        step.compute_at(rows).bound_extent(n, padded()).bound_extent(m, beside_);
        if (row_unroll_ > 1) step.split(m, m, unrolled_row_, row_unroll_);
        over_vectors(step);
        in_pads({step});
    }
    const Var lane = numbers_.args()[0], group = numbers_.args()[1];
    for (Func f : {numbers_, made_}) f.compute_at(rows).bound_extent(lane, lanes).vectorize(lane, lanes).bound_extent(group, 1);
    const RVar turn("turn"), unrolled("r_unroll");
    numbers_.update()
        .split(rows_beside_, turn, unrolled, spread_ ? beside_ : row_unroll_)
        .reorder(lane, unrolled, turn)
        .vectorize(lane, lanes);
    in_registers({numbers_, made_});
    schedule_extrema(LoopLevel(before_.at(0), row_unroll_ > 1 ? unrolled_row_ : m));
    if (!spread_) return schedule_steps(LoopLevel(numbers_, unrolled));
    numbers_of_rows_.compute_at(rows).bound_extent(lane, lanes).vectorize(lane, lanes).bound_extent(m, beside_);
    if (row_unroll_ > 1) numbers_of_rows_.split(m, m, unrolled_row_, row_unroll_);
    in_pads({numbers_of_rows_});
    schedule_steps(LoopLevel(numbers_of_rows_, row_unroll_ > 1 ? unrolled_row_ : m));
}

// What is in the pads instead of `result`.
Func RowKernel::schedule_columns(const Func &result) {
    const Var mo("mo"), mi("mi"), no("no"), ni("ni");
    Func columns(result.name() + "_columns");
    columns(k_, m, v_) = result(v_ * lanes + k_, m);
    out_(n, m) = by_element(result.name() + "_elements", columns)(n, m);
    out_.bound(n, 0, length_)
        .bound(m, 0, rows_)
        .split(m, mo, mi, block_, TailStrategy::ShiftInwards)
        .split(n, no, ni, lanes, TailStrategy::GuardWithIf)
        .reorder({ni, mi, no, mo});
    schedule_inputs(out_, mo);
    hold_block(columns, out_, mo);
    if (beside_ > 0)
        schedule_beside(columns);
    else
        schedule_made(columns, k_, v_, {m});
    return columns;
}

void RowKernel::make_rows(Func result, const Var &lane, const Var &vector, Func consumer, const Var &block) {
    schedule_inputs(consumer, block);
    result.compute_at(consumer, block);
    schedule_made(result, lane, vector, {m});
    // Between two blocks other weights are in the array.
    if (sums_with_ones()) ones_.compute_at(consumer, block);
}

void RowKernel::make_all_rows(Func result, const Var &lane, const Var &vector) {
    const Var mo("mo");
    result.compute_root().bound(m, 0, rows_).split(m, mo, m, block_, TailStrategy::ShiftInwards);
    schedule_inputs(result, mo);
    schedule_made(result, lane, vector, {m, mo});
    if (sums_with_ones()) ones_.compute_root();
}

// Those of a block are loops over `row`, the innermost of `around`.
void RowKernel::over_rows(Func result, const Var &lane, const Var &vector, const Var &row,
                          const std::vector<VarOrRVar> &around) {
    result.bound_extent(lane, lanes).bound_extent(vector, vectors_).vectorize(lane, lanes);
    std::vector<VarOrRVar> order = {lane};
    if (vector_unroll_ > 1) {
        result.split(vector, vector, unrolled_vector_, std::min(vector_unroll_, vectors_));
        order.push_back(unrolled_vector_);
    }
    order.push_back(vector);
    if (row_unroll_ > 1) {
        result.split(row, row, unrolled_row_, row_unroll_);
        order.push_back(unrolled_row_);
    }
    order.insert(order.end(), around.begin(), around.end());
    result.reorder(order);
}

// `around`: its loops over rows.
void RowKernel::schedule_made(Func result, const Var &lane, const Var &vector, const std::vector<VarOrRVar> &around) {
    over_rows(result, lane, vector, m, around);
    in_pads({result});
    schedule_steps(LoopLevel(result, row_unroll_ > 1 ? unrolled_row_ : m));
}

std::vector<Argument> RowKernel::arguments() const {
    std::vector<Argument> list;
    for (const Input &input : inputs_)
        if (input.pass == 0) list.emplace_back(input.param);
    return list;
}

}  // namespace atalla
