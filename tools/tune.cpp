// atalla-tune: finds the fastest schedule of an operator on a machine and stores it.
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <iostream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "autotune/interrupt.h"
#include "autotune/operator_task.h"
#include "autotune/sweep.h"
#include "db/default_path.h"
#include "graph_import/import.h"
#include "isa/disassembler.h"
#include "isa/error.h"
#include "isa/write_file.h"
#include "model/workloads.h"
#include "tools/arranged.h"
#include "tools/emit.h"
#include "tools/run_tool.h"
#include "tools/tune_list.h"
#include "tools/tune_report.h"
#include "tools/tuned.h"
#include "tools/verify_database.h"
#include "tools/workload_options.h"
#include "tools/zero_trials.h"

namespace {

using atalla::Error;

struct Options {
    std::string machine = "ax01";
    std::filesystem::path database, shapes, model, emit, emit_assembly, sweep;
    std::string budget, trials, workload, effort, strategy, dump_after, point;
    uint64_t seed = 1;
    bool json = false, quiet = false, all_operators = false, explain = false, dry_run = false, prove = false, retune = false,
         no_opt = false, no_choices = false, verify_database = false, winners = false;
    int64_t sample = 0;
};

// "64" trials or "10s".
void set_budget(const char *option, const std::string &text, atalla::TuneOptions &options) {
    double value = 0;
    const char *end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, value);
    const bool seconds = failure == std::errc() && end - stop == 1 && *stop == 's';
    if (failure != std::errc() || (stop != end && !seconds) || !(value > 0) || value > 1e9 ||
        (!seconds && value != static_cast<int64_t>(value)))
        throw Error(
            fmt::format("{} must be a number of trials, such as 64, or of seconds, such as 10s, not '{}'", option, text));
    options.max_trials = seconds ? 0 : static_cast<int64_t>(value);
    options.max_seconds = seconds ? value : 0;
}

atalla::TuneOptions tune_options(const Options &given) {
    atalla::TuneOptions options;
    if (!given.effort.empty()) options = atalla::options_for_effort(given.effort);
    if (!given.budget.empty()) set_budget("--budget", given.budget, options);
    if (!given.trials.empty()) set_budget("--trials", given.trials, options);
    if (!given.strategy.empty()) {
        options.strategy = atalla::parse_strategy(given.strategy);
        if (options.strategy == atalla::Strategy::Exhaustive && given.budget.empty() && given.trials.empty())
            options.max_trials = 0;
    }
    if (given.prove) {
        options.strategy = atalla::Strategy::Exhaustive;
        options.prove = true;
        if (given.budget.empty() && given.trials.empty()) options.max_trials = 0;
    }
    options.seed = given.seed;
    options.choices = !given.no_choices;
    if (given.quiet) options.progress = atalla::ProgressMode::Quiet;
    return options;
}

bool is_list(const Options &options) { return !options.shapes.empty() || !options.model.empty() || options.all_operators; }

// What a model asks of the accelerator, each distinct workload with its count.
atalla::WorkloadList workloads_of_model(const std::filesystem::path &file, const atalla::Machine &machine,
                                        bool high_precision) {
    atalla::ImportOptions import;
    import.check_data = false;
    const atalla::ImportedModel model = atalla::import_model(file, import);
    atalla::PlacementOptions placement;
    placement.blocked_sums = high_precision;
    atalla::WorkloadList list;
    for (atalla::ModelWorkload &one : atalla::model_workloads(model.graph, machine, placement))
        list.add({one.op, one.workload, one.op->name() + " " + one.workload->shape(), one.count});
    if (list.workloads.empty())
        throw Error(fmt::format("{}: no node of the model runs on the accelerator; `atalla inspect` and `atalla ops` say why",
                                file.string()));
    return list;
}

atalla::WorkloadList workloads_of(const Options &options, const atalla::WorkloadOptions &what, const atalla::Machine &machine) {
    if (is_list(options) && !what.given().empty())
        throw Error(fmt::format("--{} cannot be given with a list, which has the sizes", what.given().begin()->first));
    if (options.all_operators) return atalla::workloads_of_all_operators(machine, options.database);
    if (!options.model.empty()) return workloads_of_model(options.model, machine, what.high_precision());
    const atalla::Operator &op = what.op();
    if (!options.shapes.empty()) {
        if (op.name() != "gemm")
            throw Error(fmt::format("a file of shapes lists matrix products, but the operator is {}", op.name()));
        return atalla::workloads_of_shapes(options.shapes);
    }
    if (!options.workload.empty() && !what.given().empty())
        throw Error(fmt::format("--{} cannot be given with --workload, which has the sizes", what.given().begin()->first));
    const atalla::ArrangedWorkload one =
        options.workload.empty() ? atalla::arranged(op, op.workload(what.arguments()), what.given(), machine, options.database)
                                 : atalla::ArrangedWorkload{op.parse(options.workload), {}, {}};
    atalla::WorkloadList list;
    list.add({&op, one.workload, op.name() + " " + one.workload->shape(), 1, one.note});
    return list;
}

