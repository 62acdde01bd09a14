// Attention by tiles of 32 keys where all queries of a head pass between two loads of weights for the scores, and each step of
// the softmax goes through all of them: long loops of little code. The largest of a row, for which the unit of reductions takes
// most time, is found beside what else its last tile needs.
#include <algorithm>

#include "generators/attention_forms.h"
#include "generators/attention_pipeline.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

class StreamedAttention : public AttentionPipeline {
public:
    StreamedAttention(const AttentionShape &shape, const Machine &machine, const Point &point)
        : AttentionPipeline(shape, machine, point),
          own_row({{0, 2},
                   {0, softmax_unroll_},
                   {0, all_rows_ / static_cast<int>(lanes)},
                   {0, static_cast<int>(lanes) / softmax_unroll_}},
                  "own_row"),
          hidden(0, static_cast<int>(lanes), "hidden"),
          first({{0, streams_},
                 {skips_ ? static_cast<int>(lanes) / streams_ : 0,
                  (all_rows_ - (skips_ ? static_cast<int>(lanes) : 0)) / streams_}},
                "first"),
          others({{0, streams_}, {0, all_rows_ / streams_}, {1, tiles_ - 2}}, "others_varying"),
          weighed({{0, streams_ + 1}, {0, (all_rows_ + spare_rows_) / streams_}, {0, tiles_ - 1}}, "weighed_varying"),
          own_group({{0, streams_ + 1}, {0, all_rows_ / static_cast<int>(lanes)}, {0, groups_of_tile_}}, "own_group"),
          groups(0, all_rows_ / streams_, "groups"),
          unseen(0, std::max(1, rows_ - lanes), 1, std::max(1, ceil_div(rows_, lanes) - 1), 0, blocks_, "unseen") {}

private:
    // The tile that is a row's own comes last: with a causal mask the one on the diagonal, of which it sees a part.
    Expr own_tile(const Expr &rows_of_tile) const { return skips_ ? rows_of_tile : Expr(tiles_ - 1); }
    Expr weight(const Expr &distance) const { return machine_exp(scales_late_ ? scaled(distance) : distance); }

    void define_softmax() override {
        if (skips_) {
            const int of_tile = groups_of_tile_;
            others.where(others[1] >= (others[2] + 1) * of_tile);
            weighed.where(weighed[1] >= (weighed[2] + 1) * of_tile &&
                          weighed[1] < max((weighed[2] + 1) * of_tile + sure_groups, all_rows_ / streams_));
        }
        // The largest of all tiles but a row's own: of the first rows there are none.
        define(L, args({j, i}), undef<BFloat>());
        if (skips_) L(args({j, hidden})) = bf16(lowest_score);
        const Expr first_row = first[1] * streams_ + first[0], other_row = others[1] * streams_ + others[0];
        L(args({j, first_row})) = X(args({j, first_row, 0}));
        const Expr score = X(args({j, other_row, others[2]})), largest_yet = L(args({j, other_row}));
        L(args({j, other_row})) = select(strict_float(score > largest_yet), score, largest_yet);

        const Expr row = y * lanes + x;
        const Expr own_score = X(args({j, row, own_tile(y)}));
        define(scores, args({j, x, y}), skips_ ? strict_float(own_score + later(j, x)) : own_score);
        define(largest_lanes, args({j, x, y}), strict_float(max(L(args({j, row})), scores(args({j, x, y})))));
        define(largest, args({x, y}), -infinity);
        largest(args({x, y})) = max(largest(args({x, y})), f32(largest_lanes(args({r, x, y}))));
        define(M, args({j, x, y}), bf16(largest(args({x, y}))));

        // p of a row's own tile, and its largest score.
        const RVar part = own_row[0], ry = own_row[2];
        const Expr rx = own_row[3] * softmax_unroll_ + own_row[1];
        define(own_p, args({j, i, x}), undef<BFloat>());
        own_p(args({j, ry * lanes + rx, part})) =
            select(part == 0, weight(strict_float(scores(args({j, rx, ry})) - M(args({j, rx, ry})))), M(args({j, rx, ry})));
        define(p, args({j, i, tt}), undef<BFloat>());
        p(args({j, groups * streams_, tiles_})) = bf16(-0.0f);
        define(made, args({j, i, tt}), weight(strict_float(X(args({j, i, tt})) - own_p(args({j, i, 1})))));
        add_group(weighed[0], weighed[1], weighed[2], made, of_made, {weighed[1] * streams_, tiles_}, true);
        define(own_made, args({j, i, tt}), own_p(args({j, i, 0})));
        const Expr group = own_group[1] * groups_of_tile_ + own_group[2];
        add_group(own_group[0], group, own_tile(own_group[1]), own_made, of_own, {group * streams_, tiles_}, true);
        // Of the last tiles of a block its first queries see nothing.
        if (skips_ && rows_ > lanes) {
            unseen.where(unseen.x < unseen.y * lanes);
            p(args({j, unseen.z * rows_ + unseen.x, unseen.z * (rows_ / lanes) + unseen.y})) = bf16(0.0f);
        }
    }

