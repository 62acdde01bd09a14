// atalla-simulate: runs `.in` programs on a machine and prints their counters.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "isa/disassembler.h"
#include "isa/error.h"
#include "isa/in_file.h"
#include "isa/machine.h"
#include "simulator/a48.h"
#include "simulator/batch.h"
#include "simulator/reference/agreement.h"
#include "simulator/report.h"
#include "simulator/simulator.h"
#include "tools/run_tool.h"

namespace {

struct Options {
    std::vector<std::filesystem::path> programs;
    std::string machine;
    std::filesystem::path state_file;
    bool json = false;
    std::string model = "fast";
    atalla::RunOptions run;
};

struct Outcome {
    atalla::Machine machine;
    atalla::RunResult result;
    std::string state;
};

constexpr const char *a40_machine = "ax01", *a48_machine = "fsim";

Outcome run_a48(const std::filesystem::path &file, const Options &options) {
    const atalla::Machine machine = atalla::find_machine(options.machine.empty() ? a48_machine : options.machine);
    if (machine.model != atalla::MachineModel::Functional) {
        throw atalla::Error(fmt::format("'{}' is a program of the older A48 dialect, which {} cannot run: use --machine {}",
                                        file.string(), machine.name, a48_machine));
    }
    atalla::a48::Simulator simulator(atalla::a48::read_in(file));
    const atalla::RunResult result = simulator.run(options.run);
    return {machine, result, simulator.dump_state(result)};
}

// --model both: the fast model and the reference must agree; what differs is told with the smallest such program.
void check_agreement(const atalla::Machine &machine, const atalla::Program &program, const atalla::RunOptions &options) {
    const std::string differs = atalla::disagreement(machine, program, options);
    if (differs.empty()) {
        return;
    }
    const atalla::Program small = atalla::shrink(
        program, [&](const atalla::Program &tried) { return !atalla::disagreement(machine, tried, options).empty(); });
    throw atalla::Error(fmt::format("the two timing models disagree: {}. The smallest program on which they do, where {}:\n{}",
                                    differs, atalla::disagreement(machine, small, options), atalla::disassemble(small)));
}

Outcome run_a40(const std::filesystem::path &file, const Options &options) {
    const atalla::Machine machine = atalla::find_machine(options.machine.empty() ? a40_machine : options.machine);
    if (options.model != "fast" && !machine.timed()) {
        throw atalla::Error(fmt::format("machine '{}' has no timing, so it has no timing model to choose", machine.name));
    }
    const atalla::Program program = atalla::read_in(file);
    atalla::Simulator simulator(machine);
    simulator.load(program);
    if (options.model == "both") {
        check_agreement(machine, program, options.run);
    }
    const atalla::RunResult result = simulator.run(options.run);
    return {machine, result, simulator.dump_state(result)};
}

void write_state(const std::string &state, const std::filesystem::path &file) {
    std::ofstream output(file, std::ios::binary);
    if (!(output << state).flush()) {
        throw atalla::Error(fmt::format("cannot write the state to '{}'", file.string()));
    }
}

nlohmann::ordered_json json_of(const std::filesystem::path &file, const atalla::Machine &machine,
                               const atalla::RunResult &result) {
    return {{"program", file.string()},
            {"machine", machine.name},
            {"fingerprint", machine.fingerprint()},
            {"ok", result.ok},
            {"error", result.error},
            {"rule", result.rule},
            {"counters", atalla::counters_json(result.counters)}};
}

void print(const std::string &text) {
    if (!(std::cout << text).flush()) {
        throw atalla::Error("cannot write to standard output");
    }
}

void simulate_one(const Options &options) {
    const std::filesystem::path &file = options.programs.front();
    const Outcome outcome = atalla::a48::is_a48_file(file) ? run_a48(file, options) : run_a40(file, options);
    if (!options.state_file.empty()) {
        write_state(outcome.state, options.state_file);
    }
    if (options.json) {
        print(json_of(file, outcome.machine, outcome.result).dump(2) + '\n');
    } else if (outcome.result.ok) {
        print(fmt::format("{} on {}\n", file.filename().string(), outcome.machine.name) +
              atalla::counters_text(outcome.result.counters, outcome.machine));
    }
    if (!outcome.result.ok) {
        throw atalla::Error(outcome.result.error);
    }
}

// Several programs run side by side; a line, or an object of the list, each.
void simulate_batch(const Options &options) {
    if (!options.state_file.empty()) {
        throw atalla::Error("--dump-state writes the state of one program, but several are given");
    }
    if (options.model == "both") {
        throw atalla::Error("--model both compares the models on one program, but several are given");
    }
    const atalla::Machine machine = atalla::find_machine(options.machine.empty() ? a40_machine : options.machine);
    std::vector<atalla::Program> programs;
    for (const std::filesystem::path &file : options.programs) {
        if (atalla::a48::is_a48_file(file)) {
            throw atalla::Error(fmt::format("'{}' is a program of the older A48 dialect, which runs alone", file.string()));
        }
        programs.push_back(atalla::read_in(file));
    }
    std::vector<atalla::BatchJob> jobs;
    for (const atalla::Program &program : programs) {
        jobs.push_back({&machine, &program});
    }
    const std::vector<atalla::RunResult> results = atalla::run_batch(jobs, options.run);
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    std::string text = fmt::format("{:>16}{:>16}  on {}\n", "cycles", "packets", machine.name);
    size_t refused = 0, first_refused = 0;
    for (size_t at = 0; at < results.size(); at++) {
        const atalla::Counters &counters = results[at].counters;
        list.push_back(json_of(options.programs[at], machine, results[at]));
        text += fmt::format("{:>16}{:>16}  {}{}\n", atalla::grouped(counters.cycles), atalla::grouped(counters.packets),
                            options.programs[at].string(), results[at].ok ? "" : " (refused)");
        first_refused = results[at].ok || refused > 0 ? first_refused : at;
        refused += !results[at].ok;
    }
    print(options.json ? list.dump(2) + '\n' : text);
    if (refused > 0) {
        throw atalla::Error(fmt::format("{} of {} programs refused; {}: {}", refused, results.size(),
                                        options.programs[first_refused].string(), results[first_refused].error));
    }
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Runs .in programs on a machine: exact cycles on the hardware machines, one packet a cycle on fsim.",
                 "atalla-simulate");
    app.footer(
        "Example:\n  atalla-simulate gemm.in --machine ax01 --dump-state gemm.state\n\n"
        "The exit status is 1 if the machine refuses the program; the state is then that of the refused packet.");
    Options options;
    app.add_option("PROGRAM", options.programs, "Program files, A40 or A48; several run side by side")->required();
    app.add_option("--machine", options.machine,
                   fmt::format("A machine's name or file ({} if not given, {} for A48 programs)", a40_machine, a48_machine));
    app.add_option("--dump-state", options.state_file, "Write registers, masks and changed memory after the run to this file");
    app.add_option("--model", options.model,
                   "Timing model: fast, reference (the same cycles, written for reading, some hundred times slower), or both, "
                   "which fails with the smallest program on which they disagree")
        ->check(CLI::IsMember({"fast", "reference", "both"}))
        ->capture_default_str();
    app.add_flag("--json", options.json, "Print the counters as JSON");
    app.add_option("--step-limit", options.run.step_limit, "Refuse a program that runs more packets than this")
        ->capture_default_str();
    return atalla::run_tool(app, argc, argv, [&] {
        options.run.model = options.model == "reference" ? atalla::TimingModel::Reference : atalla::TimingModel::Fast;
        options.programs.size() == 1 ? simulate_one(options) : simulate_batch(options);
    });
}
