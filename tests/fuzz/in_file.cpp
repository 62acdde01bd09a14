// Fuzz target of the `.in` reader: an accepted program is written and read back unchanged.
#include "isa/in_file.h"

#include <sstream>

#include "isa/error.h"
#include "tests/fuzz/fuzz.h"

using namespace atalla;

namespace {

Program without_lines(Program program) {
    for (PlacedPacket &packet : program.packets) packet.line = 0;
    return program;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    std::istringstream input(std::string(reinterpret_cast<const char *>(bytes), size));
    try {
        const Program program = without_lines(read_in(input, "input"));
        for (const InComments comments : {InComments::None, InComments::Assembly}) {
            std::stringstream written;
            write_in(program, written, comments);
            const Program again = without_lines(read_in(written, "written"));
            require(again.packets == program.packets, "packets are the same after writing and reading");
            require(again.data == program.data, "data words are the same after writing and reading");
        }
    } catch (const Error &) {
    }
    return 0;
}
