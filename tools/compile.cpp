// atalla-compile: a model that torch.export.save wrote becomes a loadable.
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "graph_import/import.h"
#include "isa/error.h"
#include "isa/write_file.h"
#include "model/compile_model.h"
#include "runtime/describe.h"
#include "tools/compile_options.h"
#include "tools/run_tool.h"
#include "tools/tuned.h"

namespace {

using namespace atalla;

struct Options {
    ModelOptions program;
    std::filesystem::path file, output;
    std::string model;
    bool tune = false, no_cache = false, fill = false, one_by_one = false, no_verify = false, json = false, quiet = false;
    int64_t trials = TuneOptions().max_trials;
    uint64_t measured = KernelOptions().measured;
};

void write_bytes(const std::filesystem::path &file, const std::vector<uint8_t> &bytes) {
    const std::filesystem::path partial = unfinished_of(file);
    std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
    stream.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    stream.close();
    std::error_code code;
    if (stream) std::filesystem::rename(partial, file, code);
    if (!stream || code) {
        discard_unfinished(file);
        throw Error(fmt::format("{}: cannot be written: {}", file.string(),
                                code ? code.message() : "is the disk full, or the folder missing?"));
    }
}

nlohmann::ordered_json kernels_json(const CompiledModel &compiled) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ChosenKernel &kernel : compiled.kernels)
        list.push_back({{"kernel", kernel.routine.name},
                        {"schedule", kernel.from},
                        {"verified", kernel.verified},
                        {"point", nlohmann::json(kernel.point)},
                        {"packets", kernel.routine.program.packets.size()},
                        {"bound_cycles", kernel.bound_cycles}});
    return list;
}

void compile(const Options &options) {
    const Machine machine = find_machine(options.program.machine);
    const ImportedModel imported = import_model(options.file, {options.model});
    CompileModelOptions how = compile_options(options.program);
    how.name = options.file.stem().string();
    how.fill = options.fill;
    how.one_by_one = options.one_by_one;
    std::optional<Database> database = open_database(options.program, options.tune);
    how.kernels.database = database ? &*database : nullptr;
    how.kernels.tune = options.tune;
    how.kernels.measured = options.measured;
    how.kernels.verify = !options.no_verify;
    std::optional<ScheduleCache> cache;
    if (const std::filesystem::path kept = options.no_cache ? "" : default_schedule_cache(machine.fingerprint()); !kept.empty())
        cache.emplace(kept);
    how.kernels.cache = cache ? &*cache : nullptr;
    how.kernels.how.max_trials = options.trials;
    if (options.quiet || options.json) how.kernels.how.progress = ProgressMode::Quiet;
    const CompiledModel compiled = compile_model(imported.graph, machine, how);
    // What is written can be read.
    const std::shared_ptr<const Model> model = Model::from_bytes(compiled.bytes, options.output.string());
    write_bytes(options.output, compiled.bytes);
    if (!options.quiet && !options.json)
        for (const std::string &note : compiled.notes) std::cerr << "note: " << note << '\n';
    if (options.json) {
        nlohmann::ordered_json json = describe(*model);
        json["kernels"] = kernels_json(compiled);
        json["notes"] = compiled.notes;
        std::cout << json.dump() << '\n';
    } else if (!options.quiet) {
        std::cout << describe_text(*model) << '\n';
        for (const ChosenKernel &kernel : compiled.kernels)
            std::cout << fmt::format("  {:<44} schedule: {:<7} {:>6} packets\n", kernel.routine.name, kernel.from,
                                     kernel.routine.program.packets.size());
        std::cout << fmt::format("{} written, {} bytes\n", options.output.string(), compiled.bytes.size());
    }
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Compiles a model that torch.export.save wrote to one program and what the host does around it.",
                 "atalla-compile");
    app.footer(
        "Examples:\n  atalla compile model.pt2 -o model.atl\n  atalla compile model.pt2 -o model.atl --machine fsim --tune\n"
        "  atalla compile model.pt2 -o model.atl --sizes s77=1 --sizes s77=8\n\n"
        "Kernels use the database's winners; for what has none a few schedules that the draft model likes best are simulated,\n"
        "and the results of the fastest are compared bit for bit with those of the unoptimized program, or the host's.");
    Options options;
    app.add_option("FILE", options.file, "The .pt2 file")->required();
    app.add_option("-o,--output", options.output, "The .atl file to write")->required();
    app.add_option("--model", options.model, "Which model, if the archive holds several");
    add_model_options(app, options.program);
    app.add_flag("--fill", options.fill,
                 "Calls may have smaller sizes than the next specialization, which is filled up: for sizes along which nothing "
                 "mixes, such as a batch");
    app.add_flag("--tune", options.tune, "Tune kernels that have no winner, and keep the winners");
    app.add_option("--trials", options.trials, "Trials a kernel with --tune")
        ->check([](const std::string &text) { return text.starts_with('-') ? "a number of trials is not negative" : ""; })
        ->capture_default_str();
    app.add_option("--measured", options.measured,
                   "Kernels without a winner: how many of the schedules that the draft model likes best are simulated to "
                   "choose one (1: none)")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_flag("--no-verify", options.no_verify,
                 "Take such schedules as they are, without a run on random and special values that shows whether their results "
                 "are right");
    app.add_flag("--no-cache", options.no_cache,
                 "Choose such schedules anew, instead of those that an earlier compile chose (atalla-tune/schedules in the "
                 "user's cache folder)");
    app.add_flag("--one-by-one", options.one_by_one,
                 "Run every kernel from its own start to its own end, to compare one program with");
    app.add_flag("--json", options.json, "Print a JSON object");
    app.add_flag("--quiet", options.quiet, "Print nothing");
    return run_tool(app, argc, argv, [&] { compile(options); });
}
