// Attention by tiles of 32 keys where all queries of a head pass between two loads of weights for the scores, and each step of the softmax goes through all of
// them: long loops of little code. The largest of a row, for which the unit of reductions takes most time, is found beside what else its last tile needs.
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
        : AttentionPipeline(shape, machine, point), own_row({{0, 2}, {0, softmax_unroll_}, {0, all_rows_ / static_cast<int>(lanes)}, {0, static_cast<int>(lanes) / softmax_unroll_}}, "own_row"), hidden(0, static_cast<int>(lanes), "hidden"),
          first({{0, streams_}, {skips_ ? static_cast<int>(lanes) / streams_ : 0, (all_rows_ - (skips_ ? static_cast<int>(lanes) : 0)) / streams_}}, "first"), others({{0, streams_}, {0, all_rows_ / streams_}, {1, tiles_ - 2}}, "others_varying"), weighed({{0, streams_}, {0, all_rows_ / streams_}, {0, tiles_ - 1}}, "weighed_varying"),
          unseen(0, std::max(1, rows_ - lanes), 1, std::max(1, ceil_div(rows_, lanes) - 1), 0, blocks_, "unseen") {}

private:
    // The tile that is a row's own comes last: with a causal mask the one on the diagonal, of which it sees a part.
    Expr own_tile(const Expr &rows_of_tile) const { return skips_ ? rows_of_tile : Expr(tiles_ - 1); }
    Expr weight(const Expr &distance) const { return machine_exp(scales_late_ ? scaled(distance) : distance); }

    void define_softmax() override {
        for (RDom *domain : {&others, &weighed})
            if (skips_) domain->where((*domain)[1] >= ((*domain)[2] + 1) * (lanes / streams_));
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

        // Behind the tiles of p is the largest score of each row.
        const RVar part = own_row[0], ry = own_row[2];
        const Expr rx = own_row[3] * softmax_unroll_ + own_row[1];
        define(p, args({j, i, tt}), undef<BFloat>());
        p(args({j, ry * lanes + rx, select(part == 0, own_tile(ry), tiles_)})) =
            select(part == 0, weight(strict_float(scores(args({j, rx, ry})) - M(args({j, rx, ry})))), M(args({j, rx, ry})));
        const Expr weighed_row = weighed[1] * streams_ + weighed[0], tile = weighed[2];
        p(args({j, weighed_row, tile})) = weight(strict_float(X(args({j, weighed_row, tile})) - p(args({j, weighed_row, tiles_}))));
        // Of the last tiles of a block its first queries see nothing.
        if (skips_ && rows_ > lanes) {
            unseen.where(unseen.x < unseen.y * lanes);
            p(args({j, unseen.z * rows_ + unseen.x, unseen.z * (rows_ / lanes) + unseen.y})) = bf16(0.0f);
        }
    }

    void define_result() override {
        define(S, of_queries({d, i, c}), sums(of_queries({d, i, c})));
        define_inverse(inverse, of_queries({i}), S(of_queries({width_ % lanes, i, width_ / lanes})));
        define(Y, of_queries({d, i, c}), strict_float(S(of_queries({d, i, c})) * inverse(of_queries({i}))));
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
        at_rows(p);
        p.bound_extent(tt, tiles_ + 1);
        RVar row("row_unroll");
        p.update(0).rename(own_row[1], row).reorder(j, own_row[0], row, own_row[2], own_row[3]).vectorize(j, lanes).unroll(own_row[0]);
        for (Func f : {scores, largest_lanes, M}) f.compute_at(p, row).bound_extent(j, lanes).vectorize(j, lanes);
        largest.compute_at(p, row).update().atomic().vectorize(r);
        in_registers({scores, largest_lanes, largest, M});
        stream(p.update(1), weighed);
        if (skips_ && rows_ > lanes) {
            RVar several("several"), one("row_unroll");
            p.update(2).split(unseen.x, several, one, streams_).reorder(j, one, several, unseen.y, unseen.z).vectorize(j, lanes);
        }
        in_pads({L});
    }

    void schedule_result() override {
        at_block(S);
        schedule_sums(S);
        in_pads({S});
        schedule_quotients(inverse);
    }

    const int all_rows_ = rows_ * blocks_, tiles_ = skips_ ? all_rows_ / static_cast<int>(lanes) : key_tiles_;
    Var x{"x"}, y{"y"};
    Func L{"L"}, scores{"own_scores"}, largest_lanes{"largest_lanes"}, largest{"largest"}, M{"M"}, S{"S"}, inverse{"inverse"};
    RDom own_row, hidden, first, others, weighed, unseen;
};

}  // namespace

KernelDefinition attention_streamed(const AttentionShape &shape, const Machine &machine, const Point &point) { return StreamedAttention(shape, machine, point).build(); }

}  // namespace atalla
