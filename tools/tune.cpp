// atalla-tune: finds the fastest schedule of an operator on a machine and stores it.
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "autotune/interrupt.h"
#include "db/default_path.h"
#include "isa/disassembler.h"
#include "isa/error.h"
#include "tools/emit.h"
#include "tools/run_tool.h"
#include "tools/shapes.h"
#include "tools/tune_report.h"
#include "tools/tuned.h"
#include "tools/verify_database.h"
#include "tools/workload_options.h"

namespace {

using atalla::Error;

struct Options {
    std::string machine = "ax01";
    std::filesystem::path database, shapes, emit, emit_assembly;
    std::string budget, effort, strategy, dump_after, point;
    uint64_t seed = 1;
    bool json = false, quiet = false, retune = false, no_opt = false, verify_database = false, winners = false;
    int64_t sample = 0;
};

// "64" trials or "10s".
void set_budget(const std::string &text, atalla::TuneOptions &options) {
    double value = 0;
    const char *end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, value);
    const bool seconds = failure == std::errc() && end - stop == 1 && *stop == 's';
    if (failure != std::errc() || (stop != end && !seconds) || !(value > 0) || value > 1e9 || (!seconds && value != static_cast<int64_t>(value)))
        throw Error(fmt::format("--budget must be a number of trials, such as 64, or of seconds, such as 10s, not '{}'", text));
    options.max_trials = seconds ? 0 : static_cast<int64_t>(value);
    options.max_seconds = seconds ? value : 0;
}

atalla::TuneOptions tune_options(const Options &given) {
    atalla::TuneOptions options = given.effort.empty() ? atalla::default_tune_options() : atalla::options_for_effort(given.effort);
    if (!given.budget.empty()) set_budget(given.budget, options);
    if (!given.strategy.empty()) {
        options.strategy = atalla::parse_strategy(given.strategy);
        if (options.strategy == atalla::Strategy::Exhaustive && given.budget.empty()) options.max_trials = 0;
    }
    options.seed = given.seed;
    if (given.quiet) options.progress = atalla::ProgressMode::Quiet;
    return options;
}

// The workloads of a list, and what cannot be tuned with the reason.
struct Workloads {
    std::vector<std::shared_ptr<const atalla::Workload>> workloads;
    std::vector<std::string> problems;
};

Workloads workloads_of(const Options &options, const atalla::Operator &op, const atalla::WorkloadArguments &arguments) {
    Workloads list;
    if (options.shapes.empty()) {
        list.workloads.push_back(op.workload(arguments));
        return list;
    }
    if (op.name() != "gemm") throw Error(fmt::format("a file of shapes lists matrix products, but the operator is {}", op.name()));
    if (!arguments.empty()) throw Error(fmt::format("--{} cannot be given with --shapes, whose file has the sizes", arguments.begin()->first));
    std::vector<std::string> seen;
    for (const atalla::ModelGemm &gemm : atalla::read_shapes(options.shapes)) {
        atalla::WorkloadArguments sizes = {{"m", std::to_string(gemm.m)}, {"n", std::to_string(gemm.n)}, {"k", std::to_string(gemm.k)},
                                           {"bias", gemm.bias ? "true" : "false"}, {"b-layout", gemm.b == atalla::ModelGemm::Layout::NK ? "nk" : "kn"}};
        try {
            std::shared_ptr<const atalla::Workload> workload = op.workload(sizes);
            const std::string text = workload->text();
            if (std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
            seen.push_back(text);
            list.workloads.push_back(std::move(workload));
        } catch (const Error &error) {
            list.problems.push_back(fmt::format("{}: {}", gemm.name, error.what()));
        }
    }
    return list;
}

// Compiles again what is to be looked at.
void write_artifacts(const Options &options, const atalla::Evaluator &evaluator, const atalla::Point &point) {
    if (options.emit.empty() && options.emit_assembly.empty() && options.dump_after.empty()) return;
    atalla::codegen::CompileOptions compile;
    compile.optimize = !options.no_opt;
    compile.dump_after = options.dump_after;
    std::ostream &out = options.json ? std::cerr : std::cout;
    compile.dump = [&](const std::string &pass, const std::string &text) { out << "==== after " << pass << " ====\n" << text << '\n'; };
    const atalla::codegen::CompiledKernel compiled = evaluator.compile(point, compile);
    if (!options.emit.empty()) {
        atalla::KernelDefinition tensors;
        tensors.inputs = evaluator.workload().inputs();
        tensors.outputs = evaluator.workload().outputs();
        atalla::write_program_file(options.emit, atalla::program_with_data(tensors, compiled, evaluator.machine(), evaluator.inputs(atalla::DataSet::Normal)));
    }
    if (!options.emit_assembly.empty()) atalla::write_text_file(options.emit_assembly, atalla::disassemble(compiled.program));
}

void check_pass_name(const std::string &pass) {
    std::vector<std::string> names = atalla::codegen::pass_names();
    names.push_back("all");
    if (pass.empty() || std::find(names.begin(), names.end(), pass) != names.end()) return;
    const std::string nearest = atalla::nearest_name(pass, names);
    throw Error(fmt::format("--dump-after: there is no pass '{}'{}; there are: {}", pass, nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest),
                            fmt::join(names, ", ")));
}