// Compiles again what is to be looked at.
void write_artifacts(const Options &options, const atalla::Evaluator &evaluator, const atalla::Point &point) {
    if (options.emit.empty() && options.emit_assembly.empty() && options.dump_after.empty()) return;
    atalla::codegen::CompileOptions compile;
    compile.optimize = !options.no_opt;
    compile.dump_after = options.dump_after;
    std::ostream &out = options.json ? std::cerr : std::cout;
    compile.dump = [&](const std::string &pass, const std::string &text) {
        out << "==== after " << pass << " ====\n" << text << '\n';
    };
    const atalla::codegen::CompiledKernel compiled = evaluator.compile(point, compile);
    if (!options.emit.empty()) {
        atalla::KernelDefinition tensors;
        tensors.inputs = evaluator.workload().inputs();
        tensors.outputs = evaluator.workload().outputs();
        atalla::write_program_file(options.emit, atalla::program_with_data(tensors, compiled, evaluator.machine(),
                                                                           evaluator.inputs(atalla::DataSet::Normal)));
    }
    if (!options.emit_assembly.empty()) atalla::write_text_file(options.emit_assembly, atalla::disassemble(compiled.program));
}

void check_pass_name(const std::string &pass) {
    std::vector<std::string> names = atalla::codegen::pass_names();
    names.push_back("all");
    if (pass.empty() || std::find(names.begin(), names.end(), pass) != names.end()) return;
    const std::string nearest = atalla::nearest_name(pass, names);
    throw Error(fmt::format("--dump-after: there is no pass '{}'{} There are: {}", pass,
                            nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest), fmt::join(names, ", ")));
}

void print(const Options &options, const atalla::ListedWorkload &listed, atalla::Tuned tuned,
           const std::filesystem::path &database) {
    if (!listed.note.empty()) tuned.result.notes.push_back(listed.note);
    if (options.json)
        std::cout << atalla::report_json(tuned, database).dump() << std::endl;
    else if (options.quiet)
        std::cout << atalla::report_line(tuned) << std::flush;
    else
        std::cout << atalla::report_text(tuned, database, ::isatty(STDOUT_FILENO) != 0) << std::endl;
    if (!std::cout) throw Error("cannot write to standard output");
}

// --no-opt: the unoptimized program alone.
void show_unoptimized(const Options &options, const std::shared_ptr<const atalla::Workload> &workload,
                      const atalla::Machine &machine) {
    const atalla::Evaluator evaluator(workload, machine);
    const std::optional<atalla::Evaluation> naive = evaluator.unoptimized();
    if (naive && naive->status != atalla::Evaluation::Ok)
        throw Error(fmt::format("the unoptimized program of {} on {} does not run: {}", workload->title(), machine.name,
                                naive->reason));
    write_artifacts(options, evaluator, workload->naive_point(machine));
    if (options.json) {
        nlohmann::ordered_json json = {{"shape", workload->shape()}, {"machine", machine.name}, {"naive_cycles", nullptr}};
        if (naive) json["naive_cycles"] = naive->cycles;
        std::cout << json.dump() << '\n';
    } else {
        std::cout << fmt::format("{} on {}, unoptimized: {}\n", workload->title(), machine.name,
                                 naive ? fmt::format("{} cycles", naive->cycles) : "too large to run");
    }
}

void report_problems(const atalla::WorkloadList &list, size_t total) {
    if (!list.problems.empty())
        throw Error(fmt::format("{} of {} workloads could not be tuned:\n  {}", list.problems.size(), total,
                                fmt::join(list.problems, "\n  ")));
}

// Many workloads share the budget.
void tune_many(const Options &options, atalla::WorkloadList list, const atalla::Machine &machine, atalla::Database &database) {
    const size_t total = list.workloads.size() + list.problems.size();
    atalla::ScheduleOptions how;
    how.each = tune_options(options);
    how.progress = how.each.progress;
    how.max_seconds = how.each.max_seconds;
    how.max_trials = options.budget.empty() && options.trials.empty()
                         ? how.each.max_trials * static_cast<int64_t>(list.workloads.size())
                         : how.each.max_trials;
    const atalla::ScheduleResult result = atalla::tune_list(
        list, machine, database, how, options.retune, [&](const atalla::ListedWorkload &listed, const atalla::Tuned &tuned) {
            print(options, listed, tuned, database.file());
        });
    (options.json ? std::cerr : std::cout) << atalla::gain_text(list, result) << std::endl;
    if (result.interrupted) throw Error("interrupted; the same command goes on from here");
    report_problems(list, total);
}

