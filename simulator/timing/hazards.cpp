#include "simulator/timing/hazards.h"

#include <fmt/format.h>

namespace atalla::timing {

namespace {

uint64_t row_begin(const DmaTile &tile, uint64_t row) { return tile.address + 2 * row * tile.pitch; }
uint64_t tile_end(const DmaTile &tile) { return row_begin(tile, tile.rows - 1) + 2 * uint64_t{tile.columns}; }

const char *transfer_mnemonic(const Transfer &transfer) { return transfer.is_load ? "scpad.ld" : "scpad.st"; }

}  // namespace

bool overlap(const DmaTile &tile, uint32_t address, uint32_t bytes) {
    const uint64_t end = uint64_t{address} + bytes;
    if (end <= tile.address || address >= tile_end(tile)) {
        return false;
    }
    for (uint32_t row = 0; row < tile.rows; row++) {
        const uint64_t begin = row_begin(tile, row);
        if (begin < end && address < begin + 2 * uint64_t{tile.columns}) {
            return true;
        }
    }
    return false;
}

// Rows ascend in memory and do not overlap within a tile, so both tiles are walked together.
bool overlap(const DmaTile &one, const DmaTile &other) {
    if (tile_end(one) <= other.address || tile_end(other) <= one.address) {
        return false;
    }
    uint32_t row = 0, other_row = 0;
    while (row < one.rows && other_row < other.rows) {
        const uint64_t begin = row_begin(one, row), end = begin + 2 * uint64_t{one.columns};
        const uint64_t other_begin = row_begin(other, other_row), other_end = other_begin + 2 * uint64_t{other.columns};
        if (end <= other_begin) {
            row++;
        } else if (other_end <= begin) {
            other_row++;
        } else {
            return true;
        }
    }
    return false;
}

std::string Hazards::packet_name(int32_t packet) const {
    const PlacedPacket &placed = program_.packets[static_cast<size_t>(packet)];
    return placed.line > 0 ? fmt::format("packet 0x{:08X} (line {})", placed.address, placed.line)
                           : fmt::format("packet 0x{:08X}", placed.address);
}

std::string Hazards::transfer_name(const Transfer &transfer, Cycle now) const {
    const bool in_flight = dma_.in_flight(transfer.tile.pad, now) == &transfer;
    return in_flight ? fmt::format("the {} of {} in flight", transfer_mnemonic(transfer), packet_name(transfer.packet))
                     : fmt::format("the {} of the same packet", transfer_mnemonic(transfer));
}

void Hazards::refuse_overtaking(uint32_t pad, const PadRequest &late, const PadRequest &early, Cycle now) const {
    throw PacketRefusal{late.packet,
                        {"51", fmt::format("its {} of row {} of pad {} starts in cycle {}, while the older {} by {} "
                                           "still waits; leave the pad more time or use another row",
                                           late.write ? "write" : "read", late.row, pad, now, early.write ? "write" : "read",
                                           packet_name(early.packet))}};
}

// The first transfer in flight, or else of the packet itself, with which there is a conflict.
template <class Conflict>
const Transfer *Hazards::find_transfer(std::span<const Transfer> own, Cycle now, Conflict &&conflict) const {
    for (uint32_t pad = 0; pad < 4; pad++) {
        const Transfer *transfer = dma_.in_flight(pad, now);
        if (transfer != nullptr && conflict(*transfer)) {
            return transfer;
        }
    }
    for (const Transfer &transfer : own) {
        if (conflict(transfer)) {
            return &transfer;
        }
    }
    return nullptr;
}

void Hazards::refuse_vector_access(const Instruction &access, uint32_t row, const Transfer &transfer, Cycle now) const {
    refuse("53", fmt::format("{} {} row {} of pad {}, which belongs to {}; wait for the transfer by its rs1",
                             info(access.op).mnemonic, access.op == Opcode::vreg_st ? "writes" : "reads", row, access.aux,
                             transfer_name(transfer, now)));
}

void Hazards::check_scalar_access(const Instruction &access, uint32_t address, std::span<const Transfer> own, Cycle now) const {
    const bool is_store = access.op == Opcode::sw_s || access.op == Opcode::shw_s;
    const uint32_t bytes = access.op == Opcode::lw_s || access.op == Opcode::sw_s ? 4 : 2;
    const Transfer *transfer = find_transfer(
        own, now, [&](const Transfer &other) { return (is_store || !other.is_load) && overlap(other.tile, address, bytes); });
    if (transfer != nullptr) [[unlikely]] {
        refuse("53", fmt::format("{} touches memory at 0x{:08X}, which belongs to {}; wait for the transfer by its rs1",
                                 info(access.op).mnemonic, address, transfer_name(*transfer, now)));
    }
}

void Hazards::check_transfer(std::span<const Transfer> own, size_t index, Cycle now) const {
    const Transfer &issued = own[index];
    const Transfer *transfer = find_transfer(own.first(index), now, [&](const Transfer &other) {
        return !(issued.is_load && other.is_load) && overlap(issued.tile, other.tile);
    });
    if (transfer != nullptr) [[unlikely]] {
        refuse("53", fmt::format("{} of memory at 0x{:08X} overlaps the bytes of {}; wait for that transfer by its rs1",
                                 transfer_mnemonic(issued), issued.tile.address, transfer_name(*transfer, now)));
    }
}

}  // namespace atalla::timing