    // The reciprocal of each row's sum waits in the pads in all lanes, so that the sums of p V are multiplied where they end.
    void define_result() override {
        const Expr row = tt * rows_of_turn_ + d, query = ib * rows_ + i;
        define_inverse(inverse, args({d, tt}), p(args({streams_ - 1 - row % streams_, row / streams_ * streams_, tiles_})));
        define(inverses, args({j, d, tt}), inverse(args({d, tt})));
        define(Y, of_queries({d, i, c}),
               strict_float(sums(of_queries({d, i, c})) * inverses(args({d, query % rows_of_turn_, query / rows_of_turn_}))));
    }

    void stream(Stage stage, const RDom &domain) const {
        RVar row("row_unroll");
        stage.rename(domain[0], row).reorder(j, row, domain[1], domain[2]).vectorize(j, lanes);
    }

    void schedule_softmax() override {
        at_rows(L);
        L.vectorize(j, lanes);
        int update = 0;
        RVar first_unroll("first_row_unroll"), group("group"), one("row_unroll");
        if (skips_) L.update(update++).split(hidden, group, one, 8).vectorize(j, lanes);
        L.update(update++).rename(first[0], first_unroll).vectorize(j, lanes);
        stream(L.update(update++), others);
        at_rows(p, spare_rows_);
        p.bound_extent(tt, tiles_ + 1);
        at_rows(own_p, spare_rows_);
        own_p.bound_extent(x, 2);
        RVar row("row_unroll");
        own_p.update()
            .rename(own_row[1], row)
            .reorder(j, own_row[0], row, own_row[2], own_row[3])
            .vectorize(j, lanes)
            .unroll(own_row[0]);
        for (Func f : {scores, largest_lanes, M}) f.compute_at(own_p, row).bound_extent(j, lanes).vectorize(j, lanes);
        largest.compute_at(own_p, row).update().atomic().vectorize(r);
        in_registers({scores, largest_lanes, largest, M});
        RVar several_groups("several"), group_unroll("group_unroll");
        p.update(0).split(groups, several_groups, group_unroll, 8).vectorize(j, lanes);
        schedule_group(p.update(1).reorder(j, weighed[0], weighed[1], weighed[2]), weighed[0], weighed[1], made, of_made);
        schedule_group(p.update(2).reorder(j, own_group[0], own_group[1], own_group[2]), own_group[0], own_group[1], own_made,
                       of_own);
        if (skips_ && rows_ > lanes) {
            RVar several("several"), one("row_unroll");
            p.update(3)
                .split(unseen.x, several, one, streams_)
                .reorder(j, one, several, unseen.y, unseen.z)
                .vectorize(j, lanes);
        }
        in_pads({L, own_p});
    }

    void schedule_result() override {
        inverses.compute_at(out, io).bound_extent(d, rows_of_turn_).bound_extent(tt, all_rows_ / rows_of_turn_);
        of_heads(inverses);
        Var several("d_unroll");
        if (beside_turns_) {
            inverses.split(d, co.var, several, rows_of_turn_ / width_tiles_)
                .reorder(j, several, tt, co.var)
                .vectorize(j, lanes);
            inverses.compute_with(Stage(Vt), tt);
        } else {
            inverses.split(d, d, several, streams_).reorder(j, several, d, tt).vectorize(j, lanes);
        }
        inverse.compute_at(inverses, several);
        in_registers({inverse});
        in_pads({inverses});
        if (columns_are_alike()) {
            result_by_columns(Y);
        } else {
            result_at_block(Y);
            Y.bound_extent(c, width_tiles_);
        }
        schedule_sums(Y);
    }

    const int all_rows_ = rows_ * blocks_, tiles_ = skips_ ? all_rows_ / static_cast<int>(lanes) : key_tiles_;
    // Some of the reciprocals, which the scalar unit makes, beside each tile of V that the array turns.
    const bool beside_turns_ =
        turns_all_ && all_rows_ % (key_tiles_ * width_tiles_ * streams_) == 0;  // whole groups, whose sums are in one row
    const int rows_of_turn_ = beside_turns_ ? all_rows_ / key_tiles_ : static_cast<int>(lanes);
    static constexpr int sure_groups = 4;  // in each loop over groups that pass behind each other
    const int groups_of_tile_ = static_cast<int>(lanes) / streams_;
    Var x{"x"}, y{"y"};
    Func L{"L"}, scores{"own_scores"}, largest_lanes{"largest_lanes"}, largest{"largest"}, M{"M"}, own_p{"own_p"}, made{"made"},
        own_made{"own_made"}, inverse{"inverse"}, inverses{"inverses"};
    Dot of_made{"of_made"}, of_own{"of_own"};
    RDom own_row, hidden, first, others, weighed, own_group, groups, unseen;
};

}  // namespace

KernelDefinition attention_streamed(const AttentionShape &shape, const Machine &machine, const Point &point) {
    return StreamedAttention(shape, machine, point).build();
}

}  // namespace atalla