void tune_one(const Options &options, const atalla::ListedWorkload &listed, const atalla::Machine &machine,
              atalla::Database &database) {
    if (options.retune)
        database.prune({listed.op->name(), listed.workload->text(), machine.fingerprint(), atalla::compiler_fingerprint(), {}});
    const atalla::Tuned tuned = atalla::tune_workload(*listed.op, listed.workload, machine, database, tune_options(options));
    print(options, listed, tuned, database.file());
    write_artifacts(options, *tuned.evaluator, tuned.result.best);
    if (!options.sweep.empty())
        atalla::write_sweep(atalla::recorded_sweep(database, atalla::tuning_task(*listed.op, tuned.evaluator)), options.sweep);
    if (tuned.result.interrupted) throw Error("interrupted; the same command goes on from here");
}

// --dry-run: what would be tuned, the most expensive first.
void show_list(const Options &options, atalla::WorkloadList list, const atalla::Machine &machine) {
    const auto cost = [&](const atalla::ListedWorkload &one) { return one.count * one.workload->bound(machine).cycles; };
    std::stable_sort(list.workloads.begin(), list.workloads.end(),
                     [&](const auto &one, const auto &other) { return cost(one) > cost(other); });
    for (const atalla::ListedWorkload &listed : list.workloads) {
        const int64_t bound = listed.workload->bound(machine).cycles;
        if (options.json)
            std::cout << nlohmann::ordered_json{{"op", listed.op->name()},
                                                {"workload", listed.workload->text()},
                                                {"name", listed.name},
                                                {"count", listed.count},
                                                {"bound_cycles", bound}}
                             .dump()
                      << '\n';
        else
            std::cout << fmt::format("{:>6} x  at least {:>14} {}  {} {}\n", listed.count, bound,
                                     machine.timed() ? "cycles" : "packets", listed.op->name(), listed.workload->title());
    }
}

// --trials 0.
void schedule_at_once(const Options &options, const atalla::WorkloadList &list, const atalla::Machine &machine) {
    const atalla::Database database(options.database.empty() ? atalla::default_database_path() : options.database);
    for (const atalla::ListedWorkload &listed : list.workloads) {
        const atalla::ZeroTrials zero = atalla::schedule_without_trials(*listed.op, listed.workload, machine, database);
        if (options.json)
            std::cout << atalla::zero_trials_json(zero, *listed.op, *listed.workload, machine).dump() << std::endl;
        else
            std::cout << atalla::zero_trials_text(zero, *listed.op, *listed.workload, machine, options.explain) << std::flush;
    }
}

