// A user's shared library of operators and passes.
#pragma once

#include <filesystem>

namespace atalla {

// Loads it and calls its `extern "C" void atalla_register()`, which calls register_operators, register_pass. It stays
// loaded. Error if it cannot be loaded or has no such function.
void load_user_library(const std::filesystem::path &file);

}  // namespace atalla
