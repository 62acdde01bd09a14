#include "generators/attention_pipeline.h"

#include <algorithm>
#include <numeric>

#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

AttentionPipeline::AttentionPipeline(const AttentionShape &shape, const Machine &machine, const Point &point)
    : shape_(shape),
      machine_(machine),
      queries_(static_cast<int>(shape.queries)),
      keys_(static_cast<int>(shape.keys)),
      depth_(static_cast<int>(shape.depth)),
      width_(static_cast<int>(shape.width)),
      depth_tiles_(static_cast<int>(tiles_of(shape.depth))),
      width_tiles_(static_cast<int>(shape.width_tiles(point))),
      rows_(static_cast<int>(shape.block_rows(point))),
      blocks_(static_cast<int>(shape.blocks_together(point))),
      key_tiles_(static_cast<int>(shape.tiles_together())),
      key_blocks_(static_cast<int>(shape.key_blocks())),
      turn_unroll_(static_cast<int>(point["weight_unroll"])),
      softmax_unroll_(static_cast<int>(std::min<int64_t>(point["softmax_unroll"], rows_))),
      heads_(static_cast<int>(point["heads"])),
      whole_rows_(shape.whole_rows()),
      skips_(shape.skips_hidden(rows_)),
      queries_pass_(shape.queries_pass(machine, rows_, blocks_, heads_)),
      results_pass_(shape.results_pass(machine, rows_, blocks_, heads_)),
      streams_(static_cast<int>(AttentionShape::streamed(point))),
      passing_rows_(streams_ ? static_cast<int>(shape.passing_rows(machine, point)) : 1),
      spare_rows_(streams_ ? static_cast<int>(shape.spare_rows(rows_)) : 0),
      waits_in_pads_(AttentionShape::waits_in_pads(point)),
      summed_rows_(static_cast<int>(AttentionShape::summed(point))),
      p(shape.weights_over_scores(AttentionShape::streamed(point)) ? "p_over_X" : "p"),
      q(tensor("Q", shape.q_extents())),
      key(tensor("K", shape.k_extents())),
      value(tensor("V", shape.v_extents())),
      mask(tensor("mask", shape.mask_extents())),
      columns(0, width_ > lanes ? static_cast<int>(tiles_of(width_)) * static_cast<int>(lanes) : width_, "columns"),
      beyond(width_, std::max(width_tiles_ * lanes - width_, 1), "beyond"),
      scored(0, key_tiles_, "scored_varying"),
      summed(0, key_tiles_, "summed_varying"),
      last_seen(0, lanes, 0, diagonal_tiles_, "last_seen_varying"),
      unseen(0, (diagonal_tiles_ - 1) * lanes, 1, diagonal_tiles_ - 1, "unseen_varying"),
      before(-hidden_rows_, std::max(1, hidden_rows_), "before"),
      after(lanes, std::max(1, seen_rows_), "after") {
    if (!streams_) return;
    const int groups = rows_ * blocks_ / passing_rows_;
    ending = RDom(0, passing_rows_, 0, groups, "ending");
    streamed = RDom({{0, passing_rows_}, {0, groups}, {0, skips_ ? groups : key_tiles_}}, "streamed_varying");
    not_reached = RDom(0, (groups - 1) * passing_rows_, 1, std::max(1, groups - 1), "not_reached_varying");
    on_diagonal = RDom(0, lanes, 0, groups, "on_diagonal");
}

KernelDefinition AttentionPipeline::build() {
    define_operands();
    define_scores();
    define_softmax();
    define_sums();
    define_result();
    define_out();
    schedule();
    return attention_kernel(shape_, Pipeline(out), {q, key, value, mask});
}

// ---- the algorithm

std::vector<Expr> AttentionPipeline::of_queries(std::vector<Expr> first) const {
    std::vector<Expr> all = args(std::move(first));
    all.push_back(ib);
    if (key_blocks_ > 1) all.push_back(ig);
    return all;
}
std::vector<Expr> AttentionPipeline::own(std::vector<Expr> first) const {
    std::vector<Expr> all = of_queries(std::move(first));
    if (key_blocks_ > 1) all.push_back(kb);
    return all;
}
std::vector<Expr> AttentionPipeline::of_block_rows(std::vector<Expr> first) const {
    if (!streams_) return own(std::move(first));
    first[1] = ib * rows_ + first[1];
    return args(std::move(first));
}
std::vector<Expr> AttentionPipeline::of_keys(std::vector<Expr> own) const {
    std::vector<Expr> all = args(std::move(own), &AttentionBatch::keys);
    if (key_blocks_ > 1) all.push_back(kb);
    return all;
}
std::vector<Expr> AttentionPipeline::of_mask(std::vector<Expr> own) const {
    std::vector<Expr> all = args(std::move(own), &AttentionBatch::mask);
    all.push_back(ib);
    if (key_blocks_ > 1) all.insert(all.end(), {ig, kb});
    return all;
}
Expr AttentionPipeline::query() const { return (key_blocks_ > 1 ? ig * blocks_ + ib : Expr(ib)) * rows_ + i; }

