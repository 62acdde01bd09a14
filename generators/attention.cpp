#include "generators/attention.h"

#include <algorithm>
#include <optional>
#include <string>

#include "generators/batch_vars.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// The lowest bf16 number: where the largest score of a row starts.
constexpr float lowest = -0x1.FEp127f;

std::vector<int64_t> with_batch(int64_t element, int64_t rows, const std::vector<AttentionBatch> &batch, bool AttentionBatch::*has, size_t inside) {
    std::vector<int64_t> extents = {element};
    for (size_t d = 0; d <= batch.size(); d++) {
        if (d == std::min(inside, batch.size())) extents.push_back(rows);
        if (d == batch.size()) break;
        const AttentionBatch &dim = batch[batch.size() - 1 - d];
        if (has == nullptr || dim.*has) extents.push_back(dim.extent);
    }
    return extents;
}

}  // namespace

int64_t AttentionShape::problems() const {
    int64_t n = 1;
    for (const AttentionBatch &dim : batch) n *= dim.extent;
    return n;
}
std::vector<int64_t> AttentionShape::q_extents() const { return with_batch(depth, queries, batch, nullptr, inside('q')); }
std::vector<int64_t> AttentionShape::k_extents() const { return with_batch(depth, keys, batch, &AttentionBatch::keys, inside('k')); }
std::vector<int64_t> AttentionShape::v_extents() const { return with_batch(width, keys, batch, &AttentionBatch::keys, inside('v')); }
std::vector<int64_t> AttentionShape::mask_extents() const { return with_batch(keys, queries, batch, &AttentionBatch::mask, 0); }
std::vector<int64_t> AttentionShape::out_extents() const { return with_batch(width, queries, batch, nullptr, inside('o')); }

namespace {

// A matrix product inside the pipeline: one k tile after the other, weights loaded outside the rows.
struct Dot {
    Func weights, part, rounded;

    explicit Dot(const std::string &name) : weights(name + "_weights"), part(name + "_part"), rounded(name + "_rounded") {}
};

class AttentionPipeline {
public:
    AttentionPipeline(const AttentionShape &shape, const Machine &machine, const Point &point)
        : shape_(shape), machine_(machine), point_(point), queries_(static_cast<int>(shape.queries)), keys_(static_cast<int>(shape.keys)),
          depth_(static_cast<int>(shape.depth)), width_(static_cast<int>(shape.width)), key_tiles_(static_cast<int>(tiles_of(shape.keys))), depth_tiles_(static_cast<int>(tiles_of(shape.depth))),
          width_tiles_(static_cast<int>(shape.width_tiles())), rows_(static_cast<int>(std::min<int64_t>(point["row_unroll"], shape.queries))),
          blocks_(static_cast<int>(std::max<int64_t>(1, point["rows"] / rows_))), turn_unroll_(static_cast<int>(point["weight_unroll"])),
          softmax_unroll_(static_cast<int>(std::min<int64_t>(point["softmax_unroll"], rows_))), heads_(static_cast<int>(point["heads"])), whole_rows_(shape.whole_rows()), skips_(shape.skips_hidden(rows_)) {
    }

    KernelDefinition build() {
        define_operands();
        define_scores();
        define_result();
        schedule();
        return attention_kernel(shape_, Pipeline(out), {q, key, value, mask});
    }

private:
    std::vector<Expr> args(std::vector<Expr> own, bool AttentionBatch::*has = nullptr) const { return batch_.args(std::move(own), has); }
    // Where an element of a row of the tensors is.
    std::vector<Expr> q_at(const Expr &element, const Expr &row) const { return batch_.tensor_args(element, row, nullptr, shape_.inside('q')); }
    std::vector<Expr> k_at(const Expr &element, const Expr &row) const { return batch_.tensor_args(element, row, &AttentionBatch::keys, shape_.inside('k')); }
    std::vector<Expr> v_at(const Expr &element, const Expr &row) const { return batch_.tensor_args(element, row, &AttentionBatch::keys, shape_.inside('v')); }
    // Of what is computed from keys and values alone.
    std::vector<Expr> of_keys(std::vector<Expr> own) const { return args(std::move(own), &AttentionBatch::keys); }
    // Of the rows of the mask for a block of queries: problems may share them.
    std::vector<Expr> of_mask(std::vector<Expr> own) const {
        std::vector<Expr> all = args(std::move(own), &AttentionBatch::mask);
        all.push_back(ib);
        return all;
    }
    // Of what each block of queries of each problem has its own.
    std::vector<Expr> own(std::vector<Expr> first) const {
        std::vector<Expr> all = args(std::move(first));
        all.push_back(ib);
        return all;
    }
    Expr query() const { return ib * rows_ + i; }
    // Does a query of the block see a key of the tile?
    Expr seen(const Expr &tile) const { return tile < (ib + 1) * diagonal_tiles_; }

