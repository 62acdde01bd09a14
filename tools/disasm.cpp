// atalla-disasm: a `.in` program file to assembly text; also prints the instruction set.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "isa/disassembler.h"
#include "isa/error.h"
#include "isa/in_file.h"
#include "isa/isa_document.h"
#include "tools/run_tool.h"

namespace {

struct Options {
    std::filesystem::path input;
    std::filesystem::path output;
    bool table = false;
};

void write(const std::string &text, const std::filesystem::path &file) {
    std::ofstream created;
    if (!file.empty()) {
        created.open(file, std::ios::binary | std::ios::trunc);
    }
    std::ostream &output = file.empty() ? std::cout : created;
    output << text << std::flush;
    if (!output) {
        throw atalla::Error(
            fmt::format("{}: cannot be written: {}", file.empty() ? "standard output" : file.string(), std::strerror(errno)));
    }
}

void disassemble(const Options &options) {
    if (options.table) {
        write(atalla::isa_document(), options.output);
        return;
    }
    if (options.input.empty()) {
        throw atalla::Error("name a .in file, or ask for --table; see atalla-disasm --help");
    }
    write(atalla::disassemble(atalla::read_in(options.input)), options.output);
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Prints a .in program file as Atalla A40 assembly text, which atalla-asm turns back into the same program.",
                 "atalla-disasm");
    app.footer("Examples:\n  atalla-disasm kernel.in -o kernel.s\n  atalla-disasm --table > docs/isa.md");
    Options options;
    const auto *file = app.add_option("FILE", options.input, "Program file");
    app.add_option("-o,--output", options.output, "File to write (standard output if not given)");
    app.add_flag("--table", options.table, "Print the instruction set as Markdown instead")->excludes(file->get_name());
    return atalla::run_tool(app, argc, argv, [&] { disassemble(options); });
}
