// Scaled dot product attention: softmax(scale * Q K^T + mask) V in one kernel; the scores stay in the pads.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "generators/batch_vars.h"
#include "generators/kernel_definition.h"
#include "isa/machine.h"
#include "isa/vectors.h"
#include "schedules/point.h"

namespace atalla {

// A dimension of independent problems, outermost first; queries always have it. Where keys and values lack it, several query
// heads share them.
struct AttentionBatch {
    int64_t extent = 1;
    bool keys = true, mask = true;  // the tensors have it
    // Of the dimension, so many neighbors share a mask, and as many masks serve all its problems, from the first one again
    // behind the last.
    int64_t sharers = 1, masks = extent;
    template <class Index>
    Index mask_of(Index problem) const {
        if (sharers > 1) problem = problem / static_cast<int>(sharers);
        return sharers * masks < extent ? problem % static_cast<int>(masks) : problem;
    }
    // Are the masks of so many problems, wherever these begin, a whole number of masks in a row, or one?
    bool masks_in_a_row(int64_t problems) const {
        const bool again = sharers * masks < extent;
        return !mask || problems == 1 || problems % (again ? sharers * masks : sharers) == 0 || problems == sharers;
    }
    // One dimension of this and one inside it, if it can tell the masks of both.
    bool may_join(const AttentionBatch &inside, bool of_either) const {
        return mask == inside.mask ? !mask || sharers == 1 : of_either;
    }
    void join(const AttentionBatch &inside);
};

// Q [queries][depth], K [keys][depth], V [keys][width], an optional bf16 mask [queries][keys] that is added to the scaled
// scores, output [queries][width].
struct AttentionShape {
    int64_t queries = 0, keys = 0, depth = 0, width = 0;
    std::vector<AttentionBatch> batch;
    double scale = 1;
    bool causal = false;  // query i sees keys 0..i
    bool mask = false;
    // Tensors of "qkvo" whose heads lie inside their rows, [queries][heads][depth], as projections give and take them: the
    // innermost `head_dims` of the batch.
    std::string heads_inside;
    size_t head_dims = 0;
    // Keys and values come by blocks of so many tiles of 32, whose softmaxes are joined (the online softmax); 0: all at once.
    int64_t key_tiles = 0;