Expr AttentionPipeline::row_of(Dot &dot, const std::vector<Expr> &place, const std::vector<Expr> &at) const {
    if (!leaves_out()) return bf16(dot.part(own(at)));
    if (!dot.rounded.defined()) define(dot.rounded, own(place), bf16(dot.part(own(place))));
    return dot.rounded(own(at));
}

// Loops over tiles overlap their iterations: that there are two at least is said, since the compiler would not see it.
void AttentionPipeline::where_seen(RDom &tiles, const RVar &tile) const {
    if (!leaves_out()) return;
    const int last_tiles = static_cast<int>(tiles_of(keys_)) - (key_blocks_ - 1) * key_tiles_;  // of the last block of keys
    if (key_blocks_ == 1)
        tiles.where(tile < (ib + 1) * diagonal_tiles_);
    else if (skips_)
        tiles.where(tile < max(diagonal_tiles_, min(key_tiles_, (ib + 1) * diagonal_tiles_ + (ig - kb) * key_tiles_)));
    else
        tiles.where(tile < max(std::min(2, last_tiles), min(key_tiles_, last_tiles + (key_blocks_ - 1 - kb) * key_tiles_)));
}

void AttentionPipeline::define_operands() {
    const bool partial = queries_ % (rows_ * blocks_) != 0, partial_keys = keys_ % (key_tiles_ * lanes) != 0;
    const auto key_at = [&](const Expr &row) { return key_blocks_ > 1 ? kb * (key_tiles_ * lanes) + row : row; };
    const Expr at_key = key_at(t);
    for (int n = 0; n < depth_tiles_; n++) {
        const Expr at = n * lanes + k;
        const Func &queries = Qs.emplace_back("Qs_" + std::to_string(n)), &keys = Ks.emplace_back("Ks_" + std::to_string(n));
        const std::vector<Expr> own_row = streams_ ? args({k, i}) : of_queries({k, i});
        const Expr row = streams_ ? Expr(i) : query();
        if (depth_ % lanes != 0 || partial)
            define_within(queries, own_row, at < depth_ && row < queries_,
                          q(q_at(min(at, depth_ - 1), min(row, queries_ - 1))));
        else
            define(queries, own_row, q(q_at(at, row)));
        if (depth_ % lanes != 0 || partial_keys)
            define_within(keys, of_keys({k, t}), at < depth_ && at_key < keys_,
                          key(k_at(min(at, depth_ - 1), min(at_key, keys_ - 1))));
        else
            define(keys, of_keys({k, t}), key(k_at(at, at_key)));
    }
    const Expr column_at = c * lanes + k;
    if (partial_keys || width_ % lanes != 0)
        define_within(Vs, of_keys({k, t, c}), column_at < width_ && at_key < keys_,
                      value(v_at(min(column_at, width_ - 1), min(at_key, keys_ - 1))));
    else
        define(Vs, of_keys({k, t, c}), value(v_at(column_at, at_key)));
    // V^T: its rows as weights and those of the identity through them; then columns of ones.
    identity(k, w) = select(k == w, bf16(1.0f), bf16(0.0f));
    define(turn.weights, of_keys({k, w, c, tt}), Vs(of_keys({k, tt * lanes + w, c})));
    define(turn.part, of_keys({k, d, tt}), 0.0f);
    turn.part(of_keys({k, d, tt})) += f32(identity(r, d % lanes)) * f32(turn.weights(of_keys({r, k, d / lanes, tt})));
    if (turns_all_) {
        define(Vt, of_keys({k, d, tt}), bf16(turn.part(of_keys({k, d, tt}))));
    } else {
        define(Vt, of_keys({k, d, tt}), undef<BFloat>());
        Vt(of_keys({k, columns, tt})) = bf16(turn.part(of_keys({k, columns, tt})));
    }
    if (has_ones()) Vt(of_keys({k, beyond, tt})) = bf16(1.0f);
    if (shape_.mask) {
        const Expr column = key_at(tt * lanes + k);
        if (partial_keys || partial)
            define_within(Ms, of_mask({k, i, tt}), column < keys_ && query() < queries_,
                          mask(mask_args(batch_, {min(column, keys_ - 1), min(query(), queries_ - 1)})));
        else
            define(Ms, of_mask({k, i, tt}), mask(mask_args(batch_, {column, query()})));
    }
}

