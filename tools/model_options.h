// Options of the tools that compile a model: those that decide what the program is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "graph_import/symbolic.h"

namespace atalla {

struct ModelOptions {
    std::filesystem::path database;
    std::string machine = "ax01";
    std::vector<Bindings> sizes;  // of the specializations; none: those of the export
    // Operators that are to run on the host; whose host kernels the program registers.
    std::vector<std::string> on_host, registered;
    bool high_precision = false, no_fuse = false;
};

// Returns what was added.
std::vector<CLI::Option *> add_model_options(CLI::App &app, ModelOptions &options);

}  // namespace atalla
