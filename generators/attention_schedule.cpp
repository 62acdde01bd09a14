// Where and when the forms of attention compute what they share.
#include <numeric>

#include "generators/attention_pipeline.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

void AttentionPipeline::schedule_dot(Dot &dot, Func consumer, const VarOrRVar &level, const VarOrRVar &row, const Var &lane,
                                     int unroll) const {
    dot.weights.compute_at(LoopLevel(consumer, level)).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
    if (unroll > 1) dot.weights.split(w, w, wi, unroll);
    as_array_row(dot.part.compute_at(LoopLevel(consumer, row)), lane, r);
    in_registers({dot.weights, dot.part});
    if (!dot.rounded.defined()) return;
    dot.rounded.compute_at(LoopLevel(consumer, row)).vectorize(lane, lanes);
    in_registers({dot.rounded});
}

void AttentionPipeline::schedule_sums(Func result) {
    result.reorder(d, i, c, ib).vectorize(d, lanes);
    sums.compute_at(result, c).bound_extent(i, rows_).vectorize(d, lanes);
    sums.update().rename(i, iu).reorder(d, iu, summed.x, c, ib).vectorize(d, lanes);
    schedule_dot(pv, sums, summed.x, iu, d, lanes);
    in_registers({sums});
}

void AttentionPipeline::schedule_group(Stage stage, const RVar &step, const RVar &level, Func values, Dot &dot) const {
    stage.vectorize(j, lanes).unroll(step);
    const LoopLevel at(p, level);
    values.compute_at(at).bound_extent(i, summed_rows_).bound_extent(tt, 1).vectorize(j, lanes);
    dot.weights.compute_at(at).bound_extent(k, lanes).bound_extent(w, lanes).update().vectorize(k, lanes);
    as_array_row(dot.part.compute_at(at).bound_extent(j, lanes), j, r);
    dot.rounded.compute_at(at).bound_extent(j, lanes).vectorize(j, lanes);
    in_registers({values, dot.weights, dot.part, dot.rounded});
}

void AttentionPipeline::in_groups(Stage stage, int unroll, const Var &lane, const std::vector<VarOrRVar> &inside,
                                  const std::vector<VarOrRVar> &outside) const {
    std::vector<VarOrRVar> order = {lane};
    stage.split(i, i, iu, unroll);
    order.insert(order.end(), inside.begin(), inside.end());
    order.push_back(i);
    order.insert(order.end(), outside.begin(), outside.end());
    stage.reorder(order).vectorize(lane, lanes);
}

void AttentionPipeline::schedule_quotients(Func inverse, int together) {
    result_at_block(Y);
    in_groups(Stage(Y), together, d, {c, iu}, {ib});
    Y.bound_extent(c, tiles_of(width_)).unroll(c);
    inverse.compute_at(Y, iu);
    in_registers({std::move(inverse)});
}

void AttentionPipeline::of_heads(Func f, bool AttentionBatch::*has) const {
    if (heads_ > 1 && (has == nullptr || batch_.dim(0).*has)) f.bound_extent(batch_.var(0), heads_);
}
void AttentionPipeline::at_block(Func f, bool AttentionBatch::*has, int more_rows, int more_stored) const {
    f.compute_at(out, io)
        .bound_extent(i, rows_ + more_rows)
        .bound_storage(i, stored_rows() + more_stored)
        .bound_extent(ib, blocks_);
    of_heads(f, has);
}
void AttentionPipeline::at_block_beside(Func f) const {
    at_block(f);
    if (machine_.timed() && shape_.comes_by_blocks(rows_, blocks_)) f.hoist_storage_root().ring_buffer(2);
}
void AttentionPipeline::result_at_block(Func f) const {
    if (results_pass_) {
        f.compute_at(out, ob).bound_extent(i, rows_).bound_storage(i, stored_rows()).bound_extent(ib, 1);
        f.hoist_storage_root().ring_buffer(2);
    } else {
        at_block_beside(f);
    }
}
void AttentionPipeline::result_by_columns(Func f) const {
    f.compute_at(out, column).bound_extent(i, rows_).bound_storage(i, stored_rows()).bound_extent(ib, 1).bound_extent(c, 1);
    if (blocks_ * width_tiles_ > 1) f.hoist_storage_root().ring_buffer(2);
}
void AttentionPipeline::at_keys(Func f, bool AttentionBatch::*has, int more_rows, int more_stored) const {
    at_block(f, has, more_rows, more_stored);
    if (key_blocks_ > 1) f.compute_at(keys_at_).bound_extent(kb, 1);
}
// Keys and values stay for all queries of a head.
void AttentionPipeline::at_head(Func f) const {
    for (size_t b = 0; b < batch_.size(); b++)
        if (batch_.dim(b).keys) {
            f.compute_at(out, batch_.var(b));
            return;
        }
    f.compute_root();
}

