// Fuzz target of the assembler: an accepted program is disassembled and assembled back to the same packets and data.
#include <string_view>

#include "isa/assembler.h"
#include "isa/disassembler.h"
#include "isa/error.h"
#include "tests/fuzz/fuzz.h"

using namespace atalla;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    Program program;
    try {
        program = assemble({reinterpret_cast<const char *>(bytes), size});
    } catch (const Error &) {
        return 0;
    }
    Program again = assemble(disassemble(program), "disassembled");
    require(again.packets.size() == program.packets.size(), "as many packets after disassembling and assembling");
    for (size_t index = 0; index < again.packets.size(); index++) {
        require(again.packets[index].address == program.packets[index].address, "packets keep their address");
        require(again.packets[index].packet == program.packets[index].packet, "packets keep their operations");
    }
    require(again.data == program.data, "data words are the same after disassembling and assembling");
    require(again.symbols == program.symbols, "symbols are the same after disassembling and assembling");
    return 0;
}
