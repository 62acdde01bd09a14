#include "isa/program.h"

namespace atalla {

uint32_t Program::append(const Packet &packet, int32_t source) {
    const uint32_t address = packets.empty() ? 0 : packets.back().address + packet_bytes;
    packets.push_back({address, packet, source, 0});
    return address;
}

}  // namespace atalla
