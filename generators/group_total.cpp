#include "generators/group_total.h"

#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

GroupTotal::GroupTotal(const std::string &name, const Func &values, const Func &ones, int vectors, int channels)
    : part(name + "_part"),
      block(name + "_block"),
      sum(name),
      depth(0, lanes, name + "_q"),
      all(0, vectors, 0, channels, name + "_r") {
    part(l_, b_, c_, g_, i_) = 0.0f;
    part(l_, b_, c_, g_, i_) += f32(values(b_ * lanes + depth, c_, g_, i_)) * f32(ones(depth, l_));
    block(l_, b_, c_, g_, i_) = bf16(part(l_, b_, c_, g_, i_));
    sum(g_, i_) = -0.0f;
    sum(g_, i_) = strict_float(sum(g_, i_) + f32(block(0, all.x, all.y, g_, i_)));
}

void GroupTotal::make_blocks(const LoopLevel &at) {
    block.compute_at(at).bound_extent(l_, lanes).vectorize(l_, lanes);
    as_array_row(part.compute_at(at), l_, depth);
    in_registers({part, block, sum});
}

}  // namespace atalla
