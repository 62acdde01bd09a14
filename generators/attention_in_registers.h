// Attention on machines with small pads: scores, sums and rows of the identity stay in registers.
#pragma once

#include "generators/attention.h"
#include "schedules/space.h"

namespace atalla {

Space register_attention_space(const AttentionShape &shape, const Machine &machine);
Point register_attention_naive_point(const AttentionShape &shape, const Machine &machine);
// Packets, or cycles where all latencies are hidden.
double register_attention_draft(const AttentionShape &shape, const Point &point);

// As attention(), but the sums of p are those of lanes over the blocks of 32 keys in bf16, then over the lanes.
KernelDefinition attention_in_registers(const AttentionShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