// Of the next block of keys while one is gone through, where all blocks are alike.
void AttentionPipeline::come_by_blocks(Func f) const {
    f.compute_at(keys_at_).bound_extent(kb, 1);
    if (keys_ % (key_tiles_ * lanes) == 0 && machine_.timed()) f.hoist_storage(out, io).ring_buffer(2);
}

void AttentionPipeline::schedule() {
    schedule_out();
    schedule_keys();
    schedule_values();
    schedule_queries();
    schedule_scores();
    if (!streams_ && summed_rows_ == 0) at_keys(p, nullptr, 0, rows_behind());
    if (!streams_ || whole_rows_) p.bound_extent(tt, key_tiles_);
    schedule_softmax();
    schedule_result();
    in_pads({identity, X, p, Y});
}

void AttentionPipeline::schedule_out() {
    out.bound(d, 0, width_).bound(i, 0, queries_);
    Var lane("lane");
    out.split(d, column, lane, lanes, TailStrategy::GuardWithIf)
        .split(i, ob, ii, rows_, TailStrategy::GuardWithIf)
        .split(ob, io, ob, blocks_, TailStrategy::GuardWithIf);
    loop_over_batch(out, batch_, {lane, ii, column, ob}, io, head, heads_);
    fix_shape(out.output_buffer(), shape_.out_extents());
}

void AttentionPipeline::schedule_keys() {
    const bool by_tiles = streams_ && keys_ % lanes == 0 && key_tiles_ > 1;
    for (Func f : Ks) {
        if (by_tiles) {
            f.compute_at(X, streamed[2]).hoist_storage(out, io).ring_buffer(2);
        } else if (key_blocks_ > 1) {
            come_by_blocks(f);
        } else if (shape_.comes_by_heads(machine_, heads_)) {
            // The storage is inside the loop over groups of heads: from outside, turns of the ring would not be counted
            // linearly.
            f.compute_at(X, batch_.var(0)).hoist_storage(out, io).ring_buffer(2);
        } else {
            at_head(f);
            of_heads(f, &AttentionBatch::keys);
        }
        f.vectorize(k, lanes).bound_extent(t, (by_tiles ? 1 : key_tiles_) * lanes);
        in_pads({f});
    }
}

