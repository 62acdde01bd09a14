// atalla-db: looks into the tuning database, exchanges its rows and tidies it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "db/database.h"
#include "db/default_path.h"
#include "db/export.h"
#include "db/kernel_tuner.h"
#include "isa/error.h"
#include "isa/read_file.h"
#include "isa/write_file.h"
#include "tools/run_tool.h"

namespace {

using atalla::Database;
using nlohmann::json;

struct Options {
    std::filesystem::path database;
    bool as_json = false;
    atalla::TrialFilter filter;
    std::string status;
    size_t top = 10;
    std::filesystem::path output;
    std::vector<std::string> sources;
    bool everything = false;
    bool dry_run = false;
    bool results_only = false;
    bool kernel_tuner = false;
};

// Commands that only look take a write-protected file too; an older file that can be written is brought up to date.
Database open_existing(const std::filesystem::path &file) {
    const bool writable = std::filesystem::exists(file) && ::access(file.c_str(), W_OK) == 0;
    return Database(file, writable ? Database::Access::ReadWrite : Database::Access::ReadOnly);
}

void print(const json &value) { std::cout << value.dump(2) << '\n'; }

std::string share(int64_t bound, int64_t cycles) {
    return bound > 0 && cycles > 0 ? fmt::format("{:.1f} %", 100.0 * bound / cycles) : "-";
}

std::string machine_label(const atalla::KeySummary &key) {
    return key.machine_name.empty() ? key.key.machine : key.machine_name;
}

std::string state_of(const atalla::KeySummary &key) {
    std::string state = key.winner ? "verified" : key.best_cycles > 0 ? "not verified" : "nothing ran";
    return key.unfinished ? state + ", unfinished" : state;
}

json summary_json(const atalla::KeySummary &key) {
    json result = {{"op", key.key.op},
                   {"workload", key.key.workload},
                   {"machine", key.key.machine},
                   {"machine_name", key.machine_name},
                   {"compiler", key.key.compiler},
                   {"trials", key.trials},
                   {"ok", key.ok},
                   {"verified", key.verified},
                   {"best_cycles", key.best_cycles},
                   {"bound_cycles", key.bound_cycles},
                   {"unfinished", key.unfinished},
                   {"winner", nullptr}};
    if (key.winner) {
        result["winner"] = {{"point", key.winner->trial.point}, {"cycles", key.winner->trial.cycles}};
        if (key.certificate) {
            result["winner"]["gap"] = key.certificate->gap(key.winner->trial.cycles);
            result["winner"]["bound_by"] = key.certificate->bound_by;
            result["winner"]["optimal_in_space"] = key.certificate->optimal_in_space(key.winner->trial.cycles);
        }
    }
    return result;
}

void list(const Options &options) {
    const Database database = open_existing(options.database);
    const std::vector<atalla::KeySummary> keys = database.list(options.filter);
    if (options.as_json) {
        json all = json::array();
        for (const atalla::KeySummary &key : keys) {
            all.push_back(summary_json(key));
        }
        return print(all);
    }
    for (const atalla::KeySummary &key : keys) {
        const int64_t cycles = key.winner ? key.winner->trial.cycles : key.best_cycles;
        const bool optimal = key.winner && key.certificate && key.certificate->optimal_in_space(cycles);
        std::cout << fmt::format("{} {}\n    {}, compiler {}: {} cycles, {} of bound{}, {} trials, {}\n", key.key.op,
                                 key.key.workload, machine_label(key), key.key.compiler, cycles,
                                 share(key.bound_cycles, cycles), optimal ? ", proven the best of its space" : "", key.trials,
                                 state_of(key));
    }
    std::cout << fmt::format("{} tuned in {}\n", keys.size(), options.database.string());
}

std::vector<atalla::StoredTrial> fastest_first(const Database &database, const atalla::TrialKey &key) {
    std::vector<atalla::StoredTrial> trials = database.trials_of(key);
    std::stable_sort(trials.begin(), trials.end(), [](const auto &one, const auto &other) {
        return std::pair(one.trial.status, one.trial.cycles) < std::pair(other.trial.status, other.trial.cycles);
    });
    return trials;
}

std::string trial_line(const atalla::StoredTrial &stored) {
    const atalla::Trial &trial = stored.trial;
    const std::string point = trial.point.assignments();
    if (trial.status != atalla::Trial::Ok) {
        return fmt::format("{:>12}  {}: {}", status_name(trial.status), point, trial.reason);
    }
    const char *mark = stored.verification == atalla::Verification::Verified ? "  verified" : "";
    return stored.verification == atalla::Verification::Differs
               ? fmt::format("{:>12}  {}  wrong: {}", trial.cycles, point, stored.differs)
               : fmt::format("{:>12}  {}{}", trial.cycles, point, mark);
}

void show(const Options &options) {
    const Database database = open_existing(options.database);
    json all = json::array();
    size_t shown = 0;
    atalla::TrialFilter of_any_status = options.filter;
    of_any_status.status.reset();
    for (const atalla::KeySummary &key : database.list(of_any_status)) {
        std::vector<atalla::StoredTrial> trials = fastest_first(database, key.key);
        std::erase_if(
            trials, [&](const auto &stored) { return options.filter.status && stored.trial.status != *options.filter.status; });
        if (trials.empty()) {
            continue;
        }
        shown++;
        trials.resize(options.top > 0 ? std::min(options.top, trials.size()) : trials.size());
        if (options.as_json) {
            json entry = summary_json(key);
            entry["shown"] = json::array();
            for (const atalla::StoredTrial &stored : trials) {
                entry["shown"].push_back(trial_json(stored));
            }
            all.push_back(entry);
            continue;
        }
        std::cout << fmt::format("{} {}\n  machine {} ({}), compiler {}\n  {} trials, {} ran; bound {} cycles; {}\n",
                                 key.key.op, key.key.workload, machine_label(key), key.key.machine, key.key.compiler,
                                 key.trials, key.ok, key.bound_cycles, state_of(key));
        for (const atalla::StoredTrial &stored : trials) {
            std::cout << trial_line(stored) << '\n';
        }
    }
    if (options.as_json) {
        print(all);
    } else if (shown == 0) {
        std::cout << fmt::format("nothing in {} is so; `atalla-db list` has all that is tuned\n", options.database.string());
    }
}

// The one key that the filter picks.
atalla::TrialKey single_key(const Database &database, const atalla::TrialFilter &filter) {
    const std::vector<atalla::KeySummary> keys = database.list(filter);
    if (keys.size() != 1) {
        throw atalla::Error(fmt::format(
            "a cache of Kernel Tuner holds the trials of one workload, but the options pick {}: name one with --op, "
            "--workload, --machine and --compiler",
            keys.size()));
    }
    return keys.front().key;
}

void warn_of_damage(Database &database) {
    for (const std::string &damaged : database.take_unreadable()) {
        std::cerr << "atalla-db: left out: " << damaged << '\n';
    }
}

void write_export(Database &database, const Options &options, std::ostream &out) {
    if (options.kernel_tuner) {
        return write_tuning_cache(tuning_cache(database, single_key(database, options.filter)), out);
    }
    database.export_to(out, options.filter, options.results_only);
    warn_of_damage(database);
}

// A file appears complete or not at all.
void export_to_file(Database &database, const Options &options) {
    const std::filesystem::path &file = options.output;
    const std::filesystem::path unfinished = atalla::unfinished_of(file);
    std::ofstream out(unfinished, std::ios::binary);
    if (!out) {
        throw atalla::Error(fmt::format("cannot write {}", unfinished.string()));
    }
    write_export(database, options, out);
    out.close();
    if (!out) {
        atalla::discard_unfinished(file);
        throw atalla::Error(fmt::format("writing {} failed: is the disk full?", file.string()));
    }
    std::filesystem::rename(unfinished, file);
}

void export_rows(const Options &options) {
    Database database = open_existing(options.database);
    if (!options.output.empty()) {
        return export_to_file(database, options);
    }
    write_export(database, options, std::cout);
    std::cout.flush();
    if (!std::cout) {
        throw atalla::Error("writing the export to standard output failed");
    }
}

bool is_sqlite_file(const std::string &file) {
    std::array<char, 16> start{};
    std::ifstream in(file, std::ios::binary);
    in.read(start.data(), start.size());
    return std::string_view(start.data(), start.size()) == std::string_view("SQLite format 3\0", 16);
}

atalla::MergeReport merge_one(Database &database, const std::string &source) {
    if (source == "-") {
        return database.import_from(std::cin, "standard input");
    }
    if (is_sqlite_file(source)) {
        std::error_code ignored;
        if (std::filesystem::equivalent(source, database.file(), ignored)) {
            throw atalla::Error(fmt::format("the database {} cannot be merged with itself", source));
        }
        return database.merge(open_existing(source));
    }
    std::ifstream in = atalla::open_to_read(source);
    if (std::string start(2, ' '); in.peek() == '{' && in.read(start.data(), 2) && start != "{\"") {
        const std::string text = start + std::string(std::istreambuf_iterator<char>(in), {});
        return import_tuning_cache(database, atalla::parse_tuning_cache(text, source));
    }
    in.clear();
    in.seekg(0);
    return database.import_from(in, source);
}

void merge(const Options &options) {
    Database database(options.database);
    json all = json::array();
    for (const std::string &source : options.sources) {
        const atalla::MergeReport report = merge_one(database, source);
        all.push_back({{"source", source},
                       {"read", report.read},
                       {"added", report.added},
                       {"changed", report.changed},
                       {"conflicts", report.conflicts}});
        if (options.as_json) {
            continue;
        }
        std::cout << fmt::format("{}: {} trials read, {} added, {} changed\n", source, report.read, report.added,
                                 report.changed);
        for (const std::string &conflict : report.conflicts) {
            std::cout << "  different cycles, the larger kept: " << conflict << '\n';
        }
    }
    if (options.as_json) {
        print(all);
    }
}

void prune(const Options &options) {
    const atalla::TrialFilter &filter = options.filter;
    const bool chosen =
        !filter.op.empty() || !filter.workload.empty() || !filter.machine.empty() || !filter.compiler.empty() || filter.status;
    if (!chosen && !options.everything) {
        throw atalla::Error(
            "prune needs at least one of --op, --workload, --machine, --compiler, --status; to delete "
            "everything, say --all");
    }
    Database database = open_existing(options.database);
    const int64_t trials = options.dry_run ? static_cast<int64_t>(database.select(filter).size()) : database.prune(filter);
    if (options.as_json) {
        return print({{"trials", trials}, {"deleted", !options.dry_run}});
    }
    std::cout << fmt::format("trials {}: {}\n", options.dry_run ? "to delete" : "deleted", trials);
}

void stats(const Options &options) {
    const Database database = open_existing(options.database);
    const atalla::DatabaseStats stats = database.stats();
    const std::vector<std::string> damage = database.damage();
    const std::string integrity = damage.empty() ? "ok" : fmt::format("{}", fmt::join(damage, "; "));
    if (options.as_json) {
        print({{"file", options.database.string()},
               {"version", stats.version},
               {"integrity", integrity},
               {"bytes", stats.bytes},
               {"machines", stats.machines},
               {"compilers", stats.compilers},
               {"workloads", stats.workloads},
               {"runs", stats.runs},
               {"trials", stats.trials},
               {"winners", stats.winners},
               {"ok", stats.ok},
               {"failed", stats.failed},
               {"refused", stats.refused},
               {"timed_out", stats.timed_out},
               {"differs", stats.differs},
               {"seconds_lower", stats.seconds_lower},
               {"seconds_simulate", stats.seconds_simulate}});
    } else {
        std::cout << fmt::format("{}: version {}, {} bytes, integrity {}\n", options.database.string(), stats.version,
                                 stats.bytes, integrity)
                  << fmt::format("{} workloads, {} machines, {} compilers, {} runs\n", stats.workloads, stats.machines,
                                 stats.compilers, stats.runs)
                  << fmt::format("{} trials: {} ok, {} failed, {} refused, {} timed out, {} with wrong results\n", stats.trials,
                                 stats.ok, stats.failed, stats.refused, stats.timed_out, stats.differs)
                  << fmt::format("{} verified winners; {:.0f} s of lowering and {:.0f} s of simulation kept\n", stats.winners,
                                 stats.seconds_lower, stats.seconds_simulate);
    }
    if (integrity != "ok") {
        throw atalla::Error(fmt::format("the database {} is damaged", options.database.string()));
    }
}

void vacuum(const Options &options) {
    const int64_t freed = Database(options.database).vacuum();
    if (options.as_json) {
        return print({{"freed_bytes", freed}});
    }
    std::cout << fmt::format("{}: {} bytes given back\n", options.database.string(), freed);
}

// Simulating again needs the compiler, which atalla-tune has; this tool builds and starts without it.
void verify(const Options &options, const std::vector<std::string> &arguments) {
    const std::filesystem::path tune = std::filesystem::read_symlink("/proc/self/exe").replace_filename("atalla-tune");
    std::vector<std::string> command = {tune.string(), "--verify-db"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    if (std::find(command.begin(), command.end(), "--db") == command.end()) {
        command.insert(command.end(), {"--db", options.database.string()});
    }
    std::vector<char *> argv;
    for (std::string &word : command) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    throw atalla::Error(fmt::format("cannot start {}, which verifies a database: build it beside this program", tune.string()));
}

CLI::App *add_command(CLI::App &app, const std::string &name, const std::string &help, Options &options) {
    CLI::App *command = app.add_subcommand(name, help);
    command->add_flag("--json", options.as_json, "Print JSON");
    command->fallthrough();
    return command;
}

void add_filter(CLI::App &command, Options &options, bool with_status) {
    command.add_option("--op", options.filter.op, "Only this operator, by its name in ./atalla ops, e.g. addmm, or expression");
    command.add_option("--workload", options.filter.workload, "Only this workload, as list prints it");
    command.add_option("--machine", options.filter.machine, "Only this machine, by name or fingerprint");
    command.add_option("--compiler", options.filter.compiler, "Only this compiler fingerprint");
    if (with_status) {
        command.add_option("--status", options.status, "Only trials that ended so: ok, failed, refused, timed-out");
    }
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Looks into the tuning database, exchanges its rows and tidies it; docs/database.md describes it.",
                 "atalla-db");
    app.footer(
        "Examples:\n"
        "  atalla-db list --machine ax01\n"
        "  atalla-db show --op addmm --top 5\n"
        "  atalla-db export -o trials.jsonl\n"
        "  atalla-db --db team.db merge mine.db trials.jsonl\n"
        "  atalla-db prune --status timed-out");
    Options options;
    app.add_option("--db", options.database,
                   "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    app.require_subcommand(1);

    CLI::App *list_command =
        add_command(app, "list", "What has been tuned, with the best cycles and the share of the bound", options);
    add_filter(*list_command, options, false);
    CLI::App *show_command = add_command(app, "show", "The trials of each workload, fastest first", options);
    add_filter(*show_command, options, true);
    show_command->add_option("--top", options.top, "Trials to show of each, 0 for all")->capture_default_str();
    CLI::App *export_command = app.add_subcommand("export", "All rows as canonical text, one JSON object a line");
    export_command->fallthrough();
    add_filter(*export_command, options, true);
    export_command->add_flag("--results", options.results_only,
                             "Without runs, dates and host times: equal results give equal bytes");
    export_command->add_flag("--kernel-tuner", options.kernel_tuner,
                             "The trials of one workload as a cache of Kernel Tuner, which merge takes back");
    export_command->add_option("-o,--output", options.output, "File to write (standard output if not given)");
    CLI::App *merge_command = add_command(app, "merge", "Takes over the rows of other databases or exports", options);
    merge_command->add_option("SOURCE", options.sources, "Database files, exports, or - for an export on standard input")
        ->required();
    CLI::App *prune_command = add_command(app, "prune", "Deletes trials", options);
    add_filter(*prune_command, options, true);
    prune_command->add_flag("--all", options.everything, "Delete everything");
    prune_command->add_flag("--dry-run", options.dry_run, "Only count");
    CLI::App *verify_command = app.add_subcommand("verify",
                                                  "Simulates the trials again and compares exactly; "
                                                  "options: --op, --workload, --machine, --sample N, --winners, --json");
    verify_command->allow_extras();
    verify_command->prefix_command();
    CLI::App *vacuum_command = add_command(app, "vacuum", "Gives the space of deleted rows back to the disk", options);
    CLI::App *stats_command =
        add_command(app, "stats", "Totals, and a check of the file; exit status 1 if it is damaged", options);

    return atalla::run_tool(app, argc, argv, [&] {
        if (options.database.empty()) {
            options.database = atalla::default_database_path();
        }
        if (!options.status.empty()) {
            options.filter.status = atalla::parse_status(options.status);
        }
        if (*list_command) {
            list(options);
        } else if (*show_command) {
            show(options);
        } else if (*export_command) {
            export_rows(options);
        } else if (*merge_command) {
            merge(options);
        } else if (*prune_command) {
            prune(options);
        } else if (*verify_command) {
            verify(options, verify_command->remaining());
        } else if (*vacuum_command) {
            vacuum(options);
        } else if (*stats_command) {
            stats(options);
        }
    });
}
