// The forms of attention on machines whose pads hold scores.
#pragma once

#include "generators/attention.h"

namespace atalla {

// The lowest bf16 number: where the largest score of a row starts.
constexpr float lowest_score = -0x1.FEp127f;

// Rows of at most 256 keys: the softmax of some is straight-line code.
KernelDefinition attention_of_whole_rows(const AttentionShape &shape, const Machine &machine, const Point &point);
// One tile of 32 keys after the other; where keys and values come by blocks, the sums of those before are scaled to a new
// largest score.
KernelDefinition attention_by_tiles(const AttentionShape &shape, const Machine &machine, const Point &point);
// One tile after the other, too, for all queries of a head.
KernelDefinition attention_streamed(const AttentionShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
