#include "generators/attention_pipeline.h"

#include <algorithm>

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

}  // namespace atalla
