// The schedules of attention on machines whose pads hold scores, and what they are expected to take.
#pragma once

#include "generators/attention.h"
#include "schedules/space.h"

namespace atalla {

// `shape`: on that machine, AttentionShape::on().
Space attention_space(const AttentionShape &shape, const Machine &machine);
Point attention_naive_point(const AttentionShape &shape, const Machine &machine);
// Cycles.
double attention_draft(const AttentionShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
