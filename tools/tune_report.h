// What a tuning run found, for people and for programs.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "tools/tuned.h"

namespace atalla {

// One object: op, shape, machine, cycles, bound_cycles, bound_share, naive_cycles, ..., in this order.
nlohmann::ordered_json report_json(const Tuned &tuned, const std::filesystem::path &database);

// A table, and the bar of where the cycles went. `colour`: for a terminal.
std::string report_text(const Tuned &tuned, const std::filesystem::path &database, bool colour);

// One line: shape, cycles, share of the bound.
std::string report_line(const Tuned &tuned);

// The parts of `counters` by stall cause, the cycles that issued a packet first, as a bar of `width` characters with its
// legend beneath. Without colour each part is drawn with the first free letter of its name.
std::string stall_bar(const nlohmann::json &counters, int width, bool colour);

}  // namespace atalla
