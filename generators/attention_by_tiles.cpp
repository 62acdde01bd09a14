// Attention by tiles of 32 keys: scores of a block of queries stay in the pads between the largest of each row and its weights.
// Where keys and values come by blocks, each block's sums are joined with those of the blocks before (the online softmax), so
// that rows may be of any length.
#include <algorithm>
#include <vector>

#include "generators/attention_forms.h"
#include "generators/attention_pipeline.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

class TiledAttention : public AttentionPipeline {
public:
    TiledAttention(const AttentionShape &shape, const Machine &machine, const Point &point)
        : AttentionPipeline(shape, machine, point),
          tile(first_tile(), key_tiles_ - first_tile(), "tile_varying"),
          visible(0, key_tiles_, "visible_varying"),
          weighed({{0, summed_rows_ + 1}, {0, key_tiles_}, {0, groups_}}, "weighed_varying"),
          added(0, key_tiles_, "added_varying"),
          joined(0, width_tiles_ + 1, 0, key_blocks_, "joined_varying") {
        if (key_blocks_ > 1) keys_at_ = LoopLevel(O, joined.y);
    }

private:
    void define_softmax() override {
        for (RDom *tiles : {&tile, &visible}) where_seen(*tiles, tiles->x);
        where_seen(weighed, weighed[1]);
        // In float32, which Halide's JIT has a maximum of.
        define(largest_lanes, own({j, i}), sees_first() ? f32(X(own({j, i, 0}))) : Expr(lowest_score));
        // No max(), whose second operand is the result where they are alike or not comparable: here the register keeps its
        // value then.
        const Expr score = f32(X(own({j, i, tile}))), largest_yet = largest_lanes(own({j, i}));
        largest_lanes(own({j, i})) = select(strict_float(score > largest_yet), score, largest_yet);
        define(largest, own({i}), -infinity);
        largest(own({i})) = max(largest(own({i})), largest_lanes(own({r, i})));
        define(M, own({j, i}), bf16(largest(own({i}))));
        if (key_blocks_ > 1) {
            define(of_block, own({j, i}), M(own({j, i})));
            define(subtracted, own({j, i}), of_block(own({j, i})));
        }
        define(p, own({j, i, tt}), undef<BFloat>());
        if (summed_rows_ > 0) {
            define(made, own({j, i, tt}), weight(strict_float(X(own({j, i, tt})) - M(own({j, i})))));
            // The sums of each tile are behind its rows.
            add_group(weighed[0], weighed[2], weighed[1], made, of_made, {sums_at(weighed[2]), weighed[1]}, false);
            where_seen(added, added.x);
            define(group_sums, own({j, o}), bf16(-0.0f));
            group_sums(own({j, o})) = strict_float(group_sums(own({j, o})) + p(own({j, sums_at(o), added})));
            define(group_total, own({j, o}), group_sums(own({j, o})));
            return;
        }
        p(own({j, i, visible})) =
            weight(strict_float(X(own({j, i, visible})) - (key_blocks_ > 1 ? subtracted : M)(own({j, i}))));
    }
    // Does every row see a key of the first tile? The largest scores start with it then, and need no constants; where loops
    // over tiles vary, they have it once more, so that there are two iterations that overlap.
    bool sees_first() const { return key_blocks_ == 1 && !shape_.mask; }
    int first_tile() const { return sees_first() && !leaves_out() ? 1 : 0; }
    // exp of a distance from the largest score.
    Expr weight(const Expr &distance) const { return machine_exp(scales_late_ ? scaled(distance) : distance); }

    // Where the sums of a group are in each tile of p: behind its rows, all of them in one pad.
    Expr sums_at(const Expr &group) const { return stored_rows() + group * static_cast<int>(machine_.pad.count); }

