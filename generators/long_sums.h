// Sums of many bf16 one after the other: a sum that has grown past 256 times its terms takes none of them any more.
#pragma once

#include <cstdint>

namespace atalla {

// Of `planes` times `steps` terms: how many steps are added by themselves, before the sums of these groups are; all terms where they are few.
// The last group may be longer than what is left: such terms have to change nothing.
int64_t steps_of_group(int64_t steps, int64_t planes = 1);

}  // namespace atalla
