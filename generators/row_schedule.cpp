// Where and when kernels along rows compute: blocks of rows in the pads, and what is made of each row.
#include <algorithm>
#include <numeric>

#include "generators/row_kernel.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

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

}  // namespace atalla
