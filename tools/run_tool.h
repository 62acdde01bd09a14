// What every command does alike: parse its options, run, and report a failure as one sentence with exit status 1.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

namespace atalla {

// Parses the command line into the options of `app`, then calls `run`. Returns the exit status: 0, or 1 after a
// failure.
template <typename Run>
int run_tool(CLI::App &app, int argc, char **argv, Run &&run) {
    try {
        app.parse(argc, argv);
        run();
        return 0;
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() == 0) {
            return app.exit(error);  // --help
        }
        std::cerr << app.get_name() << ": " << error.what() << "; see " << app.get_name() << " --help\n";
    } catch (const std::exception &error) {
        std::cerr << app.get_name() << ": " << error.what() << '\n';
    }
    return 1;
}

}  // namespace atalla