    void define_result() override {
        define(S, own({d, i, c}), sums(own({d, i, c})));
        if (key_blocks_ > 1) {
            // Columns of tiles of sums, then the largest score so far.
            define(O, of_queries({d, i, c}), select(c < width_tiles_, bf16(0.0f), bf16(lowest_score)));
            const RVar &column = joined.x, &block = joined.y;
            const auto in_block = [&](std::vector<Expr> first) {
                std::vector<Expr> all = of_queries(std::move(first));
                all.push_back(block);
                return all;
            };
            if (skips_) joined.where(block <= ig);
            const Expr before = O(of_queries({d, i, width_tiles_})), here = of_block(in_block({d, i})),
                       now = strict_float(max(before, here));
            const Expr scaled_before = strict_float(O(of_queries({d, i, column})) * weight(strict_float(before - now)));
            const Expr scaled_here =
                strict_float(S(in_block({d, i, min(column, width_tiles_ - 1)})) * weight(strict_float(here - now)));
            O(of_queries({d, i, column})) = select(column < width_tiles_, strict_float(scaled_before + scaled_here), now);
        }
        const Func &sum = key_blocks_ > 1 ? O : S;
        define_inverse(inverse, of_queries({i}),
                       summed_rows_ > 0 ? group_total(own({summed_rows_ - 1 - i % summed_rows_, i / summed_rows_}))
                                        : sum(of_queries({width_ % lanes, i, width_ / lanes})));
        define(Y, of_queries({d, i, c}), strict_float(sum(of_queries({d, i, c})) * inverse(of_queries({i}))));
    }

    // The sums of groups.
    int rows_behind() const override { return summed_rows_ > 0 ? groups_ * static_cast<int>(machine_.pad.count) : 0; }

    // The largest score of some rows, in registers, and p of all their tiles.
    void schedule_softmax() override {
        LoopLevel group(p, i);
        if (summed_rows_ > 0) {
            const int round = static_cast<int>(machine_.pad.count);
            at_block(p, nullptr, stored_rows() - rows_ + (groups_ - 1) * round + 1, rows_behind());
            schedule_group(p.update().reorder(j, weighed[0], weighed[1], weighed[2], ib), weighed[0], weighed[1], made,
                           of_made);
            Var one("group_unroll");
            group_total.compute_at(out, io)
                .bound(j, 0, lanes)
                .bound_extent(o, groups_)
                .bound_extent(ib, blocks_)
                .vectorize(j, lanes);
            of_heads(group_total);
            group_sums.compute_at(group_total, ib)
                .bound_extent(o, groups_)
                .vectorize(j, lanes)
                .update()
                .rename(o, one)
                .reorder(j, one, added.x)
                .vectorize(j, lanes);
            in_registers({group_sums});
            in_pads({group_total});
            group = LoopLevel(p, weighed[2]);
        } else {
            in_groups(p.update(), softmax_unroll_, j, {iu, visible.x}, {ib});
        }
        if (key_blocks_ > 1) {
            at_keys(of_block);
            in_groups(Stage(of_block), softmax_unroll_, j, {iu}, {ib});
            subtracted.compute_at(p, i).bound_extent(j, lanes).vectorize(j, lanes);
            in_registers({subtracted});
            in_pads({of_block});
            group = LoopLevel(of_block, i);
        }
        if (summed_rows_ > 0) M.bound_extent(i, summed_rows_);
        M.compute_at(group).bound_extent(j, lanes).vectorize(j, lanes);
        largest_lanes.compute_at(group).vectorize(j, lanes).update().reorder(j, i, tile.x).vectorize(j, lanes);
        largest.compute_at(group).update().atomic().vectorize(r);
        in_registers({largest_lanes, largest, M});
    }

    void schedule_result() override {
        at_keys(S);
        schedule_sums(S);
        in_pads({S});
        if (key_blocks_ > 1) {
            at_block(O);
            O.bound_extent(c, width_tiles_ + 1).vectorize(d, lanes);
            // A row has many operations: more rows in straight-line code would leave the instruction cache.
            constexpr int joined_rows = 4;
            in_groups(O.update(), std::min(joined_rows, softmax_unroll_), d, {joined.x, iu}, {ib, joined.y});
            O.update().unroll(joined.x);
            in_pads({O});
        }
        // Reciprocals follow each other on the scalar unit: more rows in straight-line code would be no faster.
        constexpr int reciprocals = 8;
        schedule_quotients(inverse, summed_rows_ > 0 ? summed_rows_ : std::min(reciprocals, softmax_unroll_));
    }

    Func largest_lanes{"largest_lanes"}, largest{"largest"}, M{"M"}, of_block{"largest_of_block"}, subtracted{"subtracted"},
        S{"S"}, O{"O"}, inverse{"inverse"}, made{"made"}, group_sums{"group_sums"}, group_total{"group_total"};
    Dot of_made{"of_made"};
    const int groups_ = summed_rows_ > 0 ? rows_ / summed_rows_ : 1;  // of a block, each of which is summed at once
    RDom tile, visible, weighed, added, joined;
};

}  // namespace

KernelDefinition attention_by_tiles(const AttentionShape &shape, const Machine &machine, const Point &point) {
    return TiledAttention(shape, machine, point).build();
}

}  // namespace atalla
