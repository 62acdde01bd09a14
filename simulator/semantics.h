// What a packet does to the state; shared by the functional and the timing engine. The functions of the single instructions
// are in semantics_scalar.h, semantics_vector.h and semantics_memory.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "isa/machine.h"
#include "isa/program.h"
#include "simulator/machine_state.h"
#include "simulator/refusal.h"

namespace atalla {

// A packet without its nops, in slot order.
struct DecodedPacket {
    std::array<Instruction, 4> slot{};
    uint32_t address = 0;
    uint8_t count = 0;
    // The vectors that the next gemm.vv behind the one of this packet multiply, as far as they may be computed together with
    // it; 0 behind the last.
    std::array<uint8_t, RowsAhead::capacity - 1> rows_ahead{};
};
static_assert(sizeof(DecodedPacket) == 56);
DecodedPacket decode_packet(const PlacedPacket &packet);

struct PacketOutcome {
    int64_t next_pc = 0;
    bool halted = false;
    bool taken = false;  // a jump, or a branch whose condition held, decided next_pc
};

// What a packet does, compiled for a host: which vector instructions it uses changes no bit.
struct PacketCode {
    // Executes all slots, one after the other, later slots seeing the results of earlier ones; a halt does not keep later
    // slots from executing. Does not touch state.pc. Throws Refusal for what the machine refuses; earlier slots of the packet
    // have then taken effect. On hardware, rows of the array only join those that wait in state.rows.
    PacketOutcome (*execute)(MachineState &state, const DecodedPacket &packet);
    // Executes the first of these packets and, as long as it goes on with the next of them, that one: no more than `left`,
    // which it counts down. Counts in `issues` how often each was executed. Sets state.pc to each packet's address before it
    // executes.
    PacketOutcome (*execute_straight)(MachineState &state, std::span<const DecodedPacket> packets, uint64_t *issues,
                                      uint64_t &left);
    // Computes the rows that wait. Before a packet that names one of their destinations, loads weights or finds no place.
    void (*finish_rows)(MachineState &state);
};
// The code for a host whose instructions take `width` lanes (widest_vectors() of lanes.h and less).
template <MachineModel model>
PacketCode packet_code(int width);
// For this host.
extern const PacketCode hardware_code, functional_code;
// What is left of a hardware packet where lanes are skipped (LaneValues::Skipped): scalars, traffic, and what is refused.
extern const PacketCode scalar_code;

// Executes a packet and its rows; none waits.
template <MachineModel model>
PacketOutcome execute_packet(MachineState &state, const DecodedPacket &packet) {
    struct FinishedRows {
        const PacketCode &code;
        MachineState &state;
        ~FinishedRows() { code.finish_rows(state); }
    } finished{model == MachineModel::Hardware ? hardware_code : functional_code, state};
    return finished.code.execute(state, packet);
}

// The operands of a scpad.* as its registers give them now (isa reference 2.4): a tile of `rows` x `columns` bf16 elements,
// row r at memory byte `address + 2 * pitch * r`, in pad rows `pad_row + r`.
struct DmaTile {
    uint32_t pad = 0, pad_row = 0;
    uint32_t rows = 0, columns = 0;  // 1 to 32
    uint32_t pitch = 0;              // elements
    uint32_t address = 0;
    // Bytes of memory from the first one to the last one.
    uint64_t spread() const { return 2 * (uint64_t{pitch} * (rows - 1) + columns); }
};
template <MachineModel model>
inline DmaTile dma_tile(const MachineState &state, const Instruction &i) {
    const uint32_t control = state.x[i.b];
    const uint32_t columns = (control >> 20 & 31) + 1, pitch_field = control & 0xFFFFF;
    // Upstream's functional simulator reads a pitch field of 0 as "as wide as the tile".
    const uint32_t pitch = model == MachineModel::Functional && pitch_field == 0 ? columns : pitch_field + 1;
    return {control >> 30, state.x[i.d] / 64, (control >> 25 & 31) + 1, columns, pitch, state.x[i.a]};
}

// The pad row that a vreg.* names (microarchitecture rule 25).
inline uint32_t vreg_row(const MachineState &state, const Instruction &i) {
    const uint64_t row = uint64_t{state.x[i.a] / 64} + state.x[i.b];
    const uint64_t rows = static_cast<uint64_t>(state.pad_rows);
    return static_cast<uint32_t>(row < rows ? row : row % rows);
}

}  // namespace atalla