void print(const Options &options, const atalla::Tuned &tuned, const std::filesystem::path &database) {
    if (options.json) std::cout << atalla::report_json(tuned, database).dump() << std::endl;
    else if (options.quiet) std::cout << atalla::report_line(tuned) << std::flush;
    else std::cout << atalla::report_text(tuned, database, ::isatty(STDOUT_FILENO) != 0) << std::endl;
    if (!std::cout) throw Error("cannot write to standard output");
}

// --no-opt: the unoptimized program alone.
void show_unoptimized(const Options &options, const std::shared_ptr<const atalla::Workload> &workload, const atalla::Machine &machine) {
    const atalla::Evaluator evaluator(workload, machine);
    const std::optional<atalla::Evaluation> naive = evaluator.unoptimized();
    if (naive && naive->status != atalla::Evaluation::Ok)
        throw Error(fmt::format("the unoptimized program of {} on {} does not run: {}", workload->title(), machine.name, naive->reason));
    write_artifacts(options, evaluator, workload->naive_point(machine));
    if (options.json) {
        nlohmann::ordered_json json = {{"shape", workload->shape()}, {"machine", machine.name}, {"naive_cycles", nullptr}};
        if (naive) json["naive_cycles"] = naive->cycles;
        std::cout << json.dump() << '\n';
    } else {
        std::cout << fmt::format("{} on {}, unoptimized: {}\n", workload->title(), machine.name, naive ? fmt::format("{} cycles", naive->cycles) : "too large to run");
    }
}

