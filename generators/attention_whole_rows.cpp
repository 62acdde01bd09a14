// Attention whose rows go through the softmax in straight-line code, with their weights in registers.
#include <optional>
#include <string>
#include <vector>

#include "generators/attention_forms.h"
#include "generators/attention_pipeline.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

class WholeRowAttention : public AttentionPipeline {
public:
    using AttentionPipeline::AttentionPipeline;

private:
    // Two and two of them joined, until one is left: the fewest steps that wait for each other. The last ones may be undefined:
    // they would change nothing.
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
        Func scores, last_scores, largest_lanes, largest, M, E, sum_lanes, total_part, total, inverse, ones;

        WholeRows(const std::string &name, int tiles, int unroll)
            : tiles(tiles),
              unroll(unroll),
              tile(0, tiles, "tile" + name),
              scores("scores" + name),
              last_scores("last_scores" + name),
              largest_lanes("largest_lanes" + name),
              largest("largest" + name),
              M("M" + name),
              E("E" + name),
              sum_lanes("sum_lanes" + name),
              total_part("total_part" + name),
              total("total" + name),
              inverse("inverse" + name),
              ones("ones" + name) {}
    };

    void define_softmax() override {
        define(p, of_rows({j, i, tt}), undef<BFloat>());
        if (!skips_ || streams_) {
            define_rows(whole_.emplace_back("", key_tiles_, softmax_unroll_), std::nullopt);
            return;
        }
        for (int block = 0; block < blocks_; block++) {
            const int tiles = static_cast<int>(shape_.tiles_seen(rows_, block));
            // As many vectors of scores as where all tiles are seen.
            int unroll = softmax_unroll_;
            while (rows_ % (2 * unroll) == 0 && 2 * unroll * tiles <= softmax_unroll_ * key_tiles_) unroll *= 2;
            define_rows(whole_.emplace_back("_" + std::to_string(block), tiles, unroll), block);
        }
    }
    // Of all blocks, or of the one that is given.
    void define_rows(WholeRows &rows, std::optional<int> block) {
        const auto at = [&](const Expr &tile) {
            std::vector<Expr> all = args({j, i, tile});
            if (!streams_) all.push_back(block ? Expr(*block) : ib);
            return all;
        };
        const auto of_row = [&](std::vector<Expr> first) {
            std::vector<Expr> all = args(std::move(first));
            if (!block && !streams_) all.push_back(ib);
            return all;
        };
        if (block) {
            define(rows.scores, of_row({j, i, tt}), undef<BFloat>());
            for (int n = 0; n < rows.tiles; n++) {
                const int first = *block * rows_ - n * lanes;  // query of the block, counted from the first key of the tile
                const Expr score = X(at(n));
                rows.scores(of_row({j, i, n})) = first >= lanes - 1 ? score : strict_float(score + later(j, i + first));
            }
        }
        const bool ends = hides_end();
        if (ends) define(rows.last_scores, of_row({j, i}), strict_float(X(at(rows.tiles - 1)) + behind(j)));
        const auto score = [&](int tile) -> Expr {
            if (ends && tile + 1 == rows.tiles) return rows.last_scores(of_row({j, i}));
            return block ? rows.scores(of_row({j, i, tile})) : X(at(tile));
        };
        std::vector<Expr> scores(static_cast<size_t>(key_tiles_)), weights(scores.size());
        for (int n = 0; n < rows.tiles; n++) scores[static_cast<size_t>(n)] = score(n);
        define(rows.largest_lanes, of_row({j, i}), tree(scores, larger));
        // In float32, which Halide's JIT has a maximum of. Where a mask hides all keys, no distance from the largest score
        // would be a number.
        define(rows.largest, of_row({i}), shape_.mask ? lowest_score : -infinity);
        rows.largest(of_row({i})) = max(rows.largest(of_row({i})), f32(rows.largest_lanes(of_row({r, i}))));
        define(rows.M, of_row({j, i}), bf16(rows.largest(of_row({i}))));
        define(rows.E, of_row({j, i, tt}), undef<BFloat>());
        for (int n = 0; n < rows.tiles; n++) {
            const Expr distance = strict_float(score(n) - rows.M(of_row({j, i})));
            rows.E(of_row({j, i, n})) = machine_exp(scales_late_ ? scaled(distance) : distance);
            weights[static_cast<size_t>(n)] = rows.E(of_row({j, i, n}));
        }
        define(rows.sum_lanes, of_row({j, i}), tree(weights, added));
        rows.ones(k, w) = bf16(1.0f);
        define(rows.total_part, of_row({j, i}), 0.0f);
        rows.total_part(of_row({j, i})) += f32(rows.sum_lanes(of_row({r, i}))) * f32(rows.ones(r, j));
        define(rows.total, of_row({j, i}), bf16(rows.total_part(of_row({j, i}))));
        define_inverse(rows.inverse, of_row({i}), rows.total(of_row({0, i})));
        const RVar &tile = rows.tile.x;
        p(at(tile)) = strict_float(rows.E(of_row({j, i, tile})) * rows.inverse(of_row({i})));
    }

    // p has been divided: without quotients the sums are what is asked for.
    void define_result() override { define(Y, of_queries({d, i, c}), sums(own({d, i, c}))); }

    int rows_behind() const override {
        return waits_in_pads_ ? static_cast<int>(AttentionShape::idle_iterations) * softmax_unroll_ : 0;
    }

    // The softmax of some rows.
    void schedule_softmax() override {
        if (streams_) at_rows(p, 0, rows_behind());
        Var all("all_rows");
        for (size_t n = 0; n < whole_.size(); n++) {
            WholeRows &rows = whole_[n];
            std::vector<VarOrRVar> outside = {all};
            if (heads_ > 1) outside.insert(outside.begin(), batch_.var(0));
            if (!skips_ && !streams_) outside.insert(outside.begin(), ib);
            Stage update = p.update(static_cast<int>(n));
            update.split(i, all, i, streams_ ? rows_ * blocks_ : rows_);
            RVar tile("tile_unroll");
            update.rename(rows.tile.x, tile);
            in_groups(update, rows.unroll, j, {tile, iu}, outside);
            const LoopLevel row(p, iu);
            for (Func f : {rows.largest_lanes, rows.M, rows.E, rows.sum_lanes, rows.total_part, rows.total})
                f.compute_at(row).bound_extent(j, lanes).vectorize(j, lanes);
            rows.total_part.update().reorder(r, j).atomic().vectorize(j, lanes).vectorize(r);
            rows.largest.compute_at(row).update().atomic().vectorize(r);
            rows.inverse.compute_at(row);
            rows.ones.compute_at(p, all).bound(k, 0, lanes).bound(w, 0, lanes).vectorize(k, lanes);
            for (int tile = 0; tile < rows.tiles; tile++) rows.E.update(tile).vectorize(j, lanes);
            if (waits_in_pads_) {
                // Weights wait in the pads for the sum of their row, so that rows follow each other closely.
                if (rows.unroll > 1) rows.E.store_at(LoopLevel(p, i)).fold_storage(i, rows.unroll);
                in_pads({rows.E});
            } else {
                in_registers({rows.E});
            }
            if (rows.last_scores.defined()) {
                rows.last_scores.compute_at(row).bound_extent(j, lanes).vectorize(j, lanes);
                in_registers({rows.last_scores});
            }
            in_registers({rows.largest_lanes, rows.largest, rows.M, rows.sum_lanes, rows.total_part, rows.total, rows.inverse,
                          rows.ones});
            if (!skips_ || streams_) continue;
            rows.scores.compute_at(row).bound_extent(j, lanes).vectorize(j, lanes);
            for (int tile = 0; tile < rows.tiles; tile++) rows.scores.update(tile).vectorize(j, lanes);
            in_registers({rows.scores});
        }
    }

    void schedule_result() override {
        if (leaves_out() && columns_are_alike()) {
            result_by_columns(Y);
        } else if (shape_.leaves_by_heads(machine_, heads_)) {
            Y.compute_at(out, head).bound_extent(i, rows_).bound_storage(i, stored_rows()).bound_extent(ib, blocks_);
            // All queries of a head in a row, so that few transfers bring them away.
            Y.hoist_storage_root().ring_buffer(2).reorder_storage(d, i, ib, c);
        } else {
            result_at_block(Y);
        }
        schedule_sums(Y);
    }

    std::vector<WholeRows> whole_;  // of each block, or of all together
};

}  // namespace

KernelDefinition attention_of_whole_rows(const AttentionShape &shape, const Machine &machine, const Point &point) {
    return WholeRowAttention(shape, machine, point).build();
}

}  // namespace atalla
