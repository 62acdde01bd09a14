// --precision of the tools that compile operators or models.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace atalla {

inline CLI::Option *add_precision(CLI::App &app, bool &high) {
    return app
        .add_option_function<std::string>(
            "--precision", [&high](const std::string &word) { high = word == "high"; },
            "standard, or high: products add long sums in groups, which keeps more digits and takes more cycles")
        ->check(CLI::IsMember({"standard", "high"}));
}

}  // namespace atalla
