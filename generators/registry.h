// The operators that can be tuned and run, by name.
#pragma once

#include <string_view>
#include <vector>

#include "generators/operator.h"

namespace atalla {

const std::vector<const Operator *> &operators();

// By name or alias; Error naming the nearest.
const Operator &find_operator(std::string_view name);

}  // namespace atalla
