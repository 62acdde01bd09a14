// --precision of the tools that place a model's operators.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "model/placement.h"

namespace atalla {

inline CLI::Option *add_precision(CLI::App &app, PlacementOptions &options) {
    return app
        .add_option_function<std::string>("--precision", [&options](const std::string &word) { options.blocked_sums = word == "high"; },
                                          "standard, or high: products add long sums in groups, which keeps more digits and takes more cycles")
        ->check(CLI::IsMember({"standard", "high"}));
}

}  // namespace atalla
