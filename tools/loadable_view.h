// What the dashboard shows of a compiled model: its segments with their cycles, and its memory plan.
#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace atalla {

// Loads the model and runs it once on zeros, for its first specialization; a run that fails is told in "problem". Error if
// the file is no loadable.
nlohmann::ordered_json loadable_view(const std::filesystem::path &file);

}  // namespace atalla