void tune(const Options &options, const atalla::WorkloadOptions &what) {
    check_pass_name(options.dump_after);
    const bool at_once = options.trials == "0";
    if (!at_once) tune_options(options);
    const atalla::Machine machine = atalla::find_machine(options.machine);
    atalla::WorkloadList list = workloads_of(options, what, machine);
    for (const std::filesystem::path &file : {options.emit, options.emit_assembly, options.sweep})
        atalla::require_writable(file);
    if (list.workloads.size() > 1 && (!options.emit.empty() || !options.emit_assembly.empty() || !options.sweep.empty()))
        throw Error("--emit, --emit-asm and --sweep write one file, but there are several workloads; give one shape");
    if (options.dry_run) {
        show_list(options, list, machine);
        return report_problems(list, list.workloads.size() + list.problems.size());
    }
    if (at_once) {
        schedule_at_once(options, list, machine);
        return report_problems(list, list.workloads.size() + list.problems.size());
    }
    if (options.no_opt) {
        for (const atalla::ListedWorkload &listed : list.workloads) show_unoptimized(options, listed.workload, machine);
        return;
    }
    if (!options.point.empty()) {
        for (const atalla::ListedWorkload &listed : list.workloads) {
            const atalla::Point point = atalla::Point::parse(options.point);
            // What does not compile is what one most wants to look at.
            write_artifacts(options, atalla::Evaluator(listed.workload, machine), point);
            print(options, listed, atalla::measure_point(*listed.op, listed.workload, machine, point), {});
        }
        return;
    }
    const atalla::InterruptGuard guard;
    atalla::Database database(options.database.empty() ? atalla::default_database_path() : options.database);
    if (list.workloads.size() == 1) {
        tune_one(options, list.workloads.front(), machine, database);
        report_problems(list, 1 + list.problems.size());
    } else {
        tune_many(options, std::move(list), machine, database);
    }
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Finds the fastest schedule of an operator on a machine, verifies it and stores it.", "atalla-tune");
    app.footer(
        "Examples:\n"
        "  atalla-tune --op gemm\n"
        "  atalla-tune --op gemm --shape 197x768x768 --bias --machine ax01-psum --budget 20s\n"
        "  atalla-tune --shapes examples/shapes/bert-base.json --json\n"
        "  atalla-tune --op gemm --shape 64x64x64 --emit gemm.in\n"
        "  atalla-tune --op gemm --shape 64x64x64 --machine fsim --emit upstream.in\n\n"
        "The database is the checkpoint: after Ctrl-C or a kill the same command goes on where it ended.");
    Options options;
    atalla::WorkloadOptions what(app, argc, argv, true);
    CLI::Option *machine = app.add_option("--machine", options.machine, "A machine's name or file")->capture_default_str();
    CLI::Option *shapes =
        app.add_option("--shapes", options.shapes, "Tune every product of this file, as examples/shapes/*.json");
    CLI::Option *model =
        app.add_option("--model", options.model, "Tune what this model (.pt2) asks of the accelerator")->excludes(shapes);
    CLI::Option *all = app.add_flag("--all-ops", options.all_operators, "Tune every operator at its default size")
                           ->excludes(shapes)
                           ->excludes(model);
    app.add_option("--db", options.database,
                   "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    CLI::Option *budget = app.add_option("--budget", options.budget,
                                         "Trials, such as 64, or seconds, such as 10s (default: 32 trials for each shape); a "
                                         "list shares it by expected gain. More "
                                         "than one trial: and some for the code generator's choices behind them");
    app.add_option("--trials", options.trials,
                   "The same; 0: a schedule at once, from the draft and from what the database knows of other shapes")
        ->excludes(budget);
    app.add_flag("--dry-run", options.dry_run, "Only list what would be tuned, with counts, the most expensive first");
    CLI::Option *workload =
        app.add_option("--workload", options.workload, "The workload as text, as --dry-run --json and atalla-db list print it");
    what.precision_option()->excludes(shapes)->excludes(all)->excludes(workload);
    app.add_flag("--explain", options.explain, "With --trials 0: say from whom the schedule comes");
    app.add_flag("--prove", options.prove,
                 "Visit the whole space, each point for as long as the best takes: nothing in it is faster then");
    app.add_option("--effort", options.effort, "Budget by word: draft, quick, normal, thorough or exhaustive");
    app.add_option("--strategy", options.strategy, "draft (default), model, random, exhaustive, climb or evolve");
    atalla::add_seed(app, options.seed, "Runs with equal seeds propose equal points");
    app.add_option("--point", options.point, "Measure this schedule, such as rows=64,m_outer=1,..., instead of searching");
    app.add_option("--emit", options.emit, "Write the winner with its data as a .in program");
    app.add_option("--emit-asm", options.emit_assembly, "Write the winner as commented assembly");
    app.add_option("--sweep", options.sweep,
                   "Write what is recorded of the shape as a cache of Kernel Tuner, such as sweep.json.gz");
    app.add_option("--dump-after", options.dump_after,
                   "Print the winner as it is after this pass of the code generator, or all");
    app.add_flag("--no-opt", options.no_opt, "Do not tune: generate the unoptimized program, the reference");
    app.add_flag("--no-choices", options.no_choices,
                 "Do not try the code generator's choices for the best schedule at the end (docs/codegen/choices.md)");
    app.add_flag("--retune,--force", options.retune, "Forget what is stored for the shape and start over");
    app.add_flag("--json", options.json, "Print one JSON object a shape");
    app.add_flag("--quiet", options.quiet, "No progress, one line a shape");
    CLI::Option *verify = app.add_flag("--verify-db", options.verify_database, "Simulate the stored trials again and compare");
    app.add_option("--sample", options.sample, "Verify this many trials, drawn at random")
        ->needs(verify)
        ->check(CLI::PositiveNumber);
    app.add_flag("--winners", options.winners, "Verify only the winners")->needs(verify);
    return atalla::run_tool(app, argc, argv, [&] {
        if (!options.verify_database) return tune(options, what);
        atalla::VerifyDatabaseOptions check;
        check.file = options.database.empty() ? atalla::default_database_path() : options.database;
        if (machine->count() > 0) check.machine = options.machine;
        for (const CLI::Option *option : app.get_options()) {
            static const std::set<std::string> meant = {"--verify-db", "--db",   "--machine", "--op",   "--workload",
                                                        "--sample",    "--seed", "--winners", "--json", "--quiet"};
            if (option->count() == 0) continue;
            if (!meant.contains(option->get_name()))
                throw atalla::Error(
                    fmt::format("{} says nothing of what is verified; {} do", option->get_name(), fmt::join(meant, ", ")));
            if (option->get_name() == "--op") check.op = option->as<std::string>();
        }
        check.workload = options.workload;
        check.sample = options.sample;
        check.seed = options.seed;
        check.winners_only = options.winners;
        check.json = options.json;
        atalla::verify_database_file(check, std::cout);
    });
}