void AttentionPipeline::schedule_values() {
    // A row in each pad, so that rows come as fast as the array takes them.
    identity.compute_root()
        .bound(k, 0, lanes)
        .bound(w, 0, lanes)
        .vectorize(k, lanes)
        .split(w, w, wi, static_cast<int>(machine_.pad.count));
    // Where all queries of some heads are together, values come while their scores are computed.
    if (key_blocks_ > 1)
        Vt.compute_at(keys_at_).bound_extent(kb, 1);
    else if (heads_ > 1 || streams_)
        Vt.compute_at(out, io);
    else
        at_head(Vt);
    of_heads(Vt, &AttentionBatch::keys);
    // Values come while those before them are turned: of the next block of keys, of the next head, of the next column, or of
    // the next tile of keys where all tiles are alike.
    const bool heads_come = shape_.comes_by_heads(machine_, heads_);
    const bool in_tiles = shape_.values_by_tiles(machine_, heads_, streams_);
    // Those of a head, too, where each pad has several transfers for a column: these start out of the loop over its tiles.
    const bool many_transfers = keys_ % lanes == 0 && keys_ > machine_.pad.count * lanes,
               in_columns = (heads_come ? many_transfers : streams_ && !in_tiles) && width_ % lanes == 0 && width_ > lanes;
    if (key_blocks_ > 1)
        come_by_blocks(Vs);
    else if (in_columns)
        (heads_come ? Vs.compute_at(LoopLevel(Vt, co)).hoist_storage(out, io)
                    : Vs.compute_at(LoopLevel(Vt, co)).hoist_storage_root())
            .ring_buffer(2);
    else if (heads_come)
        Vs.compute_at(Vt, batch_.var(0)).hoist_storage(out, io).ring_buffer(2);
    else if (in_tiles)
        Vs.compute_at(Vt, tt).hoist_storage_root().ring_buffer(2);
    else
        at_head(Vs);
    Vs.vectorize(k, lanes)
        .bound_extent(t, in_tiles ? lanes : key_tiles_ * lanes)
        .bound_extent(c, in_columns || turns_all_ ? 1 : tiles_of(width_));
    Vt.bound_extent(d, width_tiles_ * lanes).bound_extent(tt, key_tiles_);
    if (!turns_all_) Vt.vectorize(k, lanes);
    // All tiles are alike: behind the last column are zeros, or there is one tile.
    const int of_tile = std::min(width_, lanes);
    Stage turning = turns_all_ ? Stage(Vt) : Vt.update();
    const VarOrRVar inside = turns_all_ ? VarOrRVar(Var("ci")) : VarOrRVar(RVar("ci")),
                    several = turns_all_ ? VarOrRVar(Var("c_unroll")) : VarOrRVar(RVar("c_unroll"));
    turning.split(turns_all_ ? VarOrRVar(d) : VarOrRVar(columns.x), co, inside, of_tile,
                  turns_all_ ? TailStrategy::Auto : TailStrategy::GuardWithIf);
    turning.split(inside, inside, several, std::gcd(of_tile, turn_unroll_));
    std::vector<VarOrRVar> turned = {k, several, inside};
    const bool by_columns = heads_come || streams_;
    if (by_columns)
        turned.insert(turned.end(), {tt, co});
    else
        turned.insert(turned.end(), {co, tt});
    turning.reorder(turned).vectorize(k, lanes);
    schedule_dot(turn, Vt, by_columns ? VarOrRVar(tt) : co, several, k, turn_unroll_);
    if (has_ones()) Vt.update(1).vectorize(k, lanes);
    in_pads({Vs, Vt});
}

void AttentionPipeline::schedule_queries() {
    for (Func f : Qs) {
        f.vectorize(k, lanes);
        if (streams_ && shape_.comes_by_heads(machine_, heads_)) {
            f.compute_at(X, batch_.var(0)).hoist_storage(out, io).ring_buffer(2);
            f.bound_extent(i, rows_ * blocks_).bound_storage(i, stored_rows() * blocks_);
        } else if (streams_) {
            at_rows(f);
            if (batch_.size() == 0) f.compute_root();
        } else if (shape_.comes_by_heads(machine_, heads_)) {
            // By blocks where these are alike.
            const bool alike = queries_ % rows_ == 0;
            f.compute_at(X, alike ? ib : batch_.var(0)).hoist_storage(out, io).ring_buffer(2);
            f.bound_extent(i, rows_).bound_storage(i, stored_rows());
            if (!alike) f.bound_extent(ib, blocks_);
        } else if (queries_pass_) {
            f.compute_at(X, ib).hoist_storage(out, io).ring_buffer(2);
            f.bound_extent(i, rows_).bound_storage(i, stored_rows());
        } else {
            at_block_beside(f);
        }
        in_pads({f});
    }
    if (!shape_.mask) return;
    Ms.vectorize(k, lanes);
    if (shape_.masks_by_heads(machine_, heads_))
        Ms.compute_at(X, batch_.var(0))
            .hoist_storage(out, io)
            .ring_buffer(2)
            .bound_extent(i, rows_)
            .bound_storage(i, stored_rows())
            .bound_extent(ib, blocks_);
    else
        at_keys(Ms, &AttentionBatch::mask);
    in_pads({Ms});
}

