// JSON from outside, with a limit on its depth: writing it again and freeing it take stack in proportion.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace atalla {

// Error if the text is not JSON or is nested more than 32 deep, far beyond what a workload or counters need.
nlohmann::json parse_bounded_json(std::string_view text);

}  // namespace atalla