// What is added to scores: 0 where query i sees the key, else minus infinity.
void AttentionPipeline::define_penalties() {
    const Expr hidden = bf16(-infinity), seen = bf16(0.0f);
    behind(j) = select(j < keys_ % lanes, seen, hidden);
    // By the distance of the query from the first key of a tile.
    if (hides_diagonal()) {
        later(j, o) = select(j <= o, seen, hidden);
        return;
    }
    define(later, {j, o}, undef<BFloat>());
    later(j, diagonal) = select(j <= diagonal, seen, hidden);
    if (hidden_rows_ > 0) later(j, before) = hidden;
    if (seen_rows_ > 0) later(j, after) = seen;
}

Expr AttentionPipeline::scaled(const Expr &score) const {
    return shape_.scale == 1 ? score : strict_float(score * bf16(static_cast<float>(shape_.scale)));
}

void AttentionPipeline::define_scores() {
    define_penalties();
    if (streams_) return define_streamed_scores();
    where_seen(scored, scored.x);
    define(X, own({j, i, tt}), undef<BFloat>());
    // The sum over the depth, a tile of it after the other and the first without an addition; the last may also scale and hide.
    const std::vector<Expr> at = own({j, i, scored});
    for (int n = 0; n < depth_tiles_; n++) {
        Dot &dot = scores_.emplace_back("scores_" + std::to_string(n));
        define(dot.weights, own({k, w, tt}), Ks[n](of_keys({k, tt * lanes + w})));
        define(dot.part, own({j, i, tt}), 0.0f);
        dot.part(own({j, i, tt})) += f32(Qs[n](of_queries({r, i}))) * f32(dot.weights(own({r, j, tt})));
        Expr score = row_of(dot, {j, i, tt}, {j, i, scored});
        if (n > 0) score = strict_float(X(at) + score);
        if (n + 1 == depth_tiles_) {
            if (!scales_late_ && !shape_.mask) score = scaled(score);
            if (shape_.causal && !skips_) score = strict_float(score + later(j, query() - scored * lanes));
        }
        X(at) = score;
    }
    // In a loop of its own: with the product it would not fit the instruction cache.
    if (shape_.mask) X(at) = strict_float(scaled(X(at)) + Ms(of_mask({j, i, scored})));
    // Where hidden tiles are left out, what is behind the last key is later than every query. Of several blocks of keys only
    // one hides some.
    if (hides_end() && !whole_rows_) {
        if (key_blocks_ > 1) ending.where(ending.x < kb - (key_blocks_ - 2));
        const std::vector<Expr> last =
            own({j, i, static_cast<int>(tiles_of(keys_)) - 1 - (key_blocks_ - 1) * key_tiles_ + ending.x});
        X(last) = strict_float(X(last) + behind(j));
    }
    // Of the last tiles of a block its first queries see nothing, and those behind them a key more each.
    if (hides_diagonal()) {
        for (RDom *tiles : {&unseen, &last_seen})
            if (key_blocks_ > 1) tiles->where(tiles->y < (kb - ig + 1) * diagonal_tiles_);
        unseen.where(unseen.x < unseen.y * lanes);
        X(own({j, unseen.x, ib * diagonal_tiles_ + unseen.y})) = bf16(-infinity);
        const std::vector<Expr> diagonal_at = own({j, last_seen.y * lanes + last_seen.x, ib * diagonal_tiles_ + last_seen.y});
        X(diagonal_at) = strict_float(X(diagonal_at) + later(j, last_seen.x));
    }
}

// All queries that see some key of a tile pass behind each other.
void AttentionPipeline::define_streamed_scores() {
    define(X, args({j, i, tt}), undef<BFloat>());
    const Expr row = streamed[1] * passing_rows_ + streamed[0], tile = streamed[2];
    if (skips_) streamed.where(streamed[1] >= min(tile, rows_ * blocks_ / lanes - 2));
    for (int n = 0; n < depth_tiles_; n++) {
        Dot &dot = scores_.emplace_back("scores_" + std::to_string(n));
        define(dot.weights, args({k, w, tt}), Ks[n](of_keys({k, tt * lanes + w})));
        define(dot.part, args({j, i, tt}), 0.0f);
        dot.part(args({j, i, tt})) += f32(Qs[n](args({r, i}))) * f32(dot.weights(args({r, j, tt})));
        // Sums that are not the last have rows of their own, a round of the pads in straight-line code wherever those of X are;
        // in X where not all queries see a tile.
        const bool last = n + 1 == depth_tiles_, in_scores = last || skips_;
        const std::vector<Expr> at = in_scores ? args({j, row, tile}) : args({j, i, tt});
        Expr score = bf16(dot.part(at));
        if (n > 0) score = strict_float((skips_ ? X : scored_before.back())(at) + score);
        if (last && !scales_late_) score = scaled(score);
        if (in_scores)
            X(at) = score;
        else
            define(scored_before.emplace_back("scored_before_" + std::to_string(n)), at, score);
    }
    if (whole_rows_ && skips_) {
        not_reached.where(not_reached.x < not_reached.y * lanes);
        X(args({j, not_reached.x, not_reached.y})) = bf16(-infinity);
        const std::vector<Expr> diagonal_at = args({j, on_diagonal.y * lanes + on_diagonal.x, on_diagonal.y});
        X(diagonal_at) = strict_float(X(diagonal_at) + later(j, on_diagonal.x));
    }
    if (!hides_end() || whole_rows_) return;
    const std::vector<Expr> at = args({j, ending.y * passing_rows_ + ending.x, key_tiles_ - 1});
    X(at) = strict_float(X(at) + behind(j));
}