void AttentionPipeline::schedule_scores() {
    if (streams_) return schedule_streamed_scores();
    // A visit of the array, weights and the rows of a block, is an iteration of a loop over tiles.
    at_keys(X, nullptr, 0, rows_behind());
    X.bound_extent(tt, key_tiles_);
    int update = 0;
    for (Dot &dot : scores_) {
        std::vector<VarOrRVar> loops = {j, iu, scored.x, ib};
        if (heads_ > 1) loops.push_back(batch_.var(0));
        X.update(update++).rename(i, iu).reorder(loops).vectorize(j, lanes);
        schedule_dot(dot, X, scored.x, iu, j, lanes);
    }
    if (shape_.mask) {
        std::vector<VarOrRVar> outside = {scored.x, ib};
        if (heads_ > 1) outside.push_back(batch_.var(0));
        in_groups(X.update(update++), softmax_unroll_, j, {iu}, outside);
    }
    if (hides_end() && !whole_rows_) {
        in_groups(X.update(update++), lane_rows(), j, {iu}, {ending.x, ib});
    }
    if (hides_diagonal()) {
        RVar group("group"), row("row_unroll");
        const int unroll = std::gcd(lane_rows(), lanes);
        for (const RDom &tiles : {unseen, last_seen})
            X.update(update++).split(tiles.x, group, row, unroll).reorder(j, row, group, tiles.y, ib).vectorize(j, lanes);
    }
    schedule_penalties();
}

void AttentionPipeline::schedule_streamed_scores() {
    at_rows(X, spare_rows_, rows_behind());
    X.bound_extent(tt, key_tiles_);
    const auto of_all_heads = [&](std::vector<VarOrRVar> loops) {
        if (heads_ > 1) loops.push_back(batch_.var(0));
        return loops;
    };
    int update = 0;
    const RVar tile = streamed[2];
    for (size_t n = 0; n < scores_.size(); n++) {
        if (n < scored_before.size()) {
            Func f = scored_before[n];
            f.compute_at(X, tile)
                .bound_extent(i, rows_ * blocks_)
                .bound_storage(i, stored_rows() * blocks_)
                .bound_extent(tt, 1);
            f.split(i, i, iu, passing_rows_).reorder(j, iu, i, tt).vectorize(j, lanes);
            schedule_dot(scores_[n], f, tt, iu, j, lanes);
            in_pads({f});
        } else {
            RVar row("row_unroll");
            X.update(update++).rename(streamed[0], row).reorder(of_all_heads({j, row, streamed[1], tile})).vectorize(j, lanes);
            schedule_dot(scores_[n], X, tile, row, j, lanes);
        }
    }
    if (whole_rows_ && skips_)
        for (const RDom &rows : {not_reached, on_diagonal}) {
            RVar group("group"), row("row_unroll");
            constexpr int together = 16;
            X.update(update++)
                .split(rows.x, group, row, together)
                .reorder(of_all_heads({j, row, group, rows.y}))
                .vectorize(j, lanes);
        }
    if (hides_end() && !whole_rows_) {
        RVar row("row_unroll");
        X.update(update++).rename(ending.x, row).reorder(of_all_heads({j, row, ending.y})).vectorize(j, lanes);
    }
    schedule_penalties();
}

void AttentionPipeline::schedule_penalties() {
    if (hides_end()) {
        behind.compute_root().bound(j, 0, lanes).vectorize(j, lanes);
        in_pads({behind});
    }
    if (shape_.causal) {
        later.compute_root().bound(j, 0, lanes).vectorize(j, lanes);
        // A mask waits for scalar operations: several at a time, where their constants do not crowd those of nests by blocks of
        // keys.
        constexpr int masks = 4;
        if (key_blocks_ == 1 && hides_diagonal()) later.bound(o, 0, lanes).split(o, o, ou, masks);
        int update = 0;
        for (const auto &[rows, count] : {std::pair{diagonal, int{lanes}}, {before, hidden_rows_}, {after, seen_rows_}}) {
            RVar group("group"), row("row_unroll");
            if (!hides_diagonal() && count > 0) later.update(update++).split(rows, group, row, std::gcd(count, masks));
        }
        for (int u = 0; u < later.num_update_definitions(); u++) later.update(u).vectorize(j, lanes);
        in_pads({later});
    }
}

int AttentionPipeline::lane_rows() const {
    int rows = softmax_unroll_;
    for (int more = 2 * rows; blocks_ > 1 && more <= 16; more += softmax_unroll_)
        if (rows_ % more == 0) rows = more;
    return rows;
}
int AttentionPipeline::stored_rows() const {
    const int quantum = static_cast<int>(machine_.pad.count);
    return (rows_ + quantum - 1) / quantum * quantum;
}

}  // namespace atalla
