// What the forms of attention compute alike.
#include <algorithm>

#include "generators/attention_pipeline.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

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
                          q(tensor_args(shape_, batch_, 'q', min(at, depth_ - 1), min(row, queries_ - 1))));
        else
            define(queries, own_row, q(tensor_args(shape_, batch_, 'q', at, row)));
        if (depth_ % lanes != 0 || partial_keys)
            define_within(keys, of_keys({k, t}), at < depth_ && at_key < keys_,
                          key(tensor_args(shape_, batch_, 'k', min(at, depth_ - 1), min(at_key, keys_ - 1))));
        else
            define(keys, of_keys({k, t}), key(tensor_args(shape_, batch_, 'k', at, at_key)));
    }
    const Expr column_at = c * lanes + k;
    if (partial_keys || width_ % lanes != 0)
        define_within(Vs, of_keys({k, t, c}), column_at < width_ && at_key < keys_,
                      value(tensor_args(shape_, batch_, 'v', min(column_at, width_ - 1), min(at_key, keys_ - 1))));
    else
        define(Vs, of_keys({k, t, c}), value(tensor_args(shape_, batch_, 'v', column_at, at_key)));
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
    define(out, tensor_args(shape_, batch_, 'o', d, i), Y(at));
}

}  // namespace atalla
