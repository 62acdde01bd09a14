// Normalization of groups of channels that the pads do not hold: each pass over a group brings it again, a part at a time.
#pragma once

#include <string>

#include "generators/channel_rows.h"
#include "generators/kernel_definition.h"
#include "isa/machine.h"
#include "schedules/point.h"
#include "schedules/space.h"

namespace atalla {

// Parameters: `part_channels` and `part_vectors`, channels in the pads at a time, and vectors of each: all of them, or of one
// channel some; `channel_unroll` and `vector_unroll`, those in straight-line code.
Space group_parts_space(const GroupShape &shape, const Machine &machine);
bool is_group_in_parts(const Point &point);
std::string group_parts_words(const Point &point);
double group_parts_draft(const GroupShape &shape, const Machine &machine, const Point &point);
// Blocks of 32 of a channel through the array, rounded to bf16, added in float32, whatever the parts are.
KernelDefinition group_norm_in_parts(const GroupShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