    void define_operands() {
        const bool partial = queries_ % rows_ != 0;
        for (int n = 0; n < depth_tiles_; n++) {
            const Expr at = n * lanes + k;
            const Func &queries = Qs.emplace_back("Qs_" + std::to_string(n)), &keys = Ks.emplace_back("Ks_" + std::to_string(n));
            if (depth_ % lanes != 0 || partial)
                define_within(queries, own({k, i}), at < depth_ && query() < queries_, q(q_at(min(at, depth_ - 1), min(query(), queries_ - 1))));
            else define(queries, own({k, i}), q(q_at(at, query())));
            if (depth_ % lanes != 0 || keys_ % lanes != 0)
                define_within(keys, of_keys({k, t}), at < depth_ && t < keys_, key(k_at(min(at, depth_ - 1), min(t, keys_ - 1))));
            else define(keys, of_keys({k, t}), key(k_at(at, t)));
        }
        const Expr column_at = c * lanes + k;
        if (keys_ % lanes != 0 || width_ % lanes != 0)
            define_within(Vs, of_keys({k, t, c}), column_at < width_ && t < keys_, value(v_at(min(column_at, width_ - 1), min(t, keys_ - 1))));
        else define(Vs, of_keys({k, t, c}), value(v_at(column_at, t)));
        // V^T: its rows as weights and those of the identity through them; then columns of ones.
        identity(k, w) = select(k == w, bf16(1.0f), bf16(0.0f));
        define(turn.weights, of_keys({k, w, c, tt}), Vs(of_keys({k, tt * lanes + w, c})));
        define(turn.part, of_keys({k, d, tt}), 0.0f);
        turn.part(of_keys({k, d, tt})) += f32(identity(r, d % lanes)) * f32(turn.weights(of_keys({r, k, d / lanes, tt})));
        define(Vt, of_keys({k, d, tt}), undef<BFloat>());
        Vt(of_keys({k, columns, tt})) = bf16(turn.part(of_keys({k, columns, tt})));
        if (!whole_rows_) Vt(of_keys({k, beyond, tt})) = bf16(1.0f);
        if (shape_.mask) {
            const Expr column = tt * lanes + k;
            if (keys_ % lanes != 0 || partial)
                define_within(Ms, of_mask({k, i, tt}), column < keys_ && query() < queries_, mask(args({min(column, keys_ - 1), min(query(), queries_ - 1)}, &AttentionBatch::mask)));
            else define(Ms, of_mask({k, i, tt}), mask(args({column, query()}, &AttentionBatch::mask)));
        }
    }

    // A row of a product. Where some are left out, a step between them and what reads them keeps the condition away from the array.
    Expr row_of(Dot &dot, const std::vector<Expr> &place, const std::vector<Expr> &at) const {
        if (!skips_) return bf16(dot.part(own(at)));
        if (!dot.rounded.defined()) define(dot.rounded, own(place), bf16(dot.part(own(place))));
        return dot.rounded(own(at));
    }

    // What is added to scores: 0 where query i sees the key, else minus infinity.
    void define_penalties() {
        const Expr hidden = bf16(-infinity), seen = bf16(0.0f);
        behind(j) = select(j < keys_ % lanes, seen, hidden);
        // By the distance of the query from the first key of a tile.
        later(j, o) = seen;
        later(j, before) = hidden;
        later(j, diagonal) = select(j <= diagonal, seen, hidden);
    }

    Expr scaled(const Expr &score) const { return shape_.scale == 1 ? score : strict_float(score * bf16(static_cast<float>(shape_.scale))); }