    // Dimensions of the batch inside the rows of one of "qkvo".
    size_t inside(char tensor) const { return heads_inside.find(tensor) == std::string::npos ? 0 : head_dims; }
    // Is the softmax of a row one piece of straight-line code, with its weights in registers? Of more keys it would leave the
    // instruction cache, or have too few rows at a time to fill the latencies.
    bool whole_rows() const { return keys <= 8 * lanes && key_blocks() == 1; }
    // Of a point where rows are not whole: so many rows of p are weights of the array as they are made, and a row of ones sums
    // all of them. 0: a column of ones behind those of V does.
    static int64_t summed(const Point &point) {
        return streamed(point) > 0 ? streamed(point) : point.contains("sum_unroll") ? point["sum_unroll"] : 0;
    }
    // Is there a choice? A column of ones beside others of V's last tile costs nothing.
    bool may_sum_groups(const Machine &machine) const {
        return machine.timed() && !whole_rows() && key_blocks() == 1 && width % lanes == 0;
    }
    // Tiles of 32 columns of the products with V, that of ones among them.
    int64_t width_tiles(const Point &point) const { return tiles_of(whole_rows() || summed(point) > 0 ? width : width + 1); }
    // Tiles of 32 keys whose scores are in the pads together; blocks of so many that come one after the other.
    int64_t tiles_together() const { return key_tiles == 0 ? tiles_of(keys) : std::min(key_tiles, tiles_of(keys)); }
    int64_t key_blocks() const { return ceil_div(tiles_of(keys), tiles_together()); }
    // With a causal mask, where a block of 64 queries hides no key but those behind it.
    bool takes_key_blocks() const { return !causal || (keys >= queries && queries >= 2 * lanes); }
    // As it is computed where nothing was said of key_tiles: all keys at once if the pads hold them beside a block of queries,
    // else by blocks.
    AttentionShape on(const Machine &machine) const;
    // Of a point: queries of a block, which one load of keys and values serves, in whole groups of four at most; blocks between
    // which their rows and scores stay in the pads.
    int64_t block_rows(const Point &point) const { return std::min(point["row_unroll"], ceil_div(queries, 4) * 4); }
    int64_t blocks_together(const Point &point) const { return std::max<int64_t>(1, point["rows"] / block_rows(point)); }
    // Are the tiles of 32 keys that no query of a block of so many rows sees left out? Where rows are not whole every block
    // sees two at least, since loops over tiles overlap their iterations.
    bool skips_hidden(int64_t rows) const {
        if (!causal || keys < queries) return false;
        if (whole_rows()) return rows >= lanes;
        return rows >= 2 * lanes && rows % lanes == 0 && (key_blocks() > 1 || (queries % rows == 0 && keys % lanes == 0));
    }
    // How many tiles of keys are computed for a block of so many rows, of those that skip hidden ones?
    int64_t tiles_seen(int64_t rows, int64_t block) const {
        return std::min((block + 1) * ceil_div(rows, lanes), tiles_of(keys));
    }
    // Do queries come and results leave beside the computation of others, so many blocks of so many rows at a time? They are
    // all alike then.
    bool comes_by_blocks(int64_t rows, int64_t blocks) const {
        return queries > rows * blocks && queries % (rows * blocks) == 0;
    }
    // Are so many blocks of so many rows all queries of a head, whose results then leave a block at a time, beside the
    // computation of others?
    bool results_pass(const Machine &machine, int64_t rows, int64_t blocks, int64_t heads) const {
        return machine.timed() && heads == 1 && key_blocks() == 1 && blocks > 2 && queries == rows * blocks;
    }
    // Do queries come so, too? Where loops over tiles vary their transfers start in front of these; in others they would start
    // inside, whose iterations would not overlap.
    bool queries_pass(const Machine &machine, int64_t rows, int64_t blocks, int64_t heads) const {
        return results_pass(machine, rows, blocks, heads) && skips_hidden(rows);
    }
    // Of so many heads that go through each step together, do queries, keys and values of one come while the one before is
    // computed?
    bool comes_by_heads(const Machine &machine, int64_t heads) const {
        return heads > 1 && batch.back().keys && machine.timed();
    }
    // Of so many heads that go through each step together, does the mask of one come while the one before is computed?
    bool masks_by_heads(const Machine &machine, int64_t heads) const {
        return heads > 1 && mask && batch.back().mask && machine.timed();
    }
    // Do values come a tile of keys at a time, while those of the one before are turned? Where tiles are alike, and not whole
    // heads or blocks of keys come so, or columns, where whole rows stream.
    bool values_by_tiles(const Machine &machine, int64_t heads, int64_t stream) const {
        return machine.timed() && (stream == 0 || !whole_rows()) && keys % lanes == 0 && keys > lanes && width % lanes == 0 &&
               key_blocks() == 1 && !comes_by_heads(machine, heads);
    }
    // Of so many heads that go through each step together, do the results of one leave while those of the next are made?
    bool leaves_by_heads(const Machine &machine, int64_t heads) const { return heads > 1 && whole_rows() && machine.timed(); }
    // May all queries of a head pass between two loads of weights for the scores?
    bool may_stream(const Machine &machine) const {
        if (!machine.timed() || mask) return false;
        if (whole_rows()) return !causal || (tiles_of(queries) == tiles_of(keys) && keys >= queries && queries > lanes);
        return key_blocks() == 1 && keys % lanes == 0 && queries % (2 * lanes) == 0 && (!causal || keys >= queries);
    }
    // Do the weights of rows, of which so many stream in straight-line code, take the rows of their scores? Sums of p by groups
    // of rows that stream are a tile of their own.
    bool weights_over_scores(int64_t stream) const { return stream == 0 || whole_rows(); }
    // Do they, and how many of them in straight-line code? 0: those of a block pass.
    static int64_t streamed(const Point &point) { return point.contains("stream") ? point["stream"] : 0; }
    // Do the weights of a row wait for its sum in the pads, so that rows follow each other closely? Those that stream do.
    static bool waits_in_pads(const Point &point) {
        return streamed(point) > 0 || (point.contains("waiting") && point["waiting"] > 0);
    }
    // Between the rows of two tiles of p there is room for so many iterations in front of the loop that makes whole rows, which
    // needs no code of its own to begin then.
    static constexpr int64_t idle_iterations = 4;
    // Of those that stream, how many are straight-line code between two loads of weights? They divide all, in whole rounds of
    // the pads if there are such.
    int64_t passing_rows(const Machine &machine, const Point &point) const;
    // Of all that stream in blocks of so many, those behind them for which loops over groups of rows, which get shorter with a
    // causal mask, have a few iterations in any case, so that these overlap.
    int64_t spare_rows(int64_t rows) const { return !whole_rows() && skips_hidden(rows) ? lanes : 0; }
    int64_t problems() const;
    // Extents, innermost first.
    std::vector<int64_t> q_extents() const, k_extents() const, v_extents() const, mask_extents() const, out_extents() const;
};

// The algorithm, every step rounded to bf16: scores as in gemm(); the largest m of a row; p = exp((score - m) * scale), 0 where
// a key is hidden; with a mask or a scale that is not positive p = exp(score * scale + mask - m), m being the largest of these;
// sums of p V and of p over blocks of 32 keys in float32, over the blocks in bf16; their quotient as a product with a
// reciprocal. Where rows are whole, p is multiplied by the reciprocal of its sum before the product with V; the sum is in bf16
// over the blocks, two and two, for each lane, then in float32 over the lanes. Of blocks of keys each has its largest score and
// its sums: those of the blocks before and its own are multiplied by exp((m - larger m) * scale) and added. A row whose keys
// are all hidden gives 0. V is transposed by the array as gemm() does with B stored [k][n]: an infinity or NaN in V spreads
// over its block of 32 keys and 32 columns.
KernelDefinition attention(const AttentionShape &shape, const Machine &machine, const Point &point);

// The arguments of the tensor 'q', 'k', 'v' or 'o' for an element of a row; of the mask, whose own are given.
std::vector<Halide::Expr> tensor_args(const AttentionShape &shape, const BatchVars<AttentionBatch> &batch, char tensor,
                                      Halide::Expr element, const Halide::Expr &row);
std::vector<Halide::Expr> mask_args(const BatchVars<AttentionBatch> &batch, std::vector<Halide::Expr> own);

// The loops of the result around those `inside` a block of a head: heads that go through each step together, where `head`
// splits the innermost dimension, the blocks, and all else of the batch.
void loop_over_batch(Halide::Func out, const BatchVars<AttentionBatch> &batch, std::vector<Halide::VarOrRVar> inside,
                     const Halide::Var &block, const Halide::Var &head, int heads);

// The kernel of a pipeline whose inputs are Q, K, V and, where the shape has one, the mask.
KernelDefinition attention_kernel(const AttentionShape &shape, Halide::Pipeline pipeline,
                                  const std::array<Halide::ImageParam, 4> &inputs);

}  // namespace atalla
