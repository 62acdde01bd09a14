// Fuzz target of the import filter for A48 `.in` files.
#include <algorithm>
#include <sstream>

#include "isa/a48.h"
#include "isa/error.h"
#include "tests/fuzz/fuzz.h"

using namespace atalla;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    std::istringstream input(std::string(reinterpret_cast<const char *>(bytes), size));
    try {
        const a48::Program program = a48::read_in(input, "input");
        require(std::ranges::is_sorted(program.packets, std::ranges::less{}, &a48::PlacedPacket::address),
                "packets ascend by address");
        for (const a48::PlacedPacket &packet : program.packets) {
            for (const a48::Instruction &slot : packet.packet) {
                require(a48::find_instruction(slot.op) != nullptr, "every accepted opcode is defined");
            }
        }
    } catch (const Error &) {
    }
    return 0;
}
