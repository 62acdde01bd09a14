// atalla-asm: assembly text to a `.in` program file.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "isa/assembler.h"
#include "isa/error.h"
#include "isa/in_file.h"
#include "isa/machine.h"
#include "isa/packet_checker.h"
#include "tools/run_tool.h"

namespace {

struct Options {
    std::filesystem::path input;
    std::filesystem::path output;
    std::string machine;
    bool comments = false;
};

void check_packets(const atalla::Program &program, const Options &options) {
    const atalla::Machine machine = atalla::find_machine(options.machine);
    for (const atalla::PlacedPacket &placed : program.packets) {
        if (const auto violation = atalla::check_packet(placed.packet, machine)) {
            throw atalla::Error(fmt::format("{}:{}: a packet breaks the contract of {}: {}", options.input.string(),
                                            placed.line, machine.name, *violation));
        }
    }
}

void assemble(const Options &options) {
    const atalla::Program program = atalla::assemble_file(options.input);
    if (!options.machine.empty()) {
        check_packets(program, options);
    }
    const auto comments = options.comments ? atalla::InComments::Assembly : atalla::InComments::None;
    if (options.output.empty()) {
        atalla::write_in(program, std::cout, comments);
    } else {
        atalla::write_in(program, options.output, comments);
    }
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Assembles Atalla A40 text to a .in program file; docs/isa.md describes both.", "atalla-asm");
    app.footer("Example:\n  atalla-asm kernel.s -o kernel.in --machine ax01");
    Options options;
    app.add_option("FILE", options.input, "Assembly text")->required();
    app.add_option("-o,--output", options.output, "Program file to write (standard output if not given)");
    app.add_option("--machine", options.machine, "Refuse packets that this machine cannot issue: a name or a machine file");
    app.add_flag("--comments", options.comments, "Write the assembly text of each packet beside it");
    return atalla::run_tool(app, argc, argv, [&] { assemble(options); });
}
