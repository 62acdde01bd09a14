// Where the overloads that real models' exported graphs are made of run.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace atalla {

// A row for each overload: dialects, place, operator or reason.
nlohmann::ordered_json coverage_json();
// docs/operators.md.
std::string coverage_markdown();

}  // namespace atalla