void AttentionPipeline::define_inverse(Func inverse, const std::vector<Expr> &row, const Expr &sum) const {
    // At least 1, since the largest score gives exp(0), or 0 where a mask hides all keys.
    define(std::move(inverse), row,
           bf16(machine_rcp(shape_.mask ? select(strict_float(sum < bf16(1.0f)), bf16(1.0f), sum) : sum)));
}

void AttentionPipeline::add_group(const Expr &step, const Expr &group, const Expr &tile, const Func &values, Dot &dot,
                                  const std::vector<Expr> &sums, bool accumulates) {
    define(dot.weights, of_rows({k, w, o, tt}), undef<BFloat>());
    dot.weights(of_rows({k, in_group, o, tt})) = values(of_rows({k, o * summed_rows_ + (summed_rows_ - 1 - in_group), tt}));
    define(dot.part, of_rows({j, o, tt}), 0.0f);
    dot.part(of_rows({j, o, tt})) += f32(dot.weights(of_rows({r, j, o, tt})));
    // A step between the array and what a condition leaves out.
    define(dot.rounded, of_rows({j, o, tt}), bf16(dot.part(of_rows({j, o, tt}))));
    const Expr is_row = step < summed_rows_, row = group * summed_rows_ + min(step, summed_rows_ - 1),
               sum = dot.rounded(of_rows({j, group, tile}));
    p(of_rows({j, select(is_row, row, sums[0]), select(is_row, tile, sums[1])})) = select(
        is_row, values(of_rows({j, row, tile})), accumulates ? strict_float(p(of_rows({j, sums[0], sums[1]})) + sum) : sum);
}

void AttentionPipeline::define_sums() {
    where_seen(summed, summed.x);
    define(pv.weights, own({k, w, c, tt}), Vt(of_keys({k, c * lanes + w, tt})));
    define(pv.part, own({d, i, c, tt}), 0.0f);
    pv.part(own({d, i, c, tt})) += f32(p(of_block_rows({r, i, tt}))) * f32(pv.weights(own({r, d, c, tt})));
    define(sums, own({d, i, c}), bf16(-0.0f));
    sums(own({d, i, c})) = strict_float(sums(own({d, i, c})) + row_of(pv, {d, i, c, tt}, {d, i, c, summed}));
}

void AttentionPipeline::define_out() {
    std::vector<Expr> at = args({d % lanes, i % rows_, d / lanes});
    if (key_blocks_ > 1)
        at.insert(at.end(), {i / rows_ % blocks_, i / (rows_ * blocks_)});
    else
        at.push_back(i / rows_);
    define(out, batch_.tensor_args(d, i, nullptr, shape_.inside('o')), Y(at));
}

// ---- the schedule

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
int AttentionPipeline::most_hidden_rows() const {
    if (!skips_) return lanes * key_tiles_;
    int64_t most = 0;
    for (int64_t block = 0; block < blocks_; block++)
        most = std::max(most, (shape_.tiles_seen(rows_, block) - 1) * lanes - block * rows_);
    return static_cast<int>(most);
}
int AttentionPipeline::most_seen_rows() const {
    if (!skips_) return static_cast<int>(ceil_div(queries_, rows_)) * rows_ - lanes;
    int64_t last = 0;
    for (int64_t block = 0; block < blocks_; block++)
        for (int64_t tile = 0; tile < shape_.tiles_seen(rows_, block); tile++)
            if (const int64_t first = block * rows_ - tile * lanes; first < lanes - 1) last = std::max(last, first + rows_);
    return static_cast<int>(last) - lanes;
}
int AttentionPipeline::stored_rows() const {
    const int quantum = static_cast<int>(machine_.pad.count);
    return (rows_ + quantum - 1) / quantum * quantum;
}

}  // namespace atalla