void tune_list(const Options &options, const atalla::WorkloadOptions &what) {
    check_pass_name(options.dump_after);
    const atalla::TuneOptions how = tune_options(options);
    const atalla::Operator &op = what.op();
    const atalla::Machine machine = atalla::find_machine(options.machine);
    Workloads list = workloads_of(options, op, what.arguments());
    if (list.workloads.size() > 1 && (!options.emit.empty() || !options.emit_assembly.empty()))
        throw Error("--emit and --emit-asm write one program, but --shapes has several; give one shape");
    if (options.no_opt) {
        for (const auto &workload : list.workloads) show_unoptimized(options, workload, machine);
        return;
    }
    if (!options.point.empty()) {
        for (const auto &workload : list.workloads) {
            const atalla::Tuned measured = atalla::measure_point(op, workload, machine, atalla::Point::parse(options.point));
            print(options, measured, {});
            write_artifacts(options, *measured.evaluator, measured.result.best);
        }
        return;
    }
    const std::filesystem::path file = options.database.empty() ? atalla::default_database_path() : options.database;
    atalla::Database database(file);
    const atalla::InterruptGuard guard;
    for (const auto &workload : list.workloads) {
        if (options.retune) database.prune({op.name(), workload->text(), machine.fingerprint(), atalla::compiler_fingerprint(), {}});
        std::optional<atalla::Tuned> tuned;
        try {
            tuned = atalla::tune_workload(op, workload, machine, database, how);
        } catch (const Error &error) {
            // The rest of a list is still worth tuning.
            if (list.workloads.size() == 1 || atalla::interrupt_requested()) throw;
            list.problems.push_back(error.what());
            continue;
        }
        print(options, *tuned, file);
        write_artifacts(options, *tuned->evaluator, tuned->result.best);
        if (tuned->result.interrupted) throw Error("interrupted; the same command goes on from here");
    }
    if (!list.problems.empty()) throw Error(fmt::format("{} of {} shapes could not be tuned:\n  {}", list.problems.size(), list.workloads.size() + list.problems.size(), fmt::join(list.problems, "\n  ")));
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Finds the fastest schedule of an operator on a machine, verifies it and stores it.", "atalla-tune");
    app.footer("Examples:\n"
               "  atalla-tune --op gemm\n"
               "  atalla-tune --op gemm --shape 197x768x768 --bias --machine ax01-psum --budget 20s\n"
               "  atalla-tune --shapes examples/shapes/bert-base.json --json\n"
               "  atalla-tune --op gemm --shape 64x64x64 --machine fsim --emit gemm.in\n\n"
               "The database is the checkpoint: after Ctrl-C or a kill the same command goes on where it ended.");
    Options options;
    atalla::WorkloadOptions what(app, true);
    CLI::Option *machine = app.add_option("--machine", options.machine, "A machine's name or file")->capture_default_str();
    app.add_option("--shapes", options.shapes, "Tune every product of this file, as examples/shapes/*.json");
    app.add_option("--db", options.database, "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    app.add_option("--budget", options.budget, "Trials, such as 64, or seconds, such as 10s (default: 32 trials)");
    app.add_option("--effort", options.effort, "Budget by word: draft, quick, normal, thorough or exhaustive");
    app.add_option("--strategy", options.strategy, "draft, random or exhaustive");
    app.add_option("--seed", options.seed, "Runs with equal seeds propose equal points")->capture_default_str();
    app.add_option("--point", options.point, "Measure this schedule, such as rows=64,m_outer=1,..., instead of searching");
    app.add_option("--emit", options.emit, "Write the winner with its data as a .in program");
    app.add_option("--emit-asm", options.emit_assembly, "Write the winner as commented assembly");
    app.add_option("--dump-after", options.dump_after, "Print the winner as it is after this pass of the code generator, or all");
    app.add_flag("--no-opt", options.no_opt, "Do not tune: generate the unoptimized program, the reference");
    app.add_flag("--retune,--force", options.retune, "Forget what is stored for the shape and start over");
    app.add_flag("--json", options.json, "Print one JSON object a shape");
    app.add_flag("--quiet", options.quiet, "No progress, one line a shape");
    CLI::Option *verify = app.add_flag("--verify-db", options.verify_database, "Simulate the stored trials again and compare");
    app.add_option("--sample", options.sample, "Verify this many trials, drawn at random")->needs(verify)->check(CLI::PositiveNumber);
    app.add_flag("--winners", options.winners, "Verify only the winners")->needs(verify);
    return atalla::run_tool(app, argc, argv, [&] {
        if (!options.verify_database) return tune_list(options, what);
        atalla::VerifyDatabaseOptions check;
        check.file = options.database.empty() ? atalla::default_database_path() : options.database;
        if (machine->count() > 0) check.machine = options.machine;
        check.sample = options.sample;
        check.seed = options.seed;
        check.winners_only = options.winners;
        check.json = options.json;
        atalla::verify_database_file(check, std::cout);
    });
}
