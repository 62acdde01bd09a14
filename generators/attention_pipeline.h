// What the forms of attention share: operands that come into the pads, V turned there, the scores, and the sums of p V.
#pragma once

#include <string>
#include <vector>

#include <Halide.h>

#include "generators/attention.h"
#include "generators/batch_vars.h"

namespace atalla {

class AttentionPipeline {
public:
    AttentionPipeline(const AttentionShape &shape, const Machine &machine, const Point &point);
    virtual ~AttentionPipeline() = default;
    AttentionPipeline(const AttentionPipeline &) = delete;
    AttentionPipeline &operator=(const AttentionPipeline &) = delete;

    KernelDefinition build();

protected:
    using Expr = Halide::Expr;
    using Func = Halide::Func;
    using Var = Halide::Var;
    using RVar = Halide::RVar;
    using RDom = Halide::RDom;
    using VarOrRVar = Halide::VarOrRVar;

    // A matrix product inside the pipeline: one k tile after the other, weights loaded outside the rows.
    struct Dot {
        Func weights, part, rounded;

        explicit Dot(const std::string &name) : weights(name + "_weights"), part(name + "_part"), rounded(name + "_rounded") {}
    };

    // p from the scores X; Y from the sums of p V.
    virtual void define_softmax() = 0;
    virtual void define_result() = 0;
    // Rows of each tile of p that are behind those of its queries.
    virtual int rows_behind() const { return 0; }
    virtual void schedule_softmax() = 0;
    virtual void schedule_result() = 0;

    // The arguments of what the heads of a problem have, of what each block of queries has, and of what it has for each block
    // of keys.
    std::vector<Expr> args(std::vector<Expr> own, bool AttentionBatch::*has = nullptr) const {
        return batch_.args(std::move(own), has);
    }
    std::vector<Expr> of_queries(std::vector<Expr> first) const;
    std::vector<Expr> own(std::vector<Expr> first) const;
    // The arguments of what has all queries in one dimension where scores are streamed, else those of a block in one and the
    // blocks in another: by the row there, and by the row of a block.
    std::vector<Expr> of_rows(std::vector<Expr> first) const {
        return streams_ ? args(std::move(first)) : own(std::move(first));
    }
    std::vector<Expr> of_block_rows(std::vector<Expr> first) const;
    Expr scaled(const Expr &score) const;
    void define_inverse(Func inverse, const std::vector<Expr> &row, const Expr &sum) const;

    // Only tiles that there are and that a query of the block sees.
    void where_seen(RDom &domain, const RVar &tile) const;
    bool leaves_out() const { return skips_ || (key_blocks_ > 1 && tiles_of(keys_) % key_tiles_ != 0); }

    // p of a group of rows for a tile, from `values`, is weights of the array as it passes: the product with a row of ones is
    // the sums of these rows, one in each lane, the first in the last one, since weights load last vector first. They go to the
    // row `sums` of p, added to what is there if it accumulates. One step more than there are rows in a group.
    void add_group(const Expr &step, const Expr &group, const Expr &tile, const Func &values, Dot &dot,
                   const std::vector<Expr> &sums, bool accumulates);
    void schedule_group(Halide::Stage stage, const RVar &step, const RVar &level, Func values, Dot &dot) const;

    // The weights of a product are loaded at `level` of `consumer`, whose innermost loop over rows is `row`.
    void schedule_dot(Dot &dot, Func consumer, const VarOrRVar &level, const VarOrRVar &row, const Var &lane, int unroll) const;
    // Y, sums times the reciprocals `inverse` of their rows, so many together in straight-line code.
    void schedule_quotients(Func inverse, int together);
    // Sums over the tiles, for each column of the result.
    void schedule_sums(Func result);
    // Computed for all queries, where scores are streamed, and for some spare rows behind them; more rows have their place in
    // the pads.
    void at_rows(Func f, int spare_rows = 0, int more_rows = 0) const {
        f.compute_at(out, io)
            .bound_extent(i, rows_ * blocks_ + spare_rows)
            .bound_storage(i, stored_rows() * blocks_ + spare_rows + more_rows);
        of_heads(f);
    }
    // Rows of a block in groups, each group straight-line code.
    void in_groups(Halide::Stage stage, int unroll, const Var &lane, const std::vector<VarOrRVar> &inside,
                   const std::vector<VarOrRVar> &outside) const;
    // Computed for the blocks of queries that are together; also while others are computed, where blocks are alike; a result,
    // which leaves a block at a time where all are together, or a column of a block, whose one transfer a pad leaves at once;
    // for one block of keys.
    void at_block(Func f, bool AttentionBatch::*has = nullptr, int more_rows = 0, int more_stored = 0) const;
    void at_block_beside(Func f) const;
    void result_at_block(Func f) const;
    void result_by_columns(Func f) const;
    // Have all columns of all blocks the same code, and each pad one transfer for one?
    bool columns_are_alike() const {
        return machine_.timed() && queries_ == rows_ * blocks_ && rows_ % machine_.pad.count == 0 &&
               (width_ <= lanes || width_ % lanes == 0);
    }
    void at_keys(Func f, bool AttentionBatch::*has = nullptr, int more_rows = 0, int more_stored = 0) const;
    int stored_rows() const;
    // Rows in straight-line code where each takes a single lane operation: many, so that they fill its latency. Those of a
    // single block are too few to make up for what more code and row offsets cost around them.
    int lane_rows() const;
    void of_heads(Func f, bool AttentionBatch::*has = nullptr) const;
    // p is summed by columns of ones behind those of V.
    bool has_ones() const { return !whole_rows_ && summed_rows_ == 0; }
    // Keys behind the last one are hidden, of whole rows where these are read: one addition more, and no loop of its own.
    bool hides_end() const { return keys_ % lanes != 0 && !skips_; }

private:
    // Of what is computed from keys and values alone; of the rows of the mask for a block of queries: problems may share them.
    std::vector<Expr> of_keys(std::vector<Expr> own) const;
    std::vector<Expr> of_mask(std::vector<Expr> own) const;
    Expr query() const;
    // A row of a product. Where some are left out, a step between them and what reads them keeps the condition away from the
    // array.
    Expr row_of(Dot &dot, const std::vector<Expr> &place, const std::vector<Expr> &at) const;