    void define_scores() {
        define_penalties();
        if (skips_)
            for (RDom *tiles : {&scored, &tile, &visible, &summed}) tiles->where(seen(tiles->x));
        define(X, own({j, i, tt}), undef<BFloat>());
        // The sum over the depth, a tile of it after the other and the first without an addition; the last may also scale and hide.
        const std::vector<Expr> at = own({j, i, scored});
        for (int n = 0; n < depth_tiles_; n++) {
            Dot &dot = scores_.emplace_back("scores_" + std::to_string(n));
            define(dot.weights, own({k, w, tt}), Ks[n](of_keys({k, tt * lanes + w})));
            define(dot.part, own({j, i, tt}), 0.0f);
            dot.part(own({j, i, tt})) += f32(Qs[n](own({r, i}))) * f32(dot.weights(own({r, j, tt})));
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
        // Where hidden tiles are left out, whole rows hide what is behind the last key with what is later than the query.
        if (hides_end()) {
            const std::vector<Expr> last = own({j, i, key_tiles_ - 1});
            X(last) = strict_float(X(last) + behind(j));
        }
        if (skips_ && !whole_rows_) {
            const std::vector<Expr> at_end = own({j, i, ib * diagonal_tiles_ + last_seen});
            X(at_end) = strict_float(X(at_end) + later(j, i - last_seen * lanes));
        }
        if (whole_rows_) define_whole_rows();
        else define_rows_by_tiles();
    }

    bool hides_end() const { return keys_ % lanes != 0 && !(skips_ && whole_rows_); }

    // Two and two of them joined, until one is left: the fewest steps that wait for each other. The last ones may be undefined: they would change
    // nothing.
    static Expr tree(std::vector<Expr> all, Expr (*join)(Expr, Expr)) {
        while (all.size() > 1) {
            const size_t half = (all.size() + 1) / 2;
            for (size_t n = 0; n < all.size() / 2; n++)
                if (all[half + n].defined()) all[n] = join(all[n], all[half + n]);
            all.resize(half);
        }
        return all[0];
    }
    static Expr larger(Expr a, Expr b) { return strict_float(max(std::move(a), std::move(b))); }
    static Expr added(Expr a, Expr b) { return strict_float(std::move(a) + std::move(b)); }

    // The softmax of rows that see so many tiles: of all blocks, or of one where hidden tiles are left out.
    struct WholeRows {
        int tiles, unroll;
        RDom tile;
        Func scores, largest_lanes, largest, M, E, sum_lanes, total_part, total, inverse, ones;

        WholeRows(const std::string &name, int tiles, int unroll)
            : tiles(tiles), unroll(unroll), tile(0, tiles, "tile" + name), scores("scores" + name), largest_lanes("largest_lanes" + name), largest("largest" + name), M("M" + name), E("E" + name),
              sum_lanes("sum_lanes" + name), total_part("total_part" + name), total("total" + name), inverse("inverse" + name), ones("ones" + name) {}
    };

    void define_whole_rows() {
        define(p, own({j, i, tt}), undef<BFloat>());
        if (!skips_) {
            define_whole_rows(whole_.emplace_back("", key_tiles_, softmax_unroll_), std::nullopt);
            return;
        }
        for (int block = 0; block < blocks_; block++) {
            const int tiles = static_cast<int>(shape_.tiles_seen(rows_, block));
            // As many vectors of scores as where all tiles are seen.
            int unroll = softmax_unroll_;
            while (rows_ % (2 * unroll) == 0 && 2 * unroll * tiles <= softmax_unroll_ * key_tiles_) unroll *= 2;
            define_whole_rows(whole_.emplace_back("_" + std::to_string(block), tiles, unroll), block);
        }
    }
    // Of all blocks, or of the one that is given.
    void define_whole_rows(WholeRows &rows, std::optional<int> block) {
        const auto at = [&](const Expr &tile) {
            std::vector<Expr> all = args({j, i, tile});
            all.push_back(block ? Expr(*block) : ib);
            return all;
        };
        const auto of_row = [&](std::vector<Expr> first) {
            std::vector<Expr> all = args(std::move(first));
            if (!block) all.push_back(ib);
            return all;
        };
        if (block) {
            define(rows.scores, of_row({j, i, tt}), undef<BFloat>());
            for (int n = 0; n < rows.tiles; n++) {
                const int first = *block * rows_ - n * lanes;   // query of the block, counted from the first key of the tile
                const Expr score = X(at(n));
                rows.scores(of_row({j, i, n})) = first >= lanes - 1 ? score : strict_float(score + later(j, i + first));
            }
        }
        const auto score = [&](const Expr &tile) { return block ? rows.scores(of_row({j, i, tile})) : X(at(tile)); };
        std::vector<Expr> scores(static_cast<size_t>(key_tiles_)), weights(scores.size());
        for (int n = 0; n < rows.tiles; n++) scores[static_cast<size_t>(n)] = score(n);
        define(rows.largest_lanes, of_row({j, i}), tree(scores, larger));
        // In float32, which Halide's JIT has a maximum of. Where a mask hides all keys, no distance from the largest score would be a number.
        define(rows.largest, of_row({i}), shape_.mask ? lowest : -infinity);
        rows.largest(of_row({i})) = max(rows.largest(of_row({i})), f32(rows.largest_lanes(of_row({r, i}))));
        define(rows.M, of_row({j, i}), bf16(rows.largest(of_row({i}))));
        const Expr distance = strict_float(score(tt) - rows.M(of_row({j, i})));
        define(rows.E, of_row({j, i, tt}), machine_exp(scales_late_ ? scaled(distance) : distance));
        for (int n = 0; n < rows.tiles; n++) weights[static_cast<size_t>(n)] = rows.E(of_row({j, i, n}));
        define(rows.sum_lanes, of_row({j, i}), tree(weights, added));
        rows.ones(k, w) = bf16(1.0f);
        define(rows.total_part, of_row({j, i}), 0.0f);
        rows.total_part(of_row({j, i})) += f32(rows.sum_lanes(of_row({r, i}))) * f32(rows.ones(r, j));
        define(rows.total, of_row({j, i}), bf16(rows.total_part(of_row({j, i}))));
        define_inverse(rows.inverse, of_row({i}), rows.total(of_row({0, i})));
        const RVar &tile = rows.tile.x;
        p(at(tile)) = strict_float(rows.E(of_row({j, i, tile})) * rows.inverse(of_row({i})));
    }
    void define_inverse(Func inverse, const std::vector<Expr> &row, const Expr &sum) {
        // At least 1, since the largest score gives exp(0), or 0 where a mask hides all keys.
        define(std::move(inverse), row, bf16(machine_rcp(shape_.mask ? select(strict_float(sum < bf16(1.0f)), bf16(1.0f), sum) : sum)));
    }

    void define_rows_by_tiles() {
        // In float32, which Halide's JIT has a maximum of.
        define(largest_lanes, own({j, i}), lowest);
        // No max(), whose second operand is the result where they are alike or not comparable: here the register keeps its value then.
        const Expr score = f32(X(own({j, i, tile}))), largest_yet = largest_lanes(own({j, i}));
        largest_lanes(own({j, i})) = select(strict_float(score > largest_yet), score, largest_yet);
        define(largest, own({i}), -infinity);
        largest(own({i})) = max(largest(own({i})), largest_lanes(own({r, i})));
        define(M, own({j, i}), bf16(largest(own({i}))));
        define(p, own({j, i, tt}), undef<BFloat>());
        const Expr distance = strict_float(X(own({j, i, visible})) - M(own({j, i})));
        p(own({j, i, visible})) = machine_exp(scales_late_ ? scaled(distance) : distance);
    }

    void define_result() {
        define(pv.weights, own({k, w, c, tt}), Vt(of_keys({k, c * lanes + w, tt})));
        define(pv.part, own({d, i, c, tt}), 0.0f);
        pv.part(own({d, i, c, tt})) += f32(p(own({r, i, tt}))) * f32(pv.weights(own({r, d, c, tt})));
        define(sums, own({d, i, c}), bf16(-0.0f));
        sums(own({d, i, c})) = strict_float(sums(own({d, i, c})) + row_of(pv, {d, i, c, tt}, {d, i, c, summed}));
        if (whole_rows_) {
            define(Y, own({d, i, c}), sums(own({d, i, c})));
        } else {
            define(O, own({d, i, c}), sums(own({d, i, c})));
            define_inverse(inverse, own({i}), O(own({width_ % lanes, i, width_ / lanes})));
            define(Y, own({d, i, c}), strict_float(O(own({d, i, c})) * inverse(own({i}))));
        }
        std::vector<Expr> at = args({d % lanes, i % rows_, d / lanes});
        at.push_back(i / rows_);
        define(out, batch_.tensor_args(d, i, nullptr, shape_.inside('o')), Y(at));
    }

    // The weights of a product are loaded at `level` of `consumer`, whose innermost loop over rows is `row`.
    void schedule_dot(Dot &dot, Func consumer, const VarOrRVar &level, const VarOrRVar &row, const Var &lane, int unroll) {
        dot.weights.compute_at(LoopLevel(consumer, level)).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        if (unroll > 1) dot.weights.split(w, w, wi, unroll);
        dot.part.compute_at(LoopLevel(consumer, row)).vectorize(lane, lanes).update().reorder(r, lane).atomic().vectorize(lane, lanes).vectorize(r);
        in_registers({dot.weights, dot.part});
        if (!dot.rounded.defined()) return;
        dot.rounded.compute_at(LoopLevel(consumer, row)).vectorize(lane, lanes);
        in_registers({dot.rounded});
    }
    // Rows of a block in groups, each group straight-line code.
    template <class Scheduled>
    void in_groups(Scheduled f, int unroll, const Var &lane, std::vector<VarOrRVar> inside, const std::vector<VarOrRVar> &outside) const {
        std::vector<VarOrRVar> order = {lane};
        f.split(i, i, iu, unroll);
        order.insert(order.end(), inside.begin(), inside.end());
        order.push_back(i);
        order.insert(order.end(), outside.begin(), outside.end());
        f.reorder(order).vectorize(lane, lanes);
    }

    void schedule() {
        out.bound(d, 0, width_).bound(i, 0, queries_);
        Var io("io"), ob("ob"), lane("lane"), column("column"), head("head");
        out.split(d, column, lane, lanes, TailStrategy::GuardWithIf).split(i, ob, ii, rows_, TailStrategy::GuardWithIf).split(ob, io, ob, blocks_, TailStrategy::GuardWithIf);
        std::vector<VarOrRVar> order = {lane, ii, column, ob};
        if (heads_ > 1) {
            out.split(batch_.var(0), batch_.var(0), head, heads_, TailStrategy::GuardWithIf);
            order.push_back(head);
        }
        order.push_back(io);
        batch_.add_loops(out, order);
        out.reorder(order);
        whole_loops(out);
        fix_shape(out.output_buffer(), shape_.out_extents());

        const auto of_heads = [&](Func f, bool AttentionBatch::*has = nullptr) {
            if (heads_ > 1 && (has == nullptr || batch_.dim(0).*has)) f.bound_extent(batch_.var(0), heads_);
        };
        const auto at_block = [&](Func f, bool AttentionBatch::*has = nullptr) {
            f.compute_at(out, io).bound_extent(i, rows_).bound_storage(i, stored_rows()).bound_extent(ib, blocks_);
            of_heads(f, has);
        };
        const bool beside = machine_.timed() && shape_.streams(rows_, blocks_);
        const auto at_block_beside = [&](Func f) {
            at_block(f);
            if (beside) f.hoist_storage_root().ring_buffer(2);
        };
        const int key_rows = key_tiles_ * lanes;
        // Keys and values stay for all queries of a head.
        const auto at_head = [&](Func f) {
            for (size_t b = 0; b < batch_.size(); b++)
                if (batch_.dim(b).keys) {
                    f.compute_at(out, batch_.var(b));
                    return;
                }
            f.compute_root();
        };
        const bool heads_come = shape_.comes_by_heads(machine_, heads_);
        // The storage is inside the loop over groups of heads: from outside, turns of the ring would not be counted linearly.
        const auto at_scores = [&](Func f, const Var &loop) { f.compute_at(X, loop).hoist_storage(out, io).ring_buffer(2); };
        // A row in each pad, so that rows come as fast as the array takes them.
        identity.compute_root().bound(k, 0, lanes).bound(w, 0, lanes).vectorize(k, lanes).split(w, w, wi, static_cast<int>(machine_.pad.count));
        for (Func f : Ks) {
            if (heads_come) {
                at_scores(f, batch_.var(0));
            } else {
                at_head(f);
                of_heads(f, &AttentionBatch::keys);
            }
            f.vectorize(k, lanes).bound_extent(t, key_rows);
        }
        // Where all queries of some heads are together, values come while their scores are computed.
        if (heads_ > 1) Vt.compute_at(out, io);
        else at_head(Vt);
        of_heads(Vt, &AttentionBatch::keys);
        // Values come while those before them are turned: of the next head, or of the next tile of keys where all tiles are alike.
        const bool in_tiles = keys_ % lanes == 0 && width_ % lanes == 0 && key_tiles_ > 1 && machine_.timed() && !heads_come;
        if (heads_come) Vs.compute_at(Vt, batch_.var(0)).hoist_storage(out, io).ring_buffer(2);
        else if (in_tiles) Vs.compute_at(Vt, tt).hoist_storage_root().ring_buffer(2);
        else at_head(Vs);
        Vs.vectorize(k, lanes).bound_extent(t, in_tiles ? lanes : key_rows).bound_extent(c, tiles_of(width_));
        Vt.vectorize(k, lanes).bound_extent(d, width_tiles_ * lanes).bound_extent(tt, key_tiles_);
        Vt.update().split(columns.x, co, ci, lanes, TailStrategy::GuardWithIf);
        const bool whole_tiles = width_ % lanes == 0;
        if (whole_tiles) Vt.update().split(ci, ci, cu, turn_unroll_);
        std::vector<VarOrRVar> turned = {k, ci};
        if (whole_tiles) turned.insert(turned.begin() + 1, cu);
        if (heads_come) turned.insert(turned.end(), {tt, co});
        else turned.insert(turned.end(), {co, tt});
        Vt.update().reorder(turned).vectorize(k, lanes);
        schedule_dot(turn, Vt, heads_come ? VarOrRVar(tt) : VarOrRVar(co), whole_tiles ? cu : ci, k, turn_unroll_);
        if (!whole_rows_) Vt.update(1).vectorize(k, lanes);

        for (Func f : Qs) {
            f.vectorize(k, lanes);
            if (heads_come) {
                // By blocks where these are alike.
                const bool alike = queries_ % rows_ == 0;
                at_scores(f, alike ? ib : batch_.var(0));
                f.bound_extent(i, rows_).bound_storage(i, stored_rows());
                if (!alike) f.bound_extent(ib, blocks_);
            } else {
                at_block_beside(f);
            }
        }
        if (shape_.mask) {
            Ms.vectorize(k, lanes);
            at_block(Ms, &AttentionBatch::mask);
            in_pads({Ms});
        }
        // A visit of the array, weights and the rows of a block, is an iteration of a loop over tiles.
        at_block(X);
        X.bound_extent(tt, key_tiles_);
        int update = 0;
        for (Dot &dot : scores_) {
            std::vector<VarOrRVar> loops = {j, iu, scored.x, ib};
            if (heads_ > 1) loops.push_back(batch_.var(0));
            X.update(update++).rename(i, iu).reorder(loops).vectorize(j, lanes);
            schedule_dot(dot, X, scored.x, iu, j, lanes);
        }
        if (shape_.mask) in_groups(X.update(update++), softmax_unroll_, j, {iu}, {scored.x, ib});
        if (hides_end()) {
            in_groups(X.update(update++), lane_rows(), j, {iu}, {ib});
            behind.compute_root().bound(j, 0, lanes).vectorize(j, lanes);
            in_pads({behind});
        }
        if (skips_ && !whole_rows_) in_groups(X.update(update++), lane_rows(), j, {iu}, {last_seen.x, ib});
        if (shape_.causal) {
            later.compute_root().bound(j, 0, lanes).vectorize(j, lanes);
            for (int u = 0; u < 2; u++) later.update(u).vectorize(j, lanes);
            in_pads({later});
        }

        at_block(p);
        p.bound_extent(tt, key_tiles_);
        if (whole_rows_) schedule_whole_rows();
        else schedule_rows_by_tiles();

        // Without quotients the sums are what is asked for.
        Func result = whole_rows_ ? Y : O;
        if (shape_.leaves_by_heads(machine_, heads_)) {
            Y.compute_at(out, head).bound_extent(i, rows_).bound_storage(i, stored_rows()).bound_extent(ib, blocks_);
            // All queries of a head in a row, so that few transfers bring them away.
            Y.hoist_storage_root().ring_buffer(2).reorder_storage(d, i, ib, c);
        } else if (whole_rows_) {
            at_block_beside(Y);
        } else {
            at_block(O);
        }
        result.reorder(d, i, c, ib).vectorize(d, lanes);
        sums.compute_at(result, c).bound_extent(i, rows_).vectorize(d, lanes);
        sums.update().rename(i, iu).reorder(d, iu, summed.x, c, ib).vectorize(d, lanes);
        schedule_dot(pv, sums, summed.x, iu, d, lanes);
        if (!whole_rows_) {
            at_block_beside(Y);
            // Reciprocals follow each other on the scalar unit: more rows in straight-line code would be no faster.
            constexpr int reciprocals = 8;
            in_groups(Y, std::min(reciprocals, softmax_unroll_), d, {c, iu}, {ib});
            Y.bound_extent(c, tiles_of(width_)).unroll(c);
            inverse.compute_at(Y, iu);
            in_pads({O});
        }
        for (int n = 0; n < depth_tiles_; n++) in_pads({Qs[n], Ks[n]});
        in_pads({Vs, Vt, identity, X, p, Y});
        in_registers({sums});
    }

    // The softmax of some rows, in registers.
    void schedule_whole_rows() {
        Var all("all_rows");
        for (size_t n = 0; n < whole_.size(); n++) {
            WholeRows &rows = whole_[n];
            std::vector<VarOrRVar> outside = {all};
            if (heads_ > 1) outside.insert(outside.begin(), batch_.var(0));
            if (!skips_) outside.insert(outside.begin(), ib);
            Stage update = p.update(static_cast<int>(n));
            update.split(i, all, i, rows_);
            in_groups(update, rows.unroll, j, {rows.tile.x, iu}, outside);
            const LoopLevel row(p, iu);
            for (Func f : {rows.largest_lanes, rows.M, rows.E, rows.sum_lanes, rows.total_part, rows.total}) f.compute_at(row).bound_extent(j, lanes).vectorize(j, lanes);
            rows.total_part.update().reorder(r, j).atomic().vectorize(j, lanes).vectorize(r);
            rows.largest.compute_at(row).update().atomic().vectorize(r);
            rows.inverse.compute_at(row);
            rows.ones.compute_at(p, all).bound(k, 0, lanes).bound(w, 0, lanes).vectorize(k, lanes);
            in_registers({rows.largest_lanes, rows.largest, rows.M, rows.E, rows.sum_lanes, rows.total_part, rows.total, rows.inverse, rows.ones});
            if (!skips_) continue;
            rows.scores.compute_at(row).bound_extent(j, lanes).vectorize(j, lanes);
            for (int tile = 0; tile < rows.tiles; tile++) rows.scores.update(tile).vectorize(j, lanes);
            in_registers({rows.scores});
        }
    }
    // The largest score of some rows, in registers, and p of all their tiles.
    void schedule_rows_by_tiles() {
        in_groups(p.update(), softmax_unroll_, j, {iu, visible.x}, {ib});
        M.compute_at(p, i).bound_extent(j, lanes).vectorize(j, lanes);
        largest_lanes.compute_at(p, i).vectorize(j, lanes).update().reorder(j, i, tile.x).vectorize(j, lanes);
        largest.compute_at(p, i).update().atomic().vectorize(r);
        in_registers({largest_lanes, largest, M, inverse});
    }
    // Rows in straight-line code where each takes a single lane operation: many, so that they fill its latency. Those of a single block are too
    // few to make up for what more code and row offsets cost around them.
    int lane_rows() const {
        int rows = softmax_unroll_;
        for (int more = 2 * rows; blocks_ > 1 && more <= 16; more += softmax_unroll_)
            if (rows_ % more == 0) rows = more;
        return rows;
    }
    int most_hidden_rows() const {
        if (!skips_) return lanes * key_tiles_;
        int64_t most = 0;
        for (int64_t block = 0; block < blocks_; block++) most = std::max(most, (shape_.tiles_seen(rows_, block) - 1) * lanes - block * rows_);
        return static_cast<int>(most);
    }
    int stored_rows() const {
        const int quantum = static_cast<int>(machine_.pad.count);
        return (rows_ + quantum - 1) / quantum * quantum;
    }

    const AttentionShape &shape_;
    const Machine &machine_;
    const Point &point_;
    const int queries_, keys_, depth_, width_, key_tiles_, depth_tiles_, width_tiles_;
    const int rows_, blocks_;   // queries of a block, which one load of weights serves; blocks between which Q and the scores stay
    const int turn_unroll_, softmax_unroll_;
    const int heads_;           // of the innermost dimension of the batch, which go through each step together
    const bool scales_late_ = shape_.scale > 0 && !shape_.mask;   // the distance from the largest score, where lanes have nothing else to multiply
    const bool whole_rows_;     // go through the softmax in straight-line code
    const bool skips_;          // tiles that no query of a block sees
    const int diagonal_tiles_ = static_cast<int>(ceil_div(rows_, lanes));   // of a block, some keys of which some of its queries see, where it skips
    const int hidden_rows_ = most_hidden_rows();   // by which a query is at most in front of a tile
    const BatchVars<AttentionBatch> batch_{shape_.batch};

    ImageParam q = tensor("Q", shape_.q_extents()), key = tensor("K", shape_.k_extents()), value = tensor("V", shape_.v_extents()),
               mask = tensor("mask", shape_.mask_extents());
    Var d{"d"}, i{"i"}, j{"j"}, k{"k"}, w{"w"}, c{"c"}, t{"t"}, tt{"tt"}, ii{"ii"}, iu{"i_unroll"}, ib{"ib"}, o{"o"};
    Var wi{"w_unroll"};
    RVar co{"co"}, ci{"ci"}, cu{"c_unroll"};
    Func Vs{"Vs"}, Vt{"Vt"}, Ms{"Ms"}, identity{"identity"}, behind{"behind"}, later{"later"}, X{"X"}, largest_lanes{"largest_lanes"},
        largest{"largest"}, M{"M"}, p{"p"}, sums{"sums"}, O{"O"}, inverse{"inverse"}, Y{"Y"}, out{"O_out"};
    std::vector<Func> Qs, Ks;   // of each tile of the depth
    Dot turn{"turn"}, pv{"pv"};
    std::vector<Dot> scores_;   // a product for each tile of the depth
    std::vector<WholeRows> whole_;   // of each block, or of all together
    RDom r{0, lanes, "r"}, columns{0, width_, "columns"}, beyond{width_, std::max(width_tiles_ * lanes - width_, 1), "beyond"}, tile{0, key_tiles_, "tile_varying"}, scored{0, key_tiles_, "scored_varying"}, visible{0, key_tiles_, "visible_varying"},
        summed{0, key_tiles_, "summed_varying"}, last_seen{0, diagonal_tiles_, "last_seen"},
        before{-hidden_rows_, hidden_rows_, "before"}, diagonal{0, lanes - 1, "diagonal"};
};

}  // namespace

KernelDefinition attention(const AttentionShape &shape, const Machine &machine, const Point &point) {
    if (shape.queries < 1 || shape.keys < 1 || shape.depth < 1 || shape.width < 1 || shape.problems() < 1) throw Error("attention: sizes must be at least 1");
    return AttentionPipeline(shape, machine, point).build();
}

KernelDefinition attention_kernel(const AttentionShape &shape, Pipeline pipeline, const std::array<ImageParam, 4> &inputs) {
    KernelDefinition kernel;
    kernel.pipeline = std::move(pipeline);
    kernel.inputs = {{"Q", shape.q_extents()}, {"K", shape.k_extents()}, {"V", shape.v_extents()}};
    if (shape.mask) kernel.inputs.push_back({"mask", shape.mask_extents()});
    kernel.arguments.assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(kernel.inputs.size()));
    kernel.outputs = {{"O", shape.out_extents()}};
    return kernel;
}

}  // namespace atalla
