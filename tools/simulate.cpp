// atalla-simulate: runs a `.in` program on a machine and prints its counters.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "isa/error.h"
#include "isa/in_file.h"
#include "isa/machine.h"
#include "simulator/a48.h"
#include "simulator/report.h"
#include "simulator/simulator.h"
#include "tools/run_tool.h"

namespace {

struct Options {
    std::filesystem::path program;
    std::string machine;
    std::filesystem::path state_file;
    bool json = false;
    atalla::RunOptions run;
};

struct Outcome {
    atalla::Machine machine;
    atalla::RunResult result;
    std::string state;
};

constexpr const char *a40_machine = "ax01", *a48_machine = "fsim";

Outcome run_a48(const Options &options) {
    const atalla::Machine machine = atalla::find_machine(options.machine.empty() ? a48_machine : options.machine);
    if (machine.model != atalla::MachineModel::Functional) {
        throw atalla::Error(fmt::format("'{}' is a program of the older A48 dialect, which {} cannot run: use --machine {}",
                                        options.program.string(), machine.name, a48_machine));
    }
    atalla::a48::Simulator simulator(atalla::a48::read_in(options.program));
    const atalla::RunResult result = simulator.run(options.run);
    return {machine, result, simulator.dump_state(result)};
}

Outcome run_a40(const Options &options) {
    const atalla::Machine machine = atalla::find_machine(options.machine.empty() ? a40_machine : options.machine);
    atalla::Simulator simulator(machine);
    simulator.load(atalla::read_in(options.program));
    const atalla::RunResult result = simulator.run(options.run);
    return {machine, result, simulator.dump_state(result)};
}

void write_state(const std::string &state, const std::filesystem::path &file) {
    std::ofstream output(file, std::ios::binary);
    if (!(output << state).flush()) {
        throw atalla::Error(fmt::format("cannot write the state to '{}'", file.string()));
    }
}

void print(const Options &options, const Outcome &outcome) {
    if (options.json) {
        const nlohmann::ordered_json json{{"program", options.program.string()},
                                          {"machine", outcome.machine.name},
                                          {"fingerprint", outcome.machine.fingerprint()},
                                          {"ok", outcome.result.ok},
                                          {"error", outcome.result.error},
                                          {"rule", outcome.result.rule},
                                          {"counters", atalla::counters_json(outcome.result.counters)}};
        std::cout << json.dump(2) << '\n';
    } else if (outcome.result.ok) {
        std::cout << fmt::format("{} on {}\n", options.program.filename().string(), outcome.machine.name)
                  << atalla::counters_text(outcome.result.counters, outcome.machine);
    }
    if (!std::cout.flush()) {
        throw atalla::Error("cannot write to standard output");
    }
}

void simulate(const Options &options) {
    const bool a48 = atalla::a48::is_a48_file(options.program);
    const Outcome outcome = a48 ? run_a48(options) : run_a40(options);
    if (!options.state_file.empty()) {
        write_state(outcome.state, options.state_file);
    }
    print(options, outcome);
    if (!outcome.result.ok) {
        throw atalla::Error(outcome.result.error);
    }
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Runs a .in program on a machine: exact cycles on the hardware machines, one packet a cycle on fsim.",
                 "atalla-simulate");
    app.footer(
        "Example:\n  atalla-simulate gemm.in --machine ax01-psum --dump-state gemm.state\n\n"
        "The exit status is 1 if the machine refuses the program; the state is then that of the refused packet.");
    Options options;
    app.add_option("PROGRAM", options.program, "Program file, A40 or A48")->required();
    app.add_option("--machine", options.machine,
                   fmt::format("A machine's name or file ({} if not given, {} for A48 programs)", a40_machine, a48_machine));
    app.add_option("--dump-state", options.state_file, "Write registers, masks and changed memory after the run to this file");
    app.add_flag("--json", options.json, "Print the counters as JSON");
    app.add_option("--step-limit", options.run.step_limit, "Refuse a program that runs more packets than this")
        ->capture_default_str();
    return atalla::run_tool(app, argc, argv, [&] { simulate(options); });
}