    void define_operands();
    void define_penalties();
    void define_scores();
    void define_streamed_scores();
    void define_sums();
    void define_out();
    void schedule();
    void schedule_out();
    void schedule_keys();
    void schedule_values();
    void schedule_queries();
    void schedule_scores();
    void schedule_streamed_scores();
    void schedule_penalties();
    void at_head(Func f) const;
    void come_by_blocks(Func f) const;
    // In tiles that some queries of a block see, those behind each.
    bool hides_diagonal() const { return skips_ && (!whole_rows_ || streams_ > 0); }
    int most_hidden_rows() const;
    int most_seen_rows() const;

protected:
    const AttentionShape &shape_;
    const Machine &machine_;
    const int queries_, keys_, depth_, width_, depth_tiles_, width_tiles_;
    // Queries of a block, which one load of weights serves; blocks between which Q and the scores stay.
    const int rows_, blocks_;
    const int key_tiles_, key_blocks_;  // tiles of 32 keys whose scores are in the pads together; such blocks of keys
    const int turn_unroll_, softmax_unroll_;
    const int heads_;  // of the innermost dimension of the batch, which go through each step together
    const bool scales_late_ =
        shape_.scale > 0 && !shape_.mask;     // the distance from the largest score, where lanes have nothing else to multiply
    const bool whole_rows_;                   // go through the softmax in straight-line code
    const bool skips_;                        // tiles that no query of a block sees
    const bool queries_pass_, results_pass_;  // a block at a time
    const int streams_;       // queries that are straight-line code where all of them pass between two loads of weights for the
                              // scores; 0: those of a block pass
    const int passing_rows_;  // of those, in the scores
    const int spare_rows_;    // behind all queries, of which nothing is asked
    const bool waits_in_pads_;  // weights of whole rows for the sum of their row
    const int summed_rows_;     // rows of p that are summed at once; 0: by columns of ones
    const BatchVars<AttentionBatch> batch_{shape_.batch};

    Var d{"d"}, i{"i"}, j{"j"}, k{"k"}, w{"w"}, c{"c"}, tt{"tt"}, iu{"i_unroll"}, ib{"ib"}, io{"io"}, ob{"ob"},
        column{"column"}, ig{"ig"}, kb{"kb"}, head{"head"}, o{"o"};
    Func X{"X"}, p, Vt{"Vt"}, sums{"sums"}, Y{"Y"}, out{"O_out"}, later{"later"}, behind{"behind"};
    const bool turns_all_ =
        streams_ && !whole_rows_ && width_ % lanes == 0;  // columns of the values are whole tiles, and nothing is beside them
    const VarOrRVar co =
        turns_all_ ? VarOrRVar(Var("co")) : VarOrRVar(RVar("co"));  // tiles of columns of the values that are turned
    RDom r{0, lanes, "r"}, in_group{0, std::max(1, summed_rows_), "in_group"};
    Halide::LoopLevel keys_at_;  // where each of several blocks of keys is gone through

private:
    const int diagonal_tiles_ =
        static_cast<int>(ceil_div(rows_, lanes));  // of a block, some keys of which some of its queries see, where it skips
    const int hidden_rows_ = most_hidden_rows();   // by which a query is at most in front of a tile
    const int seen_rows_ = most_seen_rows();       // by which one that is told of its mask is at most behind a tile's last key

    Halide::ImageParam q, key, value, mask;
    Var t{"t"}, ii{"ii"}, ou{"o_unroll"}, wi{"w_unroll"};
    Func Vs{"Vs"}, Ms{"Ms"}, identity{"identity"};
    std::vector<Func> Qs, Ks;         // of each tile of the depth
    std::vector<Func> scored_before;  // sums of the scores over some tiles of the depth
    Dot turn{"turn"}, pv{"pv"};
    std::vector<Dot> scores_;  // a product for each tile of the depth
    RDom columns, beyond, scored, summed, ending{0, 1, "ending_varying"}, last_seen, unseen, before, after,
        diagonal{0, lanes, "diagonal"};
    RDom streamed;                  // queries of a group, groups, tiles of keys
    RDom not_reached, on_diagonal;  // of whole rows that stream: queries in front of a tile of keys; those of a tile that see a
                                    // part of theirs
};

}  // namespace atalla
