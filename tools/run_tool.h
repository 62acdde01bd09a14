// What every command does alike: parse its options, run, and report a failure as one sentence with exit status 1.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "isa/error.h"

namespace atalla {

// --seed, a whole number; a sign would wrap around.
inline CLI::Option *add_seed(CLI::App &app, uint64_t &seed, const std::string &help) {
    constexpr size_t most_digits = 18;
    return app.add_option("--seed", seed, help)->capture_default_str()->check([](const std::string &text) {
        const bool number = !text.empty() && text.size() <= most_digits &&
                            std::all_of(text.begin(), text.end(), [](char one) { return one >= '0' && one <= '9'; });
        return number ? std::string() : "the seed must be a whole number, 0 or more, of at most 18 digits, not '" + text + "'";
    });
}

// Refuses an empty text as a file, a name or a number: it is a variable of the shell that is not set, and would count as an
// option that is left out. Arguments of operators, which are in a group of their own or in none, may be empty words.
inline void refuse_empty_values(const CLI::App &app) {
    for (const CLI::Option *option : app.get_options()) {
        const bool checked = !option->get_group().empty() && option->get_group() != "Arguments of operators";
        if (checked && std::ranges::find(option->results(), "") != option->results().end())
            throw CLI::ValidationError(option->get_name() + " is given an empty text: give it a value, or leave it out");
    }
    for (const CLI::App *command : app.get_subcommands()) refuse_empty_values(*command);
}

// The first option on the command line that there is not, with the nearest that there is; else CLI11's own sentence.
inline std::string unknown_option(const CLI::App &app, const CLI::ExtrasError &error) {
    std::vector<std::string> known;
    for (const CLI::App *one = &app; one != nullptr;) {
        for (const CLI::Option *option : one->get_options())
            for (const std::string &name : option->get_lnames()) known.push_back("--" + name);
        const std::vector<CLI::App *> commands = one->get_subcommands();
        one = commands.empty() ? nullptr : commands.front();
    }
    for (const std::string &word : app.remaining(true)) {
        if (!word.starts_with("--")) continue;
        const std::string name = word.substr(0, word.find('=')), nearest = nearest_name(name, known);
        return "there is no option " + name + (nearest.empty() ? "" : "; did you mean " + nearest + "?");
    }
    return error.what();
}

// Parses the command line into the options of `app`, then calls `run`. Returns the exit status: 0, or 1 after a
// failure.
template <typename Run>
int run_tool(CLI::App &app, int argc, char **argv, Run &&run) {
    try {
        app.parse(argc, argv);
        refuse_empty_values(app);
        run();
        return 0;
    } catch (const CLI::ExtrasError &error) {
        std::cerr << app.get_name() << ": " << unknown_option(app, error) << "; see " << app.get_name() << " --help\n";
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
