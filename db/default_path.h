// Where the tuning database is if nobody says otherwise.
#pragma once

#include <filesystem>

namespace atalla {

// The environment's ATALLA_DB; else atalla-tune/atalla.db in the user's data folder ($XDG_DATA_HOME, or ~/.local/share).
// Error if neither these nor a home folder are known.
std::filesystem::path default_database_path();

}  // namespace atalla
