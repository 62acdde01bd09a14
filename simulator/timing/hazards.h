// What the hardware would silently get wrong in memory and pads: refused, with both packets named (rules 51 and 53).
#pragma once

#include <span>
#include <string>

#include "isa/program.h"
#include "simulator/refusal.h"
#include "simulator/timing/cycle.h"
#include "simulator/timing/dma.h"

namespace atalla::timing {

// A refusal of a packet that need not be the one that issues.
struct PacketRefusal {
    int32_t packet;  // index in the program
    Refusal refusal;
};

// A row access on its way through VLSU or DMA engine and pad.
struct PadRequest {
    uint64_t order = 0;    // of its packet in the order of issue
    Cycle present_at = 0;  // VLSU: presented to the pad from then on
    int32_t packet = -1;   // index in the program
    uint32_t row = 0;
    RegisterId destination = no_register;  // of a vreg.ld
    bool write = false;
    bool of_transfer = false;
};

class Hazards {
public:
    Hazards(const Program &program, const Dma &dma) : program_(program), dma_(dma) {}

    // Rule 51: `late` starts on a pad while `early` has not.
    [[noreturn]] void refuse_overtaking(uint32_t pad, const PadRequest &late, const PadRequest &early, Cycle now) const;

    // Rule 53, for an operation that issues now in a packet that also starts the transfers `own`. They throw Refusal.
    void check_vector_access(const Instruction &access, uint32_t row, std::span<const Transfer> own, Cycle now) const {
        const auto check = [&](const Transfer &transfer) {
            const bool same_row = transfer.tile.pad == access.aux && row - transfer.tile.pad_row < transfer.tile.rows;
            if (same_row && (access.op == Opcode::vreg_st || transfer.is_load)) [[unlikely]] {
                refuse_vector_access(access, row, transfer, now);
            }
        };
        if (const Transfer *in_flight = dma_.in_flight(access.aux, now)) {
            check(*in_flight);
        }
        for (const Transfer &transfer : own) {
            check(transfer);
        }
    }
    [[gnu::noinline]] void check_scalar_access(const Instruction &access, uint32_t address, std::span<const Transfer> own,
                                               Cycle now) const;
    // `own[index]` against the transfers in flight and those before it in its packet.
    [[gnu::noinline]] void check_transfer(std::span<const Transfer> own, size_t index, Cycle now) const;

private:
    [[noreturn]] void refuse_vector_access(const Instruction &access, uint32_t row, const Transfer &transfer, Cycle now) const;
    template <class Conflict>
    const Transfer *find_transfer(std::span<const Transfer> own, Cycle now, Conflict &&conflict) const;
    std::string packet_name(int32_t packet) const;
    std::string transfer_name(const Transfer &transfer, Cycle now) const;

    const Program &program_;
    const Dma &dma_;
};

// Whether two tiles have a byte of memory in common.
bool overlap(const DmaTile &one, const DmaTile &other);
// Whether bytes address .. address+bytes-1 hold a byte of the tile.
bool overlap(const DmaTile &tile, uint32_t address, uint32_t bytes);

}  // namespace atalla::timing
