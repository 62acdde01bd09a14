#include "simulator/profile/labels.h"

#include <algorithm>

#include <fmt/format.h>

#include "isa/disassembler.h"

namespace atalla {

namespace {

// The operation in the given place of the packet, nops left out; nullptr if it has fewer.
const Instruction *operation_at(const PlacedPacket &packet, int place) {
    for (const Instruction &slot : packet.packet) {
        if (!slot.is_nop() && place-- == 0) {
            return &slot;
        }
    }
    return nullptr;
}

template <class Wanted>
std::string name_of(const PlacedPacket &packet, Wanted &&wanted) {
    const auto found = std::ranges::find_if(packet.packet, wanted);
    return found == packet.packet.end() ? std::string() : assembly_text(*found);
}

}  // namespace

std::string slice_name(const Slice &slice, const Track &track, const Program &program) {
    constexpr const char *masters[] = {"instruction cache", "data cache", "DMA 0", "DMA 1", "DMA 2", "DMA 3"};
    const PlacedPacket *packet = slice.packet >= 0 ? &program.packets[static_cast<size_t>(slice.packet)] : nullptr;
    switch (slice.kind) {
        case SliceKind::Packet: {
            const std::string text = assembly_text(packet->packet);
            return text.empty() ? "nop.s" : text;
        }
        case SliceKind::Wait:
            return stall_name(static_cast<Stall>(slice.detail));
        case SliceKind::Operation: {
            const Instruction *operation = operation_at(*packet, slice.slot);
            return operation == nullptr ? std::string() : assembly_text(*operation);
        }
        case SliceKind::Access: {
            const Opcode op = track.kind == TrackKind::PadWrite ? Opcode::vreg_st : Opcode::vreg_ld;
            return name_of(*packet, [&](const Instruction &i) { return i.op == op && i.aux == track.index; });
        }
        case SliceKind::Transfer: {
            const Opcode op = track.kind == TrackKind::PadWrite ? Opcode::scpad_ld : Opcode::scpad_st;
            return name_of(*packet, [&](const Instruction &i) { return i.op == op; });
        }
        case SliceKind::OpenRow:
            return fmt::format("open row {}", slice.detail);
        case SliceKind::ReadBeat:
            return fmt::format("read for {}", masters[slice.slot]);
        case SliceKind::WriteBeat:
            return fmt::format("write for {}", masters[slice.slot]);
    }
    return {};
}

std::string part_of(int32_t packet, const Program &program) {
    if (packet < 0) {
        return {};
    }
    const PlacedPacket &placed = program.packets[static_cast<size_t>(packet)];
    if (placed.source >= 0 && static_cast<size_t>(placed.source) < program.sources.size()) {
        const SourceLocation &source = program.sources[static_cast<size_t>(placed.source)];
        std::string text = source.func;
        if (!source.loop.empty()) {
            text += (text.empty() ? "" : " / ") + source.loop;
        }
        return source.node.empty() ? text : fmt::format("{} ({})", text, source.node);
    }
    // The label of the highest address that is not behind the packet.
    const std::pair<const std::string, uint32_t> *nearest = nullptr;
    for (const auto &symbol : program.symbols) {
        if (symbol.second <= placed.address && (nearest == nullptr || symbol.second > nearest->second)) {
            nearest = &symbol;
        }
    }
    return nearest != nullptr ? nearest->first : std::string();
}

std::string origin_of(int32_t packet, const Program &program) {
    const std::string part = part_of(packet, program);
    const int32_t line = packet >= 0 ? program.packets[static_cast<size_t>(packet)].line : 0;
    return part.empty() && line > 0 ? fmt::format("line {}", line) : part;
}

}  // namespace atalla
