// The packet contract: what one packet may hold on a machine, so that the hardware drops nothing silently.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "isa/machine.h"
#include "isa/program.h"

namespace atalla {

// The pad of each slot's scpad.* operation, -1 where unknown: it is a field of a register, known at run time only.
using PacketPads = std::array<int8_t, 4>;
constexpr PacketPads unknown_pads = {-1, -1, -1, -1};

// The first rule that the packet breaks, as a sentence that names slots, operations and the resource; nothing if it
// keeps the contract (isa reference section 5.1, microarchitecture rule 50; limits from machine.issue). Checked in this
// order: defined opcodes, slots, scalar units, lane units, array, move-to-scalar, vector loads and stores and transfers
// per pad, register read ports (as encoded: x0, v0 and m0 count), then no slot reads (RAW) or writes (WAW) a register
// that an earlier slot writes, x0, v0 and m0 excepted.
std::optional<std::string> check_packet(const Packet &packet, const Machine &machine, const PacketPads &pads = unknown_pads);

}  // namespace atalla
